package index

import (
	"bytes"
	"fmt"
	"slices"

	"cqld/internal/env"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/storage"
	"cqld/storage/failure"
	"cqld/storage/reading"
)

// Query selects the rows of a table whose terms in an index are in intervals. The caller must not change the query,
// or memory that it refers to, while Search runs. From must come from a query with the same Order and Reversed.
type Query struct {
	Table, Index schema.StorageID
	Terms        []row.Slice // ascending and disjoint
	// other terms that a row may have instead; ByToken, and no index of them has entries of partitions
	Union    []Branch
	Key      row.PartitionKey // if its Bytes are not nil, only of this partition
	Tokens   ring.Range       // else of these; does not wrap
	Slices   []row.Slice      // of the clustering, ascending and disjoint; nil means all rows
	Filter   *row.Filter      // omits rows
	From     Position         // begin after it
	Reversed bool             // in ByToken with Key only
	Order    Order
	Near     []byte // of ByScore: the vector that others are compared with
	Limit    int    // most candidates in the answer
	Now      int64  // seconds; decides what has expired
	// Holds, if it is not nil, reports which tokens are wanted; other rows are left out.
	Holds func(ring.Token) bool
	// Cancel ends the step early, with an error; nil means that nothing does.
	Cancel *env.Cancel
}

// Branch is a further index of a union, with intervals of its terms.
type Branch struct {
	Index schema.StorageID
	Terms []row.Slice // ascending and disjoint
}

// Page contains the candidates of one step, up to and including Last. The caller owns it.
type Page struct {
	Candidates []Candidate
	Last       Position // up to which the step has looked; nil if it looked at nothing
	More       bool     // there may be further candidates after Last
	Scanned    int      // entries that were looked at
}

// Candidate is a row, or a partition, that matches on this node.
type Candidate struct {
	// At is the position after the row, or after all rows of a partition.
	At Position
	// Page is the row as a read of it by its key returns it (row.PageReader). It is nil for a partition.
	Page []byte
}

// Search executes one bounded step of a search: it ends at the Limit, or after a bounded amount of work; the next
// step begins after Last. It returns ErrNotBuilt for an index that is not built.
func (x *Values) Search(q *Query) (page Page, err error) {
	if err := x.host.Failed(); err != nil {
		return page, err
	}
	// A search has one interval of keys, and a range that wraps would need two. Coordinators split such ranges.
	if q.Key.Bytes == nil && q.Tokens.Wraps() {
		return page, fmt.Errorf("%w: token range %v wraps", failure.ErrInvalid, q.Tokens)
	}
	// Rows that this node has lost may be missing from the index as well, so the search must fail as a read would.
	cmd := row.ReadCommand{Table: q.Table, Key: q.Key, Range: row.KeyRange{Tokens: q.Tokens}}
	if err := x.host.Lost(&cmd); err != nil {
		return page, err
	}
	def, ok := x.definition(q.Table, q.Index)
	if !ok || !x.Built(q.Table, q.Index) {
		return page, ErrNotBuilt
	}
	switch {
	// ByTerm needs whole terms, ByScore vectors with the same number of dimensions, and ByToken nothing. Only entries
	// of one partition can be read backwards, because coordinators merge pages in ring order.
	case q.Order == ByTerm && def.Whole && !def.Partitions:
	case q.Order == ByScore && def.Vectors != nil && len(q.Near) == 4*def.Vectors.Dimensions && !q.Reversed:
	case q.Order == ByToken && (!q.Reversed || q.Key.Bytes != nil):
	default:
		return page, fmt.Errorf("%w order of a search", failure.ErrInvalid)
	}
	s := search{x: x, q: q, def: &def}
	if s.union, err = x.union(q, &def); err != nil {
		return page, err
	}
	if err := s.run(); err != nil {
		return s.page, err
	}
	// The iterators are closed now. revise reads again under the write latch, so a term that was written meanwhile
	// keeps its entry.
	for _, entry := range s.stale {
		if err := s.examine(entry); err != nil {
			return s.page, err
		}
	}
	if err := x.host.Failed(); err != nil {
		return s.page, err
	}
	// The table is checked at the end as well, because one that was dropped during the search must not look empty.
	return s.page, x.host.Dropped(q.Table)
}

