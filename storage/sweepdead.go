package storage

import (
	"bytes"
	"context"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"cqld/internal/wire"
	"cqld/storage/backlog"
	"cqld/storage/failure"
)

// SweepDead purges up to budget entries of the partitions in which reads met many shadowed rows. done means that no
// such partition is left.
func (e *Engine) SweepDead(budget int) (done bool, err error) {
	s := &e.sweeper
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := e.measureSuspects(); err != nil {
		return false, failure.Of(err)
	}
	prefix, x := s.dead.Any()
	if x == nil {
		return true, nil
	}
	swept, err := e.sweepLocked(x, budget)
	if swept || err != nil {
		s.dead.Remove(prefix)
	}
	return s.dead.Len() == 0, failure.Of(err)
}

// measureSuspects has the rows purged that were deleted together, if files contain much of them: a read would look at
// each as soon as the partition has a newer row.
func (e *Engine) measureSuspects() error {
	for _, x := range e.sweeper.dead.TakeSuspects() {
		size, err := e.db.EstimateDiskUsage(x.Start, x.End)
		if err != nil {
			return err
		}
		if size < uint64(e.opts.suspectBytes) {
			continue
		}
		if removed, err := e.removeCovered(x); err != nil {
			return err
		} else if !removed {
			e.sweeper.dead.Add(x)
		}
	}
	return nil
}

// purgeSpan purges all dead data of a span. It stops when ctx ends.
func (e *Engine) purgeSpan(ctx context.Context, x *backlog.Sweep) error {
	s := &e.sweeper
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		if e.stopping() {
			return failure.ErrStopped
		}
		s.mu.Lock()
		done, err := e.sweepLocked(x, sweepDeadRows)
		s.mu.Unlock()
		if done || err != nil {
			return failure.Of(err)
		}
	}
}

// sweptKey is the local key of the position of the purger's pass:
//
//	time at which the last pass ended (seconds) 8, position
func sweptKey() []byte { return []byte("storage.swept") }

// savePass saves the position of the pass now and then, so that the pass continues after a restart. The sweeper is
// locked.
func (e *Engine) savePass(wrapped bool) error {
	s := &e.sweeper
	if s.unsaved++; !wrapped && s.unsaved < sweepSaveEvery {
		return nil
	}
	s.unsaved = 0
	value := wire.AppendInt64(nil, s.ended)
	if wrapped {
		s.ended = e.opts.Clock.Now().Unix()
		value = wire.AppendInt64(value[:0], s.ended)
	} else {
		value = append(value, s.pass.Position...)
	}
	return e.db.Overwrite(func(b *pebble.Batch) error { return b.Set(localKey(sweptKey()), value, nil) })
}

// loadPass loads the position of the pass when the engine is opened.
func (e *Engine) loadPass() error {
	value, err := e.GetLocal(sweptKey())
	if err != nil || len(value) < 8 {
		return err
	}
	c := wire.NewCursor(value)
	e.sweeper.ended = c.Int64()
	e.sweeper.pass.Position = bytes.Clone(c.Rest())
	return nil
}

// firstSweep returns how long the purger waits after the start: it continues an interrupted pass soon, and begins the
// next pass when it would have begun without the restart.
func (e *Engine) firstSweep() time.Duration {
	s := &e.sweeper
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.pass.Position) > 0 {
		return sweepStart
	}
	since := time.Duration(e.opts.Clock.Now().Unix()-s.ended) * time.Second
	return min(max(sweepEvery-since, sweepStart), sweepEvery)
}

// sweepLoop sweeps while the engine is open.
func (e *Engine) sweepLoop() {
	rest := e.firstSweep()
	due := e.opts.Clock.Monotonic() + rest // of the pass
	for e.pauseOr(rest, e.sweeper.dead.Wake) {
		for done := false; !done; {
			var err error
			if done, err = e.SweepDead(sweepDeadRows); err != nil {
				e.opts.Logger.Error("storage: purge of shadowed rows failed", "error", err)
			}
			if !done && !e.pause(sweepPause) {
				return
			}
		}
		if now := e.opts.Clock.Monotonic(); now < due {
			rest = due - now
			continue
		}
		wrapped, err := e.Sweep(sweepRows)
		if err != nil {
			e.opts.Logger.Error("storage: sweep failed", "error", err)
		}
		rest = sweepPause
		if wrapped || err != nil {
			rest = sweepEvery
		}
		due = e.opts.Clock.Monotonic() + rest
	}
}
