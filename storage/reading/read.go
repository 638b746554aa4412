package reading

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/cockroachdb/pebble/v2"

	"cqld/internal/env"
	"cqld/internal/invariant"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/storage/blockfilter"
	"cqld/storage/failure"
	"cqld/storage/merging"
	"cqld/storage/rowkey"
	"cqld/storage/tableinfo"
)

// reader is the state of one Read; it is reused.
type reader struct {
	e   *Reads
	cmd *row.ReadCommand
	cursor
	opts pebble.IterOptions
	// alone means that the iterator serves one command: it may skip blocks without keys of the partition.
	alone bool
	// blocks is the filter of blocks, and filters the slice that passes it to Pebble without an allocation.
	blocks  blockfilter.Filter
	filters [1]pebble.BlockPropertyFilter
	w       row.PageWriter

	info tableinfo.Info
	// gcBefore is in seconds; older tombstones and expired cells of the partition count as purged.
	gcBefore int64
	// pageStart is the length of dst, which precedes the page.
	pageStart int
	pageBytes int // size at which the page ends
	// pageAllowed is the number of bytes that ReadCommand.Memory has allowed.
	pageAllowed int
	live        uint32 // rows counted against Limits.Rows
	tombstones  int
	looked      int64 // entries scanned
	full        bool  // a limit ended the page
	cut         bool  // Limits.Bytes ended it, before a row

	partition // being read
	cached    // of a read of one row

	filter       row.FilterMatcher
	omitted      int          // rows, and whole partitions, that the filter omitted
	omittedBytes int          // of these rows
	end          row.Position // where the page ends; Key.Bytes is nil unless rows after the last one were read

	// Pebble refers to them as long as they are the bounds of the iterator.
	lower, upper []byte // bounds of the iterator
	// wide is the table that the iterator is bounded by; 0 if that is a partition or a range. See openRows.
	wide schema.StorageID
	// arena is memory for copied bounds of range tombstones.
	arena []byte
	// raw contains the range tombstones of the partition as stored.
	raw    []row.RangeTombstone
	stored row.Row // a range tombstone
	// The row from which an empty header is encoded.
	empty  row.Row
	stream row.Streamer
}

// partition is the state of a read for one partition.
type partition struct {
	key       row.PartitionKey
	prefix    []byte               // prefix of its keys
	deletion  row.Deletion         // deletion of the partition
	deletions []row.RangeTombstone // normalized, not purged
	header    []byte               // encoded, as the page contains it
	shown     row.Outline          // of header
	shownRT   []row.RangeTombstone
	begun     bool   // the page contains its header
	liveRows  uint32 // live rows of it
	shadowed  int    // rows of it of which a deletion leaves nothing
	skipAt    int    // the number of shadowed rows from which advance tries to skip more
}

// begin prepares a reader from the pool for a command. The page is appended to dst.
func (r *reader) begin(e *Reads, dst []byte, cmd *row.ReadCommand) {
	// A reader with a command belongs to a running read, and two reads would share its page.
	invariant.Check(r.cmd == nil, "reading: the pool has a reader that is in use")
	// beginPartition resets the other state of the previous read; release has dropped only references.
	r.e, r.cmd = e, cmd
	r.w = row.NewPageWriter(dst)
	r.pageStart, r.pageBytes, r.pageAllowed = len(dst), e.opts.PageBytes, 0
	r.info = e.opts.Table(cmd.Table)
	r.live, r.tombstones, r.looked, r.full, r.cut = 0, 0, 0, false, false
	r.omitted, r.omittedBytes, r.end.Key.Bytes = 0, 0, nil
	r.filter.Reset(cmd.Filter, cmd.Now)
	r.empty.Reset()
}

// safely calls f and closes the iterator, even if f panics: an open iterator would keep files forever.
func (r *reader) safely(f func() error) (err error) {
	invariant.Check(r.iter == nil, "reading: the iterator of the previous read is open")
	defer func() {
		if iter := r.iter; iter != nil {
			r.iter = nil
			r.e.CountSeeks(iter)
			err = errors.Join(err, iter.Close())
		}
	}()
	return f()
}

