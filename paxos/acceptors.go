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
	// Refused says that it has promised Promised, which is not before the ballot asked for.
	Refused bool
	// Unchanged says that nothing was promised, as it knows of no ballot after the previous one; of the
	// rest only Page is set.
	Unchanged bool
	Promised  Ballot
	Accepted  Proposal // the latest accepted one that is not known to be decided
	Commit    Proposal // the latest decided one
	// Floor is the ballot up to which it may have forgotten what was decided (View.PaxosFloor).
	Floor Ballot
	Page  []byte // answer to the command; nil when refused
}

// Acceptors sends the requests of a Proposer to the acceptors and arbiters of the nodes, this one included. Its methods
// return at once and call done exactly once, possibly before they return; what done is given is valid until it returns. What
// an acceptor has answered survives a crash. The trace may be nil. A failure that certainly did nothing is
// coordinator.ErrNotSent (errors.Is); an acceptor that knows of a later ring than epoch refuses with coordinator.NotReplica.
type Acceptors interface {
	// Prepare promises to accept nothing before the ballot b, and reads. With a previous ballot it only reads, if the
	// acceptor knows of no ballot after that one.
	Prepare(to ring.NodeID, trace coordinator.Trace, epoch uint64, b, previous Ballot, cmd *row.ReadCommand, timeout time.Duration, done func(*Promise, error))
	// Accept proposes p to several acceptors and calls done once for each, with its place in the list. An acceptor takes
	// the proposal unless it has promised a later ballot, or any after Proposal.Previous; then done gets that ballot.
	Accept(to []ring.NodeID, trace coordinator.Trace, epoch uint64, p *Proposal, timeout time.Duration, done func(place int, refused Ballot, err error))
	// Commit applies what was decided. The error is ErrNotAccepted if p refers to what the acceptor accepted and it holds
	// something else.
	Commit(to ring.NodeID, trace coordinator.Trace, epoch uint64, p *Proposal, timeout time.Duration, done func(error))
	// Decide asks this node's acceptor, the only voter of a partition. It reads, asks decide for a proposal after the
	// latest ballot and for its mutation, and applies that, all in one step as others see it. decide must not block; a nil
	// proposal changes nothing. done gets ErrUnsettled if a proposal is in progress, and an error that is ErrInDoubt if the
	// change may be decided.
	Decide(epoch uint64, cmd *row.ReadCommand, decide func(known Known, page []byte) (*Proposal, *row.Mutation), done func(error))

	// RequestTurn asks another node, the arbiter of a partition, for the turn to change it.
	RequestTurn(to ring.NodeID, partition string, timeout time.Duration, done func(contention.Turn, error))
	// EndTurn gives a turn back to another node.
	EndTurn(to ring.NodeID, partition string, ticket uint64)
}

// ErrNotAccepted says that an acceptor does not hold the proposal that a commit refers to: it must be sent whole.
var ErrNotAccepted = errors.New("paxos: the proposal to be committed was not accepted here, or was superseded")

// ErrInDoubt says that a write of a decision failed after it began: the disk may have it.
var ErrInDoubt = errors.New("paxos: the change may be decided")

// ErrUnsettled says that a proposal is in progress that must be finished first.
var ErrUnsettled = errors.New("paxos: a proposal is in progress")
