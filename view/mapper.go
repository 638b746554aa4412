package view

import (
	"encoding/binary"
	"slices"

	"cqld/internal/invariant"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
)

// part is where a column of a view's key comes from. kind Regular means the additional column of the view's key, whose
// value is in a cell.
type part struct {
	kind     schema.ColumnKind // of the column in the base table
	position int               // of a key column
	column   *schema.Column    // of the view
}

// Mapper computes the rows of a view from rows of its base table. It is not safe for concurrent use. The fields after
// the blank line are of the row that was decoded last, and their memory is used again.
type Mapper struct {
	base, view *schema.Table
	partition  []part
	clustering []part
	extra      *schema.Column // the column of the base table that is in the view's key only, or nil
	selected   []bool         // by column id: whether a cell of the column is in rows of the view
	where      []condition

	keys   [][]byte // of the partition key of the base row
	values [][]byte // of its clustering
	bytes  []byte   // of values
	cell   row.Cell // of extra
	parts  [][]byte
}

// NewMapper returns a Mapper for a view. The tables must be of one schema.
func NewMapper(base, view *schema.Table) *Mapper {
	// Columns are matched by ID: ALTER TABLE … RENAME changes their names.
	m := &Mapper{base: base, view: view, extra: view.ViewColumn(base), selected: make([]bool, base.NextColumn)}
	of := func(columns []*schema.Column) (parts []part) {
		for _, c := range columns {
			from := base.ColumnByID(c.ID)
			parts = append(parts, part{kind: from.Kind, position: from.Position, column: c})
		}
		return parts
	}
	m.partition, m.clustering = of(view.PartitionKey), of(view.Clustering)
	for _, c := range view.Regulars {
		m.selected[c.ID] = true
	}
	for i := range view.View.Where {
		if c := &view.View.Where[i]; c.Operator != schema.ViewNotNull {
			m.where = append(m.where, newCondition(base, c))
		}
	}
	return m
}

// Row sets dst to the row of the view that a row of the base table has at now (seconds), and returns its partition key.
// ok is false if it has none. The results are valid until the next call; they point into x and key.
func (m *Mapper) Row(dst *row.Row, key row.PartitionKey, x *row.Row, now int64) (of row.PartitionKey, ok bool) {
	if !m.at(key, x, now) || !m.live(x, now) {
		return of, false
	}
	if of, ok = m.partitionKey(); !ok {
		return of, false
	}
	// The row deletion of the base row has been applied to its cells: a row of a view is live, without deletions.
	dst.Reset()
	dst.Liveness = m.liveness(x, now)
	dst.Clustering = m.appendClustering([]byte{})
	for i := range x.Cells {
		if c := &x.Cells[i]; m.selects(c) && m.visible(c, now) {
			dst.Cells = append(dst.Cells, *c)
		}
	}
	return of, true
}

// selects reports whether a cell is in rows of the view. A cell of a column that is newer than the schema of the read
// is not: other nodes may write it while the read continues.
func (m *Mapper) selects(c *row.Cell) bool {
	return int(c.Column) < len(m.selected) && m.selected[c.Column]
}

// visible reports whether readers of the base table see a cell. It may belong to a dropped column, be older than the
// drop of a column that was added again, or be newer than the schema.
func (m *Mapper) visible(c *row.Cell, now int64) bool {
	if !c.Live(now) {
		return false
	}
	col := m.base.ColumnByID(c.Column)
	return col != nil && (col.DroppedMicros == 0 || c.Timestamp > col.DroppedMicros)
}

// live reports whether readers of the base table see a row for which at is true. at itself counts all cells, because
// index entries depend on it: a cell that is newer than the drop of its column appears when the column is added again.
func (m *Mapper) live(x *row.Row, now int64) bool {
	if m.extra != nil || x.Liveness.Live(now) {
		return true
	}
	for i := range x.Cells {
		if m.visible(&x.Cells[i], now) {
			return true
		}
	}
	return false
}

// at prepares m for a row of the base table, and reports whether it satisfies the conditions of the view.
func (m *Mapper) at(key row.PartitionKey, x *row.Row, now int64) bool {
	return m.find(x, now) && m.decode(key, x.Clustering) && m.satisfies()
}

// find looks for the cell of the additional key column, and reports whether the row can have a row in the view at now.
// A cell that is older than the drop of its column does not count (DroppedMicros).
func (m *Mapper) find(x *row.Row, now int64) bool {
	if m.extra == nil {
		// All key columns of the view are key columns of the base table.
		return x.Live(now)
	}
	for i := range x.Cells {
		if c := &x.Cells[i]; c.Column == m.extra.ID {
			m.cell = *c
			return c.Live(now) && (m.extra.DroppedMicros == 0 || c.Timestamp > m.extra.DroppedMicros)
		}
	}
	return false
}

