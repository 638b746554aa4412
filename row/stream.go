package row

import (
	"bytes"
	"slices"

	"cqld/internal/invariant"
	"cqld/internal/wire"
	"cqld/schema"
)

// The functions of this file work on encoded rows cell by cell. A decoded cell takes three to ten times its encoded
// size, so large collections are never decoded as a whole.

// cells iterates over the cells of an encoded row. The embedded Cell is the current one, valid until next.
type cells struct {
	Cell
	c      wire.Cursor
	state  cellState
	ok     bool // there is a current cell
	begun  bool // there was one before
	flags  byte // of the row
	mortal bool // a cell is a tombstone or expires
}

// begin decodes everything but the cells of an encoded row into head, and moves to the first cell.
func (s *cells) begin(head *Row, b []byte) {
	clustering := head.Clustering
	head.Reset()
	head.Clustering = clustering
	s.c = wire.NewCursor(b)
	s.state = cellState{timestamp: NoTimestamp}
	s.flags, s.mortal, s.begun = consumeHead(&s.c, head, &s.state), false, false
	if !head.inOrder() {
		s.c.Fail(wire.ErrMalformed)
	}
	s.next()
}

// next moves to the next cell. A cell that does not follow the one before ends the iteration with an error: another
// node may have sent the row, and merging unsorted cells would not be canonical.
func (s *cells) next() {
	if s.ok = s.c.Len() > 0 && s.c.Err() == nil; s.ok {
		column, path := s.Cell.Column, s.Cell.Path
		// consumeCell sets only the fields that the cell has.
		s.Cell = Cell{}
		consumeCell(&s.c, &s.Cell, &s.state)
		if s.begun && (s.Cell.Column < column || s.Cell.Column == column && bytes.Compare(path, s.Cell.Path) >= 0) {
			s.c.Fail(wire.ErrMalformed)
		}
		s.begun = true
		s.mortal = s.mortal || s.Cell.Tombstone || s.Cell.TTL > 0
		s.ok = s.c.Err() == nil
		// All cells were seen, so the flag can be checked.
	} else if s.mortal != (s.flags&flagMortal != 0) {
		s.c.Fail(wire.ErrMalformed)
	}
}

// encoder appends an encoded row, whose cells follow its head.
type encoder struct {
	b  []byte
	at int // of the row
	// state contains the values that the next cell may omit.
	state cellState
	flags byte
	// now, in seconds, determines live.
	now    int64
	live   bool // the row is live at now
	filled bool // it has a cell
}

// begin appends everything but the cells of head.
func (e *encoder) begin(dst []byte, head *Row, now int64) {
	e.at, e.now, e.live, e.filled = len(dst), now, head.Liveness.Live(now), false
	// As AppendRow begins: nothing is shared yet.
	e.state = cellState{timestamp: NoTimestamp}
	e.b, e.flags = appendHead(dst, head, &e.state)
}

// cell appends a cell, which must follow the previous cell in order.
func (e *encoder) cell(c *Cell) {
	if c.Tombstone || c.TTL > 0 {
		e.flags |= flagMortal
	}
	e.live, e.filled = e.live || c.Live(e.now), true
	e.b = appendCell(e.b, c, &e.state)
}

// end sets the flags, which depend on the cells, and returns dst with the row.
func (e *encoder) end() []byte {
	e.b[e.at] = e.flags
	return e.b
}

// cover determines which cells the deletions of a row delete. Callers query cells in ascending order.
type cover struct {
	// row is the deletion of the row. complexes is sorted by column; deletes removes the entries that it has passed.
	row       Deletion
	complexes []ComplexDeletion
}

// deletes reports whether c is deleted. Calls must be in the order of the cells.
func (d *cover) deletes(c *Cell) bool {
	if d.row.Deletes(c.Timestamp) {
		return true
	}
	for len(d.complexes) > 0 && d.complexes[0].Column < c.Column {
		d.complexes = d.complexes[1:]
	}
	return len(d.complexes) > 0 && d.complexes[0].Column == c.Column && d.complexes[0].Deletes(c.Timestamp)
}

