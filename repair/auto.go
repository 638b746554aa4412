package repair

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"cqld/coordinator"
	"cqld/internal/env"
	"cqld/internal/invariant"
	"cqld/internal/wire"
	"cqld/ring"
	"cqld/schema"
)

// AutoOptions are the dependencies and intervals of an Auto. Zero durations mean the default.
type AutoOptions struct {
	Repairer *Repairer
	Store    LocalStore
	Rand     env.Rand // spreads the repairs of different nodes; nil does not
	// Interval is how often a table is repaired; half its gc_grace_seconds when that is less, because its tombstones
	// cannot be purged before a repair.
	Interval time.Duration
	// Delay is the pause before the first repair after the start, or after a change of the ring.
	Delay time.Duration
	// RetryAfter is the pause before a failed table is repaired again.
	RetryAfter time.Duration
	// Note reports to the operator; nil discards.
	Note func(message string, err error)
}

// withDefaults replaces zero by the defaults.
func (o AutoOptions) withDefaults() AutoOptions {
	o.Interval = cmp.Or(o.Interval, 24*time.Hour)
	o.Delay = cmp.Or(o.Delay, 30*time.Second)
	o.RetryAfter = cmp.Or(o.RetryAfter, 5*time.Minute)
	if o.Note == nil {
		o.Note = func(string, error) {}
	}
	return o
}

// Auto repairs in the background. It repairs dirty ranges, for which this node lost hints, as soon as all their
// replicas are alive. And it repairs, table by table, the ranges of which this node is the first replica, when Interval
// has passed or the ring has changed since the last repair. It is safe for concurrent use.
type Auto struct {
	o      AutoOptions
	r      *Repairer
	events serial
	// Only events access the fields below.
	tables  map[schema.StorageID]*autoTable
	running *Run
	timer   env.Timer
	started bool
	closed  bool
	from    time.Duration // monotonic; no scheduled repair starts before
	// next is the table with which the search for a due repair begins. A search from the first table after each
	// repaired range would cost the square of the number of tables.
	next schema.StorageID
	idle idle

	dirty dirty
	// urgent is the repair of a dirty range. It runs beside running, with a budget of its own.
	urgent *Run
}

// idle is a search that found no due repair. It is not repeated for other events, such as repairs of dirty ranges,
// until the schema or the ring has changed, or until the time for the next search.
type idle struct {
	catalog *schema.Schema
	moved   uint64
	until   time.Duration // monotonic
}

// autoTable is the progress of the repairs of a table. Its local key and value:
//
//	autorepair/ table 4 → last 8, began 8, moved 8, at 8
type autoTable struct {
	last  int64 // ns; the start of the last complete repair; 0 means none
	began int64 // ns; the start of the repair under way; 0 means none
	moved uint64
	at    ring.Token // ranges that start before at are done in the repair under way; MaxToken means all
	// blocked is monotonic: the table is not repaired before, because its last repair failed. It is not stored.
	blocked time.Duration
}

const autoPrefix = "autorepair/"

// NewAuto reads the progress that an earlier process stored. Repairs begin with Start.
func NewAuto(o AutoOptions) *Auto {
	a := &Auto{o: o.withDefaults(), r: o.Repairer, tables: map[schema.StorageID]*autoTable{},
		events: serial{run: o.Repairer.run}}
	// Tables whose progress cannot be read are repaired again.
	_ = o.Store.ScanLocal([]byte(autoPrefix), func(key, value []byte) error {
		k, c := wire.NewCursor(key[len(autoPrefix):]), wire.NewCursor(value)
		t := &autoTable{last: c.Int64(), began: c.Int64(), moved: c.Uint64(), at: ring.Token(c.Int64())}
		if id := schema.StorageID(k.Uint32()); c.Finish() == nil && k.Finish() == nil {
			a.tables[id] = t
		}
		return nil
	})
	a.dirty.load(o.Store)
	return a
}

// Start starts repairs: dirty ranges at once, scheduled ones after the delay.
func (a *Auto) Start() {
	a.events.do(func() {
		a.started = true
		a.postpone()
		a.startDue()
	})
}

// Close cancels the repairs under way.
func (a *Auto) Close() {
	a.events.do(func() {
		a.closed = true
		if a.timer != nil {
			a.timer.Stop()
		}
		for _, r := range []*Run{a.running, a.urgent} {
			if r != nil {
				r.Cancel()
			}
		}
	})
}

// RetryWaiting is the event of a node coming up: repairs that waited for it are retried at once.
func (a *Auto) RetryWaiting() {
	a.events.do(func() {
		a.dirty.unblock()
		for _, t := range a.tables {
			t.blocked = 0
		}
		a.idle = idle{}
		a.startDue()
	})
}

// Moved is the event of a change of the ring.
func (a *Auto) Moved() { a.events.do(a.postpone) }

// postpone delays scheduled repairs until the ring has settled.
func (a *Auto) postpone() {
	delay := a.o.Delay
	if a.o.Rand != nil {
		delay += time.Duration(a.o.Rand.Uint64() % uint64(a.o.Delay+1))
	}
	a.from = a.r.clock.Monotonic() + delay
}

// startDue starts repairs that are due, and schedules its next call.
func (a *Auto) startDue() {
	if a.closed || !a.started {
		return
	}
	a.startDirty()
	if a.running != nil {
		return
	}
	if a.timer != nil {
		a.timer.Stop()
	}
	// Also without an event: repairs become due by time.
	a.timer = a.r.clock.After(a.o.RetryAfter/5, func() { a.events.do(a.startDue) })
	now := a.r.clock.Monotonic()
	// The start of the process, or a change of the ring, was a moment ago. Dirty ranges do not wait.
	if now < a.from {
		return
	}
	catalog, moved := a.r.view.Schema(), a.r.view.Topology().Moved()
	// Catalogs are immutable, so the same pointer means the same schema.
	if a.idle.catalog == catalog && a.idle.moved == moved && now < a.idle.until {
		return
	}
	if !a.repairDue(catalog, now) {
		a.forgetDropped(catalog)
		a.idle = idle{catalog, moved, now + a.o.RetryAfter/5}
	}
}

