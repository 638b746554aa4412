package storage

import (
	"bytes"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/storage/backlog"
	"cqld/storage/failure"
	"cqld/storage/latch"
	"cqld/storage/rowkey"
)

// sweeper is the purger. It removes data that Pebble cannot: rows that a deletion shadows, and tombstones and expired
// cells that no replica needs any more.
//
// It purges a partition's rows first, and its range tombstones and header last: a tombstone may be removed only when
// nothing is left that it shadows. A concurrent write could add such a row, so a partition that was written to during
// its sweep keeps its tombstones until the next one (watch).
type sweeper struct {
	mu   sync.Mutex
	pass backlog.Sweep  // over everything
	now  *backlog.Sweep // to which part belongs; nil if part is not active
	part sweptPartition
	// unsaved counts the steps of the pass since its position was saved.
	unsaved int
	ended   int64 // when the last pass ended (seconds)
	dead    *backlog.Dead
}

// sweptPartition is the partition being purged.
type sweptPartition struct {
	active    bool
	table     schema.StorageID
	token     ring.Token
	prefix    []byte
	gcBefore  int64
	header    row.Row
	raw       []row.RangeTombstone
	deletions []row.RangeTombstone
	pending   [][]byte // keys of rows to be purged
	bytes     int      // of these rows
	removed   bool     // a key of it was removed
	// watched means that commits were detected before the iterator was created.
	watched bool
	// resumed means that its first rows were swept before, when commits to it were not detected.
	resumed bool
	run     deadRun
}

// deadRun is a run of adjacent rows that deletions shadow.
type deadRun struct {
	first, last []byte
	rows        int
}

// watch detects commits to one partition.
type watch struct {
	active atomic.Bool
	token  atomic.Int64
	dirty  atomic.Bool
}

// note is called with the partitions of a commit, under their latches.
func (w *watch) note(tokens []ring.Token) {
	if w.active.Load() && slices.Contains(tokens, ring.Token(w.token.Load())) {
		w.dirty.Store(true)
	}
}

// noteAll is called when many partitions may have changed, under all latches.
func (w *watch) noteAll() {
	if w.active.Load() {
		w.dirty.Store(true)
	}
}

// Sweep scans up to budget more entries and purges dead data among them. wrapped means that it has reached the end
// and will start again.
func (e *Engine) Sweep(budget int) (wrapped bool, err error) {
	if e.opts.Inline {
		e.disk.Check()
		for done := false; !done && err == nil; {
			done, err = e.SweepDead(budget)
		}
	}
	if e.disk.Full() || err != nil {
		return err == nil, err // even a purge needs space first
	}
	s := &e.sweeper
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.pass.Position) == 0 {
		s.pass.Position = rowkey.AppendTable(s.pass.Position, 1)
	}
	if wrapped, err = e.sweepLocked(&s.pass, budget); err == nil {
		err = e.savePass(wrapped)
	}
	return wrapped, failure.Of(err)
}

// sweepLocked scans up to budget more entries of a span. done means that it has reached its end. The sweeper is locked.
func (e *Engine) sweepLocked(x *backlog.Sweep, budget int) (done bool, err error) {
	if err := e.db.Err(); err != nil {
		return false, err
	}
	if e.disk.Full() {
		return true, nil
	}
	s := &e.sweeper
	if s.now != x {
		if err := e.leavePartition(); err != nil {
			return false, err
		}
		s.now = x
	}
	if done, err = e.sweepFrom(x, budget); err != nil {
		// Do not read the same corrupt block forever: start again from the beginning.
		s.forget()
		x.Position = x.Position[:0]
		e.watched.active.Store(false)
	}
	return done, err
}

// forget drops what is known of the partition being swept: keys were removed other than by writes, or could not be
// read. The sweep resumes at its position.
func (s *sweeper) forget() {
	s.now, s.part.active, s.part.pending, s.part.run.rows = nil, false, s.part.pending[:0], 0
}

// leavePartition ends the sweep of a partition that will be resumed later.
func (e *Engine) leavePartition() error {
	p := &e.sweeper.part
	if !p.active {
		return nil
	}
	defer e.watched.active.Store(false)
	err := e.endRun()
	if err == nil {
		err = e.purgeRows()
	}
	p.active = false
	return err
}

