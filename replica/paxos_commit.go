package replica

import (
	"time"

	"cqld/coordinator"
	"cqld/row"
	"cqld/schema"
)

// Commit implements coordinator.Acceptor. It needs no turn: it only adds, and who reads the state
// before it is as if it came later.
func (l *Local) Commit(epoch uint64, p *coordinator.Proposal, _ time.Duration, done func(error)) {
	l.gate.RLock()
	defer l.gate.RUnlock()
	table, err := l.admitPaxos(epoch, p.Table, p.Key)
	if err != nil {
		done(err)
		return
	}
	r := row.NewRow()
	update := p.Update
	if p.Accepted {
		if update, err = l.accepted(table, p); err != nil {
			done(err)
			return
		}
		r.Cells = append(r.Cells, ballotCell(l.paxos.at, p.Ballot), updateCell(l.paxos.decision, p))
	} else {
		r.Cells = append(r.Cells, ballotCell(l.paxos.at, p.Ballot), updateCell(l.paxos.decision, p),
			endCell(l.paxos.accepted, p.Ballot), endCell(l.paxos.proposal, p.Ballot))
	}
	r.Sort()
	changes := make([]*row.Mutation, 0, 2)
	if len(update) > 0 { // it is gone when the table was truncated since
		m, err := decodeMutation(update)
		if err != nil {
			done(err)
			return
		}
		changes = append(changes, m)
	}
	l.engine.Apply(append(changes, l.paxos.mutation(table, p.Key, r)), true, func(err error) {
		if err != nil {
			err = fromStorage(err)
		}
		done(err)
	})
}

// accepted is the update that was accepted here under p's ballot.
func (l *Local) accepted(table *schema.Table, p *coordinator.Proposal) ([]byte, error) {
	s, err := l.state(table, p.Key)
	switch {
	case err != nil:
		return nil, err
	case s.accepted.Ballot == p.Ballot && s.accepted.Origin == p.Origin && len(s.accepted.Update) > 0:
		return s.accepted.Update, nil
	case s.commit.Ballot == p.Ballot && len(s.commit.Update) > 0: // it comes again
		return s.commit.Update, nil
	}
	return nil, coordinator.ErrNotAccepted
}

// Decide implements coordinator.SoleAcceptor.
func (l *Local) Decide(epoch uint64, cmd *row.ReadCommand,
	decide func(latest, prior coordinator.Ballot, page []byte) (*coordinator.Proposal, *row.Mutation), done func(error)) {
	line := lineOf(cmd.Table, cmd.Key)
	if !l.paxos.enter(line, func() { l.decide(line, epoch, cmd, decide, done) }) {
		done(&coordinator.Overloaded{What: "too many wait for one partition"})
	}
}

// decide is Decide when it is its turn.
func (l *Local) decide(line string, epoch uint64, cmd *row.ReadCommand,
	decide func(latest, prior coordinator.Ballot, page []byte) (*coordinator.Proposal, *row.Mutation), done func(error)) {
	answer := func(err error) {
		l.paxos.leave(line)
		done(err)
	}
	l.gate.RLock()
	table, err := l.admitPaxos(epoch, cmd.Table, cmd.Key)
	var s acceptorState
	if err == nil {
		s, err = l.state(table, cmd.Key)
	}
	if err == nil && len(s.accepted.Update) > 0 {
		err = coordinator.ErrUnsettled
	}
	var page []byte
	if err == nil {
		if page, err = l.engine.Read(nil, cmd); err != nil {
			err = fromStorage(err)
		}
	}
	if err != nil {
		l.gate.RUnlock()
		answer(err)
		return
	}
	p, m := decide(s.latest(), s.commit.Ballot, page)
	if p == nil {
		l.gate.RUnlock()
		answer(nil)
		return
	}
	r := row.NewRow()
	r.Cells = append(r.Cells, ballotCell(l.paxos.at, p.Ballot), updateCell(l.paxos.decision, p))
	r.Sort()
	l.engine.Apply([]*row.Mutation{m, l.paxos.mutation(table, cmd.Key, r)}, true, func(err error) {
		if err != nil {
			err = fromStorage(err)
		}
		answer(err)
	})
	l.gate.RUnlock()
}
