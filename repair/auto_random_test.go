package repair

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"cqld/internal/wire"
	"cqld/ring"
	"cqld/schema"
	"cqld/simulation/testcluster"
	"cqld/types"
)

// mapStore is a LocalStore in memory.
type mapStore map[string][]byte

func (s mapStore) GetLocal(key []byte) ([]byte, error)      { return s[string(key)], nil }
func (s mapStore) SetLocal(key, value []byte, _ bool) error { s[string(key)] = value; return nil }
func (s mapStore) DeleteLocal(key []byte, _ bool) error     { delete(s, string(key)); return nil }

func (s mapStore) ScanLocal(prefix []byte, f func(key, value []byte) error) error {
	for _, key := range slices.Sorted(maps.Keys(s)) {
		if bytes.HasPrefix([]byte(key), prefix) {
			if err := f([]byte(key), s[key]); err != nil {
				return err
			}
		}
	}
	return nil
}

// lostHint is a lost hint for a chunk of a table.
type lostHint struct {
	table schema.StorageID
	chunk int
}

// autoChaos responds to the effects of Auto's machines in any order. It models what lost hints require, and when each
// range was repaired.
type autoChaos struct {
	t       *testing.T
	seed    uint64
	rnd     *rand.Rand
	v       *stepView
	o       AutoOptions
	store   mapStore
	now     time.Duration
	ids     []schema.StorageID
	ring    []*ring.Topology
	dirty   *dirtyMachine
	due     *scheduleMachine
	open    []autoOpen
	past    []autoOpen
	missing map[lostHint]int // the number of the last hint that no repair has covered
	losses  int
	// repaired is when the last successful repair of a scheduled range of a table began.
	repaired map[schema.StorageID]map[ring.Range]int64
	ends     map[string]int
}

// autoOpen is an effect whose event has not come yet.
type autoOpen struct {
	m     autoMachine
	e     autoEffect
	wall  int64
	hints map[lostHint]int // dirty ranges: what was missing when the repair began
}

func newAutoChaos(t *testing.T, seed uint64, ends map[string]int) *autoChaos {
	c := &autoChaos{t: t, seed: seed, rnd: rand.New(rand.NewPCG(seed, 3)), store: mapStore{}, now: time.Hour,
		ends: ends,
		o:    AutoOptions{Interval: time.Hour, Delay: time.Minute, RetryAfter: 50 * time.Second}.withDefaults(),
		v:    &stepView{dead: map[ring.NodeID]bool{}}, missing: map[lostHint]int{},
		repaired: map[schema.StorageID]map[ring.Range]int64{}}
	changes := []schema.Change{
		&schema.CreateKeyspace{Keyspace: "ks", Replication: ring.Replication{Class: ring.Simple, Factor: 2}}}
	for i := range 3 {
		changes = append(changes, &schema.CreateTable{Keyspace: "ks", Table: fmt.Sprint("t", i),
			ID: schema.UUID{byte(i + 1)}, Options: schema.DefaultOptions(),
			Columns: testcluster.Columns(types.Native(types.Text))})
	}
	c.v.schema = testcluster.Catalog(t, changes...)
	for i := range 3 {
		id := c.v.schema.Table("ks", fmt.Sprint("t", i)).StorageID
		c.ids, c.repaired[id] = append(c.ids, id), map[ring.Range]int64{}
	}
	nodes := stepNodes()
	for i, n := range nodes {
		n.Tokens = []ring.Token{ring.Token(i-2) << 61, ring.Token(i+1) << 60}
	}
	c.ring = []*ring.Topology{ring.NewTopology(1, nodes), ring.NewMovingTopology(2, 2, nodes, []*ring.Operation{{ID: 2,
		Kind: ring.Leave, Node: 3, Phase: ring.Streaming, Gaining: []ring.NodeID{1, 2}}}), ring.NewTopology(3, nodes)}
	c.v.topology = c.ring[0]
	c.boot()
	return c
}

func (c *autoChaos) chance(n int) bool { return c.rnd.IntN(n) == 0 }

func (c *autoChaos) fatalf(format string, args ...any) {
	c.t.Helper()
	c.t.Fatalf("seed %d: %s", c.seed, fmt.Sprintf(format, args...))
}

