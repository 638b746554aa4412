package storage

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/storage/database"
	"cqld/storage/failure"
	"cqld/storage/rowkey"
	"cqld/storage/tableinfo"
)

// TestLostRangeIsNotReadUntilItIsLifted corrupts a file, puts it in quarantine, restarts, repairs by hand.
func TestLostRangeIsNotReadUntilItIsLifted(t *testing.T) {
	mem := vfs.NewMem()
	clock := newTestClock()
	info := func(id schema.StorageID) tableinfo.Info {
		return tableinfo.Info{Exists: id == testTable || id == testTable+1, GC: tableinfo.GCDisabled}
	}
	options := Options{FS: mem, Inline: true, Clock: clock, Table: info}
	e := openTest(t, options)
	var ms []*row.Mutation
	for i := range 300 {
		m := putRow(fmt.Sprint("key", i), i, 1, fmt.Sprint("value", i))
		mustApply(t, e, m)
		ms = append(ms, m)
	}
	if err := errors.Join(e.Flush(), e.Close()); err != nil {
		t.Fatal(err)
	}
	flipBit(t, mem, flips/3)
	e = openTest(t, options)
	all := &row.ReadCommand{Table: testTable, Range: row.KeyRange{Tokens: ring.FullRange()},
		Slices: []row.Slice{row.AllRows()}}
	other := &row.ReadCommand{Table: testTable + 1, Range: all.Range, Slices: all.Slices}
	if _, err := e.Read(nil, all); !errors.Is(err, failure.ErrCorrupt) {
		t.Fatalf("read of a corrupt file: %v", err)
	}
	lost, err := e.Quarantine()
	if err != nil || len(lost) != 1 || lost[0].Table != testTable || len(e.db.Corruptions()) != 0 {
		t.Fatalf("lost %v, %v", lost, err)
	}
	if err := errors.Join(e.Lift(testTable, ring.FullRange(), lost[0].Number-1), e.Close()); err != nil {
		t.Fatal(err)
	}
	e = openTest(t, options)
	defer e.Close()
	lost[0].Number = 0 // of an earlier process
	if got := e.Lost(); len(got) != 1 || got[0] != lost[0] {
		t.Fatalf("after an earlier repair and a restart, lost is %v, not %v", got, lost)
	}
	check := func(when string, corrupt bool) {
		t.Helper()
		_, err := e.Read(nil, all)
		_, one := e.Read(nil, readKey("key17"))
		_, _, export := e.Export(nil, testTable, ring.FullRange(), nil, nil, 1000)
		for _, err := range []error{err, one, export} {
			if errors.Is(err, failure.ErrCorrupt) != corrupt || !corrupt && err != nil {
				t.Errorf("%s: %v", when, err)
			}
		}
		if _, err := e.Read(nil, other); err != nil {
			t.Errorf("%s: another table: %v", when, err)
		}
	}
	check("lost", true)
	mustApply(t, e, ms...) // as a repair does, whose reads must get through
	repair := *all
	repair.Repair = new(row.Repair)
	page, err := e.Read(nil, &repair)
	if got := rows(t, page); err != nil || len(got) != 300 {
		t.Fatalf("%d rows, %v", len(got), err)
	}
	check("written", true)
	if err := e.Lift(testTable, ring.Range{Start: 5, End: 4}, e.LastLoss()); err != nil {
		t.Fatal(err)
	}
	if got := e.Lost(); len(got) != 1 || got[0].Tokens != (ring.Range{Start: 4, End: 5}) {
		t.Fatalf("all but one token was lifted: %v", got)
	}
	if err := e.Lift(testTable, ring.FullRange(), e.LastLoss()); err != nil {
		t.Fatal(err)
	}
	check("lifted", false)
}

// wallClock is a clock whose wall time can be set.
type wallClock struct {
	*testClock
	ahead time.Duration
}

// Now implements env.Clock.
func (c *wallClock) Now() time.Time { return c.testClock.Now().Add(c.ahead) }

