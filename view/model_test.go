package view

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"cqld/coordinator"
	"cqld/internal/env"
	"cqld/internal/model"
	"cqld/ring"
	"cqld/row"
	"cqld/scan"
	"cqld/schema"
	"cqld/search"
	"cqld/storage/index"
	"cqld/types"
)

const testNow = 1000 // seconds

type testView struct{ s *schema.Schema }

func (v testView) Schema() *schema.Schema { return v.s }

type testClock struct{}

func (testClock) Now() time.Time                        { return time.Unix(testNow, 0) }
func (testClock) Monotonic() time.Duration              { return 1 }
func (testClock) After(time.Duration, func()) env.Timer { panic("nothing waits here") }

// base is a coordinator and a searcher over a model of the base table. The searcher finds rows by the terms that the
// index would have.
type base struct {
	model.Table
	schema *schema.Table
	late   []func() // answers that have not been given
	wait   bool     // answer later
}

func (b *base) Write(*coordinator.WriteRequest, func(error))       { panic("unused") }
func (b *base) Truncate(*schema.Table, time.Duration, func(error)) { panic("unused") }
func (b *base) answer(f func()) {
	if b.wait {
		b.late = append(b.late, f)
		return
	}
	f()
}

func (b *base) Read(req *coordinator.ReadRequest, done func([]byte, error)) {
	page := b.Table.Read(req.Command)
	b.answer(func() { done(page, nil) })
}

// found is a row with its term.
type found struct {
	term []byte
	key  row.PartitionKey
	x    row.Row
}

// Search answers with rows in the order of their terms.
func (b *base) Search(req *search.Request, done func(*search.Result, error)) {
	var all []found
	for _, d := range Definitions(b.schema) {
		if d.ID != req.Index {
			continue
		}
		eachRow(b, func(key row.PartitionKey, x *row.Row) {
			var terms index.Found
			d.Terms.Append(&terms, &index.Source{Key: key, Kind: row.KindRow, Row: x}, req.Now)
			if terms.Len() == 1 && terms.InAny(req.Terms) {
				all = append(all, found{bytes.Clone(terms.Term(0)), key, x.Clone()})
			}
		})
	}
	slices.SortFunc(all, func(a, b found) int { return bytes.Compare(a.term, b.term) })
	if req.Reversed {
		slices.Reverse(all)
	}
	after := 0
	if len(req.From) > 0 {
		after = int(binary.BigEndian.Uint32(req.From))
	}
	until := min(after+max(req.Limit, 1), len(all))
	w := row.NewPageWriter(nil)
	for _, f := range all[after:until] {
		w.Partition(f.key, row.NewRow(), nil)
		w.Row(&f.x)
		w.EndPartition()
	}
	result := &search.Result{Page: w.Finish(false), Rows: until - after, More: until < len(all),
		Next: binary.BigEndian.AppendUint32(nil, uint32(until))}
	b.answer(func() { done(result, nil) })
}

// eachRow calls f for each row of the base table.
func eachRow(b *base, f func(row.PartitionKey, *row.Row)) {
	var r row.PageReader
	r.Reset(b.Table.Read(&row.ReadCommand{Table: b.schema.StorageID, Range: row.KeyRange{Tokens: ring.FullRange()},
		Slices: []row.Slice{row.AllRows()}, Now: testNow}))
	var x row.Row
	for r.NextPartition() {
		for r.NextRow(&x) {
			f(r.Key, &x)
		}
	}
}

// world is a random table with a random view.
type world struct {
	*rand.Rand
	base *base
	view *schema.Table
	s    *schema.Schema
}

