package paxos

import (
	"slices"

	"cqld/coordinator"
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

// vote contains one acceptor's answers in a round.
type vote struct {
	node      ring.NodeID
	state     voteState
	err       error
	failed    bool // no promise can be expected
	promised  bool // in this attempt; the following fields are of that promise
	unchanged bool // nothing was promised: the acceptor knows of no ballot after the previous one
	accepted  Proposal
	commit    Proposal
	floor     Ballot
	page      []byte
}

// plan determines the voters. It returns an error, before anything is sent, if too few of them are alive.
func (op *round) plan() error {
	c := op.c
	op.topology = c.view.Topology()
	op.voters = c.electorateOf(op.topology, op.table, op.cmd.Key.Token, op.serial)
	if op.alone() {
		return nil
	}
	op.votes = make([]vote, 0, len(op.voters.natural)+len(op.voters.pending))
	alive := 0
	for _, nodes := range [][]ring.NodeID{op.voters.natural, op.voters.pending} {
		for _, node := range nodes {
			v := vote{node: node}
			if node == c.view.Self() || c.view.Alive(node) {
				alive++
			} else {
				v.state, v.err, v.failed = voteFailed, coordinator.ErrNotSent, true
			}
			op.votes = append(op.votes, v)
		}
	}
	if op.hopeless() {
		c.counts.unavailable.Add(1)
		return &coordinator.Unavailable{Consistency: op.serial, Required: op.voters.required(), Alive: alive}
	}
	return nil
}

// askedLocked returns the voters to ask, this node last, because it may answer synchronously.
func (op *round) askedLocked() (asked []int) {
	asked = make([]int, 0, len(op.votes))
	own := -1
	for i := range op.votes {
		switch {
		case op.votes[i].state != voteOpen:
		case op.votes[i].node == op.c.view.Self():
			own = i
		default:
			asked = append(asked, i)
		}
	}
	if own >= 0 {
		asked = append(asked, own)
	}
	return asked
}

// count returns the number of the voters whose state satisfies in.
func (op *round) count(voters []ring.NodeID, in func(*vote) bool) (n int) {
	for i := range op.votes {
		if in(&op.votes[i]) && slices.Contains(voters, op.votes[i].node) {
			n++
		}
	}
	return n
}

// among returns how many of the nodes are voters of the set.
func (op *round) among(voters, nodes []ring.NodeID) (n int) {
	for _, node := range nodes {
		if slices.Contains(voters, node) {
			n++
		}
	}
	return n
}

// majority returns the number of the voters that decides.
func (op *round) majority(voters []ring.NodeID) int {
	switch {
	case op.c.unsafe.QuorumOne:
		return 1
	case op.serial == ring.All:
		return len(voters)
	}
	return ring.QuorumOf(len(voters))
}

// enough reports whether the voters whose state satisfies in decide: among the present replicas and, while the ring
// changes, also among those before and after the change.
func (op *round) enough(in func(*vote) bool) bool {
	if op.count(op.voters.natural, in) < op.majority(op.voters.natural) {
		return false
	}
	for _, others := range op.voters.others {
		if op.count(others, in) < op.majority(others) {
			return false
		}
	}
	return true
}

func (op *round) carried() bool { return op.enough(isYes) }
func (op *round) hopeless() bool {
	return !op.enough(func(v *vote) bool { return v.state == voteYes || v.state == voteOpen })
}

func (op *round) received() int { return op.count(op.voters.natural, isYes) }

func isYes(v *vote) bool       { return v.state == voteYes }
func isUnchanged(v *vote) bool { return v.state == voteYes && v.unchanged }
func isPromise(v *vote) bool   { return v.state == voteYes && !v.unchanged }

// take stores a promise.
func (v *vote) take(p *Promise) {
	v.promised, v.unchanged = true, p.Unchanged
	v.accepted, v.commit, v.floor = p.Accepted.Clone(), p.Commit.Clone(), p.Floor
	v.page = append([]byte{}, p.Page...)
}

// inProgress returns the proposal that may have been decided, or may still be, after everything known to be settled,
// and the latest decided one, from a quorum of promises. A proposal that rests on a previous ballot instead of promises
// is void if any later ballot was settled or proposed with promises: a majority for it would have to know neither
// (previous.go).
func (op *round) inProgress() (accepted, commit Proposal) {
	settled := Ballot{}
	for i := range op.votes {
		v := &op.votes[i]
		if v.state != voteYes {
			continue
		}
		if v.commit.Ballot.After(commit.Ballot) {
			commit = v.commit
		}
		settled = settled.Latest(v.commit.Ballot).Latest(v.accepted.Prior).Latest(v.accepted.Previous)
	}
	for i := range op.votes {
		v := &op.votes[i]
		if v.state != voteYes || !v.accepted.Ballot.After(settled) || v.accepted.RestsBefore(settled) {
			continue
		}
		promised, later := !v.accepted.Previous.Present(), v.accepted.Ballot.After(accepted.Ballot)
		switch none, better := !accepted.Ballot.Present(), promised && accepted.Previous.Present(); {
		case none, better, later && promised == !accepted.Previous.Present():
			accepted = v.accepted
		}
	}
	return accepted, commit
}

// floor returns the low bound of the quorum: decisions up to it may have been purged.
func (op *round) floor() (floor Ballot) {
	for i := range op.votes {
		if v := &op.votes[i]; v.state == voteYes {
			floor = floor.Latest(v.floor)
		}
	}
	return floor
}

// clean reports whether the acceptor holds no undecided proposal. A proposal that is void because of a decision is
// superseded nevertheless: it must not outlive that decision, which is purged.
func (v *vote) clean() bool {
	return v.promised && (len(v.accepted.Update) == 0 || !v.accepted.Ballot.After(v.commit.Ballot))
}

// settled reports whether no acceptor holds a proposal that could still be decided: certain means certainly not;
// possible means not as far as is known.
func (op *round) settled() (certain, possible bool) {
	if op.reread || slices.ContainsFunc(op.own, func(p doubtful) bool { return !p.refused }) {
		return false, false
	}
	certain = true
	for i := range op.votes {
		v := &op.votes[i]
		if v.failed || v.promised && (!v.clean() || v.unchanged != op.previous.Present()) {
			return false, false
		}
		certain = certain && v.promised
	}
	return certain, true
}
