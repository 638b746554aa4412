package rebalance

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/internal/env"
	"cqld/internal/testclock"
	"cqld/messaging"
	"cqld/repair"
	"cqld/replica"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/storage"
	"cqld/types"
)

// moveWorld is a ring of two nodes with one replica of each range. Node 1 joins and gains ranges of node 2. Requests
// arrive at once, in the goroutine of the test.
type moveWorld struct {
	t                  *testing.T
	catalog            *schema.Schema
	table              *schema.Table
	nodes              map[ring.NodeID]*moveNode
	moves              *Movements
	streamed, compared []uint64
	timers             []func()
	blocks             int  // requested of streams
	lose               bool // loses requests
}

// moveNode is one node of a moveWorld, with storage in memory.
type moveNode struct {
	w        *moveWorld
	view     *view
	engine   *storage.Engine
	local    *replica.Local
	streams  *Streams
	hashes   *repair.Service
	services map[messaging.Verb]messaging.Service
}

func (n *moveNode) Handle(s messaging.Service)               { n.services[s.Verb] = s }
func (n *moveNode) Run(_ int, f func()) error                { f(); return nil }
func (n *moveNode) Send(ring.NodeID, messaging.Verb, []byte) {}
func (n *moveNode) Request(to ring.NodeID, v messaging.Verb, payload []byte, _ time.Duration, reply messaging.Reply) {
	if v == messaging.VerbStream {
		n.w.blocks++
	}
	if n.w.lose {
		return
	}
	n.w.nodes[to].services[v].Handler(n.view.self, slices.Clone(payload),
		func(answer []byte, err error) { reply(slices.Clone(answer), err) })
}

func (w *moveWorld) Now() time.Time           { return time.Unix(1_700_000_000, 0) }
func (w *moveWorld) Monotonic() time.Duration { return 0 }
func (w *moveWorld) After(_ time.Duration, f func()) env.Timer {
	w.timers = append(w.timers, f)
	return stillTimer{}
}

func (w *moveWorld) StartStreamed(operation uint64, _ []ring.Shortfall, done func(error)) {
	w.streamed = append(w.streamed, operation)
	done(nil)
}

func (w *moveWorld) StartCompared(operation uint64, _ []ring.Shortfall, done func(error)) {
	w.compared = append(w.compared, operation)
	done(nil)
}

func (w *moveWorld) StartHanded(uint64, func(error)) { w.t.Error("a node that joins hands over") }

// newMoveWorld creates both nodes with the topology of an operation. leafBytes is the size of a leaf in comparisons.
func newMoveWorld(t *testing.T, o ring.Operation, leafBytes int64) *moveWorld {
	w := &moveWorld{t: t, catalog: schema.Initial(), nodes: map[ring.NodeID]*moveNode{}}
	for _, change := range []schema.Change{
		&schema.CreateKeyspace{Keyspace: "k", Replication: ring.Replication{Class: ring.Simple, Factor: 1},
			DurableWrites: true},
		&schema.CreateTable{Keyspace: "k", Table: "t", ID: schema.UUID{1}, Options: schema.DefaultOptions(),
			Columns: []schema.ColumnSpec{{Name: "k", Kind: schema.PartitionKey, Type: types.Native(types.Text)}}},
	} {
		var err error
		if w.catalog, err = schema.Apply(w.catalog, change); err != nil {
			t.Fatal(err)
		}
	}
	w.table = w.catalog.Table("k", "t")
	for id := ring.NodeID(1); id <= 2; id++ {
		n := &moveNode{w: w, view: &view{self: id, schema: w.catalog, topology: moveTopology(o)},
			services: map[messaging.Verb]messaging.Service{}}
		var err error
		if n.engine, err = storage.Open(storage.Options{Dir: "data", FS: vfs.NewMem(), Clock: w,
			Inline: true}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { n.engine.Close() })
		n.local = replica.NewLocal(n.engine, n.view, nil)
		n.local.SetPaxos(testStates{})
		n.streams = NewStreams(StreamOptions{View: n.view, Local: n.local, Engine: n.engine, Transport: n, Clock: w,
			Run: here, Changed: ignoreChanges,
			Limits: Limits{BlockBytes: 1000, FileBytes: 4000}})
		n.hashes = repair.NewService(repair.ServiceOptions{View: n.view, Local: n.local, Engine: n.engine,
			Transport: n, Run: here, StepBytes: leafBytes})
		w.nodes[id] = n
	}
	joins := w.nodes[1]
	w.moves = NewMovements(MovementOptions{View: joins.view, Log: w, Streams: joins.streams, Local: joins.local,
		Hashes: joins.hashes,
		Clock:  w, Run: here, LeafBytes: leafBytes})
	return w
}

