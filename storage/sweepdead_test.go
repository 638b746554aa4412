package storage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/internal/await"
	"cqld/internal/mutant"
	"cqld/internal/tier"
	"cqld/row"
	"cqld/storage/purge"
	"cqld/storage/rowkey"
	"cqld/storage/tableinfo"
)

const shadowRows = 20_000

// shadowEngine has a partition "a" with rows of timestamp 1, and others beside it, all in files.
func shadowEngine(t testing.TB, o Options) *Engine {
	t.Helper()
	o.Sync = SyncNone
	e := openTest(t, o)
	var wait sync.WaitGroup
	put := func(m *row.Mutation) {
		wait.Add(1)
		mustTake(t, e, []*row.Mutation{m}, false, func(error) { wait.Done() })
	}
	for i := range 200 {
		put(putRow(fmt.Sprint("other", i), 0, 1, "x"))
	}
	for i := range shadowRows {
		put(putRow("a", i, 1, "x"))
	}
	wait.Wait()
	settleFiles(t, e)
	return e
}

// settleFiles moves everything to the last level.
func settleFiles(t testing.TB, e *Engine) {
	t.Helper()
	if err := e.Flush(); err != nil {
		t.Fatal(err)
	}
	lower, upper := rowkey.AppendTable(nil, testTable), rowkey.AppendTableEnd(nil, testTable)
	if err := e.db.Compact(context.Background(), lower, upper, false); err != nil {
		t.Fatal(err)
	}
}

// steps returns how many keys Pebble examines to iterate over the test table, including deleted ones, and how many it
// finds.
func steps(t testing.TB, e *Engine) (internal, found int) {
	t.Helper()
	lower, upper := rowkey.AppendTable(nil, testTable), rowkey.AppendTableEnd(nil, testTable)
	iter, err := e.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		t.Fatal(err)
	}
	defer iter.Close()
	for valid := iter.First(); valid; valid = iter.Next() {
		found++
	}
	stats := iter.Stats()
	return stats.ForwardStepCount[pebble.InternalIterCall] + stats.ForwardSeekCount[pebble.InternalIterCall], found
}

// TestReadsHaveShadowedRowsPurged checks that after one read that met the rows of a deleted partition, or of a deleted
// range, no read examines them again, and that newer rows stay.
func TestReadsHaveShadowedRowsPurged(t *testing.T) {
	tier.OneGoroutine(t)
	for _, x := range []struct {
		name   string
		remove []*row.Mutation
		left   int // of the rows with timestamp 1
	}{
		{"partition", []*row.Mutation{deletePartition("a", 5, 999_999)}, 0},
		{"range", []*row.Mutation{deleteRange("a", 500, shadowRows-500, 5, 999_999)}, 1000},
		{"ranges", []*row.Mutation{deleteRange("a", 0, 9_000, 5, 999_999),
			deleteRange("a", 9_000, shadowRows, 6, 999_999)}, 0},
		{"both", []*row.Mutation{deletePartition("a", 3, 999_999), deleteRange("a", 500, shadowRows, 6, 999_999)}, 0},
	} {
		t.Run(x.name, func(t *testing.T) {
			e := shadowEngine(t, Options{Inline: true})
			defer e.Close()
			mustApply(t, e, x.remove...)
			mustApply(t, e, putRow("a", 15_000, 9, "newer"), putRow("a", 4_000, 2, "older"))
			for _, reversed := range []bool{false, true} {
				cmd := readKey("a")
				cmd.Reversed = reversed
				if live := rows(t, mustRead(t, e, cmd)); len(live) != x.left+1 {
					t.Fatalf("%d live rows before the purge", len(live))
				}
			}
			for done := false; !done; {
				var err error
				if done, err = e.SweepDead(3_000); err != nil {
					t.Fatal(err)
				}
			}
			if live := rows(t, mustRead(t, e, readKey("a"))); len(live) != x.left+1 {
				t.Errorf("%d live rows after the purge", len(live))
			}
			internal, found := steps(t, e)
			if found > x.left+210 || internal > 2*found+500 {
				t.Errorf("%d keys, found in %d steps", found, internal)
			}
		})
	}
}

