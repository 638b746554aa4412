package fragments

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"strconv"
	"time"

	"cqld/row"
	"cqld/schema"
	"cqld/types"
)

// The JSON of metadata and value has the form that ScyllaDB documents for its statement of this name: metadata is
// everything except values, and value has the values only.

// object appends the members of a JSON object.
type object struct {
	b   []byte
	any bool
}

// name appends the name of a member.
func (o *object) name(name string) *object {
	if o.any {
		o.b = append(o.b, ',')
	} else {
		o.b, o.any = append(o.b, '{'), true
	}
	o.b = append(appendString(o.b, []byte(name)), ':')
	return o
}

// raw appends the value of a member, which is JSON.
func (o *object) raw(json []byte) { o.b = append(o.b, json...) }

func (o *object) text(text string) { o.b = appendString(o.b, []byte(text)) }

func (o *object) number(n int64) { o.b = strconv.AppendInt(o.b, n, 10) }

// end returns the object.
func (o *object) end() []byte {
	if !o.any {
		o.b = append(o.b, '{')
	}
	return append(o.b, '}')
}

func appendString(dst, s []byte) []byte { return types.Native(types.Text).AppendJSON(dst, s) }

// timeText returns a time in seconds since 1970.
func timeText(seconds int64) string {
	return time.Unix(seconds, 0).UTC().Format("2006-01-02 15:04:05") + "z"
}

// deletionObject returns a deletion: an empty object if there is none.
func deletionObject(d row.Deletion) []byte {
	var o object
	if d.Present() {
		o.name("timestamp").number(d.Timestamp)
		o.name("deletion_time").text(timeText(d.LocalTime))
	}
	return o.end()
}

// tombstoneOf returns an object with a tombstone only.
func tombstoneOf(d row.Deletion) []byte {
	var o object
	o.name("tombstone").raw(deletionObject(d))
	return o.end()
}

// row returns the metadata and the values of a row.
func (s *Shape) row(x *row.Row) (metadata, value []byte) {
	var o object
	if x.Deletion.Present() {
		o.name("tombstone").raw(deletionObject(x.Deletion))
	}
	if l := x.Liveness; l.Present() {
		var m object
		m.name("timestamp").number(l.Timestamp)
		expiry(&m, l.TTL, l.LocalTime)
		o.name("marker").raw(m.end())
	}
	columns, value := s.columns(x)
	o.name("columns").raw(columns)
	return o.end(), value
}

// expiry appends the time to live and the time of expiry, if there is one.
func expiry(o *object, ttl int32, at int64) {
	if ttl > 0 {
		o.name("ttl").text(strconv.Itoa(int(ttl)) + "s")
		o.name("expiry").text(timeText(at))
	}
}

// columns returns the metadata and the values of the columns of a row or header.
func (s *Shape) columns(x *row.Row) (metadata, value []byte) {
	var m, v object
	cells, deletions := x.Cells, x.Complex
	for len(cells) > 0 || len(deletions) > 0 {
		id, deleted := nextColumn(cells, deletions)
		n := 0
		for n < len(cells) && cells[n].Column == id {
			n++
		}
		deletion := row.NoDeletion()
		if deleted {
			deletion, deletions = deletions[0].Deletion, deletions[1:]
		}
		s.columnOf(id).append(&m, &v, cells[:n], deletion)
		cells = cells[n:]
	}
	return m.end(), v.end()
}

// nextColumn returns the least id of a column, and whether the column has a deletion.
func nextColumn(cells []row.Cell, deletions []row.ComplexDeletion) (id schema.ColumnID, deleted bool) {
	switch {
	case len(deletions) == 0:
		return cells[0].Column, false
	case len(cells) == 0:
		return deletions[0].Column, true
	}
	id = min(cells[0].Column, deletions[0].Column)
	return id, deletions[0].Column == id
}

// column is a column of the stored table.
type column struct {
	name  string
	of    *types.Type // nil if it is unknown: the values are shown as blobs
	multi bool
}

// columnOf returns the column with an id. Cells of dropped columns are shown, too, until they are compacted.
func (s *Shape) columnOf(id schema.ColumnID) column {
	if c := s.Base.ColumnByID(id); c != nil {
		return column{c.Name, c.Type, c.Type.MultiCell() || c.IsCounter()}
	}
	for _, d := range s.Base.Dropped {
		if d.ID == id {
			return column{d.Name, d.Type, d.Type.MultiCell() || d.IsCounter()}
		}
	}
	return column{name: "dropped column " + strconv.Itoa(int(id))}
}