// Streamer contains the reusable memory of functions on encoded rows. It is not safe for concurrent use. The zero
// value is ready to use.
type Streamer struct {
	// The operands and their heads, the head of the result, and the part of it that a reader sees.
	a, b  cells
	heads [2]Row
	head  Row
	shown Row
	out   encoder
	bytes []byte // the result of Head
}

// Release removes all references to rows, and keeps memory of usual sizes.
func (s *Streamer) Release() {
	// These fields refer to bytes of pages and of storage.
	s.a, s.b, s.out = cells{}, cells{}, encoder{}
	for _, r := range []*Row{&s.heads[0], &s.heads[1], &s.head, &s.shown} {
		r.Clustering = nil
	}
}

// Canonical appends an encoded row to dst in the form in which readers see it: reconciled, and without data that d or
// its own deletions delete, or that can be purged. The result equals a sequence of Reconcile with an empty row,
// Shadow and Purge. live reports whether the row exists at now. An empty row appends nothing.
func (s *Streamer) Canonical(dst, encoded []byte, d Deletion, gcBefore, now int64) (out []byte, live, empty bool,
	err error) {
	s.a.begin(&s.heads[0], encoded)
	return s.canonical(dst, d, gcBefore, now)
}

// Header is Canonical for the header of a partition, except that it appends an empty row if nothing is left. stored
// is the outline of the encoded header, and shown the outline of the appended one. The appended header does not
// contain the flag for range tombstones, because readers of a page determine that themselves.
func (s *Streamer) Header(dst, encoded []byte, gcBefore, now int64) (out []byte, stored, shown Outline, err error) {
	head := &s.heads[0]
	s.a.begin(head, encoded)
	stored = Outline{Empty: head.Empty() && !s.a.ok, Deletion: head.Deletion,
		RangeTombstones: head.HasRangeTombstones}
	// The page contains the normalized tombstones themselves.
	head.HasRangeTombstones = false
	shown.Deletion = NoDeletion()
	dst = slices.Grow(dst, len(encoded)+8)
	out, shown.Live, shown.Empty, err = s.canonical(dst, NoDeletion(), gcBefore, now)
	if shown.Empty {
		// canonical has left this head empty.
		out = AppendRow(out, &s.heads[1])
	} else {
		shown.Deletion = s.shown.Deletion
	}
	return out, stored, shown, err
}

// canonical is Canonical for the row that s.a has begun to decode.
func (s *Streamer) canonical(dst []byte, d Deletion, gcBefore, now int64) (out []byte, live, empty bool, err error) {
	s.heads[1].Reset()
	Reconcile(&s.head, &s.heads[0], &s.heads[1])
	// Apply all deletions of the row before purged ones are removed from shown, so that deleted data does not
	// reappear.
	own := cover{s.head.Deletion, s.head.Complex}
	Reconcile(&s.shown, &s.head, &s.heads[1])
	s.shown.Shadow(d)
	s.shown.Purge(gcBefore)
	start := len(dst)
	// Write the head first; only cells follow.
	s.out.begin(dst, &s.shown, now)
	for ; s.a.ok; s.a.next() {
		c := &s.a.Cell
		if own.deletes(c) || d.Deletes(c.Timestamp) || (c.Tombstone || c.TTL > 0) && c.LocalTime < gcBefore {
			continue
		}
		s.out.cell(c)
	}
	if err := s.a.c.Err(); err != nil {
		return dst, false, false, err
	}
	out = s.out.end()
	// Whether the row is empty is known only after its cells were filtered.
	if !s.out.filled && s.shown.Empty() {
		return out[:start], false, true, nil
	}
	return out, s.out.live, false, nil
}

// Head returns an encoded row without its cells and without the deletions of its multi-cell columns, or nil if the row
// has nothing else. It is valid until the next call of a method.
func (s *Streamer) Head(encoded []byte) ([]byte, error) {
	head := &s.heads[0]
	head.Reset()
	c := wire.NewCursor(encoded)
	state := cellState{timestamp: NoTimestamp}
	consumeHead(&c, head, &state)
	if err := c.Err(); err != nil {
		return nil, err
	}
	// Such deletions concern cells that the result does not have.
	if head.Complex = head.Complex[:0]; head.Empty() {
		return nil, nil
	}
	s.bytes = AppendRow(s.bytes[:0], head)
	return s.bytes, nil
}