// liveness returns the row marker of the row of the view. With an additional key column, it comes from the column's
// cell. Without one, columns that the view does not select keep a row alive, too.
func (m *Mapper) liveness(x *row.Row, now int64) row.Liveness {
	if m.extra != nil {
		return row.Liveness{Timestamp: m.cell.Timestamp, TTL: m.cell.TTL, LocalTime: m.cell.LocalTime}
	}
	if x.Liveness.Live(now) {
		return x.Liveness
	}
	// The cell that lives longest: one without TTL, or else the one that expires last.
	best := row.NoLiveness()
	for i := range x.Cells {
		c := &x.Cells[i]
		if m.visible(c, now) && !m.selects(c) && (!best.Present() || c.TTL == 0 || best.TTL != 0 &&
			c.LocalTime > best.LocalTime) {
			best = row.Liveness{Timestamp: c.Timestamp, TTL: c.TTL, LocalTime: c.LocalTime}
		}
	}
	return best
}

// decode sets keys and values to the key of a row of the base table. The results point into key, clustering and
// m.bytes.
func (m *Mapper) decode(key row.PartitionKey, clustering []byte) bool {
	m.keys = row.KeyComponents(m.keys[:0], key.Bytes, len(m.base.PartitionKey))
	m.bytes, m.values = m.bytes[:0], m.values[:0]
	// Values keep pointing to their bytes if m.bytes moves: the old memory stays as it is.
	for _, c := range m.base.Clustering {
		from := len(m.bytes)
		value, rest, err := c.Type.ConsumeOrdered(m.bytes, clustering, c.Desc)
		if err != nil || value == nil {
			return false // no clustering of this table, or a null in it, which no view has
		}
		m.bytes, clustering = value, rest
		m.values = append(m.values, value[from:len(value):len(value)])
	}
	return true
}

// value returns the value of a part of the view's key, which is not null.
func (m *Mapper) value(p *part) []byte {
	switch p.kind {
	case schema.PartitionKey:
		return notNull(m.keys[p.position])
	case schema.Clustering:
		return notNull(m.values[p.position])
	}
	return notNull(m.cell.Value)
}

// partitionKey returns the partition key in the view. It is not ok if the key would be too long.
func (m *Mapper) partitionKey() (key row.PartitionKey, ok bool) {
	m.parts = m.parts[:0]
	size := 0
	for i := range m.partition {
		v := m.value(&m.partition[i])
		size += len(v) + 3 // a composite key has the length and an end byte of each component
		m.parts = append(m.parts, v)
	}
	if len(m.parts) == 1 {
		size -= 3
	}
	if size > keyMax {
		return key, false
	}
	return row.NewPartitionKey(row.AppendKeyComponents(nil, m.parts)), true
}

// appendClustering appends the clustering in the view, in its order.
func (m *Mapper) appendClustering(dst []byte) []byte {
	for i := range m.clustering {
		p := &m.clustering[i]
		dst = p.column.Type.AppendOrdered(dst, m.value(p), p.column.Desc)
	}
	return dst
}

// satisfies reports whether the row that was decoded satisfies all conditions of the view.
func (m *Mapper) satisfies() bool {
	// IS NOT NULL is not among them: key columns of rows that were decoded are not null.
	return !slices.ContainsFunc(m.where, func(c condition) bool { return !c.satisfied(m) })
}

// notNull returns an empty value instead of nil, which would be null.
func notNull(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// The term of a row of a view is its place in the view:
//
//	term := token 8 │ length of the partition key 2 │ partition key │ clustering
//
// Terms are in the order of the view's rows.

// AppendTerm appends the term of a row.
func AppendTerm(dst []byte, key row.PartitionKey, clustering []byte) []byte {
	invariant.Check(len(key.Bytes) <= keyMax, "view: a partition key is too long for a term")
	dst = appendToken(dst, key.Token)
	// The length keeps a key apart from a longer one that begins with it.
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(key.Bytes)))
	return append(append(dst, key.Bytes...), clustering...)
}

// appendToken appends a token so that tokens sort as bytes.
func appendToken(dst []byte, t ring.Token) []byte {
	// The sign bit is inverted, so that negative tokens come first.
	return binary.BigEndian.AppendUint64(dst, uint64(t)^(1<<63))
}
