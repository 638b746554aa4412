package replica

import (
	"errors"
	"slices"
	"sync"
	"time"

	"cqld/coordinator"
	"cqld/internal/env"
	"cqld/internal/wire"
	"cqld/schema"
)

// A node that gains a range streams it from a node that has it. When both truncate the table meanwhile, the receiver
// must not store rows that the source read before its truncation:
//
//	source ── block, read before its truncation ──▶ receiver, which has truncated since its request:
//	                                                discards the block
//	receiver, which has applied truncation 7 ── request that requires truncation 7 ──▶ source that has not: "not yet"
//
// So each node counts its truncations of a table: a stream session discards its data and restarts when the count
// changes between a request and the commit of its file. And a request names the truncations that the receiver has
// applied: the source answers when it has applied them, too. A truncation that failed on the source would stop streams
// forever; after the wait given to Load, the receiver no longer requires it.
const (
	// truncationsKept bounds the applied truncations that a node remembers per table.
	truncationsKept = 16
	// truncationsNamed bounds the truncations that one request names.
	truncationsNamed = 1024
	// truncateTimeMax bounds the timeout in a request, so that it fits a time.Duration.
	truncateTimeMax = 24 * time.Hour
)

// A coordinator may die after it has sent a truncation, and the message may arrive much later, when the table has been
// truncated again and filled. So a node applies only truncations that it has prepared:
//
//	prepare 7, for 60 s ──▶ 7 may be applied here until then
//	truncate 8, prepared ─▶ 8 is applied; 7, which was prepared before, becomes void
//	truncate 7 ───────────▶ TruncationVoid: its coordinator, if it is alive, prepares again with a new ID
//
// Prepared truncations are lost when the process ends.

// preparedTruncation is a truncation that may be applied until a time.
type preparedTruncation struct {
	id    uint64
	until time.Duration // monotonic
}

// prepare permits the application of a truncation until timeout has passed.
func (t *Truncations) prepare(x coordinator.Truncation, timeout time.Duration) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.tableLocked(x.Table)
	// A repeated message must not revive a truncation that a later one has made void.
	if slices.Contains(s.void, x.ID) {
		return &coordinator.TruncationVoid{}
	}
	s.prepared = slices.DeleteFunc(s.prepared, func(p preparedTruncation) bool { return p.id == x.ID })
	// The oldest one is dropped: its coordinator receives TruncationVoid, and prepares again.
	if len(s.prepared) == truncationsKept {
		s.voidLocked(s.prepared[:1])
		s.prepared = s.prepared[1:]
	}
	s.prepared = append(s.prepared, preparedTruncation{x.ID, t.now() + timeout})
	return nil
}

// voidLocked records truncations that must no longer be applied.
func (s *truncated) voidLocked(prepared []preparedTruncation) {
	for _, p := range prepared {
		s.void = append(s.void, p.id)
	}
	// Older ids are dropped from void. They are not prepared either, so they are still not applied.
	s.void = s.void[max(0, len(s.void)-truncationsKept):]
}

// takeLocked selects the prepared truncation that is applied now and makes the others void. It returns false when the
// truncation must not be applied.
func (t *Truncations) takeLocked(s *truncated, id uint64) bool {
	// Without a clock, before Load, a prepared truncation does not expire.
	i := slices.IndexFunc(s.prepared, func(p preparedTruncation) bool { return p.id == id && t.now() <= p.until })
	if i < 0 {
		return false
	}
	s.voidLocked(slices.Delete(slices.Clone(s.prepared), i, i+1))
	s.prepared = s.prepared[i : i+1] // the coordinator retries when its record cannot be written
	return true
}

// Truncations tracks the truncations that this node applies. Streams use it to discard data from before a truncation.
// It is safe for concurrent use.
type Truncations struct {
	mu     sync.Mutex
	store  TruncationStore // nil until Load: nothing is persisted
	clock  env.Clock       // nil until Load
	wait   time.Duration   // how long requests require a truncation after it began
	tables map[schema.StorageID]*truncated
	all    uint64 // truncations of all tables that began
}

// TruncationStore keeps the last truncation of each table.
type TruncationStore interface {
	SetLocal(key, value []byte, sync bool) error
	ScanLocal(prefix []byte, f func(key, value []byte) error) error
}

// truncated is the state of one table.
//
// All fields are guarded by Truncations.mu.
type truncated struct {
	begun      uint64               // truncations that began
	running    int                  // truncations under way
	committing int                  // stream files that are being committed
	made       []uint64             // ids that were applied, oldest first
	prepared   []preparedTruncation // oldest first
	void       []uint64             // ids that were prepared and must not be applied, oldest first
	last       uint64               // id of the last that began
	until      time.Duration        // monotonic; until then, requests require last
	waiting    []func()             // truncations that wait for committing to become zero
}

// now returns the monotonic time, and zero before Load.
func (t *Truncations) now() time.Duration {
	if t.clock == nil {
		return 0
	}
	return t.clock.Monotonic()
}