// Reconcile appends the merge of two encoded rows to dst, as AppendRow appends the result of Reconcile. dst shares no
// memory with them.
func (s *Streamer) Reconcile(dst, a, b []byte) ([]byte, error) {
	s.a.begin(&s.heads[0], a)
	s.b.begin(&s.heads[1], b)
	Reconcile(&s.head, &s.heads[0], &s.heads[1])
	deleted := cover{s.head.Deletion, s.head.Complex}
	start := len(dst)
	// The merge is not larger than both rows together.
	dst = slices.Grow(dst, len(a)+len(b))
	s.out.begin(dst, &s.head, 0)
	for s.a.ok || s.b.ok {
		var c *Cell
		// first and second report which operand has the smallest cell; both do if the cells have the same identity.
		first, second := true, false
		if s.a.ok && s.b.ok {
			order := s.a.compareID(&s.b.Cell)
			first, second = order <= 0, order >= 0
		} else if !s.a.ok {
			first, second = false, true
		}
		switch {
		case first && second:
			// The same cell in both: one winner is written.
			c = ReconcileCells(&s.a.Cell, &s.b.Cell)
		case first:
			c = &s.a.Cell
		default:
			c = &s.b.Cell
		}
		if !deleted.deletes(c) {
			s.out.cell(c)
		}
		// Advance the operands whose cell was written or lost.
		if first {
			s.a.next()
		}
		if second {
			s.b.next()
		}
	}
	if err := s.a.c.Err(); err != nil {
		return dst, err
	}
	if err := s.b.c.Err(); err != nil {
		return dst, err
	}
	out := s.out.end()
	if invariant.Enabled {
		checkMerged(out[start:], a, b)
	}
	return out, nil
}

// checkMerged checks that the merge of two encoded rows equals the result of Reconcile, in either order, because
// replicas apply changes in different orders.
func checkMerged(merged, a, b []byte) {
	x, y, sum := NewRow(), NewRow(), NewRow()
	if DecodeRow(x, a) != nil || DecodeRow(y, b) != nil {
		return // the cursor has reported it
	}
	Reconcile(sum, x, y)
	invariant.Check(bytes.Equal(merged, AppendRow(nil, sum)), "row: a streamed merge differs from Reconcile")
	Reconcile(sum, y, x)
	invariant.Check(bytes.Equal(merged, AppendRow(nil, sum)), "row: the order of operands changes their merge")
}

// Covers reports whether merging the encoded row b into a changes nothing, as Covers does.
func (s *Streamer) Covers(a, b []byte) (bool, error) {
	s.a.begin(&s.heads[0], a)
	s.b.begin(&s.heads[1], b)
	covered := Covers(&s.heads[0], &s.heads[1])
	for ; s.b.ok && covered; s.b.next() {
		// Cells that only a has do not matter.
		for s.a.ok && s.a.compareID(&s.b.Cell) < 0 {
			s.a.next()
		}
		covered = s.a.ok && s.a.compareID(&s.b.Cell) == 0 && ReconcileCells(&s.a.Cell, &s.b.Cell) == &s.a.Cell
	}
	if err := s.a.c.Err(); err != nil {
		return false, err
	}
	return covered, s.b.c.Err()
}

// Outline is what Inspect finds in an encoded row.
type Outline struct {
	Live, Empty     bool // it exists for a reader; it contains nothing
	Deletion        Deletion
	RangeTombstones bool // Row.HasRangeTombstones
}

// Inspect returns the outline of an encoded row as of now. It visits all cells, and so finds malformed ones.
func (s *Streamer) Inspect(encoded []byte, now int64) (Outline, error) {
	head := &s.heads[0]
	s.a.begin(head, encoded)
	sum := Outline{head.Liveness.Live(now), head.Empty() && !s.a.ok, head.Deletion, head.HasRangeTombstones}
	for ; s.a.ok; s.a.next() {
		sum.Live = sum.Live || s.a.Live(now)
	}
	return sum, s.a.c.Err()
}