func newWorld(t *testing.T, seed uint64) *world {
	t.Helper()
	w := &world{Rand: rand.New(rand.NewPCG(seed, 1))}
	apply := func(c schema.Change) {
		next, err := schema.Apply(w.s, c)
		if err != nil {
			t.Fatal(err)
		}
		w.s = next
	}
	w.s = schema.Initial()
	apply(&schema.CreateKeyspace{Keyspace: "ks", Replication: ring.Replication{Class: ring.Simple, Factor: 1}})
	number, text := types.Native(types.Int), types.Native(types.Text)
	apply(&schema.CreateTable{Keyspace: "ks", Table: "t", ID: schema.UUID{1}, Options: schema.DefaultOptions(),
		Columns: []schema.ColumnSpec{
			{Name: "p", Kind: schema.PartitionKey, Type: number}, {Name: "q", Kind: schema.PartitionKey, Type: text},
			{Name: "c", Kind: schema.Clustering, Type: number, Desc: w.IntN(2) == 0},
			{Name: "d", Kind: schema.Clustering, Type: text},
			{Name: "v", Kind: schema.Regular, Type: number}, {Name: "w", Kind: schema.Regular, Type: text},
			{Name: "s", Kind: schema.Static, Type: number}}})
	table := w.s.Table("ks", "t")
	keys := slices.Concat(table.PartitionKey, table.Clustering)
	if w.IntN(4) > 0 {
		keys = append(keys, table.Column([]string{"v", "w"}[w.IntN(2)]))
	}
	w.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	c := &schema.CreateView{Keyspace: "ks", View: "x", ID: schema.UUID{2}, Base: "t", BaseID: table.ID,
		All:     w.IntN(2) == 0,
		Options: schema.DefaultOptions()}
	n := 1 + w.IntN(len(keys))
	for i, k := range keys {
		if i < n {
			c.Partition = append(c.Partition, k.ID)
		} else {
			c.Clustering = append(c.Clustering, schema.ViewClustering{Column: k.ID, Desc: w.IntN(2) == 0})
		}
	}
	if w.IntN(3) == 0 {
		c.Where = []schema.ViewCondition{{Columns: []schema.ColumnID{table.Column("c").ID},
			Operator: schema.ViewGreater,
			Values:   [][]byte{w.number()}, Text: "> 0"}}
	}
	apply(c)
	w.view = w.s.Table("ks", "x")
	w.base = &base{schema: w.s.Table("ks", "t")}
	return w
}

func (w *world) number() []byte { return binary.BigEndian.AppendUint32(nil, uint32(w.IntN(3)-1)) }
func (w *world) text() []byte   { return []byte([]string{"", "a", "\x00b", "b"}[w.IntN(4)]) }

// mutation changes a random partition: rows, cells, and intervals of rows.
func (w *world) mutation() *row.Mutation {
	t := w.base.schema
	m := &row.Mutation{}
	m.Reset(t.StorageID, row.NewPartitionKey(row.AppendKeyComponents(nil, [][]byte{w.number(), w.text()})))
	stamp := int64(w.IntN(50))
	deletion := row.Deletion{Timestamp: stamp, LocalTime: testNow - 5}
	clustering := t.Clustering[0].Type.AppendOrdered(nil, w.number(), t.Clustering[0].Desc)
	r := row.NewRow()
	switch w.IntN(10) {
	case 0:
		r.Deletion = deletion
		m.AddHeader(r)
		return m
	case 1:
		m.AddRangeTombstone(row.RangeTombstone{Start: clustering, End: row.After(clustering), Deletion: deletion})
		return m
	case 2:
		r.Cells = append(r.Cells, row.Cell{Column: t.Column("s").ID, Timestamp: stamp, Value: w.number()})
		m.AddHeader(r)
		return m
	case 3:
		r.Deletion = deletion
	}
	r.Clustering = t.Clustering[1].Type.AppendOrdered(clustering, w.text(), false)
	ttl, expires := int32(0), int64(0)
	if w.IntN(3) == 0 {
		ttl, expires = 10, testNow-5+int64(w.IntN(10))
	}
	if w.IntN(2) == 0 {
		r.Liveness = row.Liveness{Timestamp: stamp, TTL: ttl, LocalTime: expires}
	}
	for _, name := range []string{"v", "w"} {
		cell := row.Cell{Column: t.Column(name).ID, Timestamp: stamp, TTL: ttl, LocalTime: expires}
		switch w.IntN(4) {
		case 0:
			continue
		case 1:
			cell.Tombstone, cell.TTL, cell.LocalTime = true, 0, testNow-5
		default:
			if cell.Value = w.number(); name == "w" {
				cell.Value = w.text()
			}
		}
		r.Cells = append(r.Cells, cell)
	}
	r.Sort()
	m.AddRow(r)
	return m
}

