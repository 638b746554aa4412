package storage

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/internal/await"
	"cqld/row"
	"cqld/schema"
	"cqld/storage/failure"
	"cqld/storage/format"
	"cqld/storage/tableinfo"
)

// crashAfterWrites lets writers write, takes the disk as a power loss would leave it, and returns how
// many acknowledged rows are missing from it.
func crashAfterWrites(t *testing.T, seed uint64, mode SyncMode) (missing int) {
	t.Helper()
	disk := vfs.NewCrashableMem()
	e := openTest(t, Options{FS: disk, Sync: mode, MemTableBytes: 64 << 10})
	const writers = 8
	var acknowledged [writers]atomic.Int64
	var wait sync.WaitGroup
	stop := make(chan struct{})
	for w := range writers {
		wait.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				if apply(e, putRow(fmt.Sprint(w), i, 1, strings.Repeat("v", 100))) == nil {
					acknowledged[w].Store(int64(i + 1))
				}
			}
		})
	}
	rng := rand.New(rand.NewPCG(seed, 0))
	enough := 1 + rng.Int64N(100)
	await.Until(t, "writes are acknowledged", func() bool { return acknowledged[rng.IntN(writers)].Load() >= enough })
	var promised [writers]int64
	for w := range promised {
		promised[w] = acknowledged[w].Load()
	}
	crashed := disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(100), RNG: rng})
	close(stop)
	wait.Wait()
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	after := openTest(t, Options{FS: crashed})
	defer after.Close()
	for w, n := range promised {
		if got := int64(len(rows(t, mustRead(t, after, readKey(fmt.Sprint(w)))))); got < n {
			missing += int(n - got)
		}
	}
	return missing
}

func TestAcknowledgedWritesSurvivePowerLoss(t *testing.T) {
	for seed := range uint64(40) {
		if n := crashAfterWrites(t, seed, SyncBatch); n > 0 {
			t.Fatalf("seed %d: %d acknowledged rows are missing", seed, n)
		}
	}
}

// TestPowerLossTakesUnsyncedWrites proves that the test above can fail.
func TestPowerLossTakesUnsyncedWrites(t *testing.T) {
	missing := 0
	for seed := range uint64(10) {
		missing += crashAfterWrites(t, seed, SyncNone)
	}
	if missing == 0 {
		t.Fatal("without fsync nothing was lost")
	}
}

func TestPeriodicSyncBringsWritesToDisk(t *testing.T) {
	disk, clock := vfs.NewCrashableMem(), newTestClock()
	const always schema.StorageID = 7
	e := openTest(t, Options{FS: disk, Clock: clock, Sync: SyncPeriodic, SyncPeriod: time.Second,
		Table: func(id schema.StorageID) tableinfo.Info {
			return tableinfo.Info{Exists: true, GC: tableinfo.GCDisabled, AlwaysSync: id == always}
		}})
	survivors := func() int {
		after := openTest(t, Options{FS: disk.CrashClone(vfs.CrashCloneCfg{})})
		defer after.Close()
		return len(rows(t, mustRead(t, after, readKey("a"))))
	}
	mustApply(t, e, putRow("a", 1, 1, "x"))
	if n := survivors(); n != 0 {
		t.Fatalf("%d rows are on disk before the period has ended", n)
	}
	await.Until(t, "the row is on disk after the period", func() bool {
		clock.advance(time.Second)
		return survivors() == 1
	})
	mustApply(t, e, putRow("a", 2, 1, "x"))
	m := new(row.Mutation)
	m.Reset(always, row.NewPartitionKey([]byte("a")))
	m.AddRow(row.NewRow())
	mustApply(t, e, m)
	if n := survivors(); n != 2 {
		t.Fatalf("a write to a table that always syncs left %d rows on disk", n)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestCloseCommitsAppliedMutations(t *testing.T) {
	disk := vfs.NewMem()
	e := openTest(t, Options{FS: disk})
	var acknowledged atomic.Int64
	for i := range 500 {
		mustTake(t, e, []*row.Mutation{putRow("a", i, 1, "x")}, true, func(err error) {
			if err == nil {
				acknowledged.Add(1)
			}
		})
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if acknowledged.Load() != 500 {
		t.Fatalf("%d of 500 were acknowledged", acknowledged.Load())
	}
	e = openTest(t, Options{FS: disk})
	defer e.Close()
	if n := len(rows(t, mustRead(t, e, readKey("a")))); n != 500 {
		t.Fatalf("%d rows", n)
	}
}

func TestMutationIsCopiedBeforeApplyReturns(t *testing.T) {
	e := openTest(t, Options{})
	defer e.Close()
	m := new(row.Mutation)
	r := row.NewRow()
	var wait sync.WaitGroup
	for i := range 1000 {
		m.Reset(testTable, row.NewPartitionKey([]byte("a")))
		r.Clustering = clusteringOf(i)
		r.Liveness.Timestamp = 1
		m.AddRow(r)
		wait.Add(1)
		mustTake(t, e, []*row.Mutation{m}, true, func(error) { wait.Done() })
	}
	wait.Wait()
	if n := len(rows(t, mustRead(t, e, readKey("a")))); n != 1000 {
		t.Fatalf("%d rows", n)
	}
}

func TestFormatIsChecked(t *testing.T) {
	disk := vfs.NewMem()
	openTest(t, Options{FS: disk}).Close()
	write := func(content string) {
		f, err := disk.Create("db/"+format.FileName, vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	open := func() error {
		_, err := Open(Options{FS: disk, Dir: "db", Clock: newTestClock()})
		return err
	}
	for _, other := range []int{format.Version - 1, format.Version + 1} {
		write(fmt.Sprintf("cqld storage format %d\n", other))
		if err := open(); err == nil || !strings.Contains(err.Error(),
			fmt.Sprintf("has format %d", other)) || !strings.Contains(err.Error(),
			fmt.Sprintf("this build of cqld reads format %d", format.Version)) {
			t.Fatalf("another format: %v", err)
		}
	}
	write("something else")
	if err := open(); !errors.Is(err, failure.ErrCorrupt) {
		t.Fatalf("no format: %v", err)
	}
	if err := disk.Remove("db/" + format.FileName); err != nil {
		t.Fatal(err)
	}
	if err := open(); err == nil || !strings.Contains(err.Error(), "it was not created by cqld") {
		t.Fatalf("a foreign database: %v", err)
	}
}

func TestCheckpointIsADatabase(t *testing.T) {
	disk := vfs.NewMem()
	e := openTest(t, Options{FS: disk})
	mustApply(t, e, putRow("a", 1, 1, "x"))
	if err := e.Checkpoint("snapshot"); err != nil {
		t.Fatal(err)
	}
	mustApply(t, e, putRow("a", 2, 1, "later"))
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	e = openTest(t, Options{FS: disk, Dir: "snapshot"})
	defer e.Close()
	if got := rows(t, mustRead(t, e, readKey("a"))); fmt.Sprint(got) != "[a/1=x]" {
		t.Fatalf("snapshot: %v", got)
	}
}
