package acceptor

import (
	"fmt"

	"cqld/coordinator"
	"cqld/paxos/ballot"
	"cqld/paxos/contention"
	"cqld/row"
	"cqld/schema"
)

// Commit applies a decided proposal to the table and to the acceptor's row, in one batch. If p.Accepted, the update is
// the one that was accepted under the same ballot, and done receives ballot.ErrNotAccepted if there is none. A commit
// is never refused because of a later promise: what a majority accepted is decided. done is called when both are
// durable. It implements Acceptors.Commit of package paxos for this node.
func (a *Acceptor) Commit(epoch uint64, p *ballot.Proposal, done func(error)) {
	partition := contention.Partition(p.Table, p.Key)
	if a.tryAcquire(partition) {
		a.commit(partition, epoch, p, done)
	} else if !a.submit(partition, func() { a.commit(partition, epoch, p, done) }) {
		done(&coordinator.Overloaded{What: "too many requests are queued for one partition"})
	}
}

// commit runs Commit as a step of the partition.
func (a *Acceptor) commit(partition string, epoch uint64, p *ballot.Proposal, done func(error)) {
	if have := a.cached(partition); have.ok { // needs no closures
		a.commitOn(&have, partition, epoch, p, done)
		return
	}
	// The step retains the update (len(p.Update) bytes) until a worker is free.
	a.replica.Block(len(p.Update), func() { a.commitOn(&cachedState{}, partition, epoch, p, done) }, func(err error) {
		a.release(partition)
		done(err)
	})
}

// commitOn is commit with the cached state, or in a worker that reads the state. The cached state lists a change as
// decided only after readers can find the change.
func (a *Acceptor) commitOn(have *cachedState, partition string, epoch uint64, p *ballot.Proposal, done func(error)) {
	phase := a.replica.Enter()
	table, err := a.admit(epoch, p.Table, p.Key)
	var s partitionState
	var generation uint64
	if err == nil {
		// The update of an earlier commit is of no use here, so the cached state suffices.
		s, generation, err = a.load(have, partition, table, p.Key, false)
	}
	// The buffers are borrowed even if the request fails, so that each exit below returns them.
	w := a.borrowWrite()
	var changes []*row.Mutation
	if err == nil {
		changes, err = a.commitMutations(w, &s, table, p)
	}
	if err != nil {
		a.replica.Leave(phase)
		a.returnWrite(w)
		a.release(partition)
		done(err)
		return
	}
	// A commit is always synced, because the next proposal may rest on this ballot instead of promises: it relies on
	// a quorum having the change.
	err = a.replica.Write(changes, true, func(err error) {
		if err != nil {
			a.evict(partition)
			a.release(partition)
			done(err)
			return
		}
		// A commit that arrives late applies its cells, which lose against later ones, but the cached state must not
		// move back.
		if p.Ballot.After(s.commit.Ballot) {
			s.commit, s.updateOnDisk = *p, true
			// The update is large and rarely read again. A proposer that must bring it to another acceptor reads it
			// from disk.
			s.commit.Update, s.commit.Accepted = nil, false
		}
		a.store(partition, s, generation)
		a.release(partition)
		done(nil)
	})
	a.replica.Leave(phase)
	a.returnWrite(w)
	if err != nil {
		a.release(partition)
		done(err)
	}
}

// commitMutations returns the mutations of a commit at an acceptor with the state s: the change itself and the
// acceptor's row. They are in the memory of w.
func (a *Acceptor) commitMutations(
	w *stateWrite, s *partitionState, table *schema.Table, p *ballot.Proposal,
) ([]*row.Mutation, error) {
	w.addBallot(a.columns.at, p.Ballot)
	w.addUpdate(a.columns.decision, p)
	update := p.Update
	if p.Accepted {
		// The commit identifies the update by ballot and origin alone, so anything else that was accepted would be
		// applied in its place.
		if s.accepted.Ballot != p.Ballot || s.accepted.Origin != p.Origin || len(s.accepted.Update) == 0 {
			return nil, ballot.ErrNotAccepted
		}
		update = s.accepted.Update
	} else {
		// The cell of the decision contains the update, so proposals up to this ballot can be deleted. Otherwise the
		// update stays in the cell of the proposal.
		w.row.Cells = append(w.row.Cells, endCell(a.columns.accepted, p.Ballot), endCell(a.columns.proposal, p.Ballot))
	}
	// ForgetTable has removed the update, because the table was truncated: the change must not return. Its ballot is
	// still recorded.
	if len(update) == 0 {
		return w.change(table, p.Key), nil
	}
	if err := decodeMutation(update, &w.update); err != nil {
		return nil, err
	}
	// One batch: readers never find the change without its ballot, nor the ballot without its change.
	return w.changeBoth(&w.update, table, p.Key), nil
}

