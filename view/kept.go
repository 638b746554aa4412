package view

import (
	"bytes"
	"slices"

	"cqld/row"
)

// keptRow is a row of a view, encoded.
type keptRow struct {
	key        row.PartitionKey
	clustering []byte
	encoded    []byte
}

// kept contains the first rows of a page in the order of the command, of the rows that were added so far. limit and
// bytesMax bound the page, perPartition each partition (PER PARTITION LIMIT); 0 means no bound for the latter.
type kept struct {
	rows         []keptRow
	bytes        int
	more         bool // rows were omitted because of a limit of the page
	limit        int
	bytesMax     int
	perPartition int
	reversed     bool
}

// newKept returns an empty page for a command. The bounds of bytes of the command do not count here: they are for pages
// of replicas.
func newKept(cmd *row.ReadCommand, limits Limits) *kept {
	k := &kept{limit: limits.Rows, bytesMax: limits.Bytes, perPartition: int(cmd.Limits.PerPartition),
		reversed: cmd.Reversed}
	// The client's limit may be smaller than a page.
	if n := int(cmd.Limits.Rows); n > 0 {
		k.limit = min(k.limit, n)
	}
	return k
}

// compare orders the rows of a view: partitions as in the ring, and the rows of a partition as the command reads them.
func (k *kept) compare(a, b *keptRow) int {
	if order := a.key.Compare(b.key); order != 0 {
		return order
	}
	// Partitions are in the order of the ring in both directions.
	if k.reversed {
		a, b = b, a
	}
	return bytes.Compare(a.clustering, b.clustering)
}

// add keeps a copy of a row, and removes rows that exceed a limit. Rows of the base table never share a
// place in the view, so a row that is there already is the same one.
func (k *kept) add(key row.PartitionKey, r *row.Row) {
	x := keptRow{key: key, clustering: r.Clustering}
	at, found := slices.BinarySearchFunc(k.rows, x, func(a, b keptRow) int { return k.compare(&a, &b) })
	// After a row was omitted, a row after the last one is after the end of the page.
	if found || k.more && at == len(k.rows) {
		k.more = k.more || !found
		return
	}
	// r and key point into a page of the base table.
	x.clustering, x.key.Bytes = bytes.Clone(r.Clustering), bytes.Clone(key.Bytes)
	x.encoded = row.AppendRow(nil, r)
	k.rows = slices.Insert(k.rows, at, x)
	k.bytes += x.size()
	if k.perPartition > 0 {
		k.limitPartition(key)
	}
	// One row is kept whatever its size, so that each page makes progress.
	for len(k.rows) > k.limit || len(k.rows) > 1 && k.bytes > k.bytesMax {
		k.remove(len(k.rows) - 1)
		k.more = true
	}
	k.check(at)
}

// limitPartition removes the last row of a partition that has more rows than are wanted of it.
func (k *kept) limitPartition(key row.PartitionKey) {
	first, _ := slices.BinarySearchFunc(k.rows, key, func(a keptRow,
		key row.PartitionKey) int {
		return a.key.Compare(key)
	})
	after := first
	for after < len(k.rows) && k.rows[after].key.Compare(key) == 0 {
		after++
	}
	if after-first > k.perPartition {
		// It does not set more: no page has this row.
		k.remove(after - 1)
	}
}

// remove removes the row at i.
func (k *kept) remove(i int) {
	k.bytes -= k.rows[i].size()
	k.rows = slices.Delete(k.rows, i, i+1)
}

// size returns the bytes of a row, with about 100 for its slices.
func (x *keptRow) size() int { return len(x.key.Bytes) + len(x.clustering) + len(x.encoded) + 100 }

// write returns the page of the rows, which may be empty.
func (k *kept) write() []byte {
	w := k.writer()
	return w.Finish(k.more)
}

// writeAfter returns the page of the rows, which ends at a position.
func (k *kept) writeAfter(p *row.Position) []byte {
	k.checkEnd(p)
	w := k.writer()
	return w.FinishAfter(p)
}

// writer returns a writer that has the rows.
func (k *kept) writer() *row.PageWriter {
	w := row.NewPageWriter(nil)
	header := row.NewRow() // views have no static columns
	for i := range k.rows {
		x := &k.rows[i]
		// Rows of a partition are neighbors.
		if i == 0 || k.rows[i-1].key.Compare(x.key) != 0 {
			if i > 0 {
				w.EndPartition()
			}
			w.Partition(x.key, header, nil)
		}
		w.EncodedRow(x.clustering, x.encoded)
	}
	if len(k.rows) > 0 {
		w.EndPartition()
	}
	return &w
}
