package index

import (
	"math"

	"cqld/row"
	"cqld/schema"
	"cqld/types"
)

// Part selects the part of a column that is indexed.
type Part uint8

// The parts.
const (
	// Cell is the value of a column that has one cell, also of a frozen collection.
	Cell Part = iota + 1
	// Elements are the elements of a set or list, or the values of a map.
	Elements
	// Keys are the keys of a map.
	Keys
	// Entries are the keys of a map, each with its value.
	Entries
)

// ColumnTerms returns the terms of a regular or static column: of each of its live cells. The terms of Cell, Elements
// and Keys are ordered forms (types.Type.AppendOrdered); a term of Entries is the ordered form of the key followed by
// the ordered form of the value. For example, the map {1: 'a'} has the term of 1 for Keys, of 'a' for Elements, and of
// both for Entries.
func ColumnTerms(c *schema.Column, part Part) Terms {
	t := &columnTerms{column: c.ID, static: c.Kind == schema.Static, since: c.DroppedMicros, part: part, value: c.Type}
	switch {
	case part == Cell:
	case c.Type.Kind() == types.Set:
		t.part = Keys // the path of a cell is the ordered form of its element
	case c.Type.Kind() == types.List:
		t.value = c.Type.Elems()[0]
	case c.Type.Kind() == types.Map:
		t.value = c.Type.Elems()[1]
	}
	return t
}

type columnTerms struct {
	column schema.ColumnID
	static bool
	since  int64 // (µs) cells up to then are of a dropped column
	// part determines which bytes of a cell form its term; set columns have Keys, because their elements are cell
	// paths.
	part  Part
	value *types.Type // of the cells' values
}

// Append implements Terms.
func (t *columnTerms) Append(found *Found, x *Source, now int64) {
	// Static cells are in headers, regular ones in rows.
	if (x.Kind == row.KindHeader) != t.static {
		return
	}
	for i := range x.Row.Cells {
		c := &x.Row.Cells[i]
		// A column that was dropped and added again has the same number. Cells of the dropped column are ignored.
		if c.Column != t.column || c.Timestamp <= t.since && t.since > 0 || !c.Live(now) {
			continue
		}
		found.Add(func(dst []byte) []byte { return t.append(dst, c) }, nil)
	}
}

func (t *columnTerms) append(dst []byte, c *row.Cell) []byte {
	// A live cell without bytes has an empty value, which is not null.
	value := c.Value
	if value == nil {
		value = []byte{}
	}
	switch t.part {
	case Keys:
		return append(dst, c.Path...)
	case Entries:
		dst = append(dst, c.Path...)
	}
	return t.value.AppendOrdered(dst, value, false)
}

// ClusteringTerms returns the terms of a clustering column: its value, for rows that are live. columns are the
// clustering columns of the table. The term is the ordered form of the value, ascending also if the column descends.
func ClusteringTerms(columns []*schema.Column, position int) Terms {
	return &clusteringTerms{columns: columns, position: position}
}

// It also applies to an index of a column that descends, because it inverts the stored form.
type clusteringTerms struct {
	columns  []*schema.Column
	position int
}

// Append implements Terms.
func (t *clusteringTerms) Append(found *Found, x *Source, now int64) {
	if x.Kind != row.KindRow || !x.Row.Live(now) {
		return
	}
	rest := x.Row.Clustering
	// Components have no fixed size, so the preceding ones are skipped one by one.
	for _, c := range t.columns[:t.position] {
		var err error
		if rest, err = c.Type.SkipOrdered(rest, c.Desc); err != nil {
			return // the clustering is malformed, so a read of the row fails as well
		}
	}
	c := t.columns[t.position]
	after, err := c.Type.SkipOrdered(rest, c.Desc)
	if err != nil {
		return
	}
	// The bytes are stored inverted if the column descends. Inverting them again gives the ascending form without
	// decoding.
	component := rest[:len(rest)-len(after)]
	found.Add(func(dst []byte) []byte {
		from := len(dst)
		dst = append(dst, component...)
		if c.Desc {
			for i := from; i < len(dst); i++ {
				dst[i] = ^dst[i]
			}
		}
		return dst
	}, nil)
}

// KeyTerms returns the terms of a column of the partition key, whose entries stand for partitions: its value, for
// partitions with a live row. columns is the partition key. The terms need no read of rows, because the place
// contains the partition key.
func KeyTerms(columns []*schema.Column, position int) Terms {
	return &keyTerms{columns: columns, position: position}
}

// All live rows of a partition have the same term.
type keyTerms struct {
	columns  []*schema.Column
	position int
}

// Append implements Terms.
func (t *keyTerms) Append(found *Found, x *Source, now int64) {
	if !x.Row.Live(now) {
		return
	}
	// Most keys have fewer columns, so no slice is allocated.
	var backing [8][]byte
	values := row.KeyComponents(backing[:0], x.Key.Bytes, len(t.columns))
	found.Add(func(dst []byte) []byte {
		return t.columns[t.position].Type.AppendOrdered(dst, values[t.position], false)
	}, nil)
}

// ColumnDefinition returns the definition of an index of one column of a table. part counts for regular and static
// columns only.
func ColumnDefinition(id schema.StorageID, table *schema.Table, column schema.ColumnID, part Part) (d Definition,
	ok bool) {
	c := table.ColumnByID(column)
	if c == nil {
		return d, false
	}
	d = Definition{ID: id}
	//exhaustive:enforce
	switch c.Kind {
	case schema.PartitionKey:
		d.Terms, d.Partitions = KeyTerms(table.PartitionKey, c.Position), true
	case schema.Clustering:
		d.Terms = ClusteringTerms(table.Clustering, c.Position)
	case schema.Static:
		d.Terms, d.Partitions = ColumnTerms(c, part), true
	case schema.Regular:
		d.Terms = ColumnTerms(c, part)
	}
	return d, true
}

// anyTime is a time at which everything is live that is not a tombstone.
const anyTime = math.MinInt64
