package storage

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/ring"
	"cqld/storage/faultfs"
)

// TestFlushUntilEndsWithItsContext flushes on a disk that takes no files of rows: Pebble retries, and the caller
// continues when its context ends. The flush ends when the disk takes files again.
func TestFlushUntilEndsWithItsContext(t *testing.T) {
	disk := faultfs.Wrap(vfs.NewMem())
	e := openTest(t, Options{FS: disk, BallastBytes: -1, Logger: slog.New(slog.DiscardHandler)})
	if err := apply(e, putRow("k", 1, 1, "x")); err != nil {
		t.Fatal(err)
	}
	disk.Fail(func(op faultfs.Op, file string) error {
		if op == faultfs.OpCreate && strings.HasSuffix(file, ".sst") {
			return errDisk
		}
		return nil
	})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	within(t, "the flush", func() {
		if err := e.FlushUntil(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the flush ends with %v", err)
		}
	})
	disk.Fail(nil)
	if err := e.FlushUntil(t.Context()); err != nil {
		t.Error(err)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}

// TestInlineIngestionsMeetNoFlush checks that in an engine with Options.Inline, what an ingestion does does not depend
// on the progress of Pebble's flushes: a value that was written without a sync between two ingestions survives a power
// cut always or never.
func TestInlineIngestionsMeetNoFlush(t *testing.T) {
	source := openTest(t, Options{FS: vfs.NewMem(), Inline: true})
	defer source.Close()
	for i := range 20 {
		if err := apply(source, putRow("k", i, 1, "x")); err != nil {
			t.Fatal(err)
		}
	}
	block, _, err := source.Export(nil, testTable, ring.FullRange(), nil, nil, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	survived := 0
	const runs = 60
	for range runs {
		if survivesPowerCut(t, block) {
			survived++
		}
	}
	if survived != 0 && survived != runs {
		t.Errorf("the value survived %d of %d power cuts", survived, runs)
	}
}

// survivesPowerCut writes a value without a sync between two ingestions of a block, and reports whether it is there
// after a power cut.
func survivesPowerCut(t *testing.T, block []byte) bool {
	t.Helper()
	disk := vfs.NewCrashableMem()
	e := openTest(t, Options{FS: disk, Inline: true})
	defer e.Close()
	ingest := func() {
		g := e.NewIngestion(testTable, ring.FullRange())
		if err := g.Add(block); err != nil {
			t.Fatal(err)
		}
		if err := g.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 20 {
		if err := apply(e, putRow("k", i, 1, "y")); err != nil { // the ingestion overlaps the memtable
			t.Fatal(err)
		}
	}
	ingest()
	if err := e.SetLocal([]byte("unsynced"), []byte("value"), false); err != nil {
		t.Fatal(err)
	}
	ingest()
	after := openTest(t, Options{FS: disk.CrashClone(vfs.CrashCloneCfg{}), Inline: true})
	defer after.Close()
	value, err := after.GetLocal([]byte("unsynced"))
	if err != nil {
		t.Fatal(err)
	}
	return value != nil
}
