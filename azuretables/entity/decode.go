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
// gives up.
type decoder struct {
	p   *plan
	now int64 // seconds
	// wanted selects the properties to decode, by index; nil means all.
	wanted []bool

	found      []found // by property
	generation uint32
	props      []odata.Property // those of many entities in sequence
	arena      []byte           // converted text values
	key        []byte
	keys       strings.Builder // RowKeys in sequence, so that many share an allocation

	row row.Row
}

// found is the position of a property of the current row.
type found struct {
	generation      uint32
	ticksGeneration uint32
	at              int32 // in props; valid if generation is the decoder's
	rest            int16 // ticks of a DateTime; valid if ticksGeneration is the decoder's
	timestamp       int64
	ticksAt         int64 // timestamp of rest
}

// keysChunk is the maximum number of bytes of RowKeys that share an allocation.
const keysChunk = 4 << 10

// propsChunk is the maximum number of properties that share an allocation: 64 KiB.
const propsChunk = 1024

func (d *decoder) reset(p *plan, now int64) {
	d.p, d.now, d.wanted = p, now, nil
	if len(d.found) < len(p.properties) {
		d.found = make([]found, len(p.properties))
		d.generation = 0
	}
}

// release gives up the memory to which entities refer.
func (d *decoder) release() {
	d.p, d.props, d.arena, d.wanted = nil, nil, nil, nil
	d.keys = strings.Builder{}
}

// next starts a row.
func (d *decoder) next() {
	d.generation++
	if d.generation == 0 {
		clear(d.found)
		d.generation = 1
	}
}

// newest returns the newest write timestamp of live data in r, or row.NoTimestamp if the row does not exist for a
// reader.
func (d *decoder) newest(r *row.Row) int64 { return d.p.newest(r, d.now) }

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

// belongs reports whether a cell's column still exists, and was not dropped after the cell was written.
func (p *plan) belongs(c *row.Cell) bool {
	if col := p.column(c.Column); col != nil {
		return col.DroppedMicros == 0 || c.Timestamp > col.DroppedMicros
	}
	col := p.table.ColumnByID(c.Column)
	return col != nil && (col.DroppedMicros == 0 || c.Timestamp > col.DroppedMicros)
}

// properties decodes the live cells of r, and of the partition's static row.
func (d *decoder) properties(header, r *row.Row) []odata.Property {
	if need := len(header.Cells) + len(r.Cells); cap(d.props)-len(d.props) < need {
		// The first row's properties are allocated exactly, because a point query has no others.
		d.props = make([]odata.Property, 0, max(min(4*cap(d.props), propsChunk), need))
	}
	from := len(d.props)
	d.next()
	if d.p.statics {
		d.cells(header)
	}
	ticks := d.cells(r)
	if ticks {
		d.addTicks(from)
	}
	return d.props[from:len(d.props):len(d.props)]
}

// cells decodes the cells of r; ticks reports that some of them contain ticks of DateTimes.
func (d *decoder) cells(r *row.Row) (ticks bool) {
	for i := 0; i < len(r.Cells); i++ {
		c := &r.Cells[i]
		col := d.p.column(c.Column)
		if col == nil || d.wanted != nil && !d.wanted[col.prop.index] {
			continue
		}
		if col.many {
			n := i + 1
			for n < len(r.Cells) && r.Cells[n].Column == c.Column {
				n++
			}
			d.multiCell(col, r.Cells[i:n])
			i = n - 1
			continue
		}
		if !c.Live(d.now) || col.DroppedMicros != 0 && c.Timestamp <= col.DroppedMicros {
			continue
		}
		if col.ticks {
			f := &d.found[col.prop.index]
			f.rest, f.ticksAt, f.ticksGeneration = int16(b16(c.Value)), c.Timestamp, d.generation
			ticks = true
			continue
		}
		var v odata.Value
		if col.value(&v, c.Value, &d.arena) {
			d.add(col, &v, c.Timestamp)
		}
	}
	return ticks
}

