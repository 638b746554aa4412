package replica

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"cqld/coordinator"
	"cqld/coordinator/turn"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/types"
)

// The acceptor's state is a row of system.paxos for each partition and table that ever had a
// conditional change, stored under the partition's own key and token: it moves with the range. Every
// cell's timestamp is the ballot it tells of, so merging the states of two acceptors, in any order,
// gives the greater promise, the latest accepted proposal and the latest commit.
//
//	in_progress_ballot                        the latest ballot promised
//	proposal_ballot, proposal                 the latest accepted; deleted by a commit that comes whole
//	most_recent_commit_at, most_recent_commit the latest decided, for those that lack it
//
// A commit of what was accepted here leaves the update where it is, and is written without it. When a later
// proposal takes its place, the update is gone: whoever made that one has seen to it that a quorum has the
// change.
//
// Nothing in it expires. What lies up to the table's floor is purged with repairs (paxos_purge.go); from when it is
// raised, the floor is as good as a promise of every acceptor for every partition.

// paxosTable is system.paxos.
const paxosTable = schema.StorageID(8)

// paxosLine bounds how many requests wait for one partition at an acceptor: a hundred coordinators
// with a few attempts each.
const paxosLine = 512

// acceptors is this node's part in Paxos.
type acceptors struct {
	promised, accepted, proposal, at, decision schema.ColumnID
	// forgetful, of tests, is what acceptors promised and accepted instead of storing it; nil: they do.
	forgetful map[string]acceptorState
	// noPrevious, of tests, takes proposals without promises whatever happened since; noFloor heeds no floor.
	noPrevious, noFloor bool
	// unsynced, of tests, answers before the state is synced.
	unsynced bool
	// generation is counted when rows are written past the turns.
	generation atomic.Uint64
	shards     [64]acceptorShard
	writes     sync.Pool // *stateWrite
	// tables are those of which this process was asked anything; replaced, never changed.
	tables atomic.Pointer[map[schema.StorageID]bool]
}

// acceptorShard is the partitions whose state is being changed, with who waits for each.
type acceptorShard struct {
	sync.Mutex
	busy map[string][]func()
	// states are known ones (paxos_cache.go).
	states      map[string]*acceptorState
	updateBytes int
}

func newAcceptors() *acceptors {
	t := schema.Initial().Table("system", "paxos")
	id := func(name string) schema.ColumnID { return t.Column(name).ID }
	a := &acceptors{
		promised: id("in_progress_ballot"), accepted: id("proposal_ballot"), proposal: id("proposal"),
		at: id("most_recent_commit_at"), decision: id("most_recent_commit"),
	}
	a.tables.Store(&map[schema.StorageID]bool{})
	return a
}

// SetUnsafe removes safeguards, for the tests that show that they are needed.
func (l *Local) SetUnsafe(u coordinator.Unsafe) {
	l.staleEpochs = u.StaleEpochs
	l.truncations.unsafe, l.truncations.unprepared = u.NoTruncationStreams, u.NoTruncationPrepared
	l.paxos.noPrevious, l.paxos.noFloor, l.paxos.unsynced = u.NoPaxosPrevious, u.NoPaxosFloor, u.PaxosUnsynced
	if u.NoPaxosPersist {
		l.paxos.forgetful = map[string]acceptorState{}
	}
}

// acceptorState is what the row says, and the floor.
type acceptorState struct {
	floor            coordinator.Ballot
	promised         coordinator.Ballot
	accepted, commit coordinator.Proposal
	commitCell       int64 // the time of the update of commit
	elsewhere        bool  // the update of commit is on disk only
	generation       uint64
}

// latest is the latest ballot known in whatever way.
func (s *acceptorState) latest() coordinator.Ballot { return s.stored().Latest(s.floor) }

// stored is the latest ballot that the row has.
func (s *acceptorState) stored() coordinator.Ballot {
	return s.promised.Latest(s.accepted.Ballot).Latest(s.commit.Ballot)
}

