package storage

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/internal/cputime"
	"cqld/internal/tier"
	"cqld/ring"
	"cqld/row"
)

// TestDeletedRowsAreNotRead counts the entries that reads look at when a deletion is newer than all rows: before the
// purger has run, in both directions, and the steps of an iterator after it.
func TestDeletedRowsAreNotRead(t *testing.T) {
	tier.OneGoroutine(t)
	for _, x := range []struct {
		name   string
		remove []*row.Mutation
		left   int
	}{
		{"partition", []*row.Mutation{deletePartition("a", 5, 999_999)}, 0},
		{"first half", []*row.Mutation{deleteRange("a", 0, shadowRows/2, 5, 999_999)}, shadowRows / 2},
		{"second half", []*row.Mutation{deleteRange("a", shadowRows/2, shadowRows, 5, 999_999)}, shadowRows / 2},
		{"between", []*row.Mutation{deleteRange("a", 500, shadowRows-500, 5, 999_999)}, 1000},
		{"ranges", []*row.Mutation{
			deleteRange("a", 0, 9_000, 5, 999_999), deleteRange("a", 9_000, shadowRows, 6, 999_999),
		}, 0},
		{"ranges apart", []*row.Mutation{
			deleteRange("a", 0, 9_000, 6, 999_999), deleteRange("a", 9_100, shadowRows, 6, 999_999),
		}, 100},
	} {
		t.Run(x.name, func(t *testing.T) {
			e := shadowEngine(t, Options{Inline: true})
			defer e.Close()
			mustApply(t, e, x.remove...)
			read := func(when string) {
				t.Helper()
				for _, reversed := range []bool{false, true} {
					cmd := readKey("a")
					cmd.Reversed = reversed
					before := e.reads.Counts.Looked.Load()
					live := rows(t, mustRead(t, e, cmd))
					looked := e.reads.Counts.Looked.Load() - before
					if len(live) != x.left || looked > int64(x.left+3*skipAfter) {
						t.Errorf("%s, reversed %t: %d rows, of %d that the read looked at", when, reversed, len(live),
							looked)
					}
				}
			}
			read("before the purge")
			if done, err := e.SweepDead(1); !done || err != nil {
				t.Errorf("the purge looked at rows: %t, %v", done, err)
			}
			read("after the purge")
			if internal, found := steps(t, e); found > x.left+210 || internal > 2*found+500 {
				t.Errorf("%d keys, found in %d steps", found, internal)
			}
			if newest, err := e.Newest(readKey("a")); err != nil || newest < 5 {
				t.Errorf("newest timestamp %d, %v", newest, err)
			}
		})
	}
}

// TestNewerRowsAreRead writes rows that are newer than a deletion, in all ways in which rows are written, before and
// after the deletion, and with a restart or a crash between. Each must be found, also after the purger has run.
func TestNewerRowsAreRead(t *testing.T) {
	newer := putRow("a", 70, 9, "newer")
	ingest := func(t *testing.T, e *Engine) {
		source := openTest(t, Options{Inline: true})
		defer source.Close()
		mustApply(t, source, newer)
		ship(t, rand.New(rand.NewPCG(1, 1)), source, e, ring.FullRange())
	}
	write := func(t *testing.T, e *Engine) { mustApply(t, e, newer) }
	remove := map[string]*row.Mutation{
		"partition": deletePartition("a", 5, 999_999),
		"range":     deleteRange("a", 20, 180, 5, 999_999),
	}
	for _, x := range []struct {
		name          string
		write         func(t *testing.T, e *Engine)
		after         bool // the deletion
		flush, reopen bool
	}{
		{name: "written before", write: write},
		{name: "written before a restart", write: write, reopen: true},
		{name: "written and flushed before a restart", write: write, reopen: true, flush: true},
		{name: "written after", write: write, after: true},
		{name: "ingested before", write: ingest},
		{name: "ingested before a restart", write: ingest, reopen: true},
		{name: "ingested after", write: ingest, after: true},
		{name: "ingested after a restart", write: ingest, after: true, reopen: true},
	} {
		for what, deletion := range remove {
			t.Run(x.name+", "+what, func(t *testing.T) {
				o := Options{Inline: true, FS: vfs.NewMem(), ceilingSlack: 1, suspectBytes: 1}
				e := openTest(t, o)
				for i := range 200 {
					mustApply(t, e, putRow("a", i, 1, "x"))
				}
				settleFiles(t, e)
				steps := []func(){func() { x.write(t, e) }, func() { mustApply(t, e, deletion) }}
				if x.after {
					steps[0], steps[1] = steps[1], steps[0]
				}
				steps[0]()
				if x.flush {
					settleFiles(t, e)
				}
				if x.reopen {
					if err := e.Close(); err != nil {
						t.Fatal(err)
					}
					e = openTest(t, o)
				}
				steps[1]()
				defer func() { e.Close() }()
				for range 2 {
					live := fmt.Sprint(rows(t, mustRead(t, e, readKey("a", row.Slice{
						Start: clusteringOf(30), End: clusteringOf(150),
					}))))
					if live != "[a/70=newer]" {
						t.Fatalf("read %v", live)
					}
					if newest, err := e.Newest(readKey("a")); err != nil || newest != 9 {
						t.Errorf("newest timestamp %d, %v", newest, err)
					}
					if err := sweepDead(e); err != nil {
						t.Fatal(err)
					}
				}
			})
		}
	}
}

