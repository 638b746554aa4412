package repair_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"cqld/coordinator"
	"cqld/hints"
	"cqld/messaging"
	"cqld/repair"
	"cqld/ring"
	"cqld/row"
)

// auto returns a node's background repair, with the progress of an earlier process.
func (w *world) auto(i int) *repair.Auto {
	n := w.nodes[i]
	a := repair.NewAuto(repair.AutoOptions{
		Repairer: n.repairer(repair.Limits{}), Store: n.engine, Interval: time.Hour, Delay: time.Second,
		RetryAfter: 10 * time.Second,
		Note:       func(message string, err error) { w.printf("note: %s, %v", message, err) },
	})
	n.hints.OnLost(a.Dirty)
	return a
}

// putKey stores a row of a partition on one replica.
func (w *world) putKey(node int, key string) { w.put(w.nodes[node], w.insert(key, "a", "value", 7)) }

func (w *world) equal() bool {
	equal, _ := w.roots()
	return equal
}

func TestAutoRepairCoversPrimaryRanges(t *testing.T) {
	w := newWorld(t, 3, 3, "BLOCKING", 0, hints.Limits{})
	a := w.auto(0)
	b, c := w.auto(1), w.auto(2)
	for i := range 30 {
		w.putKey(i%3, fmt.Sprint("key", i))
	}
	for _, x := range []*repair.Auto{a, b, c} {
		x.Start()
	}
	w.pass(500 * time.Millisecond)
	if w.equal() {
		t.Error("the first repair did not wait")
	}
	w.pass(20 * time.Second)
	if !w.equal() {
		t.Error("the replicas differ after each node has repaired its ranges")
	}
	// No repair is due until the interval has passed, also after a restart.
	for _, x := range []*repair.Auto{a, b, c} {
		x.Close()
	}
	a, b, c = w.auto(0), w.auto(1), w.auto(2)
	for _, x := range []*repair.Auto{a, b, c} {
		x.Start()
	}
	clear(w.counts)
	w.putKey(0, "late")
	w.pass(10 * time.Minute)
	if w.equal() || w.counts[messaging.VerbMerkle] > 0 {
		t.Errorf("repaired again too early: %d steps", w.counts[messaging.VerbMerkle])
	}
	w.pass(51 * time.Minute)
	if !w.equal() {
		t.Error("not repaired again after the interval")
	}
	for _, x := range []*repair.Auto{a, b, c} {
		x.Close()
	}
}

// TestLostHintsAreRepaired stores only a few bytes of hints for a node that is down: the lost writes are repaired when
// it is back, by the node that lost the hints, whichever node is the first replica.
func TestLostHintsAreRepaired(t *testing.T) {
	w := newWorld(t, 3, 3, "BLOCKING", 0, hints.Limits{BytesPerNode: 10})
	a := w.auto(0)
	defer func() { a.Close() }()
	a.Start()
	w.pass(30 * time.Second) // of empty tables
	for _, n := range w.nodes {
		n.down[3] = n.id != 3
	}
	w.away[3] = true
	for i := range 20 {
		m := w.insert(fmt.Sprint("key", i), "a", "value", 7)
		w.nodes[0].coord.Write(&coordinator.WriteRequest{Mutations: []*row.Mutation{m}, Consistency: ring.Quorum,
			Type: coordinator.WriteSimple, Timeout: time.Second}, func(err error) {
			if err != nil {
				t.Error(err)
			}
		})
	}
	w.pass(20 * time.Second)
	if got := a.DirtyTables(); len(got) != 1 || got[0] != w.table.StorageID {
		t.Fatalf("dirty: %v", got)
	}
	if !strings.Contains(w.take(), "it is repaired when 127.0.0.3 is back") {
		t.Error("a repair that cannot run was not reported")
	}
	a.Close()
	a = w.auto(0) // a restart of the process
	a.Start()
	w.away[3] = false
	for _, n := range w.nodes {
		n.down[3] = false
	}
	a.RetryWaiting()
	w.pass(2 * time.Second)
	if len(a.DirtyTables()) > 0 || !w.equal() {
		t.Errorf("dirty: %v, equal: %v", a.DirtyTables(), w.equal())
	}
}

