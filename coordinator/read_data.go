package coordinator

import (
	"errors"

	"cqld/coordinator/resolve"
	"cqld/ring"
)

// gather ends a data round when enough pages have arrived: it merges them, repairs replicas that lack something, and
// continues reading if a limit ended the pages before the limit of the command was met.
func (r *reading) gather(out []readEffect) []readEffect {
	if !r.tally.Satisfied() {
		return out
	}
	var versions []*resolve.Version
	for _, t := range r.targets {
		if t.state != readAnswered || t.page == nil {
			continue
		}
		// The version refers to the page, which r.kept holds until the answer.
		v, err := r.resolver.Parse(t.node, *t.page)
		if err != nil {
			return r.fail(err, out)
		}
		versions = append(versions, v)
	}
	// What each replica lacks of the merge, and where rows may follow that a limit has cut off.
	lacks, next := r.resolver.Round(r.asked, versions)
	if err := r.resolver.Err(); err != nil {
		return r.fail(err, out)
	}
	if next == nil && !r.resolver.Finished() && r.asked.SinglePartition() && !r.cmd.SinglePartition() {
		next = &resolve.Position{Key: r.asked.Key, Whole: true} // the additional read of one partition has ended
	}
	r.next = next
	if r.table.Options.ReadRepair == "NONE" && r.cmd.Repair == nil {
		return r.advance(out)
	}
	return r.repair(lacks, out)
}

// repair writes to every replica what it lacks, and waits until as many as the level requires have the whole answer: so
// a later read at the same level returns it, too.
func (r *reading) repair(lacks []resolve.Repairs, out []readEffect) []readEffect {
	// The repairs are counted like the acknowledgements of a write at the level of the read.
	r.resetTally()
	repaired := false
	for i := range lacks {
		l := &lacks[i]
		r.tally.Opened(l.Node)
		if len(l.Mutations) == 0 {
			// This replica has the whole answer already.
			r.tally.Answered(l.Node)
			continue
		}
		repaired = true
		r.cmd.Repair.Count(l.Mutations)
		r.open++
		out = append(out, readEffect{kind: readRepair, repair: l})
	}
	if !repaired {
		return r.advance(out)
	}
	r.c.counts.readRepairs.Add(1)
	r.phase = phaseRepair
	// Late pages of this round no longer matter.
	r.round++
	if r.tally.Satisfied() {
		// More replicas have answered than the level requires, and enough of them have the whole answer already: the
		// result waits for no repair, whose failure would not end the read either.
		return r.advance(out)
	}
	return out
}

// repaired handles the acknowledgement of a repair, or its failure.
func (r *reading) repaired(ev *readEvent, out []readEffect) []readEffect {
	if ev.round != r.round {
		return out
	}
	if ev.err == nil {
		// Monotonic reads: a quorum has the returned rows, so a later read cannot return older ones.
		if r.tally.Answered(ev.node); r.tally.Satisfied() {
			return r.advance(out)
		}
		return out
	}
	r.tally.Failed(ev.node)
	var refusal *NotReplica
	r.refused = r.refused || errors.As(ev.err, &refusal)
	for _, t := range r.targets {
		if t.node == ev.node {
			t.err, t.state = ev.err, readFailed
		}
	}
	// Another replica can replace the failed one: it receives the mutations that the failed one lacked, and the rest
	// of the answer.
	if spare := r.nextRepaired(ev.node); spare != nil && r.next == nil && r.rounds == 1 {
		spare.state = readAnswered
		r.tally.Opened(spare.node)
		whole := &resolve.Repairs{Node: spare.node}
		for _, p := range r.resolver.Merged() {
			if m := r.resolver.Difference(r.cmd, p, nil); m != nil {
				whole.Mutations = append(whole.Mutations, m)
			}
		}
		if err := r.resolver.Err(); err != nil {
			return r.fail(err, out)
		}
		r.open++
		return append(out, readEffect{kind: readRepair, repair: whole})
	}
	if r.tally.Hopeless() {
		return r.giveUp(out)
	}
	return out
}

// nextRepaired returns a replica that does not participate in the repair yet, and that counts wherever failed would
// have: one that was not asked, or whose page arrived too late to be in the answer.
func (r *reading) nextRepaired(failed ring.NodeID) *readTarget {
	var late *readTarget
	for _, t := range r.targets {
		switch {
		case !r.tally.Replaces(t.node, failed):
		case t.state == readSpare:
			return t
		case late == nil && (t.state == readOpenPage || t.state == readOpenDigest):
			// A late replica is the second choice, because it is slow.
			late = t
		}
	}
	return late
}

// advance answers, or continues reading if the round ended before the limit.
func (r *reading) advance(out []readEffect) []readEffect {
	for r.next != nil {
		// Replicas that differ in every row could continue the read forever.
		if r.rounds >= r.c.limits.RoundsMax {
			return r.fail(r.failure(), out)
		}
		cmd := r.resolver.Continuation(r.next, r.asked, r.c.limits.RoundRowsMax)
		if cmd == nil && r.cmd.SinglePartition() {
			// The limit of the partition is met.
			break
		}
		if cmd == nil {
			r.next.Whole = true // nothing is left in this partition
			continue
		}
		r.asked, r.next = cmd, nil
		r.c.counts.shortReads.Add(1)
		return r.dataRound(func(*readTarget) bool { return false }, out)
	}
	b := r.c.buffer()
	// The answer is encoded into a pooled buffer, which is released after done.
	page, err := r.resolver.AppendPage((*b)[:0])
	if err != nil {
		return r.fail(err, out)
	}
	*b = page
	r.kept = append(r.kept, b)
	return r.succeed(*b, out)
}
