package storage

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/internal/model"
	"cqld/internal/tier"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/storage/tableinfo"
	"cqld/types"
)

var (
	seedFlag = flag.Uint64("seed", 0, "run the metamorphic test with this seed only")
	opsFlag  = flag.Int("ops", 1500, "operations of each metamorphic run")
)

// TestEngineEqualsModel does the same random operations on an engine and on the model, restarts and
// crashes the engine between, and compares every page byte by byte.
func TestEngineEqualsModel(t *testing.T) {
	if *seedFlag != 0 {
		runMetamorphic(t, *seedFlag)
		return
	}
	for seed := uint64(1); seed <= uint64(tier.Draws(12, 3)); seed++ {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) { runMetamorphic(t, seed) })
	}
}

const metaGrace = 50

// meta is one run.
type meta struct {
	t      testing.TB
	rng    *rand.Rand
	clock  *testClock
	disk   *vfs.MemFS
	opts   Options
	engine *Engine
	model  model.Table
	log    []string
	// rising means that timestamps mostly rise, as with clocks, so that deletions are often newer than all rows.
	rising     bool
	encrypts   bool  // whether files are encrypted
	timestamps int64 // the least one of now
	// repeated are the last reads of one row by its key. They are repeated after each write, so that the cache has
	// most of their rows.
	repeated []row.ReadCommand
	hits     int64 // of an engine in the cache, before a restart or the end
}

func runMetamorphic(t *testing.T, seed uint64) {
	m := &meta{t: t, rng: rand.New(rand.NewPCG(seed, 0)), clock: newTestClock(), disk: vfs.NewCrashableMem()}
	info := tableinfo.Info{Exists: true, GCGraceSeconds: metaGrace, GC: tableinfo.GCTimeout}
	m.model.GCBefore = info.GCBefore
	m.opts = Options{
		Clock:         m.clock,
		Inline:        m.rng.IntN(2) == 0,
		MemTableBytes: 1 << (14 + m.rng.IntN(8)),
		CacheBytes:    1 << (16 + m.rng.IntN(6)),
		FilterRows:    max(0, m.rng.IntN(8)-3), // mostly few, or the default
		Table:         func(schema.StorageID) tableinfo.Info { return info },
		NoSweep:       true,
		ShadowedRows:  m.rng.IntN(4), // few rows, or the default
		purgeRangeMin: m.rng.IntN(4),
		runMin:        m.rng.IntN(4),
		suspectBytes:  m.rng.IntN(3), // anything in files, or the default
		blockBytes:    1 << (6 + m.rng.IntN(9)),
		ceilingSlack:  m.rng.IntN(4), // few, so that deletions after a restart are newer, or the default
	}
	m.opts.skipAfter = m.rng.IntN(4)
	m.rising = m.rng.IntN(2) == 0
	m.encrypts = seed%3 == 1 // not drawn: the draws of a seed remain the same
	m.open()
	defer func() {
		if m.hits == 0 {
			t.Error("no read found its row in the cache")
		}
		m.engine.Close()
	}()
	for i := range *opsFlag {
		m.step()
		if t.Failed() {
			t.Logf("go test ./storage -run TestEngineEqualsModel -seed %d (failed at operation %d)", seed, i)
			for _, line := range m.log[max(0, len(m.log)-40):] {
				t.Log(line)
			}
			return
		}
	}
}

func (m *meta) open() {
	m.opts.FS = m.disk
	if m.encrypts {
		m.opts.FS = encrypted(m.t, m.disk)
	}
	m.engine = openTest(m.t, m.opts)
}

func (m *meta) logf(format string, args ...any) { m.log = append(m.log, fmt.Sprintf(format, args...)) }

func (m *meta) check(what string, err error) {
	if err != nil {
		m.t.Errorf("%s: %v", what, err)
	}
}

func (m *meta) step() {
	switch n := m.rng.IntN(1000); {
	case n < 500:
		m.apply()
		m.repeat()
	case n < 940:
		m.read()
	default:
		m.disturb(n)
		m.repeat()
	}
}

// repeat repeats the last reads of one row, which draws nothing.
func (m *meta) repeat() {
	for i := range m.repeated {
		cmd := &m.repeated[i]
		cmd.Now = m.clock.Now().Unix()
		m.compare(cmd)
	}
	m.hits = max(m.hits, m.engine.Metrics().Rows.Hits)
}

