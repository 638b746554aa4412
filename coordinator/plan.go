package coordinator

import (
	"slices"

	"cqld/ring"
	"cqld/row"
)

// plan determines the live replicas, nearest first, and checks that there are enough.
func (op *readOp) plan() error {
	c := op.c
	op.plans++
	op.refused = false
	op.targets = op.targets[:0]
	op.resetTally()
	for _, node := range op.set.Natural {
		op.addTarget(node)
	}
	if op.tally.TwoSided() {
		for _, node := range op.set.Before {
			if !slices.Contains(op.set.Natural, node) {
				op.addTarget(node)
			}
		}
	}
	if q := op.tally.Short(); q != nil {
		c.counts.unavailable.Add(1)
		return &Unavailable{Consistency: op.level, Required: q.Need, Alive: q.Open}
	}
	if len(op.targets) > 1 {
		SortByProximity(c, op.topology, op.self, op.targets, (*readTarget).at)
	}
	if op.tally.TwoSided() { // first those that count on both sides: fewer of them are needed
		slices.SortStableFunc(op.targets, func(a, b *readTarget) int { return op.sides(b.node) - op.sides(a.node) })
	}
	return nil
}

// addTarget adds a live replica that counts.
func (op *readOp) addTarget(node ring.NodeID) {
	if some, _ := op.tally.Counts(node); some && (node == op.self || op.c.view.Alive(node)) {
		op.tally.Opened(node)
		op.targets = append(op.targets, op.slot(node))
	}
}

// sides returns 1 for a replica whose answer counts for every group.
func (op *readOp) sides(node ring.NodeID) int {
	if _, all := op.tally.Counts(node); all {
		return 1
	}
	return 0
}

// slot returns a target for node, reusing one of an earlier read if possible.
func (op *readOp) slot(node ring.NodeID) *readTarget {
	var t *readTarget
	if n := len(op.spareSlots); n > 0 {
		t, op.spareSlots = op.spareSlots[n-1], op.spareSlots[:n-1]
	} else {
		t = &readTarget{op: op}
		t.onPage = func(page []byte, err error) { t.op.gotPage(t, 0, page, err) }
		t.onDigest = func(d row.Digest, err error) { t.op.gotDigest(t, 0, d, err) }
	}
	t.node, t.state, t.err, t.page = node, readSpare, nil, nil
	return t
}

// choose returns the nearest replicas that satisfy the level, and one more if the table always speculates. tally.open
// counts all that may be asked. The first one sends its page and, if one more is asked, so does the second, because any
// one of them may not answer (Cassandra's AlwaysSpeculatingReadExecutor).
func (op *readOp) choose(requests []readRequest) []readRequest {
	for _, t := range op.targets {
		if op.tally.Ask(t.node) {
			requests = append(requests, op.mark(t, len(requests) > 0))
		}
	}
	if len(requests) < len(op.targets) && op.c.tables.Always(op.table) {
		requests = append(requests, op.mark(op.nextSpare(), true))
		requests[1] = op.mark(requests[1].target, false)
	}
	return requests
}

// mark changes a spare target to a requested one.
func (op *readOp) mark(t *readTarget, digest bool) readRequest {
	t.state = readOpenPage
	if digest {
		t.state = readOpenDigest
	}
	return readRequest{t, digest}
}

// nextSpare returns the nearest replica that was not asked yet; nil means that there is none.
func (op *readOp) nextSpare() *readTarget {
	for _, t := range op.targets {
		if t.state == readSpare {
			return t
		}
	}
	return nil
}

// replan restarts the read with the present topology.
func (op *readOp) replan() {
	defer op.guarded()
	op.mu.Lock()
	if op.done == nil {
		op.mu.Unlock()
		op.release()
		return
	}
	op.topology = op.c.view.Topology()
	op.set = op.c.replicasOf(op.topology, op.table, op.cmd.Key.Token)
	op.targets = nil // the previous ones may still receive answers
	op.phase, op.asked, op.resolver = phaseDigest, op.cmd, op.newResolver()
	op.rounds, op.next = 0, nil
	if err := op.plan(); err != nil {
		op.failLocked(err)
		return
	}
	op.filtered()
	requests := op.choose(nil)
	op.mu.Unlock()
	op.send(requests, false)
	op.release()
}
