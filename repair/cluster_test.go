package repair_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/coordinator"
	"cqld/hints"
	"cqld/internal/env"
	"cqld/internal/testclock"
	"cqld/messaging"
	"cqld/paxos"
	"cqld/paxos/acceptor"
	"cqld/paxos/contention"
	"cqld/repair"
	"cqld/replica"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/simulation/testcluster"
	"cqld/storage"
	"cqld/storage/reading"
	"cqld/types"
)

// world contains several nodes with real storage in memory; messages are delivered only by commands.
type world struct {
	t      testing.TB
	clock  *testclock.Clock
	nodes  []*node // nodes[i].id is i+1
	flight []letter
	away   map[ring.NodeID]bool // unreachable: requests fail at once
	schema *schema.Schema
	table  *schema.Table
	log    strings.Builder
	counts map[messaging.Verb]int // requests, including those that could not be sent
	asked  []ring.NodeID          // to which requests were sent, sorted
}

// letter is a message in transit.
type letter struct {
	what    string
	deliver func()
}

// node is a node; it implements View and messaging.Transport.
type node struct {
	w        *world
	id       ring.NodeID
	engine   *storage.Engine
	topology *ring.Topology
	services map[messaging.Verb]messaging.Service
	coord    *coordinator.Coordinator
	hints    *hints.Hints
	repaired *repair.History
	local    *replica.Local
	peers    *repair.Service
	proposer *paxos.Proposer
	acceptor *acceptor.Acceptor
	purge    *acceptor.Purge
	down     map[ring.NodeID]bool // in this node's view
	blinks   int                  // number of the next calls of Alive that report a node as down
	floor    int64
}

func (n *node) Self() ring.NodeID                 { return n.id }
func (n *node) Schema() *schema.Schema            { return n.w.schema }
func (n *node) Topology() *ring.Topology          { return n.topology }
func (n *node) PaxosFloor(schema.StorageID) int64 { return n.floor }

func (n *node) Alive(id ring.NodeID) bool {
	if n.blinks > 0 {
		n.blinks--
		return false
	}
	return !n.down[id]
}

// newWorld returns nodes that all hold rf replicas of a table. A step of hashing scans step bytes.
func newWorld(t testing.TB, nodes, rf int, readRepair string, step int64, limits hints.Limits) *world {
	w := &world{t: t, clock: &testclock.Clock{}, away: map[ring.NodeID]bool{}, counts: map[messaging.Verb]int{}}
	w.schema, w.table = testSchema(t, rf, readRepair)
	var members []*ring.Node
	for i := range nodes {
		m := &ring.Node{ID: ring.NodeID(i + 1), Datacenter: "dc1", Rack: "r1", State: ring.Normal,
			Internode: netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, byte(i + 1)}), 7000)}
		if i >= 2 {
			m.Datacenter = "dc2"
		}
		for k := range 4 {
			m.Tokens = append(m.Tokens, ring.MinToken+ring.Token(uint64(k)<<62+uint64(i+1)*((1<<62)/uint64(nodes))))
		}
		members = append(members, m)
	}
	topology := ring.NewTopology(1, members)
	for i := range nodes {
		w.nodes = append(w.nodes, w.start(ring.NodeID(i+1), topology, step, limits))
	}
	return w
}

