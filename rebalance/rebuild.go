package rebalance

import (
	"errors"
	"fmt"
	"sync"

	"cqld/ring"
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

// Rebuild streams all ranges of a keyspace that this node holds from another replica of each range: for a new data center, or a
// node that lost data. An empty keyspace means all; an empty datacenter means that sources may be in any. Rebuild may be
// repeated: received rows are merged with the present ones. progress receives the numbers of completed ranges and of all.
func (m *Movements) Rebuild(keyspace, datacenter string, progress func(done, all int), done func(error)) {
	v := &rebuild{m: m, progress: progress, done: done}
	t, self, catalog := m.o.View.Topology(), m.o.View.Self(), m.o.View.Schema()
	for _, name := range catalog.KeyspaceNames() {
		k := catalog.Keyspace(name)
		if k.Replication.Class == ring.Local || keyspace != "" && keyspace != name {
			continue
		}
		for _, r := range t.Placement(k.Replication).Ranges(ring.FullRange()) {
			if !r.Replicas.Contains(self) || len(r.Replicas.Natural) == 1 {
				continue
			}
			source := m.source(t, r.Replicas.Natural, datacenter)
			for _, id := range append(tablesOf(k), paxosTables(catalog)...) {
				v.sessions = append(v.sessions, Session{Epoch: t.Moved(), Table: id, Range: r.Range, Source: source,
					ID: fmt.Sprintf("rebuild/%d/%d/%s/%d", t.Epoch(), id, r.Range, source)})
			}
		}
	}
	v.all = len(v.sessions)
	v.proceed()
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
	m        *Movements
	progress func(done, all int)
	done     func(error)

	mu       sync.Mutex
	sessions []Session
	running  int
	ended    int
	all      int
	failed   int
	first    error
	reported bool
}

// proceed starts sessions while sessionsAhead allows.
func (v *rebuild) proceed() {
	for {
		v.mu.Lock()
		if v.running >= sessionsAhead || len(v.sessions) == 0 {
			finished := v.running == 0 && len(v.sessions) == 0 && !v.reported
			v.reported = v.reported || finished
			var err error
			if v.failed > 0 {
				err = &RebuildError{v.failed, v.all, v.first}
			}
			v.mu.Unlock()
			if finished {
				v.done(err)
			}
			return
		}
		p := v.sessions[0]
		v.sessions = v.sessions[1:]
		v.running++
		v.mu.Unlock()
		if p.Source == 0 {
			v.sessionEnded(p, errNoSource)
			continue
		}
		v.m.o.Streams.Start(p, nil, func(err error) {
			if v.m.o.View.Schema().Dropped(p.Table) {
				err = nil // the table was dropped
			}
			v.sessionEnded(p, err)
			v.proceed()
		})
	}
}

// sessionEnded is the event of a session's end. Its record is removed, so that another Rebuild streams the range again.
func (v *rebuild) sessionEnded(p Session, err error) {
	if err == nil {
		err = v.m.o.Streams.Forget(p.ID)
	}
	v.mu.Lock()
	v.running--
	v.ended++
	if err != nil {
		v.failed++
		if v.first == nil {
			v.first = err
		}
	}
	ended := v.ended
	v.mu.Unlock()
	if v.progress != nil {
		v.progress(ended, v.all)
	}
}
