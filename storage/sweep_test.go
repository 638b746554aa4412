package storage

import (
	"encoding/binary"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cqld/internal/cputime"
	"cqld/internal/mutant"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/storage/rowkey"
	"cqld/storage/tableinfo"
)

func tableWith(gc tableinfo.GCMode, grace int64) func(schema.StorageID) tableinfo.Info {
	return func(schema.StorageID) tableinfo.Info {
		return tableinfo.Info{Exists: true, GC: gc, GCGraceSeconds: grace}
	}
}

// sweepAll sweeps once from begin to end.
func sweepAll(t testing.TB, e *Engine) {
	t.Helper()
	for {
		wrapped, err := e.Sweep(7)
		if err != nil {
			t.Fatal(err)
		}
		if wrapped {
			return
		}
	}
}

// entries returns the number of keys that are stored of the test table.
func entries(t testing.TB, e *Engine) (n int) {
	t.Helper()
	if err := e.db.Scan(rowkey.AppendTable(nil, testTable), func(_, _ []byte) error { n++; return nil }); err != nil {
		t.Fatal(err)
	}
	return n
}

func mutate(key string, fill func(m *row.Mutation)) *row.Mutation {
	m := new(row.Mutation)
	m.Reset(testTable, row.NewPartitionKey([]byte(key)))
	fill(m)
	return m
}

func deletePartition(key string, timestamp, localTime int64) *row.Mutation {
	return mutate(key, func(m *row.Mutation) {
		r := row.NewRow()
		r.Deletion = row.Deletion{Timestamp: timestamp, LocalTime: localTime}
		m.AddHeader(r)
	})
}

func deleteRange(key string, from, to int, timestamp, localTime int64) *row.Mutation {
	return mutate(key, func(m *row.Mutation) {
		m.AddRangeTombstone(row.RangeTombstone{
			Start: clusteringOf(from), End: clusteringOf(to),
			Deletion: row.Deletion{Timestamp: timestamp, LocalTime: localTime},
		})
	})
}

func TestSweepRemovesDeadData(t *testing.T) {
	clock := newTestClock()
	now := clock.Now().Unix()
	e := openTest(t, Options{Inline: true, Clock: clock, Table: tableWith(tableinfo.GCTimeout, 100)})
	defer e.Close()
	for i := range 50 {
		mustApply(t, e, putRow("partition", i, 1, "x"), putRow("range", i, 1, "x"), putRow("live", i, 1, "x"))
		mustApply(t, e, mutate("expired", func(m *row.Mutation) {
			r := row.NewRow()
			r.Clustering = clusteringOf(i)
			r.Liveness = row.Liveness{Timestamp: 1, TTL: 5, LocalTime: now + 5}
			m.AddRow(r)
		}))
	}
	mustApply(t, e, deletePartition("partition", 2, now), deleteRange("range", 0, 40, 2, now))
	sweepAll(t, e)
	// The rows go at once, the tombstones stay: header; header, range tombstone, 10 rows; 50; 50.
	if n := entries(t, e); n != 1+12+50+50 {
		t.Fatalf("%d entries after the first sweep", n)
	}
	clock.advance(100 * time.Second)
	sweepAll(t, e)
	if n := entries(t, e); n != 1+12+50+50 {
		t.Fatalf("%d entries at the end of gc_grace", n)
	}
	clock.advance(10 * time.Second)
	sweepAll(t, e)
	if n := entries(t, e); n != 10+50 {
		t.Fatalf("%d entries after gc_grace", n)
	}
	mustApply(t, e, putRow("partition", 1, 1, "late"))
	cmd := readKey("partition")
	if got := rows(t, mustRead(t, e, cmd)); fmt.Sprint(got) != "[partition/1=late]" {
		t.Fatalf("a purged deletion still deletes: %v", got)
	}
}

