package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cqld/coordinator"
	"cqld/internal/await"
	"cqld/internal/env"
	"cqld/paxos"
	"cqld/paxos/ballot"
	"cqld/paxos/contention"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/simulation/scenario"
)

// realClock is the real time; these tests test goroutines, not time.
type realClock struct{ start time.Time }

func (c realClock) Now() time.Time                                { return time.Now() }
func (c realClock) Monotonic() time.Duration                      { return time.Since(c.start) }
func (c realClock) After(d time.Duration, f func()) env.Timer     { return time.AfterFunc(d, f) }
func (v *fakeView) Self() ring.NodeID                             { return 1 }
func (v *fakeView) Schema() *schema.Schema                        { return v.schema }
func (v *fakeView) Topology() *ring.Topology                      { return v.topology }
func (v *fakeView) Alive(ring.NodeID) bool                        { return true }
func (v *fakeView) PaxosFloor(schema.StorageID) int64             { return 0 }
func (v *fakeView) Replica(id ring.NodeID) coordinator.Replica    { return v.replicas[id] }
func (h noHints) SetLocal([]byte, []byte, bool) error             { return nil }
func (h noHints) DeleteLocal([]byte, bool) error                  { return nil }
func (h noHints) ScanLocal([]byte, func(k, v []byte) error) error { return nil }

// noHints is a store that stores nothing.
type noHints struct{}

type fakeView struct {
	schema   *schema.Schema
	table    *schema.Table
	topology *ring.Topology
	replicas map[ring.NodeID]coordinator.Replica
}

func newFakeView(t testing.TB, nodes, factor int, replica func(ring.NodeID) coordinator.Replica) *fakeView {
	v := &fakeView{replicas: map[ring.NodeID]coordinator.Replica{}}
	v.schema = scenario.Catalog(t, scenario.Options{
		Replication: ring.Replication{Class: ring.Simple, Factor: factor},
		Table:       func(o *schema.Options) { o.SpeculativeRetry, o.WriteOrdering = "99p", "quorum" },
	})
	v.table = v.schema.Table("ks", "t")
	var members []*ring.Node
	for i := range nodes {
		id := ring.NodeID(i + 1)
		members = append(members, &ring.Node{ID: id, Datacenter: "dc1", Rack: "r1", State: ring.Normal,
			Tokens:    []ring.Token{ring.Token(i) << 60},
			Internode: netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, byte(id)}), 7000)})
		v.replicas[id] = replica(id)
	}
	v.topology = ring.NewTopology(1, members)
	return v
}

// faultyReplica answers at random times with random results, in separate goroutines.
type faultyReplica struct {
	goroutines running
	pages      [][]byte
}

// running counts goroutines. Unlike a WaitGroup, it permits some to start while another waits, because a coordinator's
// timers ask replicas at any time.
type running struct{ n atomic.Int64 }

func (r *running) Go(f func()) {
	r.n.Add(1)
	go func() {
		defer r.n.Add(-1)
		f()
	}()
}

func (r *running) Wait() {
	for r.n.Load() > 0 {
		time.Sleep(time.Millisecond)
	}
}

func (w *faultyReplica) later(timeout time.Duration, f func(err error)) {
	n := rand.IntN(100)
	switch {
	case n < 20:
		f(nil)
		return
	case n < 25:
		f(&coordinator.NotReplica{Epoch: 2})
		return
	}
	w.goroutines.Go(func() {
		switch {
		case n < 35:
			time.Sleep(timeout)
			f(coordinator.ErrNoReply)
		case n < 45:
			f(errors.New("no"))
		default:
			time.Sleep(time.Duration(rand.IntN(2000)) * time.Microsecond)
			f(nil)
		}
	})
}

func (w *faultyReplica) Apply(_ uint64, _ []*row.Mutation, timeout time.Duration, done func(error)) {
	w.later(timeout, done)
}

func (w *faultyReplica) Read(_ uint64, _ *row.ReadCommand, timeout time.Duration, done func([]byte, error)) {
	page := append([]byte(nil), w.pages[rand.IntN(len(w.pages))]...)
	w.later(timeout, func(err error) {
		done(page, err)
		clear(page) // it is valid only until now
	})
}

func (w *faultyReplica) Newest(_ uint64, _ *row.ReadCommand, timeout time.Duration, done func(int64, error)) {
	newest := rand.Int64N(20)
	w.later(timeout, func(err error) { done(newest, err) })
}

func (w *faultyReplica) KeepBatch(_ coordinator.RequestID, _ []byte, timeout time.Duration, done func(error)) {
	w.later(timeout, done)
}

func (w *faultyReplica) ForgetBatches(_ []coordinator.RequestID, timeout time.Duration, done func(error)) {
	w.later(timeout, done)
}

