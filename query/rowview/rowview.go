// Package rowview reads the values of columns from rows: a View is one row of a page with the header of its
// partition, and returns the values of key columns, cells, collections, user-defined types and counters that are live
// at a given time.
//
//	page ─▶ Partition, Next, Mark ─▶ View ─▶ Value, Append, Elements: filters, selectors and masks
package rowview

import (
	"bytes"
	"encoding/binary"

	"cqld/internal/wire"
	"cqld/query/term"
	"cqld/row"
	"cqld/schema"
	"cqld/types"
)

// View is one row of a result during a scan: its keys, and the live cells by column. Its contents are valid until the
// next row, unless it is a clone.
//
// A View is reused for all rows of a request. The order of calls is Reset once, then for each partition Partition,
// then for each row Next and Mark; Release ends its use. Values that its methods return point into the page, or into
// memory of the View, and are valid until the next row. It is not safe for concurrent use.
type View struct {
	Key        row.PartitionKey // set by Partition
	Clustering []byte           // ordered form, set by Next; nil for the row that represents a partition without rows
	Header     row.Row          // header of the partition; the caller sets it before Partition
	Row        row.Row          // memory into which the caller decodes rows

	// table was set by Reset. Its NextColumn is greater than all ids of its columns.
	table *schema.Table
	// now is the time in seconds since 1970 at which cells are live or have expired.
	now int64
	// keyValues are the components of Key in wire form; they point into Key.
	keyValues [][]byte

	// cells has an entry for each column id of table. Entries of columns without cells are zero.
	cells []cellSpan
	// marked contains the ids whose entries are set: columns of the header first, then columns of the row. Only these
	// are cleared for the next row, because tables may have thousands of columns.
	marked []schema.ColumnID
	// element is the memory into which cells of a run are decoded, one at a time.
	element row.Cell

	// clusteringValues are in wire form, decoded when the first one is read; empty before.
	clusteringValues [][]byte
	// memory holds the bytes of clusteringValues.
	memory []byte
}

// cellsKept is the number of cells for which a released View keeps memory.
const cellsKept = 4096

// cellSpan locates the cells of one column. The zero value means that the column has no cells.
type cellSpan struct {
	// of is the row or header that contains the cells. It must not move while the span is in use.
	of *row.Row
	// The cells are of.Cells[from:from+n]. For a run, n is the number of its cells and from is not used.
	from, n int32
	run     *row.Run // replaces cells; nil if the row was decoded with row.DecodeRow
}

// Reset prepares v for rows of table. now is in seconds since 1970. The memory of earlier rows is kept.
func (v *View) Reset(table *schema.Table, now int64) {
	v.table, v.now = table, now
	n := int(table.NextColumn)
	if cap(v.cells) < n {
		v.cells = make([]cellSpan, n)
	}
	// The array may contain entries of another table, so clear it.
	v.cells = v.cells[:n]
	clear(v.cells)
	v.marked = v.marked[:0]
	v.keyValues, v.clusteringValues, v.Clustering = v.keyValues[:0], v.clusteringValues[:0], nil
}

// Release removes all references to a request from v, and keeps its memory. A pooled View would otherwise keep the page
// of the request alive. Buffers of unusually wide rows are dropped.
func (v *View) Release() {
	v.table, v.Key, v.Header = nil, row.PartitionKey{}, row.Row{}
	v.Row.Clustering = nil
	v.Row.Reset()
	if cap(v.Row.Cells) > cellsKept {
		v.Row = row.Row{}
	}
	v.element = row.Cell{}
	clear(v.keyValues)
}

// Now returns the time in seconds that determines which cells have expired.
func (v *View) Now() int64 { return v.now }

// Marked returns how many columns are indexed. After Partition, these are the columns of the header. A caller passes
// this number to Next, which keeps these columns.
func (v *View) Marked() int { return len(v.marked) }

// Partition moves v to a partition, and indexes its header once for all of its rows. The caller has set Header. Rows of
// the partition then share its static columns.
func (v *View) Partition(key row.PartitionKey) {
	v.clearSpans(0)
	v.Key = key
	v.keyValues = row.KeyComponents(v.keyValues[:0], key.Bytes, len(v.table.PartitionKey))
	v.Mark(&v.Header)
}

