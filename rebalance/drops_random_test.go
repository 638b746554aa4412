package rebalance

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"cqld/ring"
	"cqld/schema"
)

// dropChaos answers the effects of a dropMachine in any order, from a model of the data of node 1 and of the answers of
// three other nodes.
type dropChaos struct {
	t         *testing.T
	seed      uint64
	rnd       *rand.Rand
	m         dropMachine
	v         *view
	unclean   uint64
	data      map[string]bool // the keyspaces and ranges with data
	open      []dropEffect    // whose event has not come yet
	past      []dropEvent
	confirmed map[string]map[ring.NodeID]bool // replicas that confirmed a range in the current decision
	fenced    []dropItem                      // as the last fence found; nil without a fence
	stopped   bool
	waiting   []*cleanup
	answered  map[*cleanup]error
	ends      map[string]int
}

func newDropChaos(t *testing.T, seed uint64, ends map[string]int) *dropChaos {
	catalog, _ := testCatalog(t)
	catalog = withKeyspace(t, catalog, "two", 2, ring.Replication{Class: ring.Simple, Factor: 2})
	c := &dropChaos{t: t, seed: seed, rnd: rand.New(rand.NewPCG(seed, 9)), data: map[string]bool{}, ends: ends,
		v: &view{self: 1, schema: catalog, topology: ring.NewTopology(8, fourNodes())}, answered: map[*cleanup]error{}}
	c.m.view = c.v
	return c
}

func (c *dropChaos) chance(n int) bool { return c.rnd.IntN(n) == 0 }

func (c *dropChaos) fatalf(format string, args ...any) {
	c.t.Helper()
	c.t.Fatalf("seed %d: %s", c.seed, fmt.Sprintf(format, args...))
}

// items lists the ranges that node 1 does not hold.
func (c *dropChaos) items() (items []dropItem) {
	for _, name := range c.v.schema.KeyspaceNames() {
		k := c.v.schema.Keyspace(name)
		if k.Replication.Class == ring.Local || schema.IsReplicatedSystem(name) {
			continue
		}
		for _, gap := range gaps(heldBy(c.v.topology.Placement(k.Replication), 1)) {
			items = append(items, dropItem{name, tablesOf(k), gap, nil, true, tablesOf(k)})
		}
	}
	return items
}

func keyOf(keyspace string, tokens ring.Range) string { return keyspace + " " + tokens.String() }

// send passes an event to the machine, and checks what its effects promise.
func (c *dropChaos) send(ev *dropEvent) {
	if ev.number != 0 {
		c.past = append(c.past, *ev)
	}
	waits := 0
	for _, e := range c.m.step(ev, nil) {
		c.ends[describeDrop(&e)[:4]]++
		// Only the fence is removed after the stop.
		if c.stopped && e.number != 0 && e.kind != effectUnfence {
			c.fatalf("after the stop: %s", describeDrop(&e))
		}
		if e.kind.waits() {
			waits++
		}
		c.take(&e)
		if e.number != 0 || e.kind == effectCheck {
			c.open = append(c.open, e)
		}
	}
	if waits > 1 {
		c.fatalf("%d effects wait for the disk", waits)
	}
	c.m.check()
}

// take takes an effect into the model.
func (c *dropChaos) take(e *dropEffect) {
	//exhaustive:ignore
	switch e.kind {
	case effectConfirm:
		c.confirmed = map[string]map[ring.NodeID]bool{}
	case effectDrop:
		c.checkDrop(e)
	case effectClean:
		if c.unclean = 0; len(c.data) != 0 {
			c.fatalf("reported as clean, with data of %v", c.data)
		}
	case effectAnswer:
		for _, o := range e.cleanups {
			if _, twice := c.answered[o]; twice {
				c.fatalf("a cleanup is answered twice")
			}
			c.answered[o] = e.err
			if e.err == nil && slices.ContainsFunc(c.items(), func(item dropItem) bool {
				return c.data[keyOf(item.keyspace, item.tokens)] && (o.keyspace == "" || o.keyspace == item.keyspace)
			}) {
				c.fatalf("a cleanup of %q succeeds, with data of %v", o.keyspace, c.data)
			}
		}
	}
}

// checkDrop checks that data is removed under the fence, after half of the replicas of each piece have confirmed it.
func (c *dropChaos) checkDrop(e *dropEffect) {
	i := slices.IndexFunc(c.fenced, func(item dropItem) bool {
		return item.tokens == e.unit.tokens && (item.keyspace == e.unit.keyspace ||
			slices.Contains(item.tables, e.unit.table))
	})
	if i < 0 {
		c.fatalf("%v is removed without a fence", e.unit.tokens)
	}
	item := &c.fenced[i]
	replication := c.v.schema.Keyspace(item.keyspace).Replication
	for _, piece := range c.v.topology.Placement(replication).Ranges(item.tokens) {
		yes := len(c.confirmed[keyOf(item.keyspace, piece.Range)])
		if yes == 0 || 2*yes < len(piece.Replicas.Natural) {
			c.fatalf("%v is removed, and %d replicas hold it", piece.Range, yes)
		}
	}
}

