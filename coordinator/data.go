package coordinator

import (
	"errors"
	"time"

	"cqld/coordinator/resolve"
	"cqld/ring"
)

// gatherLocked ends a data round when enough pages have arrived: it merges them, repairs replicas that lack something,
// and continues reading if a limit ended the pages before the limit of the command was met. It unlocks mu and releases
// the caller's reference.
func (op *readOp) gatherLocked() {
	if !op.tally.Satisfied() {
		op.mu.Unlock()
		op.release()
		return
	}
	var versions []*resolve.Version
	for _, t := range op.targets {
		if t.state != readAnswered || t.page == nil {
			continue
		}
		v, err := op.resolver.Parse(t.node, *t.page)
		if err != nil {
			op.failLocked(err)
			return
		}
		versions = append(versions, v)
	}
	lacks, next := op.resolver.Round(op.asked, versions, !op.c.unsafe.NoShortRead)
	if err := op.resolver.Err(); err != nil {
		op.failLocked(err)
		return
	}
	if next == nil && !op.resolver.Finished() && op.asked.SinglePartition() && !op.cmd.SinglePartition() {
		next = &resolve.Position{Key: op.asked.Key, Whole: true} // the additional read of one partition has ended
	}
	op.next = next
	if op.table.Options.ReadRepair == "NONE" && op.cmd.Repair == nil || op.c.unsafe.NoReadRepair {
		op.advanceLocked()
		return
	}
	op.repairLocked(lacks)
}

// repairLocked writes to every replica what it lacks, and waits until as many as the level requires have the whole
// answer: so a later read at the same level returns it, too.
func (op *readOp) repairLocked(lacks []resolve.Repairs) {
	op.resetTally()
	send := lacks[:0]
	for _, l := range lacks {
		op.tally.Opened(l.Node)
		if len(l.Mutations) == 0 {
			op.tally.Answered(l.Node)
		} else {
			send = append(send, l)
			op.cmd.Repair.Count(l.Mutations)
		}
	}
	if len(send) == 0 {
		op.advanceLocked()
		return
	}
	op.phase = phaseRepair
	op.round++
	op.refs += len(send)
	round, epoch := op.round, op.topology.Epoch()
	op.mu.Unlock()
	op.c.counts.readRepairs.Add(1)
	timeout := op.c.patience(op.started, op.deadline)
	for _, l := range send {
		op.repair(l, round, epoch, timeout)
	}
	op.release()
}

// repair sends one replica the mutations that it lacks.
func (op *readOp) repair(l resolve.Repairs, round int, epoch uint64, timeout time.Duration) {
	traceNode(op.trace, op.self, "Sending read repair to", l.Node)
	generation := op.c.sent.Enter()
	node := l.Node
	done := func(err error) { // without the mutations: the answer may come long after the request has ended
		op.c.sent.Leave(generation)
		op.repaired(node, round, err)
	}
	if op.c.truncatedSince(op.table.StorageID, op.started) { // the rows that were read have been or will be removed
		var err error
		if op.cmd.Repair != nil { // a repair of the table must not consider the replicas equal: the truncation may fail
			err = errTruncating
		}
		done(err)
		return
	}
	replica := op.c.replica(l.Node, op.trace)
	remote, ok := replica.(Remote)
	if !ok {
		replica.Apply(epoch, l.Mutations, timeout, done)
		return
	}
	b := op.c.buffer()
	*b = remote.AppendMutations((*b)[:0], epoch, l.Mutations)
	remote.ApplyEncoded(ForReadRepair, *b, timeout, done)
	op.c.release(b)
}

// errTruncating is the error of a table repair that cannot compare the replicas.
var errTruncating = errors.New("coordinator: the table is being truncated")

// repaired is the event of a repair's acknowledgement.
func (op *readOp) repaired(node ring.NodeID, round int, err error) {
	op.mu.Lock()
	if op.done == nil || round != op.round {
		op.mu.Unlock()
		op.release()
		return
	}
	if err == nil {
		op.tally.Answered(node)
		op.advanceIfRepairedLocked()
		return
	}
	op.tally.Failed(node)
	var refusal *NotReplica
	op.refused = op.refused || errors.As(err, &refusal)
	for _, t := range op.targets {
		if t.node == node {
			t.err, t.state = err, readFailed
		}
	}
	// Another replica can replace it: that one gets all mutations that this one lacked, and the rest of the answer.
	if spare := op.nextRepaired(node); spare != nil && op.next == nil && op.rounds == 1 {
		spare.state = readAnswered
		op.tally.Opened(spare.node)
		whole := resolve.Repairs{Node: spare.node}
		for _, p := range op.resolver.Merged() {
			if m := op.resolver.Difference(op.cmd, p, nil); m != nil {
				whole.Mutations = append(whole.Mutations, m)
			}
		}
		if err := op.resolver.Err(); err != nil {
			op.failLocked(err)
			return
		}
		epoch := op.topology.Epoch()
		op.refs++
		op.mu.Unlock()
		op.repair(whole, round, epoch, op.c.patience(op.started, op.deadline))
		op.release()
		return
	}
	if op.tally.Hopeless() {
		op.giveUpLocked()
		return
	}
	op.mu.Unlock()
	op.release()
}

// nextRepaired returns a replica that does not participate in the repair yet, and that counts wherever failed would
// have: one that was not asked, or whose page arrived too late to be in the answer.
func (op *readOp) nextRepaired(failed ring.NodeID) *readTarget {
	var late *readTarget
	for _, t := range op.targets {
		switch {
		case !op.tally.Replaces(t.node, failed):
		case t.state == readSpare:
			return t
		case late == nil && (t.state == readOpenPage || t.state == readOpenDigest):
			late = t
		}
	}
	return late
}

// advanceIfRepairedLocked continues when enough replicas have the answer.
func (op *readOp) advanceIfRepairedLocked() {
	if op.tally.Satisfied() {
		op.advanceLocked()
		return
	}
	op.mu.Unlock()
	op.release()
}

// advanceLocked answers, or continues reading if the round ended before the limit. It unlocks mu and releases the
// caller's reference.
func (op *readOp) advanceLocked() {
	for op.next != nil {
		if op.rounds >= op.c.limits.RoundsMax {
			op.failLocked(op.failure())
			return
		}
		cmd := op.resolver.Continuation(op.next, op.asked, op.c.limits.RoundRowsMax)
		if cmd == nil && op.cmd.SinglePartition() {
			break
		}
		if cmd == nil {
			op.next.Whole = true // nothing is left in this partition
			continue
		}
		op.asked, op.next = cmd, nil
		op.c.counts.shortReads.Add(1)
		op.dataRoundLocked(func(*readTarget) bool { return false })
		return
	}
	b := op.c.buffer()
	page, err := op.resolver.AppendPage((*b)[:0])
	if err != nil {
		op.failLocked(err)
		return
	}
	*b = page
	op.kept = append(op.kept, b)
	op.succeedLocked(*b)
}
