package query

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"cqld/coordinator"
	"cqld/internal/model/generate"
	"cqld/internal/wire"
	"cqld/request"
	"cqld/ring"
)

var (
	pagingQueries = flag.Int("paging-queries", 4000, "how many generated queries TestGeneratedQueriesPageAlike "+
		"compares")
	pagingSeed = flag.Uint64("paging-seed", 1, "first seed of TestGeneratedQueriesPageAlike")
)

// queriesPerTable is the number of queries that are compared on the rows of one generated table.
const queriesPerTable = 50

// shortPages is a modelStore whose commands end after a few rows, as those of large partitions do.
type shortPages struct {
	modelStore
	r     *rand.Rand
	short bool
	rows  int // of a page, deleted ones included; 0 means no limit
}

func (s *shortPages) Read(req *coordinator.ReadRequest, done func([]byte, error)) {
	s.table(req.Command.Table).PageRows = 0
	if s.short {
		s.table(req.Command.Table).PageRows = s.rows
		limited := *req.Command
		limited.Limits.Rows = min(limited.Limits.Rows, 1+uint32(s.r.IntN(4)))
		req.Command = &limited
	}
	s.modelStore.Read(req, done)
}

// TestGeneratedQueriesPageAlike compares the answers of generated queries: the rows of pages of 1, 2 and 7 rows, and of
// commands with few rows, equal those of the answer without paging. -paging-queries=100000 runs more.
func TestGeneratedQueriesPageAlike(t *testing.T) {
	n := *pagingQueries
	if testing.Short() {
		n = min(n, 1000)
	}
	total, answered := n, 0
	for seed := *pagingSeed; n > 0; seed++ {
		c := newPagingCase(t, seed)
		for range queriesPerTable {
			if c.compare(t) {
				answered++
			}
			n--
		}
		if t.Failed() {
			t.Fatalf("again: -paging-seed=%d -paging-queries=%d\n%s", seed, queriesPerTable,
				strings.Join(c.history, ";\n"))
		}
	}
	if t.Logf("%d of %d queries return rows", answered, total); answered < total/2 {
		t.Error("most queries return no rows")
	}
}

// pagingCase is a generated table with rows.
type pagingCase struct {
	g       *generate.Generator
	p       *Processor
	s       *Session
	store   *shortPages
	r       *rand.Rand
	history []string
}

func newPagingCase(t *testing.T, seed uint64) *pagingCase {
	store := &shortPages{}
	return newPagingCaseOver(t, seed, store, store)
}

// newPagingCaseOver is newPagingCase over a coordinator that uses store.
func newPagingCaseOver(t *testing.T, seed uint64, store *shortPages, over request.Coordinator) *pagingCase {
	r := rand.New(rand.NewPCG(seed, 1))
	store.r = r
	c := &pagingCase{r: r, g: generate.New(r, "t", generate.Options{Types: seed%4 == 0}), store: store}
	c.p, c.s = newTestProcessor(t, over)
	c.history = c.g.Definitions()
	for _, d := range c.history {
		mustQuery(t, c.p, c.s, d)
	}
	for range 4 + r.IntN(40) {
		c.execute(c.g.Row())
	}
	for range r.IntN(8) {
		c.execute(c.g.Change())
	}
	return c
}

// execute changes rows; some generated statements are refused and have no effect.
func (c *pagingCase) execute(s generate.Statement) {
	text := s.Literal()
	if _, err := c.p.Query(at(ring.One), c.s, text, &Params{}); err == nil {
		c.history = append(c.history, text)
	}
}

// compare generates one query and compares its answers. It reports whether there are rows.
func (c *pagingCase) compare(t *testing.T) bool {
	q := c.g.Select()
	text := q.Literal()
	c.store.short = false
	want, _, err := c.rows(q.Statement, 0)
	if err != nil {
		want = []string{err.Error()}
	}
	sizes := []int32{0, 1, 2, 7}
	if q.Sorted {
		sizes = sizes[:1]
	}
	c.store.short, c.store.rows = true, c.r.IntN(4)
	for _, size := range sizes {
		got, largest, err := c.rows(q.Statement, size)
		if err != nil {
			got = []string{err.Error()}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s\npages of %d: %q\nwant %q", text, size, got, want)
		}
		if size > 0 && largest > size {
			t.Errorf("%s: a page of %d has %d rows", text, size, largest)
		}
	}
	return err == nil && len(want) > 0
}

// rows executes a query page by page. It returns the rows and the size of the largest page.
func (c *pagingCase) rows(q generate.Statement, size int32) (all []string, largest int32, err error) {
	params := &Params{PageSize: size}
	for _, v := range q.Values {
		params.Values = append(params.Values, wire.BytesValue(v.Bytes))
	}
	for pages := 0; ; pages++ {
		r, err := c.p.Query(at(ring.One), c.s, q.Text, params)
		if err != nil {
			return nil, 0, err
		}
		largest = max(largest, r.RowCount)
		if lines := strings.Split(strings.TrimSuffix(renderRows(r), "\n"), "\n")[1:]; r.RowCount > 0 {
			all = append(all, lines...)
		}
		if r.PagingState == nil {
			return all, largest, nil
		}
		if pages > 1000 {
			return nil, 0, fmt.Errorf("pages of %d do not end", size)
		}
		params.PagingState = r.PagingState
	}
}
