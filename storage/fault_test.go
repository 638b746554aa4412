package storage

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/internal/await"
	"cqld/row"
	"cqld/storage/database"
	"cqld/storage/failure"
	"cqld/storage/faultfs"
	"cqld/storage/space"
)

var errDisk = errors.New("injected disk error")

// within fails the test when f takes long: a hang is what these tests look for.
func within(t *testing.T, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
	case <-time.After(2 * time.Minute):
		t.Fatalf("%s hangs", what)
	}
}

func TestFailedLogAcknowledgesNothing(t *testing.T) {
	isLog := func(name string) bool { return strings.HasSuffix(name, ".log") }
	for name, decide := range map[string]func(op faultfs.Op, name string) error{
		"fsync": func(op faultfs.Op, name string) error {
			if op == faultfs.OpSync && isLog(name) {
				return errDisk
			}
			return nil
		},
		"write": func(op faultfs.Op, name string) error {
			if op == faultfs.OpWrite && isLog(name) {
				return errDisk
			}
			return nil
		},
	} {
		for _, inline := range []bool{false, true} {
			for _, recycled := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/inline=%v/recycled=%v", name, inline, recycled), func(t *testing.T) {
					failLog(t, decide, inline, recycled)
				})
			}
		}
	}
}

// failLog writes, lets the log fail for a while, and expects that no write succeeds from then on.
func failLog(t *testing.T, decide func(faultfs.Op, string) error, inline, recycled bool) {
	mem := vfs.NewCrashableMem()
	disk := faultfs.Wrap(mem)
	var fatal atomic.Int32
	e := openTest(t, Options{FS: disk, Inline: inline, OnFatal: func(error) { fatal.Add(1) }})
	for i := range 20 {
		mustApply(t, e, putRow("a", i, 1, "kept"))
		if recycled && i%5 == 0 {
			if err := e.Flush(); err != nil {
				t.Fatal(err)
			}
		}
	}
	disk.Fail(decide)
	var err error
	within(t, "a write to a failed log", func() { err = apply(e, putRow("a", 100, 1, "lost")) })
	if !errors.Is(err, failure.ErrStopped) {
		t.Fatalf("write to a failed log: %v", err)
	}
	disk.Fail(nil) // a failed fsync is not tried again: the kernel has dropped the pages
	for i := range 5 {
		within(t, "a write after a failure", func() { err = apply(e, putRow("a", 101+i, 1, "lost")) })
		if !errors.Is(err, failure.ErrStopped) {
			t.Fatalf("write after a failure: %v", err)
		}
	}
	if err := e.SetLocal([]byte("k"), nil, true); !errors.Is(err, failure.ErrStopped) {
		t.Fatalf("local write after a failure: %v", err)
	}
	if n := fatal.Load(); n != 1 {
		t.Fatalf("OnFatal was called %d times", n)
	}
	within(t, "closing a failed engine", func() { err = e.Close() })
	if !errors.Is(err, failure.ErrStopped) {
		t.Fatalf("close: %v", err)
	}
	after := openTest(t, Options{FS: mem.CrashClone(vfs.CrashCloneCfg{})})
	defer after.Close()
	got := rows(t, mustRead(t, after, readKey("a")))
	for i := range 20 {
		if i >= len(got) || got[i] != fmt.Sprintf("a/%d=kept", i) {
			t.Fatalf("acknowledged row %d is missing in %v", i, got)
		}
	}
}