// enter runs step when no other step of the partition is under way; step ends with leave. False:
// too many wait. A step that waited runs where the one before it left, which may be storage's committer: it must not
// block.
func (a *acceptors) enter(key string, step func()) bool {
	s := a.shard(key)
	s.Lock()
	waiting, busy := s.busy[key]
	if busy {
		defer s.Unlock()
		if len(waiting) >= paxosLine {
			return false
		}
		s.busy[key] = append(waiting, step)
		return true
	}
	if s.busy == nil {
		s.busy = map[string][]func(){}
	}
	s.busy[key] = nil
	s.Unlock()
	step()
	return true
}

// leave lets the next step run.
func (a *acceptors) leave(key string) {
	s := a.shard(key)
	s.Lock()
	waiting := s.busy[key]
	if len(waiting) == 0 {
		delete(s.busy, key)
		s.Unlock()
		return
	}
	s.busy[key] = waiting[1:]
	s.Unlock()
	waiting[0]()
}

func (a *acceptors) shard(key string) *acceptorShard {
	return &a.shards[turn.Hash(key)%uint32(len(a.shards))]
}

// clusteringOf is where the state of a table's partitions is.
func clusteringOf(t *schema.Table) []byte {
	return types.Native(types.UUID).AppendOrdered(nil, t.ID[:], false)
}

// state reads the acceptor's row.
func (l *Local) state(table *schema.Table, key row.PartitionKey) (s acceptorState, err error) {
	cmd := row.ReadCommand{
		Table: paxosTable, Key: key, Slices: []row.Slice{row.ExactRow(clusteringOf(table))}, Limits: row.Limits{Rows: 1},
	}
	page, err := l.engine.Read(nil, &cmd)
	if err != nil {
		return s, FromStorage(err)
	}
	var p row.PageReader
	var r row.Row
	p.Reset(page)
	for p.NextPartition() {
		for p.NextRow(&r) {
			if s, err = l.paxos.stateOf(&r); err != nil {
				return s, err
			}
		}
	}
	if f, ok := l.paxos.forgetful[turn.Line(table.StorageID, key)]; ok {
		s.promised, s.accepted = f.promised, f.accepted
		s.settle()
	}
	s.floor = l.floor(table)
	return s, p.Err()
}

// floor is the table's, as this node knows it.
func (l *Local) floor(table *schema.Table) coordinator.Ballot {
	if l.paxos.noFloor {
		return coordinator.Ballot{}
	}
	return coordinator.Ballot{Micros: l.view.PaxosFloor(table.StorageID)}
}

// stateOf is what a row says.
func (a *acceptors) stateOf(r *row.Row) (s acceptorState, err error) {
	for i := range r.Cells {
		if err := a.note(&s, &r.Cells[i]); err != nil {
			return s, err
		}
	}
	s.settle()
	return s, nil
}

// settle takes away what cells of earlier ballots say.
func (s *acceptorState) settle() {
	if s.commitCell != s.commit.Ballot.Micros {
		s.commit = coordinator.Proposal{Ballot: s.commit.Ballot} // the rest is of an earlier one
	}
	if s.commit.Ballot.Present() && s.accepted.Ballot == s.commit.Ballot && len(s.commit.Update) == 0 {
		s.commit = s.accepted
	}
	if s.accepted.Ballot.Present() && !s.accepted.Ballot.After(s.commit.Ballot) {
		s.accepted = coordinator.Proposal{} // it was decided, or something later was
	}
}

// note takes one cell into the state.
func (a *acceptors) note(s *acceptorState, c *row.Cell) (err error) {
	if c.Tombstone {
		return nil
	}
	switch c.Column {
	case a.promised:
		s.promised, err = ballotOf(c)
	case a.accepted:
		s.accepted.Ballot, err = ballotOf(c)
	case a.at:
		s.commit.Ballot, err = ballotOf(c)
	case a.proposal:
		err = decodeUpdate(c.Value, &s.accepted)
	case a.decision:
		s.commitCell = c.Timestamp
		err = decodeUpdate(c.Value, &s.commit)
	}
	return err
}

