package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

	"cqld/internal/wire"
	"cqld/ring"
	"cqld/schema"
	"cqld/storage/rowkey"
)

// LostRange is a part of a table that was in a corrupt file. This node's data of it is incomplete, so only a repair
// may read it until Lift.
type LostRange struct {
	Table  schema.StorageID
	Tokens ring.Range // does not wrap
	Since  int64      // ns, by this node's clock
	Path   string     // the file
}

// lostRanges contains the lost ranges of an engine.
type lostRanges struct {
	list atomic.Pointer[[]LostRange] // replaced, never modified; nil if there are none
	mu   sync.Mutex                  // held while list is replaced
}

// Each lost range is one of the engine's own keys, with a unique number:
//
//	'q' number 8 → table 4, start 8, end 8, since 8, path
const ownLost = 'q'

// overlaps returns a lost range that overlaps tokens, which does not wrap, or nil.
func (l *lostRanges) overlaps(id schema.StorageID, tokens ring.Range) *LostRange {
	list := l.list.Load()
	if list == nil {
		return nil
	}
	for i := range *list {
		if x := &(*list)[i]; x.Table == id && len(cutRange(x.Tokens, tokens)) > 0 {
			return x
		}
	}
	return nil
}

// lostError returns the error for reads of the range.
func (x *LostRange) lostError() error {
	return &CorruptError{Path: x.Path, Err: fmt.Errorf("tokens %v of table number %d were lost and are not repaired "+
		"yet", x.Tokens, x.Table)}
}

// Lost returns the ranges that were lost and are not repaired yet.
func (e *Engine) Lost() []LostRange {
	if list := e.lost.list.Load(); list != nil {
		return slices.Clone(*list)
	}
	return nil
}

// Quarantine removes the corrupt files that were found so far from the data, with all else that lies
// between their first and last key, which are whole partitions then. It returns what was lost: from
// then on these ranges are not read. The range is noted before the file goes.
func (e *Engine) Quarantine() (lost []LostRange, err error) {
	if err := e.failedErr(); err != nil {
		return nil, err
	}
	if err := e.Drain(); err != nil {
		return nil, err
	}
	var errs []error
	for _, info := range e.Corruptions() {
		some, err := e.quarantineFile(&info)
		if err != nil {
			errs = append(errs, &CorruptError{Path: info.Path, Err: err})
			continue
		}
		lost = append(lost, some...)
		e.quarantine.Lock()
		e.quarantine.found = slices.DeleteFunc(e.quarantine.found,
			func(c CorruptionInfo) bool { return c.Path == info.Path })
		e.quarantine.removed = append(e.quarantine.removed, info)
		e.quarantine.Unlock()
	}
	return lost, errors.Join(errs...)
}

func (e *Engine) quarantineFile(info *CorruptionInfo) ([]LostRange, error) {
	if len(info.Start) < rowkey.TableSize || len(info.End) < rowkey.TableSize {
		return nil, errors.New("its key range is unknown; replace the node")
	}
	entries := entriesIn(info)
	lost := e.lostIn(info)
	if len(lost) == 0 && !bytes.Equal(entries, info.Start) {
		return nil, errors.New("it contains the node's own data; replace the node")
	}
	if entries == nil {
		return lost, e.removeFile(info, nil, lost)
	}
	return lost, loseEntries(e.maintainers, entries, info.End,
		func() error { return e.removeFile(info, entries, lost) })
}

// removeFile notes what is lost and removes it. entries is where the entries of maintainers begin in the file, nil
// if it has none.
func (e *Engine) removeFile(info *CorruptionInfo, entries []byte, lost []LostRange) error {
	lower, upper := entries, append(bytes.Clone(info.End), 0)
	if len(lost) > 0 {
		e.lost.mu.Lock()
		defer e.lost.mu.Unlock()
		if err := e.putLostLocked(append(e.Lost(), lost...)); err != nil {
			return err
		}
		first, last := lost[0], lost[len(lost)-1]
		if entries == nil {
			lower, _, _ = rowkey.Bounds(nil, nil, first.Table, first.Tokens)
		}
		_, upper, _ = rowkey.Bounds(nil, nil, last.Table, last.Tokens)
	}
	return e.excise(lower, upper, lost)
}

