package backup

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
)

// ErrRingMoved means that the ring has changed between a backup and a moment while a node ran a build of cqld that did
// not log the rows which it got from others.
var ErrRingMoved = errors.New("the ring has changed between the backup and the moment, with a node whose cqld does " +
	"not log rows that it gets from other nodes: upgrade all nodes, and make a backup; only moments before the " +
	"change, or after a later backup, can be restored")

// StateAt returns the state that a cluster had at a moment, from what its nodes have observed. Nodes apply a change one
// after the other: it counts from the first one on.
//
//	node 1 ──▶ state 4 ─────────▶ state 5 ──────────────
//	node 2 ──────▶ state 4 ───────────────▶ state 5 ────
//	                              └ a moment from here on has state 5
//
// A client is answered when all live nodes have applied a change, so that rows of a new table are restored with it. A
// moment during a change may have either state.
func StateAt(all []Observed, at int64) (Observed, error) {
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
	}
	return *found, nil
}

// MomentState is the state of a cluster at a moment after a backup.
type MomentState struct {
	*State
	Hash string // of the state
	// Changed means that the ring has changed between the backup and the moment, also if it is the same in the end:
	// rows have moved to another node and back.
	Changed bool
}

// MomentState returns the state of the backup's cluster at a moment after the backup. hash is empty, or of the state
// that another node has found.
func (s Logs) MomentState(ctx context.Context, m *Manifest, at int64, hash string) (x MomentState, err error) {
	all, err := s.observed(ctx, m.ClusterID)
	if err != nil {
		return x, err
	}
	if x.Hash = hash; hash == "" {
		o, err := StateAt(all, at)
		if err != nil {
			return x, err
		}
		x.Hash = o.Hash
	}
	if x.State, err = s.State(ctx, m.ClusterID, x.Hash); err != nil {
		return x, err
	}
	for _, o := range all {
		x.Changed = x.Changed || o.Time > m.HybridTime && o.Time <= at && o.Moved != x.Moved
	}
	x.Changed = x.Changed || !slices.EqualFunc(x.Members, m.Members, Member.equal)
	if x.Changed && !x.Owners {
		err = ErrRingMoved
	}
	return x, err
}

// observed returns what all nodes of a cluster have observed, also those that have left.
func (s Logs) observed(ctx context.Context, cluster string) (all []Observed, err error) {
	hosts, err := s.hosts(ctx, cluster)
	if err != nil {
		return nil, err
	}
	for _, host := range hosts {
		observed, err := s.Observations(ctx, LogOwner{cluster, host})
		if err != nil {
			return nil, err
		}
		all = append(all, observed...)
	}
	return all, nil
}

// hosts returns the host ids of the nodes of a cluster that have archived logs.
func (s Logs) hosts(ctx context.Context, cluster string) ([]string, error) {
	if err := CheckName(cluster); err != nil {
		return nil, err
	}
	names, err := s.store.files.list(ctx, logsDir+"/"+cluster)
	if err != nil {
		return nil, s.store.failed("list", err)
	}
	// Besides nodes, there is the directory of states.
	return slices.DeleteFunc(names, func(name string) bool { return name == statesDir || CheckName(name) != nil }), nil
}

// From returns where the log of a member at a moment begins that a restoration needs. from are the beginnings for the
// nodes of the backup, in the order of its shares.
func (s Logs) From(ctx context.Context, m *Manifest, from []LogFrom, host string) (LogFrom, error) {
	if i := m.ShareOf(host); i >= 0 {
		return from[i], nil
	}
	p, found, err := s.Beginning(ctx, LogOwner{m.ClusterID, host})
	if err == nil && !found {
		err = fmt.Errorf("node %s has joined after the backup, and its log is not archived from its beginning: set "+
			"backup_log before a node joins; only moments before it joined, or after a later backup, can be restored",
			host)
	}
	return LogFrom{Time: p.Since, Beginning: p}, err
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
// logs, in the order of the shares. If there is none, the error says why, for example a *LogProblem. Moments before it
// may be missing: those in which a member was down that was removed later.
func (s Logs) Moments(ctx context.Context, m *Manifest, from []LogFrom) (until int64, err error) {
	all, err := s.observed(ctx, m.ClusterID)
	if err != nil {
		return 0, err
	}
	// From the current ring to earlier ones, to the last moment of the member whose archive ends first.
	for end := int64(math.MaxInt64); end > m.Ended.UnixMicro(); {
		o, problem := StateAt(all, end)
		var t *State
		if problem == nil {
			t, problem = s.State(ctx, m.ClusterID, o.Hash)
		}
		if problem != nil {
			return 0, errors.Join(err, problem)
		}
		begins := end
		for _, p := range all {
			if p.Moved == o.Moved {
				begins = min(begins, p.Time)
			}
		}
		until, problem = s.untilOf(ctx, m, from, t)
		until = min(until, end)
		if begins = max(begins, m.Ended.UnixMicro()+1); problem == nil && until >= begins {
			return until, nil
		}
		// The first problem concerns the current ring.
		if err == nil {
			err = problem
		}
		end = begins - 1
	}
	if err == nil {
		err = fmt.Errorf("nothing is archived after the backup yet: the archive ends at %s", Moment(until))
	}
	return 0, err
}

// untilOf returns the last moment of the member whose archive ends first.
func (s Logs) untilOf(ctx context.Context, m *Manifest, from []LogFrom, t *State) (until int64, err error) {
	until = math.MaxInt64
	for _, member := range t.Members {
		begins, err := s.From(ctx, m, from, member.Host)
		if err != nil {
			return 0, err
		}
		// No archive leads to the end of time: the problem says how far it leads.
		_, err = s.Way(ctx, LogOwner{m.ClusterID, member.Host}, begins, math.MaxInt64)
		var end *LogProblem
		if !errors.As(err, &end) || end.From == 0 {
			return 0, err
		}
		until = min(until, end.From)
	}
	return until, nil
}
