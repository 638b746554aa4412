package counters_test

import (
	"io"
	"log/slog"
	"slices"
	"testing"
	"time"

	"cqld/coordinator"
	"cqld/counters"
	"cqld/internal/cputime"
	"cqld/internal/env"
	"cqld/internal/guard"
	"cqld/internal/wire"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/simulation/scenario"
)

// benchView is the view of node 1 of a ring whose nodes are all alive.
type benchView struct {
	schema   *schema.Schema
	topology *ring.Topology
}

func (*benchView) Self() ring.NodeID                 { return 1 }
func (v *benchView) Schema() *schema.Schema          { return v.schema }
func (v *benchView) Topology() *ring.Topology        { return v.topology }
func (*benchView) Alive(ring.NodeID) bool            { return true }
func (*benchView) PaxosFloor(schema.StorageID) int64 { return 0 }

// benchClock is the real time. It collects callbacks that are due at once, which the benchmark calls.
type benchClock struct {
	began time.Time
	due   []func()
}

func (c *benchClock) Now() time.Time           { return time.Now() }
func (c *benchClock) Monotonic() time.Duration { return time.Since(c.began) }
func (c *benchClock) After(d time.Duration, f func()) env.Timer {
	if d == 0 {
		c.due = append(c.due, f)
		return nil
	}
	return time.AfterFunc(d, f)
}

// run calls the callbacks that are due.
func (c *benchClock) run() {
	for len(c.due) > 0 {
		f := c.due[0]
		c.due = append(c.due[:0], c.due[1:]...)
		f()
	}
}

// benchReplica answers at once. It also leads updates. While hold is set, it keeps the answers to writes.
type benchReplica struct {
	page []byte
	hold bool
	held []func(error)
}

func (r *benchReplica) Replica(ring.NodeID) coordinator.Replica { return r }
func (r *benchReplica) Apply(_ uint64, _ []*row.Mutation, _ time.Duration, done func(error)) {
	if r.hold {
		r.held = append(r.held, done)
		return
	}
	done(nil)
}
func (r *benchReplica) Read(_ uint64, _ *row.ReadCommand, _ time.Duration, done func([]byte, error)) {
	done(r.page, nil)
}
func (r *benchReplica) ReadHere(_ uint64, _ *row.ReadCommand, _ time.Duration, done func([]byte, error)) {
	done(r.page, nil)
}
func (r *benchReplica) Digest(_ uint64, _ *row.ReadCommand, _ time.Duration, done func(row.Digest, error)) {
	done(row.Digest{}, nil)
}
func (r *benchReplica) DigestHere(_ uint64, _ *row.ReadCommand, _ time.Duration, done func(row.Digest, error)) {
	done(row.Digest{}, nil)
}
func (r *benchReplica) Truncate(_ uint64, _ coordinator.Truncation, _ time.Duration, done func(error)) {
	done(nil)
}
func (r *benchReplica) Lead(_ ring.NodeID, _ *counters.Update, _ time.Duration, done func(error)) {
	done(nil)
}

// newQuick returns the counters of node 1, with replicas that answer at once, and an update of one counter.
func newQuick(t testing.TB, g *guard.Guard, replicas ...ring.NodeID) (*counters.Counters, *benchReplica, *benchClock,
	*coordinator.WriteRequest) {
	s := scenario.Catalog(t, scenario.Options{Replication: ring.Replication{Class: ring.Simple, Factor: len(replicas)}})
	var members []*ring.Node
	for i, id := range replicas {
		members = append(members, &ring.Node{ID: id, Datacenter: "dc1", Rack: "r1", State: ring.Normal,
			Tokens: []ring.Token{ring.Token(i) << 60}})
	}
	view, clock := &benchView{s, ring.NewTopology(1, members)}, &benchClock{began: time.Now()}
	w := row.NewPageWriter(nil)
	replica := &benchReplica{page: w.Finish(false)}
	c := coordinator.New(coordinator.Options{View: view, Replicas: replica, Clock: clock, LocalDatacenter: "dc1"})
	n := counters.New(counters.Options{Coordinator: c, View: view, Replicas: replica, Clock: clock, Leaders: replica,
		LocalDatacenter: "dc1", Guard: g})
	table := s.Table("ks", "n")
	m, r := &row.Mutation{}, row.NewRow()
	m.Reset(table.StorageID, row.NewPartitionKey([]byte("k")))
	r.Clustering = []byte("c")
	r.Cells = []row.Cell{{Column: table.Regulars[0].ID, Value: wire.AppendInt64(nil, 1)}}
	m.AddRow(r)
	return n, replica, clock, &coordinator.WriteRequest{Mutations: []*row.Mutation{m}, Consistency: ring.Quorum,
		Type: coordinator.WriteCounter, Timeout: time.Minute, Blocks: true}
}

// release answers the writes that were held, and leads the updates that have waited.
func (r *benchReplica) release(clock *benchClock) {
	r.hold = false
	for _, f := range r.held {
		f(nil)
	}
	r.held = r.held[:0]
	clock.run()
}

// BenchmarkCounterUpdate updates one counter through replicas that answer at once: this node is the only replica, or
// leads and replicates to three others, or forwards the update to a leader; or 16 updates wait for a first one, and are
// led together. An op is one update, or 17. The processor time depends less on the load of the machine.
func BenchmarkCounterUpdate(b *testing.B) {
	for _, c := range []struct {
		name    string
		nodes   []ring.NodeID // the replicas
		updates int
	}{
		{"alone", []ring.NodeID{1}, 1}, {"replicated", []ring.NodeID{1, 2, 3, 4}, 1},
		{"forwarded", []ring.NodeID{2, 3, 4}, 1}, {"queued", []ring.NodeID{1}, 17},
	} {
		b.Run(c.name, func(b *testing.B) {
			n, replica, clock, req := newQuick(b, nil, c.nodes...)
			answered := 0
			done := func(err error) {
				if answered++; err != nil {
					b.Fatal(err)
				}
			}
			b.ReportAllocs()
			before := cputime.Process()
			for b.Loop() {
				replica.hold = c.updates > 1
				for range c.updates {
					n.Update(req, done)
				}
				replica.release(clock)
			}
			b.ReportMetric(float64((cputime.Process()-before).Nanoseconds())/float64(b.N), "ns-CPU/op")
			if answered != b.N*c.updates {
				b.Errorf("%d updates were answered", answered)
			}
		})
	}
}

// TestPanicOfACallbackEndsItsUpdateOnly leads three updates together. The callback of the first update panics: the
// other two and the next update of the partition are answered.
func TestPanicOfACallbackEndsItsUpdateOnly(t *testing.T) {
	g := guard.New(slog.New(slog.NewTextHandler(io.Discard, nil)))
	n, replica, clock, req := newQuick(t, g, 1)
	var answers []error
	done := func(err error) { answers = append(answers, err) }
	replica.hold = true
	n.Update(req, done)
	for i := range 3 {
		n.Lead(&counters.Update{Epoch: 1, Consistency: ring.Quorum, Mutation: req.Mutations[0]}, time.Minute,
			func(err error) {
				if done(err); i == 0 {
					panic("injected")
				}
			})
	}
	replica.release(clock)
	n.Update(req, done)
	clock.run()
	if len(answers) != 5 || slices.ContainsFunc(answers, func(err error) bool { return err != nil }) {
		t.Errorf("answers %v", answers)
	}
}
