package paxos

import (
	"time"

	"cqld/coordinator"
	"cqld/paxos/ballot"
	"cqld/paxos/contention"
	"cqld/ring"
	"cqld/row"
)

// Acceptors sends the requests of a Proposer to the acceptors of the nodes, including this one. Its methods return at
// once and call done exactly once, possibly before they return. The arguments of done are valid until done returns.
// An acceptor confirms only state that survives a crash. The trace may be nil. A failure that certainly had no effect
// is coordinator.ErrNotSent (errors.Is). An acceptor that knows a later ring than epoch refuses with
// coordinator.NotReplica.
type Acceptors interface {
	// Prepare asks for a promise to accept nothing before the ballot b, and reads. With a previous ballot it only
	// reads, provided that the acceptor knows no ballot after the previous one.
	Prepare(to ring.NodeID, trace coordinator.Trace, epoch uint64, b, previous ballot.Ballot, cmd *row.ReadCommand,
		timeout time.Duration, done func(*ballot.Promise, error))
	// Accept proposes p to several acceptors and calls done once for each, with its index in the list. An acceptor
	// accepts the proposal unless it has promised a later ballot, or any ballot after Proposal.Previous; done then
	// receives that ballot.
	Accept(to []ring.NodeID, trace coordinator.Trace, epoch uint64, p *ballot.Proposal, timeout time.Duration,
		done func(place int, refused ballot.Ballot, err error))
	// Commit applies a decided proposal. The error is ErrNotAccepted if p refers to the proposal that the acceptor has
	// accepted (Proposal.Accepted) and the acceptor holds a different one.
	Commit(to ring.NodeID, trace coordinator.Trace, epoch uint64, p *ballot.Proposal, timeout time.Duration,
		done func(error))
	// Decide asks this node's acceptor, which must be the only voter of a partition. It reads, calls decide for a
	// proposal after the latest ballot and for its mutation, and applies that mutation, atomically for all other
	// requests. decide must not block; a nil proposal changes nothing. done receives ErrUnsettled if a proposal is in
	// progress, and an error that is ErrInDoubt if the change may be decided.
	Decide(epoch uint64, cmd *row.ReadCommand,
		decide func(known ballot.Known, page []byte) (*ballot.Proposal, *row.Mutation), done func(error))
}

// Arbiters sends requests for turns to the arbiters of other nodes. contention.Client implements it.
type Arbiters interface {
	// Ask asks a node, the arbiter of a partition, for a turn. It returns at once and calls done exactly once, possibly
	// before it returns.
	Ask(to ring.NodeID, partition string, timeout time.Duration, done func(contention.Turn, error))
	// Pass returns a turn to the node that granted it.
	Pass(to ring.NodeID, partition string, ticket uint64)
}
