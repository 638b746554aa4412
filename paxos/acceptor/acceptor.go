package acceptor

import (
	"errors"
	"maps"
	"sync"
	"sync/atomic"

	"cqld/coordinator"
	"cqld/paxos/ballot"
	"cqld/paxos/contention"
	"cqld/replica"
	"cqld/row"
	"cqld/schema"
)

// The acceptor's state is a row of system.paxos for each partition and table that ever had a conditional change. It is
// stored under the partition's own key and token, and therefore moves with the range. The timestamp of each cell is the
// ballot that the cell describes, so merging the states of two acceptors, in any order, gives the greater promise, the
// latest accepted proposal and the latest commit.
//
//	in_progress_ballot                        the latest ballot promised
//	proposal_ballot, proposal                 the latest accepted; deleted by a commit that contains the update
//	most_recent_commit_at, most_recent_commit the latest decided, for replicas that lack it
//
// A commit of a proposal that this acceptor has accepted leaves the update in the proposal cell and is written without
// it. A later proposal overwrites the update: its proposer has made sure that a quorum has the change.
//
// The state does not expire. State up to the table's low bound (called floor in the code) is purged by repairs
// (purge.go). From the moment it is raised, the low bound is equivalent to a promise of every acceptor for every
// partition.

// Acceptor is this node's acceptor. Its methods may be called concurrently. They return at once and call done exactly
// once, possibly before they return. The arguments of done are valid until done returns.
type Acceptor struct {
	replica *replica.Local
	view    coordinator.View

	columns stateColumns
	steps
	// forgetful holds the state in tests that do not store it; nil means that the state is stored.
	forgetful map[string]acceptorState
	// noPrevious, for tests, accepts proposals without promises unconditionally; noFloor ignores low bounds.
	noPrevious, noFloor bool
	// unsynced, for tests, responds before the state is synced.
	unsynced bool
	// generation is incremented when rows of the state are written without the partition's queue.
	generation atomic.Uint64
	writes     sync.Pool // *stateWrite
	// tables contains the tables for which this process has received Paxos requests. The map is replaced, never
	// modified.
	tables atomic.Pointer[map[schema.StorageID]bool]
}

// Unsafe switches safeguards off, for tests that show that they are needed.
type Unsafe struct {
	NoPersist bool // promises and accepted proposals are lost when the process ends
	Unsynced  bool // responses do not wait until promises and accepted proposals are synced
	// NoPrevious accepts a proposal without promises, whatever was promised or accepted after the ballot on which it
	// rests.
	NoPrevious bool
	// NoLowBound accepts proposals up to the low bound, whose state was purged.
	NoLowBound bool
}

var _ replica.PaxosState = (*Acceptor)(nil)

// New returns an acceptor that stores its state in local, and registers itself with local.
func New(local *replica.Local, view coordinator.View, unsafe Unsafe) *Acceptor {
	t := schema.Initial().Table("system", "paxos")
	id := func(name string) schema.ColumnID { return t.Column(name).ID }
	a := &Acceptor{
		replica: local, view: view, noPrevious: unsafe.NoPrevious, noFloor: unsafe.NoLowBound,
		unsynced: unsafe.Unsynced,
		columns: stateColumns{
			promised: id("in_progress_ballot"),
			accepted: id("proposal_ballot"),
			proposal: id("proposal"),
			at:       id("most_recent_commit_at"),
			decision: id("most_recent_commit"),
		},
	}
	if unsafe.NoPersist {
		a.forgetful = map[string]acceptorState{}
	}
	a.tables.Store(&map[schema.StorageID]bool{})
	local.SetPaxos(a)
	return a
}

// Select implements replica.PaxosState.
func (a *Acceptor) Select(tables []*schema.Table) func(clustering []byte) bool {
	of := make(map[string]bool, len(tables))
	for _, t := range tables {
		of[string(clusteringOf(t))] = true
	}
	return func(clustering []byte) bool { return of[string(clustering)] }
}