// want returns the rows of the view, as text, in its order: computed from the values of each row of the base table.
func (w *world) want() (out []string) {
	t := w.base.schema
	type placed struct {
		key        row.PartitionKey
		clustering []byte
		text       string
	}
	var all []placed
	eachRow(w.base, func(key row.PartitionKey, x *row.Row) {
		values := map[string][]byte{}
		parts := row.KeyComponents(nil, key.Bytes, 2)
		values["p"], values["q"] = parts[0], parts[1]
		c, rest, _ := t.Clustering[0].Type.ConsumeOrdered(nil, x.Clustering, t.Clustering[0].Desc)
		values["c"] = c
		values["d"], _, _ = t.Clustering[1].Type.ConsumeOrdered(nil, rest, false)
		for i := range x.Cells {
			if cell := &x.Cells[i]; cell.Live(testNow) {
				values[t.ColumnByID(cell.Column).Name] = append([]byte{}, cell.Value...)
			}
		}
		if !x.Live(testNow) {
			return
		}
		for i := range w.view.View.Where { // c > value
			if types.Native(types.Int).Compare(values["c"], w.view.View.Where[i].Values[0]) <= 0 {
				return
			}
		}
		var keys [][]byte
		p := placed{clustering: []byte{}}
		for _, k := range slices.Concat(w.view.PartitionKey, w.view.Clustering) {
			if values[k.Name] == nil {
				return
			}
		}
		for _, k := range w.view.PartitionKey {
			keys = append(keys, values[k.Name])
		}
		for _, k := range w.view.Clustering {
			p.clustering = k.Type.AppendOrdered(p.clustering, values[k.Name], k.Desc)
		}
		p.key = row.NewPartitionKey(row.AppendKeyComponents(nil, keys))
		p.text = fmt.Sprintf("%x %x", p.key.Bytes, p.clustering)
		for _, k := range w.view.Regulars {
			p.text += fmt.Sprintf(" %s=%x", k.Name, values[k.Name])
		}
		all = append(all, p)
	})
	slices.SortFunc(all, func(a, b placed) int {
		if order := a.key.Compare(b.key); order != 0 {
			return order
		}
		return bytes.Compare(a.clustering, b.clustering)
	})
	for _, p := range all {
		out = append(out, p.text)
	}
	return out
}

