package fragments

import (
	"bytes"
	"slices"

	"cqld/row"
	"cqld/schema"
	"cqld/types"
)

// writer converts pages of storage to pages of fragments. It is used for one page.
type writer struct {
	shape *Shape
	// slices select fragments by the clustering of the derived table.
	slices []row.Slice
	out    row.PageWriter
	// shown is the number of partitions in the page of storage, including partitions without selected fragments.
	shown int
}

// change is a position from which another range tombstone applies, or none. Storage has range tombstones with a start
// and an end. Fragments have changes instead: one where each tombstone begins, and one with no deletion where it ends,
// unless the next one begins there.
type change struct {
	at       []byte // clustering of the fragment
	deletion row.Deletion
}

// page appends the fragments of a page of storage, and ends the page. The end of the page is a position of the derived
// table, from which the next page continues: storage's own position if a partition is complete, and otherwise the
// fragment of the last row.
func (w *writer) page(page []byte) ([]byte, error) {
	var r row.PageReader
	r.Reset(page)
	var end *row.Position
	for r.NextPartition() {
		w.shown++
		end = w.partition(&r)
	}
	switch {
	case r.Err() != nil || !r.More():
		return w.out.Finish(false), r.Err()
	// The position that storage reports takes precedence over the last partition, because storage may have examined
	// later rows without returning them.
	case r.End() != nil && !r.End().Whole:
		end = &row.Position{Key: r.End().Key, Clustering: w.clustering(regionRow, r.End().Clustering, weight(at))}
	case r.End() != nil:
		end = r.End()
	}
	return w.out.FinishAfter(end), nil
}

// partition appends the fragments of the partition at which r is. It returns the position after them.
func (w *writer) partition(r *row.PageReader) *row.Position {
	key := row.PartitionKey{Token: r.Key.Token, Bytes: bytes.Clone(r.Key.Bytes)}
	w.out.Partition(key, row.NewRow(), nil)
	defer w.out.EndPartition()
	// All fragments pass through emit in clustering order; emit drops those that the slices exclude.
	w.emit(w.clustering(regionStart, nil, nil), kindStart, tombstoneOf(r.Header.Deletion), nil)
	if len(r.Header.Cells)+len(r.Header.Complex) > 0 {
		metadata, value := w.shape.columns(&r.Header)
		w.emit(w.clustering(regionStatic, nil, nil), kindStatic, metadata, value)
	}
	// Changes are interleaved with the rows by their clustering.
	changes := w.changes(r.RangeTombstones)
	var x row.Row
	var last []byte
	for r.NextRow(&x) {
		last = w.clustering(regionRow, x.Clustering, weight(at))
		changes = w.changesUntil(changes, last)
		metadata, value := w.shape.row(&x)
		w.emit(last, kindRow, metadata, value)
	}
	// The partition continues on the next page, which also contains the changes after the last row and the end
	// fragment.
	if r.Continues() {
		return &row.Position{Key: key, Clustering: last}
	}
	w.changesUntil(changes, nil)
	w.emit(w.clustering(regionEnd, nil, nil), kindEnd, nil, nil)
	return &row.Position{Key: key, Whole: true}
}

// changesUntil appends the changes before a position, or all if it is nil, and returns the others. Positions are
// compared as encoded clusterings.
func (w *writer) changesUntil(changes []change, position []byte) []change {
	for len(changes) > 0 && (position == nil || bytes.Compare(changes[0].at, position) < 0) {
		w.emit(changes[0].at, kindTombstone, tombstoneOf(changes[0].deletion), nil)
		changes = changes[1:]
	}
	return changes
}

// changes returns where the range tombstones of a partition begin and end, in order. tombstones are disjoint and in
// order.
func (w *writer) changes(tombstones []row.RangeTombstone) (out []change) {
	for i, t := range tombstones {
		out = append(out, change{w.bound(t.Start), t.Deletion})
		// If the next tombstone begins where this one ends, its start replaces the end of this one.
		if i+1 < len(tombstones) && bytes.Equal(t.End, tombstones[i+1].Start) {
			continue
		}
		end := t.End
		if end == nil {
			// nil is the end of the partition. 0xFF sorts after every clustering.
			end = []byte{0xFF} // of the partition
		}
		out = append(out, change{w.bound(end), row.NoDeletion()})
	}
	return out
}

// bound returns the clustering of a change at a bound of a range tombstone: before all rows that begin with some
// components, or after them. bound encodes each missing component as one byte that sorts before or after all values.
func (w *writer) bound(b []byte) []byte {
	rest, missing := b, 0
	columns := w.shape.Base.Clustering
	for i, c := range columns {
		after, err := c.Type.SkipOrdered(rest, c.Desc)
		if err != nil {
			missing = len(columns) - i
			break
		}
		rest = after
	}
	// The byte after the encoded components determines the side of the bound: 0xFF is after all rows with the prefix.
	side, fill := before, byte(0)
	if len(rest) > 0 && rest[0] == 0xFF {
		side, fill = after, 0xFF
	}
	// position_weight follows the clustering columns, so each of them needs a component.
	prefix := slices.Clone(b[:len(b)-len(rest)])
	for range missing {
		prefix = append(prefix, fill)
	}
	return w.clustering(regionRow, prefix, weight(side))
}

// weight returns the value of position_weight.
func weight(side int) []byte { return []byte{byte(int8(side))} }

// clustering returns the clustering of a fragment. Without a weight it ends after the region. stored is the clustering
// of a row or a bound in ordered form; it is used only with a weight.
func (w *writer) clustering(region byte, stored, weight []byte) []byte {
	tinyint := types.Native(types.Tinyint)
	b := types.Native(types.Text).AppendOrdered(nil, []byte(source), false)
	b = tinyint.AppendOrdered(b, []byte{region}, false)
	if weight == nil {
		return b
	}
	return tinyint.AppendOrdered(append(b, stored...), weight, false)
}

// emit appends a fragment if it is wanted. Metadata and value are JSON; nil means null.
func (w *writer) emit(clustering []byte, kind string, metadata, value []byte) {
	if !slices.ContainsFunc(w.slices, func(s row.Slice) bool { return s.Contains(clustering) }) {
		return
	}
	// Fragments are generated: they have no liveness and no timestamps.
	r := row.NewRow()
	r.Clustering, r.Liveness = clustering, row.Liveness{}
	s := w.shape
	for _, c := range []struct {
		column *schema.Column
		value  []byte
	}{{s.metadata, metadata}, {s.kind, []byte(kind)}, {s.value, value}} {
		if c.value != nil {
			r.Cells = append(r.Cells, row.Cell{Column: c.column.ID, Value: c.value})
		}
	}
	w.out.Row(r)
}

// onlyEnd answers a command whose slices begin after the last row of a partition: it returns the end fragment if the
// partition exists. To find out, it changes stored to request one row from the beginning of the partition, and
// executes it.
func (w *writer) onlyEnd(stored *row.ReadCommand, read Read) ([]byte, error) {
	stored.Slices, stored.Limits.Rows = []row.Slice{row.AllRows()}, 1
	page, err := read(stored)
	if err != nil {
		return nil, err
	}
	var r row.PageReader
	r.Reset(page)
	// The partition exists if storage returns any part of it, such as its deletion.
	if r.NextPartition() {
		w.out.Partition(stored.Key, row.NewRow(), nil)
		w.emit(w.clustering(regionEnd, nil, nil), kindEnd, nil, nil)
		w.out.EndPartition()
	}
	return w.out.Finish(false), r.Err()
}
