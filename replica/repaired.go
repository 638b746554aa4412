package replica

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"cqld/internal/wire"
	"cqld/ring"
	"cqld/schema"
)

// Repaired knows until when (seconds) all replicas of a token had everything, as far as this node was
// told: tombstones from before then need not be kept for those who missed them. It forgets ranges
// that this node gives away.
type Repaired struct {
	store RepairedStore
	// tables is replaced, never changed: readers look without a lock.
	tables atomic.Pointer[map[schema.StorageID]repairedTable]
	mu     sync.Mutex // held by who replaces tables
	// added is called after Add; nil: nothing is. It is set before requests come in.
	added func()
}

// RepairedStore is what Repaired needs of storage.
type RepairedStore interface {
	SetLocal(key, value []byte, sync bool) error
	DeleteLocal(key []byte, sync bool) error
	ScanLocal(prefix []byte, f func(key, value []byte) error) error
}

// repairedTable is what is known of a table: disjoint spans in order, and what looks into them.
type repairedTable struct {
	spans  []repairedSpan
	before func(ring.Token) int64
}

func newRepairedTable(spans []repairedSpan) repairedTable {
	return repairedTable{spans, func(t ring.Token) int64 { return repairedBefore(spans, t) }}
}

// repairedSpan is tokens (lower, upper], shifted so that they sort unsigned, repaired until a time.
type repairedSpan struct {
	lower, upper uint64
	until        int64
}

// repairedSpansMax bounds what is known of one table: 64 KiB. A ring of 64 nodes with 16 tokens has 1024
// ranges, and neighbours that were repaired together are one span.
const repairedSpansMax = 2730

// The local key of a table, and its value:
//
//	repaired/ table 4 → (lower 8, upper 8, until 8)*
const repairedPrefix = "repaired/"

// OpenRepaired reads what an earlier process was told.
func OpenRepaired(store RepairedStore) (*Repaired, error) {
	r := &Repaired{store: store}
	tables := map[schema.StorageID]repairedTable{}
	err := store.ScanLocal([]byte(repairedPrefix), func(key, value []byte) error {
		if len(key) != len(repairedPrefix)+4 || len(value)%24 != 0 {
			return fmt.Errorf("replica: malformed record of repaired ranges %x", key)
		}
		var spans []repairedSpan
		for c := wire.NewCursor(value); c.Len() > 0; {
			spans = append(spans, repairedSpan{c.Uint64(), c.Uint64(), c.Int64()})
		}
		tables[schema.StorageID(binary.BigEndian.Uint32(key[len(repairedPrefix):]))] = newRepairedTable(spans)
		return nil
	})
	r.tables.Store(&tables)
	return r, err
}

// shifted is the position of a token among unsigned numbers.
func shifted(t ring.Token) uint64 { return uint64(t) ^ 1<<63 }

// spansOf is r as one or two spans.
func spansOf(r ring.Range, until int64) (out []repairedSpan) {
	for _, r := range r.Unwrap() {
		upper := shifted(r.End)
		if r.End == ring.MinToken {
			upper = shifted(ring.MaxToken)
		}
		if lower := shifted(r.Start); lower < upper {
			out = append(out, repairedSpan{lower, upper, until})
		}
	}
	return out
}

// Before is until when the token of a table is repaired; very long ago when it never was.
func (r *Repaired) Before(table schema.StorageID, t ring.Token) int64 {
	return repairedBefore((*r.tables.Load())[table].spans, t)
}

func repairedBefore(spans []repairedSpan, t ring.Token) int64 {
	at := shifted(t)
	i, _ := slices.BinarySearchFunc(spans, at, func(s repairedSpan, at uint64) int {
		if s.upper < at {
			return -1
		}
		return 1
	})
	if i < len(spans) && spans[i].lower < at {
		return spans[i].until
	}
	return neverRepaired
}

// Since is until when all of a range of a table, which may wrap, is repaired; very long ago when some of it never was.
func (r *Repaired) Since(table schema.StorageID, tokens ring.Range) int64 {
	spans := (*r.tables.Load())[table].spans
	until := int64(1) << 62
	for _, want := range spansOf(tokens, 0) {
		at := want.lower
		for _, s := range spans {
			if s.lower <= at && at < s.upper && at < want.upper {
				until, at = min(until, s.until), s.upper
			}
		}
		if at < want.upper {
			return neverRepaired
		}
	}
	return until
}

const neverRepaired = -1 << 62

// Of is Before of one table, as it is known now; nil when nothing is.
func (r *Repaired) Of(table schema.StorageID) func(ring.Token) int64 {
	return (*r.tables.Load())[table].before
}