// sweepFrom sweeps from the span's position on.
func (e *Engine) sweepFrom(x *backlog.Sweep, budget int) (done bool, err error) {
	now := e.opts.Clock.Now().Unix()
	for {
		iter, err := e.db.NewIter(&pebble.IterOptions{LowerBound: x.Position, UpperBound: x.End})
		if err != nil {
			return false, err
		}
		stopped, err := e.sweepWith(iter, x, &budget, now)
		if err = errors.Join(err, iter.Error(), iter.Close()); err != nil {
			return false, err
		}
		switch {
		case !stopped:
			x.Position = x.Position[:0]
			return true, e.endPartition()
		case budget <= 0:
			return false, e.purgeRows()
		}
	}
}

// sweepWith sweeps until the iterator or the budget ends, or until a partition with a header begins: conclusions from
// its header require an iterator that was created after commits to it are detected.
func (e *Engine) sweepWith(iter *pebble.Iterator, x *backlog.Sweep, budget *int, now int64) (stopped bool, err error) {
	s := &e.sweeper
	first := true
	for valid := iter.First(); valid; valid = iter.Next() {
		table, key, suffix, err := rowkey.Parse(iter.Key())
		if err != nil {
			return false, err
		}
		begins := !s.part.active || !bytes.HasPrefix(iter.Key(), s.part.prefix)
		if begins {
			if err := e.endPartition(); err != nil {
				return false, err
			}
			e.beginPartition(table, key, now)
			kind := row.EntryKind(suffix[0])
			if s.part.watched = kind == row.KindHeader; first && kind != row.KindHeader {
				if err := e.resumePartition(); err != nil {
					return false, err
				}
			}
		}
		first = false
		if *budget <= 0 || begins && s.part.watched {
			x.Position = append(x.Position[:0], iter.Key()...)
			return true, nil
		}
		*budget--
		e.counters.swept.Add(1)
		if err := e.sweepEntry(iter, suffix); err != nil {
			return false, err
		}
	}
	return false, nil
}

// resumePartition reads the header and the range tombstones of a partition whose sweep may begin in its midst.
func (e *Engine) resumePartition() error {
	p := &e.sweeper.part
	iter, err := e.db.NewIter(&pebble.IterOptions{LowerBound: p.prefix,
		UpperBound: append(slices.Clone(p.prefix), byte(row.KindRow))})
	if err != nil {
		return err
	}
	for valid := iter.First(); valid && err == nil; valid = iter.Next() {
		p.watched, p.resumed = true, true
		err = e.sweepEntry(iter, iter.Key()[len(p.prefix):])
	}
	return errors.Join(err, iter.Error(), iter.Close())
}

// beginPartition starts the sweep of a partition, and starts detecting commits to it.
func (e *Engine) beginPartition(table schema.StorageID, key row.PartitionKey, now int64) {
	p := &e.sweeper.part
	info := e.opts.Table(table)
	p.active, p.table, p.token = true, table, key.Token
	p.prefix = rowkey.AppendPartition(p.prefix[:0], table, key)
	p.gcBefore = info.GCBefore(key.Token, now)
	p.header.Reset()
	p.raw, p.deletions, p.removed = p.raw[:0], nil, false
	p.watched, p.resumed, p.run.rows = false, false, 0
	stripe := latch.StripeOf(key.Token)
	e.latches.Lock(stripe)
	e.watched.token.Store(int64(key.Token))
	e.watched.dirty.Store(false)
	e.watched.active.Store(true)
	e.latches.Unlock(stripe)
}

func (e *Engine) sweepEntry(iter *pebble.Iterator, suffix []byte) error {
	p := &e.sweeper.part
	value, err := iter.ValueAndErr()
	if err != nil {
		return err
	}
	switch row.EntryKind(suffix[0]) {
	case row.KindHeader:
		header := row.NewRow()
		if err := row.DecodeRow(header, value); err != nil {
			return &failure.CorruptError{Err: err}
		}
		p.header = header.Clone()
	case row.KindRangeTombstone:
		_, start, end, ok := rowkey.ParseRangeTombstone(nil, suffix)
		if !ok {
			return failure.BadKey(iter.Key())
		}
		deletion := row.NewRow()
		if err := row.DecodeRow(deletion, value); err != nil {
			return &failure.CorruptError{Err: err}
		}
		p.raw = append(p.raw, row.RangeTombstone{Start: start, End: end, Deletion: deletion.Deletion})
	case row.KindRow:
		return e.sweepRow(iter.Key(), suffix[1:], value)
	}
	return nil
}

