package storage

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/storage/faultfs"
)

// indexedMeta is a metamorphic run over many partitions, which are listed in the order of their keys.
type indexedMeta struct {
	*meta
	ordered bool // what Options.Ordered says
	sources int
}

func TestPartitionsEqualModel(t *testing.T) {
	for seed := uint64(1); seed <= 8; seed++ {
		if *seedFlag != 0 {
			seed = *seedFlag
		}
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) { runIndexed(t, seed) })
		if *seedFlag != 0 {
			return
		}
	}
}

func runIndexed(t *testing.T, seed uint64) {
	m := &indexedMeta{meta: &meta{t: t, rng: rand.New(rand.NewPCG(seed, 7)), clock: newTestClock(), disk: vfs.NewCrashableMem()}}
	m.ordered = m.rng.IntN(3) > 0 // else it becomes so later, as by a renaming
	info := TableInfo{Exists: true, GCGraceSeconds: metaGrace, GC: GCTimeout}
	m.model.GCBefore = info.gcBefore
	m.opts = Options{
		Clock: m.clock, Inline: m.rng.IntN(2) == 0, MemTableBytes: 1 << (14 + m.rng.IntN(8)),
		Table:   func(schema.StorageID) TableInfo { return info },
		Ordered: func(id schema.StorageID) bool { return m.ordered && id == testTable },
	}
	m.open()
	defer func() { m.engine.Close() }()
	for i := range *opsFlag {
		m.step()
		if t.Failed() {
			t.Logf("go test ./storage -run TestPartitionsEqualModel -seed %d (failed at operation %d)", seed, i)
			for _, line := range m.log[max(0, len(m.log)-30):] {
				t.Log(line)
			}
			return
		}
	}
}

func (m *indexedMeta) key() row.PartitionKey {
	return row.NewPartitionKey([]byte(strings.Repeat("k", m.rng.IntN(3)) + string(rune('a'+m.rng.IntN(8)))))
}

func (m *indexedMeta) mutation() *row.Mutation {
	out := m.meta.mutation()
	out.Key = m.key()
	return out
}

func (m *indexedMeta) apply() {
	ms := make([]*row.Mutation, 1+m.rng.IntN(3))
	for i := range ms {
		ms[i] = m.mutation()
	}
	m.check("apply", apply(m.engine, ms...))
	for _, mutation := range ms {
		m.model.Apply(mutation)
		m.logf("apply %s", describe(mutation))
	}
}

func (m *indexedMeta) step() {
	switch n := m.rng.IntN(1000); {
	case n < 400:
		m.apply()
	case n < 900:
		m.list()
	case n < 920:
		m.logf("partition deletion")
		d := new(row.Mutation)
		d.Reset(testTable, m.key())
		r := row.NewRow()
		r.Deletion = row.Deletion{Timestamp: 100, LocalTime: m.localTime()}
		d.AddHeader(r)
		m.check("apply", apply(m.engine, d))
		m.model.Apply(d)
	case n < 925:
		m.ingest()
	case n < 930:
		m.ordered = m.ordered != (m.rng.IntN(3) == 0)
		m.logf("ordered %v", m.ordered)
	case n < 935:
		m.failedDisk()
	default:
		m.disturb(940 + m.rng.IntN(60))
	}
	m.judge()
}

// failedDisk writes on a disk that fails somewhere, and loses power.
func (m *indexedMeta) failedDisk() {
	m.logf("failed disk")
	m.check("close", m.engine.Close())
	disk := faultfs.Wrap(m.disk)
	options := m.opts
	options.FS, options.MemTableBytes = disk, 1<<20
	m.engine = openTest(m.t, options)
	left := m.rng.IntN(12)
	disk.Fail(func(op faultfs.Op, name string) error {
		if op != faultfs.OpSync || !strings.HasSuffix(name, ".log") {
			return nil
		}
		if left--; left < 0 {
			return errDisk
		}
		return nil
	})
	for range 12 {
		mutation := m.mutation()
		if err := apply(m.engine, mutation); err != nil {
			break // no one knows whether it is there; after the loss of power it is not
		}
		m.model.Apply(mutation)
		m.logf("apply %s", describe(mutation))
	}
	crashed := m.disk.CrashClone(vfs.CrashCloneCfg{})
	disk.Fail(nil)
	_ = m.engine.Close()
	m.disk = crashed
	m.open()
}

