package write

import (
	"slices"

	"cqld/internal/invariant"
)

// Check stops the program if an invariant is broken. The package comment has the numbers.
func (w *Machine) Check() {
	invariant.Check(w.waiting >= 0 && w.waiting <= w.open, "write: more answers are awaited than are outstanding") // 4
	invariant.Check(w.plans <= max(w.config.PlansMax, 1), "write: too many plans")                                 // 7
	// Without a later event the client would wait until its deadline although nothing can change.
	if !w.Answered {
		invariant.Check(w.waiting > 0 || w.pausing, "write: no event but the deadline would answer the client") // 3
		invariant.Check(w.Outcome.Kind == Success && w.Outcome.Failures == nil,
			"write: an outcome without an answer") // 6
	}
	// Counting takes as long as a step, so it is done once. The counts of a plan that failed are incomplete.
	if (w.Answered && !w.checked || invariant.Enabled) && !w.pausing && !w.ended && w.sent {
		w.checked = w.Answered
		w.checkCounts()
	}
	if w.sent && w.Idle() {
		w.checkEnd()
	}
	if invariant.Enabled {
		w.checkTargets()
	}
}

// checkCounts checks invariants 1, 2 and 5.
func (w *Machine) checkCounts() {
	unmet := 0
	for i := range w.parts {
		p := &w.parts[i]
		if !p.met {
			unmet++
		}
		for j := range p.tally.Quotas() {
			q := &p.tally.Quotas()[j]
			invariant.Check(q.Got >= 0 && q.Open >= 0, "write: a negative count")
			invariant.Check(q.Got+q.Open <= len(w.targets), "write: more answers than replicas")
		}
	}
	invariant.Check(unmet == w.unmet, "write: the count of parts that are not met is wrong")
	// Only for the first plan: a write that was answered with success may be planned again for nodes that disowned it.
	if w.plans == 1 && w.Answered && w.Outcome.Kind == Success {
		invariant.Check(unmet == 0, "write: success before the level is met")
	}
}

// checkEnd checks invariant 8: a replica that has neither the mutations nor a hint would stay without them until a
// repair.
func (w *Machine) checkEnd() {
	if !w.config.HintsKept {
		return
	}
	for _, t := range w.targets {
		invariant.Check(t.State == Acked || t.hinted, "write: a replica has neither the write nor a hint")
	}
}

// checkTargets checks invariants 9 and 10.
func (w *Machine) checkTargets() {
	for i, t := range w.targets {
		invariant.Check(t.hinted || !t.kept, "write: a hint is on disk that was not requested")
		invariant.Check(len(t.parts) == len(t.Mutations), "write: a target has other parts than mutations")
		same := slices.IndexFunc(w.targets, func(x *Target) bool { return x.Node == t.Node })
		invariant.Check(same == i, "write: a node has two targets")
	}
}
