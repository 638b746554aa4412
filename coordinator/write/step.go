package write

import (
	"slices"
	"time"

	"cqld/ring"
)

// Step takes an event and appends its effects to out.
func (w *Machine) Step(ev *Event, out []Effect) []Effect {
	switch ev.Kind {
	case Answered:
		return w.answered(ev, out)
	case Hinted:
		return w.hinted(ev, out)
	case Begun:
		return w.begin(ev.Now, out)
	case Ticked:
		return w.tick(out)
	case Resumed:
		return w.resume(ev.Now, out)
	}
	return out
}

// begin plans and sends for the first time. Nothing is sent if the plan fails.
func (w *Machine) begin(now time.Duration, out []Effect) []Effect {
	failed, ok := w.plan()
	switch {
	case ok:
		w.sent = true
		return w.send(append(out, Effect{Kind: Arm, After: w.Deadline - now}))
	case w.arrives(&failed, now):
		w.plans-- // the wait is no attempt
		w.pausing = true
		return append(out, Effect{Kind: Pause, After: w.config.ArrivalPause})
	}
	return w.reply(failed, out)
}

// send sends the mutations to every live node of the plan, and requests hints for the others.
func (w *Machine) send(out []Effect) []Effect {
	var self *Target
	for _, t := range w.targets {
		switch {
		case !t.alive:
			t.State = Failed
			out = w.hint(t, out)
		case t.Node == w.Self:
			self = t
		default:
			w.waiting++
			w.open++
			out = append(out, Effect{Kind: Send, Target: t})
		}
	}
	switch {
	case self == nil:
		return out
	case w.Applied:
		// The acknowledgement counts now, but is not decisive before the other nodes are sent the mutations.
		self.State = Acked
		w.count(self)
		return w.proceed(w.note(self, out), nil)
	}
	w.waiting++
	w.open++
	return append(out, Effect{Kind: Apply, Target: self})
}

// answered handles the answer of a node.
func (w *Machine) answered(ev *Event, out []Effect) []Effect {
	w.open--
	t := ev.Target
	// The request is no longer outstanding, so it does not keep the write from its pool.
	if t.plan != w.plans || t.State != Open {
		return out // of an earlier plan, or too late
	}
	w.waiting--
	t.State, t.answer, t.reason = Acked, ev.Answer, ev.Reason
	if ev.Answer != Acknowledges {
		t.State = Failed
		w.refused = w.refused || ev.Answer == Disowns
	}
	w.count(t)
	return w.proceed(w.note(t, out), t)
}

func (w *Machine) note(t *Target, out []Effect) []Effect {
	if w.Traced {
		out = append(out, Effect{Kind: Note, Target: t})
	}
	return out
}

// count adds the answer of t to its parts.
func (w *Machine) count(t *Target) {
	for _, i := range t.parts {
		p := &w.parts[i]
		if t.State == Acked {
			p.tally.Answered(t.Node)
		} else {
			p.tally.Failed(t.Node)
		}
		// Counted once: further answers to the part do not change unmet.
		if !p.met && p.tally.Satisfied() {
			p.met = true
			w.unmet--
		}
	}
}

// proceed decides what follows from the counts: a hint for t, if that has failed, the answer, and another plan.
// Mutations that a node disowns are planned again: at once if the write cannot succeed otherwise, else when all nodes
// have answered.
func (w *Machine) proceed(out []Effect, t *Target) []Effect {
	plan, answered := w.plans, w.Answered
	replan := w.decide()
	if replan {
		w.plans++ // answers to the previous plan are ignored
		w.waiting = 0
		w.pausing = true
	}
	// A node that disowns its mutations needs a hint only if no other plan follows: another node may own them.
	if t != nil && t.State == Failed && (t.answer != Disowns || plan == w.plans && !w.mayReplan()) {
		out = w.hintOf(t, plan, out)
	}
	if w.Answered && !answered {
		out = append(out, Effect{Kind: Reply})
	}
	if replan {
		out = append(out, Effect{Kind: Replan, After: w.config.ReplanPause << max(w.plans-2, 0)})
	}
	return out
}

// decide sets the outcome if the counts determine it, and reports whether the write must be planned again.
func (w *Machine) decide() (replan bool) {
	again := w.mayReplan()
	if !w.Answered && w.unmet == 0 {
		w.Answered = true
	}
	for i := range w.parts {
		if p := &w.parts[i]; w.Answered || p.met || !p.tally.Hopeless() || w.hintable() {
			continue
		}
		// The plan may have been wrong. Mutations that were applied are sent again, which changes nothing.
		if again && (w.refused || w.outdated()) {
			return true
		}
		w.Answered, w.Outcome = true, w.failure(i)
	}
	// Also after success: the mutations that a node disowned still lack a replica.
	return again && w.refused && w.waiting == 0
}

// hintable reports whether a hint can still satisfy a part.
func (w *Machine) hintable() bool {
	if w.Level != ring.Any || !w.config.HintsKept {
		return false
	}
	return w.waiting > 0 || slices.ContainsFunc(w.targets, func(t *Target) bool {
		return t.State == Failed && !t.hinted
	})
}

// failure returns the outcome if part i is not met: a timeout if nodes did not answer or were unreachable, a failure if
// one of them returned an error.
func (w *Machine) failure(i int) Outcome {
	o := Outcome{Kind: Timeout}
	// Only this part counts; the others may have been met.
	o.Received, o.Required = w.parts[i].tally.Totals()
	for _, t := range w.targets {
		if t.State == Failed && t.alive && t.answer == Refuses {
			o.Kind = Failure
			o.Failures = append(o.Failures, NodeFailure{Node: t.Node, Reason: t.reason})
		}
	}
	return o
}

func (w *Machine) reply(o Outcome, out []Effect) []Effect {
	w.Answered, w.Outcome = true, o
	return append(out, Effect{Kind: Reply})
}

// tick ends the write at its deadline: it answers, if that has not happened, and requests hints for nodes without an
// answer.
func (w *Machine) tick(out []Effect) []Effect {
	w.ended = true
	if w.Answered {
		return w.hintMissed(out)
	}
	// The outcome is derived before nodes without an answer are marked as failed, because it must report a timeout,
	// not a failure.
	var o Outcome
	// The first part that is not met determines the error: the client receives one error for all mutations.
	for i := range w.parts {
		if !w.parts[i].met {
			o = w.failure(i)
			break
		}
	}
	return w.reply(o, w.hintMissed(out))
}

// resume plans and sends again. Mutations contain their timestamps, so applying them twice is idempotent.
func (w *Machine) resume(now time.Duration, out []Effect) []Effect {
	w.pausing = false
	if !w.sent {
		return w.begin(now, out)
	}
	if w.ended {
		return out
	}
	w.plans-- // plan increments it
	before := w.targets
	w.targets = nil // the previous ones may still receive answers
	failed, ok := w.plan()
	if ok {
		return w.send(out)
	}
	w.targets = before // they get hints if no plan succeeds
	if !w.Answered && w.arrives(&failed, now) {
		w.pausing = true
		return append(out, Effect{Kind: Pause, After: w.config.ArrivalPause})
	}
	w.ended = true
	out = w.hintMissed(out)
	if w.Answered {
		return out
	}
	// An earlier plan was sent, so nodes may have applied the write: Unavailable would wrongly promise that nothing
	// was applied.
	o := Outcome{Kind: Timeout}
	o.Received, o.Required = w.parts[0].tally.Totals()
	return w.reply(o, out)
}
