package rebalance

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"cqld/ring"
	"cqld/schema"
)

// RebuildError reports ranges that could not be streamed. All others are on this node.
//
// A rebuild continues after a failure, so First need not be the only cause.
type RebuildError struct {
	// Ranges counts sessions: a range of one table from one source.
	Failed, Ranges int
	First          error
}

// Error returns the number of failed ranges and the first cause.
func (e *RebuildError) Error() string {
	return fmt.Sprintf("%d of %d ranges could not be fetched: %v", e.Failed, e.Ranges, e.First)
}

// Unwrap returns the first cause.
func (e *RebuildError) Unwrap() error { return e.First }

// errNoSource is the error of a range without a live source.
var errNoSource = errors.New("no live replica to stream it from")

// RebuildOptions describe what Rebuild streams. The zero value means all keyspaces, from any data center.
type RebuildOptions struct {
	// Name identifies the rebuild: another one of the same name continues with the ranges that are not done, if the
	// topology and the sources are the same. Empty means that each Rebuild streams everything.
	Name       string
	Keyspace   string
	Datacenter string // of the sources
	// Progress, which may be nil, receives the numbers of completed ranges and of all.
	Progress func(done, all int)
}

// Rebuild streams all ranges that this node holds from another replica of each range: for a new data center, or a node
// that lost data. It may be repeated: received rows are merged with the present ones. It calls done once. cancel, which
// may be called at any time, ends it with ErrCancelled; ranges that were received stay.
func (m *Movements) Rebuild(o RebuildOptions, done func(error)) (cancel func()) {
	v := &rebuild{m: m, o: o, done: done}
	v.mu.machine = newRebuildMachine(m.rebuildSessions(o))
	v.deliver(&rebuildEvent{kind: rebuildBegun})
	return func() { v.deliver(&rebuildEvent{kind: rebuildCancelled}) }
}

// rebuildSessions returns the sessions of a rebuild: one for each table, range and source, and one for the Paxos states
// of each keyspace.
func (m *Movements) rebuildSessions(o RebuildOptions) (all []Session) {
	t, self, catalog := m.o.View.Topology(), m.o.View.Self(), m.o.View.Schema()
	name := o.Name
	// The records of unnamed rebuilds are removed as the sessions end, so the name need not be unique.
	if name == "" {
		name = fmt.Sprint(t.Epoch())
	}
	// The ranges without a source are reported in one error.
	unfetched := 0
	defer func() {
		if unfetched > 0 {
			m.o.Note(fmt.Sprintf("rebuild: %d ranges of system keyspaces have no live replica and are not fetched",
				unfetched))
		}
	}()
	for _, keyspace := range catalog.StoredKeyspaceNames() {
		k := catalog.StoredKeyspace(keyspace)
		if k.Replication.Class == ring.Local || o.Keyspace != "" && o.Keyspace != keyspace {
			continue
		}
		for _, r := range t.Placement(k.Replication).Ranges(ring.FullRange()) {
			// A range with one replica has no other one to stream from.
			if !r.Replicas.Contains(self) || len(r.Replicas.Natural) == 1 {
				continue
			}
			source := m.source(t, r.Replicas.Natural, o.Datacenter)
			// it never blocks a rebuild: its replicas may be in other data centers
			if schema.IsReplicatedSystem(keyspace) {
				if source = cmp.Or(source, m.source(t, r.Replicas.Natural, "")); source == 0 {
					unfetched++
					continue
				}
			}
			// The epoch is the last movement: since then this node has received all writes of the range.
			session := func(table schema.StorageID) Session {
				id := fmt.Sprintf("%s%d/%s/%d", rebuildPrefix(name), table, r.Range, source)
				return Session{Epoch: t.Moved(), Table: table, Range: r.Range, Source: source, ID: id, Restore: true}
			}
			for _, table := range tablesOf(k) {
				all = append(all, session(table))
			}
			// Keyspaces may have different replicas of one range, so the states of each have a separate session.
			states := session(schema.PaxosTable)
			states.ID, states.Keyspaces = states.ID+"/"+keyspace, []string{keyspace}
			all = append(all, states)
		}
	}
	return all
}

// rebuildPrefix is the prefix of the sessions of a rebuild.
func rebuildPrefix(name string) string { return "rebuild/" + name + "/" }

// ForgetRebuild removes the stored state of a rebuild that will not be continued.
func (m *Movements) ForgetRebuild(name string) error {
	return m.o.Streams.forgetAll(rebuildPrefix(name))
}

