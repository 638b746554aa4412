package row

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"testing"

	"cqld/internal/wire"
	"cqld/ring"
	"cqld/schema"
)

func TestPageRoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 1))
	var r PageReader
	for range 2_000 {
		w := NewPageWriter(nil)
		var parts []*Partition
		for range rng.IntN(4) {
			p := randomPartition(rng)
			parts = append(parts, p)
			w.Partition(p.Key, &p.Header, p.RangeTombstones)
			for i := range p.Rows {
				if i%2 == 0 {
					w.Row(&p.Rows[i])
				} else {
					w.EncodedRow(p.Rows[i].Clustering, encoded(&p.Rows[i]))
				}
			}
			w.EndPartition()
		}
		more := rng.IntN(2) == 0
		page := w.Finish(more)
		r.Reset(page)
		skip := rng.IntN(3) == 0
		for _, p := range parts {
			checkPartition(t, &r, p, skip)
		}
		if r.NextPartition() || r.Err() != nil || r.More() != more {
			t.Fatalf("at the end: error %v, more %v", r.Err(), r.More())
		}
	}
}

func checkPartition(t *testing.T, r *PageReader, p *Partition, skip bool) {
	t.Helper()
	if !r.NextPartition() || r.Key.Compare(p.Key) != 0 || !equalRows(&r.Header, &p.Header) {
		t.Fatalf("partition %+v, error %v", r.Key, r.Err())
	}
	if len(r.RangeTombstones) != len(p.RangeTombstones) {
		t.Fatalf("%d range tombstones, want %d", len(r.RangeTombstones), len(p.RangeTombstones))
	}
	if skip {
		return
	}
	var row Row
	for i := range p.Rows {
		if !r.NextRow(&row) || !bytes.Equal(row.Clustering, p.Rows[i].Clustering) || !equalRows(&row, &p.Rows[i]) {
			t.Fatalf("row %d: got %+v, want %+v", i, row, p.Rows[i])
		}
	}
	if r.NextRow(&row) {
		t.Fatalf("one row too many: %+v", row)
	}
}

// TestUnorderedRowsOfPagesAreRefused reads pages, as another node may send them, with rows that are not canonical:
// reconciling them would break the invariants of rows in the reading node.
func TestUnorderedRowsOfPagesAreRefused(t *testing.T) {
	for name, bad := range unorderedRows() {
		for _, runs := range []bool{false, true} {
			if runs && name == "elements descend" {
				continue // runs stay encoded, and are not merged
			}
			for _, header := range []bool{false, true} {
				page, row, partitionHeader := NewPageWriter(nil), NewRow(), NewRow()
				if header {
					partitionHeader = bad
				} else {
					row = bad
				}
				page.Partition(PartitionKey{Bytes: []byte("k")}, partitionHeader, nil)
				page.Row(row)
				page.EndPartition()
				r := PageReader{Runs: runs}
				r.Reset(page.Finish(false))
				got := NewRow()
				if r.NextPartition() && r.NextRow(got) || r.Err() == nil {
					t.Errorf("%s, in the header %v, with runs %v: read as %+v", name, header, runs, got)
				}
			}
		}
	}
}

// TestUnorderedRowsAreNotMerged merges the encoded rows of two replicas as a coordinator does. One row is not in
// canonical order.
func TestUnorderedRowsAreNotMerged(t *testing.T) {
	good := NewRow()
	good.Cells = []Cell{{Column: 1, Timestamp: 2, Value: []byte("w")}}
	for name, bad := range unorderedRows() {
		var s Streamer
		a, b := encoded(good), encoded(bad)
		if out, err := s.Reconcile(nil, a, b); err == nil {
			t.Errorf("%s: merged into a row as %x", name, out)
		}
		if out, err := s.Reconcile(nil, b, a); err == nil {
			t.Errorf("%s: a row merged into it as %x", name, out)
		}
		if _, err := s.Inspect(b, 0); err == nil {
			t.Errorf("%s: inspected", name)
		}
	}
}

