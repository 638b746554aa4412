package write

import (
	"bytes"

	"cqld/row"
	"cqld/schema"
	"cqld/types"
)

// The components of the size of a batch, in bytes, as Cassandra 5.0 counts them (PartitionUpdate.dataSize). The
// thresholds for batches refer to this size, so that the same batches cause warnings and refusals; cqld's own
// encoding is smaller.
const (
	partitionDeletionSize = 8
	rowSize               = 8 + 13 // timestamp of the marker, deletion
	expiringMarkerSize    = 4 + 8  // TTL, time of expiry
	cellSize              = 8 + 4 + 8
	complexColumnSize     = 12
	rangeTombstonesSize   = 4
	rangeTombstoneSize    = 8 + 4
	counterValueSize      = 36 // a shard and its header
	listPathSize          = 16
	fieldPathSize         = 2
)

// rowChanges are the changes of one row in a mutation.
type rowChanges struct {
	kind   row.EntryKind
	start  []byte
	value  []byte   // of the first change
	merged *row.Row // all changes, if there are several
	size   int      // of its cells
}

// listMax is the number of rows of a mutation that are compared one by one: most mutations of a batch have one.
const rowListMax = 8

// rowList contains the rows of one mutation.
type rowList struct {
	all   []rowChanges
	index map[string]int // of all, from listMax rows on
}

// find returns the changes of the row of e, and adds them if there are none.
func (l *rowList) find(e *row.Entry) (x *rowChanges, added bool) {
	if len(l.all) < rowListMax {
		for i := range l.all {
			if x := &l.all[i]; x.kind == e.Kind && bytes.Equal(x.start, e.Start) {
				return x, false
			}
		}
		l.all = append(l.all, rowChanges{kind: e.Kind, start: e.Start, value: e.Value})
		return &l.all[len(l.all)-1], true
	}
	if l.index == nil {
		l.index = map[string]int{}
		for i, x := range l.all {
			l.index[rowIndexKey(x.kind, x.start)] = i
		}
	}
	key := rowIndexKey(e.Kind, e.Start)
	i, there := l.index[key]
	if !there {
		i = len(l.all)
		l.index[key] = i
		l.all = append(l.all, rowChanges{kind: e.Kind, start: e.Start, value: e.Value})
	}
	return &l.all[i], !there
}

func rowIndexKey(kind row.EntryKind, start []byte) string {
	return string(append([]byte{byte(kind)}, start...))
}

// merge adds the change r to x, which contains at least one.
func (x *rowChanges) merge(t *schema.Table, r *row.Row) {
	if x.merged == nil {
		x.merged = row.NewRow()
		_ = row.DecodeRow(x.merged, x.value) // it was decoded before
	}
	merged := row.NewRow()
	row.Reconcile(merged, x.merged, r)
	x.merged, x.size = merged, cellsSize(t, merged)
}

// batchSize returns the size of one partition's changes in a batch. The partition key does not count.
func batchSize(t *schema.Table, m *row.Mutation) int {
	size := partitionDeletionSize + rowSize // an empty static row counts, too
	deletions := 0
	var space [rowListMax / 2]rowChanges // on the stack
	rows := rowList{all: space[:0]}      // changes of one row count once
	r := row.NewRow()
	var e row.Entry
	for es := m.Entries(); es.Next(&e); {
		if e.Kind == row.KindRangeTombstone {
			deletions++
			size += rangeTombstoneSize + clusteringSize(t, e.Start) + clusteringSize(t, e.End)
			continue
		}
		r.Reset()
		if row.DecodeRow(r, e.Value) != nil {
			continue // cannot fail: this node has just encoded it
		}
		x, added := rows.find(&e)
		if !added {
			x.merge(t, r)
			r = row.NewRow() // merged rows may share its memory
			continue
		}
		x.size = cellsSize(t, r)
		if e.Kind == row.KindRow {
			size += rowSize + clusteringSize(t, e.Start)
		}
	}
	if deletions > 0 {
		size += rangeTombstonesSize
	}
	for i := range rows.all {
		size += rows.all[i].size
	}
	return size
}

// cellsSize returns the size of a row minus the size of an empty one.
func cellsSize(t *schema.Table, r *row.Row) (size int) {
	if r.Liveness.Present() && r.Liveness.TTL > 0 {
		size += expiringMarkerSize
	}
	complex := map[schema.ColumnID]bool{}
	for i := range r.Complex {
		complex[r.Complex[i].Column] = true
	}
	for i := range r.Cells {
		c := &r.Cells[i]
		size += cellSize + len(c.Value)
		col := t.ColumnByID(c.Column)
		switch {
		case col == nil:
		case col.Type.Kind() == types.Counter:
			size += counterValueSize - len(c.Value)
		case c.Path != nil:
			complex[c.Column] = true
			size += pathSize(col.Type, c.Path)
		}
	}
	return size + complexColumnSize*len(complex)
}

// pathSize returns the size of the key of an element of a column that is not frozen.
func pathSize(t *types.Type, path []byte) int {
	switch t.Kind() {
	case types.List:
		return listPathSize
	case types.UDT:
		return fieldPathSize
	}
	value, _, err := t.Elems()[0].ConsumeOrdered(nil, path, false)
	if err != nil {
		return 0
	}
	return len(value)
}

// clusteringSize returns the size of the values in a clustering or a bound.
func clusteringSize(t *schema.Table, clustering []byte) (size int) {
	for _, c := range t.Clustering {
		if len(clustering) == 0 {
			break
		}
		value, rest, err := c.Type.ConsumeOrdered(nil, clustering, c.Desc)
		if err != nil {
			break
		}
		size, clustering = size+len(value), rest
	}
	return size
}
