package purge

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"cqld/internal/invariant"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/storage/backlog"
	"cqld/storage/failure"
	"cqld/storage/latch"
	"cqld/storage/rowkey"
)

// sweptPartition is the partition being purged. Its slices are reused; they are valid until beginPartition.
type sweptPartition struct {
	active bool
	table  schema.StorageID
	token  ring.Token
	// prefix begins all keys of the partition: table, token and partition key.
	prefix []byte
	// gcBefore is in seconds; tombstones with an earlier local deletion time may be removed.
	gcBefore int64
	header   row.Row
	// raw contains the range tombstones as stored, in order; deletionAt normalizes them when a row needs them.
	raw        []row.RangeTombstone
	deletions  []row.RangeTombstone
	normalized bool
	// pending contains only keys, because purgeRows reads the values again under the latch.
	pending [][]byte // keys of rows to be purged
	bytes   int      // of these rows
	removed bool     // a key of it was removed
	// watched means that commits were detected before the iterator was created.
	watched bool
	// resumed means that its first rows were swept before, when commits to it were not detected.
	resumed bool
	run     deadRun
}

// deadRun is a run of adjacent rows that deletions shadow. It is longer than a batch, so that many small range
// deletions become one: each costs every new iterator time.
type deadRun struct {
	first, last []byte
	rows        int
}