// release releases references to the memory of the command and the page. The reader may be put into the pool
// afterwards.
func (r *reader) release() {
	r.cmd, r.w, r.key, r.info, r.alone = nil, row.PageWriter{}, row.PartitionKey{}, tableinfo.Info{}, false
	r.adds, r.hit = nil, false
	r.filter.Reset(nil, 0)
	r.stream.Release()
	if cap(r.stored.Cells) > cellsKept {
		r.stored = row.Row{}
	}
	if cap(r.header) > headerKept {
		r.header = nil
	}
	r.deletions, r.shownRT = nil, nil
	if cap(r.arena) > merging.ArenaBytes {
		r.arena, r.raw = nil, nil
	}
}

// run executes the command. The page is complete only after finish.
func (r *reader) run() error {
	if err := r.checkLost(); err != nil {
		return err
	}
	// A command that waited in a queue may have been canceled before it began.
	if err := r.cmd.Cancel.Err(); err != nil {
		return err
	}
	if r.cmd.SinglePartition() {
		return r.readOne()
	}
	return r.readRange()
}

// checkLost refuses reads of ranges that this node may have lost, except reads of a repair, which restores them. The
// error is the one of package lost, which names the range.
func (r *reader) checkLost() error {
	tokens := r.cmd.Range.Tokens
	if r.cmd.SinglePartition() {
		// A range excludes its start, so this one contains only the token of the key.
		tokens = ring.Range{Start: r.cmd.Key.Token - 1, End: r.cmd.Key.Token}
	}
	if lost := r.e.opts.Lost.Overlaps(r.cmd.Table, tokens); lost != nil && r.cmd.Repair == nil {
		return lost.Err()
	}
	return nil
}

// openOne creates the iterator over the partition of the key. lower is the key of its header. Errors wrap
// failure.ErrInvalid for a key that storage cannot contain.
func (r *reader) openOne() error {
	if len(r.cmd.Key.Bytes) > rowkey.PartitionBytesMax {
		return fmt.Errorf("%w: partition key of %d bytes", failure.ErrInvalid, len(r.cmd.Key.Bytes))
	}
	r.prefix = rowkey.AppendPartition(r.prefix[:0], r.cmd.Table, r.cmd.Key)
	r.lower = append(append(r.lower[:0], r.prefix...), byte(row.KindHeader))
	r.upper = append(append(r.upper[:0], r.prefix...), rowkey.KindEnd)
	return r.open()
}

// readOne reads the partition of a key.
func (r *reader) readOne() error {
	if r.alone && cacheable(r.cmd) && r.e.opts.Rows != nil {
		r.prefix = rowkey.AppendPartition(r.prefix[:0], r.cmd.Table, r.cmd.Key)
		r.seek = append(append(append(r.seek[:0], r.prefix...), byte(row.KindRow)), r.cmd.Slices[0].Start...)
		r.lower = append(append(r.lower[:0], r.prefix...), byte(row.KindHeader))
		if r.search(&r.e.opts, r.cmd, r.seek, r.lower) {
			r.beginPartition(r.cmd.Key)
			if r.headerPresent {
				if err := r.readHeader(r.found[len(r.value):], nil); err != nil {
					return err
				}
			}
			return r.readPartition()
		}
	}
	if err := r.openOne(); err != nil {
		return err
	}
	return r.readOpened()
}

// readOpened reads the partition of a key with the iterator that was opened for it.
func (r *reader) readOpened() error {
	r.beginPartition(r.cmd.Key)
	// The flag must be checked after the iterator was created: see headers.Flags. Most tables have no headers, which
	// saves a seek. The bloom filter saves most of the others.
	if r.stepping = false; r.e.opts.Headers.Has(r.cmd.Table) {
		if r.iter.SeekPrefixGE(r.lower) {
			if err := r.readHeader(r.iter.ValueAndErr()); err != nil {
				return err
			}
		} else {
			r.addAbsent(r.lower, r.iter.Error())
		}
	}
	return r.readPartition()
}