// Decide implements Acceptors.Decide of package paxos: it reads, calls decide, and commits, as one step of the
// partition. This node is the only voter, so its durable write is the decision, without promises or votes. decide is
// called at most once, without a lock, and must not block. done receives ballot.ErrUnsettled if a proposal is in
// progress, and an error that is ballot.ErrInDoubt if the write failed after it began.
func (a *Acceptor) Decide(epoch uint64, cmd *row.ReadCommand,
	decide func(known ballot.Known, page []byte) (*ballot.Proposal, *row.Mutation), done func(error)) {
	partition := contention.Partition(cmd.Table, cmd.Key)
	if !a.submit(partition, func() { a.decide(partition, epoch, cmd, decide, done) }) {
		done(&coordinator.Overloaded{What: "too many requests are queued for one partition"})
	}
}

// decide runs Decide as a step of the partition. A worker reads and commits.
func (a *Acceptor) decide(partition string, epoch uint64, cmd *row.ReadCommand,
	decide func(known ballot.Known, page []byte) (*ballot.Proposal, *row.Mutation), done func(error)) {
	answer := func(err error) {
		a.release(partition)
		done(err)
	}
	a.replica.Block(0, func() { a.decideBlocking(partition, epoch, cmd, decide, answer) }, answer)
}

// decideBlocking is decide in a goroutine that may block on the disk.
func (a *Acceptor) decideBlocking(partition string, epoch uint64, cmd *row.ReadCommand,
	decide func(known ballot.Known, page []byte) (*ballot.Proposal, *row.Mutation), answer func(error)) {
	phase := a.replica.Enter()
	table, err := a.admit(epoch, cmd.Table, cmd.Key)
	var s partitionState
	var generation uint64
	if err == nil {
		s, generation, err = a.load(&cachedState{}, partition, table, cmd.Key, false)
	}
	if err == nil && len(s.accepted.Update) > 0 {
		// A proposal from a time with more voters may be decided among them. A round with promises must finish it
		// first.
		err = ballot.ErrUnsettled
	}
	var page []byte
	if err == nil {
		// The page is read after the state, as in a promise, so that it contains every change that the state lists as
		// decided.
		page, err = boundPage(a.replica.ReadPage(cmd))
	}
	if err != nil {
		a.replica.Leave(phase)
		answer(err)
		return
	}
	// Conditions are evaluated while the partition is held, so nothing can be decided between the read and the write.
	p, m := decide(ballot.Known{
		Latest:  s.latest(),
		Prior:   s.commit.Ballot.Latest(s.lowBound),
		History: ballot.HistoryAfter(&s.commit, s.lowBound),
	}, page)
	if p == nil {
		a.replica.Leave(phase)
		answer(nil)
		return
	}
	w := a.borrowWrite()
	// No promise and no acceptance are recorded: the ballot of the decision stands for both.
	w.addBallot(a.columns.at, p.Ballot)
	w.addUpdate(a.columns.decision, p)
	// Queue only enqueues, and Commit follows after Leave, so that Settle does not wait for the sync.
	err = a.replica.Queue(w.changeBoth(m, table, cmd.Key), func(err error) {
		if err != nil {
			a.evict(partition)
			// The batch may be on disk although its sync failed.
			answer(fmt.Errorf("%w: %w", ballot.ErrInDoubt, err))
			return
		}
		// p has no update: there is no other acceptor to which it would have to be sent.
		s.commit, s.updateOnDisk = *p, false
		a.store(partition, s, generation)
		answer(nil)
	})
	a.replica.Leave(phase)
	a.returnWrite(w)
	if err != nil {
		answer(err)
		return
	}
	// Writes and syncs what is queued, in this goroutine, which may block.
	a.replica.Commit()
}
