package repair

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"cqld/internal/env"
	"cqld/internal/invariant"
	"cqld/internal/wire"
	"cqld/ring"
	"cqld/schema"
)

// History records, for each table and token of this node, the time (seconds) up to which all replicas are known to have
// every write. Storage may purge tombstones from before that time: no replica lacks them. Ranges that this node gives
// away are removed. It is safe for concurrent use.
//
// Storage sees an addition only when it is older than the settling time: a read that began before the repair may have
// the page of a replica that lacked a deletion, and would resurrect the row if the other replicas answered it after
// they had purged the tombstone.
type History struct {
	store LocalStore
	clock env.Clock
	// settling is longer than any read takes; zero means that storage sees additions at once.
	settling time.Duration
	// tables is replaced as a whole and never modified, so that readers need no lock.
	tables atomic.Pointer[map[schema.StorageID]repairedTable]
	mu     sync.Mutex // held while tables is replaced
	onAdd  func()     // see OnAdd
}

// repairedTable is the history of one table: disjoint spans in token order, and what storage sees of them.
type repairedTable struct {
	spans []repairedSpan
	// versions are in the order of time; the last one is of spans. Storage sees the newest that has settled.
	versions []repairedVersion
}

// repairedVersion is the history of one table from a time on. before searches its spans.
type repairedVersion struct {
	since  time.Duration // monotonic
	before func(ring.Token) int64
}

func newVersion(spans []repairedSpan, now time.Duration) repairedVersion {
	return repairedVersion{now, func(t ring.Token) int64 { return repairedBefore(spans, t) }}
}

// versionsEach is how many versions are kept for each settling time: additions come as often as units of a repair end.
const versionsEach = 4

// added returns the history after an addition.
func (r repairedTable) added(spans []repairedSpan, now, settling time.Duration) repairedTable {
	versions := slices.Clone(r.versions)
	// What has been replaced by a version that has settled too is not needed.
	for len(versions) > 1 && now-versions[1].since >= settling {
		versions = versions[1:]
	}
	// If the last version was added soon after the one before it, it is merged with the new one, and settles with it.
	if n := len(versions); n > 1 && versions[n-1].since-versions[n-2].since < settling/versionsEach {
		versions = versions[:n-1]
	}
	invariant.Check(len(versions) <= versionsEach+2, "repair: too many versions of a history")
	return repairedTable{spans, append(versions, newVersion(spans, now))}
}

// settled returns what storage sees at a time; nil if nothing has settled.
func (r repairedTable) settled(now, settling time.Duration) func(ring.Token) int64 {
	for _, v := range slices.Backward(r.versions) {
		if now-v.since >= settling {
			return v.before
		}
	}
	return nil
}

// repairedSpan is the tokens (lower, upper], shifted so that they sort as unsigned numbers, repaired until a time.
type repairedSpan struct {
	lower, upper uint64
	until        int64
}

// repairedSpansMax bounds the spans of one table: 64 KiB. A ring of 64 nodes with 16 tokens has 1024 ranges, and
// adjacent ranges that were repaired together are one span.
const repairedSpansMax = 2730

// The local key of a table and its value:
//
//	repaired/ table 4 → (lower 8, upper 8, until 8)*
const repairedPrefix = "repaired/"

// OpenHistory reads the history that earlier processes of this node stored. The settling time of these additions begins
// again, because their age is not stored.
func OpenHistory(store LocalStore, clock env.Clock, settling time.Duration) (*History, error) {
	h := &History{store: store, clock: clock, settling: settling}
	tables := map[schema.StorageID]repairedTable{}
	err := store.ScanLocal([]byte(repairedPrefix), func(key, value []byte) error {
		// Not ignored: a wrong history could let storage purge tombstones that a replica lacks.
		if len(key) != len(repairedPrefix)+4 || len(value)%24 != 0 {
			return fmt.Errorf("repair: malformed record of repaired ranges %x", key)
		}
		var spans []repairedSpan
		for c := wire.NewCursor(value); c.Len() > 0; {
			spans = append(spans, repairedSpan{c.Uint64(), c.Uint64(), c.Int64()})
		}
		tables[schema.StorageID(binary.BigEndian.Uint32(key[len(repairedPrefix):]))] = repairedTable{}.added(spans,
			clock.Monotonic(), settling)
		return nil
	})
	h.tables.Store(&tables)
	return h, err
}

