package paxos

import (
	"errors"
	"slices"
	"time"

	"cqld/coordinator"
	"cqld/internal/wire"
	"cqld/ring"
	"cqld/row"
)

// decision is a commit of a decided proposal. Replicas in accepted have the proposal, or have been sent it, and
// therefore receive only its ballot.
type decision struct {
	acceptors Acceptors
	trace     coordinator.Trace
	proposal  *Proposal
	accepted  []ring.NodeID
	short     Proposal // proposal without its update
}

// Send implements coordinator.Sender.
func (d *decision) Send(node ring.NodeID, epoch uint64, timeout time.Duration, done func(error)) {
	if !slices.Contains(d.accepted, node) {
		d.acceptors.Commit(node, d.trace, epoch, d.proposal, timeout, done)
		return
	}
	d.acceptors.Commit(node, d.trace, epoch, &d.short, timeout, func(err error) {
		if errors.Is(err, ErrNotAccepted) {
			d.acceptors.Commit(node, d.trace, epoch, d.proposal, timeout, done)
			return
		}
		done(err)
	})
}

// commitLocked writes the decided proposal to all replicas as an ordinary write. It unlocks mu.
func (op *round) commitLocked(level ring.Consistency) {
	op.phase = phaseCommitting
	op.stageLocked(StageCommit)
	op.disarmLocked()
	p := op.proposal
	p.Table, p.Key = op.cmd.Table, op.cmd.Key
	mine := op.mine()
	if at := op.proposedAt(p.Origin); at >= 0 {
		op.outcomes = op.own[at].outcomes
	}
	d := &decision{acceptors: op.c.acceptors, trace: op.tracer(), proposal: &p, short: p}
	d.short.Update, d.short.Accepted = nil, true
	// it was accepted in this attempt; requests to the other acceptors are outstanding
	if op.proposal.Ballot == op.ballot {
		d.accepted = make([]ring.NodeID, 0, len(op.votes))
		for i := range op.votes {
			if v := &op.votes[i]; v.state == voteYes || v.state == voteOpen {
				d.accepted = append(d.accepted, v.node)
			}
		}
	}
	early := mine && level == ring.Any
	if early {
		op.answerLocked(op.outcomes, nil, CauseNone)
	} else {
		op.mu.Unlock()
	}
	m := new(row.Mutation)
	c := wire.NewCursor(p.Update)
	row.ConsumeMutation(&c, m)
	op.c.coordinator.Write(&coordinator.WriteRequest{
		Mutations: []*row.Mutation{m}, Consistency: level, Type: coordinator.WriteSimple, Timeout: op.timeout,
		Trace: op.tracer(), Sender: d,
	}, func(err error) {
		defer op.guarded()
		op.mu.Lock()
		switch {
		case early:
			op.stageLocked(StageNone)
			op.mu.Unlock()
			op.leave()
		case mine && errors.Is(err, coordinator.ErrNotSent) && op.commitAgainLocked(level):
		case mine:
			op.own = nil // it is decided, whether or not this write succeeds
			if err == nil && quorate(level, op.serial) && p.Ballot == op.ballot {
				op.settledLocked(p.Ballot, p.Ballot, p.History.With(p.Origin))
			}
			op.concludeDecidedLocked(op.decidedButFailed(level, err))
		default:
			// Whether or not all writes succeeded, the next promises show the state.
			if err != nil {
				op.againLocked(CauseCommit, op.pause())
				return
			}
			op.againLocked(CauseQueue, 0)
		}
	})
	// The commit was sent: the acceptors answer the next coordinator's prepare after they have applied it.
	op.endTurn()
}

// commitAgainLocked repeats the commit after a pause if nothing could be sent and there is time left, because other
// nodes may come back. It unlocks mu if it returns true.
func (op *round) commitAgainLocked(level ring.Consistency) bool {
	pause, end := op.pause(), time.Duration(0)
	for _, m := range op.members {
		end = max(end, m.entered+m.req.Timeout)
	}
	if op.c.clock.Monotonic()+pause >= end {
		return false
	}
	op.stageLocked(StagePause)
	op.mu.Unlock()
	op.c.clock.After(pause, func() {
		op.mu.Lock()
		op.commitLocked(level)
	})
	return true
}