// admitPaxos finds the table and refuses what is not this node's, or is of an earlier ring. The caller
// has entered the gate.
func (l *Local) admitPaxos(epoch uint64, id schema.StorageID, key row.PartitionKey) (*schema.Table, error) {
	if err := l.CheckEpoch(epoch); err != nil {
		return nil, err
	}
	if err := l.admit(id, ring.Range{Start: key.Token - 1, End: key.Token}); err != nil {
		return nil, err
	}
	if token := (ring.Range{Start: key.Token - 1, End: key.Token}); l.Fenced(id, token) || l.Fenced(paxosTable, token) {
		return nil, &coordinator.ReplicaFailure{Message: ErrFenced.Error()}
	}
	l.paxos.meet(id)
	return l.view.Schema().TableByStorage(id), nil
}

// meet notes that this process is asked to vote on a table.
func (a *acceptors) meet(table schema.StorageID) {
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

// met says whether meet was told of the table.
func (a *acceptors) met(table schema.StorageID) bool { return (*a.tables.Load())[table] }

// Prepare implements coordinator.Acceptor.
func (l *Local) Prepare(epoch uint64, b, previous coordinator.Ballot, cmd *row.ReadCommand, _ time.Duration, done func(*coordinator.Promise, error)) {
	l.prepare(epoch, b, previous, cmd.Clone(), done) // a quorum may do without this node, and the memory be reused
}

// prepare is Prepare with a command that it may keep.
func (l *Local) prepare(epoch uint64, b, previous coordinator.Ballot, cmd *row.ReadCommand, done func(*coordinator.Promise, error)) {
	line := turn.Line(cmd.Table, cmd.Key)
	if !l.paxos.enter(line, func() { l.promise(line, epoch, b, previous, cmd, done) }) {
		done(nil, &coordinator.Overloaded{What: "too many wait for one partition"})
	}
}

// promise is Prepare when it is its turn. A worker reads.
func (l *Local) promise(line string, epoch uint64, b, previous coordinator.Ballot, cmd *row.ReadCommand, done func(*coordinator.Promise, error)) {
	answer := func(p *coordinator.Promise, err error) {
		l.paxos.leave(line)
		done(p, err)
	}
	l.block(0, func() { l.promiseHere(line, epoch, b, previous, cmd, answer) }, func(err error) { answer(nil, err) })
}

// promiseHere is promise in a goroutine that may wait for the disk.
func (l *Local) promiseHere(line string, epoch uint64, b, previous coordinator.Ballot, cmd *row.ReadCommand, answer func(*coordinator.Promise, error)) {
	phase := l.gate.enter()
	table, err := l.admitPaxos(epoch, cmd.Table, cmd.Key)
	var s acceptorState
	var generation uint64
	if err == nil {
		s, generation, err = l.known(&remembered{}, line, table, cmd.Key, !previous.Present())
	}
	if err == nil && s.elsewhere && s.latest().After(previous) {
		s, err = l.state(table, cmd.Key)
	}
	p := &coordinator.Promise{Promised: s.latest(), Accepted: s.accepted, Commit: s.commit, Floor: s.floor}
	p.Refused = !b.After(p.Promised)
	if previous.Present() && !p.Promised.After(previous) && !p.Refused {
		p = &coordinator.Promise{Unchanged: true}
	}
	if err == nil && !p.Refused {
		// After the state, so that it has all that the state calls decided.
		if p.Page, err = l.engine.Read(nil, cmd); err != nil {
			err = FromStorage(err)
		}
	}
	if err != nil || p.Refused || p.Unchanged {
		l.gate.leave(phase)
		if err == nil {
			l.paxos.remember(line, s, generation)
		}
		if err != nil {
			p = nil
		}
		answer(p, err)
		return
	}
	if l.paxos.forgetful != nil {
		s.promised = b
		l.paxos.forgetful[line] = s
		l.gate.leave(phase)
		answer(p, nil)
		return
	}
	r := row.NewRow()
	r.Cells = append(r.Cells, ballotCell(l.paxos.promised, b))
	err = l.write([]*row.Mutation{l.paxos.mutation(table, cmd.Key, r)}, !l.paxos.unsynced, func(err error) {
		if err != nil {
			l.paxos.doubt(line)
			answer(nil, err)
			return
		}
		s.promised = b
		l.paxos.remember(line, s, generation)
		answer(p, nil)
	})
	l.gate.leave(phase)
	if err != nil {
		answer(nil, err)
	}
}

// mayAccept says whether a proposal can be accepted: nothing later was promised, and, when it rests on a
// previous ballot instead of promises, nothing after that was promised or accepted.
func (a *acceptors) mayAccept(s *acceptorState, p *coordinator.Proposal) bool {
	latest := s.latest()
	switch {
	case !p.Ballot.After(s.floor):
		return false
	case p.Previous.Present() && !a.noPrevious:
		return !latest.After(p.Previous)
	}
	return p.Ballot.After(latest) || p.Ballot == latest
}

// Accept implements coordinator.Acceptor.
func (l *Local) Accept(epoch uint64, p *coordinator.Proposal, _ time.Duration, done func(coordinator.Ballot, error)) {
	line := turn.Line(p.Table, p.Key)
	if !l.paxos.enter(line, func() { l.accept(line, epoch, p, done) }) {
		done(coordinator.Ballot{}, &coordinator.Overloaded{What: "too many wait for one partition"})
	}
}

// accept is Accept when it is its turn.
func (l *Local) accept(line string, epoch uint64, p *coordinator.Proposal, done func(coordinator.Ballot, error)) {
	answer := func(refused coordinator.Ballot, err error) {
		l.paxos.leave(line)
		done(refused, err)
	}
	l.withState(line, len(p.Update), func(have remembered) { l.acceptOn(&have, line, epoch, p, answer) },
		func(err error) { answer(coordinator.Ballot{}, err) })
}

// acceptOn is accept with the state, or where it may be read.
func (l *Local) acceptOn(have *remembered, line string, epoch uint64, p *coordinator.Proposal, answer func(coordinator.Ballot, error)) {
	phase := l.gate.enter()
	table, err := l.admitPaxos(epoch, p.Table, p.Key)
	var s acceptorState
	var generation uint64
	if err == nil {
		s, generation, err = l.known(have, line, table, p.Key, false)
	}
	if err == nil && (p.Ballot == s.accepted.Ballot || p.Ballot == s.commit.Ballot) {
		l.gate.leave(phase)
		answer(coordinator.Ballot{}, nil) // it came before, and was accepted, whatever was promised since
		return
	}
	if err != nil || !l.paxos.mayAccept(&s, p) {
		l.gate.leave(phase)
		answer(s.latest(), err)
		return
	}
	if l.paxos.forgetful != nil {
		l.paxos.forgetful[line] = acceptorState{promised: p.Ballot, accepted: p.Clone()}
		l.gate.leave(phase)
		answer(coordinator.Ballot{}, nil)
		return
	}
	w := l.paxos.writing()
	w.row.Cells = append(w.row.Cells, ballotCell(l.paxos.promised, p.Ballot), ballotCell(l.paxos.accepted, p.Ballot),
		w.updateCell(l.paxos.proposal, p))
	err = l.write(w.change(table, p.Key), !l.paxos.unsynced, func(err error) {
		if err != nil {
			l.paxos.doubt(line)
		} else {
			s.promised, s.accepted = p.Ballot, *p
			l.paxos.remember(line, s, generation)
		}
		answer(coordinator.Ballot{}, err)
	})
	l.gate.leave(phase)
	l.paxos.wrote(w)
	if err != nil {
		answer(coordinator.Ballot{}, err)
	}
}

// mutation is a change of the acceptor's row.
func (a *acceptors) mutation(table *schema.Table, key row.PartitionKey, r *row.Row) *row.Mutation {
	m := new(row.Mutation)
	m.Reset(paxosTable, key)
	r.Clustering = clusteringOf(table)
	m.AddRow(r)
	return m
}