// readRange reads the partitions of a range of tokens.
func (r *reader) readRange() error {
	tokens := r.cmd.Range.Tokens
	if tokens.Wraps() {
		return fmt.Errorf("%w: token range %v wraps", failure.ErrInvalid, tokens)
	}
	// The range is empty, and so is the page.
	if !r.boundRange(tokens) {
		return nil
	}
	if err := r.open(); err != nil {
		return err
	}
	valid := r.iter.First()
	// The next partition is near: toNextPartition steps before it seeks.
	r.stepping = true
	for valid && !r.full {
		if err := r.look(); err != nil {
			return err
		}
		_, key, suffix, err := rowkey.Parse(r.iter.Key())
		if err != nil {
			return err
		}
		r.prefix = append(r.prefix[:0], r.iter.Key()[:len(r.iter.Key())-len(suffix)]...)
		// The key points into the copied prefix, so it is valid until the next partition.
		key.Bytes = r.prefix[rowkey.FixedSize:]
		invariant.Check(r.cmd.Range.Tokens.Contains(key.Token), "reading: a partition outside of the range")
		r.beginPartition(key)
		// The header is the first entry of a partition that has one.
		if row.EntryKind(suffix[0]) == row.KindHeader {
			if err := r.readHeader(r.iter.ValueAndErr()); err != nil {
				return err
			}
		}
		if err := r.readPartition(); err != nil {
			return err
		}
		valid = r.toNextPartition()
	}
	return r.iter.Error()
}

// boundRange sets the bounds of the keys of a range; false when it is empty.
func (r *reader) boundRange(tokens ring.Range) bool {
	var ok bool
	r.lower, r.upper, ok = rowkey.Bounds(r.lower[:0], r.upper[:0], r.cmd.Table, tokens)
	if ok && r.cmd.Range.After != nil {
		// A faulty member may send a key from before the range.
		r.prefix = append(rowkey.AppendPartition(r.prefix[:0], r.cmd.Table, *r.cmd.Range.After), rowkey.KindEnd)
		if bytes.Compare(r.prefix, r.lower) > 0 {
			r.lower = append(r.lower[:0], r.prefix...)
		}
		ok = bytes.Compare(r.lower, r.upper) < 0
	}
	return ok
}

// open creates the iterator, or moves the one of the previous partition to the bounds.
func (r *reader) open() (err error) {
	r.wide = 0
	if r.iter != nil { // the iterator of the previous partition
		r.iter.SetBounds(r.lower, r.upper)
		return nil
	}
	// Reads by key often find nothing; the bloom filter saves them from reading a block of the last level.
	r.opts = pebble.IterOptions{LowerBound: r.lower, UpperBound: r.upper, UseL6Filters: r.cmd.SinglePartition()}
	// A filter of blocks is for one partition, for the iterator's life. A Prober, which reads many, has none.
	if r.alone && r.cmd.SinglePartition() && hasRange(r.cmd.Slices) {
		r.blocks.Partition(r.cmd.Table, r.cmd.Key.Token)
		r.filters[0] = &r.blocks
		r.opts.PointKeyFilters = r.filters[:]
	}
	r.iter, err = r.e.opts.DB.NewIter(&r.opts)
	return err
}

// beginPartition sets the state of a partition without a header. key is valid until the next call.
func (r *reader) beginPartition(key row.PartitionKey) {
	r.key = key
	r.gcBefore = r.info.GCBefore(key.Token, r.cmd.Now)
	r.header = row.AppendRow(r.header[:0], &r.empty)
	r.shown = row.Outline{Empty: true, Deletion: row.NoDeletion()}
	r.deletion = row.NoDeletion()
	r.deletions, r.shownRT = nil, nil
	r.begun, r.liveRows, r.skipAt = false, 0, r.e.opts.SkipAfter
}

// readPartition reads the rows and writes the partition with its header. A partition without rows is in the page only
// if its header or its tombstones have content.
func (r *reader) readPartition() error {
	if r.filter.Active() {
		if matches, err := r.filter.EncodedPartition(&r.stream, r.key, r.header); err != nil || !matches {
			return r.dropPartition(err)
		}
	}
	before := r.omitted
	err := r.readSlices()
	// Reported even after an error such as too many tombstones: these partitions need the purger most.
	r.noteShadowed()
	if err != nil {
		return err
	}
	if err := r.iterError(); err != nil {
		return err
	}
	// No row has written the header into the page yet. A page that was cut ended before this partition.
	if !r.begun && !r.cut && (len(r.shownRT) > 0 || !r.shown.Empty) && !(r.omitted > before && r.onlyStatic(r.cmd)) {
		mark := r.w.Len()
		r.beginPage()
		if n := r.size(); r.exceeds(n) {
			return r.undo(mark, false, n)
		}
	}
	if r.begun {
		r.w.EndPartition()
	}
	// As in CQL, a partition with static cells and without rows is one row of the result.
	if r.liveRows == 0 && !r.full && r.cmd.StaticCounts && r.shown.Live {
		r.count()
	}
	if !r.cmd.SinglePartition() && r.pageFull() {
		r.full = true // checked before the next partition; within one, the partition is complete
	}
	return nil
}

