package backup

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
)

// ErrRingMoved means that the ring has changed between a backup and a moment. The log of a node that has gained a range
// lacks the rows that it has ingested from the former replica, and the log of that one ends with the change.
var ErrRingMoved = errors.New("the ring has changed between the backup and the moment: make a backup after each " +
	"change of the ring; only moments before the change, or after a later backup, can be restored")

// StateAt returns the state that a cluster had at a moment, from what the nodes of a backup have observed. since is the
// hybrid time of the backup. Nodes apply a change one after the other: it counts from the first one on.
//
//	node 1 ──▶ state 4 ─────────▶ state 5 ──────────────
//	node 2 ──────▶ state 4 ───────────────▶ state 5 ────
//	                              └ a moment from here on has state 5
//
// A client is answered when all live nodes have applied a change, so that rows of a new table are restored with it. A
// moment during a change may have either state.
func StateAt(all []Observed, since, at int64) (Observed, error) {
	// Epochs increase with each change of the metadata, also if clocks go back.
	var found *Observed
	for i, o := range all {
		if o.Time <= at && (found == nil || o.Epoch > found.Epoch) {
			found = &all[i]
		}
	}
	if found == nil {
		return Observed{}, errors.New("no schema was archived before the moment: set backup_log on all nodes, make a " +
			"backup, and restore a moment after it")
	}
	for _, o := range all {
		// A node does not know when it has applied the change, unless another one does.
		exact := slices.ContainsFunc(all, func(p Observed) bool {
			return p.Unknown == 0 && p.Epoch > found.Epoch && p.Epoch <= o.Epoch
		})
		if o.Unknown != 0 && o.Unknown <= at && at < o.Time && o.Epoch > found.Epoch && !exact {
			return Observed{}, fmt.Errorf("the schema, the roles or the ring have changed between %s and %s, and when "+
				"was not archived: restore a moment before or after", Moment(o.Unknown), Moment(o.Time))
		}
		// Also if the ring is the same in the end: rows have moved to another node and back.
		if o.Time > since && o.Time <= at && o.Moved != found.Moved {
			return Observed{}, ErrRingMoved
		}
	}
	return *found, nil
}

// MomentState returns the state of the backup's cluster at a moment after the backup, and its hash.
func (s Logs) MomentState(ctx context.Context, m *Manifest, at int64) (*State, string, error) {
	var all []Observed
	// Nodes that have joined later are not asked: their joining shows in what the members have observed.
	for _, member := range m.Members {
		observed, err := s.Observations(ctx, LogOwner{m.ClusterID, member.Host})
		if err != nil {
			return nil, "", err
		}
		all = append(all, observed...)
	}
	o, err := StateAt(all, m.HybridTime, at)
	if err != nil {
		return nil, "", err
	}
	t, err := s.State(ctx, m.ClusterID, o.Hash)
	if err == nil && !slices.EqualFunc(t.Members, m.Members, Member.equal) {
		err = ErrRingMoved
	}
	return t, o.Hash, err
}

// Clusters returns the identifiers of the clusters that have archived logs.
func (s Logs) Clusters(ctx context.Context) ([]string, error) {
	names, err := s.store.files.list(ctx, logsDir)
	if err != nil {
		return nil, s.store.failed("list", err)
	}
	return slices.DeleteFunc(names, func(name string) bool { return CheckName(name) != nil }), nil
}

// Moments returns the hybrid time until which moments after a backup can be restored. from are the beginnings of the
// logs, in the order of the shares. If there is none, the error says why, for example a *LogProblem.
func (s Logs) Moments(ctx context.Context, m *Manifest, from []LogFrom) (until int64, err error) {
	until = math.MaxInt64
	var all []Observed
	// The last moment of the node whose archive ends first.
	for i, share := range m.Shares {
		of := LogOwner{m.ClusterID, share.Host}
		// No archive leads to the end of time: the problem says how far it leads.
		_, err := s.Way(ctx, of, from[i], math.MaxInt64)
		var end *LogProblem
		if !errors.As(err, &end) || end.From == 0 {
			return 0, err
		}
		until = min(until, end.From)
		observed, err := s.Observations(ctx, of)
		if err != nil {
			return 0, err
		}
		all = append(all, observed...)
	}
	base, err := StateAt(all, m.HybridTime, m.HybridTime)
	if err != nil {
		return 0, err
	}
	// Moments before the first change of the ring can be restored.
	for _, o := range all {
		if o.Time > m.HybridTime && o.Moved != base.Moved {
			until = min(until, o.Time-1)
		}
	}
	if until <= m.Ended.UnixMicro() {
		return 0, fmt.Errorf("nothing is archived after the backup yet: the archive ends at %s", Moment(until))
	}
	return until, nil
}
