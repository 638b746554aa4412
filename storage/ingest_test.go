package storage

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/internal/tier"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/storage/failure"
	"cqld/storage/tableinfo"
)

// ship brings a range of the test table from one engine to another, in blocks and files of the sizes
// that rng draws.
func ship(t testing.TB, rng *rand.Rand, from, to *Engine, tokens ring.Range) {
	t.Helper()
	var after []byte
	g := to.NewIngestion(testTable, tokens)
	for {
		block, next, err := from.Export([]byte("before"), testTable, tokens, nil, after, 1+rng.IntN(2000))
		if err != nil {
			t.Fatal(err)
		}
		if err := g.Add(block[len("before"):]); err != nil {
			t.Fatal(err)
		}
		if next == nil || rng.IntN(4) == 0 {
			if err := g.Commit(); err != nil {
				t.Fatal(err)
			}
			g = to.NewIngestion(testTable, tokens)
		}
		if after = next; next == nil {
			return
		}
	}
}

// TestShippedTableEqualsModel fills an engine at random, ships what it has to a second one that is
// written to, read and swept at the same time, and compares every page of that with the model's.
func TestShippedTableEqualsModel(t *testing.T) {
	for seed := uint64(1); seed <= uint64(tier.Draws(8, 2)); seed++ {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			m := &meta{t: t, rng: rand.New(rand.NewPCG(seed, 1)), clock: newTestClock(), disk: vfs.NewCrashableMem()}
			info := tableinfo.Info{Exists: true, GC: tableinfo.GCDisabled}
			m.model.GCBefore = info.GCBefore
			m.opts = Options{Clock: m.clock, Inline: seed%2 == 0, NoSweep: true,
				MemTableBytes: 1 << (14 + m.rng.IntN(6)),
				Table:         func(schema.StorageID) tableinfo.Info { return info }}
			m.open()
			for range 400 {
				m.step()
			}
			source := m.engine
			defer source.Close()
			m.disk = vfs.NewCrashableMem()
			m.open()
			defer func() { m.engine.Close() }()
			m.receive(source, seed)
			for range 600 {
				m.read()
			}
		})
	}
}

// receive ships everything from source to m's engine while others use that.
func (m *meta) receive(source *Engine, seed uint64) {
	var work, others sync.WaitGroup
	end := make(chan struct{})
	repeat := func(f func() error) {
		others.Go(func() {
			for {
				select {
				case <-end:
					return
				default:
					m.check("beside", f())
				}
			}
		})
	}
	engine := m.engine
	repeat(func() error { _, err := engine.Sweep(7); return err })
	all := &row.ReadCommand{Table: testTable, Range: row.KeyRange{Tokens: ring.FullRange()},
		Slices: []row.Slice{row.AllRows()}}
	repeat(func() error { _, err := engine.Read(nil, all); return err })
	rng := rand.New(rand.NewPCG(seed, 2))
	work.Go(func() {
		ship(m.t, rng, source, engine, ring.Range{Start: 0, End: ring.MinToken + 1}) // wraps
		ship(m.t, rng, source, engine, ring.Range{Start: ring.MinToken + 1, End: 0})
	})
	for range 300 {
		m.apply()
	}
	work.Wait()
	close(end)
	others.Wait()
}

func TestIngestionIsDurableAndWhole(t *testing.T) {
	source := openTest(t, Options{Inline: true})
	defer source.Close()
	for i := range 200 {
		mustApply(t, source, putRow(fmt.Sprint("key", i), i, 1, "value"))
	}
	static := new(row.Mutation)
	static.Reset(testTable, row.NewPartitionKey([]byte("key7")))
	header := row.NewRow()
	header.Cells = []row.Cell{{Column: 9, Timestamp: 1, Value: []byte("static")}}
	static.AddHeader(header)
	mustApply(t, source, static)

	disk := vfs.NewCrashableMem()
	target := openTest(t, Options{FS: disk, Inline: true, Sync: SyncNone})
	open := target.NewIngestion(testTable, ring.FullRange())
	block, _, err := source.Export(nil, testTable, ring.FullRange(), nil, nil, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	ship(t, rand.New(rand.NewPCG(1, 1)), source, target, ring.FullRange())
	if err := open.Add(block[:0]); err != nil {
		t.Fatal(err)
	}
	if err := open.Add(block); err != nil { // and then the machine crashes
		t.Fatal(err)
	}
	crashed := disk.CrashClone(vfs.CrashCloneCfg{})
	if err := target.Close(); err != nil {
		t.Fatal(err)
	}
	target = openTest(t, Options{FS: crashed, Inline: true})
	defer target.Close()
	if names, err := crashed.List("db/ingest"); err == nil && len(names) > 0 {
		t.Errorf("not removed: %v", names)
	}
	for _, cmd := range []*row.ReadCommand{
		{Table: testTable, Range: row.KeyRange{Tokens: ring.FullRange()}, Slices: []row.Slice{row.AllRows()}},
		{Table: testTable, Key: row.NewPartitionKey([]byte("key7")), Slices: []row.Slice{row.AllRows()}},
	} {
		want, err1 := source.Read(nil, cmd)
		got, err2 := target.Read(nil, cmd)
		if err := errors.Join(err1, err2); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%v\n got %s\nwant %s", err, describePage(got), describePage(want))
		}
	}
}

