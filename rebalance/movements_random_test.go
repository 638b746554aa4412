package rebalance

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"cqld/repair"
	"cqld/ring"
	"cqld/schema"
)

// moveChaos answers the effects of a moveMachine in any order, from a model of the rows of four nodes. Node 1 joins a
// ring with three replicas of each range, and gains ranges that have lost one replica.
type moveChaos struct {
	t        *testing.T
	seed     uint64
	rnd      *rand.Rand
	m        moveMachine
	v        *deadView
	rows     [5][64]uint64 // versions, by node and row
	open     []moveEffect  // whose event has not come yet
	past     []moveEvent
	complete map[string]bool // sessions that ended without an error, by ID
	over     bool            // the operation has ended, or the movements are stopped
	reports  int
	ends     map[string]int
}

func newMoveChaos(t *testing.T, seed uint64, ends map[string]int) *moveChaos {
	catalog, _ := testCatalog(t)
	catalog = withKeyspace(t, catalog, "three", 3, ring.Replication{Class: ring.Simple, Factor: 3})
	c := &moveChaos{t: t, seed: seed, rnd: rand.New(rand.NewPCG(seed, 11)), ends: ends, complete: map[string]bool{},
		v: &deadView{view: view{self: 1, schema: catalog}, dead: map[ring.NodeID]bool{}}}
	o := &ring.Operation{ID: 7, Kind: ring.Join, Node: 1, Phase: ring.Streaming,
		Tokens: []ring.Token{-5 << 60, 1 << 60, 5 << 60}, Gaining: []ring.NodeID{1}}
	if c.chance(2) {
		o.Phase, o.Switched, o.Known, o.Streamed = ring.Switching, 8, true, []ring.NodeID{1}
	}
	nodes := []*ring.Node{{ID: 1, Datacenter: "dc1", State: ring.Joining, Tokens: o.Tokens}}
	for id := ring.NodeID(2); id <= 4; id++ {
		nodes = append(nodes, &ring.Node{ID: id, Datacenter: "dc1", State: ring.Normal,
			Tokens: []ring.Token{ring.Token(id-4) << 60, ring.Token(2*id-2) << 60}})
	}
	c.v.topology = ring.NewMovingTopology(9, 9, nodes, []*ring.Operation{o})
	c.m = moveMachine{view: c.v, leafBytes: 100, deadAfter: deadAfter, movements: map[uint64]*movement{}}
	for i := range c.rows[2] {
		for node := 2; node <= 4; node++ {
			c.rows[node][i] = uint64(1 + c.rnd.IntN(2))
		}
		if o.Known && !c.chance(8) {
			c.rows[1][i] = 2
		}
	}
	return c
}

func (c *moveChaos) chance(n int) bool { return c.rnd.IntN(n) == 0 }

func (c *moveChaos) fatalf(format string, args ...any) {
	c.t.Helper()
	c.t.Fatalf("seed %d: %s", c.seed, fmt.Sprintf(format, args...))
}

// rowsIn returns the rows in a range.
func rowsIn(tokens ring.Range) (out []int) {
	for i := range 64 {
		if tokens.Contains(ring.Token(i-32)<<58 + 1) {
			out = append(out, i)
		}
	}
	return out
}

// send passes an event to the machine, and checks what its effects promise.
func (c *moveChaos) send(ev *moveEvent) {
	if ev.number != 0 {
		c.past = append(c.past, *ev)
	}
	for _, e := range c.m.step(ev, nil) {
		c.ends[describeMove(&e)[:4]]++
		if c.over && e.kind != effectForget {
			c.fatalf("after the end: %s", describeMove(&e))
		}
		if e.kind == effectReport {
			c.checkReport(e.movement)
		}
		if e.number != 0 {
			c.open = append(c.open, e)
		}
	}
	c.m.check()
}

// checkReport checks that each gained range and table was received, from enough of its sources, or compared with them.
func (c *moveChaos) checkReport(v *movement) {
	c.reports++
	for _, f := range v.gained(c.v.topology) {
		for _, table := range f.tables {
			from := 0
			for node := ring.NodeID(2); node <= 4; node++ {
				p := Session{ID: fmt.Sprintf("7/%d/%s/%d", table, f.gain.Range, node)}
				if table == schema.PaxosTable {
					p.ID += "/" + f.keyspaces[0]
				}
				if !c.complete[p.ID] {
					continue
				}
				if from++; node == f.gain.From {
					from = 4 // its copy is replaced, so it suffices
				}
				for _, i := range rowsIn(f.gain.Range) {
					if table != schema.PaxosTable && c.rows[1][i] < c.rows[node][i] {
						c.fatalf("reported, and row %d of node %d is missing", i, node)
					}
				}
			}
			if from < max(f.gain.Total, f.gain.Local, 1) {
				c.fatalf("reported, and range %v of table %d is here from %d sources", f.gain.Range, table, from)
			}
		}
	}
}

