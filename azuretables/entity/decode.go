package entity

import (
	"strings"

	"cqld/azuretables/odata"
	"cqld/internal/wire"
	"cqld/row"
	"cqld/schema"
	"cqld/types"
)

// decoder makes entities of rows. What it makes points into the page that the rows came from, and into
// memory of its own that it lets go of by release.
type decoder struct {
	p   *plan
	now int64 // seconds
	// wanted says, by property, which are to be decoded; nil: all.
	wanted []bool

	found []found // by property
	turn  uint32
	props []odata.Property // those of many entities, one behind the other
	arena []byte           // text that had to be made
	key   []byte
	keys  strings.Builder // RowKeys, one behind the other: memory is made for many at once

	reader row.PageReader
	row    row.Row
}

// found is where a property of the row at hand is.
type found struct {
	turn      uint32
	ticksTurn uint32
	at        int32 // in props; of this row if turn is the decoder's
	rest      int16 // of a DateTime; of this row if ticksTurn is the decoder's
	timestamp int64
	ticksAt   int64 // timestamp of rest
}

// keysChunk is how many bytes of RowKeys memory is made for at once, at most.
const keysChunk = 4 << 10

// propsChunk is how many properties memory is made for at once, at most: 64 KiB.
const propsChunk = 1024

func (d *decoder) reset(p *plan, now int64) {
	d.p, d.now, d.wanted = p, now, nil
	if len(d.found) < len(p.properties) {
		d.found = make([]found, len(p.properties))
		d.turn = 0
	}
}

// release lets go of what entities point into.
func (d *decoder) release() {
	d.p, d.props, d.arena, d.wanted = nil, nil, nil, nil
	d.keys = strings.Builder{}
}

// next begins a row.
func (d *decoder) next() {
	d.turn++
	if d.turn == 0 {
		clear(d.found)
		d.turn = 1
	}
}

// newest is the newest write timestamp of what is live of r; row.NoTimestamp says that it is no row for a
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

// belongs says whether a cell is of a column that the table has: not of one that was dropped.
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
		// The first row's properties get just what they need, as a point query's are all there is.
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

// cells decodes the cells of r; ticks says that some are rests of DateTimes.
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
			f.rest, f.ticksAt, f.ticksTurn = int16(b16(c.Value)), c.Timestamp, d.turn
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

// add adds a property; of two columns that have a value for one, the newer is believed, and of two equally
// new ones that of the property's name.
func (d *decoder) add(col *column, v *odata.Value, timestamp int64) {
	f := &d.found[col.prop.index]
	if f.turn == d.turn {
		if timestamp > f.timestamp || timestamp == f.timestamp && col == col.prop.base {
			d.props[f.at].Value, f.timestamp = *v, timestamp
		}
		return
	}
	f.turn, f.at, f.timestamp = d.turn, int32(len(d.props)), timestamp
	d.props = append(d.props, odata.Property{Name: col.prop.name, Value: *v})
}

// addTicks adds to DateTimes what they have below a millisecond, where both were written at once.
func (d *decoder) addTicks(from int) {
	for i := from; i < len(d.props); i++ {
		v := &d.props[i].Value
		if v.Type != odata.DateTime {
			continue
		}
		f := &d.found[d.p.byName[d.props[i].Name].index]
		if f.ticksTurn == d.turn && f.ticksAt == f.timestamp && f.rest > 0 && f.rest < ticksPerMilli {
			v.Int += int64(f.rest)
		}
	}
}

// multiCell decodes a column of many cells: a collection, a counter's shards, a user-defined type's fields.
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

// join is the value in wire form of a column of many cells, and its newest timestamp; nil for none.
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

// pathValue is the key of an element in wire form.
func pathValue(t *types.Type, path []byte) []byte {
	value, _, err := t.ConsumeOrdered(nil, path, false)
	if err != nil {
		return []byte{}
	}
	return notNil(value)
}

// fieldIndex is which field of a user-defined type a cell is.
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

// rowKey is the RowKey of a clustering.
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

// appendClustering appends the clustering of a RowKey. An empty one is no null.
func (p *plan) appendClustering(dst []byte, rowKey []byte) []byte {
	return p.table.Clustering[0].Type.AppendOrdered(dst, notNil(rowKey), p.desc)
}

// staticCell is the live cell of a static column; nil when there is none.
func (p *plan) staticCell(header *row.Row, id schema.ColumnID, now int64) *row.Cell {
	for i := range header.Cells {
		if c := &header.Cells[i]; c.Column == id && c.Live(now) && p.belongs(c) {
			return c
		}
	}
	return nil
}
