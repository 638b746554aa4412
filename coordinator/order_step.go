package coordinator

import (
	"errors"
	"slices"

	"cqld/internal/invariant"
	"cqld/ring"
)

// step takes an event and appends its effects. It neither sends, locks, waits nor calls back.
func (o *ordering) step(ev *orderEvent, out []orderEffect) []orderEffect {
	if o.over {
		return out
	}
	switch ev.kind {
	case orderBegun:
		return o.planAll(ev, out)
	case orderAnswered:
		return o.answered(ev, out)
	case orderTicked:
		return o.tick(ev, out)
	case orderResumed:
		// The pause preceded the first plan, so all parts are planned now.
		if ev.part == nil {
			return o.planAll(ev, out)
		}
		return o.replan(ev, out)
	}
	return out
}

// planAll asks as many replicas of every part as must answer. It fails before any request if a part lacks replicas.
func (o *ordering) planAll(ev *orderEvent, out []orderEffect) []orderEffect {
	c := o.c
	wait := max(o.deadline-ev.now, 0)
	first := len(out)
	out = append(out, orderEffect{kind: orderArm})
	for _, p := range o.parts {
		nodes, err := o.plan(p)
		if err != nil && c.MayArrive(err, o.deadline) {
			// Nothing is sent before all parts can be planned.
			return append(out[:first], orderEffect{kind: orderPause, after: ArrivalPause})
		}
		if err != nil {
			return o.fail(err, out[:first])
		}
		// A late replica is replaced once: at the shortest time of a table that has spare replicas.
		if d, ok := c.tables.AskOthersAfter(p.table); ok && len(p.spares) > 0 {
			wait = min(wait, d)
		}
		out = append(out, orderEffect{kind: orderAsk, part: p, nodes: nodes, plan: p.plans, epoch: p.epoch})
	}
	out[first].after = wait
	return out
}

// plan determines the live replicas and chooses the first to ask, as for a read.
func (o *ordering) plan(p *orderPart) (nodes []ring.NodeID, err error) {
	c := o.c
	t, self := c.view.Topology(), c.view.Self()
	set := c.replicasOf(t, p.table, p.cmd.Key.Token)
	// Answers to the previous plan are ignored from here on.
	p.plans++
	p.epoch, p.refused, p.failures, p.spares = t.Epoch(), false, nil, nil
	p.tally.Reset(p.level, p.table.Replication, t, self, c.localDC)
	// While the ring changes, a timestamp may exist only on the replicas before or only on those after the change, so
	// both sides are read.
	p.tally.JoinRead(set, p.level, p.table.Replication)
	var live []ring.NodeID
	for _, members := range [][]ring.NodeID{set.Natural, set.Before} {
		for _, node := range members {
			some, _ := p.tally.Counts(node)
			if some && !slices.Contains(live, node) && (node == self || c.view.Alive(node)) {
				p.tally.Opened(node)
				live = append(live, node)
			}
		}
	}
	if q := p.tally.Short(); q != nil {
		c.counts.unavailable.Add(1)
		return nil, &Unavailable{Consistency: p.level, Required: q.Need, Alive: q.Open}
	}
	SortByProximity(c, t, self, live, func(n ring.NodeID) ring.NodeID { return n })
	for _, node := range live {
		if p.tally.Ask(node) {
			nodes = append(nodes, node)
		} else {
			// Nearest first, like the replicas that are asked.
			p.spares = append(p.spares, node)
		}
	}
	return nodes, nil
}