// add adds a property. If two columns contain a value for it, the newer value wins; with equal timestamps, the column
// with the property's name wins.
func (d *decoder) add(col *column, v *odata.Value, timestamp int64) {
	f := &d.found[col.prop.index]
	if f.generation == d.generation {
		if timestamp > f.timestamp || timestamp == f.timestamp && col == col.prop.base {
			d.props[f.at].Value, f.timestamp = *v, timestamp
		}
		return
	}
	f.generation, f.at, f.timestamp = d.generation, int32(len(d.props)), timestamp
	d.props = append(d.props, odata.Property{Name: col.prop.name, Value: *v})
}

// addTicks adds the stored ticks to DateTimes, if both were written by the same write.
func (d *decoder) addTicks(from int) {
	for i := from; i < len(d.props); i++ {
		v := &d.props[i].Value
		if v.Type != odata.DateTime {
			continue
		}
		f := &d.found[d.p.byName[d.props[i].Name].index]
		if f.ticksGeneration == d.generation && f.ticksAt == f.timestamp && f.rest > 0 && f.rest < ticksPerMilli {
			v.Int += int64(f.rest)
		}
	}
}

// multiCell decodes a multi-cell column: a collection, a counter's shards, or a user-defined type's fields.
func (d *decoder) multiCell(col *column, cells []row.Cell) {
	b, newest := d.p.join(col, cells, d.now)
	if b == nil {
		return
	}
	var v odata.Value
	if col.value(&v, b, &d.arena) {
		d.add(col, &v, newest)
	}
}

// join returns the value of a multi-cell column in wire format, and its newest timestamp; nil means no live value.
func (p *plan) join(col *column, cells []row.Cell, now int64) (b []byte, newest int64) {
	newest = row.NoTimestamp
	t := col.Type
	var fields [][]byte
	if t.Kind() == types.UDT {
		fields = make([][]byte, len(t.Elems()))
	}
	n, sum := 0, int64(0)
	for i := range cells {
		c := &cells[i]
		if !c.Live(now) || !p.belongs(c) {
			continue
		}
		newest = max(newest, c.Timestamp)
		n++
		if t.Kind() == types.Counter {
			sum += int64(b64(c.Value))
			continue
		}
		if fields != nil {
			if f := fieldIndex(c.Path); f < len(fields) {
				fields[f] = notNil(c.Value)
			}
			continue
		}
		if b == nil {
			b = make([]byte, 4, 64)
		}
		if t.Kind() != types.List {
			b = wire.AppendBytes(b, pathValue(t.Elems()[0], c.Path))
		}
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
			return nil, newest
		}
		return b, newest
	}
	wire.AppendInt32(b[:0], int32(n))
	return b, newest
}

// pathValue returns the key of an element in wire format.
func pathValue(t *types.Type, path []byte) []byte {
	value, _, err := t.ConsumeOrdered(nil, path, false)
	if err != nil {
		return []byte{}
	}
	return notNil(value)
}

// fieldIndex returns the index of the user-defined type's field that a cell stores.
func fieldIndex(path []byte) int {
	v := pathValue(types.Native(types.Smallint), path)
	if len(v) != 2 {
		return 1 << 16
	}
	return int(b16(v))
}

func notNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

func b16(b []byte) uint16 {
	c := wire.NewCursor(b)
	return c.Uint16()
}

// rowKey returns the RowKey of a clustering.
func (d *decoder) rowKey(clustering []byte) string {
	b, _, err := d.p.table.Clustering[0].Type.ConsumeOrdered(d.key[:0], clustering, d.p.desc)
	if err != nil || b == nil {
		return ""
	}
	d.key = b
	if d.keys.Cap()-d.keys.Len() < len(b) {
		size := min(max(2*d.keys.Cap(), 64), keysChunk)
		d.keys = strings.Builder{}
		d.keys.Grow(max(size, len(b)))
	}
	from := d.keys.Len()
	d.keys.Write(b)
	return d.keys.String()[from:]
}

// appendClustering appends the clustering of a RowKey. An empty RowKey is not null.
func (p *plan) appendClustering(dst []byte, rowKey []byte) []byte {
	return p.table.Clustering[0].Type.AppendOrdered(dst, notNil(rowKey), p.desc)
}

// staticCell returns the live cell of a static column, or nil.
func (p *plan) staticCell(header *row.Row, id schema.ColumnID, now int64) *row.Cell {
	for i := range header.Cells {
		if c := &header.Cells[i]; c.Column == id && c.Live(now) && p.belongs(c) {
			return c
		}
	}
	return nil
}