// search is the state of one step. It is used by one goroutine and for one Search.
type search struct {
	x       *Values
	q       *Query
	def     *Definition
	union   []Definition // of the branches of q.Union
	page    Page
	bytes   int // of the candidates
	stale   [][]byte
	scratch *scratch
	opened  []*storage.Entries
	bounds  bounds
	// Of ByScore:
	near    []float32
	ranked  []scored // entries that were not looked at yet, in the order of their positions
	horizon []byte   // the last position of which the step knows the entries; nil means all
	code    []byte   // the score of the entry that is looked at
	at      []byte   // memory of a position
	slice   [1]row.Slice
	end     []byte // of slice
	raw     []byte // memory of a page
	kept    []byte // memory of candidates; no part of it is used twice
	reader  row.PageReader
	cmd     row.ReadCommand // of a row
	source  Source
	// derived means that the current entry was made from a row of the table, and may not be stored.
	derived bool
}

func (s *search) run() error {
	s.scratch = s.x.scratch.Get().(*scratch)
	defer s.x.scratch.Put(s.scratch)
	s.bounds = s.placeBounds()
	if s.bounds.empty() {
		return nil
	}
	// The iterator over entries is opened first, so that the later one over rows shows the row of every entry.
	return s.withEntries(func(next func() (entry []byte, ok bool, err error)) error {
		return s.x.host.Probe(func(p *reading.Prober) error { return s.walk(next, p) })
	})
}

// walk examines entries until the step has reached one of its limits. next returns entries in the order of the query.
// A row can have several of them. Scanned bounds the rows that it reads, and so the time of a step.
func (s *search) walk(next func() ([]byte, bool, error), p *reading.Prober) error {
	var last []byte
	for {
		entry, ok, err := next()
		if !ok || err != nil {
			s.page.More = s.page.More && err == nil
			return err
		}
		// The limits are checked when an entry follows and before it is examined, so that More is true only if an
		// entry follows.
		if s.enough() || p.Exhausted() {
			s.page.More = true
			return nil
		}
		e, ok := parseEntry(entry)
		if !ok {
			s.suspect(entry)
			continue
		}
		// All entries of a row are together in this order, so the previous place is enough to find repetitions. In
		// ByTerm, a row is a candidate once for each of its terms.
		if s.q.Order == ByToken {
			if bytes.Equal(e.place, last) {
				continue // has several of the terms
			}
			last = append(last[:0], e.place...)
		}
		if err := s.look(entry, &e, p); err != nil {
			return err
		}
	}
}

// enough reports whether the step has reached one of its limits.
func (s *search) enough() bool {
	return len(s.page.Candidates) >= s.q.Limit || s.page.Scanned >= stepKeys || s.bytes >= searchBytes
}

// look examines an entry, and adds its row if it matches. The slices of e point into entry, which is valid during the
// call.
func (s *search) look(entry []byte, e *entryOf, p *reading.Prober) error {
	if s.page.Scanned++; s.page.Scanned%cancelEvery == 0 {
		if err := s.q.Cancel.Err(); err != nil {
			return err
		}
	}
	// Last is set before the entry is examined, so that a step without candidates advances, too.
	s.page.Last = s.position(s.page.Last[:0], e)
	if s.q.Holds != nil && !s.q.Holds(e.key.Token) {
		s.suspect(entry)
		return nil
	}
	if s.q.Slices != nil && !s.def.Partitions && !row.InSlices(s.q.Slices, e.clustering) {
		return nil
	}
	if s.def.Partitions {
		return s.lookPartition(entry, e, p)
	}
	// The row is read in the form of a client's read, so that its coordinator need not read it again.
	page, matches, has, err := s.read(e, p)
	switch {
	case err != nil:
		return err
	case !has:
		s.suspect(entry)
		if s.q.Order == ByScore && page != nil {
			s.moved(page)
		}
	case matches:
		s.add(page)
	}
	return nil
}

// add adds a candidate at position Last.
func (s *search) add(page []byte) {
	c := Candidate{At: Position(s.keep(s.page.Last))}
	if page != nil {
		c.Page = s.keep(page)
	}
	if s.page.Candidates == nil {
		s.page.Candidates = make([]Candidate, 0, min(s.q.Limit, candidatesBegun))
	}
	s.page.Candidates = append(s.page.Candidates, c)
	s.bytes += len(c.At) + len(page)
}

// keep returns a copy of b that belongs to the page.
func (s *search) keep(b []byte) []byte {
	if cap(s.kept)-len(s.kept) < len(b) {
		// Pieces double up to keptMax, so neither a small page takes much memory nor a large one many allocations.
		// Earlier pieces stay referenced by their candidates.
		s.kept = make([]byte, 0, max(len(b), min(keptMax, max(keptMin, 2*cap(s.kept)))))
	}
	n := len(s.kept)
	s.kept = append(s.kept, b...)
	return s.kept[n:len(s.kept):len(s.kept)]
}

