package repair

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"cqld/coordinator"
	"cqld/internal/env"
	"cqld/internal/wire"
	"cqld/ring"
	"cqld/schema"
)

// AutoOptions are what an Auto is made of. Durations that are zero mean the default.
type AutoOptions struct {
	Repairer *Repairer
	Store    LocalStore
	Rand     env.Rand // spreads what nodes would do at once; nil: they do
	// Interval is how often a table is repaired; half its gc_grace_seconds when that is less, as its
	// tombstones cannot go before.
	Interval time.Duration
	// Delay is how long after the start, or after the ring has changed, the first repair waits.
	Delay time.Duration
	// RetryAfter is when a table is tried again that could not be repaired.
	RetryAfter time.Duration
	// Note tells the operator; nil: nobody.
	Note func(message string, err error)
}

func (o AutoOptions) withDefaults() AutoOptions {
	o.Interval = cmp.Or(o.Interval, 24*time.Hour)
	o.Delay = cmp.Or(o.Delay, 30*time.Second)
	o.RetryAfter = cmp.Or(o.RetryAfter, 5*time.Minute)
	if o.Note == nil {
		o.Note = func(string, error) {}
	}
	return o
}

// Auto repairs without being asked, one range at a time: first what is dirty, because hints for it
// were lost here; then, of every table in turn, the ranges of which this node is the first replica, when
// the ring has changed since they were repaired or Interval has passed.
type Auto struct {
	o      AutoOptions
	r      *Repairer
	events serial
	// What only events touch.
	tables  map[schema.StorageID]*autoTable
	running *Run
	timer   env.Timer
	closed  bool
	from    time.Duration // monotonic: nothing is begun before

	dirty struct {
		sync.Mutex
		tables map[schema.StorageID]*[4]uint64 // a bit for each chunk
	}
}

// autoTable is how far the repairs of a table are. Its local key and value:
//
//	autorepair/ table 4 → last 8, began 8, moved 8, at 8
type autoTable struct {
	last    int64 // ns: when the last repair that has ended began; 0: none has
	began   int64 // ns: when the present one began; 0: none is under way
	moved   uint64
	at      ring.Token // ranges that begin before are done in the present one; all at MaxToken
	blocked time.Duration
}

const autoPrefix = "autorepair/"

// A chunk is 1/256 of the ring. What is dirty of a table is kept as the bits of chunks:
//
//	dirty/ table 4 → 32 bytes
const dirtyPrefix = "dirty/"

// NewAuto reads what an earlier process left. Start begins.
func NewAuto(o AutoOptions) *Auto {
	a := &Auto{o: o.withDefaults(), r: o.Repairer, tables: map[schema.StorageID]*autoTable{}, events: serial{run: o.Repairer.run}}
	a.dirty.tables = map[schema.StorageID]*[4]uint64{}
	// What cannot be read is repaired once more.
	_ = o.Store.ScanLocal([]byte(autoPrefix), func(key, value []byte) error {
		k, c := wire.NewCursor(key[len(autoPrefix):]), wire.NewCursor(value)
		t := &autoTable{last: c.Int64(), began: c.Int64(), moved: c.Uint64(), at: ring.Token(c.Int64())}
		if id := schema.StorageID(k.Uint32()); c.Finish() == nil && k.Finish() == nil {
			a.tables[id] = t
		}
		return nil
	})
	_ = o.Store.ScanLocal([]byte(dirtyPrefix), func(key, value []byte) error {
		k, c := wire.NewCursor(key[len(dirtyPrefix):]), wire.NewCursor(value)
		bits := &[4]uint64{c.Uint64(), c.Uint64(), c.Uint64(), c.Uint64()}
		if id := schema.StorageID(k.Uint32()); c.Finish() == nil && k.Finish() == nil {
			a.dirty.tables[id] = bits
		}
		return nil
	})
	return a
}

// Start begins to repair, after the delay.
func (a *Auto) Start() {
	a.events.do(func() {
		a.postpone()
		a.look()
	})
}

// Close ends the repair under way.
func (a *Auto) Close() {
	a.events.do(func() {
		a.closed = true
		if a.timer != nil {
			a.timer.Stop()
		}
		if a.running != nil {
			a.running.Cancel()
		}
	})
}

