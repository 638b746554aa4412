package index

import (
	"bytes"
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
	"cqld/storage/tableinfo"
	"cqld/types"
)

// The indexes of the test table, of columns that the generator of mutations writes.
const (
	ofValue   schema.StorageID = 2000 + iota // column 3
	ofStatic                                 // column 7
	ofElement                                // column 9, a set
	ofKey                                    // the partition key
)

func testDefinitions() []Definition {
	text := types.Native(types.Text)
	return []Definition{
		{ID: ofValue, Terms: ColumnTerms(&schema.Column{ID: 3, Kind: schema.Regular, Type: text}, Cell)},
		{ID: ofStatic, Partitions: true, Terms: ColumnTerms(&schema.Column{ID: 7, Kind: schema.Static, Type: text},
			Cell)},
		{ID: ofElement, Whole: true, Terms: ColumnTerms(&schema.Column{ID: 9, Kind: schema.Regular,
			Type: types.NewSet(text, false)}, Elements)},
		{ID: ofKey, Partitions: true, Terms: KeyTerms([]*schema.Column{{Type: text}}, 0)},
	}
}

// valuesRun is a randomized run of an engine with indexes of values beside a model.
type valuesRun struct {
	t      *testing.T
	rng    *rand.Rand
	clock  *testClock
	disk   *vfs.MemFS
	opts   storage.Options
	engine *storage.Engine
	values *Values
	model  model.Table
	known  []Definition // in the schema
	log    []string
	ahead  time.Duration // by which the clock was stepped forward
}

// TestValuesEqualModel does the same random operations on an engine and on the model, restarts and crashes the engine
// between, and compares searches by all indexes, in all orders and step by step, with the model. After sweeps no stale
// entries are left.
func TestValuesEqualModel(t *testing.T) {
	for seed := uint64(1); seed <= uint64(tier.Draws(8, 2)); seed++ {
		if *seedFlag != 0 {
			seed = *seedFlag
		}
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) { runValues(t, seed) })
		if *seedFlag != 0 {
			return
		}
	}
}

func runValues(t *testing.T, seed uint64) {
	m := &valuesRun{t: t, rng: rand.New(rand.NewPCG(seed, 11)), clock: newTestClock(), disk: vfs.NewCrashableMem()}
	m.known = testDefinitions()[:m.rng.IntN(5)]
	m.model.GCBefore = func(_ ring.Token, now int64) int64 { return now - grace }
	m.openEmpty(m.rng.IntN(2) == 0)
	defer func() { _ = m.engine.Close() }()
	for i := range *opsFlag / 2 {
		m.step()
		if t.Failed() {
			t.Logf("go test ./storage/index -run TestValuesEqualModel -seed %d (failed at operation %d)", seed, i)
			t.Log(strings.Join(m.log[max(0, len(m.log)-40):], "\n"))
			return
		}
	}
}

// openEmpty opens a new engine.
func (m *valuesRun) openEmpty(inline bool) {
	info := tableinfo.Info{Exists: true, GCGraceSeconds: grace, GC: tableinfo.GCTimeout}
	m.opts = storage.Options{Clock: m.clock, Dir: "db", Inline: inline, MemTableBytes: 1 << (14 + m.rng.IntN(8)),
		Table: func(schema.StorageID) tableinfo.Info { return info }}
	m.open()
}

func (m *valuesRun) open() {
	m.opts.FS, m.opts.Maintainers, m.opts.NoSweep = m.disk, nil, true
	m.values = NewValues(func(id schema.StorageID) []Definition {
		if id != testTable {
			return nil
		}
		return m.known
	})
	m.values.sweeps.patience = 0 // every change is swept
	m.values.SetSteps(1+m.rng.IntN(20), 0)
	MaintainValues(&m.opts, m.values)
	var err error
	if m.engine, err = storage.Open(m.opts); err != nil {
		m.t.Fatal(err)
	}
}

func (m *valuesRun) check(what string, err error) {
	if err != nil {
		m.t.Errorf("%s: %v", what, err)
	}
}

func (m *valuesRun) logf(format string, args ...any) {
	m.log = append(m.log, fmt.Sprintf(format, args...))
}

func (m *valuesRun) apply(ms ...*row.Mutation) {
	m.check("apply", apply(&engine{Engine: m.engine}, ms...))
	for _, x := range ms {
		m.model.Apply(x)
	}
}