// repairDue starts the repair of the next range that is due, at the monotonic time now. It reports false if there is
// none.
func (a *Auto) repairDue(catalog *schema.Schema, now time.Duration) bool {
	ids := catalog.StorageIDs()
	// The table of the last repair comes first: its remaining ranges are repaired before another table.
	first, _ := slices.BinarySearch(ids, a.next)
	wall, moved := a.r.clock.Now().UnixNano(), a.r.view.Topology().Moved()
	for i := range ids {
		id := ids[(first+i)%len(ids)]
		table := catalog.TableByStorage(id)
		if table == nil || table.Virtual || table.Replication.Class == ring.Local {
			continue
		}
		if t := a.table(id); now >= t.blocked && a.due(table, t, wall, moved) && a.repairNext(table, t) {
			a.next = id
			return true
		}
	}
	return false
}

// forgetDropped removes the progress of dropped tables.
func (a *Auto) forgetDropped(catalog *schema.Schema) {
	for id := range a.tables {
		if catalog.Dropped(id) {
			delete(a.tables, id)
			_ = a.o.Store.DeleteLocal(autoKey(id), false) // on failure, after the next start
		}
	}
}

// table returns the progress of a table, and adds it: a table that was never repaired is due.
func (a *Auto) table(id schema.StorageID) *autoTable {
	t := a.tables[id]
	if t == nil {
		t = &autoTable{}
		a.tables[id] = t
	}
	return t
}

// due reports whether the repair of a table is under way or due. now is in nanoseconds, moved comes from the topology.
//
// A repair under way is due at once: it was interrupted between two ranges.
func (a *Auto) due(table *schema.Table, t *autoTable, now int64, moved uint64) bool {
	every := a.o.Interval
	if grace := time.Duration(table.Options.GCGraceSeconds) * time.Second / 2; grace > 0 {
		every = min(every, grace)
	}
	// In this order: under way, never repaired, repaired in another ring, or too long ago.
	return t.began != 0 || t.last == 0 || t.moved != moved || time.Duration(now-t.last) >= every
}

// repairNext repairs the next range of which this node is the first replica. It reports false when there is none.
func (a *Auto) repairNext(table *schema.Table, t *autoTable) bool {
	topology, self := a.r.view.Topology(), a.r.view.Self()
	// A repair that was under way when the ring moved begins again: this node may be the first replica of other
	// ranges.
	if t.began == 0 || t.moved != topology.Moved() {
		t.began, t.moved, t.at = a.r.clock.Now().UnixNano(), topology.Moved(), ring.MinToken
	}
	for _, piece := range topology.Placement(table.Replication).Ranges(ring.FullRange()) {
		// MinToken is the start of the first range, and not less than itself: nothing is done then.
		done := piece.Range.Start < t.at || t.at == ring.MaxToken
		if done || len(piece.Replicas.Natural) == 0 || piece.Replicas.Natural[0] != self {
			continue
		}
		a.run(table.StorageID, piece.Range, t, func(err error) {
			if err != nil {
				return
			}
			// Only one repair of a table is under way, so at is where it was when this one began.
			invariant.Check(piece.Range.End == ring.MinToken || piece.Range.End > t.at,
				"repair: the position of a table goes back")
			if t.at = piece.Range.End; t.at == ring.MinToken {
				t.at = ring.MaxToken // the last range
			}
			a.store(table.StorageID, t)
		})
		return true
	}
	// last is the start, not the end: writes during the repair are not covered by it.
	t.last, t.began = t.began, 0
	a.store(table.StorageID, t)
	return false
}

func autoKey(id schema.StorageID) []byte {
	return binary.BigEndian.AppendUint32([]byte(autoPrefix), uint32(id))
}

// store stores the progress of a table without a sync, because repeating a repair does no harm.
func (a *Auto) store(id schema.StorageID, t *autoTable) {
	value := wire.AppendInt64(wire.AppendInt64(nil, t.last), t.began)
	value = wire.AppendInt64(wire.AppendUint64(value, t.moved), int64(t.at))
	_ = a.o.Store.SetLocal(autoKey(id), value, false) // on failure the range is repaired again
}

// run repairs a range.
func (a *Auto) run(id schema.StorageID, tokens ring.Range, t *autoTable, then func(error)) {
	// If the job ends before Start returns, its end is an event after this one.
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
		err = nil // the table was dropped
	}
	// The table is skipped until then, and others are repaired.
	if err != nil {
		t.blocked = a.r.clock.Monotonic() + a.o.RetryAfter
	}
	then(err)
	if a.closed {
		return
	}
	if err != nil || report.Rows > 0 || report.Unpurged > 0 {
		// Repairs that find nothing are not reported: there is one for each range and interval.
		message := fmt.Sprintf("repair of table %s, %v: %d rows sent", a.r.nameOf(id), report.Job.Range, report.Rows)
		if report.Unpurged > 0 {
			message += fmt.Sprintf(", Paxos state of %d ranges not purged", report.Unpurged)
		}
		a.o.Note(message, err)
	}
	// In a new event: recursion over all ranges of all tables would be deep if repairs ended at once.
	a.r.clock.After(0, func() { a.events.do(a.startDue) })
}