// sweepDead purges what waits.
func sweepDead(e *Engine) error {
	for {
		if done, err := e.SweepDead(3_000); done || err != nil {
			return err
		}
	}
}

// TestBoundsOfOlderDirectory opens a directory whose rows were written without ceilings: nothing may be skipped.
func TestBoundsOfOlderDirectory(t *testing.T) {
	o := Options{Inline: true, FS: vfs.NewMem(), suspectBytes: 1}
	e := openTest(t, o)
	mustApply(t, e, putRow("a", 1, 9, "x"))
	prefix := ownKey(ownBound)
	if err := e.db.DeleteRange(prefix, append(prefix, 0xFF), nil); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second start finds the ceilings that the first one wrote
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		e = openTest(t, o)
		mustApply(t, e, deletePartition("a", 5, 999_999))
		settleFiles(t, e)
		if err := sweepDead(e); err != nil {
			t.Fatal(err)
		}
		if live := rows(t, mustRead(t, e, readKey("a"))); len(live) != 1 {
			t.Errorf("read %v", live)
		}
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestTruncatedDeletionRemovesNothing truncates a table between a deletion and the purge of its rows: rows that are
// written later are not deleted, although the deletion would be newer.
func TestTruncatedDeletionRemovesNothing(t *testing.T) {
	e := shadowEngine(t, Options{Inline: true, suspectBytes: 1})
	defer e.Close()
	mustApply(t, e, deletePartition("a", 5, 999_999), deleteRange("other1", 0, 10, 5, 999_999))
	if err := e.Truncate(testTable); err != nil {
		t.Fatal(err)
	}
	mustApply(t, e, putRow("a", 1, 2, "after"), putRow("other1", 1, 2, "after"))
	settleFiles(t, e)
	if err := sweepDead(e); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"a", "other1"} {
		if live := rows(t, mustRead(t, e, readKey(key))); len(live) != 1 {
			t.Errorf("%s: read %v", key, live)
		}
	}
}

// BenchmarkReadDeleted reads partitions of 3 million rows in files, of which everything or the first half is deleted.
// An operation is a read of up to 100 rows.
func BenchmarkReadDeleted(b *testing.B) {
	const most = 3_000_000
	for _, x := range []struct {
		name   string
		remove *row.Mutation
		newer  bool // a row, which keeps reads from skipping
		purge  bool
	}{
		{"partition", deletePartition("a", 5, 999_999), false, false},
		{"partition-purged", deletePartition("a", 5, 999_999), true, true},
		{"half", deleteRange("a", 0, most/2, 5, 999_999), false, false},
		{"half-purged", deleteRange("a", 0, most/2, 5, 999_999), true, true},
		{"partition-newer", deletePartition("a", 5, 999_999), true, false},
	} {
		b.Run(x.name, func(b *testing.B) {
			e := openBench(b, Options{Sync: SyncNone, NoSweep: true})
			defer e.Close()
			done := make(chan error, 1)
			for i := 0; i < most; i += 1000 {
				m := mutate("a", func(m *row.Mutation) {
					for n := range 1000 {
						r := row.NewRow()
						r.Clustering, r.Liveness.Timestamp = clusteringOf(i+n), 1
						r.Cells = []row.Cell{{Column: 3, Timestamp: 1, Value: benchValue[:8]}}
						m.AddRow(r)
					}
				})
				mustTake(b, e, []*row.Mutation{m}, false, func(err error) { done <- err })
				if err := <-done; err != nil {
					b.Fatal(err)
				}
			}
			settleFiles(b, e)
			mustApply(b, e, x.remove)
			if x.purge {
				began := cputime.Process()
				if err := sweepDead(e); err != nil {
					b.Fatal(err)
				}
				b.Logf("purge: %v of CPU", (cputime.Process() - began).Round(10*time.Microsecond))
			}
			if x.newer {
				mustApply(b, e, putRow("a", most, 9, "newer"))
			}
			cmd := readKey("a")
			cmd.Limits.Rows = 100
			before := e.reads.Counts.Looked.Load()
			began := cputime.Process()
			b.ResetTimer()
			for range b.N {
				mustRead(b, e, cmd)
			}
			b.ReportMetric(float64((cputime.Process()-began).Microseconds())/float64(b.N), "cpu-µs/op")
			b.ReportMetric(float64(e.reads.Counts.Looked.Load()-before)/float64(b.N), "looked/op")
		})
	}
}
