package ballot

import (
	"cqld/row"
	"cqld/schema"
)

// Proposal is a change that is being decided or was decided.
type Proposal struct {
	Ballot Ballot
	// Origin is the ballot of the first proposer; another proposer may have completed the proposal under Ballot.
	Origin Ballot
	// Prior is the latest ballot known to be decided when the proposal was made, or the low bound if that is later:
	// nothing was decided in between.
	Prior Ballot
	// History lists the changes that were decided up to Prior.
	History History
	// Previous, if present, is the ballot on which the proposal rests instead of promises: an acceptor accepts the
	// proposal only if it knows no ballot after Previous. See previous.go.
	Previous Ballot
	Table    schema.StorageID
	Key      row.PartitionKey
	// Update is the encoded row.Mutation. It is empty for a proposal that changes nothing and only makes earlier
	// proposals void.
	Update []byte
	// Accepted, in a commit, means that Update is not sent: the acceptor has accepted it under Ballot.
	Accepted bool
}

// Clone returns a copy of p that owns its memory.
func (p Proposal) Clone() Proposal {
	p.Update = append([]byte(nil), p.Update...)
	return p
}

// RestsBefore reports whether p rests on a ballot before the settled one.
func (p *Proposal) RestsBefore(settled Ballot) bool {
	return p.Previous.Present() && settled.After(p.Previous)
}

// Known is an acceptor's knowledge of a partition: its latest ballot, the latest decided ballot or the low bound, and
// the history up to that one.
type Known struct {
	Latest, Prior Ballot
	History       History
}
