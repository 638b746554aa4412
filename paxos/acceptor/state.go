package acceptor

import (
	"cqld/internal/invariant"
	"cqld/paxos/ballot"
	"cqld/row"
	"cqld/schema"
)

// stateColumns are the columns of a state's row.
type stateColumns struct{ promised, accepted, proposal, at, decision schema.ColumnID }

// partitionState is the content of the state's row, and the table's low bound.
type partitionState struct {
	lowBound         ballot.Ballot
	promised         ballot.Ballot
	accepted, commit ballot.Proposal
	commitCell       int64 // timestamp of the cell with the update of commit
	updateOnDisk     bool  // the update of commit is only on disk
	generation       uint64
}

// latest returns the latest of all known ballots, including the low bound.
func (s *partitionState) latest() ballot.Ballot { return s.stored().Latest(s.lowBound) }

// stored returns the latest ballot in the row.
func (s *partitionState) stored() ballot.Ballot {
	return s.promised.Latest(s.accepted.Ballot).Latest(s.commit.Ballot)
}

// checkPromise stops the program if a promise of the ballot would move the acceptor back.
func (s *partitionState) checkPromise(b ballot.Ballot) {
	// An equal ballot is excluded as well: otherwise a second proposal with the same ballot could be accepted.
	invariant.Check(b.After(s.latest()), "paxos: an acceptor promises a ballot up to one that it knows")
}

// checkAccept stops the program if the acceptor must not accept a proposal.
func (s *partitionState) checkAccept(p *ballot.Proposal) {
	// An equal ballot is allowed: the acceptor has promised it to this proposal.
	invariant.Check(!s.latest().After(p.Ballot), "paxos: an acceptor accepts a proposal below its promise")
}

// checkNext stops the program if the next state of the partition knows only earlier ballots. Those up to its low bound
// may be missing: a commit that arrives after a purge is shadowed on disk, and may be in the cached state.
func (s *partitionState) checkNext(next *partitionState) {
	invariant.Check(!s.stored().After(next.latest()), "paxos: the state of an acceptor moved back")
}

// stateOf decodes a state row.
func (k *stateColumns) stateOf(r *row.Row) (s partitionState, err error) {
	for i := range r.Cells {
		if err := k.addCell(&s, &r.Cells[i]); err != nil {
			return s, err
		}
	}
	// dropSuperseded runs after all cells are decoded: each cell has the timestamp of its ballot, so after a merge of
	// two rows the cells may belong to different ballots.
	s.dropSuperseded()
	return s, nil
}

// dropSuperseded removes the contents of cells with earlier ballots.
func (s *partitionState) dropSuperseded() {
	if s.commitCell != s.commit.Ballot.Micros {
		s.commit = ballot.Proposal{Ballot: s.commit.Ballot} // the other fields belong to an earlier commit
	}
	if s.commit.Ballot.Present() && s.accepted.Ballot == s.commit.Ballot && len(s.commit.Update) == 0 {
		// The commit named the accepted update instead of repeating it (Acceptor.commitMutations).
		s.commit = s.accepted
	}
	if s.accepted.Ballot.Present() && !s.accepted.Ballot.After(s.commit.Ballot) {
		s.accepted = ballot.Proposal{} // it or a later proposal was decided
	}
}

// addCell adds one cell to the state. The update of the cell is not copied.
func (k *stateColumns) addCell(s *partitionState, c *row.Cell) (err error) {
	// A tombstone deletes the content up to a ballot. It has no content, and storage has already removed the deleted
	// cells.
	if c.Tombstone {
		return nil
	}
	switch c.Column {
	case k.promised:
		s.promised, err = ballotOf(c)
	case k.accepted:
		// Ballot and update are two cells, so that the table shows which ballot was accepted.
		s.accepted.Ballot, err = ballotOf(c)
	case k.at:
		s.commit.Ballot, err = ballotOf(c)
	case k.proposal:
		err = decodeUpdate(c.Value, &s.accepted)
	case k.decision:
		// dropSuperseded compares this timestamp with the decision's ballot: a truncation deletes this cell and keeps
		// the cell of the ballot.
		s.commitCell = c.Timestamp
		err = decodeUpdate(c.Value, &s.commit)
	}
	return err
}

// stateMutation returns a mutation of the acceptor's row.
func stateMutation(table *schema.Table, key row.PartitionKey, r *row.Row) *row.Mutation {
	m := new(row.Mutation)
	m.Reset(schema.PaxosTable, key)
	r.Clustering = clusteringOf(table)
	m.AddRow(r)
	return m
}