// got reads rows of the view page by page.
func (w *world) got(t *testing.T, r *Reader, c *scan.Cursor) (out []string) {
	t.Helper()
	var x row.Row
	for c.More() {
		cmd := new(row.ReadCommand)
		c.Next(cmd)
		var page []byte
		answers := 0
		r.Read(&coordinator.ReadRequest{Command: cmd, Consistency: ring.One, Timeout: time.Second},
			func(p []byte, err error) {
				if err != nil {
					t.Fatal(err)
				}
				answers++
				page = bytes.Clone(p)
			})
		for len(w.base.late) > 0 {
			next := w.base.late[0]
			w.base.late = w.base.late[1:]
			next()
		}
		if answers != 1 {
			t.Fatalf("%d answers", answers)
		}
		c.Page(page)
		for c.NextPartition() {
			for c.NextRow(&x) {
				if !x.Live(testNow) {
					t.Fatal("a page has a row that is not live")
				}
				text := fmt.Sprintf("%x %x", c.Reader.Key.Bytes, x.Clustering)
				for _, k := range w.view.Regulars {
					var value []byte
					for i := range x.Cells {
						if x.Cells[i].Column == k.ID {
							value = x.Cells[i].Value
						}
					}
					text += fmt.Sprintf(" %s=%x", k.Name, value)
				}
				out = append(out, text)
				c.At.Given++
				c.Consumed()
			}
		}
		if err := c.EndPage(); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// TestViewsEqualTheirModel compares random reads of random views with rows that are computed from the rows of the base
// table, by scans and by searches.
func TestViewsEqualTheirModel(t *testing.T) {
	rows := 0
	for seed := range uint64(80) {
		w := newWorld(t, seed)
		for range 30 + w.IntN(60) {
			w.base.Apply(w.mutation())
		}
		want := w.want()
		rows += len(want)
		for _, searched := range []bool{false, true} {
			o := Options{Coordinator: w.base, View: testView{w.s}, Clock: testClock{},
				Limits: Limits{Rows: 1 + w.IntN(10), BasePage: 1 + w.IntN(10), Examined: 1 + w.IntN(10)}}
			if searched {
				o.Searcher = w.base
			}
			r := New(o)
			w.base.wait = w.IntN(2) == 0
			w.compare(t, r, fmt.Sprint("seed ", seed, ", searched ", searched), want)
		}
	}
	if rows < 300 {
		t.Errorf("the views had %d rows only", rows)
	}
}

// compare reads everything, each partition in both directions, and rest after a limit.
func (w *world) compare(t *testing.T, r *Reader, name string, want []string) {
	t.Helper()
	all := &scan.Cursor{Tokens: ring.FullRange(), Command: row.ReadCommand{Table: w.view.StorageID,
		Slices: []row.Slice{row.AllRows()}, Now: testNow,
		Limits: row.Limits{Rows: uint32(w.IntN(5))}}}
	if got := w.got(t, r, all); !slices.Equal(got, want) {
		t.Fatalf("%s: the view has\n%s\nnot\n%s", name, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	var keys []string
	for _, text := range want {
		key, _, _ := strings.Cut(text, " ")
		if !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	for _, key := range keys {
		var raw []byte
		if _, err := fmt.Sscanf(key, "%x", &raw); err != nil {
			raw = []byte{}
		}
		var part []string
		for _, text := range want {
			if strings.HasPrefix(text, key+" ") {
				part = append(part, text)
			}
		}
		one := &scan.Cursor{Command: row.ReadCommand{Table: w.view.StorageID, Slices: []row.Slice{row.AllRows()},
			Now:      testNow,
			Reversed: w.IntN(2) == 0, Limits: row.Limits{Rows: uint32(w.IntN(4))}}}
		one.One(row.NewPartitionKey(raw))
		if one.Command.Reversed {
			slices.Reverse(part)
		}
		if w.IntN(3) == 0 {
			one.PerPartition = 1 + uint32(w.IntN(3))
			one.Command.Limits.PerPartition = one.PerPartition
			part = part[:min(len(part), int(one.PerPartition))]
		}
		if got := w.got(t, r, one); !slices.Equal(got, part) {
			t.Fatalf("%s: the partition %s has\n%s\nnot\n%s", name, key, strings.Join(got, "\n"),
				strings.Join(part, "\n"))
		}
	}
}

// TestNewerColumnsAreOmitted checks that a cell of a column that was added after the schema of the read, which other
// nodes may write while the read continues, changes no row of the view.
func TestNewerColumnsAreOmitted(t *testing.T) {
	rows := 0
	for seed := range uint64(40) {
		w := newWorld(t, seed)
		for range 40 {
			w.base.Apply(w.mutation())
		}
		m := NewMapper(w.base.schema, w.view)
		eachRow(w.base, func(key row.PartitionKey, x *row.Row) {
			var want, got row.Row
			if _, ok := m.Row(&want, key, x, testNow); !ok {
				return
			}
			rows++
			newer := *x
			newer.Cells = append(slices.Clone(x.Cells), row.Cell{Column: w.base.schema.NextColumn + 2, Timestamp: 5,
				Value: []byte("x")})
			if _, ok := m.Row(&got, key, &newer, testNow); !ok || len(got.Cells) != len(want.Cells) {
				t.Errorf("seed %d: %d cells (%t), want %d", seed, len(got.Cells), ok, len(want.Cells))
			}
		})
	}
	if rows < 100 {
		t.Errorf("the views had %d rows only", rows)
	}
}

// reserving is a searcher whose searches reserve memory.
type reserving struct{ *base }

// Search implements Searcher.
func (s reserving) Search(req *search.Request, done func(*search.Result, error)) {
	if req.Grow == nil || !req.Grow(60) || !req.Grow(40) {
		done(nil, &coordinator.NeedsMemory{Bytes: 200})
		return
	}
	s.base.Search(req, done)
}

// TestSearchesReserveMemory reads a view with much and with little memory. A search uses again what an earlier search
// of the read has reserved.
func TestSearchesReserveMemory(t *testing.T) {
	w := newWorld(t, 1)
	for range 60 {
		w.base.Apply(w.mutation())
	}
	r := New(Options{Coordinator: w.base, View: testView{w.s}, Clock: testClock{}, Searcher: reserving{w.base}})
	for _, most := range []int{100, 99} {
		held := 0
		var failure error
		r.Read(&coordinator.ReadRequest{Command: &row.ReadCommand{Table: w.view.StorageID,
			Range: row.KeyRange{Tokens: ring.FullRange()}, Slices: []row.Slice{row.AllRows()}, Now: testNow},
			Consistency: ring.One, Timeout: time.Second,
			Grow: func(n int) bool {
				if held+n > most {
					return false
				}
				held += n
				return true
			}}, func(_ []byte, err error) { failure = err })
		var needs *coordinator.NeedsMemory
		if enough := most == 100; errors.As(failure, &needs) == enough || enough && (failure != nil || held != 100) {
			t.Errorf("with %d bytes: %v, %d are reserved", most, failure, held)
		}
	}
	held := 0
	s := &searchSource{op: &readOp{req: &coordinator.ReadRequest{Grow: func(n int) bool {
		held += n
		return held <= 700
	}}}}
	first, second := s.grow(), s.grow()
	if !first(300) || !first(200) || held != 500 {
		t.Errorf("the first search has reserved %d bytes of 500", held)
	}
	if !second(400) || held != 500 || !second(300) || held != 700 || second(1) {
		t.Errorf("the second search has reserved %d bytes, want 700 for both", held)
	}
	if (&searchSource{op: &readOp{req: new(coordinator.ReadRequest)}}).grow() != nil {
		t.Error("a read without a bound bounds its searches")
	}
}
