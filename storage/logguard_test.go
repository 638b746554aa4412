package storage

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/row"
	"cqld/storage/failure"
	"cqld/storage/faultfs"
)

// A log that fails while a full memtable's is closed and the next one is begun, of which Pebble would end the process:
// the engine fails as it does else, and all that was acknowledged is there.
func TestLogFailureBetweenMemtables(t *testing.T) {
	isLog := func(name string) bool { return strings.HasSuffix(name, ".log") }
	for name, fails := range map[string]func() func(op faultfs.Op, name string) bool{
		"written":      func() func(faultfs.Op, string) bool { return nthOf(4, faultfs.OpWrite, isLog) },
		"closed":       func() func(faultfs.Op, string) bool { return nthOf(1, faultfs.OpSync, isLog) },
		"begun":        func() func(faultfs.Op, string) bool { return nthOf(1, faultfs.OpCreate, isLog) },
		"in directory": nextSyncOfDirectory,
	} {
		for _, inline := range []bool{false, true} {
			for _, flush := range []bool{false, true} {
				for _, forever := range []bool{false, true} {
					t.Run(fmt.Sprintf("%s/inline=%v/flush=%v/forever=%v", name, inline, flush, forever),
						func(t *testing.T) {
							failRotation(t, fails(), inline, flush, forever)
						})
				}
			}
		}
	}
}

// nthOf returns true of the nth operation on a file that is meant.
func nthOf(n int32, op faultfs.Op, meant func(string) bool) func(faultfs.Op, string) bool {
	var seen atomic.Int32
	return func(o faultfs.Op, name string) bool { return o == op && meant(name) && seen.Add(1) == n }
}

// nextSyncOfDirectory returns true for the sync that follows the creation of a log.
func nextSyncOfDirectory() func(faultfs.Op, string) bool {
	var made atomic.Bool
	return func(o faultfs.Op, name string) bool {
		if o == faultfs.OpCreate && strings.HasSuffix(name, ".log") {
			made.Store(true)
		}
		return o == faultfs.OpSync && name == "db" && made.Swap(false)
	}
}

func failRotation(t *testing.T, fails func(faultfs.Op, string) bool, inline, flush, forever bool) {
	mem := vfs.NewCrashableMem()
	disk := faultfs.Wrap(mem)
	var fatal atomic.Int32
	e := openTest(t, Options{FS: disk, Inline: inline, Sync: SyncPeriodic, SyncPeriod: time.Hour,
		MemTableBytes: 256 << 10,
		OnFatal:       func(error) { fatal.Add(1) }})
	for i := range 20 {
		mustApply(t, e, putRow("a", i, 1, "kept"))
	}
	if err := e.SetLocal([]byte("k"), nil, true); err != nil { // all before is on disk
		t.Fatal(err)
	}
	var broken atomic.Bool
	disk.Fail(func(op faultfs.Op, name string) error {
		if fails(op, name) {
			broken.Store(true)
			return errDisk
		}
		if forever && broken.Load() && (op == faultfs.OpWrite || op == faultfs.OpSync || op == faultfs.OpCreate) {
			return errDisk
		}
		return nil
	})
	value := strings.Repeat("v", 1000)
	var err error
	within(t, "a failing log", func() {
		for i := 0; err == nil && i < 20_000; i++ {
			done := make(chan error, 1)
			if err = e.Apply([]*row.Mutation{putRow("b", i, 1, value)}, false,
				func(err error) { done <- err }); err == nil {
				err = <-done
			}
			if err == nil && flush && i%50 == 49 {
				err = e.Flush()
			}
		}
	})
	if !errors.Is(err, failure.ErrStopped) || fatal.Load() != 1 {
		t.Fatalf("writes end with %v, %d times", err, fatal.Load())
	}
	within(t, "closing a failed engine", func() { err = e.Close() })
	if !errors.Is(err, failure.ErrStopped) {
		t.Fatalf("close: %v", err)
	}
	for _, unsynced := range []int{0, 50, 100} {
		after := openTest(t, Options{FS: mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: unsynced,
			RNG: rand.New(rand.NewPCG(1, 2))})})
		if got := rows(t, mustRead(t, after, readKey("a"))); len(got) != 20 {
			t.Fatalf("of the acknowledged rows %v exist", got)
		}
		if err := after.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