func newTruncations() *Truncations {
	return &Truncations{tables: map[schema.StorageID]*truncated{}}
}

// The local key and value of the last truncation of a table:
//
//	truncation/ table 4 → id 8, made 1
const truncationPrefix = "truncation/"

// Load reads the last truncation of each table from store, and records later ones there. For wait after a truncation
// began, Required names it. Records that cannot be decoded are ignored.
func (t *Truncations) Load(store TruncationStore, clock env.Clock, wait time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.store, t.clock, t.wait = store, clock, wait
	_ = store.ScanLocal([]byte(truncationPrefix), func(key, value []byte) error {
		k, v := wire.NewCursor(key[len(truncationPrefix):]), wire.NewCursor(value)
		id, last, made := schema.StorageID(k.Uint32()), v.Uint64(), v.Uint8() == 1
		// The time at which it began is not stored: the wait starts again, which only makes streams wait longer.
		if k.Finish() == nil && v.Finish() == nil {
			x := t.tableLocked(id)
			x.last, x.until = last, t.now()+t.wait
			if made {
				x.made = []uint64{last}
			}
		}
		return nil
	})
}

// tableLocked returns the state of a table, and adds it. States of dropped tables stay until the process ends.
func (t *Truncations) tableLocked(id schema.StorageID) *truncated {
	x := t.tables[id]
	if x == nil {
		x = &truncated{}
		t.tables[id] = x
	}
	return x
}

// save records the last truncation of a table. The caller must not hold mu, because save waits for the disk.
func (t *Truncations) save(id schema.StorageID, truncation uint64, made, sync bool) error {
	if t.store == nil {
		return nil
	}
	var flag byte
	if made {
		flag = 1
	}
	key := wire.AppendUint32([]byte(truncationPrefix), uint32(id))
	return t.store.SetLocal(key, append(wire.AppendUint64(nil, truncation), flag), sync)
}

// begin starts a truncation, unless it was applied before: sessions that stream the table discard their data from now
// on. It calls then when the last stream file has been committed.
func (t *Truncations) begin(x coordinator.Truncation, then func()) (made bool, err error) {
	t.mu.Lock()
	s := t.tableLocked(x.Table)
	if slices.Contains(s.made, x.ID) {
		t.mu.Unlock()
		return true, nil
	}
	if !t.takeLocked(s, x.ID) {
		t.mu.Unlock()
		return false, &coordinator.TruncationVoid{}
	}
	t.mu.Unlock()
	// The record is durable before the first row is removed: after a crash in between, this node must not answer
	// streams that require the truncation as if it had been applied.
	if err := t.save(x.Table, x.ID, false, true); err != nil {
		return false, err
	}
	t.mu.Lock()
	// From here on, Count has changed, and sessions that stream the table cannot commit what they have received.
	s.begun++
	t.all++
	s.running++
	s.last, s.until = x.ID, t.now()+t.wait
	waits := t.committingLocked(x.Table)
	if waits {
		s.waiting = append(s.waiting, then)
	}
	t.mu.Unlock()
	if !waits {
		then()
	}
	return false, nil
}

// committingLocked reports whether a stream file is being committed that a truncation of the table must wait for: a
// file of the table, or of Paxos state, some of which the truncation removes.
func (t *Truncations) committingLocked(id schema.StorageID) bool {
	for _, of := range []schema.StorageID{id, schema.PaxosTable} {
		if s := t.tables[of]; s != nil && s.committing > 0 {
			return true
		}
	}
	return false
}

// end records the outcome of a truncation.
func (t *Truncations) end(x coordinator.Truncation, err error) {
	t.mu.Lock()
	s := t.tableLocked(x.Table)
	s.running--
	if err == nil {
		s.made = append(s.made, x.ID)
		s.made = s.made[max(0, len(s.made)-truncationsKept):]
	}
	// A later truncation may have begun meanwhile, and its record must not be replaced.
	last := s.last == x.ID
	t.mu.Unlock()
	if err == nil && last {
		_ = t.save(x.Table, x.ID, true, false) // on failure, streams from this node wait for a while after a restart
	}
}

// countLocked is Count; mu is held.
func (t *Truncations) countLocked(id schema.StorageID) uint64 {
	// Truncations of all tables remove rows of system.paxos.
	if id == schema.PaxosTable {
		return t.all
	}
	if s := t.tables[id]; s != nil {
		return s.begun
	}
	return 0
}

// Required returns the truncations that the source of a stream must have applied before it answers, and the present
// Count.
func (t *Truncations) Required(id schema.StorageID) (named []coordinator.Truncation, count uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for of, s := range t.tables {
		if (of == id || id == schema.PaxosTable) && s.last != 0 && t.now() < s.until && len(named) < truncationsNamed {
			named = append(named, coordinator.Truncation{Table: of, ID: s.last})
		}
	}
	slices.SortFunc(named, func(a, b coordinator.Truncation) int { return int(a.Table) - int(b.Table) })
	return named, t.countLocked(id)
}

