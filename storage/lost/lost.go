// Package lost knows which ranges of tokens this node lost in corrupt files, and refuses reads of them. A file that
// cannot be read is set aside, and the ranges of tokens that it covered are lost until a repair has restored them:
// their rows may be absent here, and an answer without them would be wrong.
//
//	corrupt file ─▶ Replace(ranges) ─▶ Overlaps: reads fail, the coordinator asks other replicas
//	                                     │ repair restores the range
//	                                     └─▶ Without, Replace
//
// It neither detects corrupt files nor writes the list to disk; the engine does both.
package lost

import (
	"fmt"
	"sync/atomic"

	"cqld/internal/invariant"
	"cqld/ring"
	"cqld/schema"
	"cqld/storage/failure"
)

// Range is a part of a table that was in a corrupt file. This node's data of it is incomplete, so only a repair may
// read it until Lift. Writes to it are accepted.
type Range struct {
	Table  schema.StorageID
	Tokens ring.Range // does not wrap
	// Number counts the losses of this process. It is zero for a loss that an earlier process found.
	Number uint64
	Since  int64  // ns since 1970, by this node's clock; no decision depends on it
	Path   string // the file
}

// Ranges contains the lost ranges of an engine. Reads use it without a lock. The zero value has no ranges.
type Ranges struct {
	list atomic.Pointer[[]Range] // replaced, never modified; nil if there are none
}

// Overlaps returns a lost range that overlaps tokens, which does not wrap, or nil. The list is short, so it is searched
// from the beginning.
func (l *Ranges) Overlaps(id schema.StorageID, tokens ring.Range) *Range {
	// Usually the list is nil, and the check costs a read only this load.
	list := l.list.Load()
	if list == nil {
		return nil
	}
	for i := range *list {
		if x := &(*list)[i]; x.Table == id && len(cut(x.Tokens, tokens)) > 0 {
			return x
		}
	}
	return nil
}

// Err returns the error for reads of the range. The coordinator treats it like any corruption, and reads from another
// replica.
func (x *Range) Err() error {
	return &failure.CorruptError{Path: x.Path, Err: fmt.Errorf("tokens %v of table number %d were lost and are not "+
		"repaired yet", x.Tokens, x.Table)}
}

// cut returns the intersection of a and b, which do not wrap: one range, or none. For example, (10, 30] and (20,
// MinToken] give (20, 30].
func cut(a, b ring.Range) []ring.Range {
	// The end MinToken means the end of the ring, which is greater than every token.
	r := ring.Range{Start: max(a.Start, b.Start), End: a.End}
	if a.End == ring.MinToken || b.End != ring.MinToken && b.End < a.End {
		r.End = b.End
	}
	if r.End != ring.MinToken && r.Start >= r.End {
		return nil
	}
	invariant.Check(!r.Wraps(), "lost: the intersection of two ranges wraps")
	return []ring.Range{r}
}

// Without returns the parts of in that are not in r; none wraps. For example, (0, 100] without (20, 30] is (0, 20] and
// (30, 100].
func Without(in []ring.Range, r ring.Range) (out []ring.Range) {
	for _, x := range in {
		if len(cut(x, r)) == 0 {
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
	if invariant.Enabled { // a range that stays lost must not overlap what a repair restored
		for _, x := range out {
			invariant.Check(!x.Wraps() && len(cut(x, r)) == 0, "lost: %v is left of ranges without %v", x, r)
		}
	}
	return out
}

// List returns the lost ranges. The caller must not modify them. It may be used after Replace, because a list is never
// modified.
func (l *Ranges) List() []Range {
	if list := l.list.Load(); list != nil {
		return *list
	}
	return nil
}

// Replace replaces the lost ranges. The caller has written them to disk, and serializes calls.
func (l *Ranges) Replace(list []Range) {
	if len(list) == 0 {
		l.list.Store(nil) // the usual case costs reads one load
		return
	}
	l.list.Store(&list)
}
