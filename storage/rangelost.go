package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"cqld/internal/invariant"
	"cqld/internal/wire"
	"cqld/ring"
	"cqld/schema"
	"cqld/storage/database"
	"cqld/storage/failure"
	"cqld/storage/lost"
	"cqld/storage/rowkey"
)

// quarantine removes corrupt files from the data, and records the lost ranges until a repair restores them.
type quarantine struct {
	*core
	commits  *committer
	removals *remover
	mu       sync.Mutex // serializes changes of core.lost; reads use it without a lock
	number   uint64     // of the last loss; mu guards it
}

// Each lost range is one of the engine's own keys, with a unique number:
//
//	'q' number 8 → table 4, start 8, end 8, since 8, path
const ownLost = 'q'

// Corruptions returns the corrupt files found since the engine was opened. A file that is in use in several parts may
// occur several times.
func (e *Engine) Corruptions() []database.CorruptionInfo { return e.db.Corruptions() }

// Lost returns the ranges that were lost and are not repaired yet.
func (e *Engine) Lost() []lost.Range {
	return slices.Clone(e.lost.List())
}

// Quarantine removes the unreadable parts of the corrupt files found so far from the data. For each file, it removes
// all keys from the first to the last unreadable one, in whole partitions and from all files: older versions in other
// files could bring back rows that a purge removed. It returns the lost ranges, which are not read from then on. Each
// range is recorded before its data is removed.
//
//	file       │ table 1 ......... │ table 2 ..... │ table 3 ........ │
//	unreadable          └──┘
//	lost               └────┘  whole tokens; the rest of the file stays in use
//
// A file is lost from its first to its last key only if its readable parts do not show which keys are unreadable. If
// the unreadable keys span several tables, the tables in between are lost as a whole.
func (e *Engine) Quarantine() (all []lost.Range, err error) {
	if err := e.db.Err(); err != nil {
		return nil, err
	}
	if err := e.Drain(); err != nil {
		return nil, err
	}
	var errs []error
	// Files are removed one by one, so that a file that cannot be removed does not keep the others in use.
	for _, info := range e.db.Corruptions() {
		some, err := e.losses.quarantineUnreadable(&info)
		if err != nil {
			errs = append(errs, &failure.CorruptError{Path: info.Path, Err: err})
			continue
		}
		all = append(all, some...)
		e.db.Removed(info)
	}
	return all, errors.Join(errs...)
}

// Errors that keep the corrupt part of a file, or the whole file, from being removed.
var (
	// Local keys have no replica from which a repair could copy them.
	errOwnData = errors.New("it contains the node's own data; replace the node")
	errBorder  = errors.New("the keys next to the corrupt part cannot be read")
)

// besideError means that a file cannot be read at the border of the keys to be removed because of another file.
type besideError struct {
	file database.CorruptionInfo
	err  error
}

// Error implements error.
func (e *besideError) Error() string {
	return fmt.Sprintf("another file, %s, cannot be read at the border of the corrupt part: %v", e.file.Path, e.err)
}

// widen extends the bounds of a removal by the unreadable keys of another file, and reports whether they have grown.
func (q *quarantine) widen(info, beside *database.CorruptionInfo) bool {
	other, ok := q.db.Unreadable(*beside)
	if !ok {
		return false
	}
	before, after := bytes.Compare(other.Start, info.Start) < 0, bytes.Compare(other.End, info.End) > 0
	if before {
		info.Start = other.Start
	}
	if after {
		info.End = other.End
	}
	return before || after
}

// quarantineUnreadable removes the unreadable keys of a file, or the whole file if these are unknown or the rest
// cannot be read either.
func (q *quarantine) quarantineUnreadable(info *database.CorruptionInfo) ([]lost.Range, error) {
	if narrow, ok := q.db.Unreadable(*info); ok {
		ranges, err := q.quarantineFile(&narrow)
		for beside := new(besideError); errors.As(err, &beside) && q.widen(&narrow, &beside.file); {
			ranges, err = q.quarantineFile(&narrow)
		}
		// The removal reads the rest of the file, and fails if another part turns out to be corrupt. Only then is the
		// whole file removed.
		if !errors.Is(err, failure.ErrCorrupt) && !errors.Is(err, errBorder) {
			return ranges, err
		}
	}
	ranges, err := q.quarantineFile(info)
	if errors.Is(err, errBorder) {
		// Only local keys are left of a whole file.
		err = errOwnData
	}
	return ranges, err
}