// entriesIn returns where the entries of maintainers begin in a file, nil if it has none.
func entriesIn(info *CorruptionInfo) (first []byte) {
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
func (e *Engine) lostIn(info *CorruptionInfo) (out []LostRange) {
	from, to := rowkey.TableOf(info.Start), rowkey.TableOf(info.End)
	now := e.opts.Clock.Now().UnixNano()
	for id := max(from, 1); id <= to; id++ {
		tokens := ring.FullRange()
		if id == from {
			tokens.Start = max(rowkey.TokenOf(info.Start, ring.MinToken), ring.MinToken+1) - 1
		}
		if id == to {
			tokens.End = rowkey.TokenOf(info.End, ring.MinToken)
		}
		bare := id == to && id != from && len(info.End) < rowkey.TableSize+rowkey.TokenSize // it ends before that table
		if bare || id != from && id != to && !e.opts.Table(id).Exists {
			continue
		}
		out = append(out, LostRange{Table: id, Tokens: tokens, Since: now, Path: info.Path})
	}
	return out
}

// excise removes keys without reading them, as far as whole files are concerned, and tells maintainers of the
// ranges that were lost.
func (e *Engine) excise(lower, upper []byte, lost []LostRange) error {
	return e.removeLatched(func(b *pebble.Batch) error {
		// Commits wait for the change of the MANIFEST: their rows must not go, nor lose the entries that are removed
		// next.
		if err := e.db.Excise(context.Background(), pebble.KeyRange{Start: lower, End: upper}); err != nil {
			return err
		}
		for _, x := range lost {
			e.remove(b, x.Table, x.Tokens)
		}
		return nil
	})
}

// Lift makes a range, which may wrap, readable again, where it was lost at the time since (ns) or before:
// a repair that began later has brought it back.
func (e *Engine) Lift(id schema.StorageID, tokens ring.Range, since int64) error {
	if e.lost.list.Load() == nil {
		return nil
	}
	e.lost.mu.Lock()
	defer e.lost.mu.Unlock()
	var left []LostRange
	for _, x := range e.Lost() {
		if x.Table != id || x.Since > since {
			left = append(left, x)
			continue
		}
		rest := []ring.Range{x.Tokens}
		for _, r := range tokens.Unwrap() {
			rest = withoutRange(rest, r)
		}
		for _, r := range rest {
			left = append(left, LostRange{x.Table, r, x.Since, x.Path})
		}
	}
	return e.putLostLocked(left)
}

// cutRange returns the intersection of a and b, which do not wrap: one range, or none.
func cutRange(a, b ring.Range) []ring.Range {
	r := ring.Range{Start: max(a.Start, b.Start), End: a.End}
	if a.End == ring.MinToken || b.End != ring.MinToken && b.End < a.End {
		r.End = b.End
	}
	if r.End != ring.MinToken && r.Start >= r.End {
		return nil
	}
	return []ring.Range{r}
}

// withoutRange returns the parts of in that are not in r; none wraps.
func withoutRange(in []ring.Range, r ring.Range) (out []ring.Range) {
	for _, x := range in {
		if len(cutRange(x, r)) == 0 {
			out = append(out, x)
			continue
		}
		if x.Start < r.Start {
			out = append(out, ring.Range{Start: x.Start, End: r.Start})
		}
		if r.End != ring.MinToken && (x.End == ring.MinToken || r.End < x.End) {
			out = append(out, ring.Range{Start: r.End, End: x.End})
		}
	}
	return out
}

// putLostLocked replaces the lost ranges, first on disk.
func (e *Engine) putLostLocked(list []LostRange) (err error) {
	defer e.commitPanic(&err)
	batch := e.db.NewBatch()
	defer batch.Close()
	prefix := ownKey(ownLost)
	if err := batch.DeleteRange(prefix, rowkey.PrefixEnd(prefix), nil); err != nil {
		return err
	}
	for i, x := range list {
		value := wire.AppendInt64(wire.AppendUint32(nil, uint32(x.Table)), int64(x.Tokens.Start))
		value = wire.AppendInt64(wire.AppendInt64(value, int64(x.Tokens.End)), x.Since)
		if err := batch.Set(wire.AppendUint64(ownKey(ownLost), uint64(i)), append(value, x.Path...), nil); err != nil {
			return err
		}
	}
	if err := e.db.Apply(batch, pebble.Sync); err != nil {
		return e.failure(err)
	}
	e.lost.list.Store(&list)
	if len(list) == 0 {
		e.lost.list.Store(nil)
	}
	return e.failedErr()
}

// loadLost loads the lost ranges when the engine is opened.
func (e *Engine) loadLost() error {
	var list []LostRange
	err := e.scan(ownKey(ownLost), func(key, value []byte) error {
		c := wire.NewCursor(value)
		x := LostRange{Table: schema.StorageID(c.Uint32()),
			Tokens: ring.Range{Start: ring.Token(c.Int64()), End: ring.Token(c.Int64())},
			Since:  c.Int64(), Path: string(c.Rest())}
		if c.Finish() != nil {
			return badKey(key)
		}
		list = append(list, x)
		return nil
	})
	if len(list) > 0 {
		e.lost.list.Store(&list)
	}
	return err
}
