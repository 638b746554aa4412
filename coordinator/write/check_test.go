package write

import (
	"testing"

	"cqld/internal/invariant/invarianttest"
	"cqld/ring"
)

// TestInvariantsFire breaks each invariant that is always checked, as a bug in a step would.
func TestInvariantsFire(t *testing.T) {
	sent := func(t *testing.T) *Machine {
		w, v := newMachine(t, ring.Quorum, 1)
		play(t, w, v, "begin -> arm, send 2, send 3, send 4, apply\nacks 1 ->\n")
		return w
	}
	answered := func(t *testing.T) *Machine {
		w := sent(t)
		play(t, w, w.config.View.(*view), "acks 2 ->\nacks 3 -> reply ok\n")
		return w
	}
	for name, test := range map[string]struct {
		from   func(*testing.T) *Machine
		breaks func(*Machine)
		want   string
	}{
		"more are awaited": {sent, func(w *Machine) { w.waiting = w.open + 1 }, "more answers are awaited"},
		"too many plans":   {sent, func(w *Machine) { w.plans = 4 }, "too many plans"},
		"nothing is awaited": {sent, func(w *Machine) { w.waiting = 0 },
			"no event but the deadline would answer the client"},
		"early outcome": {sent, func(w *Machine) { w.Outcome.Kind = Timeout }, "an outcome without an answer"},
		"negative count": {sent, func(w *Machine) {
			w.Answered = true
			w.parts[0].tally.Quotas()[0].Open = -1
		}, "a negative count"},
		"more answers than replicas": {sent, func(w *Machine) {
			w.Answered = true
			w.parts[0].tally.Quotas()[0].Got = 9
		}, "more answers than replicas"},
		"wrong count":   {sent, func(w *Machine) { w.Answered, w.unmet = true, 0 }, "parts that are not met is wrong"},
		"early success": {sent, func(w *Machine) { w.Answered = true }, "success before the level is met"},
		"no hint": {answered, func(w *Machine) { w.open, w.waiting = 0, 0 },
			"a replica has neither the write nor a hint"},
	} {
		t.Run(name, func(t *testing.T) {
			w := test.from(t)
			test.breaks(w)
			invarianttest.Fires(t, w.Check, test.want)
		})
	}
	for name, test := range map[string]struct {
		breaks func(*Machine)
		want   string
	}{
		"hint that was not requested": {func(w *Machine) { w.targets[0].kept = true }, "that was not requested"},
		"part without a mutation":     {func(w *Machine) { w.targets[0].parts = nil }, "other parts than mutations"},
		"node with two targets":       {func(w *Machine) { w.targets[0].Node = 2 }, "two targets"},
	} {
		t.Run(name, func(t *testing.T) {
			w := sent(t)
			test.breaks(w)
			invarianttest.Fires(t, w.checkTargets, test.want)
		})
	}
}