func (m *valuesRun) step() {
	switch n := m.rng.IntN(1000); {
	case n < 450:
		ms := make([]*row.Mutation, 1+m.rng.IntN(3))
		for i := range ms {
			ms[i] = m.mutation()
		}
		m.apply(ms...)
	case n < 850:
		m.search()
	case n < 865:
		m.ingest()
	case n < 900:
		m.redefine()
	case n < 925:
		m.build(1 + m.rng.IntN(20))
	case n < 935:
		m.logf("flush")
		m.check("flush", m.engine.Flush())
	case n < 955:
		m.clock.advance(time.Duration(m.rng.IntN(30)) * time.Second)
	case n < 958:
		m.stepClock()
	case n < 970:
		m.sweep()
	case n < 975:
		m.logf("truncate")
		m.check("truncate", m.engine.Truncate(testTable))
		m.model.Truncate()
	default:
		m.restart()
	}
}

// redefine changes the schema: it creates or drops an index. A recreated definition has other entries than before.
func (m *valuesRun) redefine() {
	m.known = slices.Clone(m.known)
	if len(m.known) > 0 && m.rng.IntN(3) == 0 {
		i := m.rng.IntN(len(m.known))
		m.logf("drop %d", m.known[i].ID)
		m.known = slices.Delete(m.known, i, i+1)
		return
	}
	all := testDefinitions()
	d := all[m.rng.IntN(len(all))]
	if !slices.ContainsFunc(m.known, func(o Definition) bool { return o.ID == d.ID }) {
		m.logf("create %d", d.ID)
		m.known = append(m.known, d)
	}
}

// build executes steps of pending builds.
func (m *valuesRun) build(steps int) {
	for range steps {
		work := m.values.Pending([]schema.StorageID{testTable})
		if len(work) == 0 {
			return
		}
		w := work[m.rng.IntN(len(work))]
		m.logf("work %+v", w)
		if w.Drop {
			m.check("drop", m.values.DropIndex(w.Table, w.Index))
			continue
		}
		_, err := m.values.Build(w.Table, w.Index)
		m.check("build", err)
	}
}