func (w *world) start(id ring.NodeID, topology *ring.Topology, step int64, limits hints.Limits) *node {
	n := &node{w: w, id: id, topology: topology, services: map[messaging.Verb]messaging.Service{},
		down: map[ring.NodeID]bool{}}
	var err error
	if n.engine, err = storage.Open(storage.Options{Dir: "data", FS: vfs.NewMem(), Clock: w.clock, Inline: true,
		Sync: storage.SyncNone}); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		if err := n.engine.Close(); err != nil {
			w.t.Error(err)
		}
	})
	if n.repaired, err = repair.OpenHistory(n.engine, w.clock, 0); err != nil {
		w.t.Fatal(err)
	}
	local := replica.NewLocal(n.engine, n, func(t coordinator.Truncation,
		done func(error)) {
		n.coord.FollowTruncation(t, done)
	})
	replica.Serve(n, local)
	replicas := replica.NewDirectory(local, n, n)
	n.hints = hints.New(hints.Options{View: n, Replicas: replicas, Clock: w.clock, Store: n.engine, Limits: limits})
	stamps := env.NewHLC(w.clock, time.Minute)
	n.coord = coordinator.New(coordinator.Options{View: n, Replicas: replicas, Clock: w.clock, LocalDatacenter: "dc1",
		Hints: n.hints,
		Store: n.engine, Stamps: stamps})
	n.hints.Start(n.coord, nil)
	n.acceptor = acceptor.New(local, n)
	acceptor.Serve(n, n.acceptor)
	n.purge = acceptor.NewPurge(acceptor.PurgeOptions{Acceptor: n.acceptor, Engine: n.engine, Transport: n,
		Clock:     w.clock,
		Run:       func(f func()) { f() },
		Streaming: func(schema.StorageID) bool { return false }})
	n.proposer = paxos.NewProposer(paxos.Options{View: n, Acceptors: acceptor.NewDirectory(n.acceptor, n, n),
		Arbiters:    contention.NewClient(n),
		Coordinator: n.coord, Clock: w.clock,
		Stamps: stamps, LocalDatacenter: "dc1"})
	n.local = local
	run := func(f func()) { f() }
	n.peers = repair.NewService(repair.ServiceOptions{View: n, Local: local, Engine: n.engine, Transport: n,
		Run: run, History: n.repaired, StepBytes: step})
	return n
}

func testSchema(t testing.TB, rf int, readRepair string) (*schema.Schema, *schema.Table) {
	options := schema.DefaultOptions()
	options.SpeculativeRetry, options.ReadRepair = "NEVER", readRepair
	s := testcluster.Catalog(t,
		&schema.CreateKeyspace{Keyspace: "ks", Replication: ring.Replication{Class: ring.Simple, Factor: rf},
			DurableWrites: true},
		&schema.CreateTable{Keyspace: "ks", Table: "t", ID: schema.UUID{1}, Options: options,
			Columns: testcluster.Columns(types.Native(types.Text))})
	return s, s.Table("ks", "t")
}

// repairer returns a node's Repairer, with the given limits.
func (n *node) repairer(limits repair.Limits) *repair.Repairer {
	limits.Timeout = 2 * time.Second
	return repair.NewRepairer(repair.Options{Coordinator: n.coord, View: n, Clock: n.w.clock, Peers: n.peers,
		Paxos: n.purge, Proposer: n.proposer, Store: n.engine, Limits: limits})
}

// verbName returns the name of a message in scenarios.
func verbName(v messaging.Verb) string {
	switch v {
	case messaging.VerbMerkle:
		return "hash"
	case messaging.VerbRepaired:
		return "repaired"
	case messaging.VerbDigest:
		return "digest"
	case messaging.VerbRead:
		return "read"
	case messaging.VerbReadRepair:
		return "repair"
	case messaging.VerbPaxosPurge:
		return "purge"
	}
	return fmt.Sprint("verb ", v)
}

func (n *node) Handle(s messaging.Service) { n.services[s.Verb] = s }
func (n *node) Run(_ int, f func()) error {
	f()
	return nil
}
func (n *node) Send(ring.NodeID, messaging.Verb, []byte) {}
func (w *world) post(from, to ring.NodeID, what string, f func()) {
	w.flight = append(w.flight, letter{fmt.Sprintf("%d>%d %s", from, to, what), f})
}

func (n *node) Request(to ring.NodeID, verb messaging.Verb, payload []byte, timeout time.Duration,
	reply messaging.Reply) {
	w, name := n.w, verbName(verb)
	w.counts[verb]++
	if i, asked := slices.BinarySearch(w.asked, to); !asked {
		w.asked = slices.Insert(w.asked, i, to)
	}
	if w.away[to] {
		reply(nil, messaging.ErrUnreachable)
		return
	}
	answered := false
	answer := func(payload []byte, err error) {
		if !answered {
			answered = true
			reply(payload, err)
		}
	}
	w.clock.After(timeout, func() { answer(nil, messaging.ErrTimeout) })
	payload = slices.Clone(payload)
	w.post(n.id, to, name, func() {
		w.nodes[to-1].services[verb].Handler(n.id, payload, func(payload []byte, err error) {
			payload = slices.Clone(payload)
			outcome := "ok"
			if verb == messaging.VerbRead {
				outcome = "page " + rowsOf(payload)
			}
			w.post(to, n.id, name+" "+outcome, func() { answer(payload, err) })
		})
	})
}

