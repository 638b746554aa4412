package coordinator

import (
	"slices"

	"cqld/ring"
)

// plan determines the live replicas, nearest first, and fails with Unavailable if they are too few for the level.
func (r *reading) plan() error {
	c := r.c
	r.plans++
	r.refused = false
	r.targets = r.targets[:0]
	r.resetTally()
	for _, node := range r.set.Natural {
		r.addTarget(node)
	}
	if r.tally.TwoSided() {
		// While the ring changes, the replicas before the change are read as well.
		for _, node := range r.set.Before {
			if !slices.Contains(r.set.Natural, node) {
				r.addTarget(node)
			}
		}
	}
	if q := r.tally.Short(); q != nil {
		c.counts.unavailable.Add(1)
		return &Unavailable{Consistency: r.level, Required: q.Need, Alive: q.Open}
	}
	if len(r.targets) > 1 {
		// A single replica needs no order, and no clock.
		SortByProximity(c, r.topology, r.self, r.targets, (*readTarget).at)
	}
	if r.tally.TwoSided() { // first those that count on both sides: fewer of them are needed
		slices.SortStableFunc(r.targets, func(a, b *readTarget) int { return r.sides(b.node) - r.sides(a.node) })
	}
	return nil
}

// addTarget adds a live replica that counts.
func (r *reading) addTarget(node ring.NodeID) {
	// At a local level, a replica of another data center does not count and is not asked.
	if some, _ := r.tally.Counts(node); some && (node == r.self || r.c.view.Alive(node)) {
		r.tally.Opened(node)
		r.targets = append(r.targets, r.slot(node))
	}
}

// sides returns 1 for a replica whose answer counts for every group.
func (r *reading) sides(node ring.NodeID) int {
	if _, all := r.tally.Counts(node); all {
		return 1
	}
	return 0
}

// slot returns a target for node, reusing one of an earlier read if possible.
func (r *reading) slot(node ring.NodeID) *readTarget {
	var t *readTarget
	if n := len(r.spareSlots); n > 0 {
		t, r.spareSlots = r.spareSlots[n-1], r.spareSlots[:n-1]
	} else {
		t = new(readTarget)
	}
	// The callbacks are kept: they refer to this target and to this operation, which are reused together.
	t.node, t.state, t.err, t.page = node, readSpare, nil, nil
	return t
}

// choose asks the nearest replicas that satisfy the level, and one more if the table always speculates. tally.open
// counts all that may be asked. The first one sends its page and, if one more is asked, so does the second, because any
// one of them may not answer (Cassandra's AlwaysSpeculatingReadExecutor).
func (r *reading) choose(out []readEffect) []readEffect {
	first := len(out)
	for _, t := range r.targets {
		// Ask returns false if no side needs one more answer.
		if r.tally.Ask(t.node) {
			out = r.ask(t, len(out) > first, out)
		}
	}
	if len(out)-first < len(r.targets) && r.c.tables.Always(r.table) {
		out = r.ask(r.nextSpare(), true, out)
		// With two pages requested, either page decides the read together with the digests of the others.
		second := &out[first+1]
		second.digest, second.target.state = false, readOpenPage
	}
	return out
}

// nextSpare returns the nearest replica that was not asked yet; nil means that there is none.
func (r *reading) nextSpare() *readTarget {
	for _, t := range r.targets {
		if t.state == readSpare {
			return t
		}
	}
	return nil
}

// replan restarts the read with the present topology.
func (r *reading) replan(out []readEffect) []readEffect {
	r.topology = r.c.view.Topology()
	r.set = r.c.replicasOf(r.topology, r.table, r.cmd.Key.Token)
	r.targets = nil // the previous ones may still receive answers
	r.phase, r.asked, r.resolver = phaseDigest, r.cmd, r.newResolver()
	// The read starts over, because pages of the earlier plan may come from nodes that have left the ring.
	r.rounds, r.next = 0, nil
	if err := r.plan(); err != nil {
		return r.fail(err, out)
	}
	r.filtered()
	return r.choose(out)
}
