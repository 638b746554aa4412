package index

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/internal/env"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/storage"
	"cqld/storage/failure"
	"cqld/storage/tableinfo"
)

// TestEntriesGoWithTheirPartitions: the sweeper takes an entry with the last key of a partition, a read one
// that was left, truncate and drop take all.
func TestEntriesGoWithTheirPartitions(t *testing.T) {
	clock := newTestClock()
	e := open(t, storage.Options{Clock: clock, Table: tables(tableinfo.GCImmediate), Inline: true}, always)
	defer e.Close()
	for _, k := range []string{"a", "b", "c", "d"} {
		mustApply(t, e, putRow(k, 1, 1, "v"))
	}
	mustApply(t, e, deleteKey("b", 5, clock.Now().Unix()))
	clock.advance(time.Minute)
	for wrapped := false; !wrapped; {
		var err error
		if wrapped, err = e.Sweep(100); err != nil {
			t.Fatal(err)
		}
	}
	if got := entriesOf(t, e); !slices.Equal(got, []string{"a", "c", "d"}) {
		t.Fatalf("after the sweep: %q", got)
	}
	token := row.NewPartitionKey([]byte("c")).Token
	if err := e.DropRange(testTable, ring.Range{Start: token - 1, End: token}); err != nil {
		t.Fatal(err)
	}
	list := func(limit int) (storage.PartitionsPage, []string) {
		page, err := e.Partitions(&storage.PartitionsRead{Table: testTable, Limit: limit, Now: clock.Now().Unix()})
		if err != nil {
			t.Fatal(err)
		}
		return page, keysOf(page)
	}
	if page, keys := list(10); !slices.Equal(keys, []string{"a", "d"}) || page.Scanned != 3 || page.More {
		t.Fatalf("a listing: %q, %+v", keys, page)
	}
	if page, keys := list(1); !slices.Equal(keys, []string{"a"}) || page.Scanned != 1 || !page.More ||
		string(page.Last) != "a" {
		t.Fatalf("a listing that reads more than it returns: %q, %+v", keys, page)
	}
	if got := entriesOf(t, e); !slices.Equal(got, []string{"a", "d"}) {
		t.Fatalf("after a listing: %q", got)
	}
	mustApply(t, e, putRow("b", 2, 9, "again"), putRow("c", 2, 9, "again"))
	if _, keys := list(10); !slices.Equal(keys, []string{"a", "b", "c", "d"}) {
		t.Fatalf("written again: %q", keys)
	}
	if err := e.Truncate(testTable); err != nil {
		t.Fatal(err)
	}
	mustApply(t, e, putRow("a", 1, 1, "v"))
	if _, keys := list(10); !slices.Equal(keys, []string{"a"}) {
		t.Fatalf("truncated: %q", keys)
	}
	if err := e.DropTable(testTable); err != nil {
		t.Fatal(err)
	}
	if got := entriesOf(t, e); got != nil || e.index.state(testTable) != 0 {
		t.Fatalf("dropped: %q", got)
	}
	var unknown *failure.UnknownTable
	if _, err := e.Partitions(&storage.PartitionsRead{Table: testTable, Limit: 10}); !errors.As(err, &unknown) {
		t.Fatalf("a listing of a dropped table: %v", err)
	}
}

