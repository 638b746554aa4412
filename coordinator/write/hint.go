package write

import (
	"slices"

	"cqld/ring"
)

// hintMissed requests hints for the nodes that receive nothing further: those that have not answered, and those that
// disowned the last plan. No other plan follows.
func (w *Machine) hintMissed(out []Effect) []Effect {
	for _, t := range w.targets {
		switch {
		case t.State == Open && t.alive:
			t.State = Failed
			if t.plan == w.plans {
				w.waiting-- // a late answer decides nothing
			}
			out = w.hint(t, out)
		// The node disowned its mutations, and no other plan follows that could send them to another node.
		case t.State == Failed && t.answer == Disowns:
			out = w.hint(t, out)
		}
	}
	return out
}

func (w *Machine) hint(t *Target, out []Effect) []Effect { return w.hintOf(t, w.plans, out) }

// hintOf requests a hint for t, once. At ANY, a stored hint counts as an acknowledgement in the plan of that number. A
// coordinator whose own replica fails stores a hint for itself. If its disk cannot store the hint either, the hint is
// reported as lost, and the range is repaired.
func (w *Machine) hintOf(t *Target, plan int, out []Effect) []Effect {
	if t.hinted {
		return out
	}
	t.hinted = true
	if !w.config.HintsKept {
		return out
	}
	// Other levels need no event: nothing depends on when the hint is on disk.
	if w.AwaitsHints() {
		w.open++
	}
	if w.Level == ring.Any && plan == w.plans {
		w.waiting++
	}
	return append(out, Effect{Kind: Hint, Plan: int32(plan), Target: t})
}

// hinted handles the event that a hint is on disk, or lost.
func (w *Machine) hinted(ev *Event, out []Effect) []Effect {
	w.open--
	t := ev.Target
	t.kept = ev.Answer == Acknowledges
	// At other levels a hint is no acknowledgement, and one of an earlier plan decides nothing in this one.
	if w.Level != ring.Any || int(ev.Plan) != w.plans {
		return out
	}
	w.waiting--
	if t.kept {
		for _, i := range t.parts {
			if p := &w.parts[i]; !p.met {
				p.met = true
				w.unmet--
			}
		}
	}
	return w.proceed(out, nil)
}

// Settled reports which replicas have the write when nothing is outstanding: hinted means that every replica has
// acknowledged its mutations, or that a hint for it is on disk; majority means that each mutation was acknowledged by
// a majority of its replicas or, if fewer were alive, by all live ones, but at least one.
func (w *Machine) Settled() (hinted, majority bool) {
	hinted, majority = len(w.targets) > 0, len(w.targets) > 0
	for _, t := range w.targets {
		hinted = hinted && (t.State == Acked || t.kept)
	}
	for i := range w.parts {
		all, alive, has := 0, 0, 0
		for _, t := range w.targets {
			if !slices.Contains(t.parts, i) {
				continue
			}
			all++
			if t.alive {
				alive++
			}
			if t.State == Acked {
				has++
			}
		}
		// Nodes that were down when the write was planned cannot have it: only the live ones count, but at least one.
		majority = majority && has >= max(1, min(ring.QuorumOf(all), alive))
	}
	return hinted, majority
}