// Undecide implements replica.PaxosState. The latest decision becomes an accepted proposal, unless a later one was
// accepted: an acceptor that claims to have accepted what was decided changes no outcome, and the next round completes
// it again. The proposer of a later proposal has brought the decision to a quorum.
func (a *Acceptor) Undecide(r *row.Row) error {
	k := &a.columns
	s, err := k.stateOf(r)
	if err != nil {
		return err
	}
	cells := []row.Cell{ballotCell(k.promised, s.stored())}
	if p := s.accepted; !p.Ballot.Present() && len(s.commit.Update) > 0 {
		cells = append(cells, ballotCell(k.accepted, s.commit.Ballot), updateCell(k.proposal, &s.commit))
	} else if p.Ballot.Present() {
		cells = append(cells, ballotCell(k.accepted, p.Ballot), updateCell(k.proposal, &p))
	}
	if !s.stored().Present() {
		cells = nil // the state was purged
	}
	r.Cells = cells
	r.Sort()
	return nil
}

// state reads the acceptor's row.
func (a *Acceptor) state(table *schema.Table, key row.PartitionKey) (s acceptorState, err error) {
	cmd := row.ReadCommand{
		Table: schema.PaxosTable, Key: key, Slices: []row.Slice{row.ExactRow(clusteringOf(table))},
		Limits: row.Limits{Rows: 1},
	}
	page, err := a.replica.ReadPage(&cmd)
	if err != nil {
		return s, err
	}
	var p row.PageReader
	var r row.Row
	p.Reset(page)
	for p.NextPartition() {
		for p.NextRow(&r) {
			if s, err = a.columns.stateOf(&r); err != nil {
				return s, err
			}
		}
	}
	if f, ok := a.forgetful[contention.Partition(table.StorageID, key)]; ok {
		s.promised, s.accepted = f.promised, f.accepted
		s.settle()
	}
	s.floor = a.floor(table)
	return s, p.Err()
}

// floor returns the table's low bound that this node knows.
func (a *Acceptor) floor(table *schema.Table) ballot.Ballot {
	if a.noFloor {
		return ballot.Ballot{}
	}
	return ballot.Ballot{Micros: a.view.PaxosFloor(table.StorageID)}
}

// admitPaxos returns the table. It refuses requests for partitions of which this node is not a replica, and requests
// that were planned with an earlier ring. The caller has entered the gate.
func (a *Acceptor) admitPaxos(epoch uint64, id schema.StorageID, key row.PartitionKey) (*schema.Table, error) {
	if err := a.replica.AdmitToken(epoch, id, schema.PaxosTable, key.Token); err != nil {
		return nil, err
	}
	a.meet(id)
	return a.view.Schema().TableByStorage(id), nil
}

// meet records that this process has received a Paxos request for a table.
func (a *Acceptor) meet(table schema.StorageID) {
	for {
		old := a.tables.Load()
		if (*old)[table] {
			return
		}
		next := maps.Clone(*old)
		next[table] = true
		if a.tables.CompareAndSwap(old, &next) {
			return
		}
	}
}

// met reports whether meet was called for the table.
func (a *Acceptor) met(table schema.StorageID) bool { return (*a.tables.Load())[table] }

// Prepare implements Acceptor.
func (a *Acceptor) Prepare(
	epoch uint64, b, previous ballot.Ballot, cmd *row.ReadCommand, done func(*ballot.Promise, error),
) {
	// A quorum may not need this node's answer, and the caller then reuses the memory.
	a.prepare(epoch, b, previous, cmd.Clone(), true, done)
}

// prepare is Prepare with a command that it may retain. own means that it comes from this node, whose request has
// reserved the memory of the page.
func (a *Acceptor) prepare(epoch uint64, b, previous ballot.Ballot, cmd *row.ReadCommand, own bool,
	done func(*ballot.Promise, error)) {
	partition := contention.Partition(cmd.Table, cmd.Key)
	if a.enterFree(partition) {
		a.promise(partition, epoch, b, previous, cmd, own, done)
	} else if !a.enter(partition, func() { a.promise(partition, epoch, b, previous, cmd, own, done) }) {
		done(nil, &coordinator.Overloaded{What: "too many requests are queued for one partition"})
	}
}

