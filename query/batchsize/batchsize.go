// Package batchsize computes the size of a batch as Cassandra does, for the thresholds that refer to it. It does not limit
// batches.
package batchsize

import (
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

// Of returns the size of one partition's changes in a batch. The partition key does not count.
func Of(t *schema.Table, m *row.Mutation) int {
	size := partitionDeletionSize + rowSize // an empty static row counts, too
	deletions := 0
	rows := map[string]*row.Row{} // changes of one row count once
	var e row.Entry
	for es := m.Entries(); es.Next(&e); {
		if e.Kind == row.KindRangeTombstone {
			deletions++
			size += rangeTombstoneSize + clusteringSize(t, e.Start) + clusteringSize(t, e.End)
			continue
		}
		key := string(append([]byte{byte(e.Kind)}, e.Start...))
		r := row.NewRow()
		if row.DecodeRow(r, e.Value) != nil {
			continue // cannot fail: this node has just encoded it
		}
		if same := rows[key]; same != nil {
			merged := row.NewRow()
			row.Reconcile(merged, same, r)
			rows[key] = merged
			continue
		}
		rows[key] = r
		if e.Kind == row.KindRow {
			size += rowSize + clusteringSize(t, e.Start)
		}
	}
	if deletions > 0 {
		size += rangeTombstonesSize
	}
	for _, r := range rows {
		size += cellsSize(t, r)
	}
	return size
}

// cellsSize returns the size of a row minus that of an empty one.
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
