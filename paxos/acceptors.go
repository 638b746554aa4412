package paxos

import (
	"errors"
	"time"

	"cqld/coordinator"
	"cqld/paxos/contention"
	"cqld/ring"
	"cqld/row"
)

// Promise is an acceptor's answer to Prepare.
type Promise struct {
	// Refused reports that the acceptor has promised Promised, which is not before the requested ballot.
	Refused bool
	// Unchanged reports that nothing was promised, because the acceptor knows no ballot after the previous one. Of the
	// other fields, only Page is then set.
	Unchanged bool
	Promised  Ballot
	Accepted  Proposal // the latest accepted proposal that is not known to be decided
	Commit    Proposal // the latest decided proposal
	// Floor is the low bound: decisions up to this ballot may be purged (View.PaxosFloor).
	Floor Ballot
	Page  []byte // answer to the command; nil if refused
}

// Acceptors sends the requests of a Proposer to the acceptors and arbiters of the nodes, including this one. Its
// methods return at once and call done exactly once, possibly before they return. The arguments of done are valid until
// done returns. The state that an acceptor has confirmed survives a crash. The trace may be nil. A failure that
// certainly had no effect is coordinator.ErrNotSent (errors.Is). An acceptor that knows a later ring than epoch refuses
// with coordinator.NotReplica.
type Acceptors interface {
	// Prepare asks for a promise to accept nothing before the ballot b, and reads. With a previous ballot it only
	// reads, provided that the acceptor knows no ballot after the previous one.
	Prepare(to ring.NodeID, trace coordinator.Trace, epoch uint64, b, previous Ballot, cmd *row.ReadCommand,
		timeout time.Duration, done func(*Promise, error))
	// Accept proposes p to several acceptors and calls done once for each, with its index in the list. An acceptor
	// accepts the proposal unless it has promised a later ballot, or any ballot after Proposal.Previous; done then
	// receives that ballot.
	Accept(to []ring.NodeID, trace coordinator.Trace, epoch uint64, p *Proposal, timeout time.Duration,
		done func(place int, refused Ballot, err error))
	// Commit applies a decided proposal. The error is ErrNotAccepted if p refers to the proposal that the acceptor has
	// accepted (Proposal.Accepted) and the acceptor holds a different one.
	Commit(to ring.NodeID, trace coordinator.Trace, epoch uint64, p *Proposal, timeout time.Duration, done func(error))
	// Decide asks this node's acceptor, which must be the only voter of a partition. It reads, calls decide for a
	// proposal after the latest ballot and for its mutation, and applies that mutation, atomically for all other
	// requests. decide must not block; a nil proposal changes nothing. done receives ErrUnsettled if a proposal is in
	// progress, and an error that is ErrInDoubt if the change may be decided.
	Decide(epoch uint64, cmd *row.ReadCommand, decide func(known Known, page []byte) (*Proposal, *row.Mutation),
		done func(error))

	// RequestTurn asks another node, the arbiter of a partition, for a turn (package contention).
	RequestTurn(to ring.NodeID, partition string, timeout time.Duration, done func(contention.Turn, error))
	// EndTurn returns a turn to another node.
	EndTurn(to ring.NodeID, partition string, ticket uint64)
}

// ErrNotAccepted means that an acceptor does not hold the proposal to which a commit refers: the commit must be resent
// with the update.
var ErrNotAccepted = errors.New("paxos: the proposal to be committed was not accepted here, or was superseded")

// ErrInDoubt means that the write of a decision failed after it began: the decision may be on disk.
var ErrInDoubt = errors.New("paxos: the change may be decided")

// ErrUnsettled means that a proposal is in progress that must be finished first.
var ErrUnsettled = errors.New("paxos: a proposal is in progress")
