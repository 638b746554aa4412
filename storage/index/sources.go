package index

import (
	"bytes"
	"container/heap"
	"errors"
	"slices"

	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/storage"
)

// bounds is an interval of places, or of keys: from start on and before end.
type bounds struct{ start, end []byte }

func (b bounds) empty() bool { return bytes.Compare(b.start, b.end) >= 0 }
func (b bounds) contains(place []byte) bool {
	return bytes.Compare(place, b.start) >= 0 && bytes.Compare(place, b.end) < 0
}

// placeBounds returns the interval of the places of the query. The bounds follow from the partition or the tokens, from
// the slices, and in ByToken from the position.
func (s *search) placeBounds() (b bounds) {
	q := s.q
	if q.Key.Bytes != nil {
		partition := appendPartition(nil, q.Key)
		b = bounds{start: slices.Clone(partition), end: append(partition, kindEnd)}
		// The bounds reach from the first slice to the last one. look skips entries in gaps between slices.
		if len(q.Slices) > 0 && !s.def.Partitions {
			b.start = append(append(b.start, byte(row.KindRow)), q.Slices[0].Start...)
			if end := q.Slices[len(q.Slices)-1].End; end != nil {
				b.end = AppendPlace(nil, q.Key, row.KindRow, end)
			}
		}
	} else {
		b = tokenBounds(q.Tokens)
	}
	// In the other orders a position is no place; afterPosition and offer apply it.
	if q.Order != ByToken || len(q.From) == 0 {
		return b
	}
	key, kind, _, ok := ParsePlace(q.From)
	inside := ok && s.def.Partitions && kind == row.KindRow // further rows of the partition follow
	switch {
	case q.Reversed && !inside:
		b.end = minBytes(b.end, q.From)
	case q.Reversed:
	case inside:
		b.start = maxBytes(b.start, appendPartition(nil, key))
	default:
		// Appending a zero byte makes the next key in the order of bytes.
		b.start = maxBytes(b.start, append(slices.Clone(q.From), 0))
	}
	return b
}

// tokenBounds returns the interval of the places of tokens.
func tokenBounds(tokens ring.Range) (b bounds) {
	switch tokens.Start {
	// A range excludes its start, so no token follows the greatest.
	case ring.MaxToken:
		return b
	// The start of the ring is no bound: an empty start precedes all places.
	case ring.MinToken:
	default:
		b.start = appendToken(nil, tokens.Start+1)
	}
	if tokens.End == ring.MinToken || tokens.End == ring.MaxToken {
		b.end = bytes.Repeat([]byte{0xFF}, tokenSize+1) // the length of a key that has the greatest token is less
		return b
	}
	b.end = appendToken(nil, tokens.End+1)
	return b
}

// minBytes returns the lesser of two bounds, without a copy.
func minBytes(a, b []byte) []byte {
	if bytes.Compare(a, b) <= 0 {
		return a
	}
	return b
}

// maxBytes returns the greater of two bounds, without a copy.
func maxBytes(a, b []byte) []byte {
	if bytes.Compare(a, b) >= 0 {
		return a
	}
	return b
}

// cutTerms returns intervals of cut terms, as entries contain them, that include all given terms. They may also
// include terms outside the given intervals, so each row is compared with the query afterwards.
func cutTerms(def *Definition, terms []row.Slice) []row.Slice {
	// The slices of the query belong to its caller.
	out := slices.Clone(terms)
	if def.Whole {
		return out
	}
	for i := range out {
		if t := &out[i]; len(t.Start) > termMax {
			// A cut start is less than the given one, so no entry is missed.
			t.Start = t.Start[:termMax]
		}
		if t := &out[i]; len(t.End) > termMax {
			// The end is exclusive: the zero byte includes the entry that was cut to just these bytes.
			t.End = append(slices.Clone(t.End[:termMax]), 0)
		}
	}
	return out
}

