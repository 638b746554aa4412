package rebalance

import (
	"errors"
	"fmt"
	"sync"

	"cqld/ring"
)

// RebuildError says that ranges could not be fetched; what could be is here.
type RebuildError struct {
	Failed, Ranges int
	First          error
}

// Error counts, and shows the first reason.
func (e *RebuildError) Error() string {
	return fmt.Sprintf("%d of %d ranges could not be fetched: %v", e.Failed, e.Ranges, e.First)
}

// Unwrap is the first reason.
func (e *RebuildError) Unwrap() error { return e.First }

// errNoSource is why a range cannot be fetched.
var errNoSource = errors.New("no living replica to fetch it from")

// Rebuild fetches all ranges of a keyspace (empty: of all) that this node holds from another replica of
// each, of one data center (empty: of any): for a data center that is new, or a node that lost data. It
// may be repeated: what is here already is merged with. progress hears of ranges done, and of all.
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
				v.pulls = append(v.pulls, Session{Epoch: t.Moved(), Table: id, Range: r.Range, Source: source,
					ID: fmt.Sprintf("rebuild/%d/%d/%s/%d", t.Epoch(), id, r.Range, source)})
			}
		}
	}
	v.all = len(v.pulls)
	v.proceed()
}

// source is a living replica other than this node, the first of the data center asked for; zero: none.
func (m *Movements) source(t *ring.Topology, replicas []ring.NodeID, datacenter string) ring.NodeID {
	for _, id := range replicas {
		if id != m.o.View.Self() && m.o.View.Alive(id) && (datacenter == "" || t.Node(id).Datacenter == datacenter) {
			return id
		}
	}
	return 0
}

// rebuild is one under way.
type rebuild struct {
	m        *Movements
	progress func(done, all int)
	done     func(error)

	mu      sync.Mutex
	pulls   []Session
	running int
	ended   int
	all     int
	failed  int
	first   error
	told    bool
}

// proceed hands pulls to the streams.
func (v *rebuild) proceed() {
	for {
		v.mu.Lock()
		if v.running >= sessionsAhead || len(v.pulls) == 0 {
			finished := v.running == 0 && len(v.pulls) == 0 && !v.told
			v.told = v.told || finished
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
		p := v.pulls[0]
		v.pulls = v.pulls[1:]
		v.running++
		v.mu.Unlock()
		if p.Source == 0 {
			v.pulled(p, errNoSource)
			continue
		}
		v.m.o.Streams.Start(p, nil, func(err error) {
			if v.m.o.View.Schema().Dropped(p.Table) {
				err = nil // dropped: there is nothing left to fetch
			}
			v.pulled(p, err)
			v.proceed()
		})
	}
}

// pulled is the event of a pull's end. The session is forgotten: another rebuild fetches anew.
func (v *rebuild) pulled(p Session, err error) {
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
