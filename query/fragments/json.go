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

// The columns metadata and value contain JSON in the format that ScyllaDB documents for MUTATION_FRAGMENTS: metadata
// contains everything except values, and value contains only values.

// object appends the members of a JSON object. For each member, the caller calls name and then one of the methods
// raw, text or number; after the last member it calls end. Names and texts are escaped; nested JSON is appended as it
// is.
type object struct {
	b []byte
	// any means that the object has a member, so that the next one needs a comma.
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

// text appends the value of a member, a string.
func (o *object) text(text string) { o.b = appendString(o.b, []byte(text)) }

// number appends the value of a member, an integer.
func (o *object) number(n int64) { o.b = strconv.AppendInt(o.b, n, 10) }

// end returns the object.
func (o *object) end() []byte {
	// An object without members has no opening brace yet.
	if !o.any {
		o.b = append(o.b, '{')
	}
	return append(o.b, '}')
}

// appendString appends a JSON string of UTF-8 text.
func appendString(dst, s []byte) []byte { return types.Native(types.Text).AppendJSON(dst, s) }

// timeText returns a time in seconds since 1970. The format is ScyllaDB's, such as 2026-01-31
// 12:00:00z.
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

// tombstoneOf returns an object whose only member is the tombstone d.
func tombstoneOf(d row.Deletion) []byte {
	var o object
	o.name("tombstone").raw(deletionObject(d))
	return o.end()
}

// row returns the metadata and the values of a row. The metadata contain a tombstone if the row has one, the marker
// (the liveness of INSERT) if it has one, and the columns. value contains the columns that have a value.
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
	// The columns of a static row and of a row have the same format; only rows have a marker.
	columns, value := s.columns(x)
	o.name("columns").raw(columns)
	return o.end(), value
}

// expiry appends the time to live and the time of expiry, if there is one.
func expiry(o *object, ttl int32, at int64) {
	// A cell without a time to live has no expiry: LocalTime is zero then.
	if ttl > 0 {
		o.name("ttl").text(strconv.Itoa(int(ttl)) + "s")
		o.name("expiry").text(timeText(at))
	}
}

// columns returns the metadata and the values of the columns of a row or header. Cells and deletions of columns are
// both sorted by column; the loop merges them. A column may have cells, a deletion of all of its elements, or both.
func (s *Shape) columns(x *row.Row) (metadata, value []byte) {
	var m, v object
	cells, deletions := x.Cells, x.Complex
	for len(cells) > 0 || len(deletions) > 0 {
		id, deleted := nextColumn(cells, deletions)
		// The cells of one column are adjacent.
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

// nextColumn returns the smallest column id in both lists, and whether that column has a deletion. At least one of
// the lists is not empty.
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

// column is a column of the stored table. Dropped columns have one, too: their cells stay.
type column struct {
	name string
	of   *types.Type // nil if the type is unknown; values are then shown as blobs
	// multi means that the column has a cell for each element, or for each shard of a counter.
	multi bool
}

// columnOf returns the column with an id. Cells of dropped columns are shown, too.
func (s *Shape) columnOf(id schema.ColumnID) column {
	if c := s.Base.ColumnByID(id); c != nil {
		return column{c.Name, c.Type, c.Type.MultiCell() || c.IsCounter()}
	}
	// The schema remembers the names and types of dropped columns.
	for _, d := range s.Base.Dropped {
		if d.ID == id {
			return column{d.Name, d.Type, d.Type.MultiCell() || d.IsCounter()}
		}
	}
	return column{name: "dropped column " + strconv.Itoa(int(id))}
}

// append appends the metadata and the value of the column's cells. A column that does not have exactly one cell is
// written like a collection, regardless of its type, so that no cell is hidden.
func (c column) append(m, v *object, cells []row.Cell, deletion row.Deletion) {
	switch {
	// A counter with nothing but a deletion has no newest cell, and takes the form of a collection.
	case c.of != nil && c.of.Kind() == types.Counter && len(cells) > 0:
		c.counter(m, v, cells)
	case c.multi || deletion.Present() || len(cells) != 1:
		c.collection(m, v, cells, deletion)
	default:
		kind := "regular"
		// The kinds from List on are collections, tuples, user-defined types and vectors. Such a column is frozen
		// here, since multi-cell columns were handled above.
		if c.of != nil && c.of.Kind() >= types.List {
			kind = "frozen-collection"
		}
		m.name(c.name).raw(cellObject(&cells[0], kind))
		// A tombstone has metadata only.
		if !cells[0].Tombstone {
			v.name(c.name).raw(c.text(c.of, cells[0].Value))
		}
	}
}

// cellObject returns the metadata of a cell. is_live is false for a tombstone. cellObject does not compare expiry
// with the clock: an expired cell is reported as live until it is compacted.
func cellObject(x *row.Cell, kind string) []byte {
	var o object
	o.name("is_live").raw(strconv.AppendBool(nil, !x.Tombstone))
	o.name("type").text(kind)
	o.name("timestamp").number(x.Timestamp)
	// LocalTime is the time of deletion for a tombstone, and of expiry for a cell with a time to live.
	if x.Tombstone {
		o.name("deletion_time").text(timeText(x.LocalTime))
	} else {
		expiry(&o, x.TTL, x.LocalTime)
	}
	return o.end()
}

// text returns a JSON string of the text of a value. The text is the CQL form without quotes. Numbers become JSON
// strings, too, which preserves all their digits. A value of unknown type is a blob.
func (c column) text(t *types.Type, value []byte) []byte {
	// nil means null for AppendText, but value is empty here.
	if value == nil {
		value = []byte{}
	}
	if t == nil {
		t = types.Native(types.Blob)
	}
	return appendString(nil, t.AppendText(nil, value))
}

// collection appends a column that has a cell for each element. The metadata contain an object for each cell with its
// key, and the values one for each cell that is not a tombstone. Both are arrays in the order of the cells, because
// keys need not be strings.
func (c column) collection(m, v *object, cells []row.Cell, deletion row.Deletion) {
	var meta object
	meta.name("type").text("collection")
	if deletion.Present() {
		meta.name("tombstone").raw(deletionObject(deletion))
	}
	var metas, values [][]byte
	for i := range cells {
		x := &cells[i]
		// The key is repeated in both parts, so that values can be matched with their metadata.
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
	// ordered decodes a cell path. It shows a path that it cannot decode as a blob.
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
		// Elements of a set are in the path; their values are empty.
		return ordered(elems[0]), types.Native(types.Blob)
	// The paths of list elements are time-based UUIDs, which order them.
	case types.List:
		return ordered(types.Native(types.Timeuuid)), elems[0]
	// The path is the position of the field (rowview.FieldPath).
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

// counter appends a column with a cell for the shard of each node. The metadata describe the newest shard; the value
// is a list of shards with the id of the node, its count and its clock. Readers of the counter add the counts of its
// shards.
func (c column) counter(m, v *object, cells []row.Cell) {
	var shards [][]byte
	newest := &cells[0]
	for i := range cells {
		x := &cells[i]
		if x.Timestamp > newest.Timestamp {
			newest = x
		}
		// Only live shards are shown. A shard is a 64-bit number.
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