// promise runs Prepare as a step of the partition. A worker reads.
func (a *Acceptor) promise(
	partition string, epoch uint64, b, previous ballot.Ballot, cmd *row.ReadCommand, own bool,
	done func(*ballot.Promise, error),
) {
	answer := func(p *ballot.Promise, err error) {
		a.leave(partition)
		done(p, err)
	}
	here := func() { a.promiseHere(partition, epoch, b, previous, cmd, answer) }
	if !own {
		here = func() { a.promiseGuest(partition, epoch, b, previous, cmd, answer) }
	}
	a.replica.Block(0, here, func(err error) { answer(nil, err) })
}

// promiseGuest is promiseHere for another node. The memory of a large page is reserved until answer has returned, which
// passes it to the transport. Other requests of the partition wait meanwhile, at most as long as the pool lets this
// one.
func (a *Acceptor) promiseGuest(
	partition string, epoch uint64, b, previous ballot.Ballot, cmd *row.ReadCommand,
	answer func(*ballot.Promise, error),
) {
	release, err := a.replica.ReservePage(cmd.Limits)
	if err != nil {
		answer(nil, err)
		return
	}
	a.promiseHere(partition, epoch, b, previous, cmd, func(p *ballot.Promise, err error) {
		defer release()
		answer(p, err)
	})
}

// promiseHere is promise in a goroutine that may block on the disk.
func (a *Acceptor) promiseHere(partition string, epoch uint64, b, previous ballot.Ballot, cmd *row.ReadCommand,
	answer func(*ballot.Promise, error)) {
	phase := a.replica.Enter()
	table, err := a.admitPaxos(epoch, cmd.Table, cmd.Key)
	var s acceptorState
	var generation uint64
	if err == nil {
		s, generation, err = a.known(&remembered{}, partition, table, cmd.Key, !previous.Present())
	}
	if err == nil && s.elsewhere && s.latest().After(previous) {
		s, err = a.reread(&s, generation, table, cmd.Key)
	}
	p := &ballot.Promise{Promised: s.latest(), Accepted: s.accepted, Commit: s.commit, Floor: s.floor}
	p.Refused = !b.After(p.Promised)
	if previous.Present() && !p.Promised.After(previous) && !p.Refused {
		*p = ballot.Promise{Unchanged: true}
	}
	if err == nil && !p.Refused {
		// Read after the state, so that the page contains every change that the state lists as decided.
		p.Page, err = boundPage(a.replica.ReadPage(cmd))
	}
	if err != nil || p.Refused || p.Unchanged {
		a.replica.Leave(phase)
		if err == nil {
			a.remember(partition, s, generation)
		}
		if err != nil {
			p = nil
		}
		answer(p, err)
		return
	}
	if a.forgetful != nil {
		s.promised = b
		a.forgetful[partition] = s
		a.replica.Leave(phase)
		answer(p, nil)
		return
	}
	err = a.writePromise(partition, table, cmd.Key, b, s, generation, func(err error) {
		if err != nil {
			answer(nil, err)
			return
		}
		answer(p, nil)
	})
	a.replica.Leave(phase)
	if err != nil {
		answer(nil, err)
	}
}

// writePromise stores the promise of b in the state s of a generation. It calls done unless it returns an error.
func (a *Acceptor) writePromise(
	partition string, table *schema.Table, key row.PartitionKey, b ballot.Ballot, s acceptorState, generation uint64,
	done func(error),
) error {
	s.checkPromise(b)
	w := a.writing()
	defer a.wrote(w)
	w.addBallot(a.columns.promised, b)
	return a.replica.Write(w.change(table, key), !a.unsynced, func(err error) {
		if err != nil {
			a.doubt(partition)
		} else {
			s.promised = b
			a.remember(partition, s, generation)
		}
		done(err)
	})
}

