package coordinator_test

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/batchlog"
	"cqld/coordinator"
	"cqld/counters"
	"cqld/internal/await"
	"cqld/internal/env"
	"cqld/internal/guard"
	"cqld/internal/wire"
	"cqld/listing"
	"cqld/messaging"
	"cqld/paxos"
	"cqld/replica"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/simulation/scenario"
	"cqld/storage"
	"cqld/storage/index"
)

// panics makes the dependencies of a coordinator (its view, clock and error receiver) panic once at each place in an
// event of an operation that calls them. Many of these places hold the operation's mutex.
type panics struct {
	mu    sync.Mutex
	armed bool
	// caller means every place in the goroutine of panicOutcome, before operations begin, too.
	caller bool
	seen   map[string]bool // places that have panicked, as chains of functions of package coordinator
	place  string          // of the last panic
	at     time.Time
}

// visit panics if it is armed and called from a place that has not panicked yet.
func (p *panics) visit() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.armed {
		return
	}
	place := placeOf()
	if p.caller {
		place = callerPlace()
	}
	if place == "" || p.seen[place] {
		return
	}
	p.seen[place], p.armed, p.place, p.at = true, false, place, time.Now()
	panic("injected: " + place)
}

// placeOf returns the place in an event of an operation that has called this; empty means that no operation has.
func placeOf() string {
	var pcs [32]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs[:])])
	var place []string
	event := false
	for {
		f, more := frames.Next()
		if name, ok := ofOperation(f.Function); ok {
			place = append(place, fmt.Sprintf("%s:%d", name, f.Line))
			event = event || strings.Contains(name, "Op)") || strings.Contains(name, "(*round)") ||
				strings.Contains(name, "(*group)") || strings.Contains(name, "(*leader)") ||
				strings.Contains(name, "(*Operation[")
		} else if len(place) > 0 || strings.HasPrefix(f.Function, "cqld/coordinator/") {
			break // a goroutine of the test, or shared code of the node
		}
		if !more {
			break
		}
	}
	if !event {
		return ""
	}
	return strings.Join(place, " < ")
}

// callerPlace returns the place in a package of operations that has called this in the goroutine of panicOutcome; empty
// means that none has.
func callerPlace() string {
	var pcs [64]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs[:])])
	var place []string
	for {
		f, more := frames.Next()
		if name, ok := ofOperation(f.Function); ok {
			place = append(place, fmt.Sprintf("%s:%d", name, f.Line))
		}
		switch {
		case strings.HasSuffix(f.Function, ".panicOutcome"):
			return strings.Join(place, " < ")
		case !more:
			return ""
		}
	}
}

// ofOperation returns a function's name without its package if the package has operations.
func ofOperation(function string) (string, bool) {
	for _, pkg := range []string{"cqld/coordinator.", "cqld/coordinator/write.", "cqld/batchlog.", "cqld/counters.",
		"cqld/listing.", "cqld/watermark.", "cqld/paxos."} {
		if name, ok := strings.CutPrefix(function, pkg); ok {
			return name, true
		}
	}
	return "", false
}

// panicView is a view that may panic.
type panicView struct {
	*benchNode
	p *panics
}

func (v panicView) Self() ring.NodeID         { v.p.visit(); return v.benchNode.Self() }
func (v panicView) Schema() *schema.Schema    { v.p.visit(); return v.benchNode.Schema() }
func (v panicView) Topology() *ring.Topology  { v.p.visit(); return v.benchNode.Topology() }
func (v panicView) Alive(id ring.NodeID) bool { v.p.visit(); return v.benchNode.Alive(id) }

// callbacks executes the callbacks of timers and messages until the ring ends: then its storage is closed.
type callbacks struct {
	mu    sync.RWMutex // held for reading while one runs
	ended bool         // guarded by mu
	g     *guard.Guard
}

// call executes f, guarded like the callbacks of a node's clock and transport.
func (c *callbacks) call(f func()) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	defer c.g.Recover("callback", nil)
	if !c.ended {
		f()
	}
}

// end waits for the running callbacks; no other one runs after that.
func (c *callbacks) end() {
	c.mu.Lock()
	c.ended = true
	c.mu.Unlock()
}

