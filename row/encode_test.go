package row

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"cqld/schema"
)

func TestDecodeIsTheInverseOfEncode(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 1))
	got := NewRow()
	for range draws {
		want := randomRow(rng)
		b := encoded(want)
		got.Clustering = []byte("kept")
		if err := DecodeRow(got, b); err != nil {
			t.Fatalf("%+v: %v", want, err)
		}
		if err := validate(b); err != nil {
			t.Fatalf("%+v: %v", want, err)
		}
		if string(got.Clustering) != "kept" {
			t.Fatal("decoding changed the clustering")
		}
		got.Clustering = nil
		if !equalRows(got, want) {
			t.Fatalf("\n got %+v\nwant %+v", got, want)
		}
	}
}

func equalRows(a, b *Row) bool {
	same := a.Liveness == b.Liveness && a.Deletion == b.Deletion && a.HasRangeTombstones == b.HasRangeTombstones &&
		len(a.Complex) == len(b.Complex) && len(a.Cells) == len(b.Cells)
	for i := 0; same && i < len(a.Complex); i++ {
		same = a.Complex[i] == b.Complex[i]
	}
	for i := 0; same && i < len(a.Cells); i++ {
		same = reflect.DeepEqual(a.Cells[i], b.Cells[i])
	}
	return same
}

func TestEveryTruncationIsAnErrorOrARow(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 1))
	for range 500 {
		b := encoded(randomRow(rng))
		for n := range b {
			var r Row
			decoded := DecodeRow(&r, b[:n])
			_, scanned := Summarize(b[:n], 0)
			if (decoded == nil) != (scanned == nil) {
				t.Fatalf("%x: DecodeRow returns %v, Summarize %v", b[:n], decoded, scanned)
			}
		}
	}
}

// TestTimestampMaxAgreesWithSummarize compares both for rows, for their truncations and for rows with a changed byte.
func TestTimestampMaxAgreesWithSummarize(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 1))
	plain := 0
	check := func(b []byte) {
		t.Helper()
		sum, wantErr := Summarize(b, 0)
		got, err := TimestampMax(b)
		if (err == nil) != (wantErr == nil) || err == nil && got != sum.TimestampMax {
			t.Fatalf("%x: TimestampMax returns %d, %v, Summarize %d, %v", b, got, err, sum.TimestampMax, wantErr)
		}
		if _, ok := plainTimestampMax(b); ok {
			plain++
		}
	}
	for i := range 2000 {
		r := randomRow(rng)
		if i%2 == 0 {
			r = hotRow()
			r.Liveness.Timestamp = rng.Int64()
			for n := range r.Cells {
				r.Cells[n].Timestamp = rng.Int64N(3) * r.Liveness.Timestamp
				if rng.IntN(4) == 0 {
					r.Cells[n].Value = bytes.Repeat([]byte("x"), rng.IntN(300))
				}
			}
		}
		b := encoded(r)
		check(b)
		for n := range b {
			check(b[:n])
		}
		for range 20 {
			changed := bytes.Clone(b)
			changed[rng.IntN(len(b))] = byte(rng.Uint32())
			check(changed)
		}
	}
	if plain < 1000 {
		t.Errorf("%d rows were plain", plain)
	}
}

func TestSummarizeAgreesWithTheDecodedRow(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 1))
	for range draws {
		r := randomRow(rng)
		now := 99 + rng.Int64N(4)
		checkSummary(t, encoded(r), r, now)
	}
}

func checkSummary(t *testing.T, b []byte, r *Row, now int64) {
	t.Helper()
	got, err := Summarize(b, now)
	if err != nil {
		t.Fatalf("%x: %v", b, err)
	}
	want := Summary{
		Live: r.Live(now), Deletes: r.Deletion.Present() || len(r.Complex) > 0, Empty: r.Empty(),
		TimestampMin: math.MaxInt64, TimestampMax: NoTimestamp, LocalTimeMin: math.MaxInt64,
	}
	met := func(timestamp, localTime int64) {
		want.TimestampMin, want.TimestampMax = min(want.TimestampMin, timestamp), max(want.TimestampMax, timestamp)
		want.LocalTimeMin = min(want.LocalTimeMin, localTime)
	}
	lapsed := r.Liveness.Present() && !r.Liveness.Live(now)
	if l := r.Liveness; l.Present() && l.TTL > 0 {
		met(l.Timestamp, l.LocalTime)
	} else if l.Present() {
		met(l.Timestamp, math.MaxInt64)
	}
	if r.Deletion.Present() {
		met(r.Deletion.Timestamp, r.Deletion.LocalTime)
	}
	for _, c := range r.Complex {
		met(c.Timestamp, c.LocalTime)
	}
	for i := range r.Cells {
		c := &r.Cells[i]
		localTime := c.LocalTime
		if !c.Tombstone && c.TTL == 0 {
			localTime = math.MaxInt64
		}
		met(c.Timestamp, localTime)
		if !c.Live(now) {
			want.Tombstones++
		}
	}
	if want.Tombstones == 0 && !want.Live && (want.Deletes || lapsed) {
		want.Tombstones = 1
	}
	immortal := want.Live && want.LocalTimeMin == math.MaxInt64 && !want.Deletes && !r.HasRangeTombstones
	if Immortal(b) != immortal {
		t.Fatalf("%+v: immortal %v", r, Immortal(b))
	}
	if got != want {
		t.Fatalf("%+v\n got %+v\nwant %+v", r, got, want)
	}
}

func TestSizedRowsOfEverySize(t *testing.T) {
	sizes := []int{100_000}
	for n := range 300 {
		sizes = append(sizes, n, 16_384-150+n)
	}
	for _, size := range sizes {
		for _, cells := range []int{1, 2, 40} { // with small and large parts other than values
			r := NewRow()
			r.Deletion = Deletion{Timestamp: 1, LocalTime: 1 << 40}
			for i := range cells {
				r.Cells = append(r.Cells, Cell{Column: schema.ColumnID(i), Timestamp: 2 + int64(i)/20,
					Value: make([]byte, size/cells)})
			}
			got := appendSizedRow([]byte("before"), r)
			want := encoded(r)
			want = append(binary.AppendUvarint([]byte("before"), uint64(len(want))), want...)
			if !bytes.Equal(got, want) {
				t.Fatalf("row with %d cells of %d bytes", cells, size)
			}
		}
	}
}