// event returns the event of an effect.
func (c *dropChaos) event(e *dropEffect) *dropEvent {
	ev := &dropEvent{number: e.number}
	failed := c.chance(12)
	if failed {
		ev.err = errDisk
	}
	//exhaustive:ignore
	switch e.kind {
	case effectConfirm:
		if ev.kind, ev.err = dropConfirmed, nil; c.chance(4) && !c.stopped {
			for _, item := range c.items() {
				c.data[keyOf(item.keyspace, item.tokens)] = true
			}
			c.unclean = uint64(c.rnd.IntN(2)) * 7
		}
		ev.member, ev.epoch, ev.unclean, ev.items = true, 8, c.unclean, c.items()
	case effectSearch:
		ev.kind = dropSearched
		ev.items = slices.DeleteFunc(slices.Clone(e.items), func(item dropItem) bool {
			return !c.data[keyOf(item.keyspace, item.tokens)]
		})
	case effectAsk:
		c.answer(e, ev)
	case effectFence:
		ev.kind, ev.err, ev.items = dropFenced, nil, e.items
		if c.fenced = e.items; failed && len(e.items) > 0 {
			ev.items = e.items[1:]
		}
	case effectDrop:
		// The data are removed with the last unit of an item.
		if ev.kind = dropRemoved; e.unit.states && ev.err == nil {
			delete(c.data, keyOf(e.unit.keyspace, e.unit.tokens))
		}
	case effectUnfence:
		ev.kind, ev.err, c.fenced = dropUnfenced, nil, nil
	case effectClean:
		ev.kind = dropReported
	case effectRetry:
		ev.kind, ev.err = dropResumed, nil
	case effectCheck:
		ev.kind, ev.err = dropChecked, nil
	}
	return ev
}

// answer answers for a node.
func (c *dropChaos) answer(e *dropEffect, ev *dropEvent) {
	ev.kind, ev.node = dropAnswered, e.node
	_, of, err := decodeHolds(e.request)
	if err != nil {
		c.fatalf("%v", err)
	}
	for _, h := range of {
		yes := byte(1)
		if c.chance(15) {
			yes = 0
		}
		ev.answers = append(ev.answers, yes)
		key := keyOf(h.keyspace, h.tokens)
		if c.confirmed[key] == nil {
			c.confirmed[key] = map[ring.NodeID]bool{}
		}
		// A late answer, or one that is an error, counts for nothing.
		if yes == 1 && ev.err == nil && e.number == c.m.awaited {
			c.confirmed[key][e.node] = true
		}
	}
}

// run delivers events in a random order, with requests, cancellations, events that come twice, and a stop at the end.
func (c *dropChaos) run() {
	for range 300 {
		switch {
		case c.chance(20):
			o := &cleanup{keyspace: []string{"", "ks", "two"}[c.rnd.IntN(3)]}
			c.waiting = append(c.waiting, o)
			c.send(&dropEvent{kind: dropRequested, cleanup: o})
		case c.chance(20):
			c.send(&dropEvent{kind: dropRequested})
		case c.chance(40) && len(c.waiting) > 0:
			c.send(&dropEvent{kind: dropCancelled, cleanup: c.waiting[c.rnd.IntN(len(c.waiting))]})
		case c.chance(40):
			c.send(&dropEvent{kind: dropGained})
		case c.chance(10) && len(c.past) > 0:
			again := c.past[c.rnd.IntN(len(c.past))]
			c.send(&again)
		default:
			c.deliver()
		}
	}
	c.send(&dropEvent{kind: dropStopped})
	c.stopped = true
	for len(c.open) > 0 {
		c.deliver()
	}
	c.checkEnd()
}

// deliver delivers the event of one effect, if one is outstanding.
func (c *dropChaos) deliver() {
	if len(c.open) == 0 {
		return
	}
	i := c.rnd.IntN(len(c.open))
	e := c.open[i]
	c.open = slices.Delete(c.open, i, i+1)
	c.send(c.event(&e))
}

// checkEnd checks that nothing is left after the stop.
func (c *dropChaos) checkEnd() {
	if c.m.phase != dropIdle || c.fenced != nil || len(c.answered) != len(c.waiting) {
		c.fatalf("phase %d, %d ranges are fenced, %d of %d cleanups are answered", c.m.phase, len(c.fenced),
			len(c.answered), len(c.waiting))
	}
}

// TestDropsInAnyOrder answers the effects of decisions in random orders, with failures, missing confirmations, ranges
// that the node gains meanwhile, cancellations, and events that come twice. The invariants hold after each step, and no
// data is removed without the confirmations and the fence.
func TestDropsInAnyOrder(t *testing.T) {
	ends := map[string]int{}
	seeds := uint64(400)
	if testing.Short() {
		seeds = 80
	}
	for seed := range seeds {
		newDropChaos(t, seed, ends).run()
	}
	for _, name := range []string{"drop", "clea", "warn", "retr", "answ", "fenc", "unfe", "reco", "chec"} {
		if ends[name] == 0 {
			t.Errorf("no decision of %v has the effect %s", ends, name)
		}
	}
	t.Logf("%v", ends)
}