// moveTopology returns a topology in which node 1 joins node 2 by an operation that began at epoch 7. Their quarters of
// the ring alternate.
func moveTopology(o ring.Operation) *ring.Topology {
	o.ID, o.Kind, o.Node, o.Tokens, o.Gaining = 7, ring.Join, 1, []ring.Token{-2 << 60, 6 << 60}, []ring.NodeID{1}
	return ring.NewMovingTopology(9, 9, []*ring.Node{
		{ID: 1, Datacenter: "dc1", State: ring.Joining, Tokens: o.Tokens},
		{ID: 2, Datacenter: "dc1", State: ring.Normal, Tokens: []ring.Token{-6 << 60, 2 << 60}},
	}, []*ring.Operation{&o})
}

// keys returns the keys of the test's partitions that node 1 gains, and of the others.
func (w *moveWorld) keys() (gained, others []string) {
	o := w.nodes[1].view.topology.Operation(7)
	gains := w.nodes[1].view.topology.Gains(o, w.table.Replication, 1)
	for i := range 200 {
		key := fmt.Sprint("key", i)
		token := row.NewPartitionKey([]byte(key)).Token
		if slices.ContainsFunc(gains, func(g ring.Gain) bool { return g.Range.Contains(token) }) {
			gained = append(gained, key)
		} else {
			others = append(others, key)
		}
	}
	if len(gained) < 50 || len(others) < 50 {
		w.t.Fatalf("%d keys are gained and %d are not: too few of one kind", len(gained), len(others))
	}
	return gained, others
}

func (w *moveWorld) write(node ring.NodeID, keys ...string) { w.writeTo(w.table, node, keys...) }

// writeState writes the Paxos state of partitions of a table, on one node.
func (w *moveWorld) writeState(table *schema.Table, node ring.NodeID, keys ...string) {
	w.t.Helper()
	for _, key := range keys {
		if err := w.nodes[node].engine.Apply([]*row.Mutation{testState(table, key)}, true, func(error) {}); err != nil {
			w.t.Fatal(err)
		}
	}
}

// writeTo writes a row to each partition of a table, on one node.
func (w *moveWorld) writeTo(table *schema.Table, node ring.NodeID, keys ...string) {
	w.t.Helper()
	for _, key := range keys {
		err := w.nodes[node].engine.Apply([]*row.Mutation{rowOf(table, key)}, true, func(err error) {
			if err != nil {
				w.t.Fatal(err)
			}
		})
		if err != nil {
			w.t.Fatal(err)
		}
	}
}

// rowOf returns a mutation with one row.
func rowOf(table *schema.Table, key string) *row.Mutation {
	m := new(row.Mutation)
	m.Reset(table.StorageID, row.NewPartitionKey([]byte(key)))
	r := row.NewRow()
	r.Liveness.Timestamp = 1
	m.AddRow(r)
	return m
}

// missing returns the partitions that a node does not store.
func (w *moveWorld) missing(node ring.NodeID, keys []string) []string {
	return w.missingFrom(w.table, node, keys)
}

// missingFrom returns the keys of a table's partitions that a node does not store.
func (w *moveWorld) missingFrom(table *schema.Table, node ring.NodeID, keys []string) (out []string) {
	for _, key := range keys {
		token := row.NewPartitionKey([]byte(key)).Token
		empty, err := w.nodes[node].engine.EmptyRange(table.StorageID, ring.Range{Start: token - 1, End: token})
		if err != nil {
			w.t.Fatal(err)
		}
		if empty {
			out = append(out, key)
		}
	}
	return out
}

