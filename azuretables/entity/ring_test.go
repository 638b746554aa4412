package entity_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/auth"
	"cqld/azuretables/entity"
	"cqld/azuretables/odata"
	"cqld/batchlog"
	"cqld/coordinator"
	"cqld/counters"
	"cqld/hints"
	"cqld/internal/env"
	"cqld/internal/wire"
	"cqld/listing"
	"cqld/paxos"
	"cqld/paxos/acceptor"
	"cqld/paxos/ballot"
	"cqld/paxos/contention"
	"cqld/query"
	"cqld/replica"
	"cqld/request"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/storage"
	"cqld/storage/index"
)

// testRing is a ring of nodes in one process that call each other's replicas directly: storage in memory, the
// coordinator, and the packages of both protocols above it.
type testRing struct {
	t      testing.TB
	schema atomic.Pointer[schema.Schema]
	mu     sync.Mutex // serializes schema changes
	alters int
	top    *ring.Topology
	nodes  []*testNode
	clock  *testClock
}

// testNode is a node of a testRing.
type testNode struct {
	authorizer auth.Authorizer // of entity requests; nil allows everything
	ring       *testRing
	id         ring.NodeID
	fs         *vfs.MemFS
	engine     *storage.Engine
	local      *replica.Local
	coord      *coordinator.Coordinator
	acceptor   *acceptor.Acceptor
	proposer   *paxos.Proposer
	hints      *hints.Hints
	batches    *batchlog.Log
	counters   *counters.Counters
	listed     *listing.Replica
	lister     *listing.Lister
	store      *entity.Store
	cql        *query.Processor
	faults     faults
}

// faults injects faults between entity and the coordinator.
type faults struct {
	cas  func(req *paxos.CASRequest, done func(bool, []byte, error)) // nil means no fault
	read func(req *coordinator.ReadRequest) error
	mu   sync.Mutex
	hold func(release func()) // delays a read before it starts; called with mu held
	// reads and listed count the requests for rows and for partition keys.
	reads, listed atomic.Int64
}

// testClock is the machine's clock plus an offset.
type testClock struct {
	start  time.Time
	offset atomic.Int64
}

func (c *testClock) Now() time.Time           { return time.Now().Add(time.Duration(c.offset.Load())) }
func (c *testClock) Monotonic() time.Duration { return time.Since(c.start) }
func (c *testClock) After(d time.Duration, f func()) env.Timer {
	return time.AfterFunc(d, f)
}

type testRand struct{}

func (testRand) Uint64() uint64 { return rand.Uint64() }

func newTestRing(t testing.TB, n int, options ...func(*entity.Options)) *testRing {
	t.Helper()
	r := &testRing{t: t, clock: &testClock{start: time.Now()}}
	r.schema.Store(schema.Initial())
	var members []*ring.Node
	for i := range n {
		m := &ring.Node{ID: ring.NodeID(i + 1), Host: ring.HostID{byte(i + 1)}, Datacenter: "dc1", Rack: "r1",
			State: ring.Normal}
		for k := range 4 {
			m.Tokens = append(m.Tokens, ring.MinToken+ring.Token(uint64(k)<<62+uint64(i+1)*((1<<62)/uint64(n))))
		}
		members = append(members, m)
	}
	r.top = ring.NewTopology(1, members)
	for i := range n {
		node := &testNode{ring: r, id: ring.NodeID(i + 1), fs: vfs.NewCrashableMem()}
		r.nodes = append(r.nodes, node)
		node.open(options...)
	}
	t.Cleanup(r.close)
	return r
}

// settle is how long replica work that a quorum did not need may continue after the coordinators have closed.
const settle = 20 * time.Millisecond

func (r *testRing) close() {
	for _, n := range r.nodes {
		n.hints.Close()
		n.batches.Close()
	}
	time.Sleep(settle)
	for _, n := range r.nodes {
		if err := n.engine.Close(); err != nil {
			r.t.Error(err)
		}
	}
}

