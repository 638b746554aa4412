package logarchive

import (
	"errors"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// batches returns batches of each kind.
func batches(t testing.TB) (out [][]byte) {
	t.Helper()
	db, err := pebble.Open("db", &pebble.Options{FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for i, fill := range []func(*pebble.Batch) error{
		func(b *pebble.Batch) error { return b.Set([]byte("key"), []byte("value"), nil) },
		func(b *pebble.Batch) error { return b.Merge([]byte("key"), make([]byte, 300), nil) },
		func(b *pebble.Batch) error { return b.Delete([]byte("key"), nil) },
		func(b *pebble.Batch) error { return b.DeleteRange([]byte("a"), []byte("b"), nil) },
		func(b *pebble.Batch) error { MarkForeign(b, 1024); return nil },
	} {
		b := db.NewBatch()
		if err := fill(b); err != nil {
			t.Fatal(err)
		}
		Stamp(b, int64(100+i))
		out = append(out, slices.Clone(b.Repr()))
	}
	return out
}

// example returns a segment with batches of each kind.
func example(t testing.TB) *Segment {
	t.Helper()
	s := &Segment{From: Position{5, 2, 30}, Until: 200, Data: make([]byte, headerBytes)}
	for i, b := range batches(t) {
		c, err := parse(b)
		if err != nil {
			t.Fatal(err)
		}
		s.To = Position{5, 2, 100 * uint64(i+1)}
		s.add(2, s.To.Offset, b, c.stamp)
	}
	s.seal()
	return s
}

func TestSegmentIsReadAsItWasWritten(t *testing.T) {
	want := example(t)
	got, err := ReadHeader(want.Data)
	if err != nil || got.From != want.From || got.To != want.To {
		t.Fatalf("%+v, %v", got, err)
	}
	if got.First != 100 || got.Last != 104 || got.Until != 200 {
		t.Fatalf("%+v", got)
	}
	i, all := 0, batches(t)
	for r, err := range got.Records() {
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(r.Batch, all[i]) || r.Stamp != int64(100+i) {
			t.Fatalf("batch %d: %+v", i, r)
		}
		if foreign := i == len(all)-1; r.Changes == foreign || (r.Foreign == 1024) != foreign {
			t.Fatalf("batch %d: %+v", i, r)
		}
		i++
	}
	if i != len(all) {
		t.Fatalf("%d batches of %d", i, len(all))
	}
}

// TestShorterSegmentIsMalformed cuts a segment at each length. The cut is found, unless it is between two batches.
func TestShorterSegmentIsMalformed(t *testing.T) {
	data, found := example(t).Data, 0
	for n := range data {
		s, err := ReadHeader(data[:n])
		if err == nil {
			for _, err = range s.Records() {
				if err != nil {
					break
				}
			}
		}
		if malformed := new(Malformed); err != nil {
			if !errors.As(err, &malformed) {
				t.Fatal(err)
			}
			found++
		}
	}
	if found < len(data)-len(batches(t)) {
		t.Fatalf("%d of %d lengths are refused", found, len(data))
	}
	data[len(magic)]++
	if _, err := ReadHeader(data); err == nil {
		t.Fatal("a newer version is read")
	}
}

func TestPositionsSortAsTheirForms(t *testing.T) {
	positions := []Position{{}, {1, 0, 0}, {1, 0, 9}, {1, 10, 0}, {1, 10, 300}, {1 << 50, 1, 0}}
	for i, p := range positions {
		if i > 0 && (positions[i-1].Compare(p) >= 0 || positions[i-1].String() >= p.String()) {
			t.Errorf("%s is not after %s", p, positions[i-1])
		}
	}
}

// TestUntilWaitsForOpenStamps takes the time while batches are on the way to the log.
func TestUntilWaitsForOpenStamps(t *testing.T) {
	var now int64
	c := NewClock(func() int64 { now++; return now }, 10)
	first, second := c.Begin(), c.Begin()
	if first <= 10 || second <= first {
		t.Fatalf("the stamps after 10 are %d and %d", first, second)
	}
	if at := c.until(); at != first-1 {
		t.Fatalf("until %d, although a batch with the stamp %d is missing", at, first)
	}
	c.End(first)
	if at := c.until(); at != second-1 {
		t.Fatalf("until %d, although a batch with the stamp %d is missing", at, second)
	}
	c.End(second)
	if at := c.until(); at <= second {
		t.Fatalf("until %d, although all batches up to %d are in the log", at, second)
	}
}

// FuzzSegment reads any bytes as a segment: batches are in order, and within the segment.
func FuzzSegment(f *testing.F) {
	s := example(f)
	f.Add(s.Data)
	f.Add(s.Data[:headerBytes])
	f.Add(s.Data[:len(s.Data)-3])
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := ReadHeader(data)
		if err != nil {
			return
		}
		last, size := s.From, 0
		for r, err := range s.Records() {
			if malformed := new(Malformed); err != nil {
				if !errors.As(err, &malformed) || malformed.Offset > len(data) {
					t.Fatal(err)
				}
				return
			}
			if r.End.Compare(last) <= 0 || r.End.Compare(s.To) > 0 {
				t.Fatalf("a batch ends at %s, after %s, in a segment to %s", r.End, last, s.To)
			}
			last, size = r.End, size+len(r.Batch)
			// Pebble reads what parse accepts.
			b := new(pebble.Batch)
			if err := b.SetRepr(r.Batch); err != nil {
				t.Fatal(err)
			}
			for reader := b.Reader(); ; {
				_, _, _, ok, err := reader.Next()
				if err != nil {
					t.Fatal(err)
				}
				if !ok {
					break
				}
			}
		}
		if size > len(data) {
			t.Fatalf("%d bytes of batches in %d", size, len(data))
		}
	})
}