// deliver delivers at most n messages, in the order in which they were sent.
func (w *world) deliver(n int) {
	for ; n > 0 && len(w.flight) > 0; n-- {
		l := w.flight[0]
		w.flight = w.flight[1:]
		w.printf("%s", l.what)
		l.deliver()
	}
}

// pass advances the time and delivers all messages.
func (w *world) pass(d time.Duration) {
	for range d / (100 * time.Millisecond) {
		w.deliver(100_000)
		w.clock.Advance(100 * time.Millisecond)
	}
}

// put stores a row on one replica.
func (w *world) put(n *node, m *row.Mutation) {
	check := func(err error) {
		if err != nil {
			w.t.Error(err)
		}
	}
	check(n.engine.Apply([]*row.Mutation{m}, true, check))
}

// insert returns a mutation of one row.
func (w *world) insert(key, clustering, value string, ts int64) *row.Mutation {
	m, r := &row.Mutation{}, row.NewRow()
	m.Reset(w.table.StorageID, row.NewPartitionKey([]byte(key)))
	r.Clustering = []byte(clustering)
	r.Liveness.Timestamp = ts
	r.Cells = append(r.Cells, row.Cell{Column: w.table.Column("v").ID, Timestamp: ts, Value: []byte(value)})
	m.AddRow(r)
	return m
}

// roots reports whether all nodes have the same hashes, and returns the number of rows of the first.
func (w *world) roots() (equal bool, rows uint64) {
	var first reading.LeafHash
	equal = true
	for i, n := range w.nodes {
		var root reading.LeafHash
		for _, r := range []ring.Range{{Start: ring.MinToken, End: 0}, {Start: 0, End: ring.MinToken}} {
			cmd := &reading.HashCommand{Table: w.table.StorageID, Tokens: r, Leaves: 1, Now: w.clock.Now().Unix(),
				BytesMax: 1 << 40}
			if _, _, err := n.engine.Hash(cmd, func(_ int, h reading.LeafHash) { root.Add(h) }); err != nil {
				w.t.Fatal(err)
			}
		}
		if i == 0 {
			first = root
		}
		equal = equal && root == first
	}
	return equal, first.Rows
}

func (w *world) printf(format string, args ...any) { fmt.Fprintf(&w.log, format+"\n", args...) }

// take returns and empties the log.
func (w *world) take() string {
	s := w.log.String()
	w.log.Reset()
	if s == "" {
		return "ok\n"
	}
	return s
}

// rowsOf renders a page: key{range deletions row=value …}.
func rowsOf(page []byte) string {
	var all []string
	var r row.PageReader
	var x row.Row
	for r.Reset(page); r.NextPartition(); {
		var parts []string
		for _, t := range r.RangeTombstones {
			parts = append(parts, fmt.Sprintf("[%s,%s)deleted@%d", t.Start, strings.TrimSuffix(string(t.End), "\xff"),
				t.Deletion.Timestamp))
		}
		for r.NextRow(&x) {
			s := string(x.Clustering)
			if x.Deletion.Present() {
				s += fmt.Sprintf(" deleted@%d", x.Deletion.Timestamp)
			}
			for _, c := range x.Cells {
				s += fmt.Sprintf("=%s@%d", c.Value, c.Timestamp)
			}
			parts = append(parts, s)
		}
		all = append(all, fmt.Sprintf("%s{%s}", r.Key.Bytes, strings.Join(parts, " ")))
	}
	if err := r.Err(); err != nil {
		return err.Error()
	}
	if len(all) == 0 {
		return "nothing"
	}
	return strings.Join(all, " ")
}
