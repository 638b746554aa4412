package repair_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"cqld/coordinator"
	"cqld/coordinator/repair"
	"cqld/messaging"
	"cqld/ring"
	"cqld/row"
)

// auto is a node's background repair, as an earlier process left it.
func (w *world) auto(i int) *repair.Auto {
	n := w.nodes[i]
	a := repair.NewAuto(repair.AutoOptions{
		Repairer: n.repairer(repair.Limits{}), Store: n.engine, Interval: time.Hour, Delay: time.Second, RetryAfter: 10 * time.Second,
		Note: func(message string, err error) { w.printf("note: %s, %v", message, err) },
	})
	n.coord.OnHintLost(a.Dirty)
	return a
}

// putKey gives one replica a row of a partition.
func (w *world) putKey(node int, key string) { w.put(w.nodes[node], w.insert(key, "a", "value", 7)) }

func (w *world) equal() bool {
	equal, _ := w.roots()
	return equal
}

func TestAutoRepairRepairsWhatIsFirstItsOwn(t *testing.T) {
	w := newWorld(t, 3, 3, "BLOCKING", 0, coordinator.Limits{})
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
	// Nothing is due until the interval has passed; a process that starts anew knows that.
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

// TestLostHintsAreRepaired keeps no more than a few bytes of hints for a node that is down: what is lost
// is repaired when it is back, by the node that lost it, whoever's range it is.
func TestLostHintsAreRepaired(t *testing.T) {
	w := newWorld(t, 3, 3, "BLOCKING", 0, coordinator.Limits{HintBytesPerNode: 10})
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
	if !strings.Contains(w.take(), "nodes [3] are down") {
		t.Error("a repair that cannot be made was not told of")
	}
	a.Close()
	a = w.auto(0) // the process starts anew
	a.Start()
	w.away[3] = false
	for _, n := range w.nodes {
		n.down[3] = false
	}
	a.Look()
	w.pass(20 * time.Second)
	if len(a.DirtyTables()) > 0 || !w.equal() {
		t.Errorf("dirty: %v, equal: %v", a.DirtyTables(), w.equal())
	}
}

// TestDirtyRangesSurviveARestart ends the process before the lost hint was acted on.
func TestDirtyRangesSurviveARestart(t *testing.T) {
	w := newWorld(t, 3, 3, "BLOCKING", 0, coordinator.Limits{})
	a := w.auto(0)
	a.Dirty(w.table.StorageID, 42)
	a.Close()
	a = w.auto(0)
	defer a.Close()
	if got := a.DirtyTables(); len(got) != 1 || got[0] != w.table.StorageID {
		t.Errorf("dirty after a restart: %v", got)
	}
}
