package storage

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/row"
	"cqld/storage/failure"
	"cqld/storage/faultfs"
	"cqld/storage/rowkey"
)

// If no other goroutine commits, Commit returns after the caller's own commit. The committer, which nothing wakes here,
// may still take some of the first writes before it waits for the first time.
func TestSingleCommitIsSynchronous(t *testing.T) {
	e := openTest(t, Options{})
	defer e.Close()
	const writes, takenMost = 100, 10
	taken := 0
	for i := range writes {
		result := make(chan error, 1)
		if err := e.Queue([]*row.Mutation{putRow("a", i, 1, "x")}, true,
			func(err error) { result <- err }); err != nil {
			t.Fatal(err)
		}
		e.Commit()
		if len(result) == 0 {
			taken++
		}
		if err := <-result; err != nil {
			t.Fatal(err)
		}
	}
	if taken > takenMost {
		t.Errorf("after %d of %d calls of Commit, the write was not committed", taken, writes)
	}
	e.Commit() // of nothing
	if n := len(rows(t, mustRead(t, e, readKey("a")))); n != 100 {
		t.Fatalf("%d rows", n)
	}
}

// TestQueuedCommitsCompleteOnce queues writes from callers and from callbacks: each callback is called once, and every
// write is then on disk.
func TestQueuedCommitsCompleteOnce(t *testing.T) {
	disk := vfs.NewMem()
	e := openTest(t, Options{FS: disk})
	const callers, each = 8, 200
	var notified atomic.Int64
	var wait, running sync.WaitGroup
	write := func(caller, i int, queue bool, then func()) {
		wait.Add(1)
		ms := []*row.Mutation{putRow(fmt.Sprint("k", caller), i, 1, "x")}
		done := func(err error) {
			if err == nil {
				notified.Add(1)
			}
			then()
			wait.Done()
		}
		take := e.Apply
		if queue {
			take = e.Queue
		}
		if err := take(ms, i%3 != 0, done); err != nil {
			done(err)
			return
		}
		if queue {
			e.Commit()
		}
	}
	for caller := range callers {
		running.Go(func() {
			for i := range each {
				write(caller, i, (caller+i)%2 == 0, func() {
					if i%5 == 0 { // on the committing goroutine
						write(caller, each+i, i%10 == 0, func() {})
					}
				})
			}
		})
	}
	running.Wait()
	if err := e.Close(); err != nil { // while some callbacks have not been called yet
		t.Fatal(err)
	}
	wait.Wait()
	e = openTest(t, Options{FS: disk})
	defer e.Close()
	n := 0
	for caller := range callers {
		n += len(rows(t, mustRead(t, e, readKey(fmt.Sprint("k", caller)))))
	}
	// What came when the engine was closing was refused.
	if want := int(notified.Load()); n != want || n < callers*each {
		t.Fatalf("%d rows, %d were acknowledged, of %d", n, want, callers*each+callers*each/5)
	}
}

// TestSlowSyncIsReported checks that a slow fsync is logged, and a fast one is not.
func TestSlowSyncIsReported(t *testing.T) {
	clock, disk, log := newTestClock(), faultfs.Wrap(vfs.NewMem()), &bytes.Buffer{}
	e := openTest(t, Options{Clock: clock, FS: disk, Logger: slog.New(slog.NewTextHandler(log, nil))})
	write := func(i int) {
		written := make(chan error, 1)
		if err := e.Queue([]*row.Mutation{putRow("a", i, 1, "x")}, true,
			func(err error) { written <- err }); err != nil {
			t.Fatal(err)
		}
		e.Commit()
		if err := <-written; err != nil {
			t.Error(err)
		}
	}
	write(1)
	disk.Fail(func(op faultfs.Op, name string) error {
		if op == faultfs.OpSync && strings.HasSuffix(name, ".log") {
			clock.advance(slowSync + time.Second/2)
		}
		return nil
	})
	write(2)
	disk.Fail(nil)
	write(3)
	// The clock may jump while the commit is still being applied, which then counts as a pause.
	if m := e.Metrics(); m.SlowSyncs != 1 || m.LongestSync != slowSync+time.Second/2 {
		t.Errorf("%d slow syncs, the longest took %v; %d pauses", m.SlowSyncs, m.LongestSync, m.Pauses)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if text := log.String(); strings.Count(text, "slow disk delayed writes") != 1 ||
		!strings.Contains(text, "took=1.5s") {
		t.Errorf("it reports %q", text)
	}
}

// TestRefusalsAreReturned checks that Apply and Queue return why they take nothing and do not call done: a caller may
// hold a lock that done takes.
func TestRefusalsAreReturned(t *testing.T) {
	full := false
	e := openTest(t, Options{
		FreeSpace: func() (free, total int64) {
			if full {
				return 0, 1 << 30
			}
			return 1 << 30, 1 << 30
		},
	})
	refused := func(what string, want error, ms ...*row.Mutation) {
		t.Helper()
		for _, take := range []func([]*row.Mutation, bool, func(error)) error{e.Apply, e.Queue} {
			err := take(ms, true, func(error) { t.Errorf("%s: done was called", what) })
			var unknown *failure.UnknownTable
			if !errors.Is(err, want) && !(want == nil && errors.As(err, &unknown)) {
				t.Errorf("%s: %v", what, err)
			}
		}
	}
	bad := putRow(strings.Repeat("k", rowkey.PartitionBytesMax+1), 1, 1, "x")
	refused("a key that is too long", failure.ErrInvalid, bad)
	dropped := putRow("a", 1, 1, "x")
	if err := e.DropTable(dropped.Table); err != nil {
		t.Fatal(err)
	}
	refused("a dropped table", nil, dropped)
	full = true
	e.disk.Check()
	refused("a full disk", failure.ErrDiskFull, dropped)
	full = false
	e.disk.Check()
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	refused("a closed engine", failure.ErrStopped, dropped)
}