// TestLostHintsDoNotWaitForTheSchedule restarts a node while everything that delays scheduled repairs applies: the
// other node has just started, the ring has just changed, and a scheduled repair of a large table is running. The lost
// writes are repaired at once, and without a read.
func TestLostHintsDoNotWaitForTheSchedule(t *testing.T) {
	for seed := range uint64(30) {
		rnd := rand.New(rand.NewPCG(seed, 2))
		w := newWorld(t, 3, 3, "NONE", 400, hints.Limits{BytesPerNode: int64(rnd.IntN(200))})
		var autos []*repair.Auto
		for i, n := range w.nodes {
			a := repair.NewAuto(repair.AutoOptions{
				Repairer: n.repairer(repair.Limits{BytesPerSecond: 100, LeafBytes: 500,
					RetryPause: 10 * time.Millisecond}), Store: n.engine,
				Interval: time.Hour, Delay: time.Hour, RetryAfter: 10 * time.Minute,
			})
			n.hints.OnLost(a.Dirty)
			a.Start()
			if i == 0 && rnd.IntN(2) == 0 { // a slow scheduled repair is running
				w.pass(2 * time.Hour)
			}
			autos = append(autos, a)
		}
		for range 1 + rnd.IntN(3) { // nodes are down in turn
			gone := w.nodes[rnd.IntN(3)]
			w.away[gone.id] = true
			for _, n := range w.nodes {
				n.down[gone.id] = n != gone
			}
			for i := range 30 {
				n := w.nodes[rnd.IntN(3)]
				if n == gone {
					continue
				}
				m := w.insert(fmt.Sprint("key", rnd.IntN(1000)), "a", fmt.Sprint("value", seed, i), int64(10+i))
				n.coord.Write(&coordinator.WriteRequest{Mutations: []*row.Mutation{m}, Consistency: ring.Quorum,
					Type: coordinator.WriteSimple, Timeout: time.Second}, func(err error) {
					if err != nil {
						t.Error(err)
					}
				})
				w.pass(time.Duration(rnd.IntN(100)) * time.Millisecond)
			}
			if rnd.IntN(2) == 0 {
				autos[rnd.IntN(3)].Moved()
			}
			w.away[gone.id] = false
			for _, n := range w.nodes {
				n.down[gone.id] = false
			}
			for i, n := range w.nodes {
				if n != gone {
					n.hints.NodeUp(gone.id)
					autos[i].RetryWaiting()
				}
			}
			w.pass(10 * time.Second)
			if !w.equal() {
				t.Errorf("seed %d: the replicas differ 10 s after the return", seed)
			}
		}
		for _, a := range autos {
			if dirty := a.DirtyTables(); len(dirty) > 0 {
				t.Errorf("seed %d: %v are dirty", seed, dirty)
			}
			a.Close()
		}
	}
}

// TestDirtyRangesSurviveARestart ends the process before the repair of a lost hint.
func TestDirtyRangesSurviveARestart(t *testing.T) {
	w := newWorld(t, 3, 3, "BLOCKING", 0, hints.Limits{})
	a := w.auto(0)
	a.Dirty(w.table.StorageID, 42)
	a.Close()
	a = w.auto(0)
	defer a.Close()
	if got := a.DirtyTables(); len(got) != 1 || got[0] != w.table.StorageID {
		t.Errorf("dirty after a restart: %v", got)
	}
}

// TestLostHintsWaitForMovingReplicas loses a hint for a range whose replicas are changing. The range is repaired when
// the change has ended, not at the time at which scheduled repairs are looked for.
func TestLostHintsWaitForMovingReplicas(t *testing.T) {
	w := newWorld(t, 3, 2, "NONE", 0, hints.Limits{})
	n := w.nodes[0]
	a := repair.NewAuto(repair.AutoOptions{Repairer: n.repairer(repair.Limits{}), Store: n.engine,
		Interval: time.Hour, Delay: time.Hour, RetryAfter: time.Hour})
	defer a.Close()
	a.Start()
	before := n.topology
	n.topology = ring.NewMovingTopology(2, 2, before.Nodes(), []*ring.Operation{{ID: 2, Kind: ring.Leave, Node: 3,
		Phase: ring.Streaming, Gaining: []ring.NodeID{1, 2}}})
	for token := range ring.Token(256) { // the replicas of some of them change
		a.Dirty(w.table.StorageID, token<<56)
	}
	w.pass(10 * time.Second)
	if len(a.DirtyTables()) == 0 {
		t.Fatal("no range waits for the change")
	}
	n.topology = before
	a.Moved()
	w.pass(10 * time.Second)
	if waiting := a.DirtyTables(); len(waiting) > 0 {
		t.Errorf("dirty after the change: %v", waiting)
	}
}