// sweepRow records a row's key if some part of the row is dead.
func (e *Engine) sweepRow(key, clustering, value []byte) error {
	p := &e.sweeper.part
	sum, err := row.Summarize(value, 0)
	if err != nil {
		return &failure.CorruptError{Err: err}
	}
	deletion := p.deletionAt(clustering)
	if shadowed := deletion.Present() && sum.TimestampMax <= deletion.Timestamp; shadowed {
		if p.run.rows == 0 {
			p.run.first = append(p.run.first[:0], key...)
		}
		p.run.last = append(p.run.last[:0], key...)
		p.run.rows++
	} else if err := e.endRun(); err != nil {
		return err
	}
	if !sum.Empty && sum.TimestampMin > deletion.Timestamp && sum.LocalTimeMin >= p.gcBefore {
		return nil
	}
	p.pending = append(p.pending, bytes.Clone(key))
	p.bytes += len(key) + len(value)
	if len(p.pending) < sweepBatch && p.bytes < sweepBatchBytes {
		return nil
	}
	return e.purgeRows()
}

// endRun removes a long run of shadowed rows with one range deletion, over which readers go in one step. The rows
// have been removed in smaller pieces, each checked under the latch; nothing was written between them since, unless a
// commit was detected.
func (e *Engine) endRun() error {
	p := &e.sweeper.part
	defer func() { p.run.rows = 0 }()
	if p.run.rows <= e.opts.runMin || !p.watched {
		return nil
	}
	if err := e.purgeRows(); err != nil {
		return err
	}
	stripe := latch.StripeOf(p.token)
	e.latches.Lock(stripe)
	defer e.latches.Unlock(stripe)
	if e.watched.dirty.Load() && !e.opts.ignoreDirty {
		return nil
	}
	return e.db.Overwrite(func(b *pebble.Batch) error {
		return b.DeleteRange(p.run.first, append(slices.Clone(p.run.last), 0), nil)
	})
}

func (p *sweptPartition) deletionAt(clustering []byte) row.Deletion {
	if len(p.raw) > 0 && p.deletions == nil {
		p.deletions = row.NormalizeRangeTombstones(slices.Clone(p.raw), p.header.Deletion)
	}
	return p.header.Deletion.Max(row.DeletionAt(p.deletions, clustering))
}

// purgeRows purges the recorded rows. It reads them again under the latch.
func (e *Engine) purgeRows() error {
	p := &e.sweeper.part
	if len(p.pending) == 0 {
		return nil
	}
	defer func() { p.pending, p.bytes = p.pending[:0], 0 }()
	stripe := latch.StripeOf(p.token)
	e.latches.Lock(stripe)
	defer e.latches.Unlock(stripe)
	iter, err := e.db.NewIter(&pebble.IterOptions{
		LowerBound: p.prefix, UpperBound: append(slices.Clone(p.prefix), rowkey.KindEnd),
	})
	if err != nil {
		return err
	}
	err = e.db.Overwrite(func(b *pebble.Batch) error { return errors.Join(e.purgePending(b, iter), iter.Error()) })
	return errors.Join(err, iter.Close())
}

// purgePending adds the purges of the recorded rows to a batch: adjacent rows that go are removed together.
func (e *Engine) purgePending(b *pebble.Batch, iter *pebble.Iterator) error {
	p := &e.sweeper.part
	from := 0 // of the rows that go and are not in the batch yet
	remove := func(to int) (err error) {
		if keys := p.pending[from:to]; len(keys) >= e.opts.purgeRangeMin {
			err = b.DeleteRange(keys[0], append(slices.Clone(keys[len(keys)-1]), 0), nil)
		} else {
			for _, key := range keys {
				err = errors.Join(err, b.Delete(key, nil))
			}
		}
		return err
	}
	for i, key := range p.pending {
		adjacent := i > 0 && iter.Valid() && iter.Next() && bytes.Equal(iter.Key(), key)
		gone := false
		if adjacent || iter.SeekGE(key) && bytes.Equal(iter.Key(), key) { // otherwise truncated in the meantime
			var err error
			if gone, err = e.purgeRow(b, iter, key); err != nil {
				return err
			}
		}
		if adjacent && gone {
			continue
		}
		if err := remove(i); err != nil {
			return err
		}
		if from = i; !gone {
			from++
		}
	}
	return remove(len(p.pending))
}

// purgeRow purges the row at the iterator. gone means that nothing is left of it, and that the caller removes its key.
func (e *Engine) purgeRow(b *pebble.Batch, iter *pebble.Iterator, key []byte) (gone bool, err error) {
	p := &e.sweeper.part
	value, err := iter.ValueAndErr()
	if err != nil {
		return false, err
	}
	stored, canonical, nothing := row.NewRow(), row.NewRow(), row.NewRow()
	if err := row.DecodeRow(stored, value); err != nil {
		return false, &failure.CorruptError{Err: err}
	}
	row.Reconcile(canonical, stored, nothing)
	canonical.Shadow(p.deletionAt(key[len(p.prefix)+1:]))
	canonical.Purge(p.gcBefore)
	if canonical.Empty() {
		p.removed = true
		e.counters.purged.Add(1)
		return true, e.purge(b, key, value, nil)
	}
	encoded := row.AppendRow(nil, canonical)
	if bytes.Equal(encoded, value) {
		return false, nil
	}
	return false, e.replace(b, key, value, encoded)
}