// append appends the metadata and the value of the column's cells.
func (c column) append(m, v *object, cells []row.Cell, deletion row.Deletion) {
	switch {
	case c.of != nil && c.of.Kind() == types.Counter && len(cells) > 0:
		c.counter(m, v, cells)
	case c.multi || deletion.Present() || len(cells) != 1:
		c.collection(m, v, cells, deletion)
	default:
		kind := "regular"
		if c.of != nil && c.of.Kind() >= types.List {
			kind = "frozen-collection"
		}
		m.name(c.name).raw(cellObject(&cells[0], kind))
		if !cells[0].Tombstone {
			v.name(c.name).raw(c.text(c.of, cells[0].Value))
		}
	}
}

// cellObject returns the metadata of a cell.
func cellObject(x *row.Cell, kind string) []byte {
	var o object
	o.name("is_live").raw(strconv.AppendBool(nil, !x.Tombstone))
	o.name("type").text(kind)
	o.name("timestamp").number(x.Timestamp)
	if x.Tombstone {
		o.name("deletion_time").text(timeText(x.LocalTime))
	} else {
		expiry(&o, x.TTL, x.LocalTime)
	}
	return o.end()
}

// text returns a JSON string of the text of a value.
func (c column) text(t *types.Type, value []byte) []byte {
	if value == nil {
		value = []byte{}
	}
	if t == nil {
		t = types.Native(types.Blob)
	}
	return appendString(nil, t.AppendText(nil, value))
}

// collection appends a column that has a cell for each element.
func (c column) collection(m, v *object, cells []row.Cell, deletion row.Deletion) {
	var meta object
	meta.name("type").text("collection")
	if deletion.Present() {
		meta.name("tombstone").raw(deletionObject(deletion))
	}
	var metas, values [][]byte
	for i := range cells {
		x := &cells[i]
		key, element := c.element(x)
		var e object
		e.name("key").raw(key)
		e.name("value").raw(cellObject(x, "regular"))
		metas = append(metas, e.end())
		if !x.Tombstone {
			var e object
			e.name("key").raw(key)
			e.name("value").raw(c.text(element, x.Value))
			values = append(values, e.end())
		}
	}
	meta.name("cells").raw(array(metas))
	m.name(c.name).raw(meta.end())
	v.name(c.name).raw(array(values))
}

// element returns the key of an element as a JSON string, and the type of its value.
func (c column) element(x *row.Cell) (key []byte, value *types.Type) {
	ordered := func(t *types.Type) []byte {
		wire, _, err := t.ConsumeOrdered(nil, x.Path, false)
		if err != nil {
			return appendString(nil, []byte("0x"+hex.EncodeToString(x.Path)))
		}
		return c.text(t, wire)
	}
	if c.of == nil {
		return appendString(nil, []byte("0x"+hex.EncodeToString(x.Path))), nil
	}
	elems := c.of.Elems()
	switch c.of.Kind() {
	case types.Map:
		return ordered(elems[0]), elems[1]
	case types.Set:
		return ordered(elems[0]), types.Native(types.Blob)
	case types.List:
		return ordered(types.Native(types.Timeuuid)), elems[0]
	case types.UDT:
		field, _, err := types.Native(types.Smallint).ConsumeOrdered(nil, x.Path, false)
		if err != nil || len(field) != 2 {
			break
		}
		if i := int(binary.BigEndian.Uint16(field)); i < len(elems) {
			return appendString(nil, strconv.AppendInt(nil, int64(i), 10)), elems[i]
		}
	}
	return appendString(nil, []byte("0x"+hex.EncodeToString(x.Path))), types.Native(types.Blob)
}

// counter appends a column with a cell for the shard of each node.
func (c column) counter(m, v *object, cells []row.Cell) {
	var shards [][]byte
	newest := &cells[0]
	for i := range cells {
		x := &cells[i]
		if x.Timestamp > newest.Timestamp {
			newest = x
		}
		if x.Tombstone || len(x.Value) != 8 {
			continue
		}
		var o object
		o.name("id").text(hex.EncodeToString(x.Path))
		o.name("value").number(int64(binary.BigEndian.Uint64(x.Value)))
		o.name("clock").number(x.Timestamp)
		shards = append(shards, o.end())
	}
	m.name(c.name).raw(cellObject(newest, "counter-shards"))
	if len(shards) > 0 {
		v.name(c.name).raw(array(shards))
	}
}

// array returns a JSON array.
func array(of [][]byte) []byte {
	return append(append([]byte{'['}, bytes.Join(of, []byte{','})...), ']')
}