// Difference appends an encoded row with the parts of merged that are missing in have. It is not larger than merged.
// If have lacks nothing, it appends nothing.
func (s *Streamer) Difference(dst, merged, have []byte) (out []byte, lacks bool, err error) {
	s.a.begin(&s.heads[0], merged)
	s.b.begin(&s.heads[1], have)
	lacks = s.head.difference(&s.heads[0], &s.heads[1])
	start := len(dst)
	s.out.begin(dst, &s.head, 0)
	for ; s.a.ok; s.a.next() {
		for s.b.ok && s.b.compareID(&s.a.Cell) < 0 {
			s.b.next()
		}
		// The replica has this version. Otherwise it has an older one or none, because merged contains the winners.
		if s.b.ok && s.a.equal(&s.b.Cell) {
			continue
		}
		s.out.cell(&s.a.Cell)
		lacks = true
	}
	out = s.out.end()
	if err = s.a.c.Err(); err == nil {
		err = s.b.c.Err()
	}
	if err != nil || !lacks {
		return out[:start], false, err
	}
	return out, true, nil
}

// difference sets r to what have lacks of merged, without the cells, and reports whether that is something.
func (r *Row) difference(merged, have *Row) (lacks bool) {
	r.Reset()
	if merged.Liveness.Present() && merged.Liveness != have.Liveness {
		r.Liveness, lacks = merged.Liveness, true
	}
	if merged.Deletion.Present() && merged.Deletion != have.Deletion {
		r.Deletion, lacks = merged.Deletion, true
	}
	for _, c := range merged.Complex {
		if !slices.Contains(have.Complex, c) {
			r.Complex, lacks = append(r.Complex, c), true
		}
	}
	return lacks
}

// Run is the cells of a multi-cell column of a decoded row, in their encoded form. It only refers to the encoded
// cells in the decoded bytes.
type Run struct {
	Column schema.ColumnID
	Cells  int
	bytes  []byte
	state  cellState
}

// Each calls f for each cell, in their order, until f returns false. The cell is valid during the call.
func (r *Run) Each(cell *Cell, f func(*Cell) bool) {
	c, state := wire.NewCursor(r.bytes), r.state
	for range r.Cells {
		*cell = Cell{}
		if consumeCell(&c, cell, &state); c.Err() != nil || !f(cell) {
			return // DecodeRuns has decoded it without an error
		}
	}
}

// Clone returns a copy that shares no memory with r.
func (r *Run) Clone() Run {
	own := *r
	own.bytes = bytes.Clone(r.bytes)
	return own
}

// DecodeRuns is DecodeRow, but leaves the cells of multi-cell columns encoded in b: r.Runs contains those columns in
// order. Such a row is for readers and must not be encoded again.
func DecodeRuns(r *Row, b []byte) error {
	clustering := r.Clustering
	r.Reset()
	r.Clustering = clustering
	c := wire.NewCursor(b)
	state := cellState{timestamp: NoTimestamp}
	flags := consumeHead(&c, r, &state)
	mortal := false
	for c.Len() > 0 {
		var cell Cell
		at, before := len(b)-c.Len(), state
		consumeCell(&c, &cell, &state)
		mortal = mortal || cell.Tombstone || cell.TTL > 0
		if cell.Path == nil {
			r.Cells = append(r.Cells, cell)
			continue
		}
		end := len(b) - c.Len()
		if n := len(r.Runs); n > 0 && r.Runs[n-1].Column == cell.Column {
			run := &r.Runs[n-1]
			run.Cells++
			// The cells of a column are contiguous, so the run grows over the bytes that follow it.
			run.bytes = run.bytes[:len(run.bytes)+end-at]
			continue
		}
		r.Runs = append(r.Runs, Run{cell.Column, 1, b[at:end], before})
	}
	if mortal != (flags&flagMortal != 0) {
		c.Fail(wire.ErrMalformed)
	}
	return c.Err()
}