// boot starts a process with the state that the last one stored.
func (c *autoChaos) boot() {
	c.open, c.past = nil, nil
	c.dirty = &dirtyMachine{view: c.v, o: &c.o, tables: loadDirty(c.store)}
	c.due = &scheduleMachine{view: c.v, o: &c.o, tables: loadSchedule(c.store)}
	c.both(autoEvent{kind: autoStarted, delay: time.Second})
}

// both delivers an event to both machines.
func (c *autoChaos) both(ev autoEvent) {
	c.send(c.dirty, ev)
	c.send(c.due, ev)
}

// send delivers an event, and checks what its effects promise.
func (c *autoChaos) send(m autoMachine, ev autoEvent) {
	ev.now, ev.wall = c.now, int64(c.now)
	for _, e := range m.step(&ev, nil) {
		switch e.kind {
		case autoStore:
			c.persist(&e)
		case autoRepair:
			o := autoOpen{m: m, e: e, wall: ev.wall}
			if m == c.dirty {
				o.hints = c.began(&e)
			}
			c.open = append(c.open, o)
		case autoPause: // the shell stops the timer before
			c.open = slices.DeleteFunc(c.open, func(o autoOpen) bool { return o.m == m && o.e.kind == autoPause })
			c.open = append(c.open, autoOpen{m: m, e: e})
		case autoNote:
			c.ends["note"]++
		case autoCancel:
			c.ends["cancel"]++
		}
	}
	m.check()
	c.checkMissing()
}

// began checks that the replicas of a dirty range are alive and do not change. It returns the hints that its repair
// covers.
func (c *autoChaos) began(e *autoEffect) map[lostHint]int {
	table := c.v.schema.TableByStorage(e.job.Table)
	down, moving := absent(c.v, c.v.topology.Placement(table.Replication), e.job.Range)
	if len(down) > 0 || moving || !e.job.Urgent {
		c.fatalf("%v is repaired, and replicas are down or moving", e.job.Range)
	}
	hints := map[lostHint]int{}
	for h, n := range c.missing {
		if h.table == e.job.Table && e.job.Range.Covers(chunkRange(h.chunk, h.chunk+1)) {
			hints[h] = n
		}
	}
	c.ends["dirty"]++
	return hints
}

// checkMissing checks that a chunk whose hints no repair has covered is dirty, in memory and on the disk.
func (c *autoChaos) checkMissing() {
	stored := loadDirty(c.store)
	for h := range c.missing {
		for _, tables := range []map[schema.StorageID]*dirtyTable{c.dirty.tables, stored} {
			if t := tables[h.table]; t == nil || !t.bits.has(h.chunk) {
				c.fatalf("chunk %d of table %d is not dirty", h.chunk, h.table)
			}
		}
	}
}

// persist stores a key. A table that is completely repaired has no range that was not repaired since.
func (c *autoChaos) persist(e *autoEffect) {
	before := c.store[string(e.key)]
	if e.value == nil {
		delete(c.store, string(e.key))
		return
	}
	c.store[string(e.key)] = e.value
	if !bytes.HasPrefix(e.key, []byte(autoPrefix)) {
		return
	}
	key, value, old := wire.NewCursor(e.key[len(autoPrefix):]), wire.NewCursor(e.value), wire.NewCursor(before)
	last := value.Int64()
	if before != nil && last == old.Int64() || last == 0 {
		return
	}
	c.ends["complete"]++
	id := schema.StorageID(key.Uint32())
	for _, p := range c.v.topology.Placement(c.v.schema.TableByStorage(id).Replication).Ranges(ring.FullRange()) {
		if p.Replicas.Natural[0] == 1 && c.repaired[id][p.Range] < last {
			c.fatalf("table %d counts as repaired at %d, and %v was repaired at %d", id, last, p.Range,
				c.repaired[id][p.Range])
		}
	}
}

