package query

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"cqld/internal/model/generate"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/search"
	"cqld/storage/index"
)

// searchStore searches the rows of a model by the definitions of indexes, in steps of random length.
type searchStore struct {
	modelStore
	r        *rand.Rand
	searches int
}

func (s *searchStore) Search(req *search.Request, done func(*search.Result, error)) {
	s.searches++
	i := slices.IndexFunc(req.Table.Indexes(), func(x *schema.Index) bool { return x.ID == req.Index })
	def, ok := index.DefinitionOf(req.Table, req.Table.Indexes()[i])
	if !ok || req.Reversed && req.Key.Bytes == nil {
		done(nil, fmt.Errorf("the index of the search does not exist or does not have its order"))
		return
	}
	cmd := &row.ReadCommand{Table: req.Table.StorageID, Key: req.Key, Slices: req.Slices, Reversed: req.Reversed,
		Now: req.Now, StaticCounts: true}
	cmd.Range.Tokens = req.Tokens
	step := modelSearch{req: req, def: &def, union: unionOf(req), left: 1 + s.r.IntN(4), writer: row.NewPageWriter(nil)}
	step.run(s.table(cmd.Table).Read(cmd))
	done(&step.result, nil)
}

// modelSearch is one step of a search.
type modelSearch struct {
	req    *search.Request
	def    *index.Definition
	union  []index.Definition
	left   int // rows or partitions to examine
	writer row.PageWriter
	result search.Result
}

func (s *modelSearch) matches(key row.PartitionKey, kind row.EntryKind, x *row.Row) bool {
	var found index.Found
	s.def.Terms.Append(&found, &index.Source{Key: key, Kind: kind, Row: x}, s.req.Now)
	if found.InAny(s.req.Terms) {
		return true
	}
	for i, b := range s.req.Union {
		found.Reset()
		s.union[i].Terms.Append(&found, &index.Source{Key: key, Kind: kind, Row: x}, s.req.Now)
		if found.InAny(b.Terms) {
			return true
		}
	}
	return false
}

// unionOf returns the definitions of the further indexes of a search.
func unionOf(req *search.Request) (out []index.Definition) {
	for _, b := range req.Union {
		i := slices.IndexFunc(req.Table.Indexes(), func(x *schema.Index) bool { return x.ID == b.Index })
		def, _ := index.DefinitionOf(req.Table, req.Table.Indexes()[i])
		out = append(out, def)
	}
	return out
}

// look counts something that was looked at. It returns false at the end of the step.
func (s *modelSearch) look(at search.Position) bool {
	s.left--
	s.result.Next = at
	s.result.More = s.left < 0 || s.req.Limit > 0 && s.result.Rows >= s.req.Limit
	return !s.result.More
}

func (s *modelSearch) run(page []byte) {
	var p row.PageReader
	var x row.Row
	ended := false
	for p.Reset(page); !ended && p.NextPartition(); {
		if len(s.req.From) > 0 && bytes.Compare(index.AppendPlaceEnd(nil, p.Key), s.req.From) <= 0 {
			continue
		}
		s.writer.Partition(p.Key, &p.Header, nil)
		found := false
		for !ended && p.NextRow(&x) {
			if s.req.StaticCounts && x.Live(s.req.Now) {
				found = true
			}
			matches := s.matches(p.Key, row.KindRow, &x)
			if s.def.Partitions {
				matches = matches || s.matches(p.Key, row.KindHeader, &p.Header)
			}
			if matches && x.Live(s.req.Now) {
				s.writer.Row(&x)
				s.result.Rows++
				ended = !s.look(index.AppendPlace(nil, p.Key, row.KindRow, x.Clustering))
			}
		}
		s.writer.EndPartition()
		if !ended && !found {
			s.result.Rows++
			ended = !s.look(index.AppendPlaceEnd(nil, p.Key))
		}
	}
	s.result.Page = s.writer.Finish(s.result.More)
}

