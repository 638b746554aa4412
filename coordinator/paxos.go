package coordinator

import (
	"errors"
	"fmt"
	"time"

	"cqld/coordinator/paxos"
	"cqld/internal/env"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
)

// Lightweight transactions: Paxos for each partition. One trip promises and reads, one accepts, and
// what was accepted by a quorum is committed as an ordinary write. What waits meanwhile goes together
// in the next round (paxos_line.go, package paxos).
//
//	   CAS ─▶ prepare + read ─▶ conditions ─▶ accept ─▶ commit ─▶ clients
//	            ▲    │ finish what is in progress,
//	            └────┘ bring what is missing
//
// The timestamps of what a ballot writes end at its time: a round of n changes has the 2n stamps up to
// it. A proposal that is finished by another keeps the timestamps it was made with: what a replica may
// have applied is never stamped anew.
//
// A proposer that settled the last ballot itself needs no promises (paxos_last.go), and one that is the
// only voter needs no votes (paxos_alone.go).

// What acceptors and proposers exchange is of package paxos.
type (
	Ballot   = paxos.Ballot
	Proposal = paxos.Proposal
	History  = paxos.History
	Known    = paxos.Known
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

// Acceptor is a replica's part in Paxos. Methods return at once and call done exactly once; what
// done is given is valid until it returns. What an acceptor has answered survives a crash.
type Acceptor interface {
	// Prepare promises to accept nothing before the ballot b, and reads. With a previous ballot it only
	// reads, when it knows of none after that.
	Prepare(epoch uint64, b, previous Ballot, cmd *row.ReadCommand, timeout time.Duration, done func(*Promise, error))
	// Accept takes the proposal unless a later ballot was promised, or any after Previous, which is then
	// told.
	Accept(epoch uint64, p *Proposal, timeout time.Duration, done func(refused Ballot, err error))
	// Commit applies what was decided; ErrNotAccepted when it does not have what p refers to.
	Commit(epoch uint64, p *Proposal, timeout time.Duration, done func(error))
}

// ErrNotAccepted says that an acceptor does not hold the proposal that a commit refers to: it must be
// sent whole.
var ErrNotAccepted = errors.New("coordinator: the proposal to be committed was not accepted here, or was superseded")

// SoleAcceptor is an Acceptor on this node, for partitions whose only voter it is.
type SoleAcceptor interface {
	// Decide reads, asks decide for a proposal after the latest ballot and for its mutation, and applies
	// that, all in one step as others see it. decide must not block; a nil proposal changes nothing. done
	// gets ErrUnsettled when a proposal is in progress.
	Decide(epoch uint64, cmd *row.ReadCommand, decide func(known Known, page []byte) (*Proposal, *row.Mutation), done func(error))
}

// ErrUnsettled says that a proposal is in progress that must be finished first.
var ErrUnsettled = errors.New("coordinator: a proposal is in progress")

// CASRequest is a conditional change of one partition.
type CASRequest struct {
	// Command reads what the condition and the answer need; it must not change until done is called.
	Command *row.ReadCommand
	// Serial is who votes: SERIAL or LOCAL_SERIAL, or ALL, of which every replica must agree. Consistency is who
	// must have the result.
	Serial, Consistency ring.Consistency
	// Contention is how long to try when others are ahead; Timeout how long to wait for replicas.
	Contention, Timeout time.Duration
	// Update is asked, with what a quorum holds and what others change first in the same round, for the
	// change to be made at the timestamp, or says that the condition does not apply. timestamp and
	// timestamp-1 are its own. It may be asked several times, must not block, and the page is valid
	// until it returns. The mutation must not change after that. An attempt that others outvote may have
	// read while their changes reached the replicas: what it shows comes to nothing.
	Update func(page []byte, timestamp int64) (m *row.Mutation, applies bool, err error)
	Trace  Trace
	// Cancel ends the waiting for others, before anything is proposed, with env.ErrCanceled; nil: nothing does.
	Cancel *env.Cancel
}

// CASUnknown says that a conditional change was accepted by Received replicas, fewer than BlockFor, and that no majority
// could be asked in time whether it was decided.
type CASUnknown struct {
	Consistency        ring.Consistency
	Received, BlockFor int
}

// Error is Cassandra's text.
func (e *CASUnknown) Error() string {
	return fmt.Sprintf("CAS operation result is unknown - proposal accepted by %d but not a quorum.", e.Received)
}

// ballot is a new ballot of this node. The span of stamps that ends with it is after seen and nobody
// else's on this node.
func (c *Coordinator) ballot(seen, span int64) Ballot {
	now := c.stamps.Next()
	for {
		last := c.lastBallot.Load()
		next := max(now, seen+span, last+span)
		if c.lastBallot.CompareAndSwap(last, next) {
			return Ballot{Micros: next, Node: c.view.Self()}
		}
	}
}

// electorate is who votes on a partition's proposals: the replicas, or at LOCAL_SERIAL those of this
// data center, and those that are becoming one.
type electorate struct {
	natural, pending []ring.NodeID
	// others must each agree by majority, too: the replicas before or after a change of the ring.
	others [][]ring.NodeID
}

func (c *Coordinator) electorateOf(t *ring.Topology, table *schema.Table, token ring.Token, serial ring.Consistency) electorate {
	set := c.replicasOf(t, table, token)
	if c.unsafe.OneSided {
		set.Others = nil
	}
	if serial != ring.LocalSerial || table.Replication.Class == ring.Local {
		return electorate{set.Natural, set.Pending, set.Others}
	}
	near := func(nodes []ring.NodeID) (out []ring.NodeID) {
		for _, id := range nodes {
			if n := t.Node(id); n != nil && n.Datacenter == c.localDC {
				out = append(out, id)
			}
		}
		return out
	}
	e := electorate{natural: near(set.Natural), pending: near(set.Pending)}
	for _, others := range set.Others {
		e.others = append(e.others, near(others))
	}
	return e
}

// required is how many of the natural voters decide.
func (e electorate) required() int { return ring.QuorumOf(len(e.natural)) }

// plainLevel is the level of ordinary requests that meets every quorum of a serial one.
func plainLevel(serial ring.Consistency) ring.Consistency {
	switch serial {
	case ring.LocalSerial:
		return ring.LocalQuorum
	case ring.All:
		return ring.All
	}
	return ring.Quorum
}