// answered handles a replica's answer. If a replica fails, all replicas that were not asked before are asked.
func (o *ordering) answered(ev *orderEvent, out []orderEffect) []orderEffect {
	p := ev.part
	if ev.plan != p.plans {
		return out
	}
	if ev.err == nil {
		o.newest = max(o.newest, ev.newest)
		if p.tally.Answered(ev.node); p.tally.Satisfied() {
			// Later answers of this part are ignored: its quorum is complete.
			p.plans++
			p.spares = nil
			o.left--
		}
		if o.left == 0 {
			// Later events have no effect: the write has begun.
			o.over = true
			out = append(out, orderEffect{kind: orderWrite})
		}
		return out
	}
	var refusal *NotReplica
	p.tally.Failed(ev.node)
	p.refused = p.refused || errors.As(ev.err, &refusal)
	if !silent(ev.err) {
		p.failures = append(p.failures, NodeFailure{Node: ev.node, Reason: reasonOf(ev.err)})
	}
	switch {
	case !p.tally.Hopeless(): // spares are counted
		return o.askSpares(p, out)
	case (p.refused || o.c.outdated(p.epoch)) && o.c.MayReplan(p.plans):
		o.c.counts.replans.Add(1)
		// A replica refused because of its epoch, or this node has learned of a newer ring.
		return append(out, orderEffect{
			kind:  orderPause,
			part:  p,
			plan:  p.plans,
			after: ReplanPause << (p.plans - 1),
		})
	}
	return o.fail(o.failure(p), out)
}

// askSpares asks the replicas of a part that were not asked.
func (o *ordering) askSpares(p *orderPart, out []orderEffect) []orderEffect {
	if len(p.spares) == 0 {
		return out
	}
	e := orderEffect{kind: orderAsk, part: p, nodes: p.spares, plan: p.plans, epoch: p.epoch}
	// All spares are asked at once, because answers that contain a timestamp are small.
	p.spares = nil
	return append(out, e)
}

// replan asks again with the current topology. That is safe, because nothing has been written yet.
func (o *ordering) replan(ev *orderEvent, out []orderEffect) []orderEffect {
	p := ev.part
	if ev.plan != p.plans {
		return out
	}
	nodes, err := o.plan(p)
	if err != nil && o.c.MayArrive(err, o.deadline) {
		return append(out, orderEffect{kind: orderPause, part: p, plan: p.plans, after: ArrivalPause})
	}
	if err != nil {
		return o.fail(err, out)
	}
	return append(out, orderEffect{kind: orderAsk, part: p, nodes: nodes, plan: p.plans, epoch: p.epoch})
}

// tick handles a timer that has fired. The first tick asks the remaining replicas; the last one is the deadline.
func (o *ordering) tick(ev *orderEvent, out []orderEffect) []orderEffect {
	left := o.deadline - ev.now
	if left <= 0 {
		// o.left is positive, so there is such a part.
		i := slices.IndexFunc(o.parts, func(p *orderPart) bool { return !p.tally.Satisfied() })
		return o.fail(o.failure(o.parts[i]), out)
	}
	out = append(out, orderEffect{kind: orderArm, after: left})
	for _, p := range o.parts {
		out = o.askSpares(p, out)
	}
	return out
}

// failure returns the error that describes the current counts of a part.
func (o *ordering) failure(p *orderPart) error {
	received, blockFor := p.tally.Totals()
	if len(p.failures) > 0 {
		return &WriteFailure{
			Consistency: p.level,
			Received:    received,
			BlockFor:    blockFor,
			Failures:    p.failures,
			Type:        o.kind,
		}
	}
	o.c.counts.writeTimeouts.Add(1)
	return &WriteTimeout{Consistency: p.level, Received: received, BlockFor: blockFor, Type: o.kind}
}

// fail ends the operation with an error.
func (o *ordering) fail(err error, out []orderEffect) []orderEffect {
	o.over = true
	return append(out, orderEffect{kind: orderFail, err: err})
}

// checkInvariants stops the program if an invariant is broken:
//
//  1. As many parts lack a quorum as left counts.
//  2. No part counts an answer twice.
//  3. The write follows when all parts have a quorum.
func (o *ordering) checkInvariants() {
	if o.over {
		return
	}
	left := 0
	for _, p := range o.parts {
		if p.plans == 0 {
			return // it was not planned yet
		}
		if !p.tally.Satisfied() {
			left++
		}
		for i := range p.tally.Quotas() {
			q := &p.tally.Quotas()[i]
			invariant.Check(q.Open >= 0, "order: a replica was counted twice")
		}
	}
	invariant.Check(left == o.left, "order: the count of parts without a quorum is wrong")
	invariant.Check(o.left > 0, "order: no write follows although all parts have a quorum")
}
