package coordinator_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/coordinator"
	"cqld/internal/cputime"
	"cqld/internal/env"
	"cqld/messaging"
	"cqld/paxos"
	"cqld/paxos/acceptor"
	"cqld/paxos/contention"
	"cqld/replica"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/simulation/scenario"
	"cqld/storage"
)

// benchNode is a coordinator and replica with storage on disk; messages are delivered by function calls in separate
// goroutines, with the encoded payloads.
type benchNode struct {
	id       ring.NodeID
	nodes    []*benchNode
	schema   *schema.Schema
	topology *ring.Topology
	engine   *storage.Engine
	services map[messaging.Verb]messaging.Service
	coord    *coordinator.Coordinator
	proposer *paxos.Proposer
	parts    *scenario.Parts // nil in benchmarks
	call     func(f func())  // executes a function of the node's replica; nil calls it directly
	running  *goroutines     // of all nodes
}

func (n *benchNode) Self() ring.NodeID                 { return n.id }
func (n *benchNode) Schema() *schema.Schema            { return n.schema }
func (n *benchNode) Topology() *ring.Topology          { return n.topology }
func (n *benchNode) Alive(ring.NodeID) bool            { return true }
func (n *benchNode) PaxosFloor(schema.StorageID) int64 { return 0 }

func (n *benchNode) Handle(s messaging.Service) { n.services[s.Verb] = s }
func (n *benchNode) Run(_ int, f func()) error {
	if n.call != nil {
		return n.running.start(func() { n.call(f) })
	}
	return n.running.start(f)
}
func (n *benchNode) Send(to ring.NodeID, v messaging.Verb, payload []byte) {
	payload = slices.Clone(payload)
	_ = n.running.start(func() { n.nodes[to-1].services[v].Handler(n.id, payload, func([]byte, error) {}) })
}
func (n *benchNode) Request(to ring.NodeID, v messaging.Verb, payload []byte, _ time.Duration, reply messaging.Reply) {
	payload = slices.Clone(payload)
	_ = n.running.start(func() {
		n.nodes[to-1].services[v].Handler(n.id, payload, func(answer []byte, err error) {
			answer = slices.Clone(answer)
			_ = n.running.start(func() { reply(answer, err) })
		})
	})
}

// goroutines counts the goroutines of a ring, which must end before its engines close. The callbacks of the last writes
// cannot start further ones.
type goroutines struct {
	mu      sync.Mutex
	ended   bool
	running sync.WaitGroup
}

// start runs f in a new goroutine, unless the ring has ended.
func (g *goroutines) start(f func()) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended {
		return errors.New("the ring has ended")
	}
	g.running.Go(f)
	return nil
}

// end waits for all goroutines.
func (g *goroutines) end() {
	g.mu.Lock()
	g.ended = true
	g.mu.Unlock()
	g.running.Wait()
}

// ringClock is the real time. Its timers, such as those of hints, do nothing after the end of the ring.
type ringClock struct {
	realClock
	running *goroutines
}

func (c ringClock) After(d time.Duration, f func()) env.Timer {
	return c.realClock.After(d, func() { _ = c.running.start(f) })
}

func newBenchRing(b testing.TB, n int) []*benchNode {
	s := scenario.Catalog(b, scenario.Options{Replication: ring.Replication{Class: ring.Simple, Factor: n}})
	nodes, running := make([]*benchNode, n), new(goroutines)
	clock := ringClock{realClock{time.Now()}, running}
	var members []*ring.Node
	for i := range nodes {
		id := ring.NodeID(i + 1)
		engine, err := storage.Open(storage.Options{Dir: b.TempDir(), FS: vfs.Default, Clock: realClock{time.Now()},
			Sync: storage.SyncBatch})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() {
			if err := engine.Close(); err != nil {
				b.Error(err)
			}
		})
		nodes[i] = &benchNode{id: id, nodes: nodes, schema: s, engine: engine, running: running,
			services: map[messaging.Verb]messaging.Service{}}
		members = append(members, &ring.Node{ID: id, Datacenter: "dc1", Rack: "r1", State: ring.Normal,
			Tokens: []ring.Token{ring.Token(i) << 60}})
	}
	b.Cleanup(running.end) // a quorum answers the client before the last replica has done its work
	for _, n := range nodes {
		n.topology = ring.NewTopology(1, members)
		local := replica.NewLocal(n.engine, n, nil)
		replica.Serve(n, local)
		n.coord = scenario.NewParts(scenario.PartsOptions{Coordinator: coordinator.Options{
			View: n, Replicas: replica.NewDirectory(local, n, n), Clock: clock, LocalDatacenter: "dc1"},
			Store: n.engine,
		}).Coordinator
		n.startPaxos(paxos.Options{View: n, Clock: clock}, local, n)
	}
	return nodes
}

