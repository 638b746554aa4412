package coordinator

import (
	"slices"
	"time"

	"cqld/ring"
	"cqld/row"
)

// target returns node's target in the current plan, and adds it if necessary. The caller holds mu, or no other
// goroutine uses op.
func (op *writeOp) target(plan int, node ring.NodeID) *writeTarget {
	for _, t := range op.targets {
		if t.node == node {
			return t
		}
	}
	var t *writeTarget
	if n := len(op.spare); n > 0 {
		t, op.spare = op.spare[n-1], op.spare[:n-1]
	} else {
		t = &writeTarget{op: op}
		t.onDone = func(err error) { t.op.answer(t, t.plan, err) }
	}
	t.node, t.plan, t.state, t.hinted, t.kept, t.err = node, plan, targetOpen, false, false, nil
	t.alive = node == op.self || op.c.view.Alive(node)
	t.mutations, t.parts = t.mutations[:0], t.parts[:0]
	op.targets = append(op.targets, t)
	return t
}

// plan determines the replicas of every mutation in the present topology and checks that enough are alive.
func (op *writeOp) plan() error {
	c := op.c
	op.plans++
	op.refused = false
	op.topology = c.view.Topology()
	catalog := c.view.Schema()
	op.targets = op.targets[:0]
	if cap(op.parts) < len(op.mutations) {
		op.parts = make([]writePart, len(op.mutations))
	}
	op.parts = op.parts[:len(op.mutations)]
	op.unmet = len(op.parts)
	for i, m := range op.mutations {
		table := catalog.TableByStorage(m.Table)
		if table == nil {
			return &UnknownTable{Table: m.Table}
		}
		p := &op.parts[i]
		p.met = false
		p.tally.Reset(op.level, table.Replication, op.topology, op.self, c.localDC)
		set := c.replicasOf(op.topology, table, m.Key.Token)
		if !c.unsafe.OneSided {
			p.tally.Join(set)
		}
		for _, node := range set.Natural {
			op.assign(i, m, node)
		}
		for _, node := range set.Pending {
			op.assign(i, m, node)
		}
		if q := p.tally.Short(); q != nil && !op.hintsWillDo(len(set.Natural)) {
			c.counts.unavailable.Add(1)
			return &Unavailable{Consistency: op.level, Required: q.Need, Alive: q.Open}
		}
	}
	return nil
}

// hintsWillDo reports whether hints alone satisfy the level.
func (op *writeOp) hintsWillDo(replicas int) bool {
	return op.level == ring.Any && op.c.hints != nil && replicas > 0 && op.c.hints.SatisfyAny()
}

// assign adds mutation i to node's target.
func (op *writeOp) assign(i int, m *row.Mutation, node ring.NodeID) {
	t := op.target(op.plans, node)
	t.mutations, t.parts = append(t.mutations, m), append(t.parts, i)
	if t.alive {
		op.parts[i].tally.Opened(node)
	}
}

// replan plans and sends everything again. Mutations contain their timestamps, so applying them twice is idempotent.
func (op *writeOp) replan() {
	defer op.guarded()
	op.mu.Lock()
	if op.ended {
		op.mu.Unlock()
		op.release()
		return
	}
	op.plans-- // plan increments it
	before := op.targets
	op.targets = nil // the previous ones may still receive answers
	err := op.plan()
	if err != nil {
		op.targets = before // they get hints if no plan succeeds
	}
	if err != nil && op.done != nil && op.c.waits(err, op.deadline) {
		op.mu.Unlock()
		op.c.clock.After(arrivalPause, op.replan)
		return
	}
	var done func(error)
	var missed []*writeTarget
	if err != nil {
		done, op.done = op.done, nil
		op.ended = true
		missed = op.missedLocked()
	}
	plan := op.plans
	op.mu.Unlock()
	for _, t := range missed {
		op.hint(t, plan)
	}
	switch {
	case err == nil:
		op.send()
	case done != nil:
		// An earlier plan was sent, so ErrNotSent would be wrong.
		received, blockFor := op.parts[0].tally.Totals()
		op.conclude(done, &WriteTimeout{Consistency: op.level, Received: received, BlockFor: blockFor, Type: op.kind})
		op.stopTimer()
	}
	op.release()
}

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

// replanPause is how long the first new plan waits for newer metadata; it doubles with each plan.
const replanPause = 10 * time.Millisecond
