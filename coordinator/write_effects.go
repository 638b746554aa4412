package coordinator

import (
	"errors"
	"time"

	"cqld/coordinator/write"
	"cqld/internal/guard"
	"cqld/ring"
	"cqld/row"
)

// perform performs the effects of a step without the lock.
func (op *writeOp) perform(out []write.Effect, d *writeDuties) {
	c := op.c
	var shared *[]byte // the encoding of all mutations, used by most targets
	for i := range out {
		e := &out[i]
		switch e.Kind {
		case write.Send:
			shared = op.send(e.Target, d.epoch, shared)
		case write.Apply:
			op.apply(e.Target, d.epoch)
		case write.Hint:
			op.hint(e.Target, e.Plan)
		case write.Note:
			op.note(e.Target)
		case write.Reply:
			// Decremented before done, which may start the client's next request.
			c.writing.Add(-1)
			d.answer(c.guard)
		case write.Replan:
			c.counts.replans.Add(1)
			c.clock.After(e.After, op.onResume)
		// This pause is not counted as a replan: the topology is current, and only a node's heartbeat is missing.
		case write.Pause:
			c.clock.After(e.After, op.onResume)
		case write.Arm: // step has set the timer
		}
	}
	if shared != nil {
		// Transports have copied the encoding, so its buffer can be reused.
		c.release(shared)
	}
}

// answer calls done. A panic of the client's code must not reach recovered: another write may use the operation.
func (d *writeDuties) answer(g *guard.Guard) {
	defer g.Recover("coordinator write", nil)
	done := d.done
	d.done = nil
	done(d.err)
}

// doneOf returns the receiver of t's answer. It is allocated once for a target, which other writes reuse.
func (op *writeOp) doneOf(t *write.Target) func(error) {
	if t.Done == nil {
		t.Done = func(err error) { op.answered(t, err) }
	}
	return t.Done
}

// timeout returns how long replicas may take.
func (op *writeOp) timeout() time.Duration { return op.c.changeTimeout(op.began, op.machine.Deadline) }

// send sends t its mutations, in the shared encoding if it receives all of them. It does not use op after the request
// was sent: the answer may end the write.
func (op *writeOp) send(t *write.Target, epoch uint64, shared *[]byte) *[]byte {
	c, m, timeout, done := op.c, &op.machine, op.timeout(), op.doneOf(t)
	traceNode(op.trace, m.Self, "Sending mutation to", t.Node)
	// Paxos sends the commit itself, in its own encoding.
	if op.sender != nil {
		op.sender.Send(t.Node, epoch, timeout, done)
		return shared
	}
	replica := c.replica(t.Node, op.trace)
	remote, ok := replica.(Remote)
	if !ok {
		replica.Apply(epoch, t.Mutations, timeout, done)
		return shared
	}
	// The usual case: all partitions of the write have the same replicas, or there is one.
	if len(t.Mutations) == len(m.Mutations) {
		if shared == nil {
			shared = c.buffer()
			*shared = remote.AppendMutations((*shared)[:0], epoch, t.Mutations)
		}
		remote.ApplyEncoded(ForWrite, *shared, timeout, done)
		return shared
	}
	// The node receives only some of the mutations, which are encoded separately.
	own := c.buffer()
	*own = remote.AppendMutations((*own)[:0], epoch, t.Mutations)
	remote.ApplyEncoded(ForWrite, *own, timeout, done)
	c.release(own)
	return shared
}

// apply applies the mutations of t at this node. Storage calls back in its committer, or at once.
func (op *writeOp) apply(t *write.Target, epoch uint64) {
	done := op.doneOf(t)
	if op.sender != nil {
		op.sender.Send(t.Node, epoch, op.timeout(), done)
		return
	}
	op.c.replica(t.Node, op.trace).Apply(epoch, t.Mutations, op.timeout(), done)
}

// hint stores the mutations of t until the node receives them.
func (op *writeOp) hint(t *write.Target, plan int32) {
	traceNode(op.trace, op.machine.Self, "Keeping a hint for", t.Node)
	var stored func(error)
	if op.machine.AwaitsHints() {
		stored = func(err error) {
			ev := write.Event{Kind: write.Hinted, Target: t, Plan: plan}
			if err != nil {
				// A lost hint counts like a replica that did not answer.
				ev.Answer = write.Silent
			}
			op.deliver(&ev)
		}
	}
	// op.since, not the present time: a truncation since then makes the hint void.
	op.c.hints.Add(t.Node, t.Mutations, op.since, op.created, stored)
}

// note traces the answer of t.
func (op *writeOp) note(t *write.Target) {
	what := "Mutation acknowledged by"
	if t.State == write.Failed {
		what = "No acknowledgement from"
	}
	traceNode(op.trace, op.machine.Self, what, t.Node)
}

// local reports whether this node is the only replica of the only mutation: its answer is then the result, and neither
// a plan nor a timer is needed.
func (op *writeOp) local() bool {
	c, m := op.c, &op.machine
	if len(m.Mutations) != 1 || m.Applied || !c.OnlyHere(m.Mutations[0], m.Level, m.Topology) {
		return false
	}
	op.only = m.Only()
	return true
}

// OnlyHere reports whether this node is the only replica of a mutation in topology t, and suffices for the level.
func (c *Coordinator) OnlyHere(m *row.Mutation, level ring.Consistency, t *ring.Topology) bool {
	table := c.view.Schema().TableByStorage(m.Table)
	// EACH_QUORUM is checked for each data center by the machine.
	return table != nil && level != ring.EachQuorum && level.BlockFor(table.Replication, c.localDC) <= 1 &&
		OnlySelf(c.view.Self(), t, table, m.Key.Token)
}

// applyHere applies a write whose only replica is this node. There is one event, so there are no steps.
func (op *writeOp) applyHere(timeout time.Duration) {
	t, epoch := op.only, op.machine.Topology.Epoch()
	if op.sender != nil {
		op.sender.Send(t.Node, epoch, timeout, op.doneOf(t))
		return
	}
	op.c.replica(t.Node, op.trace).Apply(epoch, t.Mutations, timeout, op.doneOf(t))
}

// answeredHere answers a write whose only replica is this node.
func (op *writeOp) answeredHere(err error) {
	if op.c.guard != nil {
		defer op.recovered(new(writeDuties))
	}
	// No lock is needed, because no other event exists.
	done := op.done
	op.done = nil
	if err == nil {
		op.only.State = write.Acked
	}
	err = op.errorHere(err)
	op.c.writing.Add(-1)
	done(err)
	// After done, as in deliver: op belongs to this write until the client has its answer.
	op.recycle()
}

// errorHere converts the error of the only replica for the client.
func (op *writeOp) errorHere(err error) error {
	if err == nil {
		return nil // before overloaded, which errors.As lets escape
	}
	var overloaded *Overloaded
	switch {
	case errors.As(err, &overloaded):
		op.c.counts.overloaded.Add(1)
		return overloaded
	case silent(err):
		return op.outcome(&write.Outcome{Kind: write.Timeout, Required: 1})
	}
	return op.outcome(&write.Outcome{
		Kind:     write.Failure,
		Required: 1,
		Failures: []write.NodeFailure{{Node: op.only.Node, Reason: uint16(reasonOf(err))}},
	})
}