func TestSweepKeepsTombstonesUntilRepaired(t *testing.T) {
	clock := newTestClock()
	now := clock.Now().Unix()
	var info atomic.Pointer[tableinfo.Info]
	info.Store(&tableinfo.Info{Exists: true, GC: tableinfo.GCRepair, GCGraceSeconds: 10})
	e := openTest(t, Options{Inline: true, Clock: clock,
		Table: func(schema.StorageID) tableinfo.Info { return *info.Load() }})
	defer e.Close()
	mustApply(t, e, putRow("a", 1, 1, "x"), deletePartition("a", 2, now))
	clock.advance(time.Hour)
	sweepAll(t, e)
	if n := entries(t, e); n != 1 {
		t.Fatalf("%d entries, want the tombstone alone", n)
	}
	repairedBefore := func(at int64) func(ring.Token) int64 { return func(ring.Token) int64 { return at } }
	info.Store(&tableinfo.Info{Exists: true, GC: tableinfo.GCRepair, GCGraceSeconds: 10,
		RepairedBefore: repairedBefore(now)})
	sweepAll(t, e)
	if n := entries(t, e); n != 1 {
		t.Fatal("a tombstone that no repair covers was purged")
	}
	info.Store(&tableinfo.Info{Exists: true, GC: tableinfo.GCRepair, GCGraceSeconds: 10,
		RepairedBefore: repairedBefore(now + 1)})
	sweepAll(t, e)
	if n := entries(t, e); n != 0 {
		t.Fatal("a repaired tombstone was not purged")
	}
}

// TestSweepLosesNoWrites sweeps and folds rows while they are written: every acknowledged write must be there. A write
// at the worst moment is made on purpose, and others at random.
func TestSweepLosesNoWrites(t *testing.T) {
	if got := writeDuringPurge(t); got != 2 {
		t.Fatalf("the row has value %d after a write of 2 during its purge", got)
	}
	if lost := raceSweeper(t, 300*time.Millisecond); lost > 0 {
		t.Fatalf("%d acknowledged writes were lost", lost)
	}
}

// TestSweepWithoutLatchesLosesWrites shows that TestSweepLosesNoWrites can fail.
func TestSweepWithoutLatchesLosesWrites(t *testing.T) {
	mutant.Need(t, "purge/without-the-latch")
	if got := writeDuringPurge(t); got != 1 {
		t.Fatalf("without latches the row has value %d after its purge, want the old value 1", got)
	}
}

// purgeObserver is a ledger that calls purging when the sweeper has read a row and has not overwritten it yet.
type purgeObserver struct {
	*ledger
	purging func()
}

func (o purgeObserver) Purge(d Derived, p *Purged) {
	o.ledger.Purge(d, p)
	o.purging()
}

// writeDuringPurge writes 2 to a row with value 1 between the sweeper's read and its overwrite of the row, and returns
// the value after both. The latch makes the write wait for the overwrite. The sweeper waits for the write, too, but
// not for long.
func writeDuringPurge(t *testing.T) int64 {
	const key, patience = "key", 100 * time.Millisecond
	var e *Engine
	var once sync.Once
	written := make(chan struct{})
	observer := purgeObserver{newLedger(""), func() {
		once.Do(func() {
			go func() {
				defer close(written)
				if err := apply(e, counterRow(key, 2)); err != nil {
					t.Error(err)
				}
			}()
			select {
			case <-written:
			case <-time.After(patience):
			}
		})
	}}
	e = openTest(t, Options{Inline: true, Sync: SyncNone, Table: tableWith(tableinfo.GCImmediate, 0),
		Maintainers: []Maintainer{observer}})
	defer e.Close()
	mustApply(t, e, counterRow(key, 1))
	sweepAll(t, e)
	select {
	case <-written:
	case <-time.After(time.Minute):
		t.Fatal("the row was not purged, or the write did not end")
	}
	return counterIn(mustRead(t, e, readKey(key)))
}

// raceSweeper sweeps and writes for a time, and returns how many acknowledged writes a read did not return.
func raceSweeper(t *testing.T, d time.Duration) (lost int64) {
	e := openTest(t, Options{Sync: SyncNone, Table: tableWith(tableinfo.GCImmediate, 0)})
	defer e.Close()
	stop := make(chan struct{})
	var wait sync.WaitGroup
	var missing atomic.Int64
	until := func(f func(i int)) {
		wait.Go(func() {
			for i := 1; ; i++ {
				select {
				case <-stop:
					return
				default:
					f(i)
				}
			}
		})
	}
	for w := range 4 {
		key := fmt.Sprint("writer", w)
		cmd := readKey(key)
		until(func(i int) {
			if err := apply(e, counterRow(key, int64(i))); err != nil {
				t.Error(err)
			}
			page, err := e.Read(nil, cmd)
			if err != nil {
				t.Error(err)
			} else if counterIn(page) < int64(i) {
				missing.Add(1)
			}
		})
	}
	until(func(int) {
		if _, err := e.Sweep(100); err != nil {
			t.Error(err)
		}
	})
	time.Sleep(d)
	close(stop)
	wait.Wait()
	return missing.Load()
}