// ingest brings what another engine has.
func (m *indexedMeta) ingest() {
	m.sources++
	m.logf("ingest %d", m.sources)
	source := openTest(m.t, Options{Clock: m.clock, Inline: true})
	defer source.Close()
	g := m.engine.NewIngestion(testTable, ring.FullRange())
	if m.rng.IntN(4) == 0 { // the schema changes meanwhile
		m.ordered = !m.ordered
	}
	for range 10 {
		mutation := m.mutation()
		mustApply(m.t, source, mutation)
		m.model.Apply(mutation)
	}
	block, _, err := source.Export(nil, testTable, ring.FullRange(), nil, 1<<20)
	m.check("export", errors.Join(err, g.Add(block), g.Commit()))
}

// live are the keys of the model's partitions that have a live row.
func (m *indexedMeta) live() (keys []string) {
	cmd := &row.ReadCommand{
		Table: testTable, Range: row.KeyRange{Tokens: ring.FullRange()}, Slices: []row.Slice{row.AllRows()}, Now: m.clock.Now().Unix(),
	}
	var r row.PageReader
	r.Reset(m.model.Read(cmd))
	for r.NextPartition() {
		var x row.Row
		for live := false; !live && r.NextRow(&x); {
			if live = x.Live(cmd.Now); live {
				keys = append(keys, string(r.Key.Bytes))
			}
		}
	}
	slices.Sort(keys)
	return keys
}

// list compares a listing, step by step, with the model's.
func (m *indexedMeta) list() {
	q := &PartitionsRead{Table: testTable, Limit: 1 + m.rng.IntN(9), Reversed: m.rng.IntN(2) == 0, Now: m.clock.Now().Unix()}
	q.Dead = m.rng.IntN(4) == 0
	if m.rng.IntN(2) == 0 {
		q.From = m.key().Bytes
	}
	if m.rng.IntN(2) == 0 {
		q.To = m.key().Bytes
	}
	m.logf("list %+v", *q)
	var want, got []string
	for _, k := range m.live() {
		if k >= string(q.From) && (q.To == nil || k < string(q.To)) {
			want = append(want, k)
		}
	}
	if q.Reversed {
		slices.Reverse(want)
	}
	for {
		page, err := m.engine.Partitions(q)
		if !m.ordered && m.engine.index.state(testTable) == 0 {
			if !errors.Is(err, ErrInvalid) {
				m.t.Errorf("a table without an index: %v", err)
			}
			return
		}
		if err != nil {
			m.t.Errorf("list: %v", err)
			return
		}
		for _, k := range page.Keys {
			got = append(got, string(k))
		}
		if !page.More {
			break
		}
		if q.Reversed {
			q.To = page.Last
		} else {
			q.From = append(slices.Clone(page.Last), 0)
		}
	}
	if q.Dead { // those of the index, whatever they have
		from := slices.Clone(got)
		if q.Reversed {
			slices.Reverse(from)
		}
		if !slices.IsSorted(from) || len(slices.Compact(from)) != len(got) {
			m.t.Errorf("listed %q, which are not in order", got)
		}
		got = slices.DeleteFunc(got, func(k string) bool { return !slices.Contains(want, k) })
	}
	if !slices.Equal(got, want) {
		m.t.Errorf("listed %q, want %q", got, want)
	}
}

// judge looks at the keys on disk: where the index is complete, what is stored has an entry.
func (m *indexedMeta) judge() {
	if missing := missingEntries(m.t, m.engine); len(missing) > 0 {
		m.t.Errorf("no entry of %q", missing)
	}
}

