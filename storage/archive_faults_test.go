package storage

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/internal/await"
	"cqld/internal/tier"
	"cqld/ring"
	"cqld/row"
	"cqld/storage/export"
	"cqld/storage/failure"
	"cqld/storage/logarchive"
)

// openArchived opens an engine on a disk with archiving.
func openArchived(t testing.TB, disk vfs.FS, o logarchive.Options) *Engine {
	t.Helper()
	return openTest(t, Options{FS: disk, Archive: &o, NoSweep: true, BallastBytes: -1})
}

// fillLogs writes several logs, and waits until kept returns true.
func fillLogs(t testing.TB, e *Engine, n int, kept func(logarchive.Kept) bool) {
	t.Helper()
	for i := range n {
		mustApply(t, e, putRow("k", i, 1, strings.Repeat("x", 1000)))
		if err := e.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	await.Until(t, "Pebble has offered the logs", func() bool { return kept(LogOf(e).Kept()) })
}

func mustGap(t testing.TB, err error) logarchive.Position {
	t.Helper()
	gap := new(logarchive.Gap)
	if !errors.As(err, &gap) {
		t.Fatalf("%v, not a gap", err)
	}
	return gap.Oldest
}

// TestWritesWithinAndAfterTheMoment restores to a moment between two writes of one key, whose client timestamps have
// the opposite order.
func TestWritesWithinAndAfterTheMoment(t *testing.T) {
	disk, stamp := vfs.NewMem(), stamps()
	e := openArchived(t, disk, logarchive.Options{Stamp: stamp})
	defer e.Close()
	a := &archived{}
	a.checkpoint(t, e, disk, stamp)
	mustApply(t, e, putRow("k", 1, 1_000_000, "within"))
	within := stamp()
	mustApply(t, e, putRow("k", 1, 2_000_000, "after"), putRow("k", 2, 5, "after"))
	if err := e.Truncate(testTable); err != nil {
		t.Fatal(err)
	}
	truncated := stamp()
	a.read(t, e, 1<<20, 1)
	if got := a.contentAt(t, within); !strings.Contains(got, "within") || strings.Contains(got, "after") {
		t.Fatalf("%q", got)
	}
	if got := a.contentAt(t, truncated); got != "" {
		t.Fatalf("%q is left after TRUNCATE", got)
	}
	_, err := a.open(a.until+1, a.all)
	if late := new(logarchive.NotArchived); !errors.As(err, &late) || late.Until != a.until {
		t.Fatalf("a moment that is not archived: %v", err)
	}
}

// TestMissingSegmentIsAGap leaves out one segment after the other.
func TestMissingSegmentIsAGap(t *testing.T) {
	disk, stamp := vfs.NewMem(), stamps()
	e := openArchived(t, disk, logarchive.Options{Stamp: stamp})
	defer e.Close()
	a := &archived{}
	a.checkpoint(t, e, disk, stamp)
	for i := range 8 {
		mustApply(t, e, putRow("k", i, 1, "x"))
		a.read(t, e, 1<<20, 1)
	}
	at, want := a.until, contentOfEngine(t, e)
	segments := a.segments
	for i := range len(segments) - 1 {
		a.segments = append(append([][]byte(nil), segments[:i]...), segments[i+1:]...)
		if _, err := a.open(at, a.all); err == nil {
			t.Fatalf("the segment %d of %d is not missed", i, len(segments))
		} else {
			mustGap(t, err)
		}
	}
	// Parts that occur twice are applied once.
	a.segments = append(append(append([][]byte(nil), segments[:5]...), segments[2:4]...), segments[3:]...)
	if got := a.contentAt(t, at); got != want {
		t.Fatal("segments that overlap restore another content")
	}
}

// TestBoundLeavesAGap keeps few bytes: the oldest logs go, the reader gets a gap and continues after it.
func TestBoundLeavesAGap(t *testing.T) {
	disk := vfs.NewMem()
	e := openArchived(t, disk, logarchive.Options{Stamp: stamps(), KeepBytes: 5000})
	a := &archived{}
	a.read(t, e, 1<<20, 1)
	fillLogs(t, e, 10, func(k logarchive.Kept) bool { return k.Lost > 0 && k.Files > 0 })
	if k := LogOf(e).Kept(); k.Bytes > 5000 {
		t.Fatalf("%+v", k)
	}
	_, err := LogOf(e).Read(a.at, 1<<20)
	a.at = mustGap(t, err)
	// Pebble removes logs in the background, which may leave another gap.
	await.Until(t, "the reader continues after the gap", func() bool {
		_, err := LogOf(e).Read(a.at, 1<<20)
		if err != nil {
			a.at = mustGap(t, err)
		}
		return err == nil
	})
	a.read(t, e, 1<<20, 1)
	// Kept logs are found again, and go when they are released.
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	e = openArchived(t, disk, logarchive.Options{Stamp: stamps()})
	defer e.Close()
	await.Until(t, "the logs are kept again", func() bool { return LogOf(e).Kept().Files > 1 })
	a.read(t, e, 1<<20, 1)
	LogOf(e).Release(a.at)
	await.Until(t, "the logs are released", func() bool { return LogOf(e).Kept() == logarchive.Kept{} })
	names, err := disk.List("db")
	if err != nil {
		t.Fatal(err)
	}
	logs := 0
	for _, name := range names {
		if strings.HasSuffix(name, ".log") {
			logs++
		}
	}
	if logs != 1 {
		t.Fatalf("%d logs are left: %v", logs, names)
	}
}

// TestFullDiskTakesKeptLogs fills the disk: kept logs are removed, and writes go on.
func TestFullDiskTakesKeptLogs(t *testing.T) {
	var e *Engine
	full := false
	clock := newTestClock()
	e = openTest(t, Options{FS: vfs.NewMem(), Clock: clock, BallastBytes: -1, NoSweep: true, Inline: true,
		Archive: &logarchive.Options{Stamp: stamps()},
		FreeSpace: func() (int64, int64) {
			if full && LogOf(e).Kept().Files > 0 {
				return 0, 1 << 40
			}
			return 1 << 40, 1 << 40
		}})
	defer e.Close()
	fillLogs(t, e, 3, func(k logarchive.Kept) bool { return k.Files >= 3 })
	full = true
	e.disk.Check()
	mustApply(t, e, putRow("k", 1, 2, "x"))
	if k := LogOf(e).Kept(); k.Files != 0 || k.Lost == 0 {
		t.Fatalf("%+v", k)
	}
	fillLogs(t, e, 3, func(k logarchive.Kept) bool { return k.Files >= 1 })
	e.disk.Overflow()
	if k := LogOf(e).Kept(); k.Files != 0 {
		t.Fatalf("%+v", k)
	}
}

// TestPauseOfArchivingIsAGap opens a directory without archiving in between.
func TestPauseOfArchivingIsAGap(t *testing.T) {
	disk, stamp := vfs.NewMem(), stamps()
	a := &archived{}
	for i, archive := range []bool{true, true, false, true} {
		o := Options{FS: disk, NoSweep: true, BallastBytes: -1}
		if archive {
			o.Archive = &logarchive.Options{Stamp: stamp}
		}
		e := openTest(t, o)
		mustApply(t, e, putRow("k", i, 1, "x"))
		switch i {
		case 2:
			if _, err := LogOf(e).Read(a.at, 100); !errors.Is(err, logarchive.ErrOff) {
				t.Fatal(err)
			}
		case 3:
			_, err := LogOf(e).Read(a.at, 100)
			if oldest := mustGap(t, err); oldest.Since <= a.at.Since {
				t.Fatalf("the new archive begins at %s, the old one ended at %s", oldest, a.at)
			}
		default:
			a.read(t, e, 1<<20, 10)
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestArchiveContainsNothingThatACrashTakes writes with and without waiting for the disk, loses power, and continues to
// read from the same position: the log contains exactly what the engine has.
func TestArchiveContainsNothingThatACrashTakes(t *testing.T) {
	for seed := range uint64(tier.Draws(30, 8)) {
		rng, stamp := rand.New(rand.NewPCG(seed, 3)), stamps()
		disk := vfs.NewCrashableMem()
		open := func() *Engine {
			return openTest(t, Options{FS: disk, Inline: true, MemTableBytes: 32 << 10, NoSweep: true, BallastBytes: -1,
				Archive: &logarchive.Options{Stamp: stamp}})
		}
		e, a := open(), &archived{}
		a.checkpoint(t, e, disk, stamp)
		for i := range 200 {
			switch rng.IntN(12) {
			case 0:
				a.read(t, e, 1<<(6+rng.IntN(12)), 1+rng.IntN(20))
			case 1:
				crashed := disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rng})
				if err := e.Close(); err != nil {
					t.Fatal(err)
				}
				disk = crashed
				e = open()
			default:
				value := strings.Repeat("v", rng.IntN(5000))
				mustTake(t, e, []*row.Mutation{putRow("k", i, 1, value)}, rng.IntN(3) == 0, func(error) {})
			}
		}
		a.read(t, e, 1<<20, 1000)
		if got, want := a.contentAt(t, a.until), contentOfEngine(t, e); got != want {
			t.Fatalf("seed %d: %d bytes are restored, not %d, or others", seed, len(got), len(want))
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestUntilIsComplete reads the log while many goroutines write: no batch that follows a segment has a stamp of at most
// its Until.
func TestUntilIsComplete(t *testing.T) {
	e := openArchived(t, vfs.NewMem(), logarchive.Options{Stamp: stamps()})
	defer e.Close()
	var writers sync.WaitGroup
	stop := make(chan struct{})
	for w := range 4 {
		writers.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				if apply(e, putRow(fmt.Sprint(w), i, 1, "x")) != nil || e.SetLocal([]byte{byte(w)}, nil, false) != nil {
					t.Error("a write failed")
					return
				}
			}
		})
	}
	a, batches := &archived{}, 0
	for batches < 3000 && !t.Failed() {
		before := a.until
		a.read(t, e, 1<<20, 1)
		s, err := logarchive.ReadHeader(a.segments[len(a.segments)-1])
		if err != nil {
			t.Fatal(err)
		}
		for r, err := range s.Records() {
			if err != nil {
				t.Fatal(err)
			}
			if batches++; r.Stamp <= before {
				t.Fatalf("a batch has the stamp %d, and the log before was complete until %d", r.Stamp, before)
			}
		}
	}
	close(stop)
	writers.Wait()
}

// TestStampsRiseOverRestarts sets the clock back while no process runs, after all logs with batches were released.
func TestStampsRiseOverRestarts(t *testing.T) {
	disk, a := vfs.NewMem(), &archived{}
	for _, now := range []int64{1000, 10, 2000} {
		var observed int64
		clock := now
		e := openArchived(t, disk, logarchive.Options{
			Stamp:   func() int64 { clock++; return clock },
			Observe: func(stamp int64) error { observed = stamp; return errors.New("refused") },
		})
		mustApply(t, e, putRow("k", 1, 1, "x"))
		if observed < a.until {
			t.Fatalf("the stamp %d was observed, and the log was complete until %d", observed, a.until)
		}
		before, n := a.until, len(a.segments)
		a.read(t, e, 1<<20, 10)
		for _, data := range a.segments[n:] {
			if s, err := logarchive.ReadHeader(data); err != nil || s.First <= before {
				t.Fatalf("a batch has the stamp %d, %v, and the log was complete until %d", s.First, err, before)
			}
		}
		if err := e.Flush(); err != nil {
			t.Fatal(err)
		}
		a.read(t, e, 1<<20, 10)
		LogOf(e).Release(a.at)
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestIngestedRowsOfTheBase ingests rows over a memtable with the same keys, which Pebble notes in its log, before and
// after a checkpoint. The rows of the checkpoint are restored, and those that came later.
func TestIngestedRowsOfTheBase(t *testing.T) {
	source := openTest(t, Options{Inline: true})
	defer source.Close()
	disk, stamp := vfs.NewMem(), stamps()
	e := openArchived(t, disk, logarchive.Options{Stamp: stamp})
	defer e.Close()
	ingest := func(value string, foreign bool) {
		t.Helper()
		mustApply(t, e, putRow("k", 1, 1, "memtable"))
		mustApply(t, source, putRow("k", 1, 5, value), putRow("k", 2, 1, value))
		block, _, err := source.Export(nil, testTable, ring.FullRange(), nil, nil, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		g := e.NewIngestion(testTable, ring.FullRange())
		if foreign {
			g.MarkForeign()
		}
		if err := errors.Join(g.Add(block), g.Commit()); err != nil {
			t.Fatal(err)
		}
	}
	a := &archived{}
	a.read(t, e, 1<<20, 1)
	ingest("first", true)
	a.checkpoint(t, e, disk, stamp)
	want := contentOfEngine(t, e)
	moment := stamp()
	ingest("second", false)
	mustApply(t, e, putRow("k", 3, 1, "third"))
	a.read(t, e, 1<<20, 1)
	if got := a.contentAt(t, moment); got != want {
		t.Fatalf("%q, not %q", got, want)
	}
	if got := a.contentAt(t, a.until); !strings.Contains(got, "third") || !strings.Contains(got, "second") {
		t.Fatalf("%q", got)
	}
	marks := 0
	for _, data := range a.segments {
		s, err := logarchive.ReadHeader(data)
		if err != nil {
			t.Fatal(err)
		}
		for r, err := range s.Records() {
			if err != nil {
				t.Fatal(err)
			}
			if r.Foreign != 0 {
				if marks++; r.Foreign != testTable || r.Stamp == 0 || r.Stamp >= a.moment {
					t.Fatalf("%+v", r)
				}
			}
			if r.Changes && r.Stamp == 0 && len(r.Files) == 0 {
				t.Fatalf("the batch before %s has no stamp", r.End)
			}
		}
	}
	if marks != 1 {
		t.Fatalf("%d notes of foreign rows", marks)
	}
}

// TestChangedLogIsCorrupt changes one bit of a kept log.
func TestChangedLogIsCorrupt(t *testing.T) {
	disk := vfs.NewMem()
	e := openArchived(t, disk, logarchive.Options{Stamp: stamps()})
	defer e.Close()
	for i := range 20 {
		mustApply(t, e, putRow("k", i, 1, strings.Repeat("x", 1000)))
	}
	fillLogs(t, e, 1, func(k logarchive.Kept) bool { return k.Files == 1 })
	s, err := LogOf(e).Read(logarchive.Position{}, 1)
	if err != nil {
		t.Fatal(err)
	}
	flipBitAt(t, disk, disk.PathJoin("db", fmt.Sprintf("%06d.log", s.From.Log)), 5000, 3)
	_, err = LogOf(e).Read(s.To, 1<<20)
	if corrupt := new(failure.CorruptError); !errors.As(err, &corrupt) || !strings.Contains(err.Error(), ".log") {
		t.Fatal(err)
	}
}

// TestLogStart compares the first log that is needed of a checkpoint with the logs of the engine.
func TestLogStart(t *testing.T) {
	disk := vfs.NewMem()
	e := openArchived(t, disk, logarchive.Options{Stamp: stamps()})
	defer e.Close()
	for i := range 5 {
		fillLogs(t, e, 2, func(k logarchive.Kept) bool { return k.Files >= 2*(i+1) })
		mustApply(t, e, putRow("k", i, 1, "x"))
		s, err := LogOf(e).Read(logarchive.Position{}, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		dir := fmt.Sprint("copy", i)
		if err := e.Checkpoint(dir); err != nil {
			t.Fatal(err)
		}
		if log, err := export.LogStart(disk, dir); err != nil || log != s.To.Log {
			t.Fatalf("the log %d, %v, and not %d", log, err, s.To.Log)
		}
	}
}

// TestStampsAllocateNothing compares the allocations of a commit with and without archiving.
func TestStampsAllocateNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	var allocations [2]float64
	for i := range allocations {
		o := Options{Inline: true, Sync: SyncNone}
		if i == 1 {
			o.Archive = &logarchive.Options{Stamp: stamps()}
		}
		e := openTest(t, o)
		ms, done := []*row.Mutation{putRow("k", 1, 1, "x")}, func(error) {}
		commit := func() { mustTake(t, e, ms, false, done) }
		for range 200 {
			commit()
		}
		allocations[i] = testing.AllocsPerRun(500, commit)
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if allocations[1] > allocations[0] {
		t.Errorf("%v allocations with archiving, %v without", allocations[1], allocations[0])
	}
}