// counterRow writes n, and a tombstone that the sweeper will want to purge.
func counterRow(key string, n int64) *row.Mutation {
	return mutate(key, func(m *row.Mutation) {
		r := row.NewRow()
		r.Clustering = clusteringOf(1)
		r.Cells = []row.Cell{
			{Column: 1, Timestamp: n, Value: binary.BigEndian.AppendUint64(nil, uint64(n))},
			{Column: 2, Timestamp: n, Tombstone: true, LocalTime: 1},
		}
		m.AddRow(r)
	})
}

func counterIn(page []byte) int64 {
	var reader row.PageReader
	var r row.Row
	reader.Reset(page)
	for reader.NextPartition() {
		for reader.NextRow(&r) {
			for _, c := range r.Cells {
				if c.Column == 1 {
					return int64(binary.BigEndian.Uint64(c.Value))
				}
			}
		}
	}
	return 0
}

func TestTombstoneIsNotPurgedWhileItsPartitionIsWritten(t *testing.T) {
	clock := newTestClock()
	now := clock.Now().Unix()
	e := openTest(t, Options{Inline: true, Clock: clock, Table: tableWith(tableinfo.GCTimeout, 10)})
	defer e.Close()
	for i := range 20 {
		mustApply(t, e, putRow("a", i, 5, "x"))
	}
	mustApply(t, e, deletePartition("a", 4, now))
	clock.advance(time.Hour)
	if wrapped, err := e.Sweep(10); wrapped || err != nil {
		t.Fatal(wrapped, err)
	}
	// This row is dead under the deletion; the sweeper, which is past it, does not see it any more.
	mustApply(t, e, putRow("a", 0, 3, "older"), mutate("a", func(m *row.Mutation) {
		r := row.NewRow()
		r.Clustering = []byte{0x70} // before all the others
		r.Liveness.Timestamp = 3
		m.AddRow(r)
	}))
	sweepRest := func() {
		for {
			if wrapped, err := e.Sweep(10); err != nil {
				t.Fatal(err)
			} else if wrapped {
				return
			}
		}
	}
	sweepRest()
	if n := entries(t, e); n != 1+20+1 {
		t.Fatalf("%d entries, want the header, 20 rows and the dead one", n)
	}
	sweepRest()
	if n := entries(t, e); n != 20 {
		t.Fatalf("%d entries after the next sweep", n)
	}
}

func TestHotRowIsCollapsed(t *testing.T) {
	e := openTest(t, Options{Sync: SyncNone, MemTableBytes: 64 << 20})
	defer e.Close()
	var wait sync.WaitGroup
	for i := range 5000 {
		wait.Add(1)
		mustTake(t, e, []*row.Mutation{putRow("hot", 1, int64(i), fmt.Sprint(i))}, true, func(error) { wait.Done() })
	}
	wait.Wait()
	cmd := readKey("hot", row.ExactRow(clusteringOf(1)))
	for range 3 {
		if got := rows(t, mustRead(t, e, cmd)); fmt.Sprint(got) != "[hot/1=4999]" {
			t.Fatalf("got %v", got)
		}
	}
	if n := e.Metrics().Folds; n != 1 {
		t.Fatalf("folded %d times", n)
	}
	least := time.Duration(math.MaxInt64) // without the work of other goroutines
	for range 5 {
		began := cputime.Process()
		for range 100 {
			mustRead(t, e, cmd)
		}
		least = min(least, (cputime.Process()-began)/100)
	}
	if least > 500*time.Microsecond {
		t.Fatalf("a read of a folded row takes %v of processor time", least)
	}
}