// TestIndexesAllowRestrictions compares the statements that are allowed with indexes, with and without ALLOW FILTERING,
// with the answers of Cassandra.
func TestIndexesAllowRestrictions(t *testing.T) {
	const table = "CREATE TABLE t (p1 int, p2 int, c1 int, c2 int, s int STATIC, v int, w int, x text, l list<int>, " +
		"z set<int>, " +
		"m map<text, int>, fl frozen<list<int>>, fm frozen<map<text, int>>, PRIMARY KEY ((p1, p2), c1, c2))"
	var where, first []string
	datadriven.RunTest(t, "testdata/index_where.txt", func(t *testing.T, d *datadriven.TestData) string {
		p, s := newTestProcessor(t, &searchStore{r: rand.New(rand.NewPCG(1, 2))}, table)
		if d.Cmd == "where" {
			where = strings.Split(d.Input, "\n")
		} else {
			for _, text := range strings.Split(d.Input, "\n") {
				mustQuery(t, p, s, text)
			}
		}
		var out strings.Builder
		answers := make([]string, len(where))
		for i, w := range where {
			answer := func(suffix string) string {
				_, err := p.Query(at(ring.One), s, "SELECT * FROM t WHERE "+w+suffix, &Params{})
				if err == nil {
					return "ok"
				}
				if strings.HasPrefix(err.Error(), "Cannot execute this query as it might involve data filtering") {
					return "needs"
				}
				return err.Error()
			}
			answers[i] = answer("")
			if with := answer(" ALLOW FILTERING"); with != answers[i] {
				answers[i] += " / " + with
			}
			if first == nil || answers[i] != first[i] {
				fmt.Fprintf(&out, "%s => %s\n", w, answers[i])
			}
		}
		if first == nil {
			first = answers
		}
		return out.String()
	})
}

// TestStatementsWithIndexes compares how many rows statements return, their errors and warnings with those of
// Cassandra.
func TestStatementsWithIndexes(t *testing.T) {
	p, s := newTestProcessor(t, &searchStore{r: rand.New(rand.NewPCG(1, 2))})
	datadriven.RunTest(t, "testdata/index_select.txt", func(t *testing.T, d *datadriven.TestData) string {
		var out strings.Builder
		for _, text := range strings.Split(d.Input, "\n") {
			r := at(ring.One)
			result, err := p.Query(r, s, text, &Params{})
			if d.Cmd == "define" {
				if err != nil {
					t.Fatalf("%s: %v", text, err)
				}
				continue
			}
			fmt.Fprintf(&out, "%s\n    ", text)
			if err != nil {
				fmt.Fprintln(&out, err)
				continue
			}
			fmt.Fprintf(&out, "%d rows", result.RowCount)
			if len(r.Warnings) > 0 {
				fmt.Fprintf(&out, ", warning: %s", strings.Join(r.Warnings, " | "))
			}
			out.WriteString("\n")
		}
		if d.Cmd == "define" {
			return "ok\n"
		}
		return out.String()
	})
}

// TestIndexesDoNotChangeAnswers executes generated queries and refused changes on tables with and without indexes,
// views and masks. It compares the pages of the queries and the errors of the changes.
func TestIndexesDoNotChangeAnswers(t *testing.T) {
	n := *filterQueries
	if testing.Short() {
		n = min(n, 1000)
	}
	total, answered, searched := n, 0, 0
	for seed := *pagingSeed; n > 0; seed++ {
		r := rand.New(rand.NewPCG(seed, 3))
		store := &searchStore{r: r}
		g := generate.New(r, "t", generate.Options{Types: seed%2 == 0, Filters: seed%4 < 3, Ranges: true})
		with, plain := &pagingCase{r: r, g: g}, &pagingCase{r: r, g: g}
		with.p, with.s = newProcessorWith(t, store, func(o *Options) {
			o.DynamicDataMasking = true
			o.IndexEntries = func(_ *search.Request, most int) (int, bool) { return r.IntN(most + 1), r.IntN(8) > 0 }
		})
		plain.p, plain.s = newTestProcessor(t, store)
		with.history = g.Definitions()
		for _, d := range with.history {
			mustQuery(t, with.p, with.s, d)
			mustQuery(t, plain.p, plain.s, d)
		}
		with.createIndexes()
		for i := range 4 {
			with.execute(generate.Statement{Text: g.Beside(fmt.Sprintf("x%d", i)).Create})
		}
		for range 4 + r.IntN(40) {
			with.execute(g.Row())
		}
		for range r.IntN(8) {
			with.execute(g.Change())
		}
		for range queriesPerTable / 5 {
			with.compareRefused(t, plain)
		}
		for range queriesPerTable {
			if with.compareWith(t, plain) {
				answered++
			}
			n--
		}
		if searched += store.searches; t.Failed() {
			t.Fatalf("again: -paging-seed=%d -filter-queries=%d\n%s", seed, queriesPerTable,
				strings.Join(with.history, ";\n"))
		}
	}
	if t.Logf("%d of %d queries return rows; %d searches", answered, total, searched); answered < total/8 ||
		searched < total/4 {
		t.Error("few queries return rows, or few use indexes")
	}
}

