package acceptor

import (
	"fmt"

	"cqld/coordinator"
	"cqld/paxos/ballot"
	"cqld/paxos/contention"
	"cqld/row"
	"cqld/schema"
)

// Commit implements Acceptor.
func (a *Acceptor) Commit(epoch uint64, p *ballot.Proposal, done func(error)) {
	partition := contention.Partition(p.Table, p.Key)
	if a.enterFree(partition) {
		a.commit(partition, epoch, p, done)
	} else if !a.enter(partition, func() { a.commit(partition, epoch, p, done) }) {
		done(&coordinator.Overloaded{What: "too many requests are queued for one partition"})
	}
}

// commit runs Commit as a step of the partition.
func (a *Acceptor) commit(partition string, epoch uint64, p *ballot.Proposal, done func(error)) {
	if have := a.remembered(partition); have.ok { // needs no closures
		a.commitOn(&have, partition, epoch, p, done)
		return
	}
	a.replica.Block(len(p.Update), func() { a.commitOn(&remembered{}, partition, epoch, p, done) }, func(err error) {
		a.leave(partition)
		done(err)
	})
}

// commitOn is commit with the cached state, or in a worker that reads the state. The cached state lists a change as
// decided only after readers can find the change.
func (a *Acceptor) commitOn(have *remembered, partition string, epoch uint64, p *ballot.Proposal, done func(error)) {
	phase := a.replica.Enter()
	table, err := a.admitPaxos(epoch, p.Table, p.Key)
	var s acceptorState
	var generation uint64
	if err == nil {
		s, generation, err = a.known(have, partition, table, p.Key, false)
	}
	w := a.writing()
	var changes []*row.Mutation
	if err == nil {
		changes, err = a.committing(w, &s, table, p)
	}
	if err != nil {
		a.replica.Leave(phase)
		a.wrote(w)
		a.leave(partition)
		done(err)
		return
	}
	err = a.replica.Write(changes, true, func(err error) {
		if err != nil {
			a.doubt(partition)
			a.leave(partition)
			done(err)
			return
		}
		if p.Ballot.After(s.commit.Ballot) {
			s.commit, s.elsewhere = *p, true
			s.commit.Update, s.commit.Accepted = nil, false
		}
		a.remember(partition, s, generation)
		a.leave(partition)
		done(nil)
	})
	a.replica.Leave(phase)
	a.wrote(w)
	if err != nil {
		a.leave(partition)
		done(err)
	}
}

// committing returns the mutations of a commit at an acceptor with the state s: the change itself and the acceptor's
// row. They are in the memory of w.
func (a *Acceptor) committing(
	w *stateWrite, s *acceptorState, table *schema.Table, p *ballot.Proposal,
) ([]*row.Mutation, error) {
	w.addBallot(a.columns.at, p.Ballot)
	w.addUpdate(a.columns.decision, p)
	update := p.Update
	if p.Accepted {
		if s.accepted.Ballot != p.Ballot || s.accepted.Origin != p.Origin || len(s.accepted.Update) == 0 {
			return nil, ballot.ErrNotAccepted
		}
		update = s.accepted.Update
	} else {
		w.row.Cells = append(w.row.Cells, endCell(a.columns.accepted, p.Ballot), endCell(a.columns.proposal, p.Ballot))
	}
	if len(update) == 0 { // the table was truncated in between
		return w.change(table, p.Key), nil
	}
	if err := decodeMutation(update, &w.update); err != nil {
		return nil, err
	}
	return w.changeBoth(&w.update, table, p.Key), nil
}

// Decide implements SoleAcceptor.
func (a *Acceptor) Decide(epoch uint64, cmd *row.ReadCommand,
	decide func(known ballot.Known, page []byte) (*ballot.Proposal, *row.Mutation), done func(error)) {
	partition := contention.Partition(cmd.Table, cmd.Key)
	if !a.enter(partition, func() { a.decide(partition, epoch, cmd, decide, done) }) {
		done(&coordinator.Overloaded{What: "too many requests are queued for one partition"})
	}
}

// decide runs Decide as a step of the partition. A worker reads and commits.
func (a *Acceptor) decide(partition string, epoch uint64, cmd *row.ReadCommand,
	decide func(known ballot.Known, page []byte) (*ballot.Proposal, *row.Mutation), done func(error)) {
	answer := func(err error) {
		a.leave(partition)
		done(err)
	}
	a.replica.Block(0, func() { a.decideHere(partition, epoch, cmd, decide, answer) }, answer)
}

// decideHere is decide in a goroutine that may block on the disk.
func (a *Acceptor) decideHere(partition string, epoch uint64, cmd *row.ReadCommand,
	decide func(known ballot.Known, page []byte) (*ballot.Proposal, *row.Mutation), answer func(error)) {
	phase := a.replica.Enter()
	table, err := a.admitPaxos(epoch, cmd.Table, cmd.Key)
	var s acceptorState
	var generation uint64
	if err == nil {
		s, generation, err = a.known(&remembered{}, partition, table, cmd.Key, false)
	}
	if err == nil && len(s.accepted.Update) > 0 {
		err = ballot.ErrUnsettled
	}
	var page []byte
	if err == nil {
		page, err = boundPage(a.replica.ReadPage(cmd))
	}
	if err != nil {
		a.replica.Leave(phase)
		answer(err)
		return
	}
	p, m := decide(ballot.Known{
		Latest: s.latest(), Prior: s.commit.Ballot.Latest(s.floor), History: ballot.HistoryAfter(&s.commit, s.floor),
	}, page)
	if p == nil {
		a.replica.Leave(phase)
		answer(nil)
		return
	}
	w := a.writing()
	w.addBallot(a.columns.at, p.Ballot)
	w.addUpdate(a.columns.decision, p)
	err = a.replica.Queue(w.changeBoth(m, table, cmd.Key), func(err error) {
		if err != nil {
			a.doubt(partition)
			answer(fmt.Errorf("%w: %w", ballot.ErrInDoubt, err))
			return
		}
		s.commit, s.elsewhere = *p, false
		a.remember(partition, s, generation)
		answer(nil)
	})
	a.replica.Leave(phase)
	a.wrote(w)
	if err != nil {
		answer(err)
		return
	}
	a.replica.Commit()
}
