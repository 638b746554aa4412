package row

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestStreamer compares the functions on encoded rows with those on decoded ones.
func TestStreamer(t *testing.T) {
	rng := rand.New(rand.NewPCG(23, 1))
	var s Streamer
	for range 30_000 {
		a, b := randomRow(rng), randomRow(rng)
		ea, eb := encoded(a), encoded(b)
		sum := NewRow()
		Reconcile(sum, a, b)
		got, err := s.Reconcile([]byte("x"), ea, eb)
		if want := AppendRow([]byte("x"), sum); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%+v and %+v: %x, %v, want %x", a, b, got, err, want)
		}
		if covers, err := s.Covers(ea, eb); err != nil || covers != Covers(a, b) {
			t.Fatalf("%+v covers %+v: %v, %v", a, b, covers, err)
		}
		testCanonical(t, &s, a, randomDeletion(rng), 99+rng.Int64N(4), 98+rng.Int64N(5))
		testHeader(t, &s, a, 99+rng.Int64N(4), 98+rng.Int64N(5))
		testRuns(t, a, ea)
		testHead(t, &s, a, ea)
	}
}

func testCanonical(t *testing.T, s *Streamer, a *Row, d Deletion, gcBefore, now int64) {
	t.Helper()
	want := canonical(a)
	want.Shadow(d)
	want.Purge(gcBefore)
	got, live, empty, err := s.Canonical([]byte("x"), encoded(a), d, gcBefore, now)
	if err != nil || empty != want.Empty() {
		t.Fatalf("%+v: empty %v, %v", a, empty, err)
	}
	if empty {
		if len(got) != 1 {
			t.Fatalf("an empty row has %x", got)
		}
		return
	}
	if !bytes.Equal(got, AppendRow([]byte("x"), want)) || live != want.Live(now) {
		t.Fatalf("%+v: %x, live %v, want %+v", a, got, live, want)
	}
}

// testHeader compares a header with its decoded form.
func testHeader(t *testing.T, s *Streamer, a *Row, gcBefore, now int64) {
	t.Helper()
	want := canonical(a)
	want.HasRangeTombstones = false
	want.Purge(gcBefore)
	got, stored, shown, err := s.Header([]byte("x"), encoded(a), gcBefore, now)
	if err != nil || !bytes.Equal(got, AppendRow([]byte("x"), want)) {
		t.Fatalf("header %+v: %x, %v, want %+v", a, got, err, want)
	}
	if stored.Deletion != a.Deletion || stored.RangeTombstones != a.HasRangeTombstones || stored.Empty != a.Empty() {
		t.Fatalf("header %+v: stored %+v", a, stored)
	}
	if shown.Empty != want.Empty() || shown.Live != want.Live(now) || shown.Deletion != want.Deletion {
		t.Fatalf("header %+v: shown %+v, want %+v", a, shown, want)
	}
}

func testHead(t *testing.T, s *Streamer, a *Row, encoded []byte) {
	t.Helper()
	want := *a
	want.Cells, want.Complex = nil, nil
	var expected []byte
	if !want.Empty() {
		expected = AppendRow(nil, &want)
	}
	if got, err := s.Head(encoded); err != nil || !bytes.Equal(got, expected) {
		t.Fatalf("%+v: %x, %v, want %x", a, got, err, expected)
	}
}

// testRuns compares the cells of DecodeRuns with the cells of DecodeRow.
func testRuns(t *testing.T, a *Row, b []byte) {
	t.Helper()
	var plain, runs Row
	if err := DecodeRow(&plain, b); err != nil {
		t.Fatal(err)
	}
	if err := DecodeRuns(&runs, b); err != nil {
		t.Fatal(err)
	}
	clone := runs.Clone()
	for _, r := range []*Row{&runs, &clone} {
		all := slices.Clone(r.Cells)
		for i := range r.Runs {
			var cell Cell
			r.Runs[i].Each(&cell, func(c *Cell) bool {
				if c.Column != r.Runs[i].Column {
					t.Fatalf("%+v: a run of column %d has one of %d", a, r.Runs[i].Column, c.Column)
				}
				all = append(all, *c)
				return true
			})
		}
		slices.SortStableFunc(all, func(a, b Cell) int { return a.compareID(&b) })
		if len(all) != len(plain.Cells) {
			t.Fatalf("%+v: %d cells", a, len(all))
		}
		for i := range all {
			x, y := all[i], plain.Cells[i]
			if x.compareID(&y) != 0 || !bytes.Equal(x.Value, y.Value) || x.Timestamp != y.Timestamp ||
				x.TTL != y.TTL || x.LocalTime != y.LocalTime || x.Tombstone != y.Tombstone {
				t.Fatalf("%+v: %+v, want %+v", a, x, y)
			}
		}
	}
}

// largeCollection returns a row with a column of n elements of 4 bytes, as an INSERT writes it.
func largeCollection(n int) *Row {
	r := NewRow()
	r.Liveness.Timestamp = 9
	r.Complex = []ComplexDeletion{{Column: 1, Deletion: Deletion{Timestamp: 8, LocalTime: 1 << 40}}}
	for i := range n {
		path := append(make([]byte, 12), byte(i>>24), byte(i>>16), byte(i>>8), byte(i))
		r.Cells = append(r.Cells, Cell{Column: 1, Path: path, Timestamp: 9, Value: path[12:]})
	}
	return r
}

// Large collections are reconciled and read in memory that does not depend on their size.
func TestStreamerMemory(t *testing.T) {
	large := encoded(largeCollection(100_000))
	var s Streamer
	out := make([]byte, 0, 2*len(large))
	var r Row
	var cell Cell
	for name, f := range map[string]func(){
		"Canonical": func() { _, _, _, _ = s.Canonical(out, large, NoDeletion(), 0, 1) },
		"Header":    func() { _, _, _, _ = s.Header(out, large, 0, 1) },
		"Reconcile": func() { _, _ = s.Reconcile(out, large, large) },
		"Covers":    func() { _, _ = s.Covers(large, large) },
		"runs": func() {
			_ = DecodeRuns(&r, large)
			r.Runs[0].Each(&cell, func(*Cell) bool { return true })
		},
	} {
		f()
		if n := testing.AllocsPerRun(3, f); n > 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
}