// withEntries calls f with the entries of the query, in its order. The key that next returns is valid until its next
// call.
func (s *search) withEntries(f func(next func() ([]byte, bool, error)) error) (err error) {
	defer func() { // also when a panic passes
		for _, e := range s.opened {
			err = errors.Join(err, e.Close())
		}
	}()
	open := func(b bounds) (*storage.Entries, error) {
		e, err := s.x.host.Entries(s.q.Table, b.start, b.end)
		if err == nil {
			s.opened = append(s.opened, e)
		}
		return e, err
	}
	terms := cutTerms(s.def, s.q.Terms)
	// Entries are sorted by term, and by place within a term. The entries of single terms are therefore already in
	// the order of places, and only need a merge.
	single := !slices.ContainsFunc(terms, func(t row.Slice) bool { return !t.Exact() })
	switch {
	case s.q.Order == ByTerm:
		return s.inTermOrder(terms, open, f)
	case s.q.Order == ByScore:
		return s.nearest(open, f)
	case len(s.union) > 0:
		return s.united(open, f)
	case single && len(terms) <= s.x.ranges.merged:
		return s.merged(terms, open, f)
	}
	return s.sorted(terms, open, f)
}

// keyBounds returns the interval of entries of a slice of terms of an index. The bounds are escaped without an end, see
// place.go.
func keyBounds(id schema.StorageID, t row.Slice) (b bounds) {
	b.start = appendTermBound(appendIndex(nil, id), t.Start)
	if t.End == nil {
		b.end = appendIndex(nil, id+1)
		return b
	}
	b.end = appendTermBound(appendIndex(nil, id), t.End)
	return b
}

// exactBounds returns the interval of the entries of a single term in the bounds of the query, and the length of the
// prefix before the place in each.
func (s *search) exactBounds(id schema.StorageID, term []byte) (b bounds, prefix int) {
	p := appendTerm(appendIndex(nil, id), term)
	// The places of one term are contiguous, so the bounds of places apply directly to the iterator.
	return bounds{append(slices.Clone(p), s.bounds.start...), append(slices.Clone(p), s.bounds.end...)}, len(p)
}

// cursor is an iterator over the entries of one term.
type cursor struct {
	entries *storage.Entries
	// prefix is the length of the part of each key that precedes the place.
	prefix int
	valid  bool
}

// merged iterates over the entries of single terms in the order of their places.
func (s *search) merged(terms []row.Slice, open func(bounds) (*storage.Entries, error),
	f func(func() ([]byte, bool, error)) error) error {
	return s.mergedOf([]Branch{{s.q.Index, terms}}, open, f)
}

// mergedOf is merged for terms of several indexes.
func (s *search) mergedOf(all []Branch, open func(bounds) (*storage.Entries, error),
	f func(func() ([]byte, bool, error)) error) error {
	cursors := make([]cursor, 0, len(all[0].Terms))
	for _, branch := range all {
		// Terms that were cut to the same bytes have the same entries, and need one cursor.
		for _, t := range slices.CompactFunc(branch.Terms,
			func(a, b row.Slice) bool { return bytes.Equal(a.Start, b.Start) }) {
			b, prefix := s.exactBounds(branch.Index, t.Start)
			e, err := open(b)
			if err != nil {
				return err
			}
			c := cursor{entries: e, prefix: prefix}
			if c.valid = e.First(); s.q.Reversed {
				c.valid = e.Last()
			}
			cursors = append(cursors, c)
		}
	}
	at := -1 // the cursor whose entry was returned last
	return f(func() ([]byte, bool, error) {
		if at >= 0 {
			if s.q.Reversed {
				cursors[at].valid = cursors[at].entries.Prev()
			} else {
				cursors[at].valid = cursors[at].entries.Next()
			}
		}
		at = -1
		// There are at most mergedTerms cursors, so scanning them costs less than a heap.
		for i := range cursors {
			if c := &cursors[i]; c.valid && (at < 0 || s.before(c.entries.Key()[c.prefix:],
				cursors[at].entries.Key()[cursors[at].prefix:])) {
				at = i
			}
		}
		if at < 0 {
			return nil, false, nil
		}
		return cursors[at].entries.Key(), true, nil
	})
}

// before compares in the direction of the query.
func (s *search) before(a, b []byte) bool {
	if s.q.Reversed {
		a, b = b, a
	}
	return bytes.Compare(a, b) < 0
}

// offered returns an interval of entries that includes all entries in the bounds of the query.
func (s *search) offered(id schema.StorageID, t row.Slice) bounds {
	if t.Exact() {
		b, _ := s.exactBounds(id, t.Start)
		return b
	}
	return keyBounds(id, t)
}

