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

// A node that gains a range pulls it from a node that has it. When the table is truncated meanwhile, on both, what was
// read before on the source must not come after on the receiver:
//
//	source ── block, read before its truncation ──▶ receiver, truncated: the block is not what it asked for
//	receiver, truncated ── request, "I have made #7" ──▶ source that has not: "not yet"
//
// So each node counts its truncations of a table: a stream drops what it has when the count changes between its request
// and the commit of its file, and begins again. And a request names the truncations that the receiver has made: the source
// answers when it has made them too. A truncation that failed on the source would stop streams for ever; after
// StreamLimits.TruncationWait the receiver takes what there is.
const (
	// truncationsKept is how many truncations of a table a node remembers to have made.
	truncationsKept = 16
	// truncationsNamed bounds how many truncations a request names.
	truncationsNamed = 1024
	// truncateTimeMax keeps what a request gives as its time a duration.
	truncateTimeMax = 24 * time.Hour
)

// A coordinator may die after it has sent a truncation, and the message may arrive much later, when the table has been
// truncated again and filled. So a node makes only truncations that it knows of:
//
//	prepare #7, for 60 s ──▶ #7 may be made here until then
//	truncate #8, prepared ─▶ #8 is made; #7, which was prepared before, is void
//	truncate #7 ───────────▶ TruncationVoid: its coordinator, if it lives, prepares again under a new ID
//
// What was prepared goes with the process.

// preparedTruncation is one that may be made.
type preparedTruncation struct {
	id    uint64
	until time.Duration // monotonic
}

// prepare lets a truncation be made for a time.
func (t *truncations) prepare(x coordinator.Truncation, timeout time.Duration) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.tableLocked(x.Table)
	if slices.Contains(s.void, x.ID) {
		return &coordinator.TruncationVoid{}
	}
	s.prepared = slices.DeleteFunc(s.prepared, func(p preparedTruncation) bool { return p.id == x.ID })
	if len(s.prepared) == truncationsKept {
		s.voidLocked(s.prepared[:1])
		s.prepared = s.prepared[1:]
	}
	s.prepared = append(s.prepared, preparedTruncation{x.ID, t.now() + timeout})
	return nil
}

// voidLocked remembers that truncations must not be made any more.
func (s *truncated) voidLocked(prepared []preparedTruncation) {
	for _, p := range prepared {
		s.void = append(s.void, p.id)
	}
	s.void = s.void[max(0, len(s.void)-truncationsKept):]
}

// takeLocked takes a truncation that is made now from those that may be, and makes the others void; false when it must
// not be made.
func (t *truncations) takeLocked(s *truncated, id uint64) bool {
	i := slices.IndexFunc(s.prepared, func(p preparedTruncation) bool { return p.id == id && t.now() <= p.until })
	if i < 0 {
		return t.unprepared
	}
	s.voidLocked(slices.Delete(slices.Clone(s.prepared), i, i+1))
	s.prepared = s.prepared[i : i+1] // it may be asked for again, when a note on it cannot be written
	return true
}

// truncations is what a node knows of the truncations it has made, or makes.
type truncations struct {
	mu     sync.Mutex
	store  truncationStore // nil: what is known goes with the process
	clock  env.Clock       // nil: as long as there are no streams
	wait   time.Duration   // StreamLimits.TruncationWait
	tables map[schema.StorageID]*truncated
	all    uint64 // how many of all tables were begun
	unsafe bool   // streams bring what they have
	// unprepared, of tests, makes truncations that are not prepared, or void.
	unprepared bool
}

type truncationStore interface {
	SetLocal(key, value []byte, sync bool) error
	ScanLocal(prefix []byte, f func(key, value []byte) error) error
}

// truncated is one table's.
type truncated struct {
	begun      uint64 // how many were begun
	running    int
	committing int                  // files of streams that are being committed
	made       []uint64             // ids, oldest first
	prepared   []preparedTruncation // oldest first
	void       []uint64             // ids that were prepared and must not be made, oldest first
	last       uint64               // id of the last that was begun
	until      time.Duration
	waiting    []func() // truncations that wait for committing
}

func (t *truncations) now() time.Duration {
	if t.clock == nil {
		return 0
	}
	return t.clock.Monotonic()
}

func newTruncations() *truncations {
	return &truncations{tables: map[schema.StorageID]*truncated{}}
}

// The local key and value of the last truncation of a table:
//
//	truncation/ table 4 → id 8, made 1
const truncationPrefix = "truncation/"

