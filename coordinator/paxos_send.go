package coordinator

import (
	"slices"
	"time"

	"cqld/ring"
)

// EncodedAcceptor is an Acceptor that sends bytes: a proposal, which may be large, is encoded once for all of
// them. A request's bytes are not kept after the call.
type EncodedAcceptor interface {
	AppendProposal(dst []byte, epoch uint64, p *Proposal) []byte
	AcceptEncoded(request []byte, timeout time.Duration, done func(refused Ballot, err error))
}

// propose asks nodes to accept p; answered is told by place.
func (op *casRound) propose(nodes []ring.NodeID, epoch uint64, p *Proposal, timeout time.Duration, answered func(place int, refused Ballot, err error)) {
	var request *[]byte
	for i, node := range nodes {
		op.traceNode("Proposing to", node)
		done := func(refused Ballot, err error) { answered(i, refused, err) }
		acceptor := op.c.replica(node, op.tracer())
		remote, ok := acceptor.(EncodedAcceptor)
		if !ok {
			acceptor.Accept(epoch, p, timeout, done)
			continue
		}
		if request == nil {
			request = op.c.proposals.Get().(*[]byte)
			*request = remote.AppendProposal(slices.Grow((*request)[:0], len(p.Update)+len(p.Key.Bytes)+proposalRest), epoch, p)
		}
		remote.AcceptEncoded(*request, timeout, done)
	}
	if request != nil && cap(*request) <= proposalKept {
		op.c.proposals.Put(request)
	}
}

// proposalKept is the largest encoded proposal whose memory is kept: a round (1 MiB and the last of its
// changes), in a buffer that grew by doubling.
const proposalKept = 2 << 20

// proposalRest is what the ballots of a proposal, its table and its token take, with a history of a few coordinators.
const proposalRest = 128