// position appends the position of an entry, after its row.
func (s *search) position(dst []byte, e *entryOf) []byte {
	switch {
	case s.q.Order == ByTerm:
		dst = append(dst, e.term...)
	case s.q.Order == ByScore:
		dst = append(dst, s.code...)
	// A candidate partition includes all its rows, so the next step must begin after them.
	case s.def.Partitions && !s.q.Reversed:
		return AppendPlaceEnd(dst, e.key)
	}
	return append(dst, e.place...)
}

// read reads the row of an entry. has reports whether the row has terms of the query; matches reports whether it is a
// candidate, which the filter may prevent.
func (s *search) read(e *entryOf, p *reading.Prober) (page []byte, matches, has bool, err error) {
	// An exact slice in reused memory, as row.ExactRow allocates it: storage then uses its bloom filters.
	s.end = append(append(s.end[:0], e.clustering...), 0)
	s.slice[0] = row.Slice{Start: s.end[:len(e.clustering):len(e.clustering)], End: s.end}
	s.cmd = row.ReadCommand{Table: s.q.Table, Key: e.key, Slices: s.slice[:], Now: s.q.Now, Filter: s.q.Filter,
		Cancel: s.q.Cancel}
	if page, err = p.Read(s.raw[:0], &s.cmd); err != nil {
		return nil, false, false, err
	}
	s.raw = page
	s.reader.Reset(page)
	r := &s.scratch.row
	// A deleted row has no term, so its entry is stale, unless the filter omitted a live row.
	if !s.reader.NextPartition() || !s.reader.NextRow(r) || !r.Live(s.q.Now) {
		return nil, false, s.q.Filter != nil, s.reader.Err() // the filter may have omitted a row that has the term
	}
	s.scratch.found.Reset()
	s.source = Source{Key: e.key, Kind: e.kind, Row: r}
	s.def.Terms.Append(&s.scratch.found, &s.source, s.q.Now)
	// In ByTerm and ByScore, the position contains the term or the score of this entry, which the row must still
	// have. In ByToken, the position is only a place, so any term of the query suffices.
	if s.q.Order != ByToken {
		s.scratch.key = consumeTerm(s.scratch.key[:0], e.term)
		has = s.def.has(&s.scratch.found, s.scratch.key)
	} else {
		has = s.scratch.found.InAny(s.q.Terms) || s.inUnion()
	}
	return page, has, has, nil
}

// lookPartition adds the partition of an entry if it matches: the column is static, or of the partition key.
func (s *search) lookPartition(entry []byte, e *entryOf, p *reading.Prober) error {
	// The key never changes, so the entry is valid as long as the partition has a live row.
	if s.def.OfKey() {
		_, nothing, err := p.Alive(s.q.Table, e.key, s.q.Now, s.q.Cancel)
		if err == nil && nothing {
			s.suspect(entry)
		} else if err == nil {
			s.add(nil)
		}
		return err
	}
	s.cmd = row.ReadCommand{Table: s.q.Table, Key: e.key, Now: s.q.Now, Cancel: s.q.Cancel}
	page, err := p.Read(s.raw[:0], &s.cmd)
	if err != nil {
		return err
	}
	s.raw = page
	s.reader.Reset(page)
	s.scratch.found.Reset()
	if s.reader.NextPartition() {
		s.source = Source{Key: e.key, Kind: e.kind, Row: &s.reader.Header}
		s.def.Terms.Append(&s.scratch.found, &s.source, s.q.Now)
	}
	if s.scratch.found.InAny(s.q.Terms) {
		s.add(nil)
	} else {
		s.suspect(entry)
	}
	return s.reader.Err()
}

// examine removes an entry if it is stale. It acquires a latch only if the stored row lacks the term, because
// searches find entries of expired rows until these are purged.
func (s *search) examine(entry []byte) error {
	memory := s.x.scratch.Get().(*scratch)
	suspect, err := s.x.suspect(s.q.Table, memory, entry)
	s.x.scratch.Put(memory)
	if !suspect || err != nil {
		return err
	}
	return s.x.removeStale(s.q.Table, entry)
}

// suspect records an entry that may be stale.
func (s *search) suspect(entry []byte) {
	// A derived entry is not stored, so there is nothing to remove.
	if len(s.stale) < stepDropped && !s.derived {
		s.stale = append(s.stale, slices.Clone(entry))
	}
}
