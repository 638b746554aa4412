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
// The state does not expire. State up to the table's low bound is purged by repairs
// (purge.go). From the moment it is raised, the low bound is equivalent to a promise of every acceptor for every
// partition.

// Acceptor is this node's acceptor. Its methods may be called concurrently. They return at once and call done exactly
// once, possibly before they return. The arguments of done are valid until done returns.
type Acceptor struct {
	replica *replica.Local
	view    coordinator.View

	columns stateColumns
	steps
	// generation is incremented when rows of the state are written without the partition's queue.
	generation atomic.Uint64
	writes     sync.Pool // *stateWrite
	// tables contains the tables for which this process has received Paxos requests. The map is replaced, never
	// modified.
	tables atomic.Pointer[map[schema.StorageID]bool]
}

var _ replica.PaxosState = (*Acceptor)(nil)

// New returns an acceptor that stores its state in local, and registers itself with local.
func New(local *replica.Local, view coordinator.View) *Acceptor {
	t := schema.Initial().Table("system", "paxos")
	id := func(name string) schema.ColumnID { return t.Column(name).ID }
	a := &Acceptor{
		replica: local, view: view,
		columns: stateColumns{
			promised: id("in_progress_ballot"),
			accepted: id("proposal_ballot"),
			proposal: id("proposal"),
			at:       id("most_recent_commit_at"),
			decision: id("most_recent_commit"),
		},
	}
	// Readers load the map without a lock, so it must never be nil.
	a.tables.Store(&map[schema.StorageID]bool{})
	// Streams and truncations change rows of the state beside the acceptor; the replica notifies it through this
	// interface.
	local.SetPaxos(a)
	return a
}

