package acceptor

import (
	"slices"
	"sync"
	"time"

	"cqld/coordinator"
	"cqld/internal/wire"
	"cqld/messaging"
	"cqld/paxos/ballot"
	"cqld/replica"
	"cqld/ring"
	"cqld/row"
)

// Directory implements Acceptors: it calls this node's Acceptor, and sends messages to the acceptors of other nodes.
type Directory struct {
	self      func() ring.NodeID
	acceptor  *Acceptor
	transport messaging.Transport
	requests  sync.Pool // *[]byte
}

// NewDirectory returns the directory of the node of acceptor.
func NewDirectory(acceptor *Acceptor, transport messaging.Transport, view coordinator.View) *Directory {
	d := &Directory{self: view.Self, acceptor: acceptor, transport: transport}
	d.requests.New = func() any { return new([]byte) }
	return d
}

// to returns the transport for a request whose trace is t, which may be nil.
func (d *Directory) to(t coordinator.Trace) messaging.Transport {
	if t == nil {
		return d.transport
	}
	// The other node returns its trace events with the reply.
	return replica.TracedTransport(d.transport, t)
}

// Prepare implements Acceptors of package paxos.
func (d *Directory) Prepare(to ring.NodeID, trace coordinator.Trace, epoch uint64, b, previous ballot.Ballot,
	cmd *row.ReadCommand, timeout time.Duration, done func(*ballot.Promise, error)) {
	coordinator.AddContact(trace, to)
	if to == d.self() {
		d.acceptor.Prepare(epoch, b, previous, cmd, done)
		return
	}
	request := d.requests.Get().(*[]byte)
	// The buffer is encoded in place and returned below: Request has copied it when it returns.
	*request = appendBallot(appendBallot(wire.AppendUvarint((*request)[:0], epoch), b), previous)
	*request = row.AppendReadCommand(*request, cmd)
	d.to(trace).Request(to, messaging.VerbPaxosPrepare, *request, timeout, func(payload []byte, err error) {
		if err != nil {
			done(nil, replica.FromRemote(err))
			return
		}
		done(decodePromise(payload))
	})
	d.keep(request)
}

// Accept implements Acceptors of package paxos. A proposal may be large: it is encoded once for all other nodes.
func (d *Directory) Accept(to []ring.NodeID, trace coordinator.Trace, epoch uint64, p *ballot.Proposal,
	timeout time.Duration, done func(place int, refused ballot.Ballot, err error)) {
	var request *[]byte
	for i, node := range to {
		coordinator.AddContact(trace, node)
		if node == d.self() {
			d.acceptor.Accept(epoch, p, func(refused ballot.Ballot, err error) { done(i, refused, err) })
			continue
		}
		if request == nil {
			request = d.requests.Get().(*[]byte)
			// The buffer is grown once to the final size: doubling would copy a large update several times.
			*request = appendProposal(slices.Grow((*request)[:0], len(p.Update)+len(p.Key.Bytes)+proposalRest), epoch,
				p)
		}
		d.to(trace).Request(node, messaging.VerbPaxosAccept, *request, timeout, func(payload []byte, err error) {
			// An empty reply is an acceptance.
			if err != nil || len(payload) == 0 {
				done(i, ballot.Ballot{}, replica.FromRemote(err))
				return
			}
			c := wire.NewCursor(payload)
			refused := consumeBallot(&c)
			done(i, refused, c.Finish())
		})
	}
	if request != nil {
		d.keep(request)
	}
}

// keep returns the buffer of a request that was sent: a transport does not retain the payload.
func (d *Directory) keep(request *[]byte) {
	// A larger buffer would keep its memory for requests of a few bytes.
	if cap(*request) <= proposalKept {
		d.requests.Put(request)
	}
}

// proposalKept is the size of the largest encoded proposal whose buffer is reused: a round (1 MiB and the last of its
// changes), in a buffer that grew by doubling.
const proposalKept = 2 << 20

// proposalRest is the size of a proposal's ballots, table and token, with a history of a few coordinators.
const proposalRest = 128

// Commit implements Acceptors of package paxos.
func (d *Directory) Commit(to ring.NodeID, trace coordinator.Trace, epoch uint64, p *ballot.Proposal,
	timeout time.Duration, done func(error)) {
	coordinator.AddContact(trace, to)
	if to == d.self() {
		d.acceptor.Commit(epoch, p, done)
		return
	}
	accepted := byte(0)
	if p.Accepted {
		accepted = 1
	}
	request := d.requests.Get().(*[]byte)
	*request = append(slices.Grow((*request)[:0], len(p.Update)+len(p.Key.Bytes)+proposalRest), accepted)
	*request = appendProposal(*request, epoch, p)
	d.to(trace).Request(to, messaging.VerbPaxosCommit, *request, timeout, func(payload []byte, err error) {
		// The only content of a reply: the proposal to which the commit refers was not accepted there.
		if err == nil && len(payload) > 0 {
			done(ballot.ErrNotAccepted)
			return
		}
		done(replica.FromRemote(err))
	})
	d.keep(request)
}

// Decide implements Acceptors of package paxos.
func (d *Directory) Decide(epoch uint64, cmd *row.ReadCommand,
	decide func(known ballot.Known, page []byte) (*ballot.Proposal, *row.Mutation), done func(error)) {
	d.acceptor.Decide(epoch, cmd, decide, done)
}
