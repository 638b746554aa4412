package rebalance

import (
	"errors"
	"fmt"
	"testing"

	"cqld/ring"
	"cqld/schema"
)

// closeAfterTheFirst adds a table of another keyspace, and closes drops after the first range of the first table.
func closeAfterTheFirst(w *dropWorld) {
	w.view.schema = withKeyspace(w.t, w.view.schema, "other", 2, ring.Replication{Class: ring.Simple, Factor: 2})
	w.table = w.view.schema.Table("other", "other")
	for i := range 64 {
		w.write(fmt.Sprint("key", i))
	}
	w.drops.o.Changed = func(schema.StorageID) { w.drops.Close() }
}

// TestCloseStopsADecision closes at each step of a decision: no later step is executed, and the fence is removed.
func TestCloseStopsADecision(t *testing.T) {
	for name, prepare := range map[string]func(w *dropWorld){
		"while the metadata are confirmed": func(w *dropWorld) {
			w.confirm = func(done func()) { w.drops.Close(); done() }
		},
		"while the replicas are asked": func(w *dropWorld) { w.before = w.drops.Close },
		"after the first range":        closeAfterTheFirst,
		"while it waits after a failure": func(w *dropWorld) {
			w.answers = nil
			w.drops.Reconcile()
			w.drops.Close()
			w.answers, w.asked = map[ring.NodeID]byte{2: 1, 3: 1, 4: 1}, 0
			timers := w.timers
			w.timers = nil
			for _, f := range timers {
				f()
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newDropWorld(t)
			prepare(w)
			w.drops.Reconcile()
			if _, others := w.has(); others == 0 || len(w.cleaned) != 0 || len(w.timers) != 0 {
				t.Errorf("%d rows are left, reported at %d, %d timers", others, w.cleaned, len(w.timers))
			}
			if w.asked != 0 && name == "while it waits after a failure" {
				t.Errorf("%d questions after the close", w.asked)
			}
			if w.local.Fenced(w.table.StorageID, ring.FullRange()) {
				t.Error("a range stays fenced")
			}
		})
	}
}

// TestCloseAnswersOperators closes while a cleanup waits, and requests another one.
func TestCloseAnswersOperators(t *testing.T) {
	w := newDropWorld(t)
	w.majority = false
	var first, second error
	w.drops.Cleanup("", nil, nil, func(e error) { first = e })
	w.drops.Close()
	w.drops.Cleanup("", nil, nil, func(e error) { second = e })
	if !errors.Is(first, errDropsClosed) || !errors.Is(second, errDropsClosed) {
		t.Errorf("operators hear %v and %v", first, second)
	}
}