func (q *quarantine) quarantineFile(info *database.CorruptionInfo) ([]lost.Range, error) {
	// Pebble could not read the bounds of the file.
	if len(info.Start) < rowkey.TableSize || len(info.End) < rowkey.TableSize {
		return nil, errors.New("its key range is unknown; replace the node")
	}
	// A file may contain keys of the node, entries of maintainers and rows, in this order.
	entries := entriesIn(info)
	ranges := q.lostIn(info)
	if len(ranges) == 0 && !bytes.Equal(entries, info.Start) {
		return nil, errOwnData
	}
	// End is inclusive, and Excise wants an exclusive bound.
	lower, upper := entries, append(bytes.Clone(info.End), 0)
	if len(ranges) > 0 {
		// Whole tokens are excised: part of a partition would look complete.
		first, last := ranges[0], ranges[len(ranges)-1]
		if entries == nil {
			lower, _, _ = rowkey.Bounds(nil, nil, first.Table, first.Tokens)
		}
		_, upper, _ = rowkey.Bounds(nil, nil, last.Table, last.Tokens)
	}
	if err := q.checkBorders(info, lower, upper); err != nil {
		return nil, err
	}
	if entries == nil {
		return ranges, q.removeFile(lower, upper, ranges)
	}
	return ranges, loseEntries(q.derived.list, entries, info.End,
		func() error { return q.removeFile(lower, upper, ranges) })
}

// checkBorders returns an error unless the removal of [lower, upper) keeps the rest of all files: errBorder if the rest
// of the corrupt file cannot be read, and a besideError if it is another file.
func (q *quarantine) checkBorders(info *database.CorruptionInfo, lower, upper []byte) error {
	at, err := q.db.CheckBorders(lower, upper)
	if err == nil {
		return nil
	}
	if q.opts.FS.PathBase(at.Path) == q.opts.FS.PathBase(info.Path) {
		return fmt.Errorf("%w: %w", errBorder, err)
	}
	if errors.Is(failure.Of(err), failure.ErrCorrupt) {
		// The next repair removes the corrupt part of that file as well.
		q.db.Corrupted(at)
	}
	return &besideError{at, err}
}