// disturb does what must not change what is read, or changes it as a whole; n is from 940 to 999.
func (m *meta) disturb(n int) {
	switch {
	case n < 950:
		m.logf("flush")
		m.check("flush", m.engine.Flush())
	case n < 955:
		m.logf("compact")
		m.check("compact", m.engine.db.Compact(context.Background(), []byte{0}, bytes.Repeat([]byte{0xFF}, 40), false))
	case n < 970:
		m.clock.advance(time.Duration(m.rng.IntN(30)) * time.Second)
		m.logf("now %d", m.clock.Now().Unix())
	case n < 985:
		m.sweep()
	case n < 987:
		m.logf("measure suspects")
		m.check("measure suspects", m.engine.purger.MeasureSuspects())
	case n < 988:
		m.logf("truncate")
		m.check("truncate", m.engine.Truncate(testTable))
		m.model.Truncate()
	case n < 994:
		m.logf("restart")
		m.check("close", m.engine.Close())
		m.open()
	default:
		m.logf("crash")
		crashed := m.disk.CrashClone(vfs.CrashCloneCfg{})
		m.check("close", m.engine.Close())
		m.disk = crashed
		m.open()
	}
}

func (m *meta) sweep() {
	m.logf("sweep")
	m.check("sweep dead", sweepDead(m.engine))
	budget := 1 + m.rng.IntN(40)
	for restarted := false; ; restarted = true {
		wrapped, err := m.engine.Sweep(budget)
		m.check("sweep", err)
		if wrapped || err != nil {
			break
		}
		_ = restarted
	}
	m.model.Purge(m.clock.Now().Unix())
	// A sweep may be undone by a crash, which the model does not track.
	m.check("sync", m.engine.SetLocal([]byte("swept"), nil, true))
}

