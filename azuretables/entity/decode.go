package entity

import (
	"strings"

	"cqld/azuretables/odata"
	"cqld/internal/wire"
	"cqld/row"
	"cqld/schema"
	"cqld/types"
)

// decoder decodes rows into entities. They refer to the page of the rows, and to memory of the decoder that release
// gives up. It is used by one query at a time and is pooled. It is not safe for concurrent use.
type decoder struct {
	p   *plan
	now int64 // seconds
	// wanted selects the properties to decode, by index; nil means all.
	wanted []bool // of the select or of the filter; nil means all

	found      []found          // by property
	generation uint32           // incremented for every row, so found needs no clearing
	props      []odata.Property // properties of many entities in sequence
	arena      []byte           // converted text values
	key        []byte           // the clustering of the current row, before conversion
	keys       strings.Builder  // RowKeys in sequence, so that many share an allocation

	row row.Row // the current row of the caller
}

// found is the position of a property of the current row. A generation that is not the decoder's means that the
// property has no value in the row. It has 32 bytes, so a table of 2,000 columns has 64 KiB of them.
type found struct {
	generation      uint32
	ticksGeneration uint32
	at              int32 // in props; valid if generation is the decoder's
	rest            int16 // ticks of a DateTime; valid if ticksGeneration is the decoder's
	timestamp       int64 // of the value at props[at]
	ticksAt         int64 // timestamp of rest
}

// keysChunk is the maximum number of bytes of RowKeys that share an allocation. A page of a thousand entities with
// short keys allocates a few chunks.
const keysChunk = 4 << 10

// propsChunk is the maximum number of properties that share an allocation: 64 KiB. A property is 64 bytes.
const propsChunk = 1024

// reset prepares the decoder for a query of p. Entities of earlier queries keep their memory. now is the time of the
// query.
func (d *decoder) reset(p *plan, now int64) {
	d.p, d.now, d.wanted = p, now, nil
	// Plans of one node have similar numbers of properties, so this rarely allocates.
	if len(d.found) < len(p.properties) {
		d.found = make([]found, len(p.properties))
		d.generation = 0
	}
}

// release gives up the memory to which entities refer. The entities keep it; the decoder continues with fresh memory.
// It must be called before the decoder is pooled.
func (d *decoder) release() {
	d.p, d.props, d.arena, d.wanted = nil, nil, nil, nil
	d.keys = strings.Builder{}
}

// next starts a row. Its cost does not depend on the number of properties.
func (d *decoder) next() {
	// The generation wraps around after 4 billion rows.
	d.generation++
	if d.generation == 0 {
		clear(d.found)
		d.generation = 1
	}
}

// newest returns the newest write timestamp of live data in r, or row.NoTimestamp if the row does not exist for a
// reader. It is the Timestamp of the entity, in microseconds. An entity whose cells have all expired does not exist.
func (d *decoder) newest(r *row.Row) int64 { return d.p.newest(r, d.now) }

// newest of a plan considers every column that a reader sees, also those that no property shows: an entity with only
// such a column exists, too. Row markers count, so an entity without properties exists.
func (p *plan) newest(r *row.Row, now int64) int64 {
	newest := int64(row.NoTimestamp)
	if r.Liveness.Live(now) {
		newest = r.Liveness.Timestamp
	}
	for i := range r.Cells {
		c := &r.Cells[i]
		if c.Timestamp > newest && c.Live(now) && p.belongs(c) {
			newest = c.Timestamp
		}
	}
	return newest
}

// belongs reports whether a cell's column still exists, and was not dropped after the cell was written. A column that
// was dropped and created again keeps its id; cells older than the drop are not data. Cells of dropped columns stay in
// storage until they are compacted away.
func (p *plan) belongs(c *row.Cell) bool {
	if col := p.column(c.Column); col != nil {
		return col.DroppedMicros == 0 || c.Timestamp > col.DroppedMicros
	}
	// Columns without a property, such as reserved names, count as data of the row.
	col := p.table.ColumnByID(c.Column)
	return col != nil && (col.DroppedMicros == 0 || c.Timestamp > col.DroppedMicros)
}

