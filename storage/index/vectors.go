package index

import (
	"bytes"
	"cmp"
	"container/heap"
	"crypto/sha256"
	"encoding/binary"
	"math"
	"slices"

	"cqld/row"
	"cqld/schema"
	"cqld/storage"
	"cqld/types"
	"cqld/types/similarity"
)

// Vectors describes an index of vectors, which is searched ByScore. The term of a vector is a digest, and the value of
// its entry the vector.
type Vectors struct {
	// Number of elements of float32, 4 bytes each in the stored value.
	Dimensions int
	Similarity similarity.Function
}

const (
	// A digest this long has no accidental duplicates. A vector itself would make keys of kilobytes.
	vectorTermSize = 16
	// codeSize is the size of a score in a position.
	codeSize = 4
	// nearestExtra is how many more entries than candidates a step of a search ByScore looks at: some are stale.
	nearestExtra = 64
	// scoreError bounds the relative difference between the scores of graphs and of positions.
	scoreError = 1e-5
)

// VectorDefinition returns the definition of an index of a regular column of the type vector<float, n>.
func VectorDefinition(id schema.StorageID, table *schema.Table, column schema.ColumnID,
	f similarity.Function) (d Definition, ok bool) {
	c := table.ColumnByID(column)
	if c == nil || c.Kind != schema.Regular || c.Type.Kind() != types.Vector ||
		c.Type.Elems()[0].Kind() != types.Float {
		return d, false
	}
	return CellVectors(id, c, Vectors{Dimensions: c.Type.Dimensions(), Similarity: f}), true
}

// CellVectors returns the definition of an index of the cells of a regular column whose values are encoded vectors.
func CellVectors(id schema.StorageID, c *schema.Column, v Vectors) Definition {
	return Definition{ID: id, Terms: &vectorTerms{v: &v, column: c.ID, since: c.DroppedMicros}, Values: true,
		Whole: true, Vectors: &v}
}

// vectorTerms finds the vectors that have scores.
type vectorTerms struct {
	v      *Vectors
	column schema.ColumnID
	since  int64 // (µs) cells up to then are of a dropped column
}

// Append implements Terms.
func (t *vectorTerms) Append(found *Found, x *Source, now int64) {
	if x.Kind != row.KindRow {
		return
	}
	for i := range x.Row.Cells {
		c := &x.Row.Cells[i]
		if c.Column != t.column || c.Timestamp <= t.since && t.since > 0 || !c.Live(now) ||
			len(c.Value) != 4*t.v.Dimensions {
			continue
		}
		// Such a vector has no score, and no search can find it.
		if !t.v.Similarity.Comparable(similarity.Decode(nil, c.Value)) {
			continue
		}
		sum := sha256.Sum256(c.Value)
		found.Add(func(dst []byte) []byte { return append(dst, sum[:vectorTermSize]...) }, c.Value)
	}
}

// appendScore appends the score of a vector with near, so that better scores come first. Equal scores have equal bytes
// on all nodes.
func (v *Vectors) appendScore(dst []byte, near []float32, vector []byte) []byte {
	// Computed from the stored bytes and not taken from a graph, whose rounding may differ between nodes.
	score, _ := v.Similarity.Score(near, similarity.Decode(make([]float32, 0, v.Dimensions), vector))
	bits := math.Float32bits(score + 0) // -0 becomes 0
	// The bits of non-negative floats ascend with their value, and the bits of negative ones descend. Inverting the
	// former makes both descend, with positive scores first.
	if bits>>31 == 0 {
		bits = ^bits &^ (1 << 31)
	}
	return binary.BigEndian.AppendUint32(dst, bits)
}

// scoreOf returns the score of a position.
func scoreOf(position []byte) float32 {
	bits := binary.BigEndian.Uint32(position)
	if bits>>31 == 0 {
		bits = ^bits &^ (1 << 31)
	}
	return math.Float32frombits(bits)
}

// HasScoreOf reports whether one of the terms of found has the score of a position in ByScore, for a search with near.
// A coordinator checks with it whether the newest version of a row still has its score.
func (d *Definition) HasScoreOf(found *Found, near []byte, at Position) bool {
	to := similarity.Decode(nil, near)
	for i := range found.Len() {
		if code := d.Vectors.appendScore(nil, to, found.Value(i)); bytes.HasPrefix(at, code) {
			return true
		}
	}
	return false
}

// scored is an entry of a vector and its position in ByScore.
type scored struct {
	position []byte // code and place
	entry    []byte
}

// compare orders s and an entry by position. The entry decides between a stale vector of a row and another with the
// same score.
func (s *scored) compare(position, entry []byte) int {
	return cmp.Or(bytes.Compare(s.position, position), bytes.Compare(s.entry, entry))
}

// bestScored is a heap of the entries with the first positions, the last of them on top. Slices in its list belong to
// it.
type bestScored struct {
	list    []scored
	most    int
	dropped bool // entries after the last in the list
}

// Len implements heap.Interface.
func (h *bestScored) Len() int { return len(h.list) }

// Less implements heap.Interface.
func (h *bestScored) Less(i, k int) bool {
	return h.list[i].compare(h.list[k].position, h.list[k].entry) > 0
}

// Swap implements heap.Interface.
func (h *bestScored) Swap(i, k int) { h.list[i], h.list[k] = h.list[k], h.list[i] }