// readSlices reads the rows of all slices, in the order of the command.
func (r *reader) readSlices() error {
	// The deletion of the partition shadows all of its rows, so none is read.
	if r.covered(r.deletion) {
		return nil
	}
	slices := r.cmd.Slices
	for i := range slices {
		s := slices[i]
		if r.cmd.Reversed {
			s = slices[len(slices)-1-i]
		}
		if s.Empty() {
			continue
		}
		done, err := r.readSlice(s)
		if done || err != nil {
			return err
		}
	}
	return nil
}

// readSlice reads the rows of a slice. done means that no further slice of the partition is needed. Errors of the
// iterator are returned here, because an iterator that failed looks like one at its end.
func (r *reader) readSlice(s row.Slice) (done bool, err error) {
	start := len(r.prefix) + 1
	// The row is found by its whole key, so files without it are skipped by their bloom filters.
	if s.Exact() && r.cmd.SinglePartition() {
		if r.hit {
			if r.looked++; !r.present {
				return false, nil
			}
			return r.writeRow(s.Start, r.value)
		}
		r.seek = append(append(append(r.seek[:0], r.prefix...), byte(row.KindRow)), s.Start...)
		if r.stepping = false; r.iter.SeekPrefixGE(r.seek) {
			return r.readRow(s.Start)
		}
		r.addAbsent(r.seek, r.iter.Error())
		return false, r.iterError()
	}
	if r.cmd.Reversed {
		for valid := r.toEnd(r.prefix, s); valid && r.inSlice(s); valid = r.advance() {
			if done, err := r.readRow(r.iter.Key()[start:]); done || err != nil {
				return done, err
			}
		}
		return false, r.iterError()
	}
	r.seek = append(append(append(r.seek[:0], r.prefix...), byte(row.KindRow)), s.Start...)
	for valid := r.toKey(); valid && r.inSlice(s); valid = r.advance() {
		if done, err := r.readRow(r.iter.Key()[start:]); done || err != nil {
			return done, err
		}
	}
	return false, r.iterError()
}

// inSlice reports whether the iterator is at a row of the slice in this partition. The end of the slice need not be a
// bound of the iterator, so that one iterator serves all slices.
func (r *reader) inSlice(s row.Slice) bool {
	key := r.iter.Key()
	n := len(r.prefix)
	if len(key) <= n || row.EntryKind(key[n]) != row.KindRow || !s.Contains(key[n+1:]) {
		return false
	}
	// An iterator for one partition has bounds that keep it inside.
	return r.cmd.SinglePartition() || bytes.Equal(key[:n], r.prefix)
}

// readRow adds the row at the iterator to the page, without deleted and purged parts. done means that no further row
// of the partition is needed.
func (r *reader) readRow(clustering []byte) (done bool, err error) {
	if err := r.look(); err != nil {
		return false, err
	}
	value, err := r.iter.ValueAndErr()
	if err != nil {
		return false, err
	}
	if invariant.Enabled {
		invariant.Check(bytes.HasPrefix(r.iter.Key(), r.prefix), "reading: a row of another partition")
		invariant.Check(bytes.HasSuffix(r.iter.Key(), clustering), "reading: a row under another clustering")
	}
	r.add(r.seek, value)
	return r.writeRow(clustering, value)
}

// writeRow is readRow for the stored value of a row.
func (r *reader) writeRow(clustering, value []byte) (done bool, err error) {
	r.cmd.Process(len(value))
	// This command only returns rows with a row marker.
	if r.cmd.Inserted {
		if value, err = r.stream.Head(value); err != nil {
			return false, r.badValue(err)
		} else if value == nil {
			return false, nil
		}
	}
	deletion := r.deletion
	// Range tombstones are normalized, so at most one of them contains the clustering.
	if len(r.deletions) > 0 {
		deletion = deletion.Max(row.DeletionAt(r.deletions, clustering))
	}
	// The usual row: it is copied without being scanned.
	if !deletion.Present() && row.Immortal(value) {
		if r.filter.Active() {
			if omit, err := r.omits(clustering, value, true); omit || err != nil {
				return omit && r.dropRow(clustering, len(value)), err
			}
		}
		return r.writeEncoded(clustering, value, true)
	}
	return r.readMortalRow(clustering, value, deletion)
}

