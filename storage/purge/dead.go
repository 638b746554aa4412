package purge

import (
	"bytes"
	"context"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"cqld/internal/invariant"
	"cqld/internal/wire"
	"cqld/storage/backlog"
	"cqld/storage/failure"
)

// SweepDead purges up to budget entries of the partitions in which reads met many shadowed rows. done means that no
// such partition is left. A partition that fails is removed from the list as well, so that one corrupt block does not
// keep the others waiting; the pass finds it again.
func (s *Purger) SweepDead(budget int) (done bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.measureSuspects(); err != nil {
		return false, failure.Of(err)
	}
	// x keeps its position between calls, so a large partition takes several of them.
	prefix, x := s.dead.Any()
	if x == nil {
		return true, nil
	}
	swept, err := s.sweepLocked(x, budget)
	if swept || err != nil {
		s.dead.Remove(prefix)
	}
	return s.dead.Len() == 0, failure.Of(err)
}

// MeasureSuspects is the first part of SweepDead.
func (s *Purger) MeasureSuspects() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.measureSuspects()
}

// measureSuspects purges rows that were deleted together if files contain many of them: once the partition has a
// newer row, each read would have to examine all of them.
func (s *Purger) measureSuspects() error {
	for _, x := range s.dead.TakeSuspects() {
		// The estimate covers files only; rows in memtables do not count.
		size, err := s.opts.DB.EstimateDiskUsage(x.Start, x.End)
		if err != nil {
			return err
		}
		if size < uint64(s.opts.SuspectBytes) {
			continue
		}
		// One range deletion is far cheaper than a sweep. It is refused if a row of the partition may be newer than the
		// deletion, and then the rows must be read.
		if removed, err := s.removeCovered(x); err != nil {
			return err
		} else if !removed {
			s.dead.Add(x)
		}
	}
	return nil
}

// Span purges all dead data of a span. It stops when ctx ends. The caller owns x, which contains the position: after an
// error it may call Span again to continue. The error is ctx.Err or failure.ErrStopped if it was interrupted.
func (s *Purger) Span(ctx context.Context, x *backlog.Sweep) error {
	invariant.Check(x.End == nil || bytes.Compare(x.Position, x.End) < 0,
		"purge: span [%x, %x) is empty", x.Position, x.End)
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		if s.stopping() {
			return failure.ErrStopped
		}
		// The lock is held for one step only, so that the pass and the purge of reported partitions proceed beside a
		// long span.
		s.mu.Lock()
		done, err := s.sweepLocked(x, sweepDeadRows)
		s.mu.Unlock()
		if done || err != nil {
			return failure.Of(err)
		}
	}
}

// savePass saves the position of the pass now and then, so that the pass continues after a restart. mu is held. The
// value is the time at which the last complete pass ended (eight bytes, seconds), followed by the position of the
// running pass; no position means that none is running.
func (s *Purger) savePass(wrapped bool) error {
	if s.unsaved++; !wrapped && s.unsaved < SaveEvery {
		return nil
	}
	s.unsaved = 0
	value := wire.AppendInt64(nil, s.ended)
	if wrapped {
		// The time is a wall-clock time, because FirstRest compares it after a restart.
		s.ended = s.opts.Clock.Now().Unix()
		value = wire.AppendInt64(value[:0], s.ended)
	} else {
		value = append(value, s.pass.Position...)
	}
	return s.opts.DB.Overwrite(func(b *pebble.Batch) error { return b.Set(s.opts.PositionKey, value, nil) })
}

// Load loads the position of the pass when the engine is opened.
func (s *Purger) Load() error {
	value, err := s.opts.DB.Value(s.opts.PositionKey)
	if err != nil || len(value) < 8 { // no pass has begun
		return err
	}
	c := wire.NewCursor(value)
	s.ended = c.Int64()
	s.pass.Position = bytes.Clone(c.Rest())
	return nil
}

// FirstRest returns how long the purger waits after the start. It continues an interrupted pass soon, and begins the
// next pass at the time at which it would have begun without the restart.
func (s *Purger) FirstRest() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	// The pass was interrupted: the rest between two passes follows complete ones only.
	if len(s.pass.Position) > 0 {
		return StartAfter
	}
	// The clock may have been set back since, which would make the rest longer than PassEvery; hence the outer minimum.
	since := time.Duration(s.opts.Clock.Now().Unix()-s.ended) * time.Second
	return min(max(PassEvery-since, StartAfter), PassEvery)
}

// Run sweeps until Options.Stop is closed. A step that fails is logged, and the purger rests.
// Partitions that reads reported have precedence over the pass, because their rows slow reads down now.
func (s *Purger) Run() {
	rest := s.FirstRest()
	due := s.opts.Clock.Monotonic() + rest // of the pass
	for s.pauseOr(rest, s.dead.Wake) {
		for done := false; !done; {
			var err error
			if done, err = s.SweepDead(sweepDeadRows); err != nil {
				s.opts.Logger.Error("purge of shadowed rows failed", "err", err)
			}
			if !done && !s.pause(PauseEvery) {
				return
			}
		}
		// The purger was woken for reported partitions, and the pass is not due yet.
		if now := s.opts.Clock.Monotonic(); now < due {
			rest = due - now
			continue
		}
		wrapped, err := s.Sweep(sweepRows)
		if err != nil {
			s.opts.Logger.Error("purge failed", "err", err)
		}
		// After an error the purger rests for as long as between two passes, so that a block that cannot be read does
		// not fill the log.
		rest = PauseEvery
		if wrapped || err != nil {
			rest = PassEvery
		}
		due = s.opts.Clock.Monotonic() + rest
	}
}