// Sweep scans up to budget more entries and purges dead data among them. wrapped means that it has reached the end
// and will start again.
func (s *Purger) Sweep(budget int) (wrapped bool, err error) {
	// No goroutine runs the purger, so this call also purges the reported partitions, as Run would.
	if s.opts.Inline {
		s.opts.Disk.Check()
		for done := false; !done && err == nil; {
			done, err = s.SweepDead(budget)
		}
	}
	if s.opts.Disk.Full() || err != nil {
		return err == nil, err // even a purge needs space first
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	// Table 1 is the first one: keys before it belong to the engine itself.
	if len(s.pass.Position) == 0 {
		s.pass.Position = rowkey.AppendTable(s.pass.Position, 1)
	}
	if wrapped, err = s.sweepLocked(&s.pass, budget); err == nil {
		err = s.savePass(wrapped)
	}
	return wrapped, failure.Of(err)
}

// sweepLocked scans up to budget more entries of a span. done means that it has reached its end. mu is held.
func (s *Purger) sweepLocked(x *backlog.Sweep, budget int) (done bool, err error) {
	if err := s.opts.DB.Err(); err != nil {
		return false, err
	}
	if s.opts.Disk.Full() {
		return true, nil
	}
	// Another span has a partition in progress. Its recorded rows are purged now, because the purger keeps the state
	// of one partition only; its header is purged by a later sweep that passes the whole partition.
	if s.now != x {
		if err := s.leavePartition(); err != nil {
			return false, err
		}
		s.now = x
	}
	if done, err = s.sweepFrom(x, budget); err != nil {
		// After an error the sweep restarts at the beginning, so that it does not read the same corrupt block
		// forever.
		s.forget()
		x.Position = x.Position[:0]
		s.watched.active.Store(false)
	}
	return done, err
}

// forget drops the state of the partition being swept, because keys were removed other than by writes or could not be
// read. The sweep resumes at its position.
func (s *Purger) forget() {
	s.now, s.part.active, s.part.pending, s.part.run.rows = nil, false, s.part.pending[:0], 0
}

// leavePartition ends the sweep of a partition that will be resumed later.
func (s *Purger) leavePartition() error {
	p := &s.part
	if !p.active {
		return nil
	}
	defer s.watched.active.Store(false)
	err := s.endRun()
	if err == nil {
		err = s.purgeRows()
	}
	p.active = false
	return err
}

// sweepFrom sweeps from the span's position on.
func (s *Purger) sweepFrom(x *backlog.Sweep, budget int) (done bool, err error) {
	now := s.opts.Clock.Now().Unix()
	for {
		// A new iterator for each partition with a header, see sweepWith. Most tables have none, and then one iterator
		// serves the whole budget.
		iter, err := s.opts.DB.NewIter(&pebble.IterOptions{LowerBound: x.Position, UpperBound: x.End})
		if err != nil {
			return false, err
		}
		stopped, err := s.sweepWith(iter, x, &budget, now)
		if err = errors.Join(err, iter.Error(), iter.Close()); err != nil {
			return false, err
		}
		switch {
		// The span has ended. An empty position makes the next sweep begin again.
		case !stopped:
			x.Position = x.Position[:0]
			return true, s.endPartition()
		// The partition stays in progress. Its recorded rows are purged now, so that their keys need not be kept
		// during the pause.
		case budget <= 0:
			return false, s.purgeRows()
		}
	}
}

// sweepWith sweeps until the iterator or the budget ends, or until a partition with a header begins: its header may
// be purged only if the iterator was created after the detection of commits to the partition began.
func (s *Purger) sweepWith(iter *pebble.Iterator, x *backlog.Sweep, budget *int, now int64) (stopped bool, err error) {
	first := true
	for valid := iter.First(); valid; valid = iter.Next() {
		table, key, suffix, err := rowkey.Parse(iter.Key())
		if err != nil {
			return false, err
		}
		begins := !s.part.active || !bytes.HasPrefix(iter.Key(), s.part.prefix)
		if begins {
			if err := s.endPartition(); err != nil {
				return false, err
			}
			s.beginPartition(table, key, now)
			kind := row.EntryKind(suffix[0])
			// The first entry of a sweep may be a row in the middle of a partition, whose deletions precede the
			// position. All other partitions are scanned from their first entry, and have no header if that is a row.
			if s.part.watched = kind == row.KindHeader; first && kind != row.KindHeader {
				if err := s.resumePartition(); err != nil {
					return false, err
				}
			}
		}
		first = false
		if *budget <= 0 || begins && s.part.watched {
			// The span is swept in order; if the position moved back, the sweep would repeat a partition forever.
			invariant.Check(bytes.Compare(x.Position, iter.Key()) <= 0, "purge: the position of a sweep falls")
			x.Position = append(x.Position[:0], iter.Key()...)
			return true, nil
		}
		*budget--
		// The entry at which the sweep stops is not counted: the next iterator begins with it.
		s.Counts.Swept.Add(1)
		if err := s.sweepEntry(iter, suffix); err != nil {
			return false, err
		}
	}
	return false, nil
}

// resumePartition reads the header and the range tombstones of a partition whose sweep may begin in its midst. Rows
// before the position may be shadowed by its tombstones and unpurged, so resumed keeps endHeader from removing the
// tombstones in this pass.
func (s *Purger) resumePartition() error {
	p := &s.part
	iter, err := s.opts.DB.NewIter(&pebble.IterOptions{LowerBound: p.prefix,
		UpperBound: append(slices.Clone(p.prefix), byte(row.KindRow))})
	if err != nil {
		return err
	}
	for valid := iter.First(); valid && err == nil; valid = iter.Next() {
		p.watched, p.resumed = true, true
		err = s.sweepEntry(iter, iter.Key()[len(p.prefix):])
	}
	return errors.Join(err, iter.Error(), iter.Close())
}

// beginPartition starts the sweep of a partition, and starts detecting commits to it.
func (s *Purger) beginPartition(table schema.StorageID, key row.PartitionKey, now int64) {
	p := &s.part
	info := s.opts.Table(table)
	p.active, p.table, p.token = true, table, key.Token
	p.prefix = rowkey.AppendPartition(p.prefix[:0], table, key)
	p.gcBefore = info.GCBefore(key.Token, now)
	// A purge above the present would remove tombstones that other replicas have not seen.
	invariant.Check(p.gcBefore <= now, "purge: the gc position of a partition is in the future")
	invariant.Check(len(p.pending) == 0, "purge: rows of the previous partition are left")
	// A missing header is equivalent to an empty one, which deletes nothing.
	p.header.Reset()
	p.raw, p.deletions, p.normalized, p.removed = p.raw[:0], nil, false, false
	p.watched, p.resumed, p.run.rows = false, false, 0
	// Under the write latch, no commit to the partition is halfway: each either has been applied, or will be noted.
	stripe := latch.StripeOf(key.Token)
	s.opts.Latches.Lock(stripe)
	s.watched.token.Store(int64(key.Token))
	s.watched.dirty.Store(false)
	s.watched.active.Store(true)
	s.opts.Latches.Unlock(stripe)
}

// sweepEntry records the entry at the iterator. Header and range tombstones precede the rows in the order of keys, so
// the deletions are known when the first row is met. suffix is the key without the prefix of the partition.
func (s *Purger) sweepEntry(iter *pebble.Iterator, suffix []byte) error {
	p := &s.part
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
		// Cloned, because the decoded cells point into the iterator's memory.
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
		return s.sweepRow(iter.Key(), suffix[1:], value)
	}
	return nil
}