// TestDeletionsHaveRowsPurged shows that the rows of a large deleted partition or range are purged before the first
// read, that rows beside the range and newer rows stay, and that a deletion of little is left to the pass.
func TestDeletionsHaveRowsPurged(t *testing.T) {
	tier.OneGoroutine(t)
	for _, x := range []struct {
		name   string
		remove []*row.Mutation
		left   int // rows, also the newer one
		swept  bool
	}{
		{"partition", []*row.Mutation{deletePartition("a", 5, 999_999)}, 1, true},
		{"range", []*row.Mutation{deleteRange("a", 500, shadowRows-500, 5, 999_999)}, 1001, true},
		{"half", []*row.Mutation{deleteRange("a", 0, shadowRows/2, 5, 999_999)}, shadowRows/2 + 1, true},
		{"both", []*row.Mutation{deletePartition("a", 3, 999_999), deleteRange("a", 500, shadowRows, 6, 999_999)}, 1,
			true},
		{"few rows", []*row.Mutation{deleteRange("a", 500, 550, 5, 999_999)}, shadowRows - 50, false},
		{"small partition", []*row.Mutation{deletePartition("other1", 5, 999_999)}, shadowRows, false},
		{"older than all", []*row.Mutation{deletePartition("a", 0, 999_999)}, shadowRows, true},
	} {
		t.Run(x.name, func(t *testing.T) {
			e := shadowEngine(t, Options{Inline: true})
			defer e.Close()
			mustApply(t, e, x.remove...)
			mustApply(t, e, putRow("a", 5_000, 9, "newer"))
			for done := false; !done; {
				var err error
				if done, err = e.SweepDead(3_000); err != nil {
					t.Fatal(err)
				}
			}
			if swept := e.purger.Counts.Swept.Load(); (swept > 0) != x.swept {
				t.Errorf("%d entries were swept", swept)
			}
			before := e.reads.Counts.Looked.Load()
			if live := rows(t, mustRead(t, e, readKey("a"))); len(live) != x.left {
				t.Errorf("%d live rows, want %d", len(live), x.left)
			}
			if looked := e.reads.Counts.Looked.Load() - before; x.swept && looked > int64(x.left)+200 {
				t.Errorf("the first read looked at %d entries for %d rows", looked, x.left)
			}
			if internal, found := steps(t, e); x.swept && internal > 2*found+500 {
				t.Errorf("%d keys, found in %d steps", found, internal)
			}
		})
	}
}

// TestPurgerIsWoken shows that the purger of an engine with goroutines purges what reads met, without waiting for its
// pass.
func TestPurgerIsWoken(t *testing.T) {
	clock := newTestClock()
	e := shadowEngine(t, Options{Clock: clock})
	defer e.Close()
	mustApply(t, e, deletePartition("a", 5, 999_999), putRow("a", shadowRows, 6, "newer")) // the read examines all rows
	if live := rows(t, mustRead(t, e, readKey("a"))); len(live) != 1 {
		t.Fatalf("%d live rows", len(live))
	}
	await.Until(t, "the purger removes what is dead", func() bool {
		clock.advance(purge.PauseEvery)
		return e.dead.Len() == 0
	})
	if n := entries(t, e); n != 200+2 {
		t.Errorf("%d entries", n)
	}
}

// TestCompactTablePurges shows that an operator's compaction removes what may be purged.
func TestCompactTablePurges(t *testing.T) {
	clock := newTestClock()
	e := shadowEngine(t, Options{Inline: true, Clock: clock, Table: tableWith(tableinfo.GCTimeout, 10)})
	defer e.Close()
	mustApply(t, e, deletePartition("a", 5, clock.Now().Unix()))
	clock.advance(time.Hour)
	if err := e.CompactTable(context.Background(), testTable, nil); err != nil {
		t.Fatal(err)
	}
	if internal, found := steps(t, e); found != 200 || internal > 500 {
		t.Errorf("%d keys, found in %d steps", found, internal)
	}
}