func (w *faultyReplica) Digest(_ uint64, _ *row.ReadCommand, timeout time.Duration, done func(row.Digest, error)) {
	d := row.DigestOf(w.pages[rand.IntN(len(w.pages))])
	w.later(timeout, func(err error) { done(d, err) })
}

// faultyAcceptors answer like a faultyReplica.
type faultyAcceptors struct{ w *faultyReplica }

func (a faultyAcceptors) Prepare(_ ring.NodeID, _ coordinator.Trace, _ uint64, _, _ ballot.Ballot, _ *row.ReadCommand,
	timeout time.Duration, done func(*ballot.Promise, error)) {
	p := &ballot.Promise{Promised: ballot.Ballot{Micros: 1},
		Page: append([]byte(nil), a.w.pages[rand.IntN(len(a.w.pages))]...)}
	if p.Refused = rand.IntN(10) == 0; p.Refused {
		p.Promised.Micros, p.Page = time.Now().UnixMicro(), nil
	}
	a.w.later(timeout, func(err error) {
		if err != nil {
			done(nil, err)
			return
		}
		done(p, nil)
		clear(p.Page) // it is valid only until now
	})
}

func (a faultyAcceptors) Accept(to []ring.NodeID, _ coordinator.Trace, _ uint64, _ *ballot.Proposal,
	timeout time.Duration, done func(int, ballot.Ballot, error)) {
	for i := range to {
		a.w.later(timeout, func(err error) { done(i, ballot.Ballot{}, err) })
	}
}

func (a faultyAcceptors) Commit(_ ring.NodeID, _ coordinator.Trace, _ uint64, _ *ballot.Proposal, timeout time.Duration,
	done func(error)) {
	a.w.later(timeout, done)
}

func (a faultyAcceptors) Decide(_ uint64, _ *row.ReadCommand,
	_ func(ballot.Known, []byte) (*ballot.Proposal, *row.Mutation), done func(error)) {
	done(ballot.ErrUnsettled)
}

func (a faultyAcceptors) Ask(_ ring.NodeID, _ string, timeout time.Duration,
	done func(contention.Turn, error)) {
	a.w.later(timeout, func(err error) { done(contention.Turn{}, err) })
}

func (a faultyAcceptors) Pass(ring.NodeID, string, uint64) {}

func (w *faultyReplica) Truncate(_ uint64, _ coordinator.Truncation, timeout time.Duration, done func(error)) {
	w.later(timeout, done)
}

