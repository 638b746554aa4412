package paxos

import (
	"errors"
	"slices"
	"time"

	"cqld/coordinator"
	"cqld/paxos/ballot"
	"cqld/ring"
)

// decision is a commit of a decided proposal. Replicas in accepted have the proposal, or have been sent it, and
// therefore receive only its ballot.
type decision struct {
	acceptors Acceptors
	trace     coordinator.Trace
	proposal  *ballot.Proposal
	accepted  []ring.NodeID
	short     ballot.Proposal // proposal without its update
}

// Send implements coordinator.Sender.
func (d *decision) Send(node ring.NodeID, epoch uint64, timeout time.Duration, done func(error)) {
	if !slices.Contains(d.accepted, node) {
		// The node never received the proposal, or a later proposal has overwritten the update.
		d.acceptors.Commit(node, d.trace, epoch, d.proposal, timeout, done)
		return
	}
	// The update is not sent twice to a node: most commits are as short as a ballot.
	d.acceptors.Commit(node, d.trace, epoch, &d.short, timeout, func(err error) {
		if errors.Is(err, ballot.ErrNotAccepted) {
			d.acceptors.Commit(node, d.trace, epoch, d.proposal, timeout, done)
			return
		}
		done(err)
	})
}
