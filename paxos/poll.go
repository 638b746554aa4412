package paxos

import (
	"bytes"
	"errors"
	"slices"

	"cqld/coordinator"
	"cqld/paxos/ballot"
	"cqld/ring"
)

// voteState is the state of one voter in the present phase.
type voteState uint8

const (
	voteOpen voteState = iota
	voteYes
	voteNo     // another ballot was promised
	voteFailed // down, did not answer, or failed
)

// vote contains one acceptor's answers in an attempt.
type vote struct {
	node      ring.NodeID
	state     voteState
	err       error
	failed    bool // no promise can be expected
	promised  bool // in this attempt; the following fields are of that promise
	unchanged bool // nothing was promised: the acceptor knows of no ballot after the previous one
	accepted  ballot.Proposal
	commit    ballot.Proposal
	lowBound  ballot.Ballot
	page      []byte
}

// poll contains the votes of the present phase.
type poll struct {
	voters electorate
	votes  []vote // of the natural replicas, then of the pending ones
	all    bool   // every voter must agree
	view   coordinator.View
}

// reset begins an attempt among voters, without votes.
func (p *poll) reset(voters electorate, all bool, c *Proposer) {
	// The votes are opened by invite, when the plan needs any.
	*p = poll{voters: voters, all: all, view: c.view}
}

// invite opens the votes of the voters that are alive, and returns their number.
func (p *poll) invite() (alive int) {
	p.votes = make([]vote, 0, len(p.voters.natural)+len(p.voters.pending))
	for _, nodes := range [...][]ring.NodeID{p.voters.natural, p.voters.pending} {
		for _, node := range nodes {
			v := vote{node: node}
			if p.reachable(node) {
				alive++
			} else {
				// No request is sent to this voter; a majority must form without it.
				v.state, v.err, v.failed = voteFailed, coordinator.ErrNotSent, true
			}
			p.votes = append(p.votes, v)
		}
	}
	return alive
}

// reachable reports whether a request to a node may succeed: this node always answers itself.
func (p *poll) reachable(node ring.NodeID) bool { return node == p.view.Self() || p.view.Alive(node) }

// isNatural reports whether a node is a natural voter.
func (p *poll) isNatural(node ring.NodeID) bool { return slices.Contains(p.voters.natural, node) }

// reopen begins the votes of the next phase.
func (p *poll) reopen() {
	for i := range p.votes {
		v := &p.votes[i]
		v.state = voteOpen
		// The voter may have died since its promise, which stays in the other fields.
		if !p.reachable(v.node) {
			v.state, v.err = voteFailed, coordinator.ErrNotSent
		}
	}
}

// of returns the vote of a node; nil if it is no voter.
func (p *poll) of(node ring.NodeID) *vote {
	for i := range p.votes {
		if p.votes[i].node == node {
			return &p.votes[i]
		}
	}
	return nil
}

// open returns the nodes whose votes are open, this node last, because it may answer synchronously.
func (p *poll) open() []ring.NodeID {
	nodes := make([]ring.NodeID, 0, len(p.votes))
	own := false
	for i := range p.votes {
		switch v := &p.votes[i]; {
		case v.state != voteOpen:
		case v.node == p.view.Self():
			// This node's acceptor may answer before the request returns; the other requests should have been sent by
			// then.
			own = true
		default:
			nodes = append(nodes, v.node)
		}
	}
	if own {
		nodes = append(nodes, p.view.Self())
	}
	return nodes
}

// count returns the number of the voters whose state satisfies in.
func (p *poll) count(voters []ring.NodeID, in func(*vote) bool) (n int) {
	for i := range p.votes {
		// A node may be natural in one ring and pending in another.
		if in(&p.votes[i]) && slices.Contains(voters, p.votes[i].node) {
			n++
		}
	}
	return n
}

// majority returns the number of the voters that decides.
func (p *poll) majority(voters []ring.NodeID) int {
	switch {
	case p.all:
		return len(voters)
	}
	return ring.QuorumOf(len(voters))
}

// enough reports whether the voters whose state satisfies in decide: among the present replicas and, while the ring
// changes, also among those before and after the change.
func (p *poll) enough(in func(*vote) bool) bool {
	if p.count(p.voters.natural, in) < p.majority(p.voters.natural) {
		return false
	}
	// Majorities of consecutive rings then overlap, so that no proposal is decided by one and unseen by the other.
	for _, others := range p.voters.others {
		if p.count(others, in) < p.majority(others) {
			return false
		}
	}
	return true
}

// hasQuorum reports whether enough voters agree in the present phase.
func (p *poll) hasQuorum() bool { return p.enough(isYes) }

// hopeless reports whether too few voters agree or may still agree.
func (p *poll) hopeless() bool {
	return !p.enough(func(v *vote) bool { return v.state == voteYes || v.state == voteOpen })
}

// received returns the number of natural voters that agreed in the present phase.
func (p *poll) received() int { return p.count(p.voters.natural, isYes) }

