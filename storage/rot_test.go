package storage

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/internal/tier"
	"cqld/schema"
	"cqld/storage/tableinfo"
)

// flipsFlag is for long runs by hand.
var flipsFlag = flag.Int("flips", 0, "bits that TestFlippedBitsOfAllFiles changes")

// diskOf returns the file system of an engine whose files are in mem.
type diskOf func(mem *vfs.MemFS) vfs.FS

// inClear is a diskOf whose files are not encrypted.
func inClear(mem *vfs.MemFS) vfs.FS { return mem }

// rotOptions are the options of the engines whose files are changed.
func rotOptions(mem vfs.FS) Options {
	return Options{FS: mem, Dir: "db", Clock: newTestClock(), Inline: true, blockBytes: 1 << 10,
		Table: func(schema.StorageID) tableinfo.Info { return tableinfo.Info{Exists: true, GC: tableinfo.GCDisabled} }}
}

// rotDisk returns the disk of an engine that was killed: with files of two levels, and rows and local keys that are in
// the log only.
func rotDisk(t *testing.T, disk diskOf) *vfs.MemFS {
	t.Helper()
	mem := vfs.NewCrashableMem()
	e := openTest(t, rotOptions(disk(mem)))
	for round := range 4 {
		for i := range 60 {
			mustApply(t, e, putRow(fmt.Sprint("key", i%20), i, int64(1+round), fmt.Sprintf("value %d of %d", i, round)))
			if err := e.SetLocal(fmt.Appendf(nil, "test.%02d", i), fmt.Appendf(nil, "%d", round), true); err != nil {
				t.Fatal(err)
			}
		}
		var err error
		switch round {
		case 1:
			err = e.CompactTable(t.Context(), testTable, nil)
		case 0, 2:
			err = e.Flush()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	killed := mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 2))})
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	return killed
}

// rotContent returns all rows and local keys of an engine.
func rotContent(t *testing.T, e *Engine) (all []string, err error) {
	page, err := e.Read(nil, readAll())
	if err != nil {
		return nil, err
	}
	all = rows(t, page)
	err = e.ScanLocal([]byte("test."), func(key, value []byte) error {
		all = append(all, fmt.Sprintf("%s=%s", key, value))
		return nil
	})
	return all, err
}

// TestFlippedBitsOfAllFiles changes one bit of one file of an engine that was killed. The engine does not open, or its
// reads fail, with an error that names the file; or nothing has changed.
func TestFlippedBitsOfAllFiles(t *testing.T) { flippedBitsOfAllFiles(t, inClear, 0) }

// TestFlippedBitsOfEncryptedFiles is TestFlippedBitsOfAllFiles with encrypted files. Half of the bits are in the fields
// of headers.
func TestFlippedBitsOfEncryptedFiles(t *testing.T) {
	flippedBitsOfAllFiles(t, func(mem *vfs.MemFS) vfs.FS { return encrypted(t, mem) }, 96)
}

// flippedBitsOfAllFiles changes bits. Half of them are in the first headerBytes of files, if it is not 0.
func flippedBitsOfAllFiles(t *testing.T, disk diskOf, headerBytes int64) {
	base := rotDisk(t, disk)
	clone := func() *vfs.MemFS { return base.CrashClone(vfs.CrashCloneCfg{}) }
	e := openTest(t, rotOptions(disk(clone())))
	want, err := rotContent(t, e)
	if err := errors.Join(err, e.Close()); err != nil {
		t.Fatal(err)
	}
	names, err := base.List("db")
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	// The last write was a local key. That it was synced is known only if another write follows it.
	last := slices.Clone(want)
	for i, x := range last {
		if x == "test.59=3" {
			last[i] = "test.59=2"
		}
	}
	outcomes := map[string]int{}
	rng := rand.New(rand.NewPCG(3, 4))
	n := *flipsFlag
	if n == 0 {
		n = tier.Draws(600, 60)
	}
	for i := range n {
		mem, name := clone(), names[i%len(names)]
		info, err := mem.Stat(mem.PathJoin("db", name))
		if err != nil {
			t.Fatal(err)
		}
		if info.Size() == 0 {
			continue
		}
		at, bit := rng.Int64N(info.Size()), rng.IntN(8)
		if headerBytes > 0 && rng.IntN(2) == 0 {
			at %= headerBytes
		}
		flipBitAt(t, mem, mem.PathJoin("db", name), at, bit)
		kind := path.Ext(name)
		if kind == "" {
			kind = strings.SplitN(name, "-", 2)[0]
		}
		got, err := rotOutcome(t, disk(mem))
		switch {
		case err != nil && !strings.Contains(err.Error(), name):
			t.Errorf("%s, byte %d of %d, bit %d: the error does not name it: %v", name, at, info.Size(), bit, err)
		case err != nil:
			outcomes[kind+" refused"]++
		case slices.Equal(got, want):
			outcomes[kind+" same"]++
		case kind == ".log" && slices.Equal(got, last):
			outcomes[kind+" without the last write"]++
		default:
			t.Errorf("%s, byte %d of %d, bit %d: entries %v", name, at, info.Size(), bit, got)
		}
	}
	t.Log(outcomes)
	for _, kind := range []string{".log", ".sst", "MANIFEST", "OPTIONS", "CQLD_FORMAT"} {
		if n >= 600 && outcomes[kind+" refused"] == 0 {
			t.Errorf("no changed bit was found in a file of kind %s", kind)
		}
	}
}

// rotOutcome opens an engine and returns its content. A panic is an error.
func rotOutcome(t *testing.T, disk vfs.FS) (all []string, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	e, err := Open(rotOptions(disk))
	if err != nil {
		return nil, err
	}
	defer func() { _ = e.Close() }()
	return rotContent(t, e)
}