// Count returns the number of truncations that began and concern streams of the table. When it changes, a session
// discards what it received and has not committed.
func (t *Truncations) Count(id schema.StorageID) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.countLocked(id)
}

// Ready reports whether this node may answer a request for a block: it has applied the required truncations of tables
// that it knows, and none is under way.
func (t *Truncations) Ready(id schema.StorageID, named []coordinator.Truncation, catalog *schema.Schema) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for of, s := range t.tables {
		if (of == id || id == schema.PaxosTable) && s.running > 0 {
			return false
		}
	}
	for _, x := range named {
		// The data of a dropped table is removed anyway.
		if catalog.Dropped(x.Table) {
			continue
		}
		if s := t.tables[x.Table]; s == nil || !slices.Contains(s.made, x.ID) {
			return false
		}
	}
	return true
}

// Commit calls f, which commits a stream file. If Count is no longer count, it returns false without calling f.
// Truncations wait for f.
func (t *Truncations) Commit(id schema.StorageID, count uint64, f func() error) (ok bool, err error) {
	t.mu.Lock()
	// The file contains rows from before a truncation.
	if t.countLocked(id) != count {
		t.mu.Unlock()
		return false, nil
	}
	s := t.tableLocked(id)
	// While committing is positive, begin does not call then, so the file is complete before the truncation removes
	// its rows.
	s.committing++
	t.mu.Unlock()
	err = f()
	t.mu.Lock()
	s.committing--
	var next []func()
	// A commit of system.paxos may have delayed truncations of all tables.
	for of, x := range t.tables {
		if len(x.waiting) > 0 && (of == id || id == schema.PaxosTable) && !t.committingLocked(of) {
			next, x.waiting = append(next, x.waiting...), nil
		}
	}
	t.mu.Unlock()
	for _, then := range next {
		then()
	}
	return true, err
}

// Truncations returns the truncations of this node.
func (l *Local) Truncations() *Truncations { return l.truncations }

// Truncate implements coordinator.Replica. A worker truncates.
func (l *Local) Truncate(epoch uint64, t coordinator.Truncation, timeout time.Duration, done func(error)) {
	l.Block(0, func() { l.truncateHere(epoch, t, timeout, done) }, done)
}

// truncateHere is Truncate for callers that may wait for the disk.
func (l *Local) truncateHere(epoch uint64, t coordinator.Truncation, timeout time.Duration, done func(error)) {
	op := &truncateOp{l: l, epoch: epoch, truncation: t, done: done}
	if t.Phase == coordinator.TruncationEnd { // at any epoch
		op.follow(done)
		return
	}
	if err := l.CheckEpoch(epoch); err != nil {
		done(err)
		return
	}
	if l.view.Schema().TableByStorage(t.Table) == nil {
		done(UnknownTable(t.Table))
		return
	}
	if t.Phase == coordinator.TruncationPrepare {
		if err := l.truncations.prepare(t, timeout); err != nil {
			done(err)
			return
		}
		op.follow(done)
		return
	}
	made, err := l.truncations.begin(t, op.apply)
	// A repeated request of a truncation that was applied succeeds at once. Otherwise op.apply answers.
	if made || err != nil {
		done(err)
	}
}

// truncateOp is one phase of a truncation at this node.
type truncateOp struct {
	l          *Local
	epoch      uint64
	truncation coordinator.Truncation
	done       func(error)
}

// follow reports the phase to this node's coordinator.
func (op *truncateOp) follow(done func(error)) {
	if op.l.onTruncate == nil {
		done(nil)
		return
	}
	op.l.onTruncate(op.truncation, done)
}

// apply removes the rows of a table, and its updates in Paxos state.
func (op *truncateOp) apply() {
	// Streams from this node wait from now on. A node that gains a range by a later epoch has received nothing from it
	// yet.
	if err := op.l.CheckEpoch(op.epoch); err != nil {
		op.end(err)
		return
	}
	op.follow(func(err error) {
		if err != nil {
			op.end(err)
			return
		}
		op.drop()
	})
}

// drop is the rest of apply after this node's coordinator has made its hints and logged batches void.
func (op *truncateOp) drop() {
	l, table := op.l, op.truncation.Table
	first := make(chan error, 1) // holds the first of the two results
	end := func(err error) {
		select {
		case first <- err:
		default:
			op.end(errors.Join(<-first, err))
		}
	}
	// Both removals run concurrently, and the last one to end ends the truncation.
	op.forgetPaxos(end)
	err := l.engine.Truncate(table)
	if err != nil {
		err = FromStorage(err)
	}
	end(err)
}

// forgetPaxos removes accepted and decided updates of the table's partitions from the Paxos state.
func (op *truncateOp) forgetPaxos(done func(error)) {
	if op.l.paxos == nil {
		done(nil)
		return
	}
	op.l.paxos.ForgetTable(op.truncation.Table, func(err error) {
		op.l.Changed(schema.PaxosTable)
		done(err)
	})
}

// end ends the truncation, and answers.
func (op *truncateOp) end(err error) {
	op.l.truncations.end(op.truncation, err)
	op.done(err)
}
