package acceptor

import (
	"cqld/internal/invariant"
	"cqld/paxos/ballot"
	"cqld/row"
	"cqld/schema"
)

// stateColumns are the columns of a state's row.
type stateColumns struct{ promised, accepted, proposal, at, decision schema.ColumnID }

// acceptorState is the content of the state's row, and the table's low bound.
type acceptorState struct {
	floor            ballot.Ballot
	promised         ballot.Ballot
	accepted, commit ballot.Proposal
	commitCell       int64 // timestamp of the cell with the update of commit
	elsewhere        bool  // the update of commit is only on disk
	generation       uint64
}

// latest returns the latest of all known ballots, including the low bound.
func (s *acceptorState) latest() ballot.Ballot { return s.stored().Latest(s.floor) }

// stored returns the latest ballot in the row.
func (s *acceptorState) stored() ballot.Ballot {
	return s.promised.Latest(s.accepted.Ballot).Latest(s.commit.Ballot)
}

// checkPromise stops the program if a promise of the ballot would move the acceptor back.
func (s *acceptorState) checkPromise(b ballot.Ballot) {
	invariant.Check(b.After(s.latest()), "paxos: an acceptor promises a ballot up to one that it knows")
}

// checkAccept stops the program if the acceptor must not accept a proposal.
func (s *acceptorState) checkAccept(p *ballot.Proposal) {
	invariant.Check(!s.latest().After(p.Ballot), "paxos: an acceptor accepts a proposal below its promise")
}

// checkNext stops the program if the next state of the partition knows only earlier ballots. Those up to its low bound
// may be missing: a commit that arrives after a purge is shadowed on disk, and may be in the cached state.
func (s *acceptorState) checkNext(next *acceptorState) {
	invariant.Check(!s.stored().After(next.latest()), "paxos: the state of an acceptor moved back")
}

// stateOf decodes a state row.
func (k *stateColumns) stateOf(r *row.Row) (s acceptorState, err error) {
	for i := range r.Cells {
		if err := k.note(&s, &r.Cells[i]); err != nil {
			return s, err
		}
	}
	s.settle()
	return s, nil
}

// settle removes the contents of cells with earlier ballots.
func (s *acceptorState) settle() {
	if s.commitCell != s.commit.Ballot.Micros {
		s.commit = ballot.Proposal{Ballot: s.commit.Ballot} // the other fields belong to an earlier commit
	}
	if s.commit.Ballot.Present() && s.accepted.Ballot == s.commit.Ballot && len(s.commit.Update) == 0 {
		s.commit = s.accepted
	}
	if s.accepted.Ballot.Present() && !s.accepted.Ballot.After(s.commit.Ballot) {
		s.accepted = ballot.Proposal{} // it or a later proposal was decided
	}
}

// note adds one cell to the state.
func (k *stateColumns) note(s *acceptorState, c *row.Cell) (err error) {
	if c.Tombstone {
		return nil
	}
	switch c.Column {
	case k.promised:
		s.promised, err = ballotOf(c)
	case k.accepted:
		s.accepted.Ballot, err = ballotOf(c)
	case k.at:
		s.commit.Ballot, err = ballotOf(c)
	case k.proposal:
		err = decodeUpdate(c.Value, &s.accepted)
	case k.decision:
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