// panicClock is a clock that may panic.
type panicClock struct {
	realClock
	p     *panics // nil means that it does not panic
	calls *callbacks
}

func (c panicClock) visit() {
	if c.p != nil {
		c.p.visit()
	}
}

func (c panicClock) Now() time.Time           { c.visit(); return c.realClock.Now() }
func (c panicClock) Monotonic() time.Duration { c.visit(); return c.realClock.Monotonic() }
func (c panicClock) After(d time.Duration, f func()) env.Timer {
	c.visit()
	return c.realClock.After(d, func() { c.calls.call(f) })
}

// callPost is a transport that delivers messages by function calls in separate goroutines.
type callPost struct {
	*benchNode
	calls *callbacks
}

func (n callPost) Request(to ring.NodeID, v messaging.Verb, payload []byte, _ time.Duration, reply messaging.Reply) {
	payload = slices.Clone(payload)
	_ = n.running.start(func() {
		n.calls.call(func() {
			n.nodes[to-1].services[v].Handler(n.id, payload, func(answer []byte, err error) {
				answer = slices.Clone(answer)
				_ = n.running.start(func() { n.calls.call(func() { reply(answer, err) }) })
			})
		})
	})
}

// newPanicRing returns a ring of three replicas in memory. The first one's coordinator panics according to p.
func newPanicRing(t *testing.T, p *panics) (*benchNode, *guard.Guard) {
	var running sync.WaitGroup
	g := guard.New(slog.New(slog.NewTextHandler(io.Discard, nil)))
	calls := &callbacks{g: g}
	s := scenario.Catalog(t, scenario.Options{Replication: ring.Replication{Class: ring.Simple, Factor: 3},
		Table: func(o *schema.Options) { o.WriteOrdering = "quorum" }})
	nodes, requests := make([]*benchNode, 3), new(goroutines)
	var members []*ring.Node
	for i := range nodes {
		clock := realClock{time.Now()}
		options := storage.Options{Dir: "data", FS: vfs.NewMem(), Clock: clock, Sync: storage.SyncNone}
		index.Maintain(&options, index.NewPartitions(func(id schema.StorageID) bool {
			x := s.TableByStorage(id)
			return x != nil && x.OrderedPartitions()
		}))
		engine, err := storage.Open(options)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := engine.Close(); err != nil {
				t.Error(err)
			}
		})
		nodes[i] = &benchNode{id: ring.NodeID(i + 1), nodes: nodes, schema: s, engine: engine, running: requests,
			services: map[messaging.Verb]messaging.Service{}, call: calls.call}
		members = append(members, &ring.Node{ID: nodes[i].id, Datacenter: "dc1", Rack: "r1", State: ring.Normal,
			Tokens: []ring.Token{ring.Token(i) << 60}})
	}
	for _, n := range nodes {
		n.topology = ring.NewTopology(1, members)
		local := replica.NewLocal(n.engine, n, nil)
		replica.Serve(n, local)
		o := coordinator.Options{View: n, Clock: panicClock{realClock{time.Now()}, nil, calls},
			Replicas: replica.NewDirectory(local, callPost{n, calls}, n), LocalDatacenter: "dc1"}
		if n.id == 1 {
			o.View, o.Clock, o.Guard = panicView{n, p}, panicClock{realClock{time.Now()}, p, calls}, g
		}
		pages := listing.NewReplica(listing.ReplicaOptions{Local: local, View: n, Engine: n.engine})
		listing.Serve(n, pages)
		n.parts = scenario.NewParts(scenario.PartsOptions{Coordinator: o, Store: n.engine,
			Listing:  listing.Options{Replicas: listing.NewDirectory(pages, callPost{n, calls}, n)},
			Batches:  batchlog.Options{Holders: batchlog.NewClient(callPost{n, calls})},
			Counters: counters.Options{Leaders: counters.NewClient(callPost{n, calls})}})
		n.coord = n.parts.Coordinator
		n.parts.Serve(n)
		n.startPaxos(paxos.Options{View: o.View, Clock: o.Clock, Guard: o.Guard}, local, callPost{n, calls})
	}
	t.Cleanup(func() {
		requests.end()
		running.Wait()
		calls.end()
	})
	return nodes[0], g
}

