package query

import (
	"bytes"

	"cqld/internal/wire"
	"cqld/query/term"
	"cqld/row"
	"cqld/schema"
	"cqld/types"
)

// rowView is one row of a result during a scan: its keys, and the live cells by column. Its contents are valid until
// it moves on, unless it is a clone.
type rowView struct {
	table *schema.Table
	now   int64 // seconds

	key        row.PartitionKey
	keyValues  [][]byte
	clustering []byte // ordered form; nil for the row that represents a partition without rows
	header     row.Row
	row        row.Row

	cells  []cellSpan // by column id
	marked []schema.ColumnID

	clusteringValues [][]byte // decoded on demand
	memory           []byte   // memory of clusteringValues
}

// cellSpan is the cells of one column.
type cellSpan struct {
	of      *row.Row
	from, n int32
}

// reset prepares v for rows of table.
func (v *rowView) reset(table *schema.Table, now int64) {
	v.table, v.now = table, now
	n := int(table.NextColumn)
	if cap(v.cells) < n {
		v.cells = make([]cellSpan, n)
	}
	v.cells = v.cells[:n]
	clear(v.cells)
	v.marked = v.marked[:0]
	v.keyValues, v.clusteringValues, v.clustering = v.keyValues[:0], v.clusteringValues[:0], nil
}

// partition moves v to a partition, and indexes its header once for all of its rows.
func (v *rowView) partition(key row.PartitionKey) {
	v.clearSpans(0)
	v.key = key
	v.keyValues = row.KeyComponents(v.keyValues[:0], key.Bytes, len(v.table.PartitionKey))
	v.mark(&v.header)
}

// mark indexes the cells of r's columns that readers can see.
func (v *rowView) mark(r *row.Row) {
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
}

// clearSpans clears the column indexes from the nth on.
func (v *rowView) clearSpans(n int) {
	for _, id := range v.marked[n:] {
		v.cells[id] = cellSpan{}
	}
	v.marked = v.marked[:n]
}

// liveCell returns the cell of a single-cell column, or nil.
func (v *rowView) liveCell(c *schema.Column) *row.Cell {
	s := v.cells[c.ID]
	if s.n == 0 {
		return nil
	}
	cell := &s.of.Cells[s.from]
	if !cell.Live(v.now) || c.DroppedMicros != 0 && cell.Timestamp <= c.DroppedMicros {
		return nil
	}
	return cell
}

// value returns the value of a column in wire form; nil means null.
func (v *rowView) value(c *schema.Column) []byte {
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
	if isCounter(c) {
		return v.counterValue(c)
	}
	if cell := v.liveCell(c); cell != nil {
		return term.NotNil(cell.Value)
	}
	return nil
}

// clusteringValue returns the value of one clustering column. It decodes all of them at once.
func (v *rowView) clusteringValue(position int) []byte {
	if v.clustering == nil {
		return nil
	}
	if len(v.clusteringValues) == 0 {
		v.decodeClustering()
	}
	return v.clusteringValues[position]
}

func (v *rowView) decodeClustering() {
	rest := v.clustering
	for _, c := range v.table.Clustering {
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

// next prepares v for the cells of another row of the partition. The first fixed columns stay.
func (v *rowView) next(fixed int, clustering []byte) {
	v.clearSpans(fixed)
	v.memory, v.clusteringValues = v.memory[:0], v.clusteringValues[:0]
	v.clustering = clustering
}

// elements calls f for every live cell of a multi-cell column, in order.
func (v *rowView) elements(c *schema.Column, f func(*row.Cell)) {
	s := v.cells[c.ID]
	if s.n == 0 {
		return
	}
	for i := s.from; i < s.from+s.n; i++ {
		cell := &s.of.Cells[i]
		if cell.Live(v.now) && (c.DroppedMicros == 0 || cell.Timestamp > c.DroppedMicros) {
			f(cell)
		}
	}
}

// multiCell returns the value of a collection or user-defined type from its cells; no cells mean null.
func (v *rowView) multiCell(c *schema.Column) []byte {
	t := c.Type
	if t.Kind() == types.UDT {
		return v.udt(c)
	}
	var out []byte
	n := 0
	v.elements(c, func(cell *row.Cell) {
		if out == nil {
			out = make([]byte, 4, 64)
		}
		n++
		if t.Kind() != types.List {
			key := pathValue(t.Elems()[0], cell.Path)
			out = wire.AppendBytes(out, key)
		}
		if t.Kind() != types.Set {
			out = wire.AppendBytes(out, term.NotNil(cell.Value))
		}
	})
	if n == 0 {
		return nil
	}
	wire.AppendInt32(out[:0], int32(n))
	return out
}

func (v *rowView) udt(c *schema.Column) []byte {
	fields := make([][]byte, len(c.Type.Elems()))
	any := false
	v.elements(c, func(cell *row.Cell) {
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

// fieldPath returns the path of a field of a user-defined type; fieldIndex is its inverse.
func fieldPath(i int) []byte {
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

// findElement returns the live cell of a multi-cell column with a path, or nil.
func (v *rowView) findElement(c *schema.Column, path []byte) (found *row.Cell) {
	v.elements(c, func(cell *row.Cell) {
		if bytes.Equal(cell.Path, path) {
			found = cell
		}
	})
	return found
}

// live reports whether the row exists for a reader. Cells of dropped columns do not count.
func (v *rowView) live(r *row.Row) bool {
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
	return false
}

// clone returns a copy of v that stays valid. The row that represents a partition without rows has no cells of its
// own: v.row then still contains the previous row.
func (v *rowView) clone() *rowView {
	c := &rowView{clustering: bytes.Clone(v.clustering)}
	c.key = row.PartitionKey{Token: v.key.Token, Bytes: bytes.Clone(v.key.Bytes)}
	clustering := c.clustering
	c.reset(v.table, v.now)
	c.clustering = clustering
	c.header = v.header.Clone()
	c.partition(c.key)
	if c.clustering != nil {
		c.row = v.row.Clone()
		c.mark(&c.row)
	}
	return c
}