// firsts is a heap of the first entries in the order of their places, the last of them on top. Entries may be offered
// in any order of terms, so the result is complete only when all of them were offered.
type firsts struct {
	s       *search
	most    int
	list    []placedEntry // a heap once it is full
	memory  []byte        // of further entries
	dropped bool          // entries after the last in the list
}

type placedEntry struct {
	entry []byte
	place []byte // in entry
}

// Len implements heap.Interface.
func (h *firsts) Len() int { return len(h.list) }

// Less implements heap.Interface.
func (h *firsts) Less(i, k int) bool { return h.s.before(h.list[k].place, h.list[i].place) }

// Swap implements heap.Interface.
func (h *firsts) Swap(i, k int) { h.list[i], h.list[k] = h.list[k], h.list[i] }

// Push implements heap.Interface. It is never called, because a full list is made a heap at once.
func (h *firsts) Push(any) {}

// Pop implements heap.Interface. It is not called.
func (h *firsts) Pop() any { return nil }

// offer keeps a copy of an entry if it is in the bounds of the query and among the first ones.
func (h *firsts) offer(key []byte) {
	n, ok := splitTerm(key[indexSize:])
	if !ok || !h.s.bounds.contains(key[indexSize+n:]) {
		return
	}
	place := key[indexSize+n:]
	if len(h.list) == h.most {
		h.dropped = true
		// Entries that are not among the first are not copied.
		if !h.s.before(place, h.list[0].place) {
			return
		}
		// The new entry reuses the memory of the displaced one.
		top := &h.list[0]
		top.entry = append(top.entry[:0], key...)
		top.place = top.entry[indexSize+n:]
		heap.Fix(h, 0)
		return
	}
	if cap(h.memory)-len(h.memory) < len(key) {
		h.memory = make([]byte, 0, max(len(key), min(keptMax, max(keptMin, 2*cap(h.memory)))))
	}
	from := len(h.memory)
	h.memory = append(h.memory, key...)
	entry := h.memory[from:len(h.memory):len(h.memory)]
	if h.list = append(h.list, placedEntry{entry, entry[indexSize+n:]}); len(h.list) == h.most {
		heap.Init(h)
	}
}

// inOrder returns the entries in the order of the query. The heap is destroyed. Several entries of one row remain,
// next to each other.
func (h *firsts) inOrder() []placedEntry {
	slices.SortFunc(h.list, func(a, b placedEntry) int {
		if h.s.before(a.place, b.place) {
			return -1
		}
		if h.s.before(b.place, a.place) {
			return 1
		}
		return 0
	})
	return h.list
}

// inTermOrder iterates over the entries of intervals in the order of their terms.
func (s *search) inTermOrder(terms []row.Slice, open func(bounds) (*storage.Entries, error),
	f func(func() ([]byte, bool, error)) error) error {
	at, err := s.openIntervals(s.q.Index, terms, s.q.Reversed, open,
		func(t row.Slice) bounds { return s.afterPosition(keyBounds(s.q.Index, t)) })
	if err != nil {
		return err
	}
	passed := 0
	return f(func() ([]byte, bool, error) {
		for more := true; more; {
			var found bool
			if found, more = at.step(); found {
				// The bounds of places cannot bound the iterator here, because each term has entries of all tokens.
				if e, ok := parseEntry(at.entries.Key()); ok && s.bounds.contains(e.place) {
					return at.entries.Key(), true, nil
				}
			}
			if passed++; passed%scanCancelEvery == 0 {
				if err := s.q.Cancel.Err(); err != nil {
					return nil, false, err
				}
			}
		}
		return nil, false, nil
	})
}

// afterPosition cuts an interval of entries at the position of the query. A position in ByTerm is the key of its entry
// without the index, so it bounds keys directly.
func (s *search) afterPosition(b bounds) bounds {
	if len(s.q.From) == 0 {
		return b
	}
	from := append(appendIndex(nil, s.q.Index), s.q.From...)
	if s.q.Reversed {
		// The end is exclusive, so the entry at the position is not repeated.
		b.end = minBytes(b.end, from)
	} else {
		b.start = maxBytes(b.start, append(from, 0))
	}
	return b
}