// deliver delivers the event of one outstanding effect.
func (c *moveChaos) deliver() {
	if len(c.open) == 0 {
		c.fatalf("no event would continue the movement")
	}
	i := c.rnd.IntN(len(c.open))
	e := c.open[i]
	c.open = slices.Delete(c.open, i, i+1)
	ev := &moveEvent{kind: eventOf(e.kind), movement: e.movement, task: e.task, number: e.number}
	if e.kind != effectPause && c.chance(12) {
		ev.err = errDisk
	}
	switch {
	case e.kind == effectHash && ev.err == nil:
		c.hash(&e, ev)
	case e.kind == effectStream && ev.err == nil:
		for _, i := range rowsIn(e.session.Range) {
			c.rows[1][i] = max(c.rows[1][i], c.rows[e.session.Source][i])
		}
	}
	running := e.task != nil && slices.Contains(e.movement.running, e.task)
	if e.kind == effectStream && ev.err == nil && !e.movement.compare {
		c.complete[e.session.ID] = true
	}
	// The comparison that ends by this event is complete, if it does not fail.
	if e.movement.compare && running && ev.err == nil {
		c.complete[e.task.session.ID] = true
	}
	c.send(ev)
	if e.movement.compare && running && slices.Contains(e.movement.running, e.task) {
		delete(c.complete, e.task.session.ID)
	}
}

// hash hashes at most five rows of a node in one step.
func (c *moveChaos) hash(e *moveEffect, ev *moveEvent) {
	r, s, after, scanned := e.request, &ev.hashes, -1, 0
	if r.After != nil {
		after = int(r.After[0])
	}
	s.Size = 350
	for leaf := range r.Leaves {
		part := r.Tokens
		if r.Leaves > 1 {
			part = r.Tokens.Part(leaf, r.Leaves)
		}
		for _, i := range rowsIn(part) {
			if i <= after || s.Next != nil {
				continue
			}
			if scanned++; scanned > 5 {
				s.Next = []byte{byte(after)}
				continue
			}
			after = i
			s.Leaves = append(s.Leaves, leaf)
			s.Hashes = append(s.Hashes, repair.LeafHash{Sum: sumOf(i, c.rows[e.node][i]), Rows: 1})
		}
	}
}

// sumOf returns the hash of a version of a row: sums of other rows do not equal it.
func sumOf(i int, version uint64) [2]uint64 {
	rnd := rand.NewPCG(uint64(i), version)
	return [2]uint64{rnd.Uint64(), rnd.Uint64()}
}

// run delivers events in a random order until the log has the report, or the operation ends early. It kills sources,
// and repeats events.
func (c *moveChaos) run() {
	c.send(&moveEvent{kind: moveReconciled, topology: c.v.topology})
	v := c.m.movements[7]
	for n := 0; !v.reported || v.reporting != 0; n++ {
		if n > 20_000 {
			c.fatalf("not reported after %d events", n)
		}
		c.v.dead = map[ring.NodeID]bool{ring.NodeID(2 + c.rnd.IntN(3)): c.chance(4)}
		switch {
		case c.chance(10) && len(c.past) > 0:
			again := c.past[c.rnd.IntN(len(c.past))]
			c.send(&again)
		case c.chance(20):
			c.send(&moveEvent{kind: moveReconciled, topology: c.v.topology})
		case c.chance(2000):
			c.finish()
			return
		default:
			c.deliver()
		}
	}
	c.finish()
}

// finish ends the operation, or stops the movements, and delivers late events.
func (c *moveChaos) finish() {
	c.over = true
	if c.chance(2) {
		c.v.topology = ring.NewTopology(10, c.v.topology.Nodes())
		c.send(&moveEvent{kind: moveReconciled, topology: c.v.topology})
	} else {
		c.send(&moveEvent{kind: moveStopped})
	}
	for len(c.open) > 0 {
		c.deliver()
	}
}

// TestMovementsInAnyOrder answers the effects of movements in random orders, with failures, dead sources, events that
// come twice, and an early end. The invariants hold after each step, each movement ends, and it reports only what it
// has received or compared.
func TestMovementsInAnyOrder(t *testing.T) {
	seeds, reports, ends := uint64(200), 0, map[string]int{}
	if testing.Short() {
		seeds = 50
	}
	for seed := range seeds {
		c := newMoveChaos(t, seed, ends)
		c.run()
		reports += c.reports
	}
	for _, name := range []string{"stre", "hash", "forg", "repo", "paus", "note"} {
		if ends[name] == 0 {
			t.Errorf("no movement of %v has the effect %s", ends, name)
		}
	}
	if reports < int(seeds)/2 {
		t.Errorf("%d reports of %d movements", reports, seeds)
	}
	t.Logf("%v", ends)
}