// Add takes notice that a range, which may wrap, is repaired until a time.
func (r *Repaired) Add(table schema.StorageID, tokens ring.Range, until int64) error {
	err := r.add(table, tokens, until)
	if err == nil && r.added != nil {
		r.added()
	}
	return err
}

func (r *Repaired) add(table schema.StorageID, tokens ring.Range, until int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	spans := (*r.tables.Load())[table].spans
	for _, s := range spansOf(tokens, until) {
		spans = addSpan(spans, s)
	}
	return r.putLocked(table, boundSpans(joinSpans(spans)), false)
}

// Retain forgets all of a table but the ranges given: those this node holds. What it gains again later
// is not what it had.
func (r *Repaired) Retain(table schema.StorageID, held []ring.Range) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	spans := (*r.tables.Load())[table].spans
	var kept []repairedSpan
	for _, h := range held {
		for _, in := range spansOf(h, 0) {
			for _, s := range spans {
				if cut := (repairedSpan{max(s.lower, in.lower), min(s.upper, in.upper), s.until}); cut.lower < cut.upper {
					kept = addSpan(kept, cut)
				}
			}
		}
	}
	if kept = joinSpans(kept); slices.Equal(kept, spans) {
		return nil
	}
	return r.putLocked(table, kept, true)
}

// Tables are the tables of which anything is known, sorted.
func (r *Repaired) Tables() []schema.StorageID { return slices.Sorted(maps.Keys(*r.tables.Load())) }

// putLocked replaces what is known of a table. What is added need not be synced: it may be forgotten.
// What is taken away must not come back.
func (r *Repaired) putLocked(table schema.StorageID, spans []repairedSpan, sync bool) error {
	key := binary.BigEndian.AppendUint32([]byte(repairedPrefix), uint32(table))
	var err error
	if len(spans) == 0 {
		err = r.store.DeleteLocal(key, sync)
	} else {
		var value []byte
		for _, s := range spans {
			value = wire.AppendInt64(wire.AppendUint64(wire.AppendUint64(value, s.lower), s.upper), s.until)
		}
		err = r.store.SetLocal(key, value, sync)
	}
	if err != nil {
		return err
	}
	next := maps.Clone(*r.tables.Load())
	if next[table] = newRepairedTable(spans); len(spans) == 0 {
		delete(next, table)
	}
	r.tables.Store(&next)
	return nil
}

// addSpan adds s to disjoint spans in order; where they meet, the later time counts.
func addSpan(spans []repairedSpan, s repairedSpan) (out []repairedSpan) {
	at := s.lower // up to where s has been added
	gap := func(until uint64) {
		if at < until {
			out = append(out, repairedSpan{at, until, s.until})
		}
	}
	for _, x := range spans {
		switch {
		case x.upper <= s.lower:
			out = append(out, x)
			continue
		case x.lower >= s.upper:
			gap(s.upper)
			at = s.upper
			out = append(out, x)
			continue
		case x.lower < s.lower:
			out = append(out, repairedSpan{x.lower, s.lower, x.until})
		default:
			gap(x.lower)
		}
		end := min(x.upper, s.upper)
		out = append(out, repairedSpan{max(x.lower, s.lower), end, max(x.until, s.until)})
		at = end
		if x.upper > s.upper {
			out = append(out, repairedSpan{s.upper, x.upper, x.until})
		}
	}
	gap(s.upper)
	return out
}

// joinSpans joins neighbours that are repaired until the same time.
func joinSpans(spans []repairedSpan) (out []repairedSpan) {
	for _, s := range spans {
		if n := len(out); n > 0 && out[n-1].upper == s.lower && out[n-1].until == s.until {
			out[n-1].upper = s.upper
			continue
		}
		out = append(out, s)
	}
	return out
}

// boundSpans forgets some of what is too much: neighbours become one with the earlier time, lone ones go.
func boundSpans(spans []repairedSpan) []repairedSpan {
	for len(spans) > repairedSpansMax {
		least, at := int64(1)<<62, -1
		for i := 1; i < len(spans); i++ {
			if a, b := spans[i-1], spans[i]; a.upper == b.lower && max(a.until, b.until)-min(a.until, b.until) < least {
				least, at = max(a.until, b.until)-min(a.until, b.until), i
			}
		}
		if at < 0 {
			return spans[len(spans)-repairedSpansMax:]
		}
		spans[at-1].until, spans[at-1].upper = min(spans[at-1].until, spans[at].until), spans[at].upper
		spans = slices.Delete(spans, at, at+1)
	}
	return spans
}
