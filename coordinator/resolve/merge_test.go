package resolve

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"cqld/internal/invariant"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
)

// draws are the shapes of pages that TestMergesStayWithinTheirMemory draws: what takes most memory for each byte of a
// page.
type draws struct{ partitions, rows, cells, static, tombstones, path, value int }

var shapes = []draws{
	{partitions: 1, rows: 300, cells: 2, value: 4},
	{partitions: 400, rows: 1, cells: 1, value: 1},
	{partitions: 1, rows: 1, cells: 3000, path: 2, value: 1},
	{partitions: 1, rows: 2, cells: 1, value: 40 << 10},
	{partitions: 1, rows: 1, static: 1500, path: 2, value: 1},
	{partitions: 3, rows: 40, tombstones: 100, cells: 1, value: 1},
	{partitions: 2, rows: 20, cells: 20, static: 3, tombstones: 2, path: 3, value: 9},
}

// drawRow returns a row with n cells that share a few timestamps, times to live and tombstones.
func (d *draws) drawRow(r *rand.Rand, n int) *row.Row {
	x := row.NewRow()
	if r.IntN(2) == 0 {
		x.Liveness.Timestamp = int64(1 + r.IntN(9))
	}
	if r.IntN(8) == 0 {
		x.Deletion = row.Deletion{Timestamp: int64(r.IntN(5)), LocalTime: 7}
	}
	if r.IntN(8) == 0 {
		x.Complex = append(x.Complex, row.ComplexDeletion{Column: 3,
			Deletion: row.Deletion{Timestamp: int64(r.IntN(5)), LocalTime: 7}})
	}
	for range n {
		if r.IntN(4) == 0 {
			continue
		}
		c := row.Cell{Column: schema.ColumnID(1 + r.IntN(4)), Timestamp: int64(1 + r.IntN(9)),
			Value: make([]byte, 1+r.IntN(d.value))}
		if d.path > 0 {
			c.Column, c.Path = 3, []byte{byte(r.IntN(256)), byte(r.IntN(256)), 0}[:d.path]
		}
		switch r.IntN(6) {
		case 0:
			c.TTL, c.LocalTime = int32(100+r.IntN(3)), int64(1000+r.IntN(100))
		case 1:
			c.Tombstone, c.LocalTime, c.Value = true, int64(900+r.IntN(100)), nil
		}
		x.Cells = append(x.Cells, c)
	}
	x.Sort()
	canonical := row.NewRow()
	row.Reconcile(canonical, x, row.NewRow())
	return canonical
}

// draw returns a random page with the layout of d, and its partitions.
func (d *draws) draw(r *rand.Rand, reversed bool) ([]byte, []*row.Partition) {
	var all []*row.Partition
	for i := range d.partitions {
		if r.IntN(5) == 0 {
			continue
		}
		p := &row.Partition{Key: row.NewPartitionKey([]byte{byte(i), byte(i >> 8)}), Header: *d.drawRow(r, d.static)}
		for range d.tombstones {
			at := byte(r.IntN(250))
			t := row.RangeTombstone{Start: []byte{0, at}, End: []byte{0, at + 1 + byte(r.IntN(4))}}
			t.Deletion = row.Deletion{Timestamp: int64(r.IntN(6)), LocalTime: 7}
			p.RangeTombstones = append(p.RangeTombstones, t)
		}
		p.RangeTombstones = row.NormalizeRangeTombstones(p.RangeTombstones, p.Header.Deletion)
		for j := range d.rows {
			x := d.drawRow(r, d.cells)
			x.Clustering = []byte{byte(j >> 8), byte(j)}
			x.Shadow(p.Header.Deletion.Max(row.DeletionAt(p.RangeTombstones, x.Clustering)))
			if !x.Empty() && r.IntN(5) > 0 {
				p.Rows = append(p.Rows, *x)
			}
		}
		if reversed {
			slices.Reverse(p.Rows)
		}
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b *row.Partition) int { return a.Key.Compare(b.Key) })
	return pageOf(all), all
}

func pageOf(all []*row.Partition) []byte {
	w := row.NewPageWriter(nil)
	for _, p := range all {
		if len(p.Rows) == 0 && len(p.RangeTombstones) == 0 && p.Header.Empty() {
			continue
		}
		w.Partition(p.Key, &p.Header, p.RangeTombstones)
		for i := range p.Rows {
			w.Row(&p.Rows[i])
		}
		w.EndPartition()
	}
	return w.Finish(false)
}

// merge merges pages with a bound of memory, and returns the resolver, the answer, and the bytes that were allocated.
func merge(cmd *row.ReadCommand, pages [][]byte, most int) (s Resolver, page []byte, lacks []Repairs, allocated int,
	err error) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	s = New(cmd, 1<<30)
	s.SetMemory(most)
	var versions []*Version
	for i, p := range pages {
		if err = s.Hold(len(p)); err == nil {
			var v *Version
			v, err = s.Parse(ring.NodeID(i+1), p)
			versions = append(versions, v)
		}
		if err != nil {
			break
		}
	}
	if err == nil {
		lacks, _ = s.Round(cmd, versions)
		if err = s.Err(); err == nil {
			page, err = s.AppendPage(nil)
		}
	}
	runtime.ReadMemStats(&after)
	return s, page, lacks, int(after.TotalAlloc - before.TotalAlloc), err
}