// sweepRow records a row's key if some part of the row is dead.
func (s *Purger) sweepRow(key, clustering, value []byte) error {
	p := &s.part
	// The time does not matter: it decides which cells are live, and gcBefore alone decides what is purged.
	sum, err := row.Summarize(value, 0)
	if err != nil {
		return &failure.CorruptError{Err: err}
	}
	deletion := p.deletionAt(clustering)
	// On equal timestamps the deletion wins, as everywhere in reconciliation.
	if shadowed := deletion.Present() && sum.TimestampMax <= deletion.Timestamp; shadowed {
		if p.run.rows == 0 {
			p.run.first = append(p.run.first[:0], key...)
		}
		p.run.last = append(p.run.last[:0], key...)
		p.run.rows++
	} else if err := s.endRun(); err != nil {
		return err
	}
	// No part of the row is shadowed, and its oldest tombstone is too young to be removed.
	if !sum.Empty && sum.TimestampMin > deletion.Timestamp && sum.LocalTimeMin >= p.gcBefore {
		return nil
	}
	// purgePending steps from each key to the next, and removes runs of them with one range deletion.
	if n := len(p.pending); n > 0 && bytes.Compare(p.pending[n-1], key) >= 0 {
		invariant.Fail(fmt.Sprintf("purge: row %x after %x", key, p.pending[n-1]))
	}
	invariant.Check(bytes.HasPrefix(key, p.prefix), "purge: a row of another partition")
	p.pending = append(p.pending, bytes.Clone(key))
	p.bytes += len(key) + len(value)
	if len(p.pending) < sweepBatch && p.bytes < sweepBatchBytes {
		return nil
	}
	return s.purgeRows()
}

// endRun removes a long run of shadowed rows with one range deletion, over which readers go in one step. The rows
// have already been removed in smaller pieces under the latch. No row was written between them since, unless a commit
// was detected.
func (s *Purger) endRun() error {
	p := &s.part
	defer func() { p.run.rows = 0 }()
	if p.run.rows <= s.opts.RunMin || !p.watched {
		return nil
	}
	if err := s.purgeRows(); err != nil {
		return err
	}
	stripe := latch.StripeOf(p.token)
	s.opts.Latches.Lock(stripe)
	defer s.opts.Latches.Unlock(stripe)
	// A commit may have added a live row between the first and the last key, which the range deletion would remove.
	// The rows of the run have been removed already, so skipping it only keeps the smaller range deletions.
	if s.watched.dirty.Load() {
		return nil
	}
	invariant.Check(bytes.Compare(p.run.first, p.run.last) < 0 && bytes.HasPrefix(p.run.last, p.prefix),
		"purge: the run from %x to %x is not in its partition", p.run.first, p.run.last)
	return s.opts.DB.Overwrite(func(b *pebble.Batch) error {
		return b.DeleteRange(p.run.first, append(slices.Clone(p.run.last), 0), nil)
	})
}