// replace adds to a batch that a key has another value or, if after is nil, none. The latch of its partition is held.
func (e *Engine) replace(b *pebble.Batch, key, before, after []byte) error {
	e.counters.purged.Add(1)
	if err := e.purge(b, key, before, after); err != nil {
		return err
	}
	if after == nil {
		return b.Delete(key, nil)
	}
	return b.Set(key, after, nil)
}

// endPartition purges what is left of the partition: its range tombstones and its header, unless it
// was written to since its sweep began. If nothing is left, it notifies the maintainers.
func (e *Engine) endPartition() error {
	p := &e.sweeper.part
	if !p.active {
		return nil
	}
	if err := e.endRun(); err != nil {
		return err
	}
	if err := e.purgeRows(); err != nil {
		return err
	}
	p.active = false
	if err := e.endHeader(); err != nil || !p.removed {
		return err
	}
	return e.emptied(p.table, row.PartitionKey{Token: p.token, Bytes: p.prefix[rowkey.FixedSize:]})
}

// endHeader is endPartition's look at range tombstones and header.
func (e *Engine) endHeader() error {
	p := &e.sweeper.part
	defer e.watched.active.Store(false)
	if p.header.Empty() || p.resumed && !e.opts.forgetResumed {
		return nil
	}
	stripe := latch.StripeOf(p.token)
	e.latches.Lock(stripe)
	defer e.latches.Unlock(stripe)
	if e.watched.dirty.Load() {
		return nil
	}
	return e.db.Overwrite(e.purgeHeader)
}

// purgeHeader adds the changes of the header and of the range tombstones to a batch. There was no write to the
// partition since they were read.
func (e *Engine) purgeHeader(b *pebble.Batch) error {
	p := &e.sweeper.part
	p.deletionAt(nil)
	kept := slices.DeleteFunc(slices.Clone(p.deletions), func(t row.RangeTombstone) bool {
		return t.Deletion.LocalTime < p.gcBefore
	})
	same := func(a, b row.RangeTombstone) bool {
		return bytes.Equal(a.Start, b.Start) && bytes.Equal(a.End, b.End) && a.Deletion == b.Deletion
	}
	key := func(t row.RangeTombstone) []byte {
		return rowkey.AppendSuffix(slices.Clone(p.prefix), row.KindRangeTombstone, t.Start, t.End)
	}
	if !slices.EqualFunc(kept, p.raw, same) {
		value := func(t row.RangeTombstone) []byte {
			deletion := row.NewRow()
			deletion.Deletion = t.Deletion
			return row.AppendRow(nil, deletion)
		}
		for _, t := range p.raw {
			if err := e.replace(b, key(t), value(t), nil); err != nil {
				return err
			}
		}
		for _, t := range kept { // of which some were removed just now
			if err := e.purge(b, key(t), nil, value(t)); err != nil {
				return err
			}
			if err := b.Set(key(t), value(t), nil); err != nil {
				return err
			}
		}
	}
	canonical := row.NewRow()
	row.Reconcile(canonical, &p.header, row.NewRow())
	canonical.Purge(p.gcBefore)
	canonical.HasRangeTombstones = len(kept) > 0
	before, after := row.AppendRow(nil, &p.header), row.AppendRow(nil, canonical)
	header := append(slices.Clone(p.prefix), byte(row.KindHeader))
	switch {
	case canonical.Empty():
		p.removed = true
		return e.replace(b, header, before, nil)
	case !bytes.Equal(before, after):
		return e.replace(b, header, before, after)
	}
	return nil
}

// pause waits. It returns false if the engine is being closed.
func (e *Engine) pause(d time.Duration) bool { return e.pauseOr(d, nil) }

// pauseOr waits, but no longer than until wake has a value. It returns false if the engine is being closed.
func (e *Engine) pauseOr(d time.Duration, wake <-chan struct{}) bool {
	elapsed := make(chan struct{})
	timer := e.opts.Clock.After(d, func() { close(elapsed) })
	select {
	case <-elapsed:
		return true
	case <-wake:
		timer.Stop()
		return true
	case <-e.stop:
		timer.Stop()
		return false
	}
}