func (n *testNode) open(options ...func(*entity.Options)) {
	disk := storage.Options{Dir: "data", FS: n.fs, Clock: n.ring.clock, Sync: storage.SyncBatch}
	index.Maintain(&disk, index.NewPartitions(n.ordered))
	var err error
	n.engine, err = storage.Open(disk)
	if err != nil {
		n.ring.t.Fatal(err)
	}
	n.local = replica.NewLocal(n.engine, n, nil)
	n.hints = hints.New(hints.Options{View: n, Replicas: n, Clock: n.ring.clock, Store: n.engine, Rand: testRand{}})
	stamps := env.NewHLC(n.ring.clock, time.Minute)
	n.coord = coordinator.New(coordinator.Options{View: n, Replicas: n, Clock: n.ring.clock, LocalDatacenter: "dc1",
		Hints: n.hints, Store: n.engine,
		Rand: testRand{}, Stamps: stamps})
	n.batches = batchlog.New(batchlog.Options{Coordinator: n.coord, View: n, Clock: n.ring.clock,
		LocalDatacenter: "dc1", Store: n.engine})
	n.hints.Start(n.coord, n.batches)
	n.counters = counters.New(counters.Options{Coordinator: n.coord, View: n, Replicas: n, Clock: n.ring.clock,
		LocalDatacenter: "dc1"})
	n.listed = listing.NewReplica(listing.ReplicaOptions{Local: n.local, View: n, Engine: n.engine})
	n.lister = listing.New(listing.Options{Coordinator: n.coord, View: n, Replicas: inProcess{n}, Clock: n.ring.clock,
		LocalDatacenter: "dc1"})
	n.acceptor = acceptor.New(n.local, n)
	n.proposer = paxos.NewProposer(paxos.Options{View: n, Acceptors: inProcess{n}, Arbiters: inProcess{n},
		Coordinator:     n.coord,
		Clock:           n.ring.clock,
		LocalDatacenter: "dc1", Rand: testRand{}, Stamps: stamps})
	o := entity.Options{Executor: n.executor(nil), View: n, Changer: n.ring, Clock: n.ring.clock, Rand: testRand{}}
	for _, f := range options {
		f(&o)
	}
	n.store = entity.New(o)
	n.cql = query.New(query.Options{Executor: request.New(request.Options{Coordinator: n.coord, Lister: n.lister,
		Batches: n.batches, Counters: n.counters, Proposer: n.proposer,
		Clock: n.ring.clock}), View: n, Changer: n.ring, Clock: n.ring.clock, Rand: rand.NewPCG(1, 2),
		PagingKey: func() []byte { return []byte("key") }, DynamicDataMasking: true})
}

// executor returns an Executor of the node's coordinator with its faults; nil means that requests wait on channels.
func (n *testNode) executor(newWaiter func() env.Waiter) *request.Executor {
	return request.New(request.Options{Coordinator: (*between)(n), Lister: (*between)(n), Batches: n.batches,
		Counters: n.counters, Proposer: (*proposing)(n),
		Clock: n.ring.clock, NewWaiter: newWaiter, Authorizer: n.authorizer})
}

// anyone returns a request of an anonymous client, as the protocol server makes it.
func anyone() *request.Request {
	return &request.Request{Context: context.Background(), Consistency: ring.Quorum, SerialConsistency: ring.Serial}
}

func (n *testNode) ordered(id schema.StorageID) bool {
	t := n.Schema().TableByStorage(id)
	return t != nil && t.OrderedPartitions()
}

func (n *testNode) Self() ring.NodeID                 { return n.id }
func (n *testNode) Schema() *schema.Schema            { return n.ring.schema.Load() }
func (n *testNode) Topology() *ring.Topology          { return n.ring.top }
func (n *testNode) Alive(ring.NodeID) bool            { return true }
func (n *testNode) PaxosFloor(schema.StorageID) int64 { return 0 }

// Replica implements coordinator.Replicas.
func (n *testNode) Replica(id ring.NodeID) coordinator.Replica { return n.ring.nodes[id-1].local }

// inProcess calls the acceptors and the replicas of all nodes.
type inProcess struct{ n *testNode }

func (p inProcess) of(to ring.NodeID) *acceptor.Acceptor { return p.n.ring.nodes[to-1].acceptor }

// Page implements listing.Replicas.
func (p inProcess) Page(to ring.NodeID, _ coordinator.Trace, epoch uint64, q *listing.PageRequest, _ time.Duration,
	done func(*listing.Page, error)) {
	p.n.ring.nodes[to-1].listed.Page(epoch, q, done)
}

func (p inProcess) Prepare(to ring.NodeID, _ coordinator.Trace, epoch uint64, b, previous ballot.Ballot,
	cmd *row.ReadCommand, _ time.Duration, done func(*ballot.Promise, error)) {
	p.of(to).Prepare(epoch, b, previous, cmd, done)
}

func (p inProcess) Accept(to []ring.NodeID, _ coordinator.Trace, epoch uint64, x *ballot.Proposal, _ time.Duration,
	done func(int, ballot.Ballot, error)) {
	for i, node := range to {
		p.of(node).Accept(epoch, x, func(refused ballot.Ballot, err error) { done(i, refused, err) })
	}
}

func (p inProcess) Commit(to ring.NodeID, _ coordinator.Trace, epoch uint64, x *ballot.Proposal, _ time.Duration,
	done func(error)) {
	p.of(to).Commit(epoch, x, done)
}

func (p inProcess) Decide(epoch uint64, cmd *row.ReadCommand,
	decide func(ballot.Known, []byte) (*ballot.Proposal, *row.Mutation), done func(error)) {
	p.n.acceptor.Decide(epoch, cmd, decide, done)
}

func (p inProcess) Ask(_ ring.NodeID, _ string, _ time.Duration, done func(contention.Turn, error)) {
	done(contention.Turn{}, coordinator.ErrNotSent)
}

func (p inProcess) Pass(ring.NodeID, string, uint64) {}