// panicRequest sends one kind of request to a coordinator.
type panicRequest func(n *benchNode, done func(error))

// panicTimeout is longer than a machine may stop the process.
const panicTimeout = 20 * time.Second

func panicRequests() map[string]panicRequest {
	key := row.NewPartitionKey([]byte("k"))
	change := func(n *benchNode, table, key string, value []byte, stamp int64) *row.Mutation {
		x := n.schema.Table("ks", table)
		m, r := new(row.Mutation), row.NewRow()
		m.Reset(x.StorageID, row.NewPartitionKey([]byte(key)))
		r.Clustering = []byte("c")
		if stamp != 0 {
			r.Liveness.Timestamp = stamp
		}
		r.Cells = append(r.Cells, row.Cell{Column: x.Column("v").ID, Timestamp: stamp, Value: value})
		m.AddRow(r)
		return m
	}
	write := func(n *benchNode, ordered bool, done func(error)) {
		n.coord.Write(&coordinator.WriteRequest{Mutations: []*row.Mutation{change(n, "t", "k", []byte("x"), 5)},
			Consistency: ring.Quorum,
			Type:        coordinator.WriteSimple, Timeout: panicTimeout, Ordered: ordered, Stamp: 5}, done)
	}
	read := func(n *benchNode, level ring.Consistency, done func(error)) {
		n.coord.Read(&coordinator.ReadRequest{Command: &row.ReadCommand{Table: n.schema.Table("ks", "t").StorageID,
			Key: key, Slices: []row.Slice{row.AllRows()}, Now: 1},
			Consistency: level, Timeout: panicTimeout}, func(_ []byte, err error) { done(err) })
	}
	return map[string]panicRequest{
		"read":    func(n *benchNode, done func(error)) { read(n, ring.Quorum, done) },
		"write":   func(n *benchNode, done func(error)) { write(n, false, done) },
		"ordered": func(n *benchNode, done func(error)) { write(n, true, done) },
		"range": func(n *benchNode, done func(error)) {
			cmd := &row.ReadCommand{Table: n.schema.Table("ks", "t").StorageID, Slices: []row.Slice{row.AllRows()},
				Now: 1}
			cmd.Range.Tokens = ring.FullRange()
			n.coord.Read(&coordinator.ReadRequest{Command: cmd, Consistency: ring.Quorum, Timeout: panicTimeout},
				func(_ []byte, err error) { done(err) })
		},
		"partitions": func(n *benchNode, done func(error)) {
			n.parts.Lister.List(&listing.Request{Table: n.schema.Table("ks", "o"), Consistency: ring.Quorum,
				Timeout: panicTimeout, Now: 1},
				func(_ *listing.Result, err error) { done(err) })
		},
		"batch": func(n *benchNode, done func(error)) {
			n.parts.Batches.Write(&coordinator.WriteRequest{Mutations: []*row.Mutation{change(n, "t", "k", []byte("x"),
				5), change(n, "t", "l", []byte("x"), 5)},
				Consistency: ring.Quorum, Type: coordinator.WriteBatch, Timeout: panicTimeout}, done)
		},
		"counter": func(n *benchNode, done func(error)) {
			n.parts.Counters.Update(&coordinator.WriteRequest{Mutations: []*row.Mutation{change(n, "n", "k",
				wire.AppendInt64(nil, 1), 0)},
				Consistency: ring.Quorum, Type: coordinator.WriteCounter, Timeout: panicTimeout}, done)
		},
		"counters": func(n *benchNode, done func(error)) { // of one partition: the second one waits for the first one
			n.parts.Counters.Update(&coordinator.WriteRequest{Mutations: []*row.Mutation{change(n, "n", "k",
				wire.AppendInt64(nil, 1), 0),
				change(n, "n", "k", wire.AppendInt64(nil, 2), 0)}, Consistency: ring.Quorum,
				Type: coordinator.WriteCounter, Timeout: panicTimeout}, done)
		},
		"conditional": func(n *benchNode, done func(error)) {
			n.proposer.CAS(&paxos.CASRequest{Command: &row.ReadCommand{Table: n.schema.Table("ks", "t").StorageID,
				Key: key, Slices: []row.Slice{row.AllRows()}, Now: 1},
				Serial: ring.Serial, Consistency: ring.Quorum, Contention: panicTimeout, Timeout: panicTimeout,
				Update: func(_ []byte, stamp int64) (*row.Mutation, bool, error) {
					return change(n, "t", "k", []byte("y"), stamp), true, nil
				},
			}, func(_ bool, _ []byte, err error) { done(err) })
		},
	}
}