// shifted maps a token to an unsigned number; the order is kept.
func shifted(t ring.Token) uint64 { return uint64(t) ^ 1<<63 }

// spansOf returns a range as one or two spans.
func spansOf(tokens ring.Range, until int64) (out []repairedSpan) {
	for _, r := range tokens.Unwrap() {
		upper := shifted(r.End)
		// The end of the ring: the greatest token is included.
		if r.End == ring.MinToken {
			upper = shifted(ring.MaxToken)
		}
		if lower := shifted(r.Start); lower < upper {
			out = append(out, repairedSpan{lower, upper, until})
		}
	}
	return out
}

// Before returns the time up to which a token of a table is repaired, and a time long ago when it never was.
func (h *History) Before(table schema.StorageID, t ring.Token) int64 {
	return repairedBefore((*h.tables.Load())[table].spans, t)
}

func repairedBefore(spans []repairedSpan, t ring.Token) int64 {
	return repairedAt(spans, shifted(t))
}

// repairedAt is repairedBefore of a shifted token.
func repairedAt(spans []repairedSpan, at uint64) int64 {
	i, _ := slices.BinarySearchFunc(spans, at, func(s repairedSpan, at uint64) int {
		if s.upper < at {
			return -1
		}
		return 1
	})
	// The first span that ends at or after the token contains it, or begins later.
	if i < len(spans) && spans[i].lower < at {
		return spans[i].until
	}
	return neverRepaired
}