// Mark indexes the cells of r's columns that readers can see. r must not move or change until Next. Cells are sorted
// by column, so that the cells of one column are adjacent. Mark also indexes expired cells; the methods that read
// them skip these.
func (v *View) Mark(r *row.Row) {
	for i := range r.Cells {
		c := &r.Cells[i]
		// The row may come from a replica that knows a newer schema, with more columns.
		if int(c.Column) >= len(v.cells) {
			continue
		}
		s := &v.cells[c.Column]
		// An earlier cell of r has started the span.
		if s.of == r {
			s.n++
			continue
		}
		*s = cellSpan{of: r, from: int32(i), n: 1}
		v.marked = append(v.marked, c.Column)
	}
	for i := range r.Runs {
		run := &r.Runs[i]
		if int(run.Column) < len(v.cells) {
			v.cells[run.Column] = cellSpan{of: r, n: int32(run.Cells), run: run}
			v.marked = append(v.marked, run.Column)
		}
	}
}

// clearSpans clears the entries of the marked columns, except for the first n.
func (v *View) clearSpans(n int) {
	for _, id := range v.marked[n:] {
		v.cells[id] = cellSpan{}
	}
	v.marked = v.marked[:n]
}

// LiveCell returns the cell of a single-cell column, or nil. It is nil as well if the cell has expired, is a
// tombstone, or was written before the column was dropped and added again. The cell is valid until the next row.
func (v *View) LiveCell(c *schema.Column) *row.Cell {
	s := v.cells[c.ID]
	// A run belongs to a multi-cell column, which has no single cell.
	if s.n == 0 || s.run != nil {
		return nil
	}
	cell := &s.of.Cells[s.from]
	if !cell.Live(v.now) || c.DroppedMicros != 0 && cell.Timestamp <= c.DroppedMicros {
		return nil
	}
	return cell
}

// Value returns the value of a column in wire form; nil means null. The value is valid until the next row.
func (v *View) Value(c *schema.Column) []byte {
	switch c.Kind {
	case schema.PartitionKey:
		if c.Position < len(v.keyValues) {
			return v.keyValues[c.Position]
		}
		return nil // the row that represents a partition without rows
	case schema.Clustering:
		return v.clusteringValue(c.Position)
	}
	if c.Type.MultiCell() {
		return v.multiCell(c)
	}
	// Counters are not multi-cell by type, but have a cell for each shard.
	if c.IsCounter() {
		return v.counterValue(c)
	}
	if cell := v.LiveCell(c); cell != nil {
		return term.NotNil(cell.Value)
	}
	return nil
}

// clusteringValue returns the value of one clustering column. It decodes all of them at once. Most statements read
// either no clustering column or all of them.
func (v *View) clusteringValue(position int) []byte {
	if v.Clustering == nil {
		return nil
	}
	if len(v.clusteringValues) == 0 {
		v.decodeClustering()
	}
	return v.clusteringValues[position]
}

// decodeClustering decodes the values from Clustering. Each of them gets its part of memory. A value that cannot be
// decoded is null, and so are the following ones.
func (v *View) decodeClustering() {
	rest := v.Clustering
	for _, c := range v.table.Clustering {
		// a bound of a range may omit columns (query/fragments)
		if len(rest) > 0 && (rest[0] == 0x00 || rest[0] == 0xFF) {
			v.clusteringValues, rest = append(v.clusteringValues, nil), rest[1:]
			continue
		}
		start := len(v.memory)
		value, after, err := c.Type.ConsumeOrdered(v.memory, rest, c.Desc)
		if err != nil || value == nil {
			v.clusteringValues = append(v.clusteringValues, nil)
			rest = after
			continue
		}
		// ConsumeOrdered has appended to memory. If that moved it, values decoded before keep pointing to the old
		// array, which stays valid. The capacity is limited, so that no append to one value overwrites the next.
		v.memory, rest = value, after
		v.clusteringValues = append(v.clusteringValues, value[start:len(value):len(value)])
	}
}

// Next prepares v for the cells of another row of the partition. The first fixed columns stay. fixed is the result of
// Marked after Partition. clustering is in ordered form, and nil for the row that represents a partition without rows;
// v keeps it.
func (v *View) Next(fixed int, clustering []byte) {
	v.clearSpans(fixed)
	v.memory, v.clusteringValues = v.memory[:0], v.clusteringValues[:0]
	v.Clustering = clustering
}