// TestAJoiningNodeFetchesRowsAndPaxosState checks that a node has the rows of its gained ranges, and the proposals that
// the previous acceptor had accepted, when it reports that it has streamed them.
func TestAJoiningNodeFetchesRowsAndPaxosState(t *testing.T) {
	w := newMoveWorld(t, ring.Operation{Phase: ring.Streaming}, 0)
	gained, others := w.keys()
	w.write(2, gained...)
	w.write(2, others...)
	// Node 1 gains nothing of this keyspace.
	w.catalog = withKeyspace(t, w.catalog, "elsewhere", 2,
		ring.NewNetworkTopology(ring.DatacenterFactor{Datacenter: "dc2", Factor: 1}))
	for _, n := range w.nodes {
		n.view.schema = w.catalog
	}
	elsewhere := w.catalog.Table("elsewhere", "elsewhere")
	w.writeState(w.table, 2, gained...)
	w.writeState(elsewhere, 2, gained...)
	w.moves.Reconcile(w.nodes[1].view.topology)
	if !slices.Equal(w.streamed, []uint64{7}) {
		t.Fatalf("node 1 has streamed by operations %v", w.streamed)
	}
	if missing := w.missing(1, gained); len(missing) > 0 {
		t.Errorf("%d of %d gained partitions are missing, %s first", len(missing), len(gained), missing[0])
	}
	if missing := w.missing(1, others); len(missing) != len(others) {
		t.Errorf("%d partitions are fetched that node 1 does not gain", len(others)-len(missing))
	}
	for _, key := range gained {
		if !hasState(t, w.nodes[1].engine, w.table, key) {
			t.Errorf("the Paxos state of the gained partition %s is missing", key)
		}
		if hasState(t, w.nodes[1].engine, elsewhere, key) {
			t.Errorf("the Paxos state of partition %s was received for a keyspace of which node 1 does not gain the "+
				"range", key)
		}
	}
}

// TestAComparisonBringsWhatIsMissing checks that a node compares its gained ranges, streams exactly the parts that
// differ, and then reports it. Leaves of different sizes divide a range into one part or many.
func TestAComparisonBringsWhatIsMissing(t *testing.T) {
	for _, leafBytes := range []int64{200, 1000, 1 << 20} {
		for name, lacks := range map[string]func(i int) bool{
			"nothing":       func(int) bool { return false },
			"one partition": func(i int) bool { return i == 17 },
			"some":          func(i int) bool { return i%20 == 3 },
			"everything":    func(int) bool { return true },
		} {
			t.Run(fmt.Sprintf("%s/leaf=%d", name, leafBytes), func(t *testing.T) {
				compareMoves(t, leafBytes, lacks)
			})
		}
	}
}