// load finds what an earlier process left. What it cannot read is not waited for.
func (t *truncations) load(store truncationStore, clock env.Clock, wait time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.store, t.clock, t.wait = store, clock, wait
	_ = store.ScanLocal([]byte(truncationPrefix), func(key, value []byte) error {
		k, v := wire.NewCursor(key[len(truncationPrefix):]), wire.NewCursor(value)
		id, last, made := schema.StorageID(k.Uint32()), v.Uint64(), v.Uint8() == 1
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

func (t *truncations) tableLocked(id schema.StorageID) *truncated {
	x := t.tables[id]
	if x == nil {
		x = &truncated{}
		t.tables[id] = x
	}
	return x
}

func (t *truncations) save(id schema.StorageID, truncation uint64, made, sync bool) error {
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

// begin begins a truncation, unless it has been made: from now on what streams have of the table is void. then is called
// when no file of a stream is being committed any more.
func (t *truncations) begin(x coordinator.Truncation, then func()) (made bool, err error) {
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
	if err := t.save(x.Table, x.ID, false, true); err != nil {
		return false, err
	}
	t.mu.Lock()
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

// committingLocked says whether a file is being committed that a truncation of the table must wait for: of the table, or
// of the state of Paxos, of which it removes some.
func (t *truncations) committingLocked(id schema.StorageID) bool {
	for _, of := range []schema.StorageID{id, paxosTable} {
		if s := t.tables[of]; s != nil && s.committing > 0 {
			return true
		}
	}
	return false
}

// end ends a truncation.
func (t *truncations) end(x coordinator.Truncation, err error) {
	t.mu.Lock()
	s := t.tableLocked(x.Table)
	s.running--
	if err == nil {
		s.made = append(s.made, x.ID)
		s.made = s.made[max(0, len(s.made)-truncationsKept):]
	}
	last := s.last == x.ID
	t.mu.Unlock()
	if err == nil && last {
		_ = t.save(x.Table, x.ID, true, false) // else streams from here wait for a while after a restart
	}
}

// countLocked is how many truncations were begun that make a stream of the table void.
func (t *truncations) countLocked(id schema.StorageID) uint64 {
	if t.unsafe {
		return 0
	}
	if id == paxosTable {
		return t.all
	}
	if s := t.tables[id]; s != nil {
		return s.begun
	}
	return 0
}

// asks is what a request for a block of a table names, and the count by which its answer is judged.
func (t *truncations) asks(id schema.StorageID) (named []coordinator.Truncation, count uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for of, s := range t.tables {
		if (of == id || id == paxosTable) && s.last != 0 && t.now() < s.until && len(named) < truncationsNamed {
			named = append(named, coordinator.Truncation{Table: of, ID: s.last})
		}
	}
	slices.SortFunc(named, func(a, b coordinator.Truncation) int { return int(a.Table) - int(b.Table) })
	return named, t.countLocked(id)
}

// count is how many truncations were begun that make a stream of the table void.
func (t *truncations) count(id schema.StorageID) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.countLocked(id)
}

// ready says whether this node may answer a request for a block: it has made the named truncations of tables that it knows,
// and makes none.
func (t *truncations) ready(id schema.StorageID, named []coordinator.Truncation, catalog *schema.Schema) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.unsafe {
		return true
	}
	for of, s := range t.tables {
		if (of == id || id == paxosTable) && s.running > 0 {
			return false
		}
	}
	for _, x := range named {
		if catalog.Dropped(x.Table) {
			continue
		}
		if s := t.tables[x.Table]; s == nil || !slices.Contains(s.made, x.ID) {
			return false
		}
	}
	return true
}

// commit calls f, which commits a file of a stream that was begun at a count; false when it is void. A truncation waits
// for f.
func (t *truncations) commit(id schema.StorageID, count uint64, f func() error) (ok bool, err error) {
	t.mu.Lock()
	if t.countLocked(id) != count {
		t.mu.Unlock()
		return false, nil
	}
	s := t.tableLocked(id)
	s.committing++
	t.mu.Unlock()
	err = f()
	t.mu.Lock()
	s.committing--
	var next []func()
	for of, x := range t.tables {
		if len(x.waiting) > 0 && (of == id || id == paxosTable) && !t.committingLocked(of) {
			next, x.waiting = append(next, x.waiting...), nil
		}
	}
	t.mu.Unlock()
	for _, then := range next {
		then()
	}
	return true, err
}

// Truncate implements coordinator.Replica. A worker truncates.
func (l *Local) Truncate(epoch uint64, t coordinator.Truncation, timeout time.Duration, done func(error)) {
	l.block(0, func() { l.truncateHere(epoch, t, timeout, done) }, done)
}

// truncateHere is Truncate in a goroutine that may wait for the disk.
func (l *Local) truncateHere(epoch uint64, t coordinator.Truncation, timeout time.Duration, done func(error)) {
	if t.Phase == coordinator.TruncationEnd { // at any epoch
		l.followTruncation(t, done)
		return
	}
	if err := l.current(epoch); err != nil {
		done(err)
		return
	}
	if l.view.Schema().TableByStorage(t.Table) == nil {
		done(unknownTable(t.Table))
		return
	}
	if t.Phase == coordinator.TruncationPrepare {
		if err := l.truncations.prepare(t, timeout); err != nil {
			done(err)
			return
		}
		l.followTruncation(t, done)
		return
	}
	made, err := l.truncations.begin(t, func() { l.truncate(epoch, t, done) })
	if made || err != nil {
		done(err)
	}
}

// followTruncation does this node's part as a coordinator.
func (l *Local) followTruncation(t coordinator.Truncation, done func(error)) {
	if l.onTruncate == nil {
		done(nil)
		return
	}
	l.onTruncate(t, done)
}

// truncate removes the rows, and the updates in the state of Paxos.
func (l *Local) truncate(epoch uint64, t coordinator.Truncation, done func(error)) {
	// From now on, streams from here wait. A node that gains a range by a later epoch has got nothing from here before.
	if err := l.current(epoch); err != nil {
		l.truncations.end(t, err)
		done(err)
		return
	}
	first := make(chan error, 1) // the later of two answers, and takes the first from here
	end := func(err error) {
		select {
		case first <- err:
		default:
			err = errors.Join(<-first, err)
			l.truncations.end(t, err)
			done(err)
		}
	}
	l.forgetPaxos(t.Table, func(err error) {
		l.changed(paxosTable)
		end(err)
	})
	err := l.engine.Truncate(t.Table)
	if err != nil {
		err = fromStorage(err)
	}
	end(err)
}
