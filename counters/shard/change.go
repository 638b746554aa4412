package shard

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"slices"

	"cqld/internal/invariant"
	"cqld/internal/wire"
	"cqld/ring"
	"cqld/row"
	"cqld/scan"
	"cqld/schema"
)

// shardPath returns the path of a node's shard.
func shardPath(node ring.NodeID) []byte { return wire.AppendUint64(nil, uint64(node)) }

// errValue means that an update contains an invalid value.
var errValue = errors.New("counter: the value of an update does not have 8 bytes")

// Change converts the additions of several updates of one partition to sums.
type Change struct {
	rows []*changedRow // sorted by clustering, header first
	// tombstones are the range tombstones of the updates. They are written as they are.
	tombstones []row.RangeTombstone
	header     row.Deletion // the partition's
}

// changedRow contains the changes of one row, or of the header.
type changedRow struct {
	header     bool
	clustering []byte
	changes    row.Row // deletions, and one cell with the addition for each column
	// stored is the row as this node has it; empty until Take.
	stored  row.Row
	covered row.Deletion // the latest deletion of wider scope, found or made by the updates
}

// delta returns the value of a cell of an update.
func delta(c *row.Cell) int64 { return int64(binary.BigEndian.Uint64(c.Value)) }

// Add adds the entries of an update, and retains them.
func (x *Change) Add(m *row.Mutation) error {
	// The deletion is initialized with the first update, because its zero value does not mean that there is none.
	if len(x.rows) == 0 {
		x.header = row.NoDeletion()
	}
	entries := m.Entries()
	var e row.Entry
	for entries.Next(&e) {
		// The row is decoded before its kind is known, because a range tombstone is encoded as a row, too.
		r := &changedRow{header: e.Kind == row.KindHeader, clustering: e.Start, covered: row.NoDeletion()}
		r.changes.Reset()
		r.stored.Reset()
		if err := row.DecodeRow(&r.changes, e.Value); err != nil {
			return err
		}
		if e.Kind == row.KindRangeTombstone {
			x.tombstones = append(x.tombstones, row.RangeTombstone{Start: e.Start, End: e.End,
				Deletion: r.changes.Deletion})
			continue
		}
		for i := range r.changes.Cells {
			// The deletion of a counter is a deletion of its column or row, never a cell.
			if c := &r.changes.Cells[i]; c.Tombstone || len(c.Value) != 8 {
				return errValue
			}
		}
		if r.header {
			r.clustering = nil
			x.header = x.header.Max(r.changes.Deletion)
		}
		x.rows = append(x.rows, r)
	}
	return entries.Err()
}

// Merge merges all changes of each row.
func (x *Change) Merge() {
	// The sort is stable, so that the updates of one row stay in the order of their arrival.
	slices.SortStableFunc(x.rows, func(a, b *changedRow) int {
		switch {
		case a.header != b.header && a.header:
			return -1
		case a.header != b.header:
			return 1
		}
		return bytes.Compare(a.clustering, b.clustering)
	})
	// Rows with the same clustering are neighbors now, and become one.
	kept := x.rows[:0]
	for _, r := range x.rows {
		if n := len(kept); n > 0 && kept[n-1].header == r.header && bytes.Equal(kept[n-1].clustering, r.clustering) {
			kept[n-1].join(r)
			continue
		}
		kept = append(kept, r)
	}
	x.rows = kept
	x.check()
	// The tombstones are copied, because Result writes them as the updates had them.
	deleted := row.NormalizeRangeTombstones(slices.Clone(x.tombstones), row.NoDeletion())
	for _, r := range x.rows {
		r.covered = x.header
		if !r.header {
			r.covered = r.covered.Max(row.DeletionAt(deleted, r.clustering))
		}
	}
}

// check stops the program if an update has two sums for one counter: the second would be computed without the first.
func (x *Change) check() {
	for i, r := range x.rows {
		invariant.Check(!r.header || i == 0, "counter: the header is not the first row")
		if i > 0 && !x.rows[i-1].header {
			invariant.Check(bytes.Compare(x.rows[i-1].clustering, r.clustering) < 0, "counter: a row is changed twice")
		}
		cells := r.changes.Cells
		for k := range cells {
			same := func(c row.Cell) bool { return c.Column == cells[k].Column }
			invariant.Check(!slices.ContainsFunc(cells[:k], same), "counter: a column has two additions")
		}
	}
}

