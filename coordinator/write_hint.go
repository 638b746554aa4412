package coordinator

import (
	"errors"
	"slices"

	"cqld/ring"
)

// missedLocked returns the targets that receive nothing further: those that have not answered, and those that refused
// the last plan. The caller holds mu.
func (op *writeOp) missedLocked() (missed []*writeTarget) {
	for _, t := range op.targets {
		switch {
		case t.state == targetOpen && t.alive:
			t.state = targetFailed
			missed = append(missed, t)
		case t.state == targetFailed && refusedPlan(t.err):
			missed = append(missed, t)
		}
	}
	return missed
}

// refusedPlan reports whether a replica refused because the plan was made for an earlier topology.
func refusedPlan(err error) bool {
	var refusal *NotReplica
	return errors.As(err, &refusal)
}

// hint stores t's mutations until the replica takes them. At ANY, a stored hint counts as an acknowledgement. Mutations
// that a replica refused need a hint only if no other plan follows, because other replicas may have them. A coordinator
// whose own replica fails stores a hint for itself. If its disk cannot store the hint either, the hint is reported as
// lost, and the range is repaired.
func (op *writeOp) hint(t *writeTarget, plan int) {
	op.mu.Lock()
	if refusedPlan(t.err) && (plan != op.plans || op.mayReplanLocked()) {
		op.mu.Unlock()
		return
	}
	skip := t.hinted
	t.hinted = true
	op.mu.Unlock()
	if op.c.hints == nil || skip {
		return
	}
	traceNode(op.trace, op.self, "Keeping a hint for", t.node)
	if op.level != ring.Any && op.settled == nil {
		op.c.hints.Add(t.node, t.mutations, op.since, nil)
		return
	}
	if op.level != ring.Any {
		op.mu.Lock()
		op.refs++
		op.mu.Unlock()
		op.c.hints.Add(t.node, t.mutations, op.since, func(err error) { op.hintKept(t, err) })
		return
	}
	op.mu.Lock()
	op.refs++
	op.waiting++
	op.mu.Unlock()
	op.c.hints.Add(t.node, t.mutations, op.since, func(err error) { op.hintStored(t, plan, err) })
}

// hintKept is the event that a hint is on disk, or lost.
func (op *writeOp) hintKept(t *writeTarget, err error) {
	defer op.guarded()
	op.mu.Lock()
	t.kept = err == nil
	op.mu.Unlock()
	op.release()
}

// hintStored is the event that a hint is on disk, at level ANY.
func (op *writeOp) hintStored(t *writeTarget, plan int, err error) {
	defer op.guarded()
	op.mu.Lock()
	t.kept = err == nil
	if plan != op.plans {
		op.mu.Unlock()
		op.release()
		return
	}
	op.waiting--
	if err == nil {
		for _, i := range t.parts {
			if p := &op.parts[i]; !p.met {
				p.met = true
				op.unmet--
			}
		}
	}
	next := op.judge()
	op.mu.Unlock()
	op.act(next)
	op.release()
}

// settlement returns which replicas have the write. No answer is outstanding.
func (op *writeOp) settlement() Settlement {
	s := Settlement{Hinted: len(op.targets) > 0, Majority: len(op.targets) > 0}
	for _, t := range op.targets {
		s.Hinted = s.Hinted && (t.state == targetAcked || t.kept)
	}
	for i := range op.parts {
		all, alive, has := 0, 0, 0
		for _, t := range op.targets {
			if !slices.Contains(t.parts, i) {
				continue
			}
			all++
			if t.alive {
				alive++
			}
			if t.state == targetAcked {
				has++
			}
		}
		s.Majority = s.Majority && has >= max(1, min(ring.QuorumOf(all), alive))
	}
	return s
}
