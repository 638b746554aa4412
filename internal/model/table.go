package model

import (
	"bytes"
	"slices"
	"sort"

	"cqld/ring"
	"cqld/row"
)

// Table is a table on one node. The zero value is empty. It is not safe for concurrent use, and is not meant to be: the
// tests that compare it apply and read in one goroutine. Rows that Read returns are copies in the page; no caller can
// reach the stored versions.
type Table struct {
	// GCBefore returns the time, in seconds, before which tombstones of a token are purged at now. Nil means never.
	GCBefore func(t ring.Token, now int64) int64

	// FilterRows ends a page after a filter has omitted that many rows, or partitions of a range. Zero means never.
	FilterRows int
	// PageRows ends a page after that many rows, including deleted ones, like the bound on its bytes. Zero means never.
	PageRows int

	// By the bytes of the key: the token follows from them.
	partitions map[string]*partition
}

// partition contains everything ever written to one partition. Nothing is merged when it is written: each slice grows
// with every entry, in the order of writes, which must not matter to a read. Partitions stay in the map after Purge has
// emptied them; read shows nothing for them.
type partition struct {
	key row.PartitionKey
	// The header is a row that contains the partition deletion and the static cells.
	headers    []row.Row
	tombstones []row.RangeTombstone
	rows       map[string][]row.Row // by clustering
}

// Apply applies a mutation. It panics on malformed ones, because the model is for tests. The mutation is copied, so the
// caller may reuse it and its buffers after Apply returns.
func (t *Table) Apply(m *row.Mutation) {
	p := t.partitions[string(m.Key.Bytes)]
	if p == nil {
		p = &partition{
			key:  row.PartitionKey{Token: m.Key.Token, Bytes: bytes.Clone(m.Key.Bytes)},
			rows: map[string][]row.Row{},
		}
		if t.partitions == nil {
			t.partitions = map[string]*partition{}
		}
		t.partitions[string(m.Key.Bytes)] = p
	}
	var e row.Entry
	// The iterator points into the mutation, so add copies what it keeps.
	entries := m.Entries()
	for entries.Next(&e) {
		p.add(&e)
	}
	if entries.Err() != nil {
		panic(entries.Err())
	}
}

// add records one entry of a mutation.
func (p *partition) add(e *row.Entry) {
	decoded := row.NewRow()
	if err := row.DecodeRow(decoded, e.Value); err != nil {
		panic(err)
	}
	// The decoded cells point into the mutation, which the caller may reuse.
	version := decoded.Clone()
	//exhaustive:enforce
	switch e.Kind {
	case row.KindHeader:
		p.headers = append(p.headers, version)
	case row.KindRangeTombstone:
		// The decoded row has only a deletion, which is the deletion of the tombstone.
		p.tombstones = append(p.tombstones, row.RangeTombstone{
			Start: bytes.Clone(e.Start), End: bytes.Clone(e.End), Deletion: version.Deletion,
		})
	case row.KindRow:
		// Not nil, even if the clustering is empty: nil means a whole partition in filtering.omit.
		version.Clustering = append([]byte{}, e.Start...)
		p.rows[string(e.Start)] = append(p.rows[string(e.Start)], version)
	}
}

// Truncate removes everything.
func (t *Table) Truncate() { t.partitions = nil }

// Purge removes permanently what a purge at now may remove. This affects later writes with older timestamps. After it,
// a write with an older timestamp than a purged tombstone is visible. Storage must behave equally: purging is what
// gc_grace_seconds exists to delay. Only the merged form of each row is kept.
func (t *Table) Purge(now int64) {
	for key, p := range t.partitions {
		// GCBefore may differ from token to token.
		gcBefore := t.gcBefore(p.key.Token, now)
		deletion, header := p.header()
		swept := &partition{key: p.key, rows: map[string][]row.Row{}}
		for clustering, versions := range p.rows {
			// What is shadowed is removed for good, even if its deletion is purged below.
			r := visible(versions, deletion.Max(p.deletionAt([]byte(clustering))))
			if r.Purge(gcBefore); !r.Empty() {
				swept.rows[clustering] = []row.Row{r}
			}
		}
		swept.tombstones = purged(p.intervals(deletion), gcBefore)
		if header.Purge(gcBefore); !header.Empty() {
			swept.headers = []row.Row{header}
		}
		t.partitions[key] = swept
	}
}

