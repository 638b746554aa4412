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
	rowSize               = 8 + 13 // timestamp of the marker, deletion; each row counts as if it had a marker
	expiringMarkerSize    = 4 + 8  // TTL, time of expiry
	// Timestamp, TTL and time of deletion, also for cells without a TTL.
	cellSize = 8 + 4 + 8
	// The deletion of a column with several cells, present or not.
	complexColumnSize = 12
	// Once for all range tombstones of a partition.
	rangeTombstonesSize = 4
	// Timestamp and time of deletion.
	rangeTombstoneSize = 8 + 4
	// It replaces the length of the value.
	counterValueSize = 36 // a shard and its header
	// A time UUID.
	listPathSize = 16
	// The index of the field.
	fieldPathSize = 2
)

// rowChanges are the changes of one row in a mutation. Several statements of a batch may change the same row: Cassandra
// merges their changes in one PartitionUpdate, so each cell counts once.
type rowChanges struct {
	// A row, or the header with the static columns.
	kind row.EntryKind
	// The encoded clustering; empty for the header. It points into the mutation.
	start  []byte
	value  []byte   // of the first change
	merged *row.Row // all changes, if there are several
	size   int      // of its cells
}

// rowListMax is the number of rows of a mutation that are compared one by one: most mutations of a batch have one.
const rowListMax = 8

// rowList contains the rows of one mutation. It finds the earlier changes of the same row: by comparison while there
// are few, and by a map from rowListMax rows on.
type rowList struct {
	all   []rowChanges
	index map[string]int // of all, from rowListMax rows on
}

// find returns the changes of the row of e, and adds them if there are none. The pointer is valid until the next call,
// which may move the list.
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
	// The first call with rowListMax rows builds the map from the list.
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

// rowIndexKey returns the key of a row in a rowList's index. The kind separates the header from a row with the same
// bytes.
func rowIndexKey(kind row.EntryKind, start []byte) string {
	return string(append([]byte{byte(kind)}, start...))
}

// merge adds the change r to x, which contains at least one. It decodes the first change only now: most rows have no
// second one.
func (x *rowChanges) merge(t *schema.Table, r *row.Row) {
	if x.merged == nil {
		x.merged = row.NewRow()
		_ = row.DecodeRow(x.merged, x.value) // it was decoded before
	}
	// Into a new row: Reconcile must not write into its sources.
	merged := row.NewRow()
	row.Reconcile(merged, x.merged, r)
	x.merged, x.size = merged, cellsSize(t, merged)
}

// batchSize returns the size of one partition's changes in a batch. The partition key does not count.
//
// Only batches over several partitions are measured, and their mutations are decoded for that: cqld's encoding omits
// what is default, while Cassandra counts it.
func batchSize(t *schema.Table, m *row.Mutation) int {
	size := partitionDeletionSize + rowSize // an empty static row counts, too
	deletions := 0
	var space [rowListMax / 2]rowChanges // on the stack
	rows := rowList{all: space[:0]}      // changes of one row count once
	r := row.NewRow()
	var e row.Entry
	for es := m.Entries(); es.Next(&e); {
		// Range tombstones count each, even equal ones: they are not merged here.
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
			// The clustering was counted with the first change.
			x.merge(t, r)
			r = row.NewRow() // merged rows may share its memory
			continue
		}
		x.size = cellsSize(t, r)
		// The header has no clustering, and was counted at the start.
		if e.Kind == row.KindRow {
			size += rowSize + clusteringSize(t, e.Start)
		}
	}
	if deletions > 0 {
		size += rangeTombstonesSize
	}
	// After the loop, because merging changes sizes of rows that were found before.
	// The partition deletion and the first row size, for the header, are in size from the start.
	for i := range rows.all {
		size += rows.all[i].size
	}
	return size
}

// cellsSize returns the size in bytes of a row minus the size of an empty one: its marker's TTL, its cells, and the
// columns with several cells.
func cellsSize(t *schema.Table, r *row.Row) (size int) {
	if r.Liveness.Present() && r.Liveness.TTL > 0 {
		size += expiringMarkerSize
	}
	// A column with several cells counts once more than its cells, whether it is deleted or has elements.
	// A set, because a column may be in both lists.
	complex := map[schema.ColumnID]bool{}
	for i := range r.Complex {
		complex[r.Complex[i].Column] = true
	}
	for i := range r.Cells {
		c := &r.Cells[i]
		size += cellSize + len(c.Value)
		col := t.ColumnByID(c.Column)
		switch {
		// The column was dropped since the statement was compiled: its size does not matter.
		case col == nil:
		// The cell contains an addend of 8 bytes here, and a context of one shard in Cassandra.
		case col.Type.Kind() == types.Counter:
			size += counterValueSize - len(c.Value)
		case c.Path != nil:
			complex[c.Column] = true
			size += pathSize(col.Type, c.Path)
		}
	}
	return size + complexColumnSize*len(complex)
}

// pathSize returns the size in bytes of the key of an element of a column that is not frozen. Elements of sets and maps
// count in their wire form, not in the ordered form of the path.
func pathSize(t *types.Type, path []byte) int {
	switch t.Kind() {
	case types.List:
		// The sizes are constants: cqld's paths of list elements and fields may have other lengths.
		return listPathSize
	case types.UDT:
		return fieldPathSize
	}
	value, _, err := t.Elems()[0].ConsumeOrdered(nil, path, false)
	// Paths were encoded from valid values, so this cannot happen. A size too small is better than a failed write.
	if err != nil {
		return 0
	}
	return len(value)
}

// clusteringSize returns the size in bytes of the values in a clustering or a bound. A bound is a prefix: its missing
// columns count nothing.
func clusteringSize(t *schema.Table, clustering []byte) (size int) {
	for _, c := range t.Clustering {
		if len(clustering) == 0 {
			break
		}
		value, rest, err := c.Type.ConsumeOrdered(nil, clustering, c.Desc)
		// The marker byte of a bound, for example the 0xFF of an open end, is no value.
		if err != nil {
			break
		}
		size, clustering = size+len(value), rest
	}
	return size
}
