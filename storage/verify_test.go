package storage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/ring"
	"cqld/schema"
	"cqld/storage/database"
	"cqld/storage/failure"
	"cqld/storage/rowkey"
	"cqld/storage/tableinfo"
)

// everything verifies at once and expects the progress to reach its total.
func everything(t *testing.T, e *Engine, tables ...schema.StorageID) database.Verified {
	t.Helper()
	var last, all int64
	v, err := e.Verify(t.Context(), database.Verification{
		Tables: tables,
		Wait:   func(context.Context, int) error { return nil },
		Progress: func(done, total int64, _ uint64) {
			if done < last || done > total {
				t.Errorf("progress %d of %d after %d", done, total, last)
			}
			last, all = done, total
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if last != all {
		t.Errorf("progress ended at %d of %d", last, all)
	}
	return v
}

// TestVerifyFindsEveryBit changes each of many bits of a file in turn. The node must notice when it opens the file, or
// Verify must find it, unless the bit is one that no reader uses. After the quarantine, a verification finds nothing.
func TestVerifyFindsEveryBit(t *testing.T) {
	verifyFindsEveryBit(t, inClear, flips*3/4)
}

// TestVerifyFindsEveryEncryptedBit is TestVerifyFindsEveryBit with encrypted files. The first bit is one of the magic
// of the header, and most of the page of the header is not read.
func TestVerifyFindsEveryEncryptedBit(t *testing.T) {
	verifyFindsEveryBit(t, func(mem *vfs.MemFS) vfs.FS { return encrypted(t, mem) }, flips/3)
}

// verifyFindsEveryBit changes bits of files of a file system that disk returns. At least foundMin must be found.
func verifyFindsEveryBit(t *testing.T, disk diskOf, foundMin int) {
	found := 0
	for flip := range flips {
		mem := vfs.NewMem()
		options := Options{FS: disk(mem), blockBytes: 1 << 10, Table: func(schema.StorageID) tableinfo.Info {
			return tableinfo.Info{Exists: true, GC: tableinfo.GCDisabled}
		}}
		e := openTest(t, options)
		for i := range 300 {
			mustApply(t, e, putRow(fmt.Sprint("key", i), i, 1, strings.Repeat("value", 20)))
		}
		if err := errors.Join(e.Flush(), e.Close()); err != nil {
			t.Fatal(err)
		}
		name := flipBit(t, mem, flip)
		e = openTest(t, options)
		v := everything(t, e)
		if len(v.Corrupt) == 0 {
			if _, err := e.Read(nil, readKey("key17")); err != nil {
				t.Errorf("bit %d: not found, but: %v", flip, err)
			}
			e.Close()
			continue
		}
		found++
		if len(v.Corrupt) != 1 || !strings.HasSuffix(v.Corrupt[0], name) || len(e.Corruptions()) != 1 {
			t.Errorf("bit %d of %s: found %v, known %v", flip, name, v.Corrupt, e.Corruptions())
		}
		if _, err := e.Quarantine(); err != nil {
			t.Fatalf("bit %d: %v", flip, err)
		}
		if again := everything(t, e); len(again.Corrupt) > 0 || len(e.Corruptions()) > 0 {
			t.Errorf("bit %d: after the quarantine, found %v", flip, again.Corrupt)
		}
		e.Close()
	}
	if found < foundMin {
		t.Errorf("only %d of %d changed bits were found", found, flips)
	}
}

// TestVerifyReadsTheFilesOfItsTables has one file for each of three tables. The second and the third are corrupt.
func TestVerifyReadsTheFilesOfItsTables(t *testing.T) {
	mem := vfs.NewMem()
	options := Options{FS: mem, blockBytes: 1 << 10, Table: func(schema.StorageID) tableinfo.Info {
		return tableinfo.Info{Exists: true, GC: tableinfo.GCDisabled}
	}}
	e := openTest(t, options)
	var ids []schema.StorageID
	for i := range 3 {
		id := testTable + schema.StorageID(i)
		ids = append(ids, id)
		for k := range 300 {
			m := putRow(fmt.Sprint("key", k), k, 1, strings.Repeat("value", 20))
			m.Table = id
			mustApply(t, e, m)
		}
		// In the lowest level, files of different tables are not merged.
		if err := errors.Join(e.Flush(), e.CompactTable(t.Context(), id, nil)); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	names, err := mem.List("db")
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	var large []string
	for _, name := range names {
		info, err := mem.Stat(mem.PathJoin("db", name))
		// The files with the node's own data are small.
		if err == nil && strings.HasSuffix(name, ".sst") && info.Size() > 4<<10 {
			large = append(large, name)
		}
	}
	if len(large) != len(ids) {
		t.Fatalf("%d files %v for %d tables", len(large), large, len(ids))
	}
	for _, name := range large[1:] {
		flipAt(t, mem, mem.PathJoin("db", name), flips/3)
	}
	e = openTest(t, options)
	defer e.Close()
	for _, test := range []struct {
		tables  []schema.StorageID
		corrupt int
	}{{ids[:1], 0}, {ids[1:2], 1}, {[]schema.StorageID{ids[0], ids[2]}, 1}, {nil, 2}} {
		v := everything(t, e, test.tables...)
		if len(v.Corrupt) != test.corrupt || len(test.tables) > 0 && v.Files != len(test.tables) {
			t.Errorf("tables %v: %+v, want %d corrupt files", test.tables, v, test.corrupt)
		}
	}
}

// TestVerifyStopsAndContinues ends a verification in a read, and continues after the last file that was read.
func TestVerifyStopsAndContinues(t *testing.T) {
	e := openTest(t, Options{FS: vfs.NewMem()})
	defer e.Close()
	const files = 4
	for i := range files {
		mustApply(t, e, putRow(fmt.Sprint("key", i), i, 1, "value"))
		if err := e.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	var read []uint64
	o := database.Verification{
		Wait: func(ctx context.Context, _ int) error {
			if len(read) == 2 {
				cancel()
			}
			return ctx.Err()
		},
		Progress: func(_, _ int64, file uint64) { read = append(read, file) },
	}
	if _, err := e.Verify(ctx, o); !errors.Is(err, context.Canceled) || len(e.Corruptions()) > 0 {
		t.Fatalf("%v, corrupt %v", err, e.Corruptions())
	}
	if len(read) != 2 {
		t.Fatalf("read %v before the end", read)
	}
	o.After, o.Wait = read[1], func(context.Context, int) error { return nil }
	if _, err := e.Verify(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if len(read) < files || !slices.IsSorted(read) || len(slices.Compact(slices.Clone(read))) != len(read) {
		t.Errorf("read %v", read)
	}
}

// TestVerifyFindsAllPartsOfAFile corrupts both parts of a file whose middle was removed. One quarantine covers both.
func TestVerifyFindsAllPartsOfAFile(t *testing.T) {
	mem := vfs.NewMem()
	options := Options{FS: mem, blockBytes: 1 << 10, Table: func(schema.StorageID) tableinfo.Info {
		return tableinfo.Info{Exists: true, GC: tableinfo.GCDisabled}
	}}
	e := openTest(t, options)
	for i := range 300 {
		mustApply(t, e, putRow(fmt.Sprint("key", i), i, 1, strings.Repeat("value", 20)))
	}
	if err := e.Flush(); err != nil {
		t.Fatal(err)
	}
	lower, upper, _ := rowkey.Bounds(nil, nil, testTable, ring.Range{Start: -1 << 60, End: 1 << 60})
	if err := errors.Join(e.db.Excise(t.Context(), pebble.KeyRange{Start: lower, End: upper}), e.Close()); err != nil {
		t.Fatal(err)
	}
	name := flipBit(t, mem, flips/5)
	flipAt(t, mem, mem.PathJoin("db", name), flips*3/4)
	e = openTest(t, options)
	defer e.Close()
	if v := everything(t, e); len(v.Corrupt) != 1 || len(e.Corruptions()) != 2 {
		t.Fatalf("found %v, known %v", v.Corrupt, e.Corruptions())
	}
	if lost, err := e.Quarantine(); err != nil || len(lost) != 2 {
		t.Fatalf("lost %v, %v", lost, err)
	}
	if again := everything(t, e); len(again.Corrupt) > 0 || len(e.Corruptions()) > 0 {
		t.Errorf("after the quarantine, found %v", again.Corrupt)
	}
}

// TestVerifyFindsRangeDeletionsOfAPart corrupts the range deletions of a file whose middle was removed. The blocks with
// rows are sound.
func TestVerifyFindsRangeDeletionsOfAPart(t *testing.T) {
	mem := vfs.NewMem()
	e := openTest(t, Options{FS: mem})
	batch := e.db.NewBatch()
	lower, upper, _ := rowkey.Bounds(nil, nil, testTable, ring.Range{Start: 1 << 61, End: 1 << 62})
	if err := errors.Join(batch.DeleteRange(lower, upper, nil), e.db.Apply(batch, pebble.Sync)); err != nil {
		t.Fatal(err)
	}
	for i := range 300 {
		mustApply(t, e, putRow(fmt.Sprint("key", i), i, 1, "value"))
	}
	lower, upper, _ = rowkey.Bounds(nil, nil, testTable, ring.Range{Start: -1 << 60, End: 1 << 60})
	if err := errors.Join(e.Flush(), e.db.Excise(t.Context(), pebble.KeyRange{Start: lower, End: upper})); err != nil {
		t.Fatal(err)
	}
	if v := everything(t, e); len(v.Corrupt) > 0 {
		t.Fatalf("before the change, found %v", v.Corrupt)
	}
	at := int64(-1)
	levels, err := e.db.SSTables()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range slices.Concat(levels...) {
		if !f.Virtual {
			continue
		}
		path := mem.PathJoin("db", fmt.Sprintf("%06d.sst", f.BackingSSTNum))
		if at = rangeDeletionsAt(t, e, mem, path); at >= 0 {
			flipBitAt(t, mem, path, at, 0)
			break
		}
	}
	if at < 0 {
		t.Fatal("no part of a file has range deletions")
	}
	if v := everything(t, e); len(v.Corrupt) != 1 {
		t.Errorf("found %v", v.Corrupt)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
}

// rangeDeletionsAt returns the offset of a file's range deletions, or -1.
func rangeDeletionsAt(t *testing.T, e *Engine, mem *vfs.MemFS, path string) int64 {
	t.Helper()
	f, err := mem.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	readable, err := sstable.NewSimpleReadable(f)
	if err != nil {
		t.Fatal(err)
	}
	r, err := sstable.NewReader(t.Context(), readable, e.db.Format.MakeReaderOptions())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	l, err := r.Layout()
	if err != nil {
		t.Fatal(err)
	}
	if l.RangeDel.Length == 0 {
		return -1
	}
	return int64(l.RangeDel.Offset)
}

// TestVerifyReportsMissingFiles removes a file that is in use.
func TestVerifyReportsMissingFiles(t *testing.T) {
	mem := vfs.NewMem()
	e := openTest(t, Options{FS: mem})
	defer e.Close()
	mustApply(t, e, putRow("key", 1, 1, "value"))
	if err := e.Flush(); err != nil {
		t.Fatal(err)
	}
	names, err := mem.List("db")
	if err != nil {
		t.Fatal(err)
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !strings.HasSuffix(name, ".sst") })
	for _, name := range names {
		if err := mem.Remove(mem.PathJoin("db", name)); err != nil {
			t.Fatal(err)
		}
	}
	_, err = e.Verify(t.Context(), database.Verification{
		Wait:     func(context.Context, int) error { return nil },
		Progress: func(int64, int64, uint64) {},
	})
	if len(names) == 0 || !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), names[0]) {
		t.Errorf("without %v: %v", names, err)
	}
}

// TestVerifyReportsDisksThatCannotRead fails the reads of one file. This is not corruption: the rows may be intact.
func TestVerifyReportsDisksThatCannotRead(t *testing.T) {
	e := openTest(t, Options{FS: vfs.NewMem()})
	defer e.Close()
	mustApply(t, e, putRow("key", 1, 1, "value"))
	if err := e.Flush(); err != nil {
		t.Fatal(err)
	}
	_, err := e.Verify(t.Context(), database.Verification{
		Wait:     func(context.Context, int) error { return errDisk },
		Progress: func(int64, int64, uint64) {},
	})
	if !errors.Is(err, errDisk) || !strings.Contains(err.Error(), ".sst") || errors.Is(err, failure.ErrCorrupt) {
		t.Errorf("%v", err)
	}
	if len(e.Corruptions()) > 0 || len(e.Lost()) > 0 {
		t.Errorf("corrupt %v, lost %v", e.Corruptions(), e.Lost())
	}
	if got := rows(t, mustRead(t, e, readKey("key"))); len(got) != 1 {
		t.Errorf("%v", got)
	}
}
