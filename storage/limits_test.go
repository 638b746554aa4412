package storage

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"cqld/internal/invariant"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/storage/failure"
	"cqld/storage/rowkey"
	"cqld/storage/tableinfo"
)

func TestTooManyTombstonesAreRefused(t *testing.T) {
	e := openTest(t, Options{Sync: SyncNone})
	defer e.Close()
	for i := 0; i <= failure.TombstonesMax; i += 1000 {
		mustApply(t, e, mutate("a", func(m *row.Mutation) {
			for j := i; j < i+1000; j++ {
				r := row.NewRow()
				r.Clustering = clusteringOf(j)
				r.Deletion = row.Deletion{Timestamp: 1, LocalTime: 1_000_000}
				m.AddRow(r)
			}
		}))
		if i == 0 {
			mustApply(t, e, putRow("a", 1, 2, "x"))
		}
	}
	_, err := e.Read(nil, readKey("a"))
	var tooMany *failure.TooManyTombstones
	if !errors.As(err, &tooMany) || tooMany.Tombstones != failure.TombstonesMax+1 || tooMany.Live != 1 ||
		tooMany.Table != "number 1024" {
		t.Fatalf("got %v", err)
	}
	if _, err := e.Read(nil, readKey("a", row.Slice{End: clusteringOf(5000)})); err != nil {
		t.Fatalf("a read of 5000 tombstones: %v", err)
	}
	if n := e.Metrics().TombstoneWarnings; n != 2 {
		t.Fatalf("%d warnings", n)
	}
}

// TestLongHeaderEndsPartition checks that a partition whose header alone exceeds a page does not report further rows:
// the next read would return the same page.
func TestLongHeaderEndsPartition(t *testing.T) {
	e := openTest(t, Options{Sync: SyncNone, PageBytes: 100})
	defer e.Close()
	static := new(row.Mutation)
	static.Reset(testTable, row.NewPartitionKey([]byte("key")))
	header := row.NewRow()
	header.Cells = []row.Cell{{Column: 9, Timestamp: 1, Value: bytes.Repeat([]byte("x"), 500)}}
	static.AddHeader(header)
	mustApply(t, e, static)
	for _, want := range []bool{false, true} {
		var r row.PageReader
		r.Reset(mustRead(t, e, readKey("key")))
		n, x := 0, row.NewRow()
		for r.NextPartition() {
			for r.NextRow(x) {
				n++
			}
		}
		if r.Err() != nil || r.More() != want || want && n == 0 {
			t.Errorf("%d rows, more %v, %v", n, r.More(), r.Err())
		}
		for i := range 30 { // now there is
			mustApply(t, e, putRow("key", i, 1, "0123456789"))
		}
	}
}

// TestPageDoesNotBeginBeforeItsRange continues a read after keys before, in and after its range, as a faulty member may
// ask: the page has partitions of the range only.
func TestPageDoesNotBeginBeforeItsRange(t *testing.T) {
	e := openTest(t, Options{Sync: SyncNone})
	defer e.Close()
	for i := range 20 {
		mustApply(t, e, putRow(fmt.Sprint("key", i), i, 1, "v"))
	}
	for _, after := range []ring.Token{-1 << 62, 0, 1 << 62} {
		cmd := readAll()
		cmd.Range.Tokens = ring.Range{Start: -1 << 61, End: 1 << 61}
		cmd.Range.After = &row.PartitionKey{Token: after, Bytes: []byte("k")}
		want := 0
		for i := range 20 {
			token := row.NewPartitionKey([]byte(fmt.Sprint("key", i))).Token
			if cmd.Range.Tokens.Contains(token) && token > after {
				want++
			}
		}
		if got := len(rows(t, mustRead(t, e, cmd))); got != want {
			t.Errorf("after token %d: %d rows, want %d", after, got, want)
		}
	}
}