// startPaxos creates the acceptor and, from the options, the proposer.
func (n *benchNode) startPaxos(o paxos.Options, local *replica.Local, transport messaging.Transport) {
	voter := acceptor.New(local, n)
	acceptor.Serve(n, voter)
	o.Acceptors, o.Arbiters = acceptor.NewDirectory(voter, transport, n), contention.NewClient(transport)
	o.Coordinator, o.LocalDatacenter = n.coord, "dc1"
	o.Stamps = env.NewHLC(o.Clock, time.Minute)
	n.proposer = paxos.NewProposer(o)
	contention.Serve(n, n.proposer.Arbiter())
}

// insert inserts rows that do not exist in one conditional change.
func (n *benchNode) insert(key row.PartitionKey, first, rows int, done func(error)) {
	table := n.schema.Table("ks", "t")
	cmd := &row.ReadCommand{Table: table.StorageID, Key: key, Now: 1}
	for i := range rows {
		cmd.Slices = append(cmd.Slices, row.ExactRow(fmt.Appendf(nil, "%09d", first+i)))
	}
	n.proposer.CAS(&paxos.CASRequest{
		Command: cmd, Serial: ring.Serial, Consistency: ring.Quorum, Contention: 10 * time.Second,
		Timeout: 10 * time.Second,
		Update: func(page []byte, timestamp int64) (*row.Mutation, bool, error) {
			if len(page) > 2 {
				return nil, false, nil
			}
			m := new(row.Mutation)
			m.Reset(table.StorageID, key)
			r := row.NewRow()
			for i := range rows {
				r.Reset()
				r.Clustering = cmd.Slices[i].Start
				r.Liveness.Timestamp = timestamp
				r.Cells = append(r.Cells, row.Cell{Column: table.Column("v").ID, Timestamp: timestamp,
					Value: benchText})
				m.AddRow(r)
			}
			return m, true, nil
		},
	}, func(applied bool, _ []byte, err error) {
		if err == nil && !applied {
			err = fmt.Errorf("row %d was there", first)
		}
		done(err)
	})
}

// benchText is immutable.
var benchText = slices.Repeat([]byte("0123456789"), 15)

// BenchmarkCAS executes conditional inserts through one coordinator, with fsync: into one partition, or each into its
// own. An op is one insert; B and allocations are those of all nodes.
func BenchmarkCAS(b *testing.B) {
	for _, c := range []struct {
		nodes, flight, rows int
		apart               bool
	}{
		{nodes: 1, flight: 1, rows: 1}, {nodes: 1, flight: 64, rows: 1}, {nodes: 1, flight: 64, rows: 1, apart: true},
		{nodes: 1, flight: 16, rows: 100},
		{nodes: 4, flight: 1, rows: 1}, {nodes: 4, flight: 16, rows: 1}, {nodes: 4, flight: 64, rows: 1},
		{nodes: 4, flight: 16, rows: 100},
	} {
		where := "one partition"
		if c.apart {
			where = "own partitions"
		}
		b.Run(fmt.Sprintf("nodes=%d/%s/flight=%d/rows=%d", c.nodes, where, c.flight, c.rows), func(b *testing.B) {
			n := newBenchRing(b, c.nodes)[0]
			b.ReportAllocs()
			b.ResetTimer()
			before := cputime.Process()
			var next atomic.Int64
			var wait sync.WaitGroup
			for range c.flight {
				wait.Go(func() {
					ended := make(chan error, 1)
					for i := int(next.Add(1)); i <= b.N; i = int(next.Add(1)) {
						key := "k"
						if c.apart {
							key = fmt.Sprint(i)
						}
						n.insert(row.NewPartitionKey([]byte(key)), i*c.rows, c.rows, func(err error) { ended <- err })
						if err := <-ended; err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wait.Wait()
			b.ReportMetric(float64((cputime.Process()-before).Microseconds())/float64(b.N), "µs-CPU/op")
			b.ReportMetric(float64(n.proposer.Stats().Rounds)/float64(b.N), "rounds/op")
		})
	}
}
