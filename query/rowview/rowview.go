// Package rowview reads the values of columns from rows: a View is one row of a page with the header of its partition,
// and returns the values of key columns, cells, collections, user-defined types and counters as a reader at one moment
// sees them.
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

// View is one row of a result during a scan: its keys, and the live cells by column. Its contents are valid until
// it moves on, unless it is a clone.
type View struct {
	Key        row.PartitionKey // set by Partition
	Clustering []byte           // ordered form, set by Next; nil for the row that represents a partition without rows
	Header     row.Row          // of the partition; set by the caller before Partition
	Row        row.Row          // memory into which the caller decodes rows

	table     *schema.Table
	now       int64 // seconds
	keyValues [][]byte

	cells   []cellSpan // by column id
	marked  []schema.ColumnID
	element row.Cell // of a run

	clusteringValues [][]byte // decoded on demand
	memory           []byte   // memory of clusteringValues
}

// cellsKept is the number of cells for which a released View keeps memory.
const cellsKept = 4096

// cellSpan is the cells of one column, or its run.
type cellSpan struct {
	of      *row.Row
	from, n int32
	run     *row.Run // instead of cells; nil if the row was decoded with row.DecodeRow
}

// Reset prepares v for rows of table.
func (v *View) Reset(table *schema.Table, now int64) {
	v.table, v.now = table, now
	n := int(table.NextColumn)
	if cap(v.cells) < n {
		v.cells = make([]cellSpan, n)
	}
	v.cells = v.cells[:n]
	clear(v.cells)
	v.marked = v.marked[:0]
	v.keyValues, v.clusteringValues, v.Clustering = v.keyValues[:0], v.clusteringValues[:0], nil
}

// Release removes all references to a request from v, and keeps its memory.
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

// Marked returns how many columns are indexed. After Partition, these are the columns of the header.
func (v *View) Marked() int { return len(v.marked) }

// Partition moves v to a partition, and indexes its header once for all of its rows.
func (v *View) Partition(key row.PartitionKey) {
	v.clearSpans(0)
	v.Key = key
	v.keyValues = row.KeyComponents(v.keyValues[:0], key.Bytes, len(v.table.PartitionKey))
	v.Mark(&v.Header)
}

// Mark indexes the cells of r's columns that readers can see.
func (v *View) Mark(r *row.Row) {
	for i := range r.Cells {
		c := &r.Cells[i]
		if int(c.Column) >= len(v.cells) {
			continue
		}
		s := &v.cells[c.Column]
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

// clearSpans clears the column indexes from the nth on.
func (v *View) clearSpans(n int) {
	for _, id := range v.marked[n:] {
		v.cells[id] = cellSpan{}
	}
	v.marked = v.marked[:n]
}

// LiveCell returns the cell of a single-cell column, or nil.
func (v *View) LiveCell(c *schema.Column) *row.Cell {
	s := v.cells[c.ID]
	if s.n == 0 || s.run != nil {
		return nil
	}
	cell := &s.of.Cells[s.from]
	if !cell.Live(v.now) || c.DroppedMicros != 0 && cell.Timestamp <= c.DroppedMicros {
		return nil
	}
	return cell
}

// Value returns the value of a column in wire form; nil means null.
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
	if c.IsCounter() {
		return v.counterValue(c)
	}
	if cell := v.LiveCell(c); cell != nil {
		return term.NotNil(cell.Value)
	}
	return nil
}

// clusteringValue returns the value of one clustering column. It decodes all of them at once.
func (v *View) clusteringValue(position int) []byte {
	if v.Clustering == nil {
		return nil
	}
	if len(v.clusteringValues) == 0 {
		v.decodeClustering()
	}
	return v.clusteringValues[position]
}

func (v *View) decodeClustering() {
	rest := v.Clustering
	for _, c := range v.table.Clustering {
		// missing, in the bound of a range: see query/fragments
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
		v.memory, rest = value, after
		v.clusteringValues = append(v.clusteringValues, value[start:len(value):len(value)])
	}
}

// Next prepares v for the cells of another row of the partition. The first fixed columns stay.
func (v *View) Next(fixed int, clustering []byte) {
	v.clearSpans(fixed)
	v.memory, v.clusteringValues = v.memory[:0], v.clusteringValues[:0]
	v.Clustering = clustering
}

// Elements calls f for every live cell of a multi-cell column, in order. The cell is valid during the call.
func (v *View) Elements(c *schema.Column, f func(*row.Cell)) {
	s := v.cells[c.ID]
	if s.n == 0 {
		return
	}
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

// Append appends the value of a column as [bytes]. It makes no copy of a collection.
func (v *View) Append(dst []byte, c *schema.Column) []byte {
	if !c.Type.MultiCell() || c.Type.Kind() == types.UDT || c.Kind == schema.PartitionKey ||
		c.Kind == schema.Clustering {
		return wire.AppendBytes(dst, v.Value(c))
	}
	start := len(dst)
	dst, n := v.appendElements(append(dst, make([]byte, 8)...), c)
	if n == 0 {
		return wire.AppendBytes(dst[:start], nil)
	}
	wire.AppendInt32(dst[:start], int32(len(dst)-start-4))
	wire.AppendInt32(dst[:start+4], int32(n))
	return dst
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
	wire.AppendInt32(out[:0], int32(n))
	return out
}

// appendElements appends the live elements of a collection, and returns their number.
func (v *View) appendElements(dst []byte, c *schema.Column) (out []byte, n int) {
	kind := c.Type.Kind()
	v.Elements(c, func(cell *row.Cell) {
		n++
		if kind != types.List {
			dst = appendPathValue(dst, c.Type.Elems()[0], cell.Path)
		}
		if kind != types.Set {
			dst = wire.AppendBytes(dst, term.NotNil(cell.Value))
		}
	})
	return dst, n
}

// appendPathValue appends the key of an element as [bytes].
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

func (v *View) udt(c *schema.Column) []byte {
	fields := make([][]byte, len(c.Type.Elems()))
	any := false
	v.Elements(c, func(cell *row.Cell) {
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
			own := *cell
			found = &own
		}
	})
	return found
}

// Live reports whether the row exists for a reader. Cells of dropped columns do not count.
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

// liveRun reports whether a column has a live cell.
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

// Clone returns a copy of v that stays valid. The row that represents a partition without rows has no cells of its
// own: v.Row then still contains the previous row.
func (v *View) Clone() *View {
	c := &View{Clustering: bytes.Clone(v.Clustering)}
	c.Key = row.PartitionKey{Token: v.Key.Token, Bytes: bytes.Clone(v.Key.Bytes)}
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

// counterValue returns the sum of a counter's shards, or null without shards.
func (v *View) counterValue(c *schema.Column) []byte {
	sum, any := int64(0), false
	v.Elements(c, func(cell *row.Cell) {
		if len(cell.Value) == 8 {
			sum, any = sum+int64(binary.BigEndian.Uint64(cell.Value)), true
		}
	})
	if !any {
		return nil
	}
	return wire.AppendInt64(nil, sum)
}

// CounterCell returns the newest live cell of a counter, or nil.
func (v *View) CounterCell(c *schema.Column) (newest *row.Cell) {
	v.Elements(c, func(cell *row.Cell) {
		if newest == nil || cell.Timestamp > newest.Timestamp {
			own := *cell
			newest = &own
		}
	})
	return newest
}