// properties decodes the live cells of r, and of the partition's static row. The result is valid until the decoder is
// reset or released; the memory of the values is the page's. Their order is the order of column ids.
func (d *decoder) properties(header, r *row.Row) []odata.Property {
	// All properties of one row are in one chunk, because the result is a slice of it.
	if need := len(header.Cells) + len(r.Cells); cap(d.props)-len(d.props) < need {
		// The first row's properties are allocated exactly, because a point query has no others.
		d.props = make([]odata.Property, 0, max(min(4*cap(d.props), propsChunk), need))
	}
	from := len(d.props)
	d.next()
	// The static row belongs to every entity of the partition.
	if d.p.statics {
		d.cells(header)
	}
	ticks := d.cells(r)
	// Ticks are added at the end, because their column may precede or follow the DateTime's.
	if ticks {
		d.addTicks(from)
	}
	// The capacity is cut, so that another row cannot write into the result.
	return d.props[from:len(d.props):len(d.props)]
}

// cells decodes the cells of r; ticks reports that some of them contain ticks of DateTimes. Cells are in the order of
// column ids and, in a multi-cell column, of their paths. Cells of columns without a property are skipped.
func (d *decoder) cells(r *row.Row) (ticks bool) {
	for i := 0; i < len(r.Cells); i++ {
		c := &r.Cells[i]
		col := d.p.column(c.Column)
		if col == nil || d.wanted != nil && !d.wanted[col.prop.index] {
			continue
		}
		// The cells of one column are adjacent and form one value.
		if col.many {
			n := i + 1
			for n < len(r.Cells) && r.Cells[n].Column == c.Column {
				n++
			}
			d.multiCell(col, r.Cells[i:n])
			i = n - 1
			continue
		}
		// A dead cell, or one older than the last drop of its column.
		if !c.Live(d.now) || col.DroppedMicros != 0 && c.Timestamp <= col.DroppedMicros {
			continue
		}
		if col.ticks {
			f := &d.found[col.prop.index]
			f.rest, f.ticksAt, f.ticksGeneration = int16(b16(c.Value)), c.Timestamp, d.generation
			ticks = true
			continue
		}
		// A value that cannot be shown is left out, as a null is.
		var v odata.Value
		if col.value(&v, c.Value, &d.arena) {
			d.add(col, &v, c.Timestamp)
		}
	}
	return ticks
}

// add adds a property. If two columns contain a value for it, the newer value wins; with equal timestamps, the column
// with the property's name wins. The timestamps come from the cells, so the result does not depend on the order of
// columns. Two columns have a value after the type of a property has changed.
func (d *decoder) add(col *column, v *odata.Value, timestamp int64) {
	f := &d.found[col.prop.index]
	if f.generation == d.generation {
		if timestamp > f.timestamp || timestamp == f.timestamp && col == col.prop.base {
			// The place of the property in the result does not change.
			d.props[f.at].Value, f.timestamp = *v, timestamp
		}
		return
	}
	f.generation, f.at, f.timestamp = d.generation, int32(len(d.props)), timestamp
	d.props = append(d.props, odata.Property{Name: col.prop.name, Value: *v})
}

// addTicks adds the stored ticks to DateTimes, if both were written by the same write. Ticks of an older write belong
// to a value that has been replaced.
func (d *decoder) addTicks(from int) {
	for i := from; i < len(d.props); i++ {
		v := &d.props[i].Value
		if v.Type != odata.DateTime {
			continue
		}
		f := &d.found[d.p.byName[d.props[i].Name].index]
		// A rest of zero is not stored; a value outside the range would be a cell of CQL with the same name.
		if f.ticksGeneration == d.generation && f.ticksAt == f.timestamp && f.rest > 0 && f.rest < ticksPerMilli {
			v.Int += int64(f.rest)
		}
	}
}

// multiCell decodes a multi-cell column: a collection, a counter's shards, or a user-defined type's fields. Its text
// is JSON, as in CQL's toJson.
func (d *decoder) multiCell(col *column, cells []row.Cell) {
	b, newest := d.p.join(col, cells, d.now)
	if b == nil {
		return
	}
	// The timestamp is the newest of its cells, as for one value.
	var v odata.Value
	if col.value(&v, b, &d.arena) {
		d.add(col, &v, newest)
	}
}