// source returns the first live replica in a data center other than this node, or zero.
func (m *Movements) source(t *ring.Topology, replicas []ring.NodeID, datacenter string) ring.NodeID {
	// The first live one in the order of the strategy.
	for _, id := range replicas {
		if id != m.o.View.Self() && m.o.View.Alive(id) && (datacenter == "" || t.Node(id).Datacenter == datacenter) {
			return id
		}
	}
	return 0
}

// rebuild is the shell of a rebuildMachine: it locks, steps, checks the invariants, unlocks, and performs the effects.
type rebuild struct {
	m    *Movements
	o    RebuildOptions
	done func(error)
	mu   struct {
		sync.Mutex
		machine rebuildMachine
	}
}

// deliver takes an event, and performs its effects in the caller's goroutine.
func (v *rebuild) deliver(ev *rebuildEvent) {
	// Effects may deliver further events, which nest: a session without a source ends at once.
	for _, e := range v.step(ev) {
		v.perform(&e)
	}
}

// step is the critical section of an event.
func (v *rebuild) step(ev *rebuildEvent) []rebuildEffect {
	v.mu.Lock()
	defer v.mu.Unlock()
	m := &v.mu.machine
	out := m.step(ev, nil)
	m.check()
	return out
}

// perform performs an effect without the lock.
func (v *rebuild) perform(e *rebuildEffect) {
	//exhaustive:enforce
	switch e.kind {
	case effectStart:
		v.start(e.session)
	case effectCancel:
		v.m.o.Streams.Cancel(e.session.ID)
	case effectProgress:
		if v.o.Progress != nil {
			v.o.Progress(e.completed, e.all)
		}
	case effectFinish:
		v.finish(e.err)
	}
}

// start starts a session. A session without a source ends at once, and so does a session after a cancellation.
func (v *rebuild) start(p Session) {
	switch {
	// The rebuild was canceled between the step and this effect.
	case v.cancelled():
		v.sessionEnded(p, ErrCancelled)
		return
	case p.Source == 0:
		v.sessionEnded(p, fmt.Errorf("range %s of %s: %w", p.Range, v.nameOf(p), errNoSource))
		return
	}
	v.m.o.Streams.Start(p, nil, func(err error) {
		switch {
		// A rebuild must not fail for a table that no longer exists.
		case v.m.o.View.Schema().Dropped(p.Table):
			err = nil // the table was dropped
		case err != nil && v.system(p) && !errors.Is(err, ErrCancelled):
			v.m.o.Note(fmt.Sprintf("rebuild: range %s of a system keyspace was not fetched: %v", p.Range, err))
			err = nil
		}
		v.sessionEnded(p, err)
	})
	// If the rebuild was cancelled during Start, the effect may have found no session to cancel.
	if v.cancelled() {
		v.m.o.Streams.Cancel(p.ID)
	}
}

// cancelled reports whether the rebuild was cancelled. The caller does not hold mu.
func (v *rebuild) cancelled() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.mu.machine.cancelled
}

// sessionEnded delivers the end of a session. Without a name its record is removed, so that another Rebuild streams the
// range again.
func (v *rebuild) sessionEnded(p Session, err error) {
	if err == nil && v.o.Name == "" {
		err = v.m.o.Streams.Forget(p.ID)
	}
	v.deliver(&rebuildEvent{kind: rebuildSessionEnded, session: p.ID, err: err})
}

// finish removes the records of a complete rebuild, and reports the end.
func (v *rebuild) finish(err error) {
	if err == nil && v.o.Name != "" {
		err = v.m.ForgetRebuild(v.o.Name)
	}
	v.done(err)
}

// nameOf names what a session fetches.
func (v *rebuild) nameOf(p Session) string {
	if t := v.m.o.View.Schema().TableByStorage(p.Table); p.Table != schema.PaxosTable && t != nil {
		return "table " + t.Keyspace + "." + t.Name
	}
	return "the Paxos state of " + strings.Join(p.Keyspaces, ", ")
}

// system reports whether a session fetches data of a system keyspace, which never makes a rebuild fail.
func (v *rebuild) system(p Session) bool {
	keyspaces := p.Keyspaces
	if t := v.m.o.View.Schema().TableByStorage(p.Table); p.Table != schema.PaxosTable && t != nil {
		keyspaces = []string{t.Keyspace}
	}
	return len(keyspaces) > 0 && !slices.ContainsFunc(keyspaces,
		func(name string) bool { return !schema.IsReplicatedSystem(name) })
}