func TestIngestionRefusesWhatDoesNotBelong(t *testing.T) {
	e := openTest(t, Options{Inline: true})
	defer e.Close()
	mustApply(t, e, putRow("key", 1, 1, "value"), putRow("other", 1, 1, "value"))
	block, next, err := e.Export(nil, testTable, ring.FullRange(), nil, nil, 1<<20)
	if err != nil || next != nil {
		t.Fatal(next, err)
	}
	token := ring.Murmur3([]byte("key"))
	badRow := bytes.Clone(block)
	badRow[2+int(block[1])+1] = 0xFF // the flags of the first row, behind its key and its length
	for name, try := range map[string]struct {
		table  schema.StorageID
		tokens ring.Range
		blocks [][]byte
	}{
		"table":     {testTable + 1, ring.FullRange(), [][]byte{block}},
		"token":     {testTable, ring.Range{Start: token, End: token - 1}, [][]byte{block}},
		"order":     {testTable, ring.FullRange(), [][]byte{block, block}},
		"truncated": {testTable, ring.FullRange(), [][]byte{block[:len(block)-1]}},
		"row":       {testTable, ring.FullRange(), [][]byte{badRow}},
	} {
		g := e.NewIngestion(try.table, try.tokens)
		var err error
		for _, b := range try.blocks {
			err = errors.Join(err, g.Add(b))
		}
		if !errors.Is(err, failure.ErrInvalid) || !strings.Contains(err.Error(), "ingest") {
			t.Errorf("%s: %v", name, err)
		}
		g.Abort()
	}
	if err := e.DropTable(testTable); err != nil {
		t.Fatal(err)
	}
	g := e.NewIngestion(testTable, ring.FullRange())
	if err := g.Add(block); err != nil {
		t.Fatal(err)
	}
	var unknown *failure.UnknownTable
	if err := g.Commit(); !errors.As(err, &unknown) {
		t.Errorf("a dropped table: %v", err)
	}
}

func TestDropRangeRemovesOnlyIt(t *testing.T) {
	for _, wraps := range []bool{false, true} {
		e := openTest(t, Options{Inline: true})
		r := ring.Range{Start: -1 << 62, End: 1 << 62}
		if wraps {
			r = ring.Range{Start: 1 << 62, End: -1 << 62}
		}
		for i := range 100 {
			mustApply(t, e, putRow(fmt.Sprint("key", i), 1, 1, "value"))
		}
		if err := e.Flush(); err != nil {
			t.Fatal(err)
		}
		if n, err := e.SizeOf(testTable, r); err != nil || n == 0 {
			t.Errorf("size %d, %v", n, err)
		}
		if err := e.DropRange(testTable, r); err != nil {
			t.Fatal(err)
		}
		for i := range 100 {
			k := row.NewPartitionKey(fmt.Append(nil, "key", i))
			page, err := e.Read(nil, &row.ReadCommand{Table: testTable, Key: k, Slices: []row.Slice{row.AllRows()}})
			var p row.PageReader
			p.Reset(page)
			if there := p.NextPartition(); err != nil || there == r.Contains(k.Token) {
				t.Errorf("wraps %v, token %v: there %v, %v", wraps, k.Token, there, err)
			}
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAFullDiskTakesNoIngestion checks that a disk with little space left refuses blocks, and files that were begun
// before: the space that is left is for compactions. When there is space again, the same data is taken.
func TestAFullDiskTakesNoIngestion(t *testing.T) {
	source := openTest(t, Options{Inline: true})
	defer source.Close()
	mustApply(t, source, putRow("key", 1, 1, "value"))
	block, _, err := source.Export(nil, testTable, ring.FullRange(), nil, nil, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	full, disk := false, vfs.NewMem()
	e := openTest(t, Options{FS: disk, Inline: true, FreeSpace: func() (free, total int64) {
		if full {
			return 0, 1 << 30
		}
		return 1 << 30, 1 << 30
	}})
	defer e.Close()
	fill := func(now bool) {
		full = now
		e.disk.Check()
	}
	begun := e.NewIngestion(testTable, ring.FullRange())
	if err := begun.Add(block); err != nil {
		t.Fatal(err)
	}
	fill(true)
	if err := e.NewIngestion(testTable, ring.FullRange()).Add(block); !errors.Is(err, failure.ErrDiskFull) {
		t.Errorf("a block on a full disk: %v", err)
	}
	if err := begun.Commit(); !errors.Is(err, failure.ErrDiskFull) {
		t.Errorf("a file on a full disk: %v", err)
	}
	if names, err := disk.List("db/ingest"); err != nil || len(names) > 0 {
		t.Errorf("the file that was refused takes space: %v, %v", names, err)
	}
	if got := rows(t, mustRead(t, e, readKey("key"))); len(got) > 0 {
		t.Errorf("a full disk has taken %v", got)
	}
	fill(false)
	again := e.NewIngestion(testTable, ring.FullRange())
	if err := errors.Join(again.Add(block), again.Commit()); err != nil {
		t.Fatal(err)
	}
	if got := rows(t, mustRead(t, e, readKey("key"))); fmt.Sprint(got) != "[key/1=value]" {
		t.Errorf("with space again: %v", got)
	}
}