func TestFailedManifestStopsTheEngine(t *testing.T) {
	mem := vfs.NewCrashableMem()
	disk := faultfs.Wrap(mem)
	fatal := make(chan error, 1)
	e := openTest(t, Options{FS: disk, OnFatal: func(err error) { fatal <- err }})
	mustApply(t, e, putRow("a", 1, 1, "kept"))
	disk.Fail(func(op faultfs.Op, name string) error {
		if op == faultfs.OpSync && strings.HasPrefix(name, "MANIFEST") {
			return errDisk
		}
		return nil
	})
	go func() { _ = e.db.Flush() }() // it never ends
	within(t, "a failed MANIFEST", func() { <-fatal })
	if err := apply(e, putRow("a", 2, 1, "lost")); !errors.Is(err, failure.ErrStopped) {
		t.Fatalf("write after a failed MANIFEST: %v", err)
	}
	disk.Fail(nil)
	within(t, "closing after a failed MANIFEST", func() { _ = e.Close() })
	after := openTest(t, Options{FS: mem.CrashClone(vfs.CrashCloneCfg{})})
	defer after.Close()
	if got := rows(t, mustRead(t, after, readKey("a"))); len(got) == 0 || got[0] != "a/1=kept" {
		t.Fatalf("after the restart: %v", got)
	}
}

const flips = 40

func TestCorruptFileIsAnErrorThatNamesIt(t *testing.T) {
	caught := 0
	for flip := range flips {
		mem := vfs.NewMem()
		e := openTest(t, Options{FS: mem})
		for i := range 300 {
			mustApply(t, e, putRow("a", i, 1, strings.Repeat("value", 20)))
		}
		want := rows(t, mustRead(t, e, readKey("a")))
		if err := e.Flush(); err != nil {
			t.Fatal(err)
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		name := flipBit(t, mem, flip)
		caught += checkCorrupt(t, mem, name, want)
	}
	if caught < flips/2 {
		t.Fatalf("only %d of %d flipped bits were noticed", caught, flips)
	}
}

// flipBit changes one bit of the newest sstable.
func flipBit(t *testing.T, mem *vfs.MemFS, flip int) string {
	t.Helper()
	return flipBits(t, mem, flip, 1)[0]
}

// flipBits changes one bit in each of the n newest sstables.
func flipBits(t *testing.T, mem *vfs.MemFS, flip, n int) (flipped []string) {
	t.Helper()
	names, err := mem.List("db")
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	for _, name := range slices.Backward(names) {
		if !strings.HasSuffix(name, ".sst") {
			continue
		}
		flipAt(t, mem, mem.PathJoin("db", name), flip)
		if flipped = append(flipped, name); len(flipped) == n {
			return flipped
		}
	}
	t.Fatalf("%d sstables of %d", len(flipped), n)
	return nil
}

func flipAt(t *testing.T, mem *vfs.MemFS, path string, flip int) {
	t.Helper()
	info, err := mem.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	flipBitAt(t, mem, path, info.Size()*int64(flip)/flips, flip%8)
}

// flipBitAt changes one bit of a byte.
func flipBitAt(t *testing.T, mem *vfs.MemFS, path string, at int64, bit int) {
	t.Helper()
	f, err := mem.OpenReadWrite(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 1)
	if _, err := f.ReadAt(b, at); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 1 << bit
	if _, err := f.WriteAt(b, at); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// checkCorrupt reads everything: it is right, or an failure.ErrCorrupt; 1 when the latter.
func checkCorrupt(t *testing.T, mem *vfs.MemFS, name string, want []string) int {
	t.Helper()
	var reported []database.CorruptionInfo
	e, err := Open(Options{
		FS: mem, Dir: "db", Clock: newTestClock(), Inline: true,
		OnCorruption: func(c database.CorruptionInfo) { reported = append(reported, c) },
	})
	if err != nil {
		if !errors.Is(err, failure.ErrCorrupt) {
			t.Fatalf("open: %v", err)
		}
		return 1
	}
	defer e.Close()
	page, err := e.Read(nil, readKey("a"))
	if err == nil {
		if got := rows(t, page); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("a flipped bit was served: %v", got)
		}
		return 0
	}
	var corrupt *failure.CorruptError
	if !errors.As(err, &corrupt) || !errors.Is(err, failure.ErrCorrupt) {
		t.Fatalf("read of a corrupt file: %v", err)
	}
	if !strings.HasSuffix(corrupt.Path, name) {
		t.Fatalf("%v does not name %s", err, name)
	}
	if len(reported) != 1 || !strings.HasSuffix(reported[0].Path, name) || len(e.db.Corruptions()) != 1 {
		t.Fatalf("reported %v", reported)
	}
	if err := apply(e, putRow("b", 1, 1, "x")); err != nil {
		t.Fatalf("write beside a corrupt file: %v", err)
	}
	return 1
}

func TestFullDiskRefusesWritesAndRecovers(t *testing.T) {
	disk := faultfs.Wrap(vfs.NewMem())
	disk.SetSpace(4 << 20)
	clock := newTestClock()
	e := openTest(t, Options{FS: disk, Clock: clock, FreeSpace: disk.Space, MemTableBytes: 128 << 10,
		BallastBytes: 256 << 10})
	defer e.Close()
	// The watcher looks every space.Every of the engine's clock.
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
				clock.advance(space.Every)
			}
		}
	}()
	defer func() { close(stop); <-stopped }()
	acknowledged := 0
	within(t, "a write to a disk that fills", func() {
		for i := range 100_000 {
			err := apply(e, putRow("a", i, 1, strings.Repeat(fmt.Sprint(i), 2000)))
			if errors.Is(err, failure.ErrDiskFull) {
				return
			}
			if err != nil {
				t.Error(err)
				return
			}
			acknowledged++
		}
		t.Error("the disk does not fill")
	})
	within(t, "a write to a full disk", func() { // which stays full
		if err := apply(e, putRow("a", 1, 2, "x")); !errors.Is(err, failure.ErrDiskFull) {
			t.Errorf("write to a full disk: %v", err)
		}
	})
	cmd := readKey("a", row.ExactRow(clusteringOf(acknowledged-1)))
	if got := rows(t, mustRead(t, e, cmd)); len(got) != 1 {
		t.Fatalf("read on a full disk: %v", got)
	}
	disk.SetSpace(64 << 20)
	await.Until(t, "recovery", func() bool {
		return !errors.Is(apply(e, putRow("b", 1, 1, "y")), failure.ErrDiskFull)
	})
	if got := rows(t, mustRead(t, e, readKey("b"))); fmt.Sprint(got) != "[b/1=y]" {
		t.Fatalf("after recovery: %v", got)
	}
}