// TestCompactionOfPartsPurges compacts a table in parts, which are reported one after the other. Together they purge
// the same rows as a compaction of the whole table, and each partition is in one of them.
func TestCompactionOfPartsPurges(t *testing.T) {
	clock := newTestClock()
	e := openTest(t, Options{Inline: true, Clock: clock, Sync: SyncNone, Table: tableWith(tableinfo.GCTimeout, 10)})
	defer e.Close()
	for i := range 100 {
		mustApply(t, e, putRow(fmt.Sprint(i), 1, 5, "x"), putRow(fmt.Sprint(i), 2, 5, "x"))
		if i%2 == 0 {
			mustApply(t, e, deletePartition(fmt.Sprint(i), 6, clock.Now().Unix()))
		}
	}
	clock.advance(time.Hour)
	var reports []int
	if err := e.compactTable(t.Context(), testTable, 7,
		func(done, parts int) { reports = append(reports, done, parts) }); err != nil {
		t.Fatal(err)
	}
	if want := []int{1, 7, 2, 7, 3, 7, 4, 7, 5, 7, 6, 7, 7, 7}; !slices.Equal(reports, want) {
		t.Errorf("reports %v", reports)
	}
	if n := entries(t, e); n != 100 {
		t.Errorf("%d entries, want the entries of 50 partitions with 2 rows", n)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := e.compactTable(ended, testTable, 7, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("a compaction that is canceled: %v", err)
	}
}

// TestPurgerResumesAfterRestart shows that a pass which restarts interrupt again and again ends nevertheless.
func TestPurgerResumesAfterRestart(t *testing.T) {
	disk := vfs.NewMem()
	e := shadowEngine(t, Options{Inline: true, FS: disk})
	total := entries(t, e)
	for lives := 1; ; lives++ {
		wrapped := false
		for range 2 * purge.SaveEvery {
			var err error
			if wrapped, err = e.Sweep(100); err != nil {
				t.Fatal(err)
			}
			if wrapped {
				break
			}
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		if wrapped {
			break
		}
		if lives > 2*total/(100*purge.SaveEvery) {
			t.Fatalf("the pass has not ended after %d restarts", lives)
		}
		e = openTest(t, Options{Inline: true, FS: disk, Sync: SyncNone})
	}
}

// TestRestartsDoNotPostponeThePass restarts a node more often than a pass is due: the next pass begins when it would
// have begun without restarts, and one that was interrupted continues soon.
func TestRestartsDoNotPostponeThePass(t *testing.T) {
	o := Options{Inline: true, FS: vfs.NewMem(), Clock: newTestClock()}
	clock := o.Clock.(*testClock)
	e := openTest(t, o)
	restart := func(after, want time.Duration) {
		t.Helper()
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		clock.advance(after)
		if e = openTest(t, o); e.purger.FirstRest() != want {
			t.Errorf("the pass begins after %v, want %v", e.purger.FirstRest(), want)
		}
	}
	for i := range 2 * purge.SaveEvery {
		mustApply(t, e, putRow("a", i, 1, "x"))
	}
	sweepAll(t, e)
	restart(time.Minute, purge.PassEvery-time.Minute)
	restart(4*time.Minute, purge.PassEvery-5*time.Minute)
	restart(4*time.Minute, purge.PassEvery-9*time.Minute)
	restart(4*time.Minute, purge.StartAfter)
	for range purge.SaveEvery {
		if wrapped, err := e.Sweep(1); wrapped || err != nil {
			t.Fatal(wrapped, err)
		}
	}
	restart(time.Second, purge.StartAfter)
	sweepAll(t, e)
	restart(time.Second, purge.PassEvery-time.Second)
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}

// TestResumedPartitionKeepsItsDeletion shows that a pass that a restart interrupted within a partition keeps the
// partition's deletion: an older row that was written to its first part meanwhile must not reappear.
func TestResumedPartitionKeepsItsDeletion(t *testing.T) {
	disk, clock := vfs.NewMem(), newTestClock()
	o := Options{Inline: true, FS: disk, Clock: clock, Table: tableWith(tableinfo.GCTimeout, 10)}
	e := openTest(t, o)
	const most = 10_000
	for i := range most {
		mustApply(t, e, putRow("a", i, 1, "x"))
	}
	mustApply(t, e, deletePartition("a", 5, clock.Now().Unix()))
	clock.advance(time.Hour)
	for range purge.SaveEvery {
		if wrapped, err := e.Sweep(100); wrapped || err != nil {
			t.Fatal(wrapped, err)
		}
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	e = openTest(t, o)
	mustApply(t, e, putRow("a", 3, 2, "older"))
	sweepAll(t, e)
	if live := rows(t, mustRead(t, e, readKey("a"))); len(live) > 0 {
		t.Errorf("rows that were deleted are back: %v", live)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestPurgeOfRunsKeepsConcurrentWrites inserts rows into a deleted partition while its shadowed rows are purged.
func TestPurgeOfRunsKeepsConcurrentWrites(t *testing.T) {
	if lost := raceRuns(t); lost != 0 {
		t.Fatalf("%d acknowledged rows were lost", lost)
	}
}

// TestPurgeOfRunsWithoutItsCheckLosesWrites shows that TestPurgeOfRunsKeepsConcurrentWrites can fail.
func TestPurgeOfRunsWithoutItsCheckLosesWrites(t *testing.T) {
	mutant.Need(t, "purge/run-of-a-written-partition")
	// Expensive checks between reading and committing change how often the two coincide.
	for tries := 0; raceRuns(t) == 0; tries++ {
		if tries == 20 {
			t.Fatal("without the check of commits nothing was lost")
		}
	}
}

// raceRuns writes rows while dead ones are purged around them, and returns how many of these writes are missing.
func raceRuns(t *testing.T) (lost int) {
	e := openTest(t, Options{Sync: SyncNone, runMin: 1, ShadowedRows: 1})
	defer e.Close()
	var wait sync.WaitGroup
	for i := range 4_000 {
		wait.Add(1)
		mustTake(t, e, []*row.Mutation{putRow("a", i, 1, "x")}, false, func(error) { wait.Done() })
	}
	wait.Wait()
	mustApply(t, e, deletePartition("a", 5, 999_999))
	written := make(chan int)
	first, stop := make(chan struct{}), make(chan struct{})
	go func() {
		n := 0
		for ; ; n++ {
			select {
			case <-stop:
				written <- n
				return
			default:
			}
			if err := apply(e, putRow("a", (n*7919)%4_000, 9, "newer")); err != nil {
				t.Error(err)
			}
			if n == 0 {
				close(first)
			}
		}
	}()
	<-first // without a newer row, reads skip the others
	for range 3 {
		if _, err := e.Read(nil, readKey("a")); err != nil {
			t.Error(err)
		}
		for done := false; !done; {
			var err error
			if done, err = e.SweepDead(50); err != nil {
				t.Error(err)
				break
			}
		}
	}
	close(stop)
	n := min(<-written, 4_000)
	return n - len(rows(t, mustRead(t, e, readKey("a"))))
}
