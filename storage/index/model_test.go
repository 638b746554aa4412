package index

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/internal/model"
	"cqld/internal/tier"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/storage"
	"cqld/storage/failure"
	"cqld/storage/faultfs"
	"cqld/storage/tableinfo"
)

const grace = 50 // seconds

var errDisk = errors.New("no such luck")

// run is a randomized run over many partitions, which are listed in the order of their keys, beside a model.
type run struct {
	t       *testing.T
	rng     *rand.Rand
	clock   *testClock
	disk    *vfs.MemFS
	opts    storage.Options
	engine  *engine
	model   model.Table
	ordered bool // in the schema
	log     []string
}

// TestPartitionsEqualModel does the same random operations on an engine and on the model, restarts and crashes the
// engine between, and compares every listing. After every operation each stored partition has its entry.
func TestPartitionsEqualModel(t *testing.T) {
	for seed := uint64(1); seed <= uint64(tier.Draws(8, 2)); seed++ {
		if *seedFlag != 0 {
			seed = *seedFlag
		}
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) { runSeed(t, seed) })
		if *seedFlag != 0 {
			return
		}
	}
}

func runSeed(t *testing.T, seed uint64) {
	m := &run{t: t, rng: rand.New(rand.NewPCG(seed, 7)), clock: newTestClock(), disk: vfs.NewCrashableMem()}
	m.ordered = m.rng.IntN(3) > 0 // else it becomes so later, as by a renaming
	m.model.GCBefore = func(_ ring.Token, now int64) int64 { return now - grace }
	info := tableinfo.Info{Exists: true, GCGraceSeconds: grace, GC: tableinfo.GCTimeout}
	m.opts = storage.Options{Clock: m.clock, Inline: m.rng.IntN(2) == 0, MemTableBytes: 1 << (14 + m.rng.IntN(8)),
		Table: func(schema.StorageID) tableinfo.Info { return info }}
	m.open()
	defer func() { _ = m.engine.Close() }()
	// The check reads everything. With -short, which the race list uses, it takes place after every tenth operation.
	ops, every := *opsFlag, 1
	if testing.Short() {
		ops, every = ops/3, 10
	}
	for i := range ops {
		m.step()
		if i%every != 0 && i != ops-1 {
			continue
		}
		for _, k := range missingEntries(t, m.engine) {
			t.Errorf("no entry of %q", k)
		}
		if t.Failed() {
			t.Logf("go test ./storage/index -run TestPartitionsEqualModel -seed %d (failed at operation %d)", seed, i)
			t.Log(strings.Join(m.log[max(0, len(m.log)-30):], "\n"))
			return
		}
	}
}

func (m *run) open() {
	m.opts.FS = m.disk
	m.engine = open(m.t, m.opts, func(id schema.StorageID) bool { return m.ordered && id == testTable })
}

func (m *run) check(what string, err error) {
	if err != nil {
		m.t.Errorf("%s: %v", what, err)
	}
}

func (m *run) logf(format string, args ...any) { m.log = append(m.log, fmt.Sprintf(format, args...)) }

func (m *run) step() {
	switch n := m.rng.IntN(1000); {
	case n < 400:
		ms := make([]*row.Mutation, 1+m.rng.IntN(3))
		for i := range ms {
			ms[i] = m.mutation()
		}
		m.check("apply", apply(m.engine, ms...))
		for _, x := range ms {
			m.model.Apply(x)
		}
	case n < 900:
		m.list()
	case n < 920:
		x := deleteKey(string(m.key().Bytes), 100, m.localTime())
		m.logf("delete %q", x.Key.Bytes)
		m.check("apply", apply(m.engine, x))
		m.model.Apply(x)
	case n < 925:
		m.ingest()
	case n < 930:
		m.ordered = m.ordered != (m.rng.IntN(3) == 0)
		m.logf("ordered %v", m.ordered)
	case n < 935:
		m.failedDisk()
	case n < 945:
		m.logf("flush")
		m.check("flush", m.engine.Flush())
	case n < 960:
		m.clock.advance(time.Duration(m.rng.IntN(30)) * time.Second)
	case n < 975:
		m.sweep()
	case n < 980:
		m.logf("truncate")
		m.check("truncate", m.engine.Truncate(testTable))
		m.model.Truncate()
	default:
		m.restart()
	}
}

// restart closes the engine and opens it again, after a loss of power or not.
func (m *run) restart() {
	crash := m.rng.IntN(2) == 0
	m.logf("restart, crash %v", crash)
	disk := m.disk
	if crash {
		disk = m.disk.CrashClone(vfs.CrashCloneCfg{})
	}
	m.check("close", m.engine.Close())
	m.disk = disk
	m.open()
}