func (m *valuesRun) restart() {
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

// sweep purges, and removes stale entries.
func (m *valuesRun) sweep() {
	m.logf("sweep")
	budget := 1 + m.rng.IntN(40)
	for wrapped, err := false, error(nil); !wrapped && err == nil; {
		wrapped, err = m.engine.Sweep(budget)
		m.check("sweep", err)
	}
	m.model.Purge(m.clock.Now().Unix())
	now := m.clock.Now().Unix()
	m.sweepEntries(now)
	m.noStale()
	m.check("sync", m.engine.SetLocal([]byte("swept"), nil, true))
	m.rests(now)
}

// rests checks that a sweep reads nothing before the next change: not now, and sometimes not after a restart.
func (m *valuesRun) rests(now int64) {
	if m.rng.IntN(4) == 0 {
		m.restart()
	}
	for table := range m.values.all() {
		if !m.values.sweeps.isClean(table) {
			m.t.Errorf("table %d is not clean after a sweep without changes", table)
		}
	}
	if _, wrapped, err := m.values.Sweep(1, now); !wrapped || err != nil {
		m.t.Errorf("a sweep of clean entries reads some, or fails: %v", err)
	}
}

// stepClock steps the clock forward, sweeps the entries and, later, steps it back. The step is shorter than the grace
// period, so that no purge by the forward clock removes what is live by the true time.
func (m *valuesRun) stepClock() {
	if m.ahead > 0 {
		m.logf("clock back by %v", m.ahead)
		m.clock.advance(-m.ahead)
		m.ahead = 0
		return
	}
	m.ahead = time.Duration(1+m.rng.IntN(grace)) * time.Second
	m.logf("clock forward by %v", m.ahead)
	m.clock.advance(m.ahead)
	m.sweepEntries(m.clock.Now().Unix() + 7_200)
}

// noStale checks that every entry has a row, or a partition, with its term.
func (m *valuesRun) noStale() {
	entries, err := m.values.host.Entries(testTable, nil, nil)
	if err != nil {
		m.t.Fatal(err)
	}
	defer entries.Close()
	s := new(scratch)
	for valid := entries.First(); valid; valid = entries.Next() {
		e, ok := parseEntry(entries.Key())
		def, defined := m.values.definition(testTable, e.index)
		if !ok || !defined || def.OfKey() {
			continue
		}
		value, err := m.values.host.Stored(testTable, e.key, e.kind, e.clustering)
		if err != nil || !s.yields(&def, &e, value) {
			m.t.Errorf("a stale entry of index %d at %q %x is left after a sweep: %v", e.index, e.key.Bytes,
				e.clustering, err)
		}
	}
}

// ingest brings what another engine has, while the schema may change.
func (m *valuesRun) ingest() {
	m.logf("ingest")
	source := plain(m.t, storage.Options{Clock: m.clock, Inline: true})
	defer source.Close()
	g := m.engine.NewIngestion(testTable, ring.FullRange())
	for range 10 {
		x := m.mutation()
		mustApply(m.t, source, x)
		m.model.Apply(x)
	}
	for first, after := true, []byte(nil); first || after != nil; first = false {
		if m.rng.IntN(4) == 0 {
			m.redefine()
		}
		if m.rng.IntN(4) == 0 {
			m.build(3)
		}
		var block []byte
		var err error
		block, after, err = source.Export(nil, testTable, ring.FullRange(), nil, after, 1<<(6+m.rng.IntN(14)))
		m.check("export", err)
		m.check("add", g.Add(block))
	}
	m.check("ingest", g.Commit())
}

// found is a row, or a partition, with a term.
type foundRow struct {
	term  string
	place string
}

// want are the rows of the model that match, in the order of their places or of their terms.
func (m *valuesRun) want(def *Definition, q *Query) (out []foundRow) {
	var r row.PageReader
	r.Reset(m.model.Read(&row.ReadCommand{
		Table: testTable, Range: row.KeyRange{Tokens: ring.FullRange()}, Slices: []row.Slice{row.AllRows()}, Now: q.Now,
	}))
	add := func(key row.PartitionKey, kind row.EntryKind, x *row.Row) {
		if m.inUnion(q, key, kind, x) {
			out = append(out, foundRow{place: string(AppendPlace(nil, key, kind, x.Clustering))})
			return
		}
		var found Found
		def.Terms.Append(&found, &Source{Key: key, Kind: kind, Row: x}, q.Now)
		for i := range found.Len() {
			in := func(t row.Slice) bool { return t.Contains(found.Term(i)) }
			if !slices.ContainsFunc(q.Terms, in) || !q.Tokens.Contains(key.Token) {
				continue
			}
			place := AppendPlace(nil, key, kind, x.Clustering)
			if def.Partitions {
				place = AppendPlaceEnd(nil, key)
			}
			out = append(out, foundRow{string(found.Term(i)), string(place)})
			if q.Order == ByToken {
				return
			}
		}
	}
	for r.NextPartition() {
		r.Header.Clustering = nil
		add(r.Key, row.KindHeader, &r.Header)
		var x row.Row
		for r.NextRow(&x) {
			if x.Live(q.Now) {
				add(r.Key, row.KindRow, &x)
			}
		}
	}
	slices.SortFunc(out, func(a, b foundRow) int {
		if q.Order == ByTerm && a.term != b.term {
			return strings.Compare(a.term, b.term)
		}
		return strings.Compare(a.place, b.place)
	})
	if q.Order == ByToken {
		out = slices.CompactFunc(out, func(a, b foundRow) bool { return a.place == b.place })
	}
	if q.Reversed {
		slices.Reverse(out)
	}
	return out
}

// inUnion reports whether a row has a term of a branch of a query.
func (m *valuesRun) inUnion(q *Query, key row.PartitionKey, kind row.EntryKind, x *row.Row) bool {
	return q.Tokens.Contains(key.Token) && slices.ContainsFunc(q.Union, func(b Branch) bool {
		i := slices.IndexFunc(m.known, func(d Definition) bool { return d.ID == b.Index })
		var found Found
		m.known[i].Terms.Append(&found, &Source{Key: key, Kind: kind, Row: x}, q.Now)
		return found.InAny(b.Terms)
	})
}

// unite adds branches to a query of the rows of some index.
func (m *valuesRun) unite(def *Definition, q *Query) {
	for range m.rng.IntN(3) {
		other := m.known[m.rng.IntN(len(m.known))]
		if q.Order == ByToken && !def.Partitions && !other.Partitions && m.values.Built(testTable, other.ID) {
			q.Union = append(q.Union, Branch{other.ID, m.query(&other).Terms})
		}
	}
}

// query returns a random query of an index.
func (m *valuesRun) query(def *Definition) *Query {
	term := func() []byte { return types.Native(types.Text).AppendOrdered(nil, m.text(), false) }
	q := &Query{Table: testTable, Index: def.ID, Order: ByToken, Tokens: ring.FullRange(), Limit: 1 + m.rng.IntN(5),
		Now: m.clock.Now().Unix()}
	// A client's present may be far in the future (now_in_seconds). Later searches must find the same as without it.
	if m.rng.IntN(8) == 0 {
		q.Now += 36_000
	}
	switch m.rng.IntN(4) {
	case 0:
		q.Terms = []row.Slice{row.ExactRow(term())}
	case 2: // intervals and single terms
		var terms [][]byte
		for range 2 + m.rng.IntN(8) {
			terms = append(terms, term())
		}
		slices.SortFunc(terms, bytes.Compare)
		terms = slices.CompactFunc(terms, bytes.Equal)
		for i := 0; i+1 < len(terms); i += 1 + m.rng.IntN(2) {
			if q.Terms = append(q.Terms, row.Slice{Start: terms[i], End: terms[i+1]}); m.rng.IntN(3) == 0 {
				q.Terms[len(q.Terms)-1] = row.ExactRow(terms[i])
			}
		}
		if m.rng.IntN(3) == 0 {
			q.Terms = append(q.Terms, row.Slice{Start: terms[len(terms)-1]})
		}
	case 1:
		var terms [][]byte
		for range 1 + m.rng.IntN(12) {
			terms = append(terms, term())
		}
		slices.SortFunc(terms, bytes.Compare)
		for _, t := range slices.CompactFunc(terms, bytes.Equal) {
			q.Terms = append(q.Terms, row.ExactRow(t))
		}
	default:
		q.Terms = []row.Slice{{Start: term()}}
		if m.rng.IntN(2) == 0 {
			q.Terms[0].End = term()
		}
	}
	if def.Whole && m.rng.IntN(2) == 0 {
		q.Order, q.Reversed = ByTerm, m.rng.IntN(2) == 0
	}
	if m.rng.IntN(3) == 0 {
		q.Tokens = ring.Range{Start: m.key().Token, End: ring.MinToken}
	} else if q.Order == ByToken && m.rng.IntN(3) == 0 {
		q.Key, q.Reversed = m.key(), !def.Partitions && m.rng.IntN(2) == 0
		q.Tokens = ring.Range{Start: q.Key.Token - 1, End: q.Key.Token} // the keys have different tokens
	}
	return q
}

// search compares a search, step by step, with the model's.
func (m *valuesRun) search() {
	if len(m.known) == 0 {
		return
	}
	def := m.known[m.rng.IntN(len(m.known))]
	q := m.query(&def)
	m.unite(&def, q)
	if m.values.ranges = usualRanges(); m.rng.IntN(4) > 0 { // also the rows of the table are looked at
		m.values.ranges = rangeBounds{1 + m.rng.IntN(4), 1 + m.rng.IntN(4), 1 + m.rng.IntN(20), 1 + m.rng.IntN(8),
			m.rng.IntN(4)}
	}
	m.logf("search %d key %.9q ranges %v order %d reversed %v terms %.200s union %.200s", q.Index, q.Key.Bytes,
		m.values.ranges, q.Order, q.Reversed, fmt.Sprintf("%q", q.Terms), fmt.Sprint(q.Union))
	var got []foundRow
	for {
		page, err := m.values.Search(q)
		if !m.values.Built(testTable, def.ID) {
			if _, counted := m.values.Count(q, 1); err != ErrNotBuilt || counted != ErrNotBuilt {
				m.t.Errorf("search by an index that is not built: %v, %v", err, counted)
			}
			return
		}
		if err != nil {
			m.t.Errorf("search: %v", err)
			return
		}
		for _, c := range page.Candidates {
			place := PlaceOf(q.Order, c.At)
			f := foundRow{place: string(place)}
			if n, ok := splitTerm(c.At); ok && q.Order == ByTerm {
				f.term = string(consumeTerm(nil, c.At[:n]))
			}
			got = append(got, f)
		}
		if !page.More {
			break
		}
		q.From = page.Last
	}
	q.From = nil
	want := m.want(&def, q)
	if def.OfKey() { // partitions that have something stored are candidates, whether they live or not
		got = slices.DeleteFunc(got, func(f foundRow) bool {
			return !slices.ContainsFunc(want, func(w foundRow) bool { return w.place == f.place })
		})
	}
	for i := range want {
		if q.Order == ByToken {
			want[i].term = ""
		}
	}
	if len(q.Union) == 0 {
		m.count(q, len(got))
	}
	if !slices.Equal(got, want) {
		m.t.Errorf("found %.2000s\nwant %.2000s", fmt.Sprintf("%q", got), fmt.Sprintf("%q", want))
	}
}

// count checks that a query which finds rows in the order of tokens has at least as many entries.
func (m *valuesRun) count(q *Query, rows int) {
	if q.Order != ByToken {
		return
	}
	all, err := m.values.Count(q, 1<<20)
	m.check("count", err)
	some, err := m.values.Count(q, 2)
	m.check("count", err)
	if all < rows || some != min(all, 2) {
		m.t.Errorf("%d entries, %d of at most 2, for %d rows", all, some, rows)
	}
}

func (m *valuesRun) key() row.PartitionKey { return row.NewPartitionKey(m.text()) }

// text returns one of a few values, of which two begin with the same termMax bytes.
func (m *valuesRun) text() []byte {
	switch n := m.rng.IntN(9); {
	case n < 7:
		return []byte(strings.Repeat("x\x00", m.rng.IntN(2)) + string(rune('a'+n)))
	case n == 7:
		return []byte(strings.Repeat("long", termMax/4) + string(rune('a'+m.rng.IntN(2))))
	}
	return []byte{}
}

// mutation changes a few of the rows of one partition.
func (m *valuesRun) mutation() *row.Mutation {
	out := new(row.Mutation)
	key := m.key()
	if len(key.Bytes) == 0 {
		key = row.NewPartitionKey([]byte("k"))
	}
	out.Reset(testTable, key)
	local := func() int64 { return m.clock.Now().Unix() - m.rng.Int64N(20) }
	deletion := func() row.Deletion { return row.Deletion{Timestamp: 1 + m.rng.Int64N(25), LocalTime: local()} }
	cell := func(column schema.ColumnID) row.Cell {
		c := row.Cell{Column: column, Timestamp: 1 + m.rng.Int64N(25), Value: m.text()}
		switch m.rng.IntN(4) {
		case 0:
			c.TTL = int32(1 + m.rng.IntN(60))
			c.LocalTime = m.clock.Now().Unix() + int64(c.TTL)
		case 1:
			c.Tombstone, c.Value, c.LocalTime = true, nil, local()
		}
		return c
	}
	for range 1 + m.rng.IntN(3) {
		r := row.NewRow()
		r.Clustering = clusteringOf(m.rng.IntN(6))
		switch n := m.rng.IntN(20); {
		case n == 0:
			r.Clustering, r.Deletion = nil, deletion()
			out.AddHeader(r)
			continue
		case n < 4:
			r.Clustering, r.Cells = nil, []row.Cell{cell(7)}
			out.AddHeader(r)
			continue
		case n == 4:
			out.AddRangeTombstone(row.RangeTombstone{Start: r.Clustering, End: clusteringOf(12), Deletion: deletion()})
			continue
		case n == 5:
			r.Deletion = deletion()
		case n == 6:
			r.Complex = []row.ComplexDeletion{{Column: 9, Deletion: deletion()}}
		case n < 11:
			c := cell(9)
			c.Path, c.Value = types.Native(types.Text).AppendOrdered(nil, m.text(), false), nil
			r.Cells = []row.Cell{c}
		default:
			if m.rng.IntN(2) == 0 {
				r.Liveness.Timestamp = 1 + m.rng.Int64N(25)
			}
			r.Cells = []row.Cell{cell(3)}
		}
		out.AddRow(r)
	}
	m.logf("change %.9q", out.Key.Bytes)
	return out
}
