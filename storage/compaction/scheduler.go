// Package compaction decides when Pebble may run compactions, and how long flushes and compactions keep a processor.
//
// Pebble's own scheduler asks every 100 ms whether another compaction may run. On an idle node with two databases these
// 20 wake-ups a second were most of the CPU time. A Scheduler has the same limit, which Pebble computes from its
// backlog, and asks only when the answer can have changed:
//
//	a compaction is wanted ── TrySchedule ─────────────────────────┐
//	a flush has ended ─────── UpdateGetAllowedWithoutPermission ───┼──▶ running < allowed: run one more
//	a compaction has ended ── Done ────────────────────────────────┘
//
// Flushes and compactions compute for a long time on few processors; Yielding lets requests run between their keys.
//
// The package does not choose what is compacted: Pebble does.
package compaction

import (
	"sync"

	"github.com/cockroachdb/pebble/v2"
)

// Scheduler implements pebble.CompactionScheduler for one database. The zero value is ready for use. Pebble's locks are
// acquired before mu, so no method of the database that acquires them is called with mu held.
type Scheduler struct {
	// granting counts the goroutines of grant. Unregister waits for them.
	granting sync.WaitGroup
	db       pebble.DBForCompaction // set by Register, before all other calls

	mu struct {
		sync.Mutex
		running  int  // compactions
		granter  bool // a goroutine of grant runs
		again    bool // the granter looks once more before it ends
		finished bool // Unregister was called
	}
}

// Register implements pebble.CompactionScheduler.
func (s *Scheduler) Register(_ int, db pebble.DBForCompaction) { s.db = db }

// Unregister implements pebble.CompactionScheduler. It waits until the database is no longer called.
func (s *Scheduler) Unregister() {
	s.mu.Lock()
	s.mu.finished = true
	s.mu.Unlock()
	s.granting.Wait()
}

// TrySchedule implements pebble.CompactionScheduler. Pebble calls it with its locks held.
func (s *Scheduler) TrySchedule() (bool, pebble.CompactionGrantHandle) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.finished || s.mu.running >= s.db.GetAllowedWithoutPermission() {
		// The granter may have reserved a slot for a compaction that the database does not want; it then has to look
		// again.
		s.mu.again = s.mu.granter
		return false, nil
	}
	s.mu.running++
	return true, (*grant)(s)
}

// UpdateGetAllowedWithoutPermission implements pebble.CompactionScheduler. Pebble calls it after each flush, which can
// increase the backlog, with its locks held: another goroutine has to offer the compaction.
func (s *Scheduler) UpdateGetAllowedWithoutPermission() { s.offer() }

// offer makes a goroutine offer the database as many compactions as may run.
func (s *Scheduler) offer() {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.mu.finished:
	case s.mu.granter:
		s.mu.again = true
	default:
		s.mu.granter = true
		s.granting.Go(s.grantAll)
	}
}

// grantAll offers compactions until the limit is reached or the database wants none.
func (s *Scheduler) grantAll() {
	for s.reserve() {
		if waiting, _ := s.db.GetWaitingCompaction(); waiting && s.db.Schedule((*grant)(s)) {
			continue
		}
		s.mu.Lock()
		s.mu.running--
		s.mu.Unlock()
		if !s.repeat() {
			return
		}
	}
}

// reserve counts one more compaction as running if the limit allows it. Otherwise the granter ends.
func (s *Scheduler) reserve() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.finished || s.mu.running >= s.db.GetAllowedWithoutPermission() {
		s.mu.granter, s.mu.again = false, false
		return false
	}
	s.mu.running++
	return true
}

// repeat reports whether something has changed since the granter last looked. Otherwise the granter ends.
func (s *Scheduler) repeat() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.granter, s.mu.again = s.mu.again, false
	return s.mu.granter
}

// grant is the permission to run one compaction. It implements pebble.CompactionGrantHandle; CPU time is not measured.
type grant Scheduler

// Started implements pebble.CompactionGrantHandle.
func (*grant) Started() {}

// MeasureCPU implements pebble.CompactionGrantHandle.
func (*grant) MeasureCPU(pebble.CompactionGoroutineKind) {}

// CumulativeStats implements pebble.CompactionGrantHandle.
func (*grant) CumulativeStats(pebble.CompactionGrantHandleStats) {}

// Done implements pebble.CompactionGrantHandle. Pebble calls it without its locks, once the compaction has ended.
func (g *grant) Done() {
	s := (*Scheduler)(g)
	s.mu.Lock()
	s.mu.running--
	s.mu.Unlock()
	s.offer()
}