func (m *run) sweep() {
	m.logf("sweep")
	budget := 1 + m.rng.IntN(40)
	for wrapped, err := false, error(nil); !wrapped && err == nil; {
		wrapped, err = m.engine.Sweep(budget)
		m.check("sweep", err)
	}
	m.model.Purge(m.clock.Now().Unix())
	// A sweep may be undone by a crash, which the model does not track.
	m.check("sync", m.engine.SetLocal([]byte("swept"), nil, true))
}

// failedDisk writes on a disk that fails somewhere, and loses power.
func (m *run) failedDisk() {
	m.logf("failed disk")
	m.check("close", m.engine.Close())
	disk := faultfs.Wrap(m.disk)
	m.opts.FS = disk
	m.engine = open(m.t, m.opts, func(id schema.StorageID) bool { return m.ordered && id == testTable })
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
		x := m.mutation()
		if err := apply(m.engine, x); err != nil {
			break // it is not known whether it is there; after the loss of power it is not
		}
		m.model.Apply(x)
	}
	crashed := m.disk.CrashClone(vfs.CrashCloneCfg{})
	disk.Fail(nil)
	_ = m.engine.Close()
	m.disk = crashed
	m.open()
}

// ingest brings what another engine has.
func (m *run) ingest() {
	m.logf("ingest")
	source := plain(m.t, storage.Options{Clock: m.clock, Inline: true})
	defer source.Close()
	g := m.engine.NewIngestion(testTable, ring.FullRange())
	if m.rng.IntN(4) == 0 { // the schema changes meanwhile
		m.ordered = !m.ordered
	}
	for range 10 {
		x := m.mutation()
		mustApply(m.t, source, x)
		m.model.Apply(x)
	}
	for first, after := true, []byte(nil); first || after != nil; first = false {
		var block []byte
		var err error
		block, after, err = source.Export(nil, testTable, ring.FullRange(), nil, after, 1<<(6+m.rng.IntN(14)))
		m.check("export", errors.Join(err, g.Add(block)))
	}
	m.check("ingest", g.Commit())
}

// live are the keys of the model's partitions with a live row.
func (m *run) live() (keys []string) {
	cmd := &row.ReadCommand{
		Table: testTable, Range: row.KeyRange{Tokens: ring.FullRange()}, Slices: []row.Slice{row.AllRows()},
		Now: m.clock.Now().Unix(),
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
func (m *run) list() {
	q := &storage.PartitionsRead{Table: testTable, Limit: 1 + m.rng.IntN(9), Reversed: m.rng.IntN(2) == 0,
		Now: m.clock.Now().Unix()}
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
			if !errors.Is(err, failure.ErrInvalid) {
				m.t.Errorf("a table without an index: %v", err)
			}
			return
		}
		if err != nil {
			m.t.Errorf("list: %v", err)
			return
		}
		got = append(got, keysOf(page)...)
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

func (m *run) key() row.PartitionKey {
	return row.NewPartitionKey([]byte(strings.Repeat("k", m.rng.IntN(3)) + string(rune('a'+m.rng.IntN(8)))))
}

func (m *run) localTime() int64 { return m.clock.Now().Unix() - m.rng.Int64N(20) }

func (m *run) deletion() row.Deletion {
	return row.Deletion{Timestamp: 1 + m.rng.Int64N(25), LocalTime: m.localTime()}
}

// mutation changes a few of the rows of one partition.
func (m *run) mutation() *row.Mutation {
	out := new(row.Mutation)
	out.Reset(testTable, m.key())
	for range 1 + m.rng.IntN(4) {
		r := row.NewRow()
		r.Clustering = clusteringOf(m.rng.IntN(12))
		timestamp := 1 + m.rng.Int64N(25)
		switch n := m.rng.IntN(20); {
		case n == 0:
			r.Clustering, r.Deletion = nil, m.deletion()
			out.AddHeader(r)
			continue
		case n == 1:
			r.Clustering = nil
			r.Cells = []row.Cell{{Column: 7, Timestamp: timestamp, Value: []byte("static")}}
			out.AddHeader(r)
			continue
		case n < 4:
			out.AddRangeTombstone(row.RangeTombstone{Start: r.Clustering, End: clusteringOf(12),
				Deletion: m.deletion()})
			continue
		case n < 7:
			r.Deletion = m.deletion()
		case n < 10:
			r.Liveness = row.Liveness{Timestamp: timestamp, TTL: int32(1 + m.rng.IntN(60))}
			r.Liveness.LocalTime = m.clock.Now().Unix() + int64(r.Liveness.TTL)
		case n < 13:
			r.Cells = []row.Cell{{Column: 3, Timestamp: timestamp, Tombstone: true, LocalTime: m.localTime()}}
		default:
			r.Liveness.Timestamp = timestamp
			r.Cells = []row.Cell{{Column: 3, Timestamp: timestamp, Value: []byte("v")}}
		}
		out.AddRow(r)
	}
	m.logf("change %q", out.Key.Bytes)
	return out
}