// TestPagesAreBoundedAndTogetherComplete pages through a table, by rows and by bytes.
func TestPagesAreBoundedAndTogetherComplete(t *testing.T) {
	e := openTest(t, Options{Sync: SyncNone, PageBytes: 2000})
	defer e.Close()
	want := 0
	for p := range 20 {
		for i := range p * 3 {
			mustApply(t, e, putRow(fmt.Sprint("key", p), i, 1, "0123456789"))
			want++
		}
	}
	for _, limit := range []uint32{0, 1, 7, 1000} {
		got, pages := 0, 0
		cmd := readAll()
		cmd.Limits.Rows = limit
		var last []byte
		for more := true; more; pages++ {
			page := mustRead(t, e, cmd)
			if len(page) > 2200 {
				t.Fatalf("a page of %d bytes", len(page))
			}
			n := 0
			n, more, last = onwards(t, cmd, page, last)
			got += n
			if limit > 0 && n > int(limit) {
				t.Fatalf("%d rows in a page of %d", n, limit)
			}
			// The rest of the last partition, then what comes after it.
			rest := readKey(string(cmd.Range.After.Bytes), row.Slice{Start: last})
			for again := more; again; pages++ {
				rest.Limits.Rows = limit
				n, again, last = onwards(t, rest, mustRead(t, e, rest), last)
				rest.Slices[0].Start = last
				got += n
			}
		}
		if got != want {
			t.Fatalf("limit %d: %d rows in %d pages, want %d", limit, got, pages, want)
		}
	}
}

// onwards counts a page's rows and sets cmd to come after its last partition; last is behind the last
// row.
func onwards(t *testing.T, cmd *row.ReadCommand, page, before []byte) (n int, more bool, last []byte) {
	t.Helper()
	var reader row.PageReader
	var r row.Row
	last = before
	reader.Reset(page)
	for reader.NextPartition() {
		after := row.PartitionKey{Token: reader.Key.Token, Bytes: bytes.Clone(reader.Key.Bytes)}
		cmd.Range.After = &after
		for reader.NextRow(&r) {
			n++
			last = append(bytes.Clone(r.Clustering), 0)
		}
	}
	if reader.Err() != nil {
		t.Fatal(reader.Err())
	}
	return n, reader.More(), last
}

func TestBadInputIsRefused(t *testing.T) {
	e := openTest(t, Options{})
	defer e.Close()
	long := make([]byte, rowkey.PartitionBytesMax+1)
	m := new(row.Mutation)
	m.Reset(testTable, row.NewPartitionKey(long))
	m.AddRow(row.NewRow())
	if err := apply(e, m); !errors.Is(err, failure.ErrInvalid) {
		t.Errorf("write with a key of %d bytes: %v", len(long), err)
	}
	if _, err := e.Read([]byte("kept"), readKey(string(long))); !errors.Is(err, failure.ErrInvalid) {
		t.Errorf("read of a key of %d bytes: %v", len(long), err)
	}
	m.Reset(testTable, row.NewPartitionKey(long[:rowkey.PartitionBytesMax]))
	m.AddRow(row.NewRow())
	if err := apply(e, m); err != nil {
		t.Errorf("write with the longest key: %v", err)
	}
	cmd := readAll()
	cmd.Range.Tokens.Start, cmd.Range.Tokens.End = 5, 3
	if _, err := e.Read(nil, cmd); !errors.Is(err, failure.ErrInvalid) {
		t.Errorf("read of a range that wraps: %v", err)
	}
}

// TestHotPathsHardlyAllocate bounds the allocations per operation, Pebble's included.
func TestHotPathsHardlyAllocate(t *testing.T) {
	if invariant.Enabled {
		t.Skip("expensive invariants allocate")
	}
	if raceEnabled {
		t.Skip("sync.Pool drops at random under the race detector")
	}
	e := openTest(t, Options{Sync: SyncNone, Inline: true, MemTableBytes: 64 << 20,
		Table: func(schema.StorageID) tableinfo.Info { return tableinfo.Info{Exists: true} }})
	defer e.Close()
	m, r := new(row.Mutation), row.NewRow()
	ms := []*row.Mutation{m}
	key := benchKey(1)
	done := func(error) {}
	n := 0
	var page []byte
	point := &row.ReadCommand{Table: testTable, Key: key, Slices: []row.Slice{row.ExactRow(clusteringOf(5))}}
	slice := &row.ReadCommand{Table: testTable, Key: key,
		Slices: []row.Slice{{Start: clusteringOf(0), End: clusteringOf(100)}}}
	for _, test := range []struct {
		name string
		max  float64
		f    func()
	}{
		{"Apply", 2, func() { benchMutation(m, r, key, n, 1); n++; mustTake(t, e, ms, true, done) }},
		{"Read of a point", 1, func() { page, _ = e.Read(page[:0], point) }},
		{"Read of 100 rows", 1, func() { page, _ = e.Read(page[:0], slice) }},
	} {
		for range 200 {
			test.f()
		}
		if got := testing.AllocsPerRun(500, test.f); got > test.max {
			t.Errorf("%s: %v allocations, at most %v wanted", test.name, got, test.max)
		}
	}
}