// gcBefore is GCBefore, or a time before all tombstones if that is nil.
func (t *Table) gcBefore(token ring.Token, now int64) int64 {
	if t.GCBefore == nil {
		return -1 << 62
	}
	return t.GCBefore(token, now)
}

// Read returns the page that answers cmd, without the bound on the size of pages.
func (t *Table) Read(cmd *row.ReadCommand) []byte {
	w := row.NewPageWriter(nil)
	// Live rows so far, over all partitions. A partition's limit is checked in read, and the limit of the command both
	// here and there.
	counted := uint32(0)
	f := &filtering{most: t.FilterRows, rowsMost: t.PageRows}
	f.Reset(cmd.Filter, cmd.Now)
	for _, p := range t.wanted(cmd) {
		counted = p.read(&w, cmd, t.gcBefore(p.key.Token, cmd.Now), counted, f)
		// The filter has ended the page within, or after, a partition that may have no rows in it.
		if f.end != nil {
			return w.FinishAfter(f.end)
		}
		if f.full() || cmd.Limits.Rows > 0 && counted >= cmd.Limits.Rows {
			return w.Finish(true)
		}
	}
	return w.Finish(false)
}

// filtering is the filter of one command, and the rows and partitions that it has omitted. FilterMatcher evaluates the
// restrictions that no key range expresses.
type filtering struct {
	row.FilterMatcher
	// most and rowsMost are the limits, omitted and rows the counts so far. They span all partitions of the page.
	most, omitted  int
	rowsMost, rows int
	end            *row.Position // set when the page ends
}

// full reports whether the page has the maximum number of rows.
func (f *filtering) full() bool { return f.rowsMost > 0 && f.rows >= f.rowsMost }

// omit counts a row or, if clustering is nil, a partition.
func (f *filtering) omit(key row.PartitionKey, clustering []byte) {
	// Zero for most never matches, because omitted is at least 1.
	if f.omitted++; f.omitted == f.most {
		f.end = &row.Position{Key: key, Clustering: clustering, Whole: clustering == nil}
	}
}

// wanted returns the partitions that cmd selects, in order.
func (t *Table) wanted(cmd *row.ReadCommand) (out []*partition) {
	for _, p := range t.partitions {
		switch {
		case cmd.SinglePartition():
			if !bytes.Equal(p.key.Bytes, cmd.Key.Bytes) {
				continue
			}
		case !cmd.Range.Tokens.Contains(p.key.Token):
			continue
		// The previous page ended with this partition.
		case cmd.Range.After != nil && p.key.Compare(*cmd.Range.After) <= 0:
			continue
		}
		out = append(out, p)
	}
	// By token, then by the bytes of the key, as storage orders them.
	sort.Slice(out, func(i, j int) bool { return out[i].key.Compare(out[j].key) < 0 })
	return out
}