// Look says that a node is back, so that what was waiting for it can be tried.
func (a *Auto) Look() {
	a.events.do(func() {
		for _, t := range a.tables {
			t.blocked = 0
		}
		a.look()
	})
}

// Moved says that the ring has changed.
func (a *Auto) Moved() { a.events.do(a.postpone) }

// postpone lets things settle.
func (a *Auto) postpone() {
	delay := a.o.Delay
	if a.o.Rand != nil {
		delay += time.Duration(a.o.Rand.Uint64() % uint64(a.o.Delay+1))
	}
	a.from = a.r.clock.Monotonic() + delay
}

// Dirty says that a hint for a partition was lost: its range is repaired soon. It is cheap when that is
// known.
func (a *Auto) Dirty(table schema.StorageID, t ring.Token) {
	chunk := (uint64(t) ^ 1<<63 - 1) >> 56
	if a.mark(table, chunk) {
		a.events.do(func() { a.storeDirty(table) })
	}
}

// mark sets the bit of a chunk and says whether it was not set before.
func (a *Auto) mark(table schema.StorageID, chunk uint64) bool {
	a.dirty.Lock()
	defer a.dirty.Unlock()
	bits := a.dirty.tables[table]
	if bits == nil {
		bits = new([4]uint64)
		a.dirty.tables[table] = bits
	}
	bit := uint64(1) << (chunk & 63)
	was := bits[chunk>>6]
	bits[chunk>>6] |= bit
	return was&bit == 0
}

// storeDirty keeps the bits of a table, without a sync. It is called by events only.
func (a *Auto) storeDirty(table schema.StorageID) {
	a.dirty.Lock()
	var bits [4]uint64
	if p := a.dirty.tables[table]; p != nil {
		bits = *p
	}
	if bits == [4]uint64{} {
		delete(a.dirty.tables, table)
	}
	a.dirty.Unlock()
	key := binary.BigEndian.AppendUint32([]byte(dirtyPrefix), uint32(table))
	if bits == [4]uint64{} {
		_ = a.o.Store.DeleteLocal(key, false) // it would be repaired once more
		return
	}
	var value []byte
	for _, b := range bits {
		value = wire.AppendUint64(value, b)
	}
	_ = a.o.Store.SetLocal(key, value, false)
}

// DirtyTables are the tables that wait for a repair because hints were lost, sorted.
func (a *Auto) DirtyTables() (out []schema.StorageID) {
	a.dirty.Lock()
	defer a.dirty.Unlock()
	for id := range a.dirty.tables {
		out = append(out, id)
	}
	slices.Sort(out)
	return out
}

// takeDirty is the first dirty stretch of a table, as chunks [from, to); it is clean from now on, unless
// more is lost.
func (a *Auto) takeDirty(table schema.StorageID) (from, to int) {
	a.dirty.Lock()
	defer a.dirty.Unlock()
	bits := a.dirty.tables[table]
	is := func(i int) bool { return i < 256 && bits[i>>6]&(1<<(i&63)) != 0 }
	for from < 256 && !is(from) {
		from++
	}
	for to = from; is(to); to++ {
		bits[to>>6] &^= 1 << (to & 63)
	}
	return from, to
}

// putDirty ends the repair of a stretch: it is dirty again when the repair failed.
func (a *Auto) putDirty(table schema.StorageID, from, to int, failed bool) {
	for i := from; failed && i < to; i++ {
		a.mark(table, uint64(i))
	}
	a.storeDirty(table)
}

// look begins what is due, if nothing is under way, and looks again later.
func (a *Auto) look() {
	if a.closed || a.running != nil {
		return
	}
	if a.timer != nil {
		a.timer.Stop()
	}
	a.timer = a.r.clock.After(a.o.RetryAfter/5, func() { a.events.do(a.look) })
	now := a.r.clock.Monotonic()
	if now < a.from {
		return
	}
	for _, id := range a.DirtyTables() {
		if t := a.table(id); now >= t.blocked {
			a.repairDirty(id, t)
			return
		}
	}
	catalog := a.r.view.Schema()
	for _, id := range catalog.StorageIDs() {
		table := catalog.TableByStorage(id)
		if table == nil || table.Virtual || table.Replication.Class == ring.Local {
			continue
		}
		if t := a.table(id); now >= t.blocked && a.due(table, t) && a.repairNext(table, t) {
			return
		}
	}
}