// unorderedRows returns rows whose parts do not ascend.
func unorderedRows() map[string]*Row {
	cell := func(column schema.ColumnID, path string) Cell {
		c := Cell{Column: column, Timestamp: 1, Value: []byte("v")}
		if path != "" {
			c.Path = []byte(path)
		}
		return c
	}
	return map[string]*Row{
		"columns descend":            withParts(nil, cell(2, ""), cell(1, "")),
		"a column is listed twice":   withParts(nil, cell(1, ""), cell(1, "")),
		"a collection is split":      withParts(nil, cell(1, "a"), cell(2, "a"), cell(1, "b")),
		"elements descend":           withParts(nil, cell(1, "b"), cell(1, "a"), cell(2, "")),
		"collections descend":        withParts(nil, cell(2, "a"), cell(1, "a")),
		"deletions descend":          withParts([]ComplexDeletion{{Column: 2}, {Column: 1}}),
		"a collection deleted twice": withParts([]ComplexDeletion{{Column: 1}, {Column: 1}}),
	}
}

func withParts(deletions []ComplexDeletion, list ...Cell) *Row {
	r := NewRow()
	r.Complex, r.Cells = deletions, list
	return r
}

func TestCutPageIsAnError(t *testing.T) {
	rng := rand.New(rand.NewPCG(12, 1))
	for range 100 {
		page := pageOf(randomPartition(rng))
		for n := range page {
			if walk(page[:n]) == nil {
				t.Fatalf("%x, truncated to %d bytes, was accepted as a page", page, n)
			}
		}
		if walk(append(page, 0)) == nil {
			t.Fatal("a page with an extra byte was accepted")
		}
	}
}

func TestPageEndsAfterPosition(t *testing.T) {
	rng := rand.New(rand.NewPCG(16, 1))
	for range 200 {
		want := Position{Key: NewPartitionKey(randomBound(rng)), Whole: rng.IntN(2) == 0}
		if !want.Whole {
			want.Clustering = randomBound(rng)
		}
		w := NewPageWriter(nil)
		page := w.FinishAfter(&want)
		var r PageReader
		for r.Reset(page); r.NextPartition(); {
		}
		got := r.End()
		if r.Err() != nil || !r.More() || got == nil || got.Key.Compare(want.Key) != 0 || got.Whole != want.Whole ||
			!bytes.Equal(got.Clustering, want.Clustering) {
			t.Fatalf("%+v, %v, want %+v", got, r.Err(), want)
		}
		for n := range page {
			if walk(page[:n]) == nil {
				t.Fatalf("%x, truncated to %d bytes, was accepted as a page", page, n)
			}
		}
	}
}

// walk reads a whole page.
func walk(page []byte) error {
	var r PageReader
	var row Row
	r.Reset(page)
	for r.NextPartition() {
		for r.NextRow(&row) {
		}
	}
	return r.Err()
}

func TestDigestDistinguishesPages(t *testing.T) {
	rng := rand.New(rand.NewPCG(13, 1))
	seen := map[Digest][]byte{}
	for range 2_000 {
		page := pageOf(randomPartition(rng))
		d := DigestOf(page)
		if before, ok := seen[d]; ok && !bytes.Equal(before, page) {
			t.Fatal("two pages have one digest")
		}
		seen[d] = page
	}
}

func randomCommand(rng *rand.Rand) *ReadCommand {
	cmd := &ReadCommand{
		Table: 1024, Reversed: rng.IntN(2) == 0, StaticCounts: rng.IntN(2) == 0, Now: rng.Int64N(1e9),
		Inserted: rng.IntN(2) == 0,
		Limits:   Limits{Rows: rng.Uint32(), PerPartition: rng.Uint32()},
	}
	if rng.IntN(2) == 0 {
		cmd.Key = NewPartitionKey(make([]byte, rng.IntN(3)))
	} else {
		cmd.Range.Tokens = ring.Range{Start: ring.Token(rng.Int64()), End: ring.Token(rng.Int64())}
		if rng.IntN(2) == 0 {
			after := NewPartitionKey([]byte("after"))
			cmd.Range.After = &after
		}
	}
	if rng.IntN(3) == 0 {
		cmd.Filter = randomFilter(rng)
	}
	for range rng.IntN(4) {
		s := Slice{Start: []byte{1, 2, 3}[:rng.IntN(4)]}
		if rng.IntN(3) > 0 {
			s.End = make([]byte, rng.IntN(3))
		}
		cmd.Slices = append(cmd.Slices, s)
	}
	return cmd
}

func TestReadCommandRoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(14, 1))
	got := new(ReadCommand)
	for range draws {
		want := randomCommand(rng)
		c := wire.NewCursor(AppendReadCommand(nil, want))
		ConsumeReadCommand(&c, got)
		if err := c.Finish(); err != nil {
			t.Fatalf("%+v: %v", want, err)
		}
		for i := range want.Slices {
			g, w := got.Slices[i], want.Slices[i]
			if !bytes.Equal(g.Start, w.Start) || !bytes.Equal(g.End, w.End) || (g.End == nil) != (w.End == nil) {
				t.Fatalf("slice %v, want %v", g, w)
			}
		}
		if len(got.Slices) != len(want.Slices) || got.SinglePartition() != want.SinglePartition() {
			t.Fatalf("\n got %+v\nwant %+v", got, want)
		}
		slices := got.Slices
		got.Slices, want.Slices = nil, nil
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("\n got %+v\nwant %+v", got, want)
		}
		got.Slices = slices
	}
}

func TestExactRowIsOneRow(t *testing.T) {
	for _, c := range [][]byte{{}, {0x41}, {0x41, 0xFF}, {0x41, 0x00}} {
		s := ExactRow(c)
		if !s.Exact() || !s.Contains(c) || s.Contains(append(bytes.Clone(c), 0)) ||
			s.Contains(append(bytes.Clone(c), 1)) {
			t.Errorf("%x: %v", c, s)
		}
		if SliceOf(c).Exact() || AllRows().Exact() {
			t.Errorf("%x: a slice of many rows is exact", c)
		}
	}
}

func randomMutation(rng *rand.Rand) *Mutation {
	m := new(Mutation)
	m.Reset(1024, NewPartitionKey([]byte("key")))
	for range rng.IntN(5) {
		switch rng.IntN(3) {
		case 0:
			m.AddHeader(randomRow(rng))
		case 1:
			m.AddRangeTombstone(randomTombstones(rng, 1)[0])
		default:
			r := randomRow(rng)
			r.Clustering = randomBound(rng)
			m.AddRow(r)
		}
	}
	return m
}

func TestMutationRoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(15, 1))
	got := new(Mutation)
	for range draws {
		want := randomMutation(rng)
		b := AppendMutation(nil, want)
		c := wire.NewCursor(b)
		ConsumeMutation(&c, got)
		if err := c.Finish(); err != nil {
			t.Fatal(err)
		}
		if got.Table != want.Table || got.Key.Compare(want.Key) != 0 || !bytes.Equal(got.entries, want.entries) {
			t.Fatalf("\n got %+v\nwant %+v", got, want)
		}
		if again := AppendMutation(nil, got); !bytes.Equal(again, b) {
			t.Fatal("encodes to other bytes")
		}
	}
}

func TestMutationWithCellsOutOfOrderIsRefused(t *testing.T) {
	for name, cells := range map[string][]Cell{
		"columns": {{Column: 2, Timestamp: 1}, {Column: 1, Timestamp: 1}},
		"twice":   {{Column: 2, Timestamp: 1}, {Column: 2, Timestamp: 2}},
		"paths":   {{Column: 2, Path: []byte("b"), Timestamp: 1}, {Column: 2, Path: []byte("a"), Timestamp: 1}},
	} {
		m := new(Mutation)
		m.Reset(1024, NewPartitionKey([]byte("key")))
		r := NewRow()
		r.Cells = cells
		m.AddRow(r)
		c := wire.NewCursor(AppendMutation(nil, m))
		if ConsumeMutation(&c, new(Mutation)); c.Err() == nil {
			t.Errorf("%s: taken", name)
		}
	}
}