// missingEntries are the partitions of the test table that are stored and have no entry, though its index
// says that it is complete.
func missingEntries(t testing.TB, e *Engine) (missing []string) {
	t.Helper()
	if e.index.state(testTable) != indexComplete {
		return nil
	}
	iter, err := e.db.NewIter(&pebble.IterOptions{LowerBound: appendTable(nil, testTable), UpperBound: appendTableEnd(nil, testTable)})
	if err != nil {
		t.Fatal(err)
	}
	var last []byte
	for valid := iter.First(); valid; valid = iter.Next() {
		_, k, _, err := parseKey(iter.Key())
		if err != nil {
			t.Fatal(err)
		}
		if last != nil && bytes.Equal(last, k.Bytes) {
			continue
		}
		last = append(last[:0], k.Bytes...)
		_, closer, err := e.db.Get(appendIndexEntry(nil, testTable, k.Bytes))
		if errors.Is(err, pebble.ErrNotFound) {
			missing = append(missing, string(k.Bytes))
			continue
		}
		if err := errors.Join(err, closer.Close()); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(iter.Error(), iter.Close()); err != nil {
		t.Fatal(err)
	}
	return missing
}

// entriesOf are the entries of the test table.
func entriesOf(t testing.TB, e *Engine) (keys []string) {
	t.Helper()
	if err := e.scan(appendIndexTable(nil, testTable), func(key, _ []byte) error {
		keys = append(keys, string(key[indexFixed:]))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return keys
}

func orderedOptions(clock *testClock, disk vfs.FS, gc GCMode) Options {
	return Options{Clock: clock, FS: disk, Table: func(schema.StorageID) TableInfo { return TableInfo{Exists: true, GC: gc} },
		Ordered: func(id schema.StorageID) bool { return id == testTable }}
}

func deleteKey(key string, timestamp, now int64) *row.Mutation {
	m := new(row.Mutation)
	m.Reset(testTable, row.NewPartitionKey([]byte(key)))
	r := row.NewRow()
	r.Deletion = row.Deletion{Timestamp: timestamp, LocalTime: now}
	m.AddHeader(r)
	return m
}

// TestEntriesGoWithTheirPartitions: the sweeper takes an entry with the last key of a partition, a read one
// that was left, truncate and drop take all.
func TestEntriesGoWithTheirPartitions(t *testing.T) {
	clock := newTestClock()
	o := orderedOptions(clock, vfs.NewMem(), GCImmediate)
	o.Inline = true
	e := openTest(t, o)
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
	list := func(limit int) (PartitionsPage, []string) {
		page, err := e.Partitions(&PartitionsRead{Table: testTable, Limit: limit, Now: clock.Now().Unix()})
		if err != nil {
			t.Fatal(err)
		}
		var keys []string
		for _, k := range page.Keys {
			keys = append(keys, string(k))
		}
		return page, keys
	}
	if page, keys := list(10); !slices.Equal(keys, []string{"a", "d"}) || page.Scanned != 3 || page.More {
		t.Fatalf("a listing: %q, %+v", keys, page)
	}
	if page, keys := list(1); !slices.Equal(keys, []string{"a"}) || page.Scanned != 1 || !page.More || string(page.Last) != "a" {
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
}

// TestIndexOfOlderRows opens a table that has rows without entries, as one has whose columns were renamed into the shape.
func TestIndexOfOlderRows(t *testing.T) {
	disk, clock := vfs.NewMem(), newTestClock()
	o := orderedOptions(clock, disk, GCDisabled)
	old := o
	old.Ordered = nil
	e := openTest(t, old)
	var want []string
	for i := range 2*indexBuildStep + 7 {
		key := fmt.Sprintf("%05d", i)
		want = append(want, key)
		mustTake(t, e, []*row.Mutation{putRow(key, 1, 1, "v"), putRow(key, 2, 1, "v")}, false, func(error) {})
	}
	if err := errors.Join(e.Drain(), e.Close()); err != nil {
		t.Fatal(err)
	}
	e = openTest(t, o)
	mustApply(t, e, putRow("new", 1, 1, "v"))
	want = append(want, "new")
	if e.index.state(testTable) != indexPartial {
		t.Fatal("the index of a table with rows is complete at its first write")
	}
	var got []string
	q := &PartitionsRead{Table: testTable, Limit: 1 << 20, Now: 5}
	for {
		page, err := e.Partitions(q)
		if err != nil {
			t.Fatal(err)
		}
		if page.Scanned > indexStepKeys {
			t.Fatalf("a step of %d keys", page.Scanned)
		}
		for _, k := range page.Keys {
			got = append(got, string(k))
		}
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
	e = openTest(t, o)
	defer e.Close()
	if e.index.state(testTable) != indexComplete {
		t.Fatal("the mark is lost")
	}
}

// TestEntriesUnderStress writes, deletes, sweeps and lists at once; in the end nothing lacks its entry.
func TestEntriesUnderStress(t *testing.T) {
	clock := newTestClock()
	e := openTest(t, orderedOptions(clock, vfs.NewMem(), GCImmediate))
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
			_, err := e.Partitions(&PartitionsRead{Table: testTable, Limit: 1000, Reversed: reversed, Now: clock.Now().Unix()})
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
	source := openTest(t, Options{Inline: true})
	defer source.Close()
	mustApply(t, source, putRow("fetched", 1, 1, "v"))
	block, _, err := source.Export(nil, testTable, ring.FullRange(), nil, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	ordered := false
	o := orderedOptions(newTestClock(), vfs.NewMem(), GCDisabled)
	o.Ordered = func(schema.StorageID) bool { return ordered }
	e := openTest(t, o)
	defer e.Close()
	g := e.NewIngestion(testTable, ring.FullRange())
	ordered = true
	mustApply(t, e, putRow("written", 1, 1, "v"))
	if e.index.state(testTable) != indexComplete {
		t.Fatal("the index of an empty table is not complete at its first write")
	}
	if err := errors.Join(g.Add(block), g.Commit()); err != nil {
		t.Fatal(err)
	}
	page, err := e.Partitions(&PartitionsRead{Table: testTable, Limit: 5, Now: 5})
	if err != nil || len(page.Keys) != 2 {
		t.Fatalf("%q, %v", page.Keys, err)
	}
}

// TestIndexInQuarantine corrupts the files of rows and of entries: they go with them, and the index is built again when what
// was lost is back.
func TestIndexInQuarantine(t *testing.T) {
	mem := vfs.NewMem()
	o := orderedOptions(newTestClock(), mem, GCDisabled)
	o.Inline = true
	o.Table = func(id schema.StorageID) TableInfo { return TableInfo{Exists: id == testTable, GC: GCDisabled} }
	e := openTest(t, o)
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
	flipBits(t, mem, flips/3, 2) // the rows' and the entries'
	e = openTest(t, o)
	defer e.Close()
	all := &row.ReadCommand{Table: testTable, Range: row.KeyRange{Tokens: ring.FullRange()}, Slices: []row.Slice{row.AllRows()}}
	if _, err := e.Read(nil, all); !errors.Is(err, ErrCorrupt) {
		t.Fatalf("read of a corrupt file: %v", err)
	}
	list := func() (PartitionsPage, error) {
		return e.Partitions(&PartitionsRead{Table: testTable, Limit: 1000, Now: 5})
	}
	if _, err := list(); !errors.Is(err, ErrCorrupt) {
		t.Fatalf("a listing from a corrupt file: %v", err)
	}
	lost, err := e.Quarantine()
	if err != nil || len(lost) == 0 {
		t.Fatalf("lost %v, %v", lost, err)
	}
	if _, err := list(); !errors.Is(err, ErrCorrupt) {
		t.Fatalf("a listing of what was lost: %v", err)
	}
	if e.index.state(testTable) != indexPartial || len(entriesOf(t, e)) > 1 { // the other file's
		t.Fatalf("state %d, %d entries", e.index.state(testTable), len(entriesOf(t, e)))
	}
	mustApply(t, e, ms[:200]...)
	if err := e.Lift(testTable, ring.FullRange(), lost[0].Since); err != nil {
		t.Fatal(err)
	}
	if page, err := list(); err != nil || len(page.Keys) != 200 {
		t.Fatalf("%d keys, %v", len(page.Keys), err)
	}
}