// TestEveryRequestIsAnsweredOnce uses one coordinator with faulty replicas from many goroutines: each request must be
// answered once, with a page that can be read.
func TestEveryRequestIsAnsweredOnce(t *testing.T) {
	faulty := &faultyReplica{}
	view := newFakeView(t, 4, 3, func(ring.NodeID) coordinator.Replica { return faulty })
	key := row.NewPartitionKey([]byte("k"))
	for i := range 3 {
		w := row.NewPageWriter(nil)
		w.Partition(key, row.NewRow(), nil)
		for c := range 3 {
			r := row.NewRow()
			r.Clustering = []byte{'a' + byte(c)}
			r.Cells = append(r.Cells, row.Cell{Timestamp: int64(i), Value: []byte("v")})
			w.Row(r)
		}
		w.EndPartition()
		faulty.pages = append(faulty.pages, w.Finish(i == 0))
	}
	stamps := env.NewHLC(realClock{time.Now()}, time.Minute)
	c := scenario.NewParts(scenario.PartsOptions{Coordinator: coordinator.Options{View: view, Replicas: view,
		Clock: realClock{time.Now()}, LocalDatacenter: "dc1", Stamps: stamps},
		Store: noHints{}})
	proposer := paxos.NewProposer(paxos.Options{View: view, Acceptors: faultyAcceptors{faulty},
		Arbiters:    faultyAcceptors{faulty},
		Coordinator: c.Coordinator, Clock: realClock{time.Now()},
		Stamps: stamps, LocalDatacenter: "dc1"})
	var asked, answered, broken atomic.Int64
	var all sync.WaitGroup
	request := func(r *rand.Rand) {
		levels := []ring.Consistency{ring.One, ring.Two, ring.Quorum, ring.All, ring.Any}
		level := levels[r.IntN(len(levels))]
		cmd := &row.ReadCommand{Table: view.table.StorageID, Key: key, Slices: []row.Slice{row.AllRows()},
			Limits: row.Limits{Rows: 5}}
		once := new(atomic.Int64)
		end := func() {
			answered.Add(1)
			if once.Add(1) != 1 {
				broken.Add(1)
			}
			all.Done()
		}
		all.Add(1)
		asked.Add(1)
		switch r.IntN(4) {
		case 3:
			if r.IntN(4) > 0 {
				cmd.Limits = row.Limits{} // it is merged with others
			}
			proposer.CAS(&paxos.CASRequest{
				Command: cmd, Serial: ring.Serial, Consistency: level, Contention: 20 * time.Millisecond,
				Timeout: 20 * time.Millisecond,
				Update: func(page []byte, timestamp int64) (*row.Mutation, bool, error) {
					if rows, _ := liveRows(t, cmd, page); len(rows) == 0 {
						broken.Add(1)
					}
					m := &row.Mutation{}
					m.Reset(view.table.StorageID, key)
					scenario.AddRow(m, view.table, "a", "x", timestamp)
					return m, timestamp%3 == 0, nil
				},
			}, func(bool, []byte, error) { end() })
			return
		case 0:
			ms := make([]*row.Mutation, 1+r.IntN(3))
			for i := range ms {
				ms[i] = &row.Mutation{}
				ms[i].Reset(view.table.StorageID, row.NewPartitionKey(fmt.Append(nil, i)))
				scenario.AddRow(ms[i], view.table, "a", "x", 7)
			}
			write := c.Write
			if r.IntN(3) == 0 {
				write = c.Batches.Write
			}
			write(&coordinator.WriteRequest{Mutations: ms, Consistency: level, Type: coordinator.WriteSimple,
				Timeout: 20 * time.Millisecond,
				Ordered: r.IntN(2) == 0, Stamp: 7}, func(error) { end() })
			return
		case 1:
			cmd.Key = row.PartitionKey{}
			cmd.Range.Tokens = ring.FullRange()
		}
		c.Read(&coordinator.ReadRequest{Command: cmd, Consistency: level, Timeout: 20 * time.Millisecond},
			func(page []byte, err error) {
				if err == nil {
					if rows, _ := liveRows(t, cmd, page); len(rows) == 0 {
						broken.Add(1)
					}
				}
				end()
			})
	}
	var clients sync.WaitGroup
	for i := range 8 {
		clients.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), 0))
			for range 400 {
				request(r)
			}
		})
	}
	clients.Wait()
	all.Wait()
	time.Sleep(100 * time.Millisecond) // time for a second answer
	faulty.goroutines.Wait()
	if broken.Load() > 0 || asked.Load() != answered.Load() {
		t.Errorf("%d requests, %d answers, %d broken", asked.Load(), answered.Load(), broken.Load())
	}
	if !await.Reached(time.Minute, func() bool { // of a write, the count ends with the last replica
		return coordinator.InFlight(c.Coordinator) == (coordinator.InFlightCounts{})
	}) {
		t.Errorf("all is answered, but still counted: %+v", coordinator.InFlight(c.Coordinator))
	}
	c.Close() // otherwise its hints' timers continue in later tests
}

// quickReplica answers at once.
type quickReplica struct {
	page []byte
}

func (q *quickReplica) Apply(_ uint64, _ []*row.Mutation, _ time.Duration, done func(error)) {
	done(nil)
}
func (q *quickReplica) Read(_ uint64, _ *row.ReadCommand, _ time.Duration, done func([]byte, error)) {
	done(q.page, nil)
}
func (q *quickReplica) Digest(_ uint64, _ *row.ReadCommand, _ time.Duration, done func(row.Digest, error)) {
	done(row.DigestOf(q.page), nil)
}
func (q *quickReplica) Truncate(_ uint64, _ coordinator.Truncation, _ time.Duration, done func(error)) {
	done(nil)
}

// ReadHere and DigestHere implement coordinator.Blocking.
func (q *quickReplica) ReadHere(_ uint64, _ *row.ReadCommand, _ time.Duration, done func([]byte, error)) {
	done(q.page, nil)
}
func (q *quickReplica) DigestHere(_ uint64, _ *row.ReadCommand, _ time.Duration, done func(row.Digest, error)) {
	done(row.DigestOf(q.page), nil)
}

// quickCluster returns a coordinator of replicas that answer at once.
func quickCluster(t testing.TB, nodes int) (*coordinator.Coordinator, *coordinator.WriteRequest,
	*coordinator.ReadRequest) {
	quick := &quickReplica{page: emptyPage()}
	view := newFakeView(t, nodes, nodes, func(ring.NodeID) coordinator.Replica { return quick })
	c := scenario.NewParts(scenario.PartsOptions{Coordinator: coordinator.Options{View: view, Replicas: view,
		Clock: realClock{time.Now()}, LocalDatacenter: "dc1"}, Store: noHints{}})
	m := &row.Mutation{}
	m.Reset(view.table.StorageID, row.NewPartitionKey([]byte("k")))
	w := &coordinator.WriteRequest{Mutations: []*row.Mutation{m}, Consistency: ring.Quorum,
		Type: coordinator.WriteSimple, Timeout: time.Second}
	cmd := &row.ReadCommand{Table: m.Table, Key: m.Key, Slices: []row.Slice{row.AllRows()},
		Limits: row.Limits{Rows: 100}}
	return c.Coordinator, w, &coordinator.ReadRequest{Command: cmd, Consistency: ring.Quorum, Timeout: time.Second}
}