// removeFile records the lost ranges and removes the keys of [lower, upper).
func (q *quarantine) removeFile(lower, upper []byte, ranges []lost.Range) error {
	if len(ranges) == 0 {
		_, err := q.excise(lower, upper, ranges)
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	// LastLoss returns the number only after the removal, because both hold mu.
	q.number++
	for i := range ranges {
		ranges[i].Number = q.number
	}
	before := q.lost.List()
	if err := q.putLostLocked(slices.Concat(before, ranges)); err != nil {
		return err
	}
	excised, err := q.excise(lower, upper, ranges)
	if err != nil && !excised {
		// The data is still in place, so it must neither be reported as lost nor be refused to readers.
		err = errors.Join(err, q.putLostLocked(before))
	}
	return err
}

// entriesIn returns the first key of entries of maintainers in a file, or nil if it has none.
func entriesIn(info *database.CorruptionInfo) (first []byte) {
	first = append(rowkey.AppendTable(nil, 0), derivedPrefix)
	if rowkey.TableOf(info.Start) != 0 || bytes.Compare(info.End, first) < 0 {
		return nil
	}
	if bytes.Compare(info.Start, first) > 0 {
		first = info.Start
	}
	return first
}

// lostIn returns the tokens of tables in a file.
func (q *quarantine) lostIn(info *database.CorruptionInfo) (out []lost.Range) {
	// The file covers the end of the first table, all tables in between, and the beginning of the last.
	from, to := rowkey.TableOf(info.Start), rowkey.TableOf(info.End)
	now := q.opts.Clock.Now().UnixNano()
	for id := max(from, 1); id <= to; id++ {
		// A table between the first and the last is lost as a whole.
		tokens := ring.FullRange()
		if id == from {
			// The start of a range is exclusive: the token before the first key.
			tokens.Start = max(rowkey.TokenOf(info.Start, ring.MinToken), ring.MinToken+1) - 1
		}
		if id == to {
			tokens.End = rowkey.TokenOf(info.End, ring.MinToken)
		}
		bare := id == to && id != from && len(info.End) < rowkey.TableSize+rowkey.TokenSize // it ends before that table
		if bare || id != from && id != to && !q.opts.Table(id).Exists {
			continue
		}
		out = append(out, lost.Range{Table: id, Tokens: tokens, Since: now, Path: info.Path})
	}
	return out
}

// excise removes keys, dropping whole files without reading them, and notifies maintainers of the lost ranges.
// excised means that the keys were removed, even if a later step failed.
func (q *quarantine) excise(lower, upper []byte, ranges []lost.Range) (excised bool, err error) {
	err = q.removals.removeLatched(func(b *pebble.Batch) error {
		// Commits wait until the MANIFEST has changed: their rows must neither be removed nor lose the entries that
		// are removed next.
		if err := q.db.Excise(context.Background(), pebble.KeyRange{Start: lower, End: upper}); err != nil {
			return err
		}
		excised = true
		for _, x := range ranges {
			q.derived.remove(b, x.Table, x.Tokens)
		}
		return nil
	})
	return excised, err
}

// LastLoss returns the number of the last loss (lost.Range.Number), whose data has been removed. It may wait for the
// disk.
func (e *Engine) LastLoss() uint64 {
	e.losses.mu.Lock()
	defer e.losses.mu.Unlock()
	return e.losses.number
}

// Lift makes a range, which may wrap, readable again, where it was lost by the loss with this number or before: a
// repair that began after LastLoss returned the number has restored it. Numbers are compared instead of times,
// because the clock may be set back.
func (e *Engine) Lift(id schema.StorageID, tokens ring.Range, number uint64) error {
	if len(e.lost.List()) == 0 {
		return nil
	}
	e.losses.mu.Lock()
	defer e.losses.mu.Unlock()
	var left []lost.Range
	for _, x := range e.Lost() {
		// The range was lost after the repair began, and the repair may have read it before that.
		if x.Table != id || x.Number > number {
			left = append(left, x)
			continue
		}
		// A repair of a part of the range leaves the other parts lost.
		rest := []ring.Range{x.Tokens}
		for _, r := range tokens.Unwrap() {
			rest = lost.Without(rest, r)
		}
		for _, r := range rest {
			left = append(left, lost.Range{Table: x.Table, Tokens: r, Number: x.Number, Since: x.Since, Path: x.Path})
		}
	}
	return e.losses.putLostLocked(left)
}

// putLostLocked replaces the lost ranges, first on disk.
func (q *quarantine) putLostLocked(list []lost.Range) (err error) {
	defer q.db.Recover(&err)
	batch := q.db.NewBatch()
	defer batch.Close()
	prefix := ownKey(ownLost)
	// The list is short and rarely changes: it is written as a whole.
	if err := batch.DeleteRange(prefix, rowkey.PrefixEnd(prefix), nil); err != nil {
		return err
	}
	for i, x := range list {
		invariant.Check(!x.Tokens.Wraps() && x.Table != 0, "storage: lost range %v of table %d", x.Tokens, x.Table)
		value := wire.AppendInt64(wire.AppendUint32(nil, uint32(x.Table)), int64(x.Tokens.Start))
		value = wire.AppendInt64(wire.AppendInt64(value, int64(x.Tokens.End)), x.Since)
		if err := batch.Set(wire.AppendUint64(ownKey(ownLost), uint64(i)), append(value, x.Path...), nil); err != nil {
			return err
		}
	}
	if err := q.db.Apply(batch, pebble.Sync); err != nil {
		return failure.Of(err)
	}
	// Memory changes after the disk: a range that has become readable must stay readable after a crash.
	q.lost.Replace(list)
	return q.db.Err()
}

// loadLost loads the lost ranges when the engine is opened.
func (q *quarantine) loadLost() error {
	var list []lost.Range
	err := q.db.Scan(ownKey(ownLost), func(key, value []byte) error {
		c := wire.NewCursor(value)
		x := lost.Range{Table: schema.StorageID(c.Uint32()),
			Tokens: ring.Range{Start: ring.Token(c.Int64()), End: ring.Token(c.Int64())},
			Since:  c.Int64(), Path: string(c.Rest())}
		if c.Finish() != nil {
			return failure.BadKey(key)
		}
		list = append(list, x)
		return nil
	})
	q.lost.Replace(list)
	return err
}
