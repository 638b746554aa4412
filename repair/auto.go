package repair

import (
	"cmp"
	"slices"
	"time"

	"cqld/internal/env"
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
	// Note reports to the operator; nil discards. It is called by one goroutine at a time for scheduled repairs, and by
	// another one for dirty ranges.
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

// tick returns how often repairs are looked for without an event: they become due by time, and the catalog changes.
func (o *AutoOptions) tick() time.Duration { return o.RetryAfter / 5 }

// Auto repairs in the background. It repairs dirty ranges, for which this node lost hints, as soon as all their
// replicas are alive. And it repairs, table by table, the ranges of which this node is the first replica, when Interval
// has passed or the ring has changed since the last repair. It is safe for concurrent use.
//
// The two have separate machines, so that neither waits for the other: a dirty range is repaired concurrently with a
// scheduled repair, from a separate budget, and a lost hint does not wait for the search for a due repair.
type Auto struct {
	o         AutoOptions
	dirty     dirtyMachine
	scheduled scheduleMachine
	// The lock of each shell guards the machine of the same name.
	dirtyShell, scheduledShell autoShell
}

// autoMachine is one of Auto's machines.
type autoMachine interface {
	step(ev *autoEvent, out []autoEffect) []autoEffect
	check()
}

// autoShell is the shell of one of Auto's machines.
type autoShell struct {
	shell[autoEvent, autoEffect]
	// Only perform accesses the fields below, in one goroutine at a time.
	running *Run
	timer   env.Timer
}

// NewAuto reads the progress that an earlier process stored. Repairs begin with Start.
func NewAuto(o AutoOptions) *Auto {
	a := &Auto{o: o.withDefaults()}
	a.dirty = dirtyMachine{view: o.Repairer.view, o: &a.o, tables: loadDirty(o.Store)}
	a.scheduled = scheduleMachine{view: o.Repairer.view, o: &a.o, tables: loadSchedule(o.Store)}
	a.connect(&a.dirtyShell, &a.dirty)
	a.connect(&a.scheduledShell, &a.scheduled)
	return a
}

// connect makes s the shell of m.
func (a *Auto) connect(s *autoShell, m autoMachine) {
	s.run = a.o.Repairer.run
	s.step = func(ev *autoEvent, out []autoEffect) []autoEffect {
		clock := a.o.Repairer.clock
		ev.now, ev.wall = clock.Monotonic(), clock.Now().UnixNano()
		out = m.step(ev, out)
		m.check()
		return out
	}
	s.perform = func(e *autoEffect) { a.perform(s, e) }
}

// Start starts repairs: dirty ranges at once, scheduled ones after the delay.
func (a *Auto) Start() { a.deliver(autoEvent{kind: autoStarted, delay: a.delay()}) }

// Close cancels the repairs under way.
func (a *Auto) Close() { a.deliver(autoEvent{kind: autoStopped}) }

// RetryWaiting is called when a node has come up: repairs that waited for it are retried at once.
func (a *Auto) RetryWaiting() { a.deliver(autoEvent{kind: autoUnblocked}) }

// Moved is called after a change of the ring. Scheduled repairs wait until it has settled. Dirty ranges whose
// replicas were changing may be repaired now.
func (a *Auto) Moved() { a.deliver(autoEvent{kind: autoMoved, delay: a.delay()}) }

// deliver delivers an event to both machines: dirty ranges come first.
func (a *Auto) deliver(ev autoEvent) {
	second := ev
	a.dirtyShell.deliver(&ev)
	a.scheduledShell.deliver(&second)
}

// delay returns the pause before scheduled repairs.
func (a *Auto) delay() time.Duration {
	if a.o.Rand == nil {
		return a.o.Delay
	}
	// Rand may not be safe for concurrent use.
	a.scheduledShell.mu.Lock()
	defer a.scheduledShell.mu.Unlock()
	return a.o.Delay + time.Duration(a.o.Rand.Uint64()%uint64(a.o.Delay+1))
}

// Dirty records that a hint for a partition was lost, or a logged batch with it was dropped. Its range is repaired as
// soon as all replicas are alive. Dirty is cheap if the range is dirty already, and does not block.
func (a *Auto) Dirty(table schema.StorageID, t ring.Token) {
	// The usual case when many hints are lost needs no event.
	if chunk := chunkOf(t); !a.marked(table, chunk) {
		a.dirtyShell.deliver(&autoEvent{kind: autoLost, table: table, chunk: chunk})
	}
}

// marked reports whether a lost hint of a chunk would change nothing.
func (a *Auto) marked(table schema.StorageID, chunk int) bool {
	a.dirtyShell.mu.Lock()
	defer a.dirtyShell.mu.Unlock()
	t := a.dirty.tables[table]
	return t != nil && t.again.has(chunk)
}

// DirtyTables returns the tables that wait for a repair because hints were lost, sorted.
func (a *Auto) DirtyTables() []schema.StorageID {
	a.dirtyShell.mu.Lock()
	defer a.dirtyShell.mu.Unlock()
	return a.dirty.ids()
}

// perform performs an effect of one of the machines without its lock.
func (a *Auto) perform(s *autoShell, e *autoEffect) {
	number := e.number
	//exhaustive:enforce
	switch e.kind {
	// Without a sync, because repeating a repair does no harm. After a failure it is repeated.
	case autoStore:
		if e.value == nil {
			_ = a.o.Store.DeleteLocal(e.key, false)
		} else {
			_ = a.o.Store.SetLocal(e.key, e.value, false)
		}
	case autoRepair:
		// If the job ends before Start returns, the effects of its end follow this one.
		s.running = a.o.Repairer.Start(e.job, nil, func(report Report, err error) {
			s.deliver(&autoEvent{kind: autoRepaired, number: number, report: report, err: err})
		})
	case autoPause:
		s.stopTimer()
		s.timer = a.o.Repairer.clock.After(e.after, func() {
			s.deliver(&autoEvent{kind: autoResumed, number: number})
		})
	case autoNote:
		a.o.Note(e.note, e.err)
	case autoCancel:
		s.stopTimer()
		if s.running != nil {
			s.running.Cancel() // has no effect after its end
		}
	}
}

// stopTimer stops the timer. If it has fired already, the machine ignores its event.
func (s *autoShell) stopTimer() {
	if s.timer != nil {
		s.timer.Stop()
	}
}

// sortedIDs returns the keys of a map of tables, sorted: steps must not depend on the order of a map.
func sortedIDs[T any](tables map[schema.StorageID]T) []schema.StorageID {
	out := make([]schema.StorageID, 0, len(tables))
	for id := range tables {
		out = append(out, id)
	}
	slices.Sort(out)
	return out
}
