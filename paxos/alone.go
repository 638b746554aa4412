package paxos

import (
	"errors"

	"cqld/coordinator"
	"cqld/row"
)

// If this node is the only voter, and no other node is becoming one, no promise is needed. The acceptor of this node
// serializes the round, from the read to the write, with the requests of other nodes, and writes the change and its
// ballot in one batch with one sync.

// alone reports whether this node is the only voter and holds the partition, and no proposal of the round is in doubt,
// which a prepare would look up. At LOCAL_SERIAL, the only voter of a data center may not be the only replica: then the
// other replicas must receive the change, and the consistency level must be met.
func (op *round) alone() bool {
	v := &op.voters
	if len(v.natural) != 1 || len(v.pending) > 0 || len(v.others) > 0 || v.natural[0] != op.c.view.Self() ||
		op.crowded || len(op.own) > 0 || op.c.unsafe.NoPersist {
		return false
	}
	return coordinator.OnlySelf(op.c.view.Self(), op.topology, op.table, op.cmd.Key.Token)
}

// decideAloneLocked makes an attempt in one step. It unlocks mu.
func (op *round) decideAloneLocked() {
	op.phase = phaseCommitting
	op.stageLocked(StageCommit)
	op.votes = op.votes[:0]
	coordinator.AddContact(op.tracer(), op.c.view.Self())
	epoch, cmd, tooMuch := op.topology.Epoch(), op.cmd, false
	var update *row.Mutation
	op.mu.Unlock()
	op.c.acceptors.Decide(epoch, cmd, func(known Known, page []byte) (*Proposal, *row.Mutation) {
		op.mu.Lock()
		op.ballot = op.c.ballot(max(op.seen, known.Latest.Micros), op.span())
		q := op.questionLocked(page)
		op.mu.Unlock()
		a := q.ask() // meanwhile the acceptor admits no other change of the partition; no mutex is held
		op.mu.Lock()
		defer op.mu.Unlock()
		op.takeLocked(&a)
		if tooMuch = a.tooMuch; tooMuch || a.update == nil {
			return nil, nil
		}
		update = a.update
		op.proposal = Proposal{Ballot: op.ballot, Origin: op.ballot, Prior: known.Prior, History: known.History,
			Table: cmd.Table, Key: cmd.Key}
		p := op.proposal
		return &p, update
	}, func(err error) {
		defer op.guarded()
		op.mu.Lock()
		var refusal *coordinator.NotReplica
		var overloaded *coordinator.Overloaded
		if errors.Is(err, ErrInDoubt) {
			op.proposal.Update = row.AppendMutation(nil, update)
			op.own = append(op.own, doubtful{proposal: op.proposal, outcomes: op.outcomes})
		}
		switch {
		case err == nil && tooMuch:
			op.splitLocked()
		case err == nil:
			op.c.counts.alone.Add(1)
			op.concludeLocked(op.outcomes, nil)
		case errors.Is(err, ErrUnsettled):
			op.crowded = true
			op.againLocked(CauseContention, 0)
		case errors.As(err, &refusal) && op.plans < op.c.limits.PlansMax:
			op.plans++
			op.c.counts.replans.Add(1)
			op.againLocked(CauseRing, coordinator.ReplanPause<<(op.plans-1))
		case errors.As(err, &overloaded):
			op.c.counts.overloaded.Add(1)
			op.failLocked(overloaded)
		case coordinator.Silent(err):
			op.failLocked(op.timedOut())
		default:
			op.failLocked(&coordinator.WriteFailure{Consistency: op.serial, BlockFor: 1, Type: coordinator.WriteCAS,
				Failures: []coordinator.NodeFailure{{Node: op.voters.natural[0], Reason: coordinator.ReasonOf(err)}}})
		}
	})
}