// TestLiftKeepsLaterLosses loses files before and after a repair begins, while the wall clock stands still and is set
// back. The repair restores only what was lost before it.
func TestLiftKeepsLaterLosses(t *testing.T) {
	clock := &wallClock{newTestClock(), time.Hour}
	exists := func(id schema.StorageID) tableinfo.Info {
		return tableinfo.Info{Exists: id >= testTable && id <= testTable+1, GC: tableinfo.GCDisabled}
	}
	e := openTest(t, Options{Inline: true, Clock: clock, Table: exists})
	defer e.Close()
	lose := func(path string, id schema.StorageID) {
		t.Helper()
		e.db.Corrupted(database.CorruptionInfo{Path: path, Start: rowkey.AppendTable(nil, id),
			End: rowkey.AppendPartition(nil, id, row.NewPartitionKey([]byte("key"))), Err: errDisk})
		if lost, err := e.Quarantine(); err != nil || len(lost) != 1 {
			t.Fatalf("lost %v, %v", lost, err)
		}
	}
	paths := func() (all []string) {
		for _, x := range e.Lost() {
			all = append(all, x.Path)
		}
		return all
	}
	lose("1", testTable)
	lose("2", testTable+1)
	begun := e.LastLoss()
	lose("3", testTable) // at the time of the others
	clock.ahead = 0
	lose("4", testTable)
	if err := e.Lift(testTable, ring.FullRange(), begun); err != nil {
		t.Fatal(err)
	}
	if got, want := paths(), []string{"2", "3", "4"}; !slices.Equal(got, want) {
		t.Errorf("after the repair, files %v are lost, want %v", got, want)
	}
	if err := e.Lift(testTable, ring.FullRange(), e.LastLoss()); err != nil {
		t.Fatal(err)
	}
	if got, want := paths(), []string{"2"}; !slices.Equal(got, want) {
		t.Errorf("after the next repair, files %v are lost, want %v", got, want)
	}
}

// TestQuarantineKeepsOtherTables corrupts one block of a file that reaches from table 1 to table 3 and has nothing of
// table 2. Table 2 is in another file, and most of table 1 and all of table 3 can be read.
func TestQuarantineKeepsOtherTables(t *testing.T) {
	const first, between, last = testTable, testTable + 1, testTable + 2
	mem := vfs.NewMem()
	options := Options{FS: mem, Inline: true, blockBytes: 1 << 10, Table: func(id schema.StorageID) tableinfo.Info {
		return tableinfo.Info{Exists: id >= first && id <= last, GC: tableinfo.GCDisabled}
	}}
	e := openTest(t, options)
	put := func(table schema.StorageID) {
		for i := range 300 {
			m := putRow(fmt.Sprint("key", i), i, 1, fmt.Sprint("value", i))
			m.Table = table
			mustApply(t, e, m)
		}
	}
	put(between)
	if err := e.Flush(); err != nil {
		t.Fatal(err)
	}
	put(first)
	put(last)
	if err := errors.Join(e.Flush(), e.Close()); err != nil {
		t.Fatal(err)
	}
	flipBit(t, mem, flips/6) // in the first table
	e = openTest(t, options)
	defer e.Close()
	read := func(table schema.StorageID, tokens ring.Range) ([]byte, error) {
		return e.Read(nil, &row.ReadCommand{Table: table, Range: row.KeyRange{Tokens: tokens},
			Slices: []row.Slice{row.AllRows()}})
	}
	if _, err := read(first, ring.FullRange()); !errors.Is(err, failure.ErrCorrupt) {
		t.Fatalf("read of a corrupt file: %v", err)
	}
	lost, err := e.Quarantine()
	if err != nil || len(lost) != 1 || lost[0].Table != first {
		t.Fatalf("lost %v, %v", lost, err)
	}
	for _, table := range []schema.StorageID{between, last} {
		page, err := read(table, ring.FullRange())
		if err != nil || len(rows(t, page)) != 300 {
			t.Errorf("table %d has %d rows of 300, error %v", table, len(rows(t, page)), err)
		}
	}
	left := 0
	for _, tokens := range []ring.Range{{Start: ring.MinToken, End: lost[0].Tokens.Start},
		{Start: lost[0].Tokens.End, End: ring.MinToken}} {
		page, err := read(first, tokens)
		if err != nil {
			t.Errorf("tokens %v: %v", tokens, err)
			continue
		}
		left += len(rows(t, page))
	}
	if left < 200 || left == 300 {
		t.Errorf("%d rows of 300 are left outside %v, which was one block", left, lost[0].Tokens)
	}
}