// TestIndexOfOlderRows opens a table that has rows without entries, as one has whose columns were renamed into the
// shape.
func TestIndexOfOlderRows(t *testing.T) {
	disk, clock := vfs.NewMem(), newTestClock()
	o := storage.Options{Clock: clock, FS: disk}
	e := plain(t, o)
	var want []string
	for i := range 2*buildStep + 7 {
		key := fmt.Sprintf("%05d", i)
		want = append(want, key)
		mustQueue(t, e, putRow(key, 1, 1, "v"))
		mustQueue(t, e, putRow(key, 2, 1, "v"))
	}
	if err := errors.Join(e.Drain(), e.Close()); err != nil {
		t.Fatal(err)
	}
	e = open(t, o, always)
	mustApply(t, e, putRow("new", 1, 1, "v"))
	want = append(want, "new")
	if e.index.state(testTable) != partial {
		t.Fatal("the index of a table with rows is complete at its first write")
	}
	var got []string
	q := &storage.PartitionsRead{Table: testTable, Limit: 1 << 20, Now: 5}
	for {
		page, err := e.Partitions(q)
		if err != nil {
			t.Fatal(err)
		}
		if page.Scanned > stepKeys {
			t.Fatalf("a step of %d keys", page.Scanned)
		}
		got = append(got, keysOf(page)...)
		if !page.More {
			break
		}
		q.From = append(slices.Clone(page.Last), 0)
	}
	if !slices.Equal(got, want) {
		t.Fatalf("%d keys of %d", len(got), len(want))
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	e = open(t, o, always)
	defer e.Close()
	if e.index.state(testTable) != complete {
		t.Fatal("the mark is lost")
	}
}

// TestEntriesUnderStress writes, deletes, sweeps and lists at once; in the end nothing lacks its entry.
func TestEntriesUnderStress(t *testing.T) {
	clock := newTestClock()
	e := open(t, storage.Options{Clock: clock, Table: tables(tableinfo.GCImmediate)}, always)
	defer e.Close()
	var work, others sync.WaitGroup
	end := make(chan struct{})
	beside := func(f func() error) {
		others.Go(func() {
			for {
				select {
				case <-end:
					return
				default:
				}
				if err := f(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	beside(func() error { _, err := e.Sweep(20); return err })
	for _, reversed := range []bool{false, true} {
		beside(func() error {
			_, err := e.Partitions(&storage.PartitionsRead{Table: testTable, Limit: 1000, Reversed: reversed,
				Now: clock.Now().Unix()})
			return err
		})
	}
	for w := range 4 {
		work.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(w), 1))
			for i := range 1500 {
				key := fmt.Sprint("key", rng.IntN(12))
				m := putRow(key, rng.IntN(3), int64(2*i), "v")
				if rng.IntN(2) == 0 {
					m = deleteKey(key, int64(2*i+1), clock.Now().Unix()-10)
				}
				if err := apply(e, m); err != nil {
					t.Error(err)
				}
			}
		})
	}
	work.Wait()
	close(end)
	others.Wait()
	if missing := missingEntries(t, e); len(missing) > 0 {
		t.Errorf("no entry of %q", missing)
	}
}

// TestIngestionThatBeganBeforeTheIndex: rows without entries make a complete index incomplete, and the next
// listing has them.
func TestIngestionThatBeganBeforeTheIndex(t *testing.T) {
	source := plain(t, storage.Options{Inline: true})
	defer source.Close()
	mustApply(t, source, putRow("fetched", 1, 1, "v"))
	block, _, err := source.Export(nil, testTable, ring.FullRange(), nil, nil, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	ordered := false
	e := open(t, storage.Options{}, func(schema.StorageID) bool { return ordered })
	defer e.Close()
	g := e.NewIngestion(testTable, ring.FullRange())
	ordered = true
	mustApply(t, e, putRow("written", 1, 1, "v"))
	if e.index.state(testTable) != complete {
		t.Fatal("the index of an empty table is not complete at its first write")
	}
	if err := errors.Join(g.Add(block), g.Commit()); err != nil {
		t.Fatal(err)
	}
	page, err := e.Partitions(&storage.PartitionsRead{Table: testTable, Limit: 5, Now: 5})
	if err != nil || len(page.Keys) != 2 {
		t.Fatalf("%q, %v", page.Keys, err)
	}
}

// TestIndexInQuarantine corrupts the files of rows and of entries: the index is dropped with them, and built again once
// the lost data are restored.
func TestIndexInQuarantine(t *testing.T) {
	mem := vfs.NewMem()
	o := storage.Options{FS: mem, Inline: true, Table: tables(tableinfo.GCDisabled)}
	e := open(t, o, always)
	var ms []*row.Mutation
	for i := range 300 {
		m := putRow(fmt.Sprint("key", i), i, 1, fmt.Sprint("value", i))
		mustApply(t, e, m)
		ms = append(ms, m)
		if i == 0 { // the mark, which is the node's own, is in another file
			if err := e.Flush(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := errors.Join(e.Flush(), e.Close()); err != nil {
		t.Fatal(err)
	}
	corrupt(t, mem, 2) // the rows' and the entries'
	e = open(t, o, always)
	defer e.Close()
	all := &row.ReadCommand{Table: testTable, Range: row.KeyRange{Tokens: ring.FullRange()},
		Slices: []row.Slice{row.AllRows()}}
	if _, err := e.Read(nil, all); !errors.Is(err, failure.ErrCorrupt) {
		t.Fatalf("read of a corrupt file: %v", err)
	}
	list := func() (storage.PartitionsPage, error) {
		return e.Partitions(&storage.PartitionsRead{Table: testTable, Limit: 1000, Now: 5})
	}
	if _, err := list(); !errors.Is(err, failure.ErrCorrupt) {
		t.Fatalf("a listing from a corrupt file: %v", err)
	}
	lost, err := e.Quarantine()
	if err != nil || len(lost) == 0 {
		t.Fatalf("lost %v, %v", lost, err)
	}
	if _, err := list(); !errors.Is(err, failure.ErrCorrupt) {
		t.Fatalf("a listing of lost partitions: %v", err)
	}
	if e.index.state(testTable) != partial || len(entriesOf(t, e)) > 1 { // the other file's
		t.Fatalf("state %d, %d entries", e.index.state(testTable), len(entriesOf(t, e)))
	}
	mustApply(t, e, ms[:200]...)
	if err := e.Lift(testTable, ring.FullRange(), e.LastLoss()); err != nil {
		t.Fatal(err)
	}
	if page, err := list(); err != nil || len(page.Keys) != 200 {
		t.Fatalf("%d keys, %v", len(page.Keys), err)
	}
}

// corrupt flips bits at a third of the newest n sstables.
func corrupt(t *testing.T, mem *vfs.MemFS, n int) {
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
		f, err := mem.OpenReadWrite(mem.PathJoin("db", name), vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		info, err := f.Stat()
		if err != nil {
			t.Fatal(err)
		}
		at, some := info.Size()/3, make([]byte, 1)
		if _, err := f.ReadAt(some, at); err != nil {
			t.Fatal(err)
		}
		some[0] ^= 0x55
		if _, err := f.WriteAt(some, at); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		if n--; n == 0 {
			return
		}
	}
	t.Fatalf("%d sstables too few", n)
}

// askedClock advances by a second on each call.
type askedClock struct {
	env.Clock
	asked int
}

func (c *askedClock) Monotonic() time.Duration {
	c.asked++
	return time.Duration(c.asked) * time.Second
}

// TestLosingEntriesReservesNoDecision checks that an ingestion, which holds latches, can decide while a file with
// entries is removed, which needs the latches.
func TestLosingEntriesReservesNoDecision(t *testing.T) {
	m := newValuesRun(t, 1)
	defer func() { _ = m.engine.Close() }()
	removed := false
	err := m.values.LoseEntries(nil, []byte{0xFF}, func() error {
		decided := make(chan struct{})
		go func() {
			m.values.deciding.acquire()
			m.values.deciding.release()
			close(decided)
		}()
		select {
		case <-decided:
			removed = true
		case <-time.After(time.Minute):
		}
		return nil
	})
	if err != nil || !removed {
		t.Errorf("an ingestion waits for the removal of a file (%v)", err)
	}
}

// TestListingsEndEarly: a listing looks regularly at whether it is still wanted, also where it finds nothing.
func TestListingsEndEarly(t *testing.T) {
	e := open(t, storage.Options{Inline: true}, always)
	defer e.Close()
	const partitions = 500
	for i := range partitions {
		mustApply(t, e, putRow(fmt.Sprintf("p%04d", i), 0, 1, "v"), deleteKey(fmt.Sprintf("p%04d", i), 2, 1_000_000))
	}
	list := func(c *env.Cancel) error {
		_, err := e.Partitions(&storage.PartitionsRead{Table: testTable, Limit: partitions + 1, Now: 1_000_000,
			Cancel: c})
		return err
	}
	if err := list(nil); err != nil {
		t.Error(err)
	}
	clock := &askedClock{}
	if err := list((*env.Cancel)(nil).Child(clock, 4*time.Second)); !errors.Is(err, context.DeadlineExceeded) ||
		clock.asked != 4 {
		t.Errorf("looked at the time %d times, %v", clock.asked, err)
	}
	c := env.NewCancel(context.Background())
	c.Cancel()
	if err := list(c); !errors.Is(err, env.ErrCanceled) {
		t.Errorf("canceled before: %v", err)
	}
	if n := e.Metrics().Canceled; n != 2 {
		t.Errorf("%d canceled listings were counted", n)
	}
}