func compareMoves(t *testing.T, leafBytes int64, lacks func(i int) bool) {
	w := newMoveWorld(t, ring.Operation{Phase: ring.Switching, Switched: 8, Known: true, Streamed: []ring.NodeID{1}},
		leafBytes)
	gained, _ := w.keys()
	w.write(2, gained...)
	for i, key := range gained {
		if !lacks(i) {
			w.write(1, key)
		}
	}
	for _, n := range w.nodes { // leaves are determined by the size on disk
		if err := n.engine.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	lacking := len(w.missing(1, gained))
	w.moves.Reconcile(w.nodes[1].view.topology)
	if !slices.Equal(w.compared, []uint64{7}) || len(w.streamed) != 0 {
		t.Fatalf("node 1 has compared by operations %v and streamed by %v", w.compared, w.streamed)
	}
	if missing := w.missing(1, gained); len(missing) > 0 {
		t.Errorf("%d of %d partitions that were missing are missing still, %s first", len(missing), lacking, missing[0])
	}
	if sent := w.nodes[2].streams.Stats().SentBytes; (sent > 0) != (lacking > 0) {
		t.Errorf("%d bytes were streamed for %d missing partitions", sent, lacking)
	}
}

// TestASourceThatIsBehindIsNotCompared checks that a node which has not applied the switch returns no hashes: requests
// of the former ring may still change its data. The comparison fails and is retried after a pause.
func TestASourceThatIsBehindIsNotCompared(t *testing.T) {
	w := newMoveWorld(t, ring.Operation{Phase: ring.Switching, Switched: 8, Known: true, Streamed: []ring.NodeID{1}}, 0)
	gained, _ := w.keys()
	w.write(2, gained...)
	now := w.nodes[2].view.topology
	w.nodes[2].view.topology = ring.NewTopology(7, now.Nodes())
	w.nodes[1].view.topology, now = ring.NewMovingTopology(9, 7, now.Nodes(), now.Operations()),
		w.nodes[1].view.topology
	w.moves.Reconcile(w.nodes[1].view.topology)
	if len(w.compared) != 0 || len(w.timers) == 0 {
		t.Fatalf("node 2 does not know the switch; compared: %v, %d timers", w.compared, len(w.timers))
	}
	w.nodes[2].view.topology = now
	for len(w.timers) > 0 && len(w.compared) == 0 {
		f := w.timers[0]
		w.timers = w.timers[1:]
		f()
	}
	if missing := w.missing(1, gained); len(missing) > 0 || len(w.compared) != 1 {
		t.Errorf("after node 2 has heard of the switch %d partitions are missing, compared: %v", len(missing),
			w.compared)
	}
}

// enteredEngine is storage that blocks a write until it is released.
type enteredEngine struct {
	*storage.Engine
	entered, release chan struct{}
	drained          chan struct{} // a stream has passed Settle
}

func (e *enteredEngine) Apply(ms []*row.Mutation, durable bool, done func(error)) error {
	close(e.entered)
	<-e.release
	return e.Engine.Apply(ms, durable, done)
}

func (e *enteredEngine) Drain() error {
	close(e.drained)
	return e.Engine.Drain()
}

// TestAStreamWaitsForRequestsOfTheFormerRing blocks a write between its admission and storage while a stream begins.
// The stream must contain it, because the receiver did not get this write itself.
func TestAStreamWaitsForRequestsOfTheFormerRing(t *testing.T) {
	catalog, table := testCatalog(t)
	v := &view{self: 1, schema: catalog, topology: ring.NewTopology(5,
		[]*ring.Node{{ID: 1, State: ring.Normal, Tokens: []ring.Token{0}}})}
	disk, err := storage.Open(storage.Options{Dir: "data", FS: vfs.NewMem(), Clock: &testclock.Clock{}, Inline: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { disk.Close() })
	engine := &enteredEngine{Engine: disk, entered: make(chan struct{}), release: make(chan struct{}),
		drained: make(chan struct{})}
	l := replica.NewLocal(engine, v, nil)
	s := NewStreams(StreamOptions{View: v, Local: l, Engine: engine, Transport: services{}, Clock: &testclock.Clock{},
		Run: here, Changed: ignoreChanges})
	written, reply := make(chan error, 1), make(chan []byte, 1)
	go l.Apply(5, []*row.Mutation{rowOf(table, "k")}, time.Second, func(err error) { written <- err })
	<-engine.entered
	go func() {
		payload, err := s.export(1, &streamRequest{first: true, epoch: 5, table: table.StorageID,
			tokens: ring.FullRange(), bytesMax: 1000})
		if err != nil {
			t.Error(err)
		}
		reply <- payload
	}()
	select {
	case <-engine.drained:
		t.Error("the stream begins though a write of the former ring is not in storage yet")
	case <-time.After(50 * time.Millisecond):
	}
	close(engine.release)
	if err := <-written; err != nil {
		t.Fatal(err)
	}
	r, err := decodeStreamReply(<-reply)
	if err != nil || len(r.block) == 0 {
		t.Errorf("the stream lacks the write: %d bytes, %v", len(r.block), err)
	}
}
