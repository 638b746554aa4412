package storage

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/internal/tier"
	"cqld/ring"
	"cqld/schema"
	"cqld/storage/export"
	"cqld/storage/logarchive"
	"cqld/storage/tableinfo"
)

// stamps returns the Stamp of an archive: one, two, three. The counter survives restarts of the engine.
func stamps() func() int64 {
	var last atomic.Int64
	return func() int64 { return last.Add(1) }
}

// contentOf returns everything that is stored of the test table, as read is Engine.Export or Checkpoint.Append.
func contentOf(t testing.TB, read func(dst, after []byte) (out, next []byte, err error)) string {
	t.Helper()
	var out, after []byte
	for {
		var err error
		if out, after, err = read(out, after); err != nil {
			t.Fatal(err)
		}
		if after == nil {
			return string(out)
		}
	}
}

func contentOfEngine(t testing.TB, e *Engine) string {
	t.Helper()
	return contentOf(t, func(dst, after []byte) (out, next []byte, err error) {
		return e.Export(dst, testTable, ring.FullRange(), nil, after, 1000)
	})
}

// archived is the part of a backup store that belongs to one engine.
type archived struct {
	segments [][]byte
	at       logarchive.Position
	until    int64
	base     *vfs.MemFS // contains the checkpoint "base"; nil means that the log is read from its beginning
	begins   logarchive.Position
	moment   int64 // stamp after the checkpoint
}

// read archives the log of an engine in segments of about n bytes, up to its end or up to reads of them.
func (a *archived) read(t testing.TB, e *Engine, n, reads int) {
	t.Helper()
	for ; reads > 0; reads-- {
		s, err := LogOf(e).Read(a.at, n)
		if err != nil {
			t.Fatal(err)
		}
		if !a.at.IsZero() && s.From != a.at || s.To.Compare(s.From) < 0 {
			t.Fatalf("after %s, a segment from %s to %s", a.at, s.From, s.To)
		}
		a.segments, a.at = append(a.segments, s.Data), s.To
		if s.Until > 0 {
			a.until = s.Until
			return
		}
	}
}

// checkpoint makes the base, as a backup of the engine on disk.
func (a *archived) checkpoint(t testing.TB, e *Engine, disk vfs.FS, stamp func() int64) {
	t.Helper()
	if err := e.Checkpoint("base"); err != nil {
		t.Fatal(err)
	}
	a.moment, a.base = stamp(), vfs.NewMem()
	if err := a.base.MkdirAll("base", 0o700); err != nil {
		t.Fatal(err)
	}
	names, err := disk.List("base")
	for _, name := range names {
		path := disk.PathJoin("base", name)
		err = errors.Join(err, vfs.CopyAcrossFS(disk, path, a.base, path))
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := disk.RemoveAll("base"); err != nil {
		t.Fatal(err)
	}
}

// open opens the base at a moment.
func (a *archived) open(at int64, segments iter.Seq2[[]byte, error]) (*export.Checkpoint, error) {
	o := &export.PointInTime{
		BaseDir: "base", Beginning: a.begins, Scratch: vfs.NewMem(), ScratchDir: "scratch", At: at,
		Segments: segments, FlushBytes: 16 << 20, Log: slog.New(slog.DiscardHandler),
	}
	if a.base != nil {
		o.Base = a.base
	}
	return export.OpenAt(context.Background(), o)
}

// all yields the segments.
func (a *archived) all(yield func([]byte, error) bool) {
	for _, s := range a.segments {
		if !yield(s, nil) {
			return
		}
	}
}

// contentAt returns the content at a moment.
func (a *archived) contentAt(t testing.TB, at int64) string {
	t.Helper()
	c, err := a.open(at, a.all)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}()
	return contentOf(t, func(dst, after []byte) (out, next []byte, err error) {
		return c.Append(dst, &export.Query{Table: testTable, Tokens: ring.FullRange(), After: after, BytesMax: 1000})
	})
}

// TestEachMomentIsRestored does random operations on an engine, with flushes, sweeps, truncations, restarts and
// crashes, archives its log in random segments meanwhile, and restores the engine to random moments after a checkpoint.
// The content equals what the engine had at the moment.
func TestEachMomentIsRestored(t *testing.T) {
	for seed := uint64(1); seed <= uint64(tier.Draws(16, 4)); seed++ {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) { restoreMoments(t, seed) })
	}
}