// Elements calls f for every live cell of a multi-cell column, in order. The cell is valid during the call. Cells are
// sorted by path. It omits cells from before the column was dropped and added again.
func (v *View) Elements(c *schema.Column, f func(*row.Cell)) {
	s := v.cells[c.ID]
	if s.n == 0 {
		return
	}
	// A run is decoded while it is read, without memory for its cells.
	if s.run != nil {
		s.run.Each(&v.element, func(cell *row.Cell) bool {
			if cell.Live(v.now) && (c.DroppedMicros == 0 || cell.Timestamp > c.DroppedMicros) {
				f(cell)
			}
			return true
		})
		return
	}
	for i := s.from; i < s.from+s.n; i++ {
		cell := &s.of.Cells[i]
		if cell.Live(v.now) && (c.DroppedMicros == 0 || cell.Timestamp > c.DroppedMicros) {
			f(cell)
		}
	}
}

// Append appends the value of a column as [bytes]: its length and its value in wire form, or the length -1 for null.
// Collections are appended element by element, without a copy of the whole value.
func (v *View) Append(dst []byte, c *schema.Column) []byte {
	if !c.Type.MultiCell() || c.Type.Kind() == types.UDT || c.Kind == schema.PartitionKey ||
		c.Kind == schema.Clustering {
		return wire.AppendBytes(dst, v.Value(c))
	}
	// The first four bytes are the length and the next four the number of elements. Both are set after the elements,
	// when they are known.
	start := len(dst)
	dst, n := v.appendElements(append(dst, make([]byte, 8)...), c)
	if n == 0 {
		return wire.AppendBytes(dst[:start], nil)
	}
	wire.AppendInt32(dst[:start], int32(len(dst)-start-4))
	wire.AppendInt32(dst[:start+4], int32(n))
	return dst
}

// Size returns about how many bytes Append adds for a column. Collections and user-defined types are measured without
// being encoded; keys count with the size of their paths.
func (v *View) Size(c *schema.Column) int {
	switch {
	case !c.Type.MultiCell():
		return 4 + len(v.Value(c))
	case c.Type.Kind() == types.UDT:
		// Each field has a length, even if it is null.
		n := 4 + 4*len(c.Type.Elems())
		v.Elements(c, func(cell *row.Cell) { n += len(cell.Value) })
		return n
	}
	n := 8 // the length and the number of elements
	v.Elements(c, func(cell *row.Cell) { n += 8 + len(cell.Path) + len(cell.Value) })
	return n
}

// multiCell returns the value of a collection or user-defined type from its cells; no cells mean null.
func (v *View) multiCell(c *schema.Column) []byte {
	t := c.Type
	if t.Kind() == types.UDT {
		return v.udt(c)
	}
	if v.cells[c.ID].n == 0 {
		return nil
	}
	out, n := v.appendElements(make([]byte, 4, 64), c)
	if n == 0 {
		return nil
	}
	// The first four bytes are reserved for the number of elements.
	wire.AppendInt32(out[:0], int32(n))
	return out
}

// appendElements appends the live elements of a collection, and returns their number. An element of a list is a value,
// of a set a key, and of a map a key and a value. Each is appended as [bytes].
func (v *View) appendElements(dst []byte, c *schema.Column) (out []byte, n int) {
	kind := c.Type.Kind()
	v.Elements(c, func(cell *row.Cell) {
		n++
		// The path of a list element is its position, which is not part of the value.
		if kind != types.List {
			dst = appendPathValue(dst, c.Type.Elems()[0], cell.Path)
		}
		if kind != types.Set {
			dst = wire.AppendBytes(dst, term.NotNil(cell.Value))
		}
	})
	return dst, n
}

// appendPathValue appends the key of an element as [bytes]. path is in ordered form. A path that cannot be decoded
// becomes an empty key.
func appendPathValue(dst []byte, t *types.Type, path []byte) []byte {
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	out, _, err := t.ConsumeOrdered(dst, path, false)
	if err != nil || out == nil {
		return dst
	}
	wire.AppendInt32(out[:start], int32(len(out)-start-4))
	return out
}

// udt returns the value of a user-defined type that is not frozen. Fields without a live cell are null; the value is
// null if all are.
func (v *View) udt(c *schema.Column) []byte {
	fields := make([][]byte, len(c.Type.Elems()))
	any := false
	v.Elements(c, func(cell *row.Cell) {
		// Ignore a cell of a field that this node does not know yet.
		if i := fieldIndex(cell.Path); i < len(fields) {
			fields[i], any = term.NotNil(cell.Value), true
		}
	})
	if !any {
		return nil
	}
	b, err := c.Type.AppendParts(nil, fields)
	if err != nil {
		return nil
	}
	return b
}