// deletionAt returns the newest deletion that covers a clustering. It normalizes the range tombstones at the first
// call: all of them precede the rows, so raw is complete by then. Deletions that may be purged count too, because they
// shadow rows until they are removed.
func (p *sweptPartition) deletionAt(clustering []byte) row.Deletion {
	// A nil result is no reason to normalize again: the partition's deletion may supersede all range tombstones.
	if !p.normalized {
		p.deletions = row.NormalizeRangeTombstones(slices.Clone(p.raw), p.header.Deletion)
		p.normalized = true
	}
	return p.header.Deletion.Max(row.DeletionAt(p.deletions, clustering))
}

// purgeRows purges the recorded rows. It reads them again under the latch.
func (s *Purger) purgeRows() error {
	p := &s.part
	if len(p.pending) == 0 {
		return nil
	}
	// The keys are dropped even after an error: they would fail again, and the next pass finds them.
	defer func() { p.pending, p.bytes = p.pending[:0], 0 }()
	stripe := latch.StripeOf(p.token)
	s.opts.Latches.Lock(stripe)
	defer s.opts.Latches.Unlock(stripe)
	iter, err := s.opts.DB.NewIter(&pebble.IterOptions{
		LowerBound: p.prefix, UpperBound: append(slices.Clone(p.prefix), rowkey.KindEnd),
	})
	if err != nil {
		return err
	}
	// The sweep saw the rows without a latch. Under the write latch they cannot change, so what is read here is what
	// the batch replaces.
	err = s.opts.DB.Overwrite(func(b *pebble.Batch) error { return errors.Join(s.purgePending(b, iter), iter.Error()) })
	return errors.Join(err, iter.Close())
}

