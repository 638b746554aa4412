package write

import (
	"bytes"

	"cqld/row"
	"cqld/schema"
	"cqld/types"
)

// The components of the size of a batch, in bytes, as Cassandra 5.0 counts them (PartitionUpdate.dataSize). The
// thresholds for batches refer to this size, so that the same batches cause warnings and errors, although cqld's
// encoding is smaller.
const (
	partitionDeletionSize = 8
	rowSize               = 8 + 13 // timestamp of the marker, deletion; each row counts as if it had a marker
	expiringMarkerSize    = 4 + 8  // TTL, time of expiry
	// cellSize counts timestamp, TTL and time of deletion, even for cells without a TTL.
	cellSize = 8 + 4 + 8
	// complexColumnSize counts the deletion of a multi-cell column, present or not.
	complexColumnSize = 12
	// rangeTombstonesSize is added once for all range tombstones of a partition.
	rangeTombstonesSize = 4
	// rangeTombstoneSize counts timestamp and time of deletion.
	rangeTombstoneSize = 8 + 4
	// counterValueSize replaces the length of the value.
	counterValueSize = 36 // a shard and its header
	// The path of a list element is a time UUID.
	listPathSize = 16
	// The path of a field is its index.
	fieldPathSize = 2
)

// rowChanges are the changes of one row in a mutation. Several statements of a batch may change the same row: Cassandra
// merges their changes in one PartitionUpdate, so each cell counts once.
type rowChanges struct {
	// kind is a row, or the header with the static columns.
	kind row.EntryKind
	// start is the encoded clustering; empty for the header. It points into the mutation.
	start  []byte
	value  []byte   // encoded first change
	merged *row.Row // merged changes, if there are several
	size   int      // size of its cells in bytes
}

// rowListMax is how many rows of a mutation are searched linearly; most mutations of a batch have one row.
const rowListMax = 8

// rowList contains the rows of one mutation. It finds the earlier changes of the same row: by comparison while there
// are few, and by a map from rowListMax rows on.
type rowList struct {
	all   []rowChanges
	index map[string]int // index of all by row, from rowListMax rows on
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

// merge adds the change r to x, which has at least one change. It decodes the first change only now, because most
// rows have no second one.
func (x *rowChanges) merge(t *schema.Table, r *row.Row) {
	if x.merged == nil {
		x.merged = row.NewRow()
		_ = row.DecodeRow(x.merged, x.value) // it was decoded before
	}
	// Reconcile must not write into its sources, so merge into a new row.
	merged := row.NewRow()
	row.Reconcile(merged, x.merged, r)
	x.merged, x.size = merged, cellsSize(t, merged)
}

// batchSize returns the size of one partition's changes in a batch. It excludes the partition key.
//
// It decodes the mutation, because cqld's encoding omits default values, which Cassandra counts. Only batches over
// several partitions are measured.
func batchSize(t *schema.Table, m *row.Mutation) int {
	size := partitionDeletionSize + rowSize // an empty static row counts, too
	deletions := 0
	var space [rowListMax / 2]rowChanges // on the stack
	rows := rowList{all: space[:0]}      // changes of one row count once
	r := row.NewRow()
	var e row.Entry
	for es := m.Entries(); es.Next(&e); {
		// Every range tombstone counts; they are not merged here.
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
			r = row.NewRow() // a merged row may share the memory of r
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
	// Add sizes after the loop, because merging changes the sizes of earlier rows. size already includes the
	// partition deletion and the header.
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
	// A multi-cell column counts once in addition to its cells, whether it is deleted or has elements. It may be in
	// both lists, so use a set.
	complex := map[schema.ColumnID]bool{}
	for i := range r.Complex {
		complex[r.Complex[i].Column] = true
	}
	for i := range r.Cells {
		c := &r.Cells[i]
		size += cellSize + len(c.Value)
		col := t.ColumnByID(c.Column)
		switch {
		// The column was dropped after the statement was compiled.
		case col == nil:
		// Cassandra stores a counter context with one shard, cqld an addend of 8 bytes.
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
		// Use Cassandra's sizes, because paths of list elements and fields have other lengths in cqld.
		return listPathSize
	case types.UDT:
		return fieldPathSize
	}
	value, _, err := t.Elems()[0].ConsumeOrdered(nil, path, false)
	// This cannot happen, because paths are encoded from valid values. If it did, an underestimate would be better
	// than a failed write.
	if err != nil {
		return 0
	}
	return len(value)
}

// clusteringSize returns the size in bytes of the values in a clustering or a bound. A bound is a prefix, so missing
// columns have no size.
func clusteringSize(t *schema.Table, clustering []byte) (size int) {
	for _, c := range t.Clustering {
		if len(clustering) == 0 {
			break
		}
		value, rest, err := c.Type.ConsumeOrdered(nil, clustering, c.Desc)
		// The rest is the marker byte of a bound, for example 0xFF for an open end.
		if err != nil {
			break
		}
		size, clustering = size+len(value), rest
	}
	return size
}