// ProposeSchemaFor implements entity.Changer.
func (r *testRing) ProposeSchemaFor(ctx context.Context, _ auth.Principal, change schema.Change) error {
	return r.ProposeSchema(ctx, change)
}

// AwaitSchema implements query.Changer.
func (r *testRing) AwaitSchema(context.Context) error { return nil }

// ProposeSchema implements query.Changer.
func (r *testRing) ProposeSchema(_ context.Context, change schema.Change) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	decoded, err := schema.DecodeChange(schema.EncodeChange(change))
	if err != nil {
		return err
	}
	next, err := schema.Apply(r.schema.Load(), decoded)
	if err != nil {
		return err
	}
	if _, ok := change.(*schema.AlterTable); ok {
		r.alters++
	}
	r.schema.Store(next)
	return nil
}

// between is a node's coordinator with its faults.
type between testNode

func (b *between) Read(req *coordinator.ReadRequest, done func([]byte, error)) {
	b.faults.reads.Add(1)
	if b.faults.read != nil {
		if err := b.faults.read(req); err != nil {
			done(nil, err)
			return
		}
	}
	if b.faults.hold != nil {
		b.faults.mu.Lock()
		b.faults.hold(func() { b.coord.Read(req, done) })
		b.faults.mu.Unlock()
		return
	}
	b.coord.Read(req, done)
}

// proposing is a node's proposer with its faults.
type proposing testNode

func (b *proposing) CAS(req *paxos.CASRequest, done func(bool, []byte, error)) {
	if b.faults.cas != nil {
		b.faults.cas(req, done)
		return
	}
	b.proposer.CAS(req, done)
}

func (b *proposing) Read(req *coordinator.ReadRequest, done func([]byte, error)) {
	b.faults.reads.Add(1)
	if b.faults.read != nil {
		if err := b.faults.read(req); err != nil {
			done(nil, err)
			return
		}
	}
	if b.faults.hold != nil {
		b.faults.mu.Lock()
		b.faults.hold(func() { b.proposer.Read(req, done) })
		b.faults.mu.Unlock()
		return
	}
	b.proposer.Read(req, done)
}

func (b *between) Write(req *coordinator.WriteRequest, done func(error)) { b.coord.Write(req, done) }

func (b *between) Truncate(t *schema.Table, timeout time.Duration, done func(error)) {
	b.coord.Truncate(t, timeout, done)
}

func (b *between) List(req *listing.Request, done func(*listing.Result, error)) {
	b.faults.listed.Add(1)
	b.lister.List(req, done)
}

// exec executes CQL statements on the first node.
func (r *testRing) exec(statements ...string) *query.Result {
	r.t.Helper()
	var out *query.Result
	for _, text := range statements {
		var err error
		s := &query.Session{Version: 5}
		if out, err = r.nodes[0].cql.Query(anyone(), s, text, new(query.Params)); err != nil {
			r.t.Fatalf("%s: %v", text, err)
		}
	}
	return out
}

// scalar returns the first value of the first row of a SELECT, in wire format.
func (r *testRing) scalar(text string) []byte {
	r.t.Helper()
	out := r.exec(text)
	if out.RowCount == 0 {
		return nil
	}
	c := wire.NewCursor(out.Rows)
	return c.Bytes()
}

const account = "acme"

func (r *testRing) create(names ...string) {
	r.t.Helper()
	for _, name := range names {
		if err := r.nodes[0].store.CreateTable(anyone(), account, name); err != nil {
			r.t.Fatal(err)
		}
	}
}

func text(name, v string) odata.Property {
	return odata.Property{Name: name, Value: odata.Value{Type: odata.String, Bytes: []byte(v)}}
}

func number(name string, v int64) odata.Property {
	return odata.Property{Name: name, Value: odata.Value{Type: odata.Int32, Int: v}}
}

func op(kind entity.Kind, pk, rk string, properties ...odata.Property) entity.Operation {
	return entity.Operation{Kind: kind, Entity: odata.Entity{PartitionKey: pk, RowKey: rk, Properties: properties}}
}

// apply applies operations that must succeed.
func (r *testRing) apply(table string, ops ...entity.Operation) []int64 {
	r.t.Helper()
	stamps, err := r.nodes[0].store.Apply(anyone(), account, table, ops)
	if err != nil {
		r.t.Fatal(err)
	}
	return stamps
}

// code returns the code of a service error, or an empty code for nil.
func code(err error) odata.Code {
	var e *odata.Error
	if errors.As(err, &e) {
		return e.Code
	}
	if err != nil {
		return odata.Code(fmt.Sprint("not the service's: ", err))
	}
	return ""
}

// show formats an entity as text, with properties in name order.
func show(e *odata.Entity) string {
	out := fmt.Sprintf("%s/%s", e.PartitionKey, e.RowKey)
	for _, p := range sorted(e.Properties) {
		out += fmt.Sprintf(" %s:%s=%s", p.Name, p.Value.Type, p.Value.AppendJSON(nil))
	}
	return out
}

func crashConfig() vfs.CrashCloneCfg { return vfs.CrashCloneCfg{} }