// Push implements heap.Interface.
func (h *bestScored) Push(x any) { h.list = append(h.list, x.(scored)) }

// Pop implements heap.Interface.
func (h *bestScored) Pop() any {
	last := h.list[len(h.list)-1]
	h.list = h.list[:len(h.list)-1]
	return last
}

// worst returns a score that is less than the scores of all kept entries, with a margin because graphs round scores
// differently.
func (h *bestScored) worst() float32 {
	score := scoreOf(h.list[0].position)
	return score - scoreError*max(1, float32(math.Abs(float64(score))))
}

// offer keeps an entry if it is among the first. The slices are valid during the call.
func (h *bestScored) offer(position, entry []byte) {
	if len(h.list) < h.most {
		heap.Push(h, scored{slices.Clone(position), slices.Clone(entry)})
		return
	}
	h.dropped = true
	if h.list[0].compare(position, entry) > 0 {
		// The root is the last one of the list. Its memory is reused for the entry that replaces it.
		h.list[0] = scored{append(h.list[0].position[:0], position...), append(h.list[0].entry[:0], entry...)}
		heap.Fix(h, 0)
	}
}

// offer passes an entry to best if it is in the bounds of the query and after its position.
func (s *search) offer(best *bestScored, entry, vector []byte) bool {
	n, ok := splitTerm(entry[indexSize:])
	if !ok || !s.bounds.contains(entry[indexSize+n:]) || len(vector) != 4*len(s.near) {
		return false
	}
	s.at = append(s.def.Vectors.appendScore(s.at[:0], s.near, vector), entry[indexSize+n:]...)
	// An earlier step returned this entry or passed it.
	if bytes.Compare(s.at, s.q.From) <= 0 {
		return false
	}
	best.offer(s.at, entry)
	return true
}

// encode appends the encoded value of a vector. It is the inverse of similarity.Decode.
func encode(dst []byte, v []float32) []byte {
	for _, e := range v {
		dst = binary.BigEndian.AppendUint32(dst, math.Float32bits(e))
	}
	return dst
}

// nearest iterates over the entries with the best scores after the position of the query, from the graph if there is
// one, and otherwise from all entries.
func (s *search) nearest(open func(bounds) (*storage.Entries, error),
	f func(func() ([]byte, bool, error)) error) error {
	best := bestScored{most: min(s.q.Limit, stepKeys) + nearestExtra}
	if s.q.Filter != nil {
		best.most = stepKeys + nearestExtra // most entries may be omitted
	}
	s.near = similarity.Decode(nil, s.q.Near)
	// The graph only accelerates the search: without it, the search reads all entries, with the same result.
	if !s.inGraph(&best) {
		if err := s.allVectors(open, &best); err != nil {
			return err
		}
	}
	slices.SortFunc(best.list, func(a, b scored) int { return a.compare(b.position, b.entry) })
	s.ranked = best.list
	if best.dropped {
		s.horizon = best.list[len(best.list)-1].position
	}
	return f(func() ([]byte, bool, error) {
		if len(s.ranked) == 0 {
			s.page.More = s.page.More || best.dropped
			return nil, false, nil
		}
		first := s.ranked[0]
		s.ranked, s.code = s.ranked[1:], first.position[:codeSize]
		return first.entry, true, nil
	})
}

// moved handles a row whose vector has changed since its entry was read. Later positions are queued. Positions before
// this step or beyond its horizon are skipped. page is the row, whose vectors are in s.scratch.found.
func (s *search) moved(page []byte) {
	for i := range s.scratch.found.Len() {
		entry := s.def.appendEntry(nil, s.scratch.found.Term(i), &s.source)
		n, ok := splitTerm(entry[indexSize:])
		if !ok {
			continue
		}
		at := append(s.def.Vectors.appendScore(nil, s.near, s.scratch.found.Value(i)), entry[indexSize+n:]...)
		before, is := slices.BinarySearchFunc(s.page.Candidates, at,
			func(c Candidate, at []byte) int { return bytes.Compare(c.At, at) })
		after, waits := slices.BinarySearchFunc(s.ranked, entry,
			func(a scored, entry []byte) int { return a.compare(at, entry) })
		switch {
		case is || waits:
		case bytes.Compare(at, s.q.From) <= 0 || s.horizon != nil && bytes.Compare(at, s.horizon) > 0:
		case bytes.Compare(at, s.page.Last) >= 0:
			s.ranked = slices.Insert(s.ranked, after, scored{at, entry})
		default:
			c := Candidate{At: Position(s.keep(at)), Page: s.keep(page)}
			s.page.Candidates = slices.Insert(s.page.Candidates, before, c)
			s.bytes += len(at) + len(page)
		}
	}
}

// allVectors offers all entries.
func (s *search) allVectors(open func(bounds) (*storage.Entries, error), best *bestScored) error {
	e, err := open(bounds{appendIndex(nil, s.q.Index), appendIndex(nil, s.q.Index+1)})
	if err != nil {
		return err
	}
	passed := 0
	for valid := e.First(); valid; valid = e.Next() {
		if passed++; passed%scanCancelEvery == 0 {
			if err := s.q.Cancel.Err(); err != nil {
				return err
			}
		}
		value, err := e.Value()
		if err != nil {
			return err
		}
		s.offer(best, e.Key(), value)
	}
	return nil
}