// TestMergesStayWithinTheirMemory merges random pages. The answer is that of row.MergePartitions, the repairs make
// each replica's page equal to it, and a merge allocates no more than it has counted, whether or not its bound
// suffices.
func TestMergesStayWithinTheirMemory(t *testing.T) {
	if invariant.Enabled {
		t.Skip("expensive invariants allocate")
	}
	const constant = 24 << 10 // of the test, of the resolver, and of size classes
	for seed := range uint64(140) {
		r := rand.New(rand.NewPCG(seed, 23))
		d := shapes[seed%uint64(len(shapes))]
		cmd := &row.ReadCommand{Table: 1, Now: 1050, Reversed: r.IntN(2) == 0, Slices: []row.Slice{row.AllRows()}}
		var pages [][]byte
		byKey := map[string][]*row.Partition{}
		var keys []row.PartitionKey
		bytesOfPages := 0
		for range 2 + r.IntN(2) {
			page, all := d.draw(r, cmd.Reversed)
			pages = append(pages, page)
			bytesOfPages += len(page)
			for _, p := range all {
				if byKey[string(p.Key.Bytes)] == nil {
					keys = append(keys, p.Key)
				}
				byKey[string(p.Key.Bytes)] = append(byKey[string(p.Key.Bytes)], p)
			}
		}
		slices.SortFunc(keys, row.PartitionKey.Compare)
		s, got, lacks, allocated, err := merge(cmd, pages, 0)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		var want []*row.Partition
		for _, k := range keys {
			want = append(want, row.MergePartitions(byKey[string(k.Bytes)], cmd.Reversed))
		}
		if !bytes.Equal(got, pageOf(want)) {
			t.Fatalf("seed %d: the answer is not the merge", seed)
		}
		if counted := s.used - bytesOfPages; allocated > counted+constant {
			t.Errorf("seed %d: pages of %d bytes: counted %d, allocated %d", seed, bytesOfPages, counted, allocated)
		}
		checkRepairs(t, seed, cmd, lacks, want, byKey, pages)
		for range 8 {
			most := 1 + r.IntN(s.used+s.used/8)
			_, again, _, allocated, err := merge(cmd, pages, most)
			var needs *NeedsMemory
			if errors.As(err, &needs) != (most < s.used) {
				t.Fatalf("seed %d: with %d of %d bytes: %v", seed, most, s.used, err)
			}
			if err == nil && !bytes.Equal(got, again) || needs != nil && needs.Bytes <= most {
				t.Errorf("seed %d: another answer with %d of %d bytes, or %v", seed, most, s.used, err)
			}
			if allocated > most+constant {
				t.Errorf("seed %d: allocated %d with a bound of %d", seed, allocated, most)
			}
		}
	}
}

// checkRepairs checks that the mutations for a replica are what its rows lack of the result.
func checkRepairs(t *testing.T, seed uint64, cmd *row.ReadCommand, lacks []Repairs, want []*row.Partition,
	byKey map[string][]*row.Partition, pages [][]byte) {
	for i, l := range lacks {
		repaired := map[string]map[string]*row.Row{}
		for _, m := range l.Mutations {
			rows := map[string]*row.Row{}
			var e row.Entry
			for es := m.Entries(); es.Next(&e); {
				if e.Kind == row.KindRow {
					x := row.NewRow()
					if err := row.DecodeRow(x, e.Value); err != nil {
						t.Fatal(err)
					}
					rows[string(e.Start)] = x
				}
			}
			repaired[string(m.Key.Bytes)] = rows
		}
		var reader row.PageReader
		reader.Reset(pages[i])
		have := map[string]*row.Row{}
		for reader.NextPartition() {
			x := row.NewRow()
			for reader.NextRow(x) {
				have[string(reader.Key.Bytes)+string(x.Clustering)] = x
				x = row.NewRow()
			}
		}
		for _, p := range want {
			for j := range p.Rows {
				w := &p.Rows[j]
				sum, old, change := row.NewRow(), have[string(p.Key.Bytes)+string(w.Clustering)],
					repaired[string(p.Key.Bytes)][string(w.Clustering)]
				if old == nil {
					old = row.NewRow()
				}
				if change == nil {
					change = row.NewRow()
				}
				row.Reconcile(sum, old, change)
				sum.Shadow(p.Header.Deletion.Max(row.DeletionAt(p.RangeTombstones, w.Clustering)))
				if !bytes.Equal(row.AppendRow(nil, sum), row.AppendRow(nil, w)) {
					t.Fatalf("seed %d: replica %d lacks a part of row %x after the repair", seed, i, w.Clustering)
				}
			}
		}
	}
}