// join returns the value of a multi-cell column in wire format, and its newest timestamp; nil means no live value. A
// column without a live cell is absent, not empty.
func (p *plan) join(col *column, cells []row.Cell, now int64) (b []byte, newest int64) {
	newest = row.NoTimestamp
	t := col.Type
	var fields [][]byte
	if t.Kind() == types.UDT {
		fields = make([][]byte, len(t.Elems()))
	}
	n, sum := 0, int64(0)
	for i := range cells {
		// Cells of a dropped column do not count.
		c := &cells[i]
		if !c.Live(now) || !p.belongs(c) {
			continue
		}
		newest = max(newest, c.Timestamp)
		n++
		// The value of a counter is the sum of its shards.
		if t.Kind() == types.Counter {
			sum += int64(b64(c.Value))
			continue
		}
		if fields != nil {
			// A field of a newer version of the type has no place here.
			if f := fieldIndex(c.Path); f < len(fields) {
				fields[f] = notNil(c.Value)
			}
			continue
		}
		if b == nil {
			// The first four bytes are the number of elements, filled in at the end.
			b = make([]byte, 4, 64)
		}
		// A list's path is its position, which is not part of the value.
		if t.Kind() != types.List {
			b = wire.AppendBytes(b, pathValue(t.Elems()[0], c.Path))
		}
		// The elements of a set are its paths; its cells have no value.
		if t.Kind() != types.Set {
			b = wire.AppendBytes(b, notNil(c.Value))
		}
	}
	switch {
	case n == 0:
		return nil, newest
	case t.Kind() == types.Counter:
		return wire.AppendInt64(nil, sum), newest
	case fields != nil:
		b, err := t.AppendParts(nil, fields)
		if err != nil {
			// A value that the type refuses is left out.
			return nil, newest
		}
		return b, newest
	}
	// b has kept its first four bytes.
	wire.AppendInt32(b[:0], int32(n))
	return b, newest
}

// pathValue returns the key of an element in wire format. An invalid path becomes an empty value. The path is in the
// ordered form of the element type.
func pathValue(t *types.Type, path []byte) []byte {
	value, _, err := t.ConsumeOrdered(nil, path, false)
	if err != nil {
		return []byte{}
	}
	return notNil(value)
}

// fieldIndex returns the index of the user-defined type's field that a cell stores. The path of a field is its index,
// in the ordered form of a smallint. An invalid path yields a number that no type has.
func fieldIndex(path []byte) int {
	v := pathValue(types.Native(types.Smallint), path)
	if len(v) != 2 {
		// No type has that many fields.
		return 1 << 16
	}
	return int(b16(v))
}

// notNil distinguishes an empty value from no value. nil is null in the wire format.
func notNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// b16 returns the unsigned integer in b, or 0 if it is shorter. Ticks are stored as a smallint.
func b16(b []byte) uint16 {
	c := wire.NewCursor(b)
	return c.Uint16()
}

// rowKey returns the RowKey of a clustering. The string shares memory with those before it, and stays valid while the
// decoder is used by others. Its result is a RowKey as the client wrote it.
func (d *decoder) rowKey(clustering []byte) string {
	b, _, err := d.p.table.Clustering[0].Type.ConsumeOrdered(d.key[:0], clustering, d.p.desc)
	if err != nil || b == nil {
		return ""
	}
	d.key = b
	// A new builder, because growing one would move the strings that entities refer to.
	if d.keys.Cap()-d.keys.Len() < len(b) {
		size := min(max(2*d.keys.Cap(), 64), keysChunk)
		d.keys = strings.Builder{}
		d.keys.Grow(max(size, len(b)))
	}
	from := d.keys.Len()
	d.keys.Write(b)
	return d.keys.String()[from:]
}

// appendClustering appends the clustering of a RowKey. An empty RowKey is not null. The clustering is in the order of
// the table, which the query may read in either direction.
func (p *plan) appendClustering(dst []byte, rowKey []byte) []byte {
	return p.table.Clustering[0].Type.AppendOrdered(dst, notNil(rowKey), p.desc)
}

// staticCell returns the live cell of a static column, or nil. Static columns are in the header of a partition.
func (p *plan) staticCell(header *row.Row, id schema.ColumnID, now int64) *row.Cell {
	for i := range header.Cells {
		if c := &header.Cells[i]; c.Column == id && c.Live(now) && p.belongs(c) {
			return c
		}
	}
	return nil
}