// Select implements replica.PaxosState.
func (a *Acceptor) Select(tables []*schema.Table) func(clustering []byte) bool {
	of := make(map[string]bool, len(tables))
	for _, t := range tables {
		// A state row's clustering is the identifier of its table; the rows of all tables with the same key share a
		// partition.
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
	// The cells of the proposal can store one proposal, so the decision moves there only if no later proposal was
	// accepted.
	if p := s.accepted; !p.Ballot.Present() && len(s.commit.Update) > 0 {
		cells = append(cells, ballotCell(k.accepted, s.commit.Ballot), updateCell(k.proposal, &s.commit))
	} else if p.Ballot.Present() {
		cells = append(cells, ballotCell(k.accepted, p.Ballot), updateCell(k.proposal, &p))
	}
	if !s.stored().Present() {
		// Without a ballot, the row would say that something was promised at time zero.
		cells = nil // the state was purged
	}
	r.Cells = cells
	// Rows are encoded with their cells in the order of the columns.
	r.Sort()
	return nil
}

// state reads the acceptor's row.
func (a *Acceptor) state(table *schema.Table, key row.PartitionKey) (s partitionState, err error) {
	// A partition has one row of state in each table, so the read names the table by the clustering and returns one row
	// at most.
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
	// No row means that the partition had no conditional change since its state was purged: the zero state.
	for p.NextPartition() {
		for p.NextRow(&r) {
			if s, err = a.columns.stateOf(&r); err != nil {
				return s, err
			}
		}
	}
	// The low bound is not stored in the row: it rises for all partitions of the table at once, when this node
	// applies the metadata.
	s.lowBound = a.lowBound(table)
	return s, p.Err()
}

// lowBound returns the table's low bound that this node knows; the zero ballot means none.
func (a *Acceptor) lowBound(table *schema.Table) ballot.Ballot {
	return ballot.Ballot{Micros: a.view.PaxosFloor(table.StorageID)}
}

// admit returns the table. It refuses requests for partitions that this node does not replicate, and requests that
// were planned with an earlier ring, with coordinator.NotReplica: majorities of different rings need not overlap. The
// caller is between replica.Enter and replica.Leave, so that a change of the ring waits for it.
func (a *Acceptor) admit(epoch uint64, id schema.StorageID, key row.PartitionKey) (*schema.Table, error) {
	if err := a.replica.AdmitToken(epoch, id, schema.PaxosTable, key.Token); err != nil {
		return nil, err
	}
	// The table is recorded before its state is written: a repair that asks afterwards must learn that the table has
	// state.
	a.recordTable(id)
	return a.view.Schema().TableByStorage(id), nil
}

// recordTable records that this process has received a Paxos request for a table.
func (a *Acceptor) recordTable(table schema.StorageID) {
	for {
		old := a.tables.Load()
		if (*old)[table] {
			return
		}
		// The map is copied for each new table, which is rare; in return, the lookup of each request needs no lock.
		next := maps.Clone(*old)
		next[table] = true
		// The swap fails if another request has added a table meanwhile, which the copy lacks.
		if a.tables.CompareAndSwap(old, &next) {
			return
		}
	}
}

// hasReceived reports whether this process has received a Paxos request for the table.
func (a *Acceptor) hasReceived(table schema.StorageID) bool { return (*a.tables.Load())[table] }

// Prepare promises to accept nothing before the ballot b, unless a later one was promised, and reads cmd after that.
// With a previous ballot it only reads, provided that nothing after the previous one was promised, accepted or decided
// (Promise.Unchanged); otherwise it promises. It implements Acceptors.Prepare of package paxos for this node: done
// receives the promise when it is durable, and coordinator.Overloaded if too many requests of the partition wait. The
// command is copied.
func (a *Acceptor) Prepare(
	epoch uint64, b, previous ballot.Ballot, cmd *row.ReadCommand, done func(*ballot.Promise, error),
) {
	// A quorum may not need this node's answer, and the caller then reuses the memory.
	a.prepare(epoch, b, previous, cmd.Clone(), true, done)
}

// prepare is Prepare with a command that it may retain. own means that the request comes from this node, whose client
// request has reserved memory for the page.
func (a *Acceptor) prepare(epoch uint64, b, previous ballot.Ballot, cmd *row.ReadCommand, own bool,
	done func(*ballot.Promise, error)) {
	partition := contention.Partition(cmd.Table, cmd.Key)
	// The common case, without contention, allocates no closure for the queue.
	if a.tryAcquire(partition) {
		a.promise(partition, epoch, b, previous, cmd, own, done)
	} else if !a.submit(partition, func() { a.promise(partition, epoch, b, previous, cmd, own, done) }) {
		done(nil, &coordinator.Overloaded{What: "too many requests are queued for one partition"})
	}
}

// promise runs Prepare as a step of the partition. A worker reads.
func (a *Acceptor) promise(
	partition string, epoch uint64, b, previous ballot.Ballot, cmd *row.ReadCommand, own bool,
	done func(*ballot.Promise, error),
) {
	// The partition is released first: the answer may send the next request of the same proposer in this goroutine,
	// which would otherwise be queued until this step has ended.
	answer := func(p *ballot.Promise, err error) {
		a.release(partition)
		done(p, err)
	}
	here := func() { a.promiseBlocking(partition, epoch, b, previous, cmd, answer) }
	if !own {
		here = func() { a.promiseRemote(partition, epoch, b, previous, cmd, answer) }
	}
	// The page is read from storage in any case, so this step always needs a worker, even if the state is cached.
	a.replica.Block(0, here, func(err error) { answer(nil, err) })
}

// promiseRemote is promiseBlocking for another node. The memory of a large page is reserved until answer has returned,
// which passes it to the transport. Other requests of the partition wait meanwhile, at most as long as the pool lets
// this one.
func (a *Acceptor) promiseRemote(
	partition string, epoch uint64, b, previous ballot.Ballot, cmd *row.ReadCommand,
	answer func(*ballot.Promise, error),
) {
	// A request from this node is part of a client's request, which has reserved memory for the page. For a request
	// from another node, this node reserves it.
	release, err := a.replica.ReservePage(cmd.Limits)
	if err != nil {
		answer(nil, err)
		return
	}
	a.promiseBlocking(partition, epoch, b, previous, cmd, func(p *ballot.Promise, err error) {
		// The transport has copied the page when answer returns.
		defer release()
		answer(p, err)
	})
}

// promiseBlocking is promise in a goroutine that may block on the disk.
func (a *Acceptor) promiseBlocking(partition string, epoch uint64, b, previous ballot.Ballot, cmd *row.ReadCommand,
	answer func(*ballot.Promise, error)) {
	// Settle waits until Leave: writes that were admitted with the current ring reach storage before a stream reads
	// the range.
	phase := a.replica.Enter()
	table, err := a.admit(epoch, cmd.Table, cmd.Key)
	var s partitionState
	var generation uint64
	if err == nil {
		// An answer without a previous ballot contains the decided update, which the cache does not keep.
		s, generation, err = a.load(&cachedState{}, partition, table, cmd.Key, !previous.Present())
	}
	// The request named a previous ballot, but something happened after it: the answer is a full promise after all,
	// with the decided update.
	if err == nil && s.updateOnDisk && s.latest().After(previous) {
		s, err = a.reread(&s, generation, table, cmd.Key)
	}
	// The answer contains the state before the promise, from which the proposer determines which proposal is in
	// progress.
	p := &ballot.Promise{Promised: s.latest(), Accepted: s.accepted, Commit: s.commit, LowBound: s.lowBound}
	p.Refused = !b.After(p.Promised)
	// Nothing happened after the proposer's own last ballot: it needs no promise, and the proposal will name that
	// ballot. This saves the write.
	if previous.Present() && !p.Promised.After(previous) && !p.Refused {
		*p = ballot.Promise{Unchanged: true}
	}
	if err == nil && !p.Refused {
		// Read after the state, so that the page contains every change that the state lists as decided.
		p.Page, err = boundPage(a.replica.ReadPage(cmd))
	}
	// These answers change no state, so nothing is written.
	if err != nil || p.Refused || p.Unchanged {
		a.replica.Leave(phase)
		if err == nil {
			// The state was read, perhaps from disk. The next request of the partition is probably the proposal.
			a.store(partition, s, generation)
		}
		if err != nil {
			p = nil
		}
		answer(p, err)
		return
	}
	// The engine has the write when Write returns, and Settle waits for no more than that. The sync may take longer.
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
	partition string, table *schema.Table, key row.PartitionKey, b ballot.Ballot, s partitionState, generation uint64,
	done func(error),
) error {
	// A promise that moves back would let two proposers count this acceptor in overlapping ballots.
	s.checkPromise(b)
	w := a.borrowWrite()
	defer a.returnWrite(w)
	w.addBallot(a.columns.promised, b)
	return a.replica.Write(w.change(table, key), true, func(err error) {
		if err != nil {
			// The write may be on disk or not. The state is evicted, so the next request reads it from disk.
			a.evict(partition)
		} else {
			// The promise is cached only when it is durable: a cached promise must not outlive a lost write.
			s.promised = b
			a.store(partition, s, generation)
		}
		done(err)
	})
}

// mayAccept reports whether a proposal can be accepted: no later ballot was promised and, if the proposal rests on a
// previous ballot instead of promises, no ballot after that one was promised or accepted.
func (a *Acceptor) mayAccept(s *partitionState, p *ballot.Proposal) bool {
	latest := s.latest()
	switch {
	// State up to the low bound is purged, so this acceptor no longer knows what it promised there (docs/adr/0015).
	case !p.Ballot.After(s.lowBound):
		return false
	// The proposal has no promises: promise and acceptance are one step here. Even a promise of the proposal's own
	// ballot refuses it, because the acceptor gave it when it knew a ballot after the previous one.
	case p.Previous.Present() && latest.After(p.Previous):
		return false
	}
	// Equal is the usual case: the latest ballot is the one that this acceptor promised to the proposer. A proposal
	// without promises must be later, too: a faulty member may name a previous ballot after the proposal's own.
	return p.Ballot.After(latest) || p.Ballot == latest
}

// Accept accepts the proposal unless a later ballot was promised or, for a proposal without promises, any ballot
// after the one on which it rests. done receives the ballot that prevents the acceptance, or the zero ballot once the
// acceptance is durable. It implements Acceptors.Accept of package paxos for this node. The acceptor caches p.Update,
// which must not change afterwards.
func (a *Acceptor) Accept(epoch uint64, p *ballot.Proposal, done func(ballot.Ballot, error)) {
	partition := contention.Partition(p.Table, p.Key)
	if a.tryAcquire(partition) {
		a.accept(partition, epoch, p, done)
	} else if !a.submit(partition, func() { a.accept(partition, epoch, p, done) }) {
		done(ballot.Ballot{}, &coordinator.Overloaded{What: "too many requests are queued for one partition"})
	}
}

// accept runs Accept as a step of the partition.
func (a *Acceptor) accept(partition string, epoch uint64, p *ballot.Proposal, done func(ballot.Ballot, error)) {
	if have := a.cached(partition); have.ok { // needs no closures
		a.acceptOn(&have, partition, epoch, p, done)
		return
	}
	// The state must be read. The step runs in the goroutine of the transport or of storage's committer, which must not
	// wait for the disk.
	a.replica.Block(len(p.Update), func() { a.acceptOn(&cachedState{}, partition, epoch, p, done) }, func(err error) {
		a.release(partition)
		done(ballot.Ballot{}, err)
	})
}

// acceptOn is accept with the cached state, or in a worker that reads the state.
func (a *Acceptor) acceptOn(
	have *cachedState, partition string, epoch uint64, p *ballot.Proposal, done func(ballot.Ballot, error),
) {
	phase := a.replica.Enter()
	table, err := a.admit(epoch, p.Table, p.Key)
	var s partitionState
	var generation uint64
	if err == nil {
		s, generation, err = a.load(have, partition, table, p.Key, false)
	}
	// Ballots are unique, so an equal one is the same proposal. Refusing the copy would let the proposer believe that
	// it was not accepted.
	if err == nil && (p.Ballot == s.accepted.Ballot || p.Ballot == s.commit.Ballot) {
		a.replica.Leave(phase)
		a.release(partition)
		done(ballot.Ballot{}, nil) // a duplicate: the proposal was accepted, whatever was promised since
		return
	}
	// If there is an error, the state and the ballot are zero, so done must look at the error first.
	if err != nil || !a.mayAccept(&s, p) {
		a.replica.Leave(phase)
		a.release(partition)
		done(s.latest(), err)
		return
	}
	// An acceptor must never accept a ballot below one that it has promised.
	s.checkAccept(p)
	w := a.borrowWrite()
	// Accepting implies a promise of the ballot. Both are cells of one row, so a crash leaves both or none.
	w.addBallot(a.columns.promised, p.Ballot)
	w.addBallot(a.columns.accepted, p.Ballot)
	w.addUpdate(a.columns.proposal, p)
	err = a.replica.Write(w.change(table, p.Key), true, func(err error) {
		if err != nil {
			a.evict(partition)
		} else {
			// The cache keeps the update until the commit, which names it instead of sending it again.
			s.promised, s.accepted = p.Ballot, *p
			a.store(partition, s, generation)
		}
		a.release(partition)
		done(ballot.Ballot{}, err)
	})
	a.replica.Leave(phase)
	// Storage copies the mutation before Write returns, so the buffers are free although done may come later.
	a.returnWrite(w)
	if err != nil {
		a.release(partition)
		done(ballot.Ballot{}, err)
	}
}

// failed converts the error of an unreadable state or of an overload to an error that coordinators map to a failure
// reason.
func failed(err error) error {
	var known *coordinator.ReplicaFailure
	// An error with a reason that coordinators understand is kept.
	if err == nil || errors.As(err, &known) {
		return err
	}
	return &coordinator.ReplicaFailure{Reason: coordinator.FailureUnknown, Message: err.Error()}
}
