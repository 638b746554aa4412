package query

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"cqld/coordinator"
	"cqld/internal/model"
	"cqld/internal/model/generate"
	"cqld/request"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/search"
	"cqld/view"
)

// droppedStore is a coordinator whose commands may end after a few rows, and whose views can be read.
type droppedStore struct {
	shortPages
	reader *view.Reader
}

func (s *droppedStore) Read(req *coordinator.ReadRequest, done func([]byte, error)) {
	s.reader.Read(req, done)
}

// Search reads whole partitions.
func (s *droppedStore) Search(req *search.Request, done func(*search.Result, error)) {
	s.table(req.Table.StorageID).PageRows = 0
	s.shortPages.Search(req, done)
}

// answerOrError is the result of a query: its rows, or its error message.
type answerOrError struct {
	rows []string
	err  string
}

// TestDroppedColumnsLeaveNoRows compares generated queries before and after the cells of dropped columns are removed
// from storage. A dropped column may have been added again, and views are created afterwards. A row whose only cells
// belong to dropped columns does not exist, so every answer is the same.
func TestDroppedColumnsLeaveNoRows(t *testing.T) {
	n := *pagingQueries
	if testing.Short() {
		n = min(n, 1000)
	}
	total, answered := n, 0
	for seed := *pagingSeed; n > 0; seed++ {
		c, purge := newDroppedCase(t, seed)
		var queries []generate.Query
		var sizes []int32
		var want []answerOrError
		answer := func(i int) answerOrError {
			rows, _, err := c.rows(queries[i].Statement, sizes[i])
			if err != nil {
				return answerOrError{err: err.Error()}
			}
			return answerOrError{rows: rows}
		}
		for i := range queriesPerTable {
			queries = append(queries, c.query())
			sizes = append(sizes, int32(c.r.IntN(4)))
			if queries[i].Sorted {
				sizes[i] = 0
			}
			want = append(want, answer(i))
		}
		purge()
		for i, q := range queries {
			got := answer(i)
			if !slices.Equal(got.rows, want[i].rows) || got.err != want[i].err {
				t.Errorf("%s, pages of %d\n   got %q\npurged %q", q.Literal(), sizes[i], want[i], got)
			}
			if len(got.rows) > 0 {
				answered++
			}
		}
		if n -= queriesPerTable; t.Failed() {
			t.Fatalf("again: -paging-seed=%d -paging-queries=%d\n%s", seed, queriesPerTable,
				strings.Join(c.history, ";\n"))
		}
	}
	if t.Logf("%d of %d queries return rows", answered, total); answered < total/2 {
		t.Error("most queries return no rows")
	}
}

// TestDroppedColumnsDoNotReadPartitions: a table with a dropped column reads some rows of each partition for DISTINCT
// and PER PARTITION LIMIT, and not all of them. Partitions that begin with many rows of the dropped column only are
// found as well.
func TestDroppedColumnsDoNotReadPartitions(t *testing.T) {
	const partitions, rows, hidden = 4, 700, 250
	store := &pageCounter{}
	p, s := newTestProcessor(t, store, "CREATE TABLE t (k int, c int, v int, x int, PRIMARY KEY (k, c))")
	for k := range partitions {
		for c := range rows {
			column := "v"
			// Rows of UPDATE exist only as long as they have a cell.
			if k == 3 && c < hidden {
				column = "x"
			}
			mustQuery(t, p, s, fmt.Sprintf("UPDATE t SET %s = 1 WHERE k = %d AND c = %d", column, k, c))
		}
	}
	mustQuery(t, p, s, "ALTER TABLE t DROP x")
	for _, x := range []struct {
		text           string
		size           int32
		answered, read int
	}{
		{"SELECT DISTINCT k FROM t", 5000, partitions, 4*100 + hidden},
		{"SELECT DISTINCT k FROM t", 2, partitions, 4*100 + hidden},
		{"SELECT k, c FROM t PER PARTITION LIMIT 1", 5000, partitions, 4*100 + hidden},
		{"SELECT k, c FROM t PER PARTITION LIMIT 120", 5000, 120 * partitions, 4*120 + 2*hidden},
		{"SELECT k, c FROM t WHERE k IN (0, 1) PER PARTITION LIMIT 2", 5000, 4, 2 * 100},
		{"SELECT k, c FROM t WHERE k = 0 PER PARTITION LIMIT 1 LIMIT 1", 5000, 1, 1},
		{"SELECT k, c FROM t WHERE k = 3 PER PARTITION LIMIT 1 LIMIT 1", 5000, 1, hidden + 100},
	} {
		store.total = request.Cost{}
		c := &pagingCase{p: p, s: s}
		got, _, err := c.rows(generate.Statement{Text: x.text}, x.size)
		if err != nil || len(got) != x.answered {
			t.Errorf("%s: %d rows, %v", x.text, len(got), err)
		}
		if store.total.Rows > x.read {
			t.Errorf("%s, pages of %d: %d rows are read, more than %d", x.text, x.size, store.total.Rows, x.read)
		}
	}
}