// mayAccept reports whether a proposal can be accepted: no later ballot was promised and, if the proposal rests on a
// previous ballot instead of promises, no ballot after that one was promised or accepted.
func (a *Acceptor) mayAccept(s *acceptorState, p *ballot.Proposal) bool {
	latest := s.latest()
	switch {
	case !p.Ballot.After(s.floor):
		return false
	case p.Previous.Present() && !a.noPrevious:
		return !latest.After(p.Previous)
	}
	return p.Ballot.After(latest) || p.Ballot == latest
}

// Accept implements Acceptor.
func (a *Acceptor) Accept(epoch uint64, p *ballot.Proposal, done func(ballot.Ballot, error)) {
	partition := contention.Partition(p.Table, p.Key)
	if a.enterFree(partition) {
		a.accept(partition, epoch, p, done)
	} else if !a.enter(partition, func() { a.accept(partition, epoch, p, done) }) {
		done(ballot.Ballot{}, &coordinator.Overloaded{What: "too many requests are queued for one partition"})
	}
}

// accept runs Accept as a step of the partition.
func (a *Acceptor) accept(partition string, epoch uint64, p *ballot.Proposal, done func(ballot.Ballot, error)) {
	if have := a.remembered(partition); have.ok { // needs no closures
		a.acceptOn(&have, partition, epoch, p, done)
		return
	}
	a.replica.Block(len(p.Update), func() { a.acceptOn(&remembered{}, partition, epoch, p, done) }, func(err error) {
		a.leave(partition)
		done(ballot.Ballot{}, err)
	})
}

// acceptOn is accept with the cached state, or in a worker that reads the state.
func (a *Acceptor) acceptOn(
	have *remembered, partition string, epoch uint64, p *ballot.Proposal, done func(ballot.Ballot, error),
) {
	phase := a.replica.Enter()
	table, err := a.admitPaxos(epoch, p.Table, p.Key)
	var s acceptorState
	var generation uint64
	if err == nil {
		s, generation, err = a.known(have, partition, table, p.Key, false)
	}
	if err == nil && (p.Ballot == s.accepted.Ballot || p.Ballot == s.commit.Ballot) {
		a.replica.Leave(phase)
		a.leave(partition)
		done(ballot.Ballot{}, nil) // a duplicate: the proposal was accepted, whatever was promised since
		return
	}
	if err != nil || !a.mayAccept(&s, p) {
		a.replica.Leave(phase)
		a.leave(partition)
		done(s.latest(), err)
		return
	}
	if a.forgetful != nil {
		a.forgetful[partition] = acceptorState{promised: p.Ballot, accepted: p.Clone()}
		a.replica.Leave(phase)
		a.leave(partition)
		done(ballot.Ballot{}, nil)
		return
	}
	s.checkAccept(p)
	w := a.writing()
	w.addBallot(a.columns.promised, p.Ballot)
	w.addBallot(a.columns.accepted, p.Ballot)
	w.addUpdate(a.columns.proposal, p)
	err = a.replica.Write(w.change(table, p.Key), !a.unsynced, func(err error) {
		if err != nil {
			a.doubt(partition)
		} else {
			s.promised, s.accepted = p.Ballot, *p
			a.remember(partition, s, generation)
		}
		a.leave(partition)
		done(ballot.Ballot{}, err)
	})
	a.replica.Leave(phase)
	a.wrote(w)
	if err != nil {
		a.leave(partition)
		done(ballot.Ballot{}, err)
	}
}

// failed converts the error of a state that cannot be read, or of an overload, to the form that coordinators expect.
func failed(err error) error {
	var known *coordinator.ReplicaFailure
	if err == nil || errors.As(err, &known) {
		return err
	}
	return &coordinator.ReplicaFailure{Reason: coordinator.FailureUnknown, Message: err.Error()}
}