func (a *Auto) table(id schema.StorageID) *autoTable {
	t := a.tables[id]
	if t == nil {
		t = &autoTable{}
		a.tables[id] = t
	}
	return t
}

// due says whether a table is being repaired or is to be.
func (a *Auto) due(table *schema.Table, t *autoTable) bool {
	every := a.o.Interval
	if grace := time.Duration(table.Options.GCGraceSeconds) * time.Second / 2; grace > 0 {
		every = min(every, grace)
	}
	since := time.Duration(a.r.clock.Now().UnixNano() - t.last)
	return t.began != 0 || t.last == 0 || t.moved != a.r.view.Topology().Moved() || since >= every
}

// repairDirty repairs a stretch in which hints were lost.
func (a *Auto) repairDirty(id schema.StorageID, t *autoTable) {
	from, to := a.takeDirty(id)
	tokens := ring.Range{Start: ring.MinToken + ring.Token(uint64(from)<<56), End: ring.MinToken + ring.Token(uint64(to)<<56)}
	a.run(id, tokens, t, func(err error) { a.putDirty(id, from, to, err != nil) })
}

// repairNext repairs the next range of which this node is the first replica; false when there is none.
func (a *Auto) repairNext(table *schema.Table, t *autoTable) bool {
	topology, self := a.r.view.Topology(), a.r.view.Self()
	if t.began == 0 || t.moved != topology.Moved() {
		t.began, t.moved, t.at = a.r.clock.Now().UnixNano(), topology.Moved(), ring.MinToken
	}
	for _, piece := range topology.Placement(table.Replication).Ranges(ring.FullRange()) {
		done := piece.Range.Start < t.at || t.at == ring.MaxToken
		if done || len(piece.Replicas.Natural) == 0 || piece.Replicas.Natural[0] != self {
			continue
		}
		a.run(table.StorageID, piece.Range, t, func(err error) {
			if err != nil {
				return
			}
			if t.at = piece.Range.End; t.at == ring.MinToken {
				t.at = ring.MaxToken // that was the last
			}
			a.store(table.StorageID, t)
		})
		return true
	}
	t.last, t.began = t.began, 0
	a.store(table.StorageID, t)
	return false
}

func (a *Auto) store(id schema.StorageID, t *autoTable) {
	value := wire.AppendInt64(wire.AppendInt64(nil, t.last), t.began)
	value = wire.AppendInt64(wire.AppendUint64(value, t.moved), int64(t.at))
	_ = a.o.Store.SetLocal(binary.BigEndian.AppendUint32([]byte(autoPrefix), uint32(id)), value, false) // else again
}

// run repairs a range.
func (a *Auto) run(id schema.StorageID, tokens ring.Range, t *autoTable, then func(error)) {
	// Should the job end before Start returns, that is an event behind this one.
	a.running = a.r.Start(Job{Table: id, Range: tokens, PaxosOnly: true}, nil, func(report Report, err error) {
		a.events.do(func() {
			a.running = nil
			a.ended(id, t, report, err, then)
		})
	})
}

// ended is the event of a repair's end.
func (a *Auto) ended(id schema.StorageID, t *autoTable, report Report, err error, then func(error)) {
	var unknown *coordinator.UnknownTable
	if errors.As(err, &unknown) {
		err = nil // dropped
	}
	if err != nil {
		t.blocked = a.r.clock.Monotonic() + a.o.RetryAfter
	}
	then(err)
	if a.closed {
		return
	}
	if err != nil || report.Rows > 0 || report.Unpurged > 0 {
		message := fmt.Sprintf("repair of table %d, %v: %d rows sent", id, report.Job.Range, report.Rows)
		if report.Unpurged > 0 {
			message += fmt.Sprintf(", Paxos state of %d ranges not purged", report.Unpurged)
		}
		a.o.Note(message, err)
	}
	a.r.clock.After(0, func() { a.events.do(a.look) })
}