// read writes the partition and returns the number of rows counted so far. counted is the number of live rows of
// earlier partitions, against which the limit of the command is checked.
func (p *partition) read(w *row.PageWriter, cmd *row.ReadCommand, gcBefore int64, counted uint32, f *filtering) uint32 {
	deletion, header := p.header()
	header.Purge(gcBefore)
	// Purged tombstones are not in the page, but still shadow rows below.
	shown := purged(cut(p.intervals(deletion), cmd.Slices), gcBefore)
	// Rows are collected first, because the header in front of them is written only if something follows it or it is
	// shown itself.
	var found []row.Row
	live, before := uint32(0), f.omitted
	// The filter refuses the whole partition: it counts once, without its rows.
	if f.Active() && !f.Partition(p.key, &header) {
		if !cmd.SinglePartition() {
			f.omit(p.key, nil)
		}
		return counted
	}
	for _, clustering := range p.clusterings(cmd) {
		r := visible(p.rows[clustering], deletion.Max(p.deletionAt([]byte(clustering))))
		// The command asks for row markers only.
		if cmd.Inserted {
			r.Cells, r.Complex = nil, nil
		}
		if r.Purge(gcBefore); r.Empty() {
			continue
		}
		// A deleted row is omitted by its clustering only, because the coordinator must see its tombstones.
		if f.Active() && (!f.Clustering(r.Clustering) || r.Live(cmd.Now) && !f.Row(&r)) {
			if f.omit(p.key, r.Clustering); f.end != nil {
				break
			}
			continue
		}
		found = append(found, r)
		f.rows++
		if r.Live(cmd.Now) {
			live++
		}
		// Limits of zero never match, because live is at least 1 here.
		if live > 0 && (live == cmd.Limits.PerPartition || counted+live == cmd.Limits.Rows) || f.full() {
			break
		}
	}
	// If no row is left, static cells are shown only for a merge, or if they count.
	omitted := f.omitted > before && cmd.Filter.Decisive && !cmd.StaticCounts && !header.Deletion.Present()
	if len(found) > 0 || len(shown) > 0 || !header.Empty() && !omitted {
		w.Partition(p.key, &header, shown)
		for i := range found {
			w.Row(&found[i])
		}
		w.EndPartition()
	}
	// As in CQL, a partition with static cells and without rows is one row of the result.
	if live == 0 && cmd.StaticCounts && f.end == nil && !f.full() && header.Live(cmd.Now) {
		live = 1
	}
	return counted + live
}

// clusterings returns the clusterings in the slices of cmd, in its order.
func (p *partition) clusterings(cmd *row.ReadCommand) (out []string) {
	for clustering := range p.rows {
		if slices.ContainsFunc(cmd.Slices, func(s row.Slice) bool { return s.Contains([]byte(clustering)) }) {
			out = append(out, clustering)
		}
	}
	sort.Strings(out)
	if cmd.Reversed {
		slices.Reverse(out)
	}
	return out
}

// header returns the partition's deletion and the visible part of its static row, with the deletion applied. Nothing
// covers more than the partition, so no wider deletion applies.
func (p *partition) header() (row.Deletion, row.Row) {
	r := visible(p.headers, row.NoDeletion())
	return r.Deletion, r
}

// deletionAt returns the newest range tombstone that covers a clustering.
func (p *partition) deletionAt(clustering []byte) row.Deletion {
	d := row.NoDeletion()
	for _, t := range p.tombstones {
		// Ranges include their start and exclude their end.
		if bytes.Compare(t.Start, clustering) <= 0 && bytes.Compare(clustering, t.End) < 0 {
			d = d.Max(t.Deletion)
		}
	}
	return d
}

// visible merges all versions of a row under a deletion of wider scope.
func visible(versions []row.Row, wider row.Deletion) row.Row {
	out := *row.NewRow()
	for i := range versions {
		out.Clustering = versions[i].Clustering
		out.Deletion = out.Deletion.Max(versions[i].Deletion)
	}
	// Everything up to this timestamp is deleted.
	gone := out.Deletion.Max(wider)
	// A deletion of the row that the wider one covers is not shown.
	if wider.Deletes(out.Deletion.Timestamp) {
		// Shown is only what changes the result of a later merge.
		out.Deletion = row.NoDeletion()
	}
	for i := range versions {
		v := &versions[i]
		if v.Liveness.Present() && !gone.Deletes(v.Liveness.Timestamp) {
			out.Liveness = laterLiveness(out.Liveness, v.Liveness)
		}
		for _, c := range v.Complex {
			if !gone.Deletes(c.Timestamp) {
				out.Complex = addComplex(out.Complex, c)
			}
		}
	}
	// After all deletions of collections are known, because they come in any order.
	for i := range versions {
		for j := range versions[i].Cells {
			c := versions[i].Cells[j]
			if !gone.Deletes(c.Timestamp) && !out.ComplexDeletionOf(&c).Deletes(c.Timestamp) {
				out.Cells = append(out.Cells, c)
			}
		}
	}
	// Reconciles equal cells too, with the function that it shares with storage.
	out.Sort()
	return out
}