// TestAllocations bounds the allocations of the hot paths.
func TestAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("sync.Pool keeps nothing under the race detector")
	}
	wrote := func(error) {}
	read := func([]byte, error) {}
	for _, x := range []struct {
		name                  string
		nodes                 int
		write, read, canceled float64
	}{
		{"one node", 1, 0, 0, 0},
		{"quorum of four", 4, 1, 1, 2}, // the timer, and what cancels the requests to replicas
	} {
		c, w, r := quickCluster(t, x.nodes)
		if n := leastAllocs(x.write, func() { c.Write(w, wrote) }); n > x.write {
			t.Errorf("%s: a write allocates %v times, at most %v are needed", x.name, n, x.write)
		}
		if n := leastAllocs(x.read, func() { c.Read(r, read) }); n > x.read {
			t.Errorf("%s: a read allocates %v times, at most %v are needed", x.name, n, x.read)
		}
		r.Cancel = env.NewCancel(context.Background())
		r.Command.Cancel, r.Blocks = r.Cancel, true
		if n := leastAllocs(x.canceled, func() { c.Read(r, read) }); n > x.canceled {
			t.Errorf("%s: a read that can be canceled allocates %v times, at most %v are needed", x.name, n, x.canceled)
		}
	}
}

// endlessReplica reads until the command is canceled, as storage does.
type endlessReplica struct{ quickReplica }

func (q *endlessReplica) ReadHere(_ uint64, cmd *row.ReadCommand, _ time.Duration, done func([]byte, error)) {
	for cmd.Cancel.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	done(nil, cmd.Cancel.Err())
}

// TestReadsOfThisNodeEndWithTheirRequest cancels a read that only this node executes, in the goroutine of the request:
// by the context, and by Cancel.
func TestReadsOfThisNodeEndWithTheirRequest(t *testing.T) {
	endless := &endlessReplica{}
	view := newFakeView(t, 1, 1, func(ring.NodeID) coordinator.Replica { return endless })
	c := scenario.NewParts(scenario.PartsOptions{Coordinator: coordinator.Options{View: view, Replicas: view,
		Clock: realClock{time.Now()}, LocalDatacenter: "dc1"}, Store: noHints{}})
	for range 20 {
		for _, byContext := range []bool{true, false} {
			ctx, end := context.WithCancel(context.Background())
			cancel := env.NewCancel(ctx)
			if !byContext {
				end = cancel.Cancel
			}
			time.AfterFunc(2*time.Millisecond, end)
			cmd := &row.ReadCommand{Table: view.table.StorageID, Key: row.NewPartitionKey([]byte("k")),
				Slices: []row.Slice{row.AllRows()}, Limits: row.Limits{Rows: 100}, Cancel: cancel}
			answers := 0
			c.Coordinator.Read(&coordinator.ReadRequest{Command: cmd, Consistency: ring.Quorum, Timeout: time.Minute,
				Cancel: cancel, Blocks: true}, func(_ []byte, err error) {
				if answers++; !errors.Is(err, env.ErrCanceled) {
					t.Errorf("by the context %v: %v", byContext, err)
				}
			})
			if answers != 1 {
				t.Errorf("by the context %v: %d answers", byContext, answers)
			}
		}
	}
	if n := coordinator.InFlight(c.Coordinator); n != (coordinator.InFlightCounts{}) {
		t.Errorf("all is answered, but still counted: %+v", n)
	}
}

// leastAllocs repeats the count if there are too many allocations: those of all goroutines are counted, including the
// remaining goroutines of earlier tests.
func leastAllocs(enough float64, f func()) float64 {
	least := testing.AllocsPerRun(1000, f)
	for i := 0; i < 5 && least > enough; i++ {
		time.Sleep(100 * time.Millisecond)
		least = min(least, testing.AllocsPerRun(1000, f))
	}
	return least
}

func BenchmarkCoordinator(b *testing.B) {
	for _, nodes := range []int{1, 4} {
		c, w, r := quickCluster(b, nodes)
		b.Run(fmt.Sprintf("write/%d", nodes), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c.Write(w, func(error) {})
			}
		})
		b.Run(fmt.Sprintf("read/%d", nodes), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c.Read(r, func([]byte, error) {})
			}
		})
	}
}

func emptyPage() []byte {
	w := row.NewPageWriter(nil)
	return w.Finish(false)
}
