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
//  7. No more replicas confirm a range than hold it, and no more nodes answer than were asked.
//  8. One decision about drops is under way.

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