// deliver delivers the event of an outstanding effect. fails permits failures.
func (c *autoChaos) deliver(fails bool) {
	if len(c.open) == 0 {
		c.fatalf("no event would continue")
	}
	i := c.rnd.IntN(len(c.open))
	o := c.open[i]
	c.open, c.past = slices.Delete(c.open, i, i+1), append(c.past, o)
	if o.e.kind == autoPause {
		c.now += o.e.after
		c.send(o.m, autoEvent{kind: autoResumed, number: o.e.number})
		return
	}
	ev := autoEvent{kind: autoRepaired, number: o.e.number, report: Report{Rows: c.rnd.Int64N(2)}}
	if fails && c.chance(4) {
		ev.err = errAuto
		c.ends["failed"]++
	} else if o.m == c.dirty {
		c.cover(&o)
	} else {
		c.repaired[o.e.job.Table][o.e.job.Range] = o.wall
	}
	c.send(o.m, ev)
}

// cover removes the hints that a repair has covered, unless another one of the chunk was lost since.
func (c *autoChaos) cover(o *autoOpen) {
	for h, n := range o.hints {
		if c.missing[h] == n {
			delete(c.missing, h)
		}
	}
}

// run delivers events in a random order, while hints are lost, nodes die, the ring changes and processes crash. In the
// end all nodes are alive, and all that was missing is repaired.
func (c *autoChaos) run() {
	for range 400 {
		c.now += time.Duration(c.rnd.IntN(2000)) * time.Millisecond
		switch n := c.rnd.IntN(100); {
		case n < 25:
			h := lostHint{c.ids[c.rnd.IntN(3)], c.rnd.IntN(4) * c.rnd.IntN(64)}
			c.lose(h)
		case n < 30:
			c.v.dead = map[ring.NodeID]bool{ring.NodeID(2 + c.rnd.IntN(2)): c.chance(2)}
			c.both(autoEvent{kind: autoUnblocked})
		case n < 34:
			c.v.topology = c.ring[c.rnd.IntN(3)]
			c.both(autoEvent{kind: autoMoved, delay: time.Duration(c.rnd.IntN(60)) * time.Second})
		case n < 36:
			c.boot()
			c.ends["crash"]++
		case n < 45 && len(c.past) > 0:
			o := c.past[c.rnd.IntN(len(c.past))]
			c.send(o.m, autoEvent{kind: autoResumed, number: o.e.number})
			c.send(o.m, autoEvent{kind: autoRepaired, number: o.e.number, err: errAuto})
		case len(c.open) > 0:
			c.deliver(true)
		}
	}
	c.v.dead, c.v.topology = map[ring.NodeID]bool{}, c.ring[2]
	c.both(autoEvent{kind: autoMoved})
	for n := 0; len(c.dirty.tables) > 0 || len(c.missing) > 0; n++ {
		if n > 2000 {
			c.fatalf("%d chunks are missing after %d events", len(c.missing), n)
		}
		c.deliver(false)
	}
	c.stop()
}

// lose loses a hint.
func (c *autoChaos) lose(h lostHint) {
	c.losses++
	c.missing[h] = c.losses
	c.send(c.dirty, autoEvent{kind: autoLost, table: h.table, chunk: h.chunk})
}

// stop stops both machines, and delivers late events: nothing is started.
func (c *autoChaos) stop() {
	c.both(autoEvent{kind: autoStopped})
	for late := len(c.open); late > 0; late-- {
		c.deliver(true)
		if len(c.open) >= late {
			c.fatalf("something is started after the stop")
		}
	}
}

// TestAutoEventsInAnyOrder delivers the events of background repairs in random orders, with failures, late events,
// hints that are lost meanwhile, changes of the ring and crashes. The invariants hold after each step, dirty chunks
// stay dirty until a repair has covered the last lost hint, and a table counts as repaired only when each of its ranges
// was.
func TestAutoEventsInAnyOrder(t *testing.T) {
	seeds, ends := uint64(300), map[string]int{}
	if testing.Short() {
		seeds = 60
	}
	for seed := range seeds {
		newAutoChaos(t, seed, ends).run()
	}
	for _, name := range []string{"note", "cancel", "dirty", "complete", "failed", "crash"} {
		if ends[name] == 0 {
			t.Errorf("%v: none of %s", ends, name)
		}
	}
	t.Logf("%v", ends)
}