// join adds the changes of o to the same row.
func (r *changedRow) join(o *changedRow) {
	a := &r.changes
	a.Deletion = a.Deletion.Max(o.changes.Deletion)
	a.HasRangeTombstones = a.HasRangeTombstones || o.changes.HasRangeTombstones
	for _, d := range o.changes.Complex {
		i := slices.IndexFunc(a.Complex, func(h row.ComplexDeletion) bool { return h.Column == d.Column })
		if i < 0 {
			a.Complex = append(a.Complex, d)
		} else {
			a.Complex[i].Deletion = a.Complex[i].Deletion.Max(d.Deletion)
		}
	}
	// An addition to the same column adds up. Both have the timestamps of their updates, which sum replaces.
	for _, c := range o.changes.Cells {
		i := slices.IndexFunc(a.Cells, func(h row.Cell) bool { return h.Column == c.Column })
		if i < 0 {
			a.Cells = append(a.Cells, c)
		} else {
			a.Cells[i].Value = wire.AppendInt64(nil, delta(&a.Cells[i])+delta(&c))
		}
	}
	a.Sort()
}

// Scan returns the scan of the rows whose sums will change. Without such rows, it has no command.
func (x *Change) Scan(m *row.Mutation, now int64) *scan.Cursor {
	c := &scan.Cursor{Command: row.ReadCommand{Table: m.Table, StaticCounts: true, Now: now}}
	// Only rows with additions are read: deletions do not depend on the stored sums.
	any := false
	for _, r := range x.rows {
		if len(r.changes.Cells) == 0 {
			continue
		}
		any = true
		if !r.header {
			c.Command.Slices = append(c.Command.Slices, row.ExactRow(r.clustering))
		}
	}
	// An empty list of keys, unlike nil, means that nothing is read.
	if c.Keys = []row.PartitionKey{}; any {
		c.One(m.Key)
	}
	return c
}

// Take adds the sums in a page of the scan.
func (x *Change) Take(page []byte, c *scan.Cursor) error {
	if c.Page(page); c.NextPartition() {
		x.take(c)
	}
	return c.EndPage()
}

// take adds the sums in the cursor's partition.
func (x *Change) take(c *scan.Cursor) {
	for _, r := range x.rows {
		deletion := c.Reader.Header.Deletion
		if r.header {
			r.stored = c.Reader.Header.Clone()
		} else {
			deletion = deletion.Max(row.DeletionAt(c.Reader.RangeTombstones, r.clustering))
		}
		r.covered = r.covered.Max(deletion)
	}
	var stored row.Row
	// Both lists are in the order of clusterings, so each row is visited once. The header is not among the stored
	// rows.
	for i := 0; c.NextRow(&stored); {
		for i < len(x.rows) && (x.rows[i].header || bytes.Compare(x.rows[i].clustering, stored.Clustering) < 0) {
			i++
		}
		if i < len(x.rows) && bytes.Equal(x.rows[i].clustering, stored.Clustering) {
			x.rows[i].stored = stored.Clone()
		}
	}
}

// Result returns the mutation with the new sums of self's shards, with timestamps after the previous sums', and
// with the deletions unchanged.
func (x *Change) Result(table schema.StorageID, key row.PartitionKey, self ring.NodeID, stamp int64) *row.Mutation {
	// The mutation is applied here like any other, and sent to the other replicas, which need no special treatment of
	// counters.
	m := &row.Mutation{}
	m.Reset(table, key)
	path := shardPath(self)
	for _, r := range x.rows {
		// Other nodes' shards are not in the mutation, and stay as they are.
		r.sum(path, stamp)
		if r.header {
			m.AddHeader(&r.changes)
		} else {
			r.changes.Clustering = r.clustering
			m.AddRow(&r.changes)
		}
	}
	for _, t := range x.tombstones {
		m.AddRangeTombstone(t)
	}
	return m
}

// sum replaces the additions by the new sums.
func (r *changedRow) sum(path []byte, stamp int64) {
	for i := range r.changes.Cells {
		c := &r.changes.Cells[i]
		deleted := r.covered.Max(r.changes.Deletion).Max(r.changes.ComplexDeletionOf(c))
		// Stored deletions and deletions of the updates apply alike: an addition counts after all of them.
		deleted = deleted.Max(r.stored.Deletion).Max(r.stored.ComplexDeletionOf(c))
		after := deleted.Timestamp
		total := delta(c)
		for k := range r.stored.Cells {
			s := &r.stored.Cells[k]
			// Another column, or the shard of another node.
			if s.Column != c.Column || !bytes.Equal(s.Path, path) {
				continue
			}
			after = max(after, s.Timestamp)
			// A deleted sum does not count: the shard restarts from the addition.
			if !s.Tombstone && len(s.Value) == 8 && !deleted.Deletes(s.Timestamp) {
				total += delta(s)
			}
		}
		*c = row.Cell{Column: c.Column, Path: path, Timestamp: max(stamp, after+1), Value: wire.AppendInt64(nil, total)}
		invariant.Check(c.Timestamp > after || after == math.MaxInt64,
			"counter: a sum is not later than its predecessor")
	}
}
