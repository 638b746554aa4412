package logcheck

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus"
)

// TestRecordsFromEachPosition writes records of all sizes in both forms of chunks, and reads them from each end of a
// record on, up to each limit.
func TestRecordsFromEachPosition(t *testing.T) {
	for _, offsets := range []bool{false, true} {
		rng, disk := rand.New(rand.NewPCG(1, 2)), vfs.NewMem()
		f, err := disk.Create("log", vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		w := record.NewLogWriter(f, 7, record.LogWriterConfig{
			WALFsyncLatency:     prometheus.NewHistogram(prometheus.HistogramOpts{}),
			WriteWALSyncOffsets: func() bool { return offsets },
		})
		var want [][]byte
		for range 60 {
			b := make([]byte, rng.IntN(1<<rng.IntN(18)))
			for i := range b {
				b[i] = byte(rng.Uint32())
			}
			if _, err := w.WriteRecord(b); err != nil {
				t.Fatal(err)
			}
			want = append(want, b)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		log, err := disk.Open("log")
		if err != nil {
			t.Fatal(err)
		}
		info, err := log.Stat()
		if err != nil {
			t.Fatal(err)
		}
		ends := []int64{0}
		for r := NewRecords(log, 7, 0, info.Size()); ; {
			b, end, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil || !bytes.Equal(b, want[len(ends)-1]) {
				t.Fatalf("record %d differs, %v", len(ends)-1, err)
			}
			ends = append(ends, end)
		}
		if len(ends) != len(want)+1 {
			t.Fatalf("%d records of %d", len(ends)-1, len(want))
		}
		for i, from := range ends {
			limit := from + rng.Int64N(info.Size()-from+1)
			n := 0
			for r := NewRecords(log, 7, from, limit); ; n++ {
				b, end, err := r.Next()
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil || end > limit || !bytes.Equal(b, want[i+n]) {
					t.Fatalf("from %d to %d: record %d differs, %v", from, limit, n, err)
				}
			}
			if next := i + n + 1; next < len(ends) && ends[next] <= limit {
				t.Fatalf("from %d to %d: %d records are read, and the next one ends at %d", from, limit, n, ends[next])
			}
		}
		if _, _, err := NewRecords(log, 8, 0, info.Size()).Next(); !errors.Is(err, io.EOF) {
			t.Fatalf("a record of another log is read: %v", err)
		}
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
