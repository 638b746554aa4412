package replica

import (
	"time"

	"cqld/coordinator"
	"cqld/coordinator/paxos"
	"cqld/coordinator/turn"
	"cqld/row"
	"cqld/schema"
)

// Commit implements coordinator.Acceptor.
func (l *Local) Commit(epoch uint64, p *coordinator.Proposal, _ time.Duration, done func(error)) {
	line := turn.Line(p.Table, p.Key)
	if !l.paxos.enter(line, func() { l.commit(line, epoch, p, done) }) {
		done(&coordinator.Overloaded{What: "too many wait for one partition"})
	}
}

// commit is Commit when it is its turn.
func (l *Local) commit(line string, epoch uint64, p *coordinator.Proposal, done func(error)) {
	answer := func(err error) {
		l.paxos.leave(line)
		done(err)
	}
	l.withState(line, len(p.Update), func(have remembered) { l.commitOn(&have, line, epoch, p, answer) }, answer)
}

// commitOn is commit with the state, or where it may be read. The state is not known to say that something is decided
// before a reader finds it.
func (l *Local) commitOn(have *remembered, line string, epoch uint64, p *coordinator.Proposal, answer func(error)) {
	phase := l.gate.enter()
	table, err := l.admitPaxos(epoch, p.Table, p.Key)
	var s acceptorState
	var generation uint64
	if err == nil {
		s, generation, err = l.known(have, line, table, p.Key, false)
	}
	var changes []*row.Mutation
	if err == nil {
		changes, err = l.committing(&s, table, p)
	}
	if err != nil {
		l.gate.leave(phase)
		answer(err)
		return
	}
	err = l.write(changes, true, func(err error) {
		if err != nil {
			l.paxos.doubt(line)
			answer(err)
			return
		}
		if p.Ballot.After(s.commit.Ballot) {
			s.commit, s.elsewhere = *p, true
			s.commit.Update, s.commit.Accepted = nil, false
		}
		l.paxos.remember(line, s, generation)
		answer(nil)
	})
	l.gate.leave(phase)
	if err != nil {
		answer(err)
	}
}

// committing is what a commit changes at an acceptor in a state: the rows, and its own.
func (l *Local) committing(s *acceptorState, table *schema.Table, p *coordinator.Proposal) (changes []*row.Mutation, err error) {
	r := row.NewRow()
	r.Cells = append(r.Cells, ballotCell(l.paxos.at, p.Ballot), updateCell(l.paxos.decision, p))
	update := p.Update
	if p.Accepted {
		if s.accepted.Ballot != p.Ballot || s.accepted.Origin != p.Origin || len(s.accepted.Update) == 0 {
			return nil, coordinator.ErrNotAccepted
		}
		update = s.accepted.Update
	} else {
		r.Cells = append(r.Cells, endCell(l.paxos.accepted, p.Ballot), endCell(l.paxos.proposal, p.Ballot))
	}
	r.Sort()
	changes = make([]*row.Mutation, 0, 2)
	if len(update) > 0 { // it is gone when the table was truncated since
		m, err := decodeMutation(update)
		if err != nil {
			return nil, err
		}
		changes = append(changes, m)
	}
	return append(changes, l.paxos.mutation(table, p.Key, r)), nil
}

// Decide implements coordinator.SoleAcceptor.
func (l *Local) Decide(epoch uint64, cmd *row.ReadCommand,
	decide func(known coordinator.Known, page []byte) (*coordinator.Proposal, *row.Mutation), done func(error)) {
	line := turn.Line(cmd.Table, cmd.Key)
	if !l.paxos.enter(line, func() { l.decide(line, epoch, cmd, decide, done) }) {
		done(&coordinator.Overloaded{What: "too many wait for one partition"})
	}
}

// decide is Decide when it is its turn. A worker reads and commits.
func (l *Local) decide(line string, epoch uint64, cmd *row.ReadCommand,
	decide func(known coordinator.Known, page []byte) (*coordinator.Proposal, *row.Mutation), done func(error)) {
	answer := func(err error) {
		l.paxos.leave(line)
		done(err)
	}
	l.block(0, func() { l.decideHere(line, epoch, cmd, decide, answer) }, answer)
}

// decideHere is decide in a goroutine that may wait for the disk.
func (l *Local) decideHere(line string, epoch uint64, cmd *row.ReadCommand,
	decide func(known coordinator.Known, page []byte) (*coordinator.Proposal, *row.Mutation), answer func(error)) {
	phase := l.gate.enter()
	table, err := l.admitPaxos(epoch, cmd.Table, cmd.Key)
	var s acceptorState
	var generation uint64
	if err == nil {
		s, generation, err = l.known(&remembered{}, line, table, cmd.Key, false)
	}
	if err == nil && len(s.accepted.Update) > 0 {
		err = coordinator.ErrUnsettled
	}
	var page []byte
	if err == nil {
		if page, err = l.engine.Read(nil, cmd); err != nil {
			err = FromStorage(err)
		}
	}
	if err != nil {
		l.gate.leave(phase)
		answer(err)
		return
	}
	p, m := decide(coordinator.Known{
		Latest: s.latest(), Prior: s.commit.Ballot.Latest(s.floor), History: paxos.HistoryAfter(&s.commit, s.floor),
	}, page)
	if p == nil {
		l.gate.leave(phase)
		answer(nil)
		return
	}
	r := row.NewRow()
	r.Cells = append(r.Cells, ballotCell(l.paxos.at, p.Ballot), updateCell(l.paxos.decision, p))
	r.Sort()
	waits, ok := l.engine.(callerCommits)
	apply := l.engine.Apply
	if ok {
		apply = waits.Queue
	}
	err = apply([]*row.Mutation{m, l.paxos.mutation(table, cmd.Key, r)}, true, func(err error) {
		if err != nil {
			l.paxos.doubt(line)
			answer(FromStorage(err))
			return
		}
		s.commit, s.elsewhere = *p, false
		l.paxos.remember(line, s, generation)
		answer(nil)
	})
	l.gate.leave(phase)
	switch {
	case err != nil:
		answer(FromStorage(err))
	case ok:
		waits.Commit()
	}
}

// callerCommits is an Engine that can commit in the goroutine of a caller that has nothing else to do.
type callerCommits interface {
	// Queue is Apply, followed by Commit.
	Queue(mutations []*row.Mutation, durable bool, done func(error)) error
	Commit()
}