func isYes(v *vote) bool       { return v.state == voteYes }
func isUnchanged(v *vote) bool { return v.state == voteYes && v.unchanged }
func isPromise(v *vote) bool   { return v.state == voteYes && !v.unchanged }

// record stores a promise. It copies what is valid only until the answer's callback returns.
func (v *vote) record(p *ballot.Promise) {
	v.promised, v.unchanged = true, p.Unchanged
	v.accepted, v.commit, v.lowBound = p.Accepted.Clone(), p.Commit.Clone(), p.LowBound
	// Not nil, even if it is empty: page takes nil for none.
	v.page = append([]byte{}, p.Page...)
}

// inProgress returns the proposal that may have been decided, or may still be, after everything known to be settled,
// and the latest decided one, from a quorum of promises. A proposal that rests on a previous ballot instead of promises
// is void if any later ballot was settled or proposed with promises: a majority for it would have to know neither
// (previous.go).
func (p *poll) inProgress() (accepted, commit ballot.Proposal) {
	settled := ballot.Ballot{}
	for i := range p.votes {
		v := &p.votes[i]
		if v.state != voteYes {
			continue
		}
		if v.commit.Ballot.After(commit.Ballot) {
			commit = v.commit
		}
		// A proposal names the decided ballot before it and the one on which it rests: both are settled, even if this
		// majority has no commit of them.
		settled = settled.Latest(v.commit.Ballot).Latest(v.accepted.Prior).Latest(v.accepted.Previous)
	}
	for i := range p.votes {
		v := &p.votes[i]
		// This vote holds no proposal, or its proposal is void or superseded.
		if v.state != voteYes || !v.accepted.Ballot.After(settled) || v.accepted.RestsBefore(settled) {
			continue
		}
		// With promises before without, then the later one: statement 3a in previous.go.
		promised, later := !v.accepted.Previous.Present(), v.accepted.Ballot.After(accepted.Ballot)
		switch none, better := !accepted.Ballot.Present(), promised && accepted.Previous.Present(); {
		case none, better, later && promised == !accepted.Previous.Present():
			accepted = v.accepted
		}
	}
	return accepted, commit
}

// lowBound returns the low bound of the quorum: decisions up to it may have been purged.
func (p *poll) lowBound() (lowBound ballot.Ballot) {
	for i := range p.votes {
		if v := &p.votes[i]; v.state == voteYes {
			// The highest bound counts: if one acceptor has purged its state, a decision may be missing.
			lowBound = lowBound.Latest(v.lowBound)
		}
	}
	return lowBound
}

// clean reports whether the acceptor holds no undecided proposal. A proposal that a decision has made void does not
// count as clean: an empty proposal must supersede it, because it must not outlive the decision, which is purged.
func (v *vote) clean() bool {
	return v.promised && (len(v.accepted.Update) == 0 || !v.accepted.Ballot.After(v.commit.Ballot))
}

// settled reports whether no acceptor holds a proposal that could still be decided: certain means that this is known
// of all acceptors; possible means that no answer so far contradicts it. rests means that the attempt rests on a
// previous ballot.
func (p *poll) settled(rests bool) (certain, possible bool) {
	certain = true
	for i := range p.votes {
		v := &p.votes[i]
		// The acceptor failed, or its answer shows a proposal: waiting for more answers does not help.
		if v.failed || v.promised && (!v.clean() || v.unchanged != rests) {
			return false, false
		}
		// Not answered yet.
		certain = certain && v.promised
	}
	return certain, true
}

// responses returns the number of natural voters that answered the present phase, with a vote of either kind.
func (p *poll) responses() int {
	return p.count(p.voters.natural, func(v *vote) bool { return v.state == voteYes || v.state == voteNo })
}

// maybeAccepted reports whether any voter has accepted, or may have accepted, the proposal.
func (p *poll) maybeAccepted() bool {
	for i := range p.votes {
		switch v := &p.votes[i]; {
		case v.state == voteYes, v.state == voteOpen:
			return true
		// After a time-out or a broken connection, the acceptor may have accepted the proposal.
		case v.state == voteFailed && !errors.Is(v.err, coordinator.ErrNotSent):
			return true
		}
	}
	return false
}

// laggingOf returns the nodes that have promised and do not have the commit of the ballot, and how many of them are
// natural voters.
func (p *poll) laggingOf(commit ballot.Ballot) (nodes []ring.NodeID, natural int) {
	for i := range p.votes {
		if v := &p.votes[i]; v.state == voteYes && commit.After(v.commit.Ballot) {
			nodes = append(nodes, v.node)
			if p.isNatural(v.node) {
				// Only natural voters count in errors, as in the required number.
				natural++
			}
		}
	}
	return nodes, natural
}

// page returns the page that all promises contain; equal is false if they contain different ones.
func (p *poll) page() (page []byte, equal bool) {
	equal = true
	for i := range p.votes {
		if v := &p.votes[i]; v.state == voteYes {
			if page == nil {
				page = v.page
			}
			// Equal rows with different encodings only cost one additional read.
			equal = equal && bytes.Equal(page, v.page)
		}
	}
	return page, equal
}