// Since returns the time up to which a whole range of a table is repaired, and a time long ago when some of it never
// was. The range may wrap.
func (h *History) Since(table schema.StorageID, tokens ring.Range) int64 {
	spans := (*h.tables.Load())[table].spans
	until := int64(1) << 62
	for _, want := range spansOf(tokens, 0) {
		at := want.lower
		for _, s := range spans {
			// Spans are in token order: each one must begin where the last one ended, or before.
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

// neverRepaired precedes every time, and leaves room for subtractions.
const neverRepaired = -1 << 62

// Of returns Before of one table, without additions that have not settled, as a function; nil when no range of the
// table was repaired.
func (h *History) Of(table schema.StorageID) func(ring.Token) int64 {
	r, found := (*h.tables.Load())[table]
	if !found {
		return nil
	}
	return r.settled(h.clock.Monotonic(), h.settling)
}

// OnAdd sets the function that is called after each Add. Call it before requests arrive.
func (h *History) OnAdd(f func()) { h.onAdd = f }

// Add records that a range, which may wrap, is repaired until a time.
func (h *History) Add(table schema.StorageID, tokens ring.Range, until int64) error {
	err := h.add(table, tokens, until)
	if err == nil && h.onAdd != nil {
		h.onAdd()
	}
	return err
}

// add is Add without the callback, which must not be called with mu.
func (h *History) add(table schema.StorageID, tokens ring.Range, until int64) error {
	// Readers need no lock: they see the tables before or after the change.
	h.mu.Lock()
	defer h.mu.Unlock()
	spans := (*h.tables.Load())[table].spans
	for _, s := range spansOf(tokens, until) {
		spans = addSpan(spans, s)
		checkAdded(spans, s)
	}
	return h.putLocked(table, boundSpans(joinSpans(spans)), false)
}

// Retain removes all ranges of a table except held, the ranges of this node. A range that this node gains again later
// has other data.
func (h *History) Retain(table schema.StorageID, held []ring.Range) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	spans := (*h.tables.Load())[table].spans
	var kept []repairedSpan
	// The intersection of each held range with each span is kept.
	for _, own := range held {
		for _, in := range spansOf(own, 0) {
			for _, s := range spans {
				if cut := (repairedSpan{max(s.lower, in.lower), min(s.upper, in.upper),
					s.until}); cut.lower < cut.upper {
					kept = addSpan(kept, cut)
				}
			}
		}
	}
	kept = joinSpans(kept)
	if invariant.Enabled {
		checkRetained(kept, spans)
	}
	// Nothing to remove, and no sync of the disk.
	if slices.Equal(kept, spans) {
		return nil
	}
	return h.putLocked(table, kept, true)
}

// Tables returns the tables with repaired ranges, sorted.
func (h *History) Tables() []schema.StorageID { return slices.Sorted(maps.Keys(*h.tables.Load())) }

// putLocked replaces the history of a table. Additions need no sync: losing them is safe. Removals do.
func (h *History) putLocked(table schema.StorageID, spans []repairedSpan, sync bool) error {
	checkSpans(spans)
	invariant.Check(len(spans) <= repairedSpansMax || sync, "repair: too many repaired spans")
	key := binary.BigEndian.AppendUint32([]byte(repairedPrefix), uint32(table))
	// The disk first: if the write fails, readers keep the history that the disk has.
	var err error
	if len(spans) == 0 {
		err = h.store.DeleteLocal(key, sync)
	} else {
		var value []byte
		for _, s := range spans {
			value = wire.AppendInt64(wire.AppendUint64(wire.AppendUint64(value, s.lower), s.upper), s.until)
		}
		err = h.store.SetLocal(key, value, sync)
	}
	if err != nil {
		return err
	}
	// Cloned, because readers use the present map without a lock.
	next := maps.Clone(*h.tables.Load())
	// A removal takes the earlier versions with it: they have the removed ranges.
	former := next[table]
	if sync {
		former = repairedTable{}
	}
	if next[table] = former.added(spans, h.clock.Monotonic(), h.settling); len(spans) == 0 {
		delete(next, table)
	}
	// Memory changes after the disk: a crash in between leaves the disk ahead, which is then the state after the next
	// start.
	h.tables.Store(&next)
	return nil
}

// addSpan adds s to ordered disjoint spans; where they overlap, the later time counts.
func addSpan(spans []repairedSpan, s repairedSpan) (out []repairedSpan) {
	at := s.lower // s has been added up to here
	gap := func(until uint64) {
		if at < until {
			out = append(out, repairedSpan{at, until, s.until})
		}
	}
	for _, x := range spans {
		switch {
		// x is before s.
		case x.upper <= s.lower:
			out = append(out, x)
			continue
		// x is after s, so the rest of s comes first.
		case x.lower >= s.upper:
			gap(s.upper)
			at = s.upper
			out = append(out, x)
			continue
		// The part of x before s stays as it is.
		case x.lower < s.lower:
			out = append(out, repairedSpan{x.lower, s.lower, x.until})
		default:
			gap(x.lower)
		}
		// The part that both cover.
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

// joinSpans joins adjacent spans with the same time.
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

// boundSpans reduces spans to repairedSpansMax: it joins adjacent spans, with the earlier time, and removes the first
// ones when none are adjacent.
func boundSpans(spans []repairedSpan) []repairedSpan {
	for len(spans) > repairedSpansMax {
		least, at := int64(1)<<62, -1
		for i := 1; i < len(spans); i++ {
			if a, b := spans[i-1], spans[i]; a.upper == b.lower && max(a.until, b.until)-min(a.until, b.until) < least {
				least, at = max(a.until, b.until)-min(a.until, b.until), i
			}
		}
		// No two spans are adjacent. A range that is not recorded counts as not repaired, which only delays the purge.
		if at < 0 {
			return spans[len(spans)-repairedSpansMax:]
		}
		// The earlier time is true for both. The pair with the smallest difference loses least.
		spans[at-1].until, spans[at-1].upper = min(spans[at-1].until, spans[at].until), spans[at].upper
		spans = slices.Delete(spans, at, at+1)
	}
	return spans
}
