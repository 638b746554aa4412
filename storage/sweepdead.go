package storage

import (
	"bytes"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"cqld/internal/wire"
	"cqld/storage/rowkey"
)

// deadPartitions are partitions in which a read met many rows that deletions shadow. The purger removes these rows soon,
// with range deletions, so that later reads do not look at each of them again.
type deadPartitions struct {
	count atomic.Int32
	wake  chan struct{} // has a value if the purger must look; nil in an engine without goroutines
	mu    sync.Mutex
	spans map[string]*sweepSpan // by the prefix of the partition, or the first key of the range
	// suspects are deleted partitions and ranges whose size was not looked at yet.
	suspects []keySpan
}

// suspect records what was deleted, unless too much waits.
func (d *deadPartitions) suspect(deleted []keySpan) {
	if len(deleted) == 0 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.suspects = append(d.suspects, deleted[:min(len(deleted), deadPartitionsMax-len(d.suspects))]...)
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// takeSuspects returns what suspect recorded.
func (d *deadPartitions) takeSuspects() []keySpan {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := d.suspects
	d.suspects = nil
	return out
}

// add records a partition, unless too many wait.
func (d *deadPartitions) add(prefix []byte) {
	d.addSpan(prefix, append(bytes.Clone(prefix), rowkey.KindEnd))
}

func (d *deadPartitions) addSpan(start, end []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, known := d.spans[string(start)]; known || len(d.spans) >= deadPartitionsMax {
		return
	}
	if d.spans == nil {
		d.spans = map[string]*sweepSpan{}
	}
	d.spans[string(start)] = &sweepSpan{position: bytes.Clone(start), end: end}
	d.count.Add(1)
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// any returns a partition that waits, one whose sweep has begun if there is one; nil means that there is none.
func (d *deadPartitions) any() (prefix string, x *sweepSpan) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for prefix, x = range d.spans {
		if len(x.position) > len(prefix) {
			break
		}
	}
	return prefix, x
}

func (d *deadPartitions) remove(prefix string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, known := d.spans[prefix]; known {
		delete(d.spans, prefix)
		d.count.Add(-1)
	}
}

// noteShadowed records the partition that was read, if a deletion shadows many of its rows.
func (r *reader) noteShadowed() {
	if r.shadowed >= r.e.opts.ShadowedRows {
		r.e.sweeper.dead.add(r.prefix)
	}
	r.shadowed = 0
}

// SweepDead purges up to budget entries of the partitions in which reads met many shadowed rows. done means that no such
// partition is left.
func (e *Engine) SweepDead(budget int) (done bool, err error) {
	s := &e.sweeper
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := e.measureSuspects(); err != nil {
		return false, e.failure(err)
	}
	prefix, x := s.dead.any()
	if x == nil {
		return true, nil
	}
	swept, err := e.sweepLocked(x, budget)
	if swept || err != nil {
		s.dead.remove(prefix)
	}
	return s.dead.count.Load() == 0, e.failure(err)
}

// measureSuspects has the rows purged that were deleted together, if files contain much of them: the next read would
// look at each.
func (e *Engine) measureSuspects() error {
	for _, x := range e.sweeper.dead.takeSuspects() {
		size, err := e.db.EstimateDiskUsage(x.start, x.end)
		if err != nil {
			return err
		}
		if size >= uint64(e.opts.suspectBytes) {
			e.sweeper.dead.addSpan(x.start, x.end)
		}
	}
	return nil
}

// purgeSpan purges all dead data of a span. It stops when ctx ends.
func (e *Engine) purgeSpan(ctx context.Context, x *sweepSpan) error {
	s := &e.sweeper
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		if e.stopping() {
			return ErrStopped
		}
		s.mu.Lock()
		done, err := e.sweepLocked(x, sweepDeadRows)
		s.mu.Unlock()
		if done || err != nil {
			return e.failure(err)
		}
	}
}

// sweptKey is the local key of the position of the purger's pass:
//
//	time at which the last pass ended (seconds) 8, position
func sweptKey() []byte { return []byte("storage.swept") }

// savePass saves the position of the pass now and then, so that the pass continues after a restart. The sweeper is locked.
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
		value = append(value, s.pass.position...)
	}
	return e.overwrite(func(b *pebble.Batch) error { return b.Set(localKey(sweptKey()), value, nil) })
}

// loadPass loads the position of the pass when the engine is opened.
func (e *Engine) loadPass() error {
	value, err := e.GetLocal(sweptKey())
	if err != nil || len(value) < 8 {
		return err
	}
	c := wire.NewCursor(value)
	e.sweeper.ended = c.Int64()
	e.sweeper.pass.position = bytes.Clone(c.Rest())
	return nil
}

// firstSweep returns how long the purger waits after the start: it continues an interrupted pass soon, and begins the next
// pass when it would have begun without the restart.
func (e *Engine) firstSweep() time.Duration {
	s := &e.sweeper
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.pass.position) > 0 {
		return sweepStart
	}
	since := time.Duration(e.opts.Clock.Now().Unix()-s.ended) * time.Second
	return min(max(sweepEvery-since, sweepStart), sweepEvery)
}

// sweepLoop sweeps while the engine is open.
func (e *Engine) sweepLoop() {
	rest := e.firstSweep()
	due := e.opts.Clock.Monotonic() + rest // of the pass
	for e.pauseOr(rest, e.sweeper.dead.wake) {
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
