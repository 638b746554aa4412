package backup

import (
	"context"
	"slices"
	"time"
)

// logMargin is how much older than its backup the part of a log may be with which the recovery of the backup begins. It
// is usually of the last seconds before the backup.
const logMargin = 24 * time.Hour

// sweep removes the parts of archived logs that no backup needs, and adds them to out. kept are all backups that are
// not removed. What was archived after a time stays: a first backup may follow.
func (s Logs) sweep(ctx context.Context, out Swept, kept []*Manifest, before time.Time) (Swept, error) {
	clusters, err := s.Clusters(ctx)
	if err != nil {
		return out, err
	}
	for _, cluster := range clusters {
		// The log that follows the oldest backup leads to all later moments; younger backups need parts of it.
		bound, needed := before.UnixMicro(), false
		for _, m := range kept {
			if m.ClusterID == cluster {
				bound, needed = min(bound, m.HybridTime), true
			}
		}
		bound -= logMargin.Microseconds()
		hosts, err := s.hosts(ctx, cluster)
		if err != nil {
			return out, err
		}
		// Nodes that are no longer members are visited as well: older backups may be of their ring.
		used := map[string]bool{}
		for _, host := range hosts {
			of := LogOwner{cluster, host}
			if out, err = s.sweepOf(ctx, out, of, bound, needed); err != nil {
				return out, err
			}
			observed, err := s.Observations(ctx, of)
			if err != nil {
				return out, err
			}
			for _, o := range observed {
				used[o.Hash] = true
			}
		}
		if err := s.sweepStates(ctx, cluster, used, before); err != nil {
			return out, err
		}
	}
	return out, nil
}

// sweepOf removes what is older than bound, a hybrid time, from the log of one node. needed means that there is a
// backup of the cluster. The newest of what is older stays: it may be current until bound.
func (s Logs) sweepOf(ctx context.Context, out Swept, of LogOwner, bound int64, needed bool) (Swept, error) {
	dir, err := of.dir()
	if err != nil {
		return out, err
	}
	hours, err := s.hours(ctx, of)
	if err != nil {
		return out, err
	}
	end, err := s.End(ctx, of)
	if err != nil {
		return out, err
	}
	// A segment of an idle node may be much older than the backup that begins in it, so the last one before the bound
	// stays, however old it is.
	first, _ := slices.BinarySearch(hours, hour(bound))
	// Without a backup, the log of a node that no longer archives is of no use.
	over := !needed && end.Until < bound
	if !over {
		first = max(first-1, 0)
	}
	// Whole hours, the oldest first: an interrupted sweep leaves no gap in what is needed.
	for _, h := range hours[:first] {
		all, err := s.segmentsIn(ctx, of, h)
		if err == nil {
			err = s.store.files.removeAll(ctx, dir+segmentsInfix+"/"+h)
		}
		if err != nil {
			return out, s.store.failed("remove segments", err)
		}
		for _, g := range all {
			out.Segments, out.Bytes = out.Segments+1, out.Bytes+g.Size
		}
	}
	if over {
		if err := s.store.files.removeAll(ctx, dir); err != nil {
			return out, s.store.failed("remove "+dir, err)
		}
		return out, nil
	}
	observed, err := s.Observations(ctx, of)
	if err != nil {
		return out, err
	}
	for i, o := range observed {
		// The next one is older than bound as well.
		if i+1 < len(observed) && observed[i+1].Time < bound {
			if err := s.store.files.remove(ctx, dir+observedInfix+"/"+o.name()); err != nil {
				return out, s.store.failed("remove states", err)
			}
		}
	}
	return out, nil
}

// sweepStates removes states that no node has observed. A node stores a state before its observation, so new ones stay.
func (s Logs) sweepStates(ctx context.Context, cluster string, used map[string]bool, before time.Time) error {
	dir := logsDir + "/" + cluster + "/" + statesDir
	names, err := s.store.files.list(ctx, dir)
	if err != nil {
		return s.store.failed("list", err)
	}
	for _, name := range names {
		hash := name[:max(len(name)-len(stateSuffix), 0)]
		if used[hash] || name != hash+stateSuffix {
			continue
		}
		// Another sweep may have removed it.
		info, err := s.store.files.stat(ctx, dir+"/"+name)
		if err == nil && !info.Modified.After(before) {
			err = s.store.files.remove(ctx, dir+"/"+name)
		}
		if err != nil && !missing(err) {
			return s.store.failed("remove "+name, err)
		}
	}
	return nil
}