// readMortalRow is readRow for rows with tombstones or expiring data.
func (r *reader) readMortalRow(clustering, value []byte, deletion row.Deletion) (done bool, err error) {
	// One scan determines whether the row can be copied, must be rewritten, or is shadowed.
	sum, err := row.Summarize(value, r.cmd.Now)
	if err != nil {
		return false, r.badValue(err)
	}
	if sum.Tombstones > 0 {
		if err := r.met(sum.Tombstones); err != nil {
			return false, err
		}
	}
	// The row may be in the page without being live: its tombstones must reach the coordinator.
	live := sum.Live
	switch {
	case sum.Empty:
		return false, nil
	// The page omits shadowed rows. Counting them lets advance skip ahead and noteShadowed report the partition.
	case deletion.Present() && sum.TimestampMax <= deletion.Timestamp:
		// The deletion is newer than all parts of the row, so a purge will remove it.
		r.shadowed++
		return false, nil
	case !sum.Deletes && sum.TimestampMin > deletion.Timestamp && sum.LocalTimeMin >= r.gcBefore:
		// No part of the row is removed, so its stored bytes are canonical.
		if r.filter.Active() {
			if omit, err := r.omits(clustering, value, live); omit || err != nil {
				return omit && r.dropRow(clustering, len(value)), err
			}
		}
		return r.writeEncoded(clustering, value, live)
	default:
		return r.writeCanonical(clustering, value, deletion)
	}
}

// wrote counts a row that was added to the page. done means that no further row of the partition is needed. Rows that
// are not live do not count: the coordinator needs their tombstones, and the client gets none of them.
func (r *reader) wrote(live bool) (done bool) {
	if live {
		r.liveRows++
		r.count()
	}
	if r.pageFull() {
		r.full = true
	}
	// The coordinator merges as many rows as it requested; an additional one would be on two pages.
	invariant.Check(r.cmd.Limits.Rows == 0 || r.live <= r.cmd.Limits.Rows, "reading: more live rows than the limit")
	invariant.Check(r.cmd.Limits.PerPartition == 0 || r.liveRows <= r.cmd.Limits.PerPartition,
		"reading: more live rows of a partition than the limit")
	return r.full || r.cmd.Limits.PerPartition > 0 && r.liveRows >= r.cmd.Limits.PerPartition
}

// pageFull reports whether the page ends here: it has reached its maximum size, or gets no more memory. It requests
// twice the current size each time.
func (r *reader) pageFull() bool {
	invariant.Check(r.w.Len() >= r.pageStart, "reading: the page lost bytes that precede it")
	if r.w.Len()-r.pageStart >= r.pageBytes {
		return true
	}
	n := r.size()
	// Without Memory, a page is bounded by its size only.
	if n <= r.pageAllowed || r.cmd.Memory == nil {
		return false
	}
	// Doubling keeps the number of requests for memory small while a page grows.
	r.pageAllowed = 2 * n
	return !r.cmd.Memory.Grow(r.pageAllowed)
}

// beginPage writes the partition's header into the page, once.
func (r *reader) beginPage() {
	if !r.begun {
		r.begun = true
		r.w.EncodedPartition(r.key, r.header, r.shownRT)
	}
}

// count counts a live row.
func (r *reader) count() {
	// A range without a limit may have more rows than the counter; it stays at its maximum.
	if r.live < math.MaxUint32 {
		r.live++
	}
	if r.cmd.Limits.Rows > 0 && r.live >= r.cmd.Limits.Rows {
		r.full = true
	}
}

// look counts an entry, and periodically checks whether the read must end early.
func (r *reader) look() error {
	if r.looked++; r.looked%cancelEvery == 0 {
		return r.cmd.Cancel.Err()
	}
	return nil
}

// Canceled reports whether err comes from a read that ended early because its result is not wanted.
func Canceled(err error) bool {
	return errors.Is(err, env.ErrCanceled) || errors.Is(err, context.DeadlineExceeded)
}

// met counts scanned tombstones. Too many of them end the read with TooManyTombstones.
func (r *reader) met(n int) error {
	// This is Cassandra's tombstone_failure_threshold. A repair is exempt, because it must reconcile such partitions.
	if r.tombstones += n; r.tombstones > failure.TombstonesMax && r.cmd.Repair == nil {
		return &failure.TooManyTombstones{Table: r.info.Name(r.cmd.Table), Live: int(r.live), Tombstones: r.tombstones}
	}
	return nil
}
