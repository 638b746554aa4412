package paxos

import (
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
)

// Ballot numbers an attempt. Acceptors compare the time alone: of two nodes with one time a quorum
// promises to one at most, so that one timestamp never has two values.
type Ballot struct {
	Micros int64 // greater than zero; also the timestamp of what is proposed
	Node   ring.NodeID
}

// Present says whether there is a ballot.
func (b Ballot) Present() bool { return b.Micros > 0 }

// After says whether b is later than o.
func (b Ballot) After(o Ballot) bool { return b.Micros > o.Micros }

// Latest is the later of two ballots.
func (b Ballot) Latest(o Ballot) Ballot {
	if o.After(b) {
		return o
	}
	return b
}

// Proposal is a change on its way to being decided.
type Proposal struct {
	Ballot Ballot
	// Origin is the ballot it was first made under; another proposer may have taken it over.
	Origin Ballot
	// Prior is the latest ballot known to be decided when it was proposed, or the floor when that is later:
	// nothing was decided between.
	Prior Ballot
	// History is which changes were decided up to Prior.
	History History
	// Previous, when present, is what it rests on instead of promises: acceptors take it only when they
	// know of no ballot after Previous. See previous.go.
	Previous Ballot
	Table    schema.StorageID
	Key      row.PartitionKey
	// Update is the encoded row.Mutation; empty for a proposal that changes nothing and only makes
	// earlier ones void.
	Update []byte
	// Accepted says, in a commit, that Update is not sent: it is what the acceptor accepted under Ballot.
	Accepted bool
}

// Clone is a copy of p that owns its memory.
func (p Proposal) Clone() Proposal {
	p.Update = append([]byte(nil), p.Update...)
	return p
}

// RestsBefore says whether p rests on a ballot before the one that is settled.
func (p *Proposal) RestsBefore(settled Ballot) bool {
	return p.Previous.Present() && settled.After(p.Previous)
}

// Known is what an acceptor knows of a partition: its latest ballot, the latest decided one or the floor, and the history
// up to there.
type Known struct {
	Latest, Prior Ballot
	History       History
}
