package coordinator

import (
	"slices"

	"cqld/ring"
)

// voteState is where one voter stands in the present phase.
type voteState uint8

const (
	voteOpen voteState = iota
	voteYes
	voteNo     // another ballot was promised
	voteFailed // dead, silent or failed
)

// vote is one acceptor's answers in a round.
type vote struct {
	node     ring.NodeID
	state    voteState
	err      error
	failed   bool // no promise will come
	promised bool // in this round; the rest is of that promise
	accepted Proposal
	commit   Proposal
	page     []byte
}

// plan finds the voters. Too few of them alive is told before anything is sent.
func (op *casOp) plan() error {
	c := op.c
	op.topology = c.view.Topology()
	op.voters = c.electorateOf(op.topology, op.table, op.req.Command.Key.Token, op.req.Serial)
	op.votes = make([]vote, 0, len(op.voters.natural)+len(op.voters.pending))
	alive := 0
	for _, node := range slices.Concat(op.voters.natural, op.voters.pending) {
		v := vote{node: node}
		if node == c.view.Self() || c.view.Alive(node) {
			alive++
		} else {
			v.state, v.err, v.failed = voteFailed, ErrNotSent, true
		}
		op.votes = append(op.votes, v)
	}
	if op.hopeless() {
		c.counts.unavailable.Add(1)
		return &Unavailable{Consistency: op.req.Serial, Required: op.voters.required(), Alive: alive}
	}
	return nil
}

// askedLocked are the voters to be asked, this node last: it answers on the spot.
func (op *casOp) askedLocked() (asked []int) {
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

// count is how many of some voters are in a state that counts.
func (op *casOp) count(voters []ring.NodeID, in func(*vote) bool) (n int) {
	for i := range op.votes {
		if in(&op.votes[i]) && slices.Contains(voters, op.votes[i].node) {
			n++
		}
	}
	return n
}

// majority is how many of some voters decide.
func (op *casOp) majority(voters []ring.NodeID) int {
	if op.c.unsafe.PaxosQuorumOne {
		return 1
	}
	return ring.QuorumOf(len(voters))
}

// enough says whether those in a state that counts decide: among the replicas of now, and, while the
// ring changes, among those before and after.
func (op *casOp) enough(in func(*vote) bool) bool {
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

func (op *casOp) carried() bool { return op.enough(func(v *vote) bool { return v.state == voteYes }) }
func (op *casOp) hopeless() bool {
	return !op.enough(func(v *vote) bool { return v.state == voteYes || v.state == voteOpen })
}

func (op *casOp) received() int {
	return op.count(op.voters.natural, func(v *vote) bool { return v.state == voteYes })
}

// take keeps a promise.
func (v *vote) take(p *Promise) {
	v.promised = true
	v.accepted, v.commit = p.Accepted.Clone(), p.Commit.Clone()
	v.page = append([]byte{}, p.Page...)
}

// clean says whether the acceptor holds no proposal that could still be decided.
func (v *vote) clean() bool {
	return v.promised && (len(v.accepted.Update) == 0 || !v.accepted.Ballot.After(v.commit.Ballot))
}

// settled says whether no acceptor holds a proposal that could be decided behind the reader's back:
// certainly not, or not as far as is known.
func (op *casOp) settled() (certain, possible bool) {
	if op.reread || len(op.own) > 0 {
		return false, false
	}
	certain = true
	for i := range op.votes {
		v := &op.votes[i]
		if v.failed || v.promised && !v.clean() {
			return false, false
		}
		certain = certain && v.promised
	}
	return certain, true
}
