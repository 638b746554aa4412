package rebalance

import (
	"cqld/internal/invariant"
	"cqld/ring"
)

// Invariants of range movements:
//
//  1. Topologies arrive in the order of their epochs.
//  2. A session that ends has begun, and ends once. A session of a rebuild is queued, running or counted.
//  3. A session's durable bytes are among the received ones: its position goes back only to what is durable.
//  4. A block that was sent was held before.
//  5. Parts that differ are disjoint and in token order.
//  6. A gap between ranges that this node holds overlaps none of them: its data is dropped.
//  7. No more replicas confirm a range than hold it.
//  8. A decision about drops that has not ended waits for an event: otherwise it would never end.
//  9. Requests are refused only while data are removed: otherwise the ranges would stay fenced.
//  10. An operator waits only for a decision that has not ended.
//  11. A movement that has not ended waits for a session, a pause or the log: otherwise the operation would never end.
//      It reports when no range is left.
//  12. A session under way waits for one stream, or for one step of hashes.
//  13. A session waits for its slot, or for one event: otherwise it would never end. SessionsMax have slots, and none
//      waits while there is a free one.

// checkedGaps returns gaps, after it has checked invariant 6.
func checkedGaps(held, gaps []ring.Range) []ring.Range {
	if invariant.Enabled {
		checkGaps(held, gaps)
	}
	return gaps
}

// checkGaps compares each gap with each range, which is too slow for production builds.
func checkGaps(held, gaps []ring.Range) {
	for _, gap := range gaps {
		invariant.Check(!gap.Wraps(), "rebalance: a gap wraps")
		for _, r := range held {
			invariant.Check(!gap.Overlaps(r), "rebalance: a gap reaches into a range that is held")
		}
	}
}

// checkParts checks invariant 5 for parts of a range.
func checkParts(tokens ring.Range, parts []ring.Range) {
	for i, part := range parts {
		invariant.Check(tokens.Covers(part), "rebalance: a part is not in its range")
		invariant.Check(i == 0 || parts[i-1].End != ring.MinToken && parts[i-1].End < part.Start,
			"rebalance: parts are not in token order, or not joined")
	}
}

// check checks invariants 8 to 10 after a step.
func (m *dropMachine) check() {
	x := &m.decision
	invariant.Check((m.phase == dropIdle) == (m.awaited == 0), "rebalance: no event would continue a decision") // 8
	invariant.Check((m.phase == dropAsking) == (len(x.open) > 0),
		"rebalance: a decision waits for the answer of no replica") // 8
	invariant.Check(m.fenced == (m.phase == dropFencing || m.phase == dropRemoving || m.phase == dropUnfencing),
		"rebalance: ranges are fenced, and no data are removed") // 9
	invariant.Check(len(m.asked)+len(m.current) == 0 || m.phase != dropIdle && !m.closed,
		"rebalance: an operator waits for no decision") // 10
}

// check checks invariants 11 and 12 after a step.
func (m *moveMachine) check() {
	for _, v := range m.movements {
		left := len(v.running) + len(v.waiting) + len(v.queued) + len(v.retries)
		invariant.Check(len(v.running) > 0 || v.pause != 0 || v.reported,
			"rebalance: no event would continue a movement") // 11
		invariant.Check(!v.reported || left == 0, "rebalance: a movement is reported before its last range")
		invariant.Check(len(v.running) <= v.ahead(), "rebalance: more sessions are under way than allowed")
		for _, task := range v.running {
			invariant.Check(task.number != 0, "rebalance: a session waits for no event") // 12
		}
	}
}

// check checks invariants 3 and 13 after a step.
func (m *streamMachine) check() {
	invariant.Check(len(m.sessions) == len(m.waiting)+m.active, "rebalance: a session neither waits nor runs")
	invariant.Check(m.active <= m.limits.SessionsMax, "rebalance: more sessions run than allowed")
	invariant.Check(len(m.waiting) == 0 || m.closed || m.active == m.limits.SessionsMax,
		"rebalance: a session waits although a slot is free")
	for _, q := range m.sessions {
		invariant.Check((q.state == SessionWaiting) == (q.awaited == 0), "rebalance: no event would continue a session")
		invariant.Check(q.bytes >= q.stored, "rebalance: more bytes are durable than were received") // 3
	}
}