// pathValue returns the key of an element in wire form.
func pathValue(t *types.Type, path []byte) []byte {
	value, _, err := t.ConsumeOrdered(nil, path, false)
	if err != nil {
		return []byte{}
	}
	return term.NotNil(value)
}

// ElementPath returns the path of an element of a set, or of a map's key.
func ElementPath(t *types.Type, key []byte) []byte {
	return t.Elems()[0].AppendOrdered(make([]byte, 0, len(key)+4), key, false)
}

// FieldPath returns the path of a field of a user-defined type; fieldIndex is its inverse.
func FieldPath(i int) []byte {
	return types.Native(types.Smallint).AppendOrdered(nil, wire.AppendUint16(nil, uint16(i)), false)
}

// fieldIndex returns the index of the field with a path. For a malformed path, it returns an index beyond the fields
// of every type.
func fieldIndex(path []byte) int {
	v := pathValue(types.Native(types.Smallint), path)
	if len(v) != 2 {
		return 1 << 16
	}
	c := wire.NewCursor(v)
	return int(c.Uint16())
}

// FindElement returns the live cell of a multi-cell column with a path, or nil.
func (v *View) FindElement(c *schema.Column, path []byte) (found *row.Cell) {
	v.Elements(c, func(cell *row.Cell) {
		if bytes.Equal(cell.Path, path) {
			// A run decodes its next cell into the same memory.
			own := *cell
			found = &own
		}
	})
	return found
}

// Live reports whether the row exists for a reader. Cells of dropped columns do not count. A row without liveness
// exists as long as one of its cells is live. r may be any row of the table and need not be marked.
func (v *View) Live(r *row.Row) bool {
	if r.Liveness.Live(v.now) {
		return true
	}
	for i := range r.Cells {
		c := &r.Cells[i]
		if !c.Live(v.now) {
			continue
		}
		col := v.table.ColumnByID(c.Column)
		if col != nil && (col.DroppedMicros == 0 || c.Timestamp > col.DroppedMicros) {
			return true
		}
	}
	for i := range r.Runs {
		if v.liveRun(&r.Runs[i]) {
			return true
		}
	}
	return false
}

// liveRun reports whether a column has a live cell. It stops at the first live cell.
func (v *View) liveRun(run *row.Run) (live bool) {
	col := v.table.ColumnByID(run.Column)
	if col == nil {
		return false
	}
	run.Each(&v.element, func(c *row.Cell) bool {
		live = c.Live(v.now) && (col.DroppedMicros == 0 || c.Timestamp > col.DroppedMicros)
		return !live
	})
	return live
}

// Clone returns a copy of v that stays valid. For the row that represents a partition without rows, v.Row still
// contains the previous row and is not copied. Everything that depends on the page is copied. A clone takes several
// allocations, so sinks clone only the rows that they keep.
func (v *View) Clone() *View {
	c := &View{Clustering: bytes.Clone(v.Clustering)}
	c.Key = row.PartitionKey{Token: v.Key.Token, Bytes: bytes.Clone(v.Key.Bytes)}
	// Reset removes the clustering, and Partition indexes the header that is copied before it.
	clustering := c.Clustering
	c.Reset(v.table, v.now)
	c.Clustering = clustering
	c.Header = v.Header.Clone()
	c.Partition(c.Key)
	if c.Clustering != nil {
		c.Row = v.Row.Clone()
		c.Mark(&c.Row)
	}
	return c
}

// counterValue returns the sum of a counter's shards, or null without shards. The result has 8 bytes, big-endian.
func (v *View) counterValue(c *schema.Column) []byte {
	sum, any := int64(0), false
	v.Elements(c, func(cell *row.Cell) {
		// Ignore values of another length, which are not shards.
		if len(cell.Value) == 8 {
			sum, any = sum+int64(binary.BigEndian.Uint64(cell.Value)), true
		}
	})
	if !any {
		return nil
	}
	return wire.AppendInt64(nil, sum)
}

// CounterCell returns the newest live cell of a counter, or nil. The result is a copy.
func (v *View) CounterCell(c *schema.Column) (newest *row.Cell) {
	v.Elements(c, func(cell *row.Cell) {
		if newest == nil || cell.Timestamp > newest.Timestamp {
			own := *cell
			newest = &own
		}
	})
	return newest
}
