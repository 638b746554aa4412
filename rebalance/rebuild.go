package rebalance

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"cqld/internal/invariant"
	"cqld/ring"
	"cqld/schema"
)

// RebuildError reports ranges that could not be streamed. All others are on this node.
type RebuildError struct {
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
	v := &rebuild{m: m, o: o, done: done, all: m.rebuildSessions(o)}
	v.queued = v.all
	v.proceed()
	return v.cancel
}

// rebuildSessions returns the sessions of a rebuild: one for each table, range and source, and one for the Paxos states
// of each keyspace.
func (m *Movements) rebuildSessions(o RebuildOptions) (all []Session) {
	t, self, catalog := m.o.View.Topology(), m.o.View.Self(), m.o.View.Schema()
	name := o.Name
	if name == "" {
		name = fmt.Sprint(t.Epoch())
	}
	unfetched := 0
	defer func() {
		if unfetched > 0 {
			m.o.Note(fmt.Sprintf("rebuild: %d ranges of system keyspaces have no live replica and are not fetched",
				unfetched))
		}
	}()
	for _, keyspace := range catalog.KeyspaceNames() {
		k := catalog.Keyspace(keyspace)
		if k.Replication.Class == ring.Local || o.Keyspace != "" && o.Keyspace != keyspace {
			continue
		}
		for _, r := range t.Placement(k.Replication).Ranges(ring.FullRange()) {
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
			session := func(table schema.StorageID) Session {
				id := fmt.Sprintf("%s%d/%s/%d", rebuildPrefix(name), table, r.Range, source)
				return Session{Epoch: t.Moved(), Table: table, Range: r.Range, Source: source, ID: id, Restore: true}
			}
			for _, table := range tablesOf(k) {
				all = append(all, session(table))
			}
			states := session(schema.PaxosTable)
			states.ID, states.Keyspaces = states.ID+"/"+keyspace, []string{keyspace}
			all = append(all, states)
		}
	}
	return all
}

// rebuildPrefix is the prefix of the sessions of a rebuild.
func rebuildPrefix(name string) string { return "rebuild/" + name + "/" }

// ForgetRebuild removes what is stored of a rebuild that will not be continued.
func (m *Movements) ForgetRebuild(name string) error {
	return m.o.Streams.forgetAll(rebuildPrefix(name))
}

// source returns the first live replica in a data center other than this node, or zero.
func (m *Movements) source(t *ring.Topology, replicas []ring.NodeID, datacenter string) ring.NodeID {
	for _, id := range replicas {
		if id != m.o.View.Self() && m.o.View.Alive(id) && (datacenter == "" || t.Node(id).Datacenter == datacenter) {
			return id
		}
	}
	return 0
}

// rebuild is the state of one Rebuild.
type rebuild struct {
	m    *Movements
	o    RebuildOptions
	done func(error)
	all  []Session // never changes

	mu        sync.Mutex
	queued    []Session
	running   []string // sessions
	completed int
	failed    int
	first     error
	cancelled bool
	finished  bool
}

// proceed starts sessions while sessionsAhead allows.
func (v *rebuild) proceed() {
	for {
		p, more := v.begin()
		if !more {
			if finished, err := v.outcome(); finished {
				v.finish(err)
			}
			return
		}
		if p.Source == 0 {
			v.sessionEnded(p, fmt.Errorf("range %s of %s: %w", p.Range, v.nameOf(p), errNoSource))
			continue
		}
		v.m.o.Streams.Start(p, nil, func(err error) {
			switch {
			case v.m.o.View.Schema().Dropped(p.Table):
				err = nil // the table was dropped
			case err != nil && v.system(p) && !errors.Is(err, ErrCancelled):
				v.m.o.Note(fmt.Sprintf("rebuild: range %s of a system keyspace was not fetched: %v", p.Range, err))
				err = nil
			}
			v.sessionEnded(p, err)
			v.proceed()
		})
	}
}

// begin returns the next session, unless none is left or sessionsAhead are running.
func (v *rebuild) begin() (p Session, more bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.checkLocked()
	if len(v.running) >= sessionsAhead || len(v.queued) == 0 {
		return p, false
	}
	p = v.queued[0]
	v.queued = v.queued[1:]
	v.running = append(v.running, p.ID)
	return p, true
}

// outcome returns the outcome of the rebuild, once, after its last session.
func (v *rebuild) outcome() (finished bool, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.running) > 0 || len(v.queued) > 0 || v.finished {
		return false, nil
	}
	v.finished = true
	switch {
	case v.failed > 0 && v.cancelled:
		return true, ErrCancelled
	case v.failed > 0:
		return true, &RebuildError{v.failed, len(v.all), v.first}
	}
	return true, nil
}

// checkLocked stops the program if a session was lost or counted twice: the rebuild would be reported as complete.
func (v *rebuild) checkLocked() {
	invariant.Check(v.completed+v.failed+len(v.running)+len(v.queued) == len(v.all),
		"rebalance: a session of a rebuild is neither queued nor done")
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

// sessionEnded is the event of a session's end. Without a name its record is removed, so that another Rebuild streams
// the range again.
func (v *rebuild) sessionEnded(p Session, err error) {
	if err == nil && v.o.Name == "" {
		err = v.m.o.Streams.Forget(p.ID)
	}
	v.mu.Lock()
	v.running = slices.DeleteFunc(v.running, func(id string) bool { return id == p.ID })
	switch {
	case err == nil:
		v.completed++
	case v.first == nil:
		v.first = err
		fallthrough
	default:
		v.failed++
	}
	completed := v.completed
	v.mu.Unlock()
	if v.o.Progress != nil {
		v.o.Progress(completed, len(v.all))
	}
}

// finish removes the records of a complete rebuild, and reports the end.
func (v *rebuild) finish(err error) {
	if err == nil && v.o.Name != "" {
		err = v.m.ForgetRebuild(v.o.Name)
	}
	v.done(err)
}

// cancel ends the sessions under way and starts no others.
func (v *rebuild) cancel() {
	v.mu.Lock()
	v.cancelled = true
	v.failed += len(v.queued)
	v.queued = nil
	running := slices.Clone(v.running)
	v.mu.Unlock()
	for _, id := range running {
		v.m.o.Streams.Cancel(id)
	}
	v.proceed() // if none was under way
}
