package coordinator

import (
	"slices"
	"time"

	"cqld/ring"
	"cqld/row"
)

// target is the share of node in the current plan, made when it is not there. Caller holds mu or is
// alone.
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

// plan finds the replicas of every mutation at the present topology and checks that enough live.
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

// hintsWillDo says whether hints alone satisfy the level.
func (op *writeOp) hintsWillDo(replicas int) bool {
	return op.level == ring.Any && op.c.hints != nil && replicas > 0 && op.c.hints.SatisfyAny()
}

// assign gives node its share of mutation i.
func (op *writeOp) assign(i int, m *row.Mutation, node ring.NodeID) {
	t := op.target(op.plans, node)
	t.mutations, t.parts = append(t.mutations, m), append(t.parts, i)
	if t.alive {
		op.parts[i].tally.Opened(node)
	}
}

// replan plans and sends everything again: mutations carry their timestamps, so that applying them
// twice is applying them once.
func (op *writeOp) replan() {
	defer op.guarded()
	op.mu.Lock()
	if op.ended {
		op.mu.Unlock()
		op.release()
		return
	}
	op.plans-- // plan counts itself
	before := op.targets
	op.targets = nil // the old ones may still get answers
	err := op.plan()
	if err != nil {
		op.targets = before // they get hints when no plan succeeds
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
		// Something was sent before, so that nothing was sent would be a lie.
		received, blockFor := op.parts[0].tally.Totals()
		op.conclude(done, &WriteTimeout{Consistency: op.level, Received: received, BlockFor: blockFor, Type: op.kind})
		op.stopTimer()
	}
	op.release()
}

// plan finds the live replicas, nearest first, and checks that they are enough.
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
	if op.tally.TwoSided() { // first those that count on both sides: they are fewer
		slices.SortStableFunc(op.targets, func(a, b *readTarget) int { return op.sides(b.node) - op.sides(a.node) })
	}
	return nil
}

// addTarget adds a replica that lives and counts.
func (op *readOp) addTarget(node ring.NodeID) {
	if some, _ := op.tally.Counts(node); some && (node == op.self || op.c.view.Alive(node)) {
		op.tally.Opened(node)
		op.targets = append(op.targets, op.slot(node))
	}
}

// sides is 1 for a replica whose answer counts for every group.
func (op *readOp) sides(node ring.NodeID) int {
	if _, all := op.tally.Counts(node); all {
		return 1
	}
	return 0
}

// slot is a target of an earlier read, or a new one, for node.
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

// choose takes the nearest replicas that satisfy the level, and one more when the table speculates
// always. tally.open counts all that may be asked; the first asked sends its page, and where one more is
// asked the second does, too: any one of them may be silent (Cassandra's AlwaysSpeculatingReadExecutor).
func (op *readOp) choose(asks []ask) []ask {
	for _, t := range op.targets {
		if op.tally.Ask(t.node) {
			asks = append(asks, op.mark(t, len(asks) > 0))
		}
	}
	if len(asks) < len(op.targets) && op.c.tables.Always(op.table) {
		asks = append(asks, op.mark(op.nextSpare(), true))
		asks[1] = op.mark(asks[1].target, false)
	}
	return asks
}

// mark turns a spare target into an asked one.
func (op *readOp) mark(t *readTarget, digest bool) ask {
	t.state = readOpenPage
	if digest {
		t.state = readOpenDigest
	}
	return ask{t, digest}
}

// nextSpare is the nearest replica not asked yet; nil when there is none.
func (op *readOp) nextSpare() *readTarget {
	for _, t := range op.targets {
		if t.state == readSpare {
			return t
		}
	}
	return nil
}

// replan reads from the beginning, with the topology of now.
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
	op.targets = nil // the old ones may still get answers
	op.phase, op.asked, op.resolver = phaseDigest, op.cmd, op.newResolver()
	op.rounds, op.next = 0, nil
	if err := op.plan(); err != nil {
		op.failLocked(err)
		return
	}
	op.filtered()
	asks := op.choose(nil)
	op.mu.Unlock()
	op.ask(asks, false)
	op.release()
}

// replanPause is how long the first new plan waits for the metadata to arrive; it doubles.
const replanPause = 10 * time.Millisecond