func TestBallastIsGivenUpWhenTheDiskIsReallyFull(t *testing.T) {
	disk := faultfs.Wrap(vfs.NewMem())
	disk.SetSpace(64 << 20)
	clock := newTestClock() // it does not advance, so the free space is not checked
	e := openTest(t, Options{FS: disk, Clock: clock, FreeSpace: disk.Space, MemTableBytes: 256 << 10,
		BallastBytes: 4 << 20})
	defer e.Close()
	if _, err := disk.Stat("db/" + space.BallastFile); err != nil {
		t.Fatal(err)
	}
	free, total := disk.Space()
	disk.SetSpace(total - free + 64<<10)
	acknowledged := 0
	within(t, "a write to a really full disk", func() {
		for {
			err := apply(e, putRow("a", acknowledged, 1, strings.Repeat("x", 1000)))
			if errors.Is(err, failure.ErrDiskFull) {
				return
			}
			if err != nil {
				t.Error(err)
				return
			}
			acknowledged++
		}
	})
	if _, err := disk.Stat("db/" + space.BallastFile); err == nil {
		t.Fatal("the ballast is still there")
	}
	if got := rows(t, mustRead(t, e, readKey("a"))); len(got) != acknowledged {
		t.Fatalf("%d rows of %d acknowledged", len(got), acknowledged)
	}
	disk.SetSpace(128 << 20)
	e.disk.Check()
	mustApply(t, e, putRow("b", 1, 1, "y"))
	if _, err := disk.Stat("db/" + space.BallastFile); err != nil {
		t.Fatalf("the ballast did not come back: %v", err)
	}
}