// TestPanicInEventEndsItsOperation panics at every place at which an event of an operation calls the view or the clock,
// also while the event holds the operation's mutex. The request ends, and the next one of the same partition succeeds.
func TestPanicInEventEndsItsOperation(t *testing.T) {
	var all sync.WaitGroup
	for name, request := range panicRequests() {
		p := &panics{seen: map[string]bool{}}
		n, g := newPanicRing(t, p)
		all.Go(func() {
			quiet := 0
			for quiet < 3 {
				p.mu.Lock()
				p.armed, p.place = true, ""
				p.mu.Unlock()
				err := panicOutcome(n, g, request)
				p.mu.Lock()
				place, took := p.place, time.Since(p.at)
				p.armed = false
				p.mu.Unlock()
				if errors.Is(err, errNoOutcome) {
					t.Errorf("%s: the request does not end after a panic at %s", name, place)
					return
				}
				if place == "" {
					quiet++
					continue
				}
				if pure := purelyStepped(name); pure && err != nil && took > panicTimeout/2 {
					t.Errorf("%s: the error of a panic at %s comes after %s", name, place, took)
				}
				if err := panicOutcome(n, g, request); err != nil {
					t.Errorf("%s: after a panic at %s, the next request fails: %v", name, place, err)
					return
				}
			}
			if len(p.seen) == 0 {
				t.Errorf("%s: nothing panicked", name)
			}
		})
	}
	all.Wait()
}

// TestPanicInCallerKeepsNoSlot panics at every place in the goroutine of the request at which the view or the clock is
// called, also before the operation has begun. Nothing stays counted as in flight.
func TestPanicInCallerKeepsNoSlot(t *testing.T) {
	for name, request := range panicRequests() {
		if !purelyStepped(name) {
			continue
		}
		p := &panics{seen: map[string]bool{}, caller: true}
		n, g := newPanicRing(t, p)
		for place := "first"; place != ""; {
			p.mu.Lock()
			p.armed, p.place = true, ""
			p.mu.Unlock()
			if err := panicOutcome(n, g, request); errors.Is(err, errNoOutcome) {
				t.Fatalf("%s: the request does not end", name)
			}
			p.mu.Lock()
			place, p.armed = p.place, false
			p.mu.Unlock()
			// Parts of the request that did not panic may still be under way.
			if !await.Reached(2*panicTimeout, func() bool {
				load := n.coord.Load()
				return load.Writes == 0 && load.Reads == 0
			}) {
				t.Fatalf("%s: after a panic at %s, still in flight: %+v", name, place, n.coord.Load())
			}
		}
		if len(p.seen) == 0 {
			t.Errorf("%s: nothing panicked", name)
		}
	}
}

// purelyStepped reports whether the operations of a kind of request never release the mutex, so that the error of a
// panic is returned immediately.
func purelyStepped(request string) bool {
	switch request {
	case "read", "write", "ordered", "range", "partitions", "batch", "counter", "counters":
		return true
	}
	return false
}

var errNoOutcome = errors.New("the request does not end")

// panicOutcome returns the end of a request: its answer, or a panic in the caller's goroutine.
func panicOutcome(n *benchNode, g *guard.Guard, request panicRequest) error {
	result := make(chan error, 2)
	if err := g.Do("caller", func() { request(n, func(err error) { result <- err }) }); err != nil {
		return err
	}
	select {
	case err := <-result:
		return err
	case <-time.After(5 * panicTimeout):
		return errNoOutcome
	}
}