// createIndexes creates an index on most columns, of any part and class.
func (c *pagingCase) createIndexes() {
	for _, col := range c.g.Columns {
		if c.r.IntN(4) == 0 {
			continue
		}
		target := []string{"%s", "values(%s)", "keys(%s)", "entries(%s)", "full(%s)"}[c.r.IntN(5)]
		if len(col.Type.Elems) == 0 {
			target = "%s"
		}
		using := []string{"", " USING 'sai'"}[c.r.IntN(2)]
		c.execute(generate.Statement{Text: "CREATE INDEX ON t (" + fmt.Sprintf(target, col.Name) + ")" + using})
	}
}

// compareWith generates a query and compares its pages with those of other. It reports whether there are rows.
func (c *pagingCase) compareWith(t *testing.T, other *pagingCase) bool {
	q := c.g.Select()
	size := int32(c.r.IntN(5))
	if q.Sorted {
		size = 0
	}
	want, _, wantErr := other.rows(q.Statement, size)
	got, _, err := c.rows(q.Statement, size)
	if err != nil && c.refusedWithIndex(q.Text, err) {
		return false
	}
	if fmt.Sprint(err) != fmt.Sprint(wantErr) || !slices.Equal(got, want) {
		t.Errorf("%s, pages of %d\n got %q, %v\nwant %q, %v", q.Literal(), size, got, err, want, wantErr)
	}
	return len(want) > 0
}

// compareRefused generates an UPDATE or DELETE that is refused, and compares its error with the error of other.
func (c *pagingCase) compareRefused(t *testing.T, other *pagingCase) {
	text := c.g.Refused().Literal()
	_, want := other.p.Query(at(ring.One), other.s, text, &Params{})
	_, got := c.p.Query(at(ring.One), c.s, text, &Params{})
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s\n got %v\nwant %v", text, got, want)
	}
}

// refusedWithIndex reports whether err is one of the errors for statements that Cassandra refuses only if there is an
// index: for a range of several columns, only one that finds ranges of one of these.
func (c *pagingCase) refusedWithIndex(text string, err error) bool {
	switch message := err.Error(); {
	case strings.HasPrefix(message, "Multi-column slice restrictions cannot be used for filtering."):
		return slices.ContainsFunc(multiColumns.FindAllString(text, -1), func(columns string) bool {
			return slices.ContainsFunc(strings.Split(strings.Trim(columns, "() <>="), ", "), func(column string) bool {
				return slices.ContainsFunc(c.history, func(s string) bool {
					return strings.HasPrefix(s, "CREATE INDEX") && strings.HasSuffix(s, "("+column+") USING 'sai'")
				})
			})
		})
	}
	return strings.HasPrefix(err.Error(), "Select on indexed columns and with IN clause for the PRIMARY KEY are not "+
		"supported") ||
		strings.HasPrefix(err.Error(), "ORDER BY with 2ndary indexes is not supported")
}

// multiColumns matches the columns of a generated range of several columns.
var multiColumns = regexp.MustCompile(`\(c\d(, c\d)*\) [<>]`)