// TestQuarantineNeverDropsLocalKeys corrupts each part of a file that begins with local keys of the node and has rows
// of a system table after them; tables of users are in other files. Quarantine keeps all local keys, or it fails: if
// the block with the border is corrupt, the removal could not read where they end.
func TestQuarantineNeverDropsLocalKeys(t *testing.T) {
	const keys, table = 60, schema.FirstStorageID - 1
	info := func(id schema.StorageID) tableinfo.Info {
		return tableinfo.Info{Exists: id == table, GC: tableinfo.GCDisabled}
	}
	options := Options{Dir: "db", Clock: newTestClock(), Inline: true, blockBytes: 512, Table: info}
	rng := rand.New(rand.NewPCG(1, 2))
	value := func() string { return fmt.Sprintf("%x", [2]uint64{rng.Uint64(), rng.Uint64()}) }
	base := vfs.NewCrashableMem()
	options.FS = base
	e := openTest(t, options)
	for i := range keys {
		if err := e.SetLocal(fmt.Appendf(nil, "test.%03d", i), []byte(value()), true); err != nil {
			t.Fatal(err)
		}
		m := putRow(fmt.Sprint("key", i), i, 1, value())
		m.Table = table
		mustApply(t, e, m)
	}
	if err := errors.Join(e.Flush(), e.Close()); err != nil {
		t.Fatal(err)
	}
	refused, removed := 0, 0
	for flip := range flips {
		options.FS = base.CrashClone(vfs.CrashCloneCfg{})
		flipBit(t, options.FS.(*vfs.MemFS), flip)
		e, err := Open(options)
		if err != nil {
			continue // the node does not start
		}
		local := func() (found int, err error) {
			err = e.ScanLocal([]byte("test."), func(_, _ []byte) error { found++; return nil })
			return found, err
		}
		_, _ = local()
		_, _ = e.Read(nil, &row.ReadCommand{Table: table, Range: row.KeyRange{Tokens: ring.FullRange()},
			Slices: []row.Slice{row.AllRows()}})
		corrupt := len(e.Corruptions()) > 0
		_, err = e.Quarantine()
		switch {
		case err != nil:
			refused++
			if len(e.Lost()) > 0 {
				t.Errorf("flip %d: %v are lost, and nothing was removed: %v", flip, e.Lost(), err)
			}
		case corrupt:
			removed++
		}
		if found, err := local(); err == nil && found != keys {
			t.Errorf("flip %d: %d local keys of %d", flip, found, keys)
		}
		_ = e.Close()
	}
	if refused == 0 || removed == 0 {
		t.Errorf("%d files were refused, and a part of %d was removed", refused, removed)
	}
}

// replacingFS calls replace once, before a file with rows is opened.
type replacingFS struct {
	vfs.FS
	replace func()
}

func (fs *replacingFS) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	if replace := fs.replace; replace != nil && strings.HasSuffix(name, ".sst") {
		fs.replace = nil
		replace()
	}
	return fs.FS.Open(name, opts...)
}

// TestQuarantineBesideACompaction compacts all files while a quarantine is about to read one of them, whose rows are on
// both sides of the boundary. The removal must not fail because the file no longer exists.
func TestQuarantineBesideACompaction(t *testing.T) {
	mem := vfs.NewMem()
	disk := &replacingFS{FS: mem}
	e := openTest(t, Options{FS: disk, Inline: true})
	defer e.Close()
	// Two files, because a compaction of one would only move it to another level.
	for version := range int64(2) {
		for i := range 100 {
			mustApply(t, e, putRow(fmt.Sprint("key", i), i, 1+version, "value"))
		}
		if err := e.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	lower, upper, _ := rowkey.Bounds(nil, nil, testTable, ring.Range{Start: -1 << 60, End: 1 << 60})
	e.db.Corrupted(database.CorruptionInfo{Path: "file", Start: lower, End: upper, Err: errDisk})
	replaced := false
	disk.replace = func() {
		before, err := e.db.SSTables()
		if err != nil {
			t.Error(err)
		}
		all := rowkey.AppendTable(nil, testTable+1)
		if err := e.db.Compact(t.Context(), rowkey.AppendTable(nil, testTable), all, false); err != nil {
			t.Error(err)
		}
		for end := time.Now().Add(10 * time.Second); time.Now().Before(end) && !replaced; {
			replaced = !slices.ContainsFunc(slices.Concat(before...), func(f pebble.SSTableInfo) bool {
				_, err := mem.Stat(mem.PathJoin("db", fmt.Sprintf("%06d.sst", f.BackingSSTNum)))
				return err == nil && rowkey.TableOf(f.Smallest.UserKey) == testTable
			})
		}
	}
	got, err := e.Quarantine()
	if err != nil || len(got) != 1 || !replaced {
		t.Errorf("lost %v, replaced %t, %v", got, replaced, err)
	}
}