// laterLiveness reconciles two row markers like two cells without a value. It works because Cassandra orders markers as
// it orders cells without values: by timestamp, then by expiration and TTL.
func laterLiveness(a, b row.Liveness) row.Liveness {
	cell := func(l row.Liveness) *row.Cell {
		return &row.Cell{Timestamp: l.Timestamp, TTL: l.TTL, LocalTime: l.LocalTime}
	}
	x, y := cell(a), cell(b)
	if row.ReconcileCells(x, y) == x {
		return a
	}
	return b
}

// addComplex adds the deletion of a collection, or keeps the newer one of its column, in the order of columns. The
// slice is sorted by column number, the order in which a page has them.
func addComplex(all []row.ComplexDeletion, c row.ComplexDeletion) []row.ComplexDeletion {
	for i := range all {
		if all[i].Column == c.Column {
			all[i].Deletion = all[i].Deletion.Max(c.Deletion)
			return all
		}
	}
	all = append(all, c)
	sort.Slice(all, func(i, j int) bool { return all[i].Column < all[j].Column })
	return all
}

// intervals returns the range tombstones as disjoint intervals, without those that base supersedes. It sweeps over all
// bounds in ascending order. With n tombstones there are at most 2n-1 pieces, each between two neighbours:
//
//	tombstones   [a────────c)            timestamps 1
//	                  [b────────d)                  2
//	intervals    [a─b:1)[b──────d:2)
//
// A piece whose deletion is not newer than base is omitted, since the deletion of the partition already has its effect.
func (p *partition) intervals(base row.Deletion) (out []row.RangeTombstone) {
	var bounds [][]byte
	for _, t := range p.tombstones {
		bounds = append(bounds, t.Start, t.End)
	}
	// Between two adjacent bounds the same tombstones apply everywhere, so each piece has one deletion.
	slices.SortFunc(bounds, bytes.Compare)
	for i := 0; i+1 < len(bounds); i++ {
		start, end := bounds[i], bounds[i+1]
		d := p.deletionAt(start)
		if bytes.Equal(start, end) || d.Timestamp <= base.Timestamp {
			continue
			// The comparison includes LocalTime, so pieces with equal timestamps of two writes stay apart.
		}
		// Adjacent pieces with the same deletion are one interval, so that equal contents have one form.
		if n := len(out); n > 0 && out[n-1].Deletion == d && bytes.Equal(out[n-1].End, start) {
			out[n-1].End = end
			continue
		}
		out = append(out, row.RangeTombstone{Start: start, End: end, Deletion: d})
	}
	return out
}

// cut restricts tombstones to the slices. A nil end of a slice is unbounded; the end of a tombstone never is. Pieces
// keep the deletion of their tombstone.
func cut(tombstones []row.RangeTombstone, in []row.Slice) (out []row.RangeTombstone) {
	for _, t := range tombstones {
		// The slices are disjoint, so the pieces are as well.
		for _, s := range in {
			c := t
			if bytes.Compare(s.Start, c.Start) > 0 {
				c.Start = s.Start
			}
			if s.End != nil && bytes.Compare(s.End, c.End) < 0 {
				c.End = s.End
			}
			if bytes.Compare(c.Start, c.End) < 0 {
				out = append(out, c)
			}
		}
	}
	return out
}

// purged returns the tombstones that may not be purged yet. A tombstone whose LocalTime equals gcBefore is kept:
// Cassandra purges those with a local deletion time before it.
func purged(tombstones []row.RangeTombstone, gcBefore int64) (out []row.RangeTombstone) {
	for _, t := range tombstones {
		if t.Deletion.LocalTime >= gcBefore {
			out = append(out, t)
		}
	}
	return out
}