func restoreMoments(t *testing.T, seed uint64) {
	m := &meta{t: t, rng: rand.New(rand.NewPCG(seed, 7)), clock: newTestClock(), disk: vfs.NewCrashableMem()}
	info := tableinfo.Info{Exists: true, GCGraceSeconds: metaGrace, GC: tableinfo.GCTimeout}
	m.model.GCBefore = info.GCBefore
	stamp := stamps()
	m.opts = Options{
		Clock: m.clock, Inline: seed%2 == 0, MemTableBytes: 1 << (14 + m.rng.IntN(5)), NoSweep: true,
		Table: func(schema.StorageID) tableinfo.Info { return info }, purgeRangeMin: m.rng.IntN(4),
		Archive: &logarchive.Options{Stamp: stamp},
	}
	m.rising, m.encrypts = m.rng.IntN(2) == 0, seed%3 == 1
	m.open()
	defer func() { m.engine.Close() }()
	moments := map[int64]string{}
	a := &archived{}
	based := m.rng.IntN(200)
	for i := range 400 {
		switch n := m.rng.IntN(100); {
		case n < 60:
			m.apply()
		case n < 65: // spans several blocks of the log
			m.apply()
			mustApply(t, m.engine, putRow("large", i, int64(i), strings.Repeat("x", m.rng.IntN(100_000))))
		case n < 85:
			m.disturb(940 + m.rng.IntN(60))
		default:
			a.read(t, m.engine, 1<<m.rng.IntN(20), 1+m.rng.IntN(50))
			if m.rng.IntN(2) == 0 {
				LogOf(m.engine).Release(a.at)
			}
		}
		if i == based {
			a.checkpoint(t, m.engine, m.opts.FS, stamp)
		}
		if i > based && m.rng.IntN(10) == 0 {
			// State that a crash cannot undo.
			m.check("sync", m.engine.SetLocal([]byte("synced"), nil, true))
			moments[stamp()] = contentOfEngine(t, m.engine)
		}
		if t.Failed() {
			t.FailNow()
		}
	}
	a.read(t, m.engine, 1<<20, 1000)
	left := 6
	for at, want := range moments { // in random order
		if got := a.contentAt(t, at); got != want {
			t.Fatalf("seed %d: at %d (checkpoint: %d), the content has %d bytes, not %d, or others", seed, at, a.moment,
				len(got), len(want))
		}
		if left--; left == 0 {
			return
		}
	}
}

// TestIngestedRowsAreLogged ships rows to an engine that archives its log from its beginning, with truncations, and
// restores each moment from the log alone, as the moments of a node that has joined after a backup.
func TestIngestedRowsAreLogged(t *testing.T) {
	source := openTest(t, Options{Inline: true})
	defer source.Close()
	rng := rand.New(rand.NewPCG(3, 1))
	disk, stamp := vfs.NewMem(), stamps()
	e := openArchived(t, disk, logarchive.Options{Stamp: stamp})
	defer func() { e.Close() }()
	a, moments := &archived{}, map[int64]string{}
	a.begins, _ = LogOf(e).Beginning()
	for i := range 30 {
		// Some files have several parts.
		value := strings.Repeat("v", 1+rng.IntN(40_000)*(i%3))
		mustApply(t, source, putRow(fmt.Sprint("k", i%7), i, int64(i), value))
		mustApply(t, e, putRow("own", i, int64(i), "v"))
		ship(t, rng, source, e, ring.FullRange())
		if i%9 == 5 {
			if err := e.Truncate(testTable); err != nil {
				t.Fatal(err)
			}
		}
		moments[stamp()] = contentOfEngine(t, e)
		a.read(t, e, 1<<17, 1+rng.IntN(3))
		if i == 20 {
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
			e = openArchived(t, disk, logarchive.Options{Stamp: stamp})
		}
	}
	a.read(t, e, 1<<20, 100)
	if begins, ok := LogOf(e).Beginning(); !ok || begins != a.begins || begins.IsZero() {
		t.Errorf("the log begins at %v, began at %v, %v", begins, a.begins, ok)
	}
	for at, want := range moments {
		if got := a.contentAt(t, at); got != want {
			t.Errorf("at %d, the content has %d bytes, not %d, or others", at, len(got), len(want))
		}
	}
}