// droppedCase is a table with dropped columns, and views of it.
type droppedCase struct {
	pagingCase
	o *generate.Objects
}

// newDroppedCase generates a table and its rows, drops columns, and adds some of them again. purge removes the cells
// that the drops hide.
func newDroppedCase(t *testing.T, seed uint64) (c *droppedCase, purge func()) {
	r := rand.New(rand.NewPCG(seed, 5))
	store := &droppedStore{shortPages: shortPages{r: r, short: seed%2 == 0, rows: r.IntN(4)}}
	o := generate.NewObjects(r, "t", generate.Views)
	o.Groups = true
	c = &droppedCase{pagingCase{r: r, g: o.Generator, store: &store.shortPages}, o}
	c.p, c.s = newTestProcessor(t, store)
	store.reader = view.New(view.Options{Coordinator: &store.shortPages, View: c.p.o.View,
		Clock: &testClock{now: time.Unix(1700000000, 0)}})
	c.history = c.g.Definitions()
	for _, d := range c.history {
		mustQuery(t, c.p, c.s, d)
	}
	for range r.IntN(10) {
		c.execute(c.g.Row())
	}
	// Rows of UPDATE exist only as long as they have a cell.
	for range 2 + r.IntN(3) {
		for range 10 + r.IntN(30) {
			c.execute(c.g.Change())
		}
		c.execute(c.g.AlterColumn())
	}
	for range r.IntN(3) {
		c.execute(o.Define().Statement)
	}
	for range r.IntN(8) {
		c.execute(c.g.Change())
	}
	table := c.p.o.View.Schema().Table("ks", "t")
	return c, func() { store.tables[table.StorageID] = withoutDropped(store.table(table.StorageID), table) }
}

// query generates a query of the table or of one of its views.
func (c *droppedCase) query() generate.Query {
	if c.r.IntN(3) > 0 {
		return c.g.Select()
	}
	return c.o.SelectView()
}

// withoutDropped returns a copy of stored without the cells of dropped columns.
func withoutDropped(stored *model.Table, table *schema.Table) *model.Table {
	out := &model.Table{}
	stored.PageRows = 0
	dropped := func(c row.Cell) bool {
		col := table.ColumnByID(c.Column)
		return col == nil || col.DroppedMicros != 0 && c.Timestamp <= col.DroppedMicros
	}
	var r row.PageReader
	r.Reset(stored.Read(&row.ReadCommand{Table: table.StorageID, Range: row.KeyRange{Tokens: ring.FullRange()},
		Slices: []row.Slice{row.AllRows()}}))
	for r.NextPartition() {
		m := &row.Mutation{}
		m.Reset(table.StorageID, r.Key)
		header := r.Header.Clone()
		header.Cells = slices.DeleteFunc(header.Cells, dropped)
		m.AddHeader(&header)
		for _, rt := range r.RangeTombstones {
			m.AddRangeTombstone(rt)
		}
		var x row.Row
		for r.NextRow(&x) {
			x.Cells = slices.DeleteFunc(x.Cells, dropped)
			m.AddRow(&x)
		}
		out.Apply(m)
	}
	if r.Err() != nil {
		panic(fmt.Sprint("a page of the model: ", r.Err()))
	}
	return out
}
