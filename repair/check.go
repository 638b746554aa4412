package repair

import (
	"cqld/internal/invariant"
	"cqld/ring"
)

// Invariants of a repair:
//
//  1. Each range of a job is left, done or skipped, and a job that succeeds has none left. One unit is in progress.
//  2. A notice follows only when every leaf that differed was read, and every Paxos state up to the low bound was
//     purged: the replicas may purge tombstones after it.
//  3. Paxos states are removed only after cleanRounds rounds in which no replica listed a proposal.
//  4. Leaves that differ are disjoint parts of the range, in token order.
//  5. A replica has one outstanding step of a tree, and one notice, until it is done.
//  6. Repaired spans are disjoint and in token order. Adding a range makes no token less repaired; retaining ranges
//     makes none more repaired.
//  7. A repair of dirty chunks clears only chunks that were dirty when it began.
//  8. The position of a scheduled repair does not go back.
//  9. A job that has not ended waits for an answer or a pause: otherwise it would never end.
//  10. Each machine of Auto has a repair or a pause under way, from its start to its stop: otherwise it would never
//      repair again. Without dirty ranges, the machine of these waits for a lost hint.
//  11. An operator's repair has one run under way until its end, and succeeds after its last target.

// check checks invariants 1, 5 and 9 after a step.
func (m *machine) check() {
	r := &m.report
	invariant.Check(m.over || r.RangesDone+r.Skipped+r.Moving+len(m.left) == r.Ranges,
		"repair: a range is neither left nor done") // 1
	invariant.Check(m.unit == nil || !m.over && m.begun && m.restart.number == 0,
		"repair: a range begins before the last one has ended") // 1
	// A request, a pause and a restart each have a number while they are outstanding.
	waits := m.request.number != 0 || m.alarm.number != 0 || m.restart.number != 0
	if m.unit != nil && m.unit.checkRequests() {
		waits = true
	}
	invariant.Check(waits || m.over, "repair: no event would continue the job") // 9
}

// check checks invariants 7 and 10 after a step.
func (m *dirtyMachine) check() {
	active := m.started && !m.stopped
	invariant.Check(!active || m.task.number != 0 || m.pause != 0 || len(m.tables) == 0,
		"repair: no event would continue the repair of dirty ranges") // 10
	invariant.Check(m.task.number == 0 || m.pause == 0, "repair: a dirty range is repaired during a pause")
	invariant.Check((m.task.number != 0) == (m.chunks != chunks{}), "repair: a repair is not of dirty chunks")
	if m.task.number == 0 {
		return
	}
	t := m.tables[m.task.table]
	invariant.Check(t != nil, "repair: a table is repaired that is not dirty")
	for i, word := range m.chunks {
		invariant.Check(word&^t.bits[i] == 0, "repair: a chunk is repaired that is not dirty") // 7
	}
}

// check checks invariant 10 after a step.
func (m *scheduleMachine) check() {
	invariant.Check(!m.started || m.stopped || (m.task.number != 0) != (m.pause != 0),
		"repair: no event would continue scheduled repairs")
}

// checkPosition checks invariant 8 for a range that was repaired. at is the position of its table before.
func checkPosition(tokens ring.Range, at ring.Token) {
	invariant.Check(tokens.End == ring.MinToken || tokens.End > at, "repair: the position of a table goes back")
}

// check checks invariant 11 after a step.
func (m *tablesMachine) check() {
	invariant.Check(m.ended == (m.run == 0), "repair: no event would continue the repair of tables")
}

// checkTables checks invariant 11 at the end of an operator's repair.
func checkTables(err error, left int) {
	invariant.Check(err != nil || left == 0, "repair: an operator's repair succeeds before its last table")
}

// checkSuccess checks invariant 1 at the end of a job.
func checkSuccess(err error, left []ring.Range) {
	invariant.Check(err != nil || len(left) == 0, "repair: a job succeeds before its last range")
}

// checkRequests checks invariant 5. It reports whether an answer or the end of a pause is outstanding.
func (u *unit) checkRequests() (waits bool) {
	waits = u.request.number != 0
	if u.tree != nil {
		// The number is set while a step or a pause of the replica is outstanding.
		for _, n := range u.tree.nodes {
			invariant.Check(n.done == (n.number == 0), "repair: a replica has not one step outstanding")
			waits = waits || !n.done
		}
	}
	for _, n := range u.notices {
		invariant.Check(n.done == (n.number == 0), "repair: a replica has not one notice outstanding")
		waits = waits || !n.done
	}
	return waits
}

// checkStep checks invariant 5 for an answer.
func checkStep(n *treeNode) {
	invariant.Check(!n.done, "repair: a replica has hashed a range twice")
}

// checkRounds checks invariant 3.
func (p *purge) checkRounds() {
	invariant.Check(p.clean == cleanRounds, "repair: Paxos states are removed before all proposals are decided")
}

// checkNotice checks invariant 2.
func (u *unit) checkNotice() {
	invariant.Check(u.purge == nil, "repair: a notice precedes the purge of Paxos states")
	invariant.Check(len(u.differing) == 0, "repair: a notice precedes the repair of all leaves")
	invariant.Check(!u.m.job.comparesOnly(), "repair: a notice of some replicas only")
	invariant.Check(len(u.nodes) == len(u.set.Natural), "repair: a notice although a replica was not compared")
}

// checkLeaves checks invariant 4.
func checkLeaves(tokens ring.Range, leaves []ring.Range) {
	for i, leaf := range leaves {
		invariant.Check(tokens.Covers(leaf), "repair: a leaf is not in its range")
		invariant.Check(i == 0 || leaves[i-1].End != ring.MinToken && leaves[i-1].End <= leaf.Start,
			"repair: leaves are not in token order")
	}
}

// checkSpans checks the first half of invariant 6.
func checkSpans(spans []repairedSpan) {
	for i, s := range spans {
		invariant.Check(s.lower < s.upper, "repair: a repaired span is empty")
		invariant.Check(i == 0 || spans[i-1].upper <= s.lower, "repair: repaired spans overlap")
	}
}

// checkAdded checks invariant 6 for a span that was added to spans.
func checkAdded(spans []repairedSpan, s repairedSpan) {
	// Only the first and the last token of the span are checked.
	invariant.Check(repairedAt(spans, s.upper) >= s.until, "repair: a token is less repaired than it was")
	invariant.Check(repairedAt(spans, s.lower+1) >= s.until, "repair: a token is less repaired than it was")
}

// checkRetained checks invariant 6 for the spans that remain of all.
func checkRetained(kept, all []repairedSpan) {
	for _, s := range kept {
		for _, at := range [...]uint64{s.lower + 1, s.upper} {
			invariant.Check(repairedAt(all, at) == s.until, "repair: a range that was not repaired is retained")
		}
	}
}