func (m *meta) apply() {
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

func (m *meta) read() {
	cmd := m.command()
	if cmd.Filter = m.filter(); cmd.Filter != nil && m.opts.FilterRows > 0 {
		m.readFiltered(cmd)
		return
	}
	if cmd.SinglePartition() && len(cmd.Slices) == 1 && cmd.Slices[0].Exact() {
		m.repeated = append(m.repeated[max(0, len(m.repeated)-7):], *cmd)
	}
	m.compare(cmd)
}

// compare compares a page of the engine with that of the model.
func (m *meta) compare(cmd *row.ReadCommand) {
	got, err := m.engine.Read([]byte("before"), cmd)
	if err != nil {
		m.t.Errorf("read: %v", err)
		return
	}
	got = got[len("before"):]
	m.logf("read %+v", *cmd)
	if want := m.model.Read(cmd); !bytes.Equal(got, want) {
		m.t.Errorf("read %+v\n got %s\nwant %s", *cmd, describePage(got), describePage(want))
	}
}

// key returns one of few keys; some share a token, and some are the beginning of another.
func (m *meta) key() row.PartitionKey {
	keys := []row.PartitionKey{
		{Token: -5, Bytes: []byte("b")}, {Token: -5, Bytes: []byte("ab")}, {Token: 7, Bytes: []byte{0}},
		{Token: 7, Bytes: []byte{0, 0xFF}}, {Token: ring.MaxToken, Bytes: []byte("z")},
		{Token: ring.MinToken + 1, Bytes: []byte("y")},
	}
	return keys[m.rng.IntN(len(keys))]
}

func (m *meta) clustering() []byte {
	var c []byte
	for _, n := range []int{4, 5, 3} {
		c = types.Native(types.Tinyint).AppendOrdered(c, []byte{byte(m.rng.IntN(n))}, false)
	}
	return c
}

// bound returns a clustering, the beginning of one, or a position after one.
func (m *meta) bound() []byte {
	c := m.clustering()
	b := c[:len(c)/3*m.rng.IntN(4)]
	if m.rng.IntN(2) == 0 {
		b = append(b, 0xFF)
	}
	return b
}

func (m *meta) interval() (start, end []byte) {
	start, end = m.bound(), m.bound()
	if bytes.Compare(start, end) > 0 {
		start, end = end, start
	}
	return start, end
}

func (m *meta) timestamp() int64 {
	if m.rising && m.rng.IntN(2) == 0 {
		m.timestamps++
	}
	return m.timestamps + 1 + m.rng.Int64N(25)
}

func (m *meta) localTime() int64 { return m.clock.Now().Unix() - m.rng.Int64N(20) }

func (m *meta) deletion() row.Deletion {
	return row.Deletion{Timestamp: m.timestamp(), LocalTime: m.localTime()}
}

// cells adds random cells to r.
func (m *meta) cells(r *row.Row, column schema.ColumnID) {
	for range m.rng.IntN(4) {
		c := row.Cell{Column: column + schema.ColumnID(m.rng.IntN(3)), Timestamp: m.timestamp()}
		if c.Column == column {
			c.Path = []byte{byte('p' + m.rng.IntN(3))}
		}
		switch m.rng.IntN(5) {
		case 0:
			c.Tombstone, c.LocalTime = true, m.localTime()
		case 1:
			c.TTL = int32(1 + m.rng.IntN(60))
			c.LocalTime = m.clock.Now().Unix() + int64(c.TTL)
			fallthrough
		default:
			c.Value = bytes.Repeat([]byte{byte('a' + m.rng.IntN(3))}, m.rng.IntN(4))
		}
		r.Cells = append(r.Cells, c)
	}
	if m.rng.IntN(6) == 0 {
		r.Complex = append(r.Complex, row.ComplexDeletion{Column: column, Deletion: m.deletion()})
	}
	r.Sort()
}

func (m *meta) mutation() *row.Mutation {
	out := new(row.Mutation)
	out.Reset(testTable, m.key())
	for range 1 + m.rng.IntN(4) {
		r := row.NewRow()
		switch n := m.rng.IntN(40); {
		case n < 2:
			r.Deletion = m.deletion()
			out.AddHeader(r)
		case n < 6:
			m.cells(r, 7)
			out.AddHeader(r)
		case n < 10:
			start, end := m.interval()
			out.AddRangeTombstone(row.RangeTombstone{Start: start, End: end, Deletion: m.deletion()})
		default:
			r.Clustering = m.clustering()
			m.row(r)
			out.AddRow(r)
		}
	}
	return out
}

func (m *meta) row(r *row.Row) {
	switch m.rng.IntN(6) {
	case 0:
		r.Deletion = m.deletion()
	case 1:
		r.Liveness = row.Liveness{Timestamp: m.timestamp(), TTL: int32(1 + m.rng.IntN(60))}
		r.Liveness.LocalTime = m.clock.Now().Unix() + int64(r.Liveness.TTL)
	case 2, 3:
		r.Liveness.Timestamp = m.timestamp()
	}
	m.cells(r, 1)
}

func (m *meta) command() *row.ReadCommand {
	cmd := &row.ReadCommand{
		Table: testTable, Now: m.clock.Now().Unix(),
		Reversed: m.rng.IntN(3) == 0, StaticCounts: m.rng.IntN(2) == 0, Slices: m.slices(),
		Inserted: m.rng.IntN(6) == 0,
	}
	if m.rng.IntN(2) == 0 {
		cmd.Limits.Rows = uint32(1 + m.rng.IntN(12))
	}
	if m.rng.IntN(3) == 0 {
		cmd.Limits.PerPartition = uint32(1 + m.rng.IntN(4))
	}
	if m.rng.IntN(2) == 0 {
		cmd.Key = m.key()
		return cmd
	}
	cmd.Range.Tokens = ring.FullRange()
	if m.rng.IntN(2) == 0 {
		tokens := []ring.Token{ring.MinToken, ring.MinToken + 1, -6, -5, 0, 7, ring.MaxToken - 1, ring.MaxToken}
		cmd.Range.Tokens = ring.Range{Start: tokens[m.rng.IntN(len(tokens))], End: tokens[m.rng.IntN(len(tokens))]}
		if cmd.Range.Tokens.Wraps() {
			cmd.Range.Tokens = ring.FullRange()
		}
	}
	if m.rng.IntN(3) == 0 {
		after := m.key()
		if cmd.Range.Tokens.Contains(after.Token) {
			cmd.Range.After = &after
		}
	}
	return cmd
}

func (m *meta) slices() (out []row.Slice) {
	switch m.rng.IntN(4) {
	case 0:
		return []row.Slice{row.AllRows()}
	case 1:
		return []row.Slice{row.ExactRow(m.clustering())}
	}
	var at []byte
	for range m.rng.IntN(4) {
		start, end := m.interval()
		if bytes.Compare(start, at) < 0 || bytes.Equal(start, end) {
			continue
		}
		out = append(out, row.Slice{Start: start, End: end})
		at = end
	}
	return out
}

func describe(m *row.Mutation) string {
	out := fmt.Sprintf("%d/%q", m.Key.Token, m.Key.Bytes)
	var e row.Entry
	r := row.NewRow()
	for entries := m.Entries(); entries.Next(&e); {
		_ = row.DecodeRow(r, e.Value)
		out += fmt.Sprintf(" | kind %d %q %q %+v", e.Kind, e.Start, e.End, *r)
	}
	return out
}

func describePage(page []byte) string {
	var r row.PageReader
	r.Reset(page)
	out := ""
	for r.NextPartition() {
		out += fmt.Sprintf("\n  %d/%q header %+v tombstones %+v", r.Key.Token, r.Key.Bytes, r.Header, r.RangeTombstones)
		for x := row.NewRow(); r.NextRow(x); {
			out += fmt.Sprintf("\n    %q %+v", x.Clustering, *x)
		}
	}
	return out + fmt.Sprintf("\n  more %v, error %v", r.More(), r.Err())
}