// purgePending adds the purges of the recorded rows to a batch. It removes adjacent dead rows together.
func (s *Purger) purgePending(b *pebble.Batch, iter *pebble.Iterator) error {
	p := &s.part
	from := 0 // of the rows that go and are not in the batch yet
	remove := func(to int) (err error) {
		if keys := p.pending[from:to]; len(keys) >= s.opts.PurgeRangeMin {
			err = b.DeleteRange(keys[0], append(slices.Clone(keys[len(keys)-1]), 0), nil)
		} else {
			for _, key := range keys {
				err = errors.Join(err, b.Delete(key, nil))
			}
		}
		return err
	}
	for i, key := range p.pending {
		// A range deletion may only span keys with no other key between them: a row between two pending ones was
		// written since, or has nothing to purge. adjacent means that the iterator stepped from the previous key to
		// this one.
		adjacent := i > 0 && iter.Valid() && iter.Next() && bytes.Equal(iter.Key(), key)
		gone := false
		if adjacent || iter.SeekGE(key) && bytes.Equal(iter.Key(), key) { // otherwise truncated in the meantime
			var err error
			if gone, err = s.purgeRow(b, iter, key); err != nil {
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

// purgeRow purges the row at the iterator. gone means that the whole row is dead, and that the caller must remove its
// key.
func (s *Purger) purgeRow(b *pebble.Batch, iter *pebble.Iterator, key []byte) (gone bool, err error) {
	p := &s.part
	value, err := iter.ValueAndErr()
	if err != nil {
		return false, err
	}
	// Reconciliation with an empty row collapses what Pebble's merger only concatenated.
	stored, canonical, nothing := row.NewRow(), row.NewRow(), row.NewRow()
	if err := row.DecodeRow(stored, value); err != nil {
		return false, &failure.CorruptError{Err: err}
	}
	row.Reconcile(canonical, stored, nothing)
	canonical.Shadow(p.deletionAt(key[len(p.prefix)+1:]))
	canonical.Purge(p.gcBefore)
	invariant.Check(len(canonical.Cells) <= len(stored.Cells), "purge: a row gained cells")
	if canonical.Empty() {
		p.removed = true
		s.Counts.Purged.Add(1)
		return true, s.opts.Maintainers.Purge(b, key, value, nil)
	}
	// The row may have changed since it was recorded, and no part of it may be dead now.
	encoded := row.AppendRow(nil, canonical)
	if bytes.Equal(encoded, value) {
		return false, nil
	}
	return false, s.replace(b, key, value, encoded)
}

// replace adds a new value of a key to a batch or, if after is nil, its deletion. The latch of its partition is held.
// before is the old value, from which maintainers derive the entries to remove.
func (s *Purger) replace(b *pebble.Batch, key, before, after []byte) error {
	invariant.Check(bytes.HasPrefix(key, s.part.prefix), "purge: a key of another partition, whose latch is not held")
	s.Counts.Purged.Add(1)
	if err := s.opts.Maintainers.Purge(b, key, before, after); err != nil {
		return err
	}
	if after == nil {
		return b.Delete(key, nil)
	}
	return b.Set(key, after, nil)
}

// endPartition purges what is left of the partition: its range tombstones and its header, unless it
// was written to since its sweep began. If nothing is left, it notifies the maintainers.
func (s *Purger) endPartition() error {
	p := &s.part
	if !p.active {
		return nil
	}
	if err := s.endRun(); err != nil {
		return err
	}
	if err := s.purgeRows(); err != nil {
		return err
	}
	p.active = false
	if err := s.endHeader(); err != nil || !p.removed {
		return err
	}
	return s.opts.Maintainers.Emptied(p.table, row.PartitionKey{Token: p.token, Bytes: p.prefix[rowkey.FixedSize:]})
}

// endHeader is the part of endPartition that purges range tombstones and the header.
func (s *Purger) endHeader() error {
	p := &s.part
	defer s.watched.active.Store(false)
	// Without a header there are no range tombstones either: its flag leads to them.
	if p.header.Empty() || p.resumed {
		return nil
	}
	stripe := latch.StripeOf(p.token)
	s.opts.Latches.Lock(stripe)
	defer s.opts.Latches.Unlock(stripe)
	if s.watched.dirty.Load() {
		return nil
	}
	return s.opts.DB.Overwrite(s.purgeHeader)
}

// purgeHeader adds the changes of the header and of the range tombstones to a batch. There was no write to the
// partition since they were read.
func (s *Purger) purgeHeader(b *pebble.Batch) error {
	p := &s.part
	// A tombstone is removed after the rows that it shadows: in the opposite order, a crash in between would bring
	// them back.
	invariant.Check(len(p.pending) == 0 && p.run.rows == 0, "purge: tombstones before the rows that they shadow")
	invariant.Check(!s.watched.dirty.Load(), "purge: tombstones of a partition that was written to")
	// deletionAt is called to normalize the tombstones, which a partition without rows has not done yet.
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
	// Normalization may split and join tombstones, so their keys differ from the stored ones. All old keys are removed
	// first and the kept ones set again: later operations of a batch win.
	if !slices.EqualFunc(kept, p.raw, same) {
		value := func(t row.RangeTombstone) []byte {
			deletion := row.NewRow()
			deletion.Deletion = t.Deletion
			return row.AppendRow(nil, deletion)
		}
		for _, t := range p.raw {
			if err := s.replace(b, key(t), value(t), nil); err != nil {
				return err
			}
		}
		for _, t := range kept { // of which some were removed just now
			if err := s.opts.Maintainers.Purge(b, key(t), nil, value(t)); err != nil {
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
	// Reads look for range tombstones only if the header has this flag.
	canonical.HasRangeTombstones = len(kept) > 0
	before, after := row.AppendRow(nil, &p.header), row.AppendRow(nil, canonical)
	header := append(slices.Clone(p.prefix), byte(row.KindHeader))
	switch {
	// The header only had the flag of range tombstones, or its deletion was purged.
	case canonical.Empty():
		p.removed = true
		return s.replace(b, header, before, nil)
	case !bytes.Equal(before, after):
		return s.replace(b, header, before, after)
	}
	return nil
}
