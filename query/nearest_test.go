package query

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"cqld/internal/wire"
	"cqld/ring"
	"cqld/row"
	"cqld/search"
)

// Search returns all rows of the request: more than a search by an index does.
func (s *modelStore) Search(req *search.Request, done func(*search.Result, error)) {
	cmd := &row.ReadCommand{Table: req.Table.StorageID, Key: req.Key, Range: row.KeyRange{Tokens: req.Tokens},
		Slices: req.Slices, Now: req.Now,
		Reversed: req.Reversed, StaticCounts: req.StaticCounts}
	if cmd.Slices == nil {
		cmd.Slices = []row.Slice{row.AllRows()}
	}
	s.searches = append(s.searches, req.Order)
	done(&search.Result{Page: s.table(cmd.Table).Read(cmd)}, nil)
}

func vectorIndexOf(function string) string {
	return "CREATE CUSTOM INDEX ON t (v) USING 'StorageAttachedIndex' WITH OPTIONS = {'similarity_function': '" +
		function + "'}"
}

// TestNearestAnswersAsCassandra executes SELECT … ANN OF. The answers were compared with those of Cassandra 5.0.9.
func TestNearestAnswersAsCassandra(t *testing.T) {
	p, s := newTestProcessor(t, &modelStore{},
		"CREATE TABLE t (pk int, ck int, v vector<float,3>, w vector<float,3>, x int, s text, m map<text,text>, "+
			"PRIMARY KEY (pk,ck))",
		"CREATE TABLE t4 (pk int PRIMARY KEY, i vector<int,3>, f frozen<list<float>>)",
		"CREATE TABLE t5 (a int, b int, c int, d int, v vector<float,3>, PRIMARY KEY ((a, b), c, d))")
	mustQuery(t, p, s, "CREATE INDEX ON t5 (v) USING 'sai'")
	mustQuery(t, p, s, vectorIndexOf("cosine"))
	mustQuery(t, p, s, "CREATE INDEX ON t (x) USING 'sai'")
	mustQuery(t, p, s, "CREATE CUSTOM INDEX ON t (ENTRIES(m)) USING "+
		"'org.apache.cassandra.index.sai.StorageAttachedIndex'")
	datadriven.RunTest(t, "testdata/nearest.txt", func(_ *testing.T, d *datadriven.TestData) string {
		var out strings.Builder
		for _, text := range strings.Split(d.Input, "\n") {
			out.WriteString(runStatement(p, s, text))
		}
		return out.String()
	})
}

// TestNearestHasNoPages checks levels, page sizes and values of markers.
func TestNearestHasNoPages(t *testing.T) {
	p, s := newTestProcessor(t, &modelStore{}, "CREATE TABLE t (pk int, ck int, v vector<float,2>, PRIMARY KEY (pk, "+
		"ck))")
	mustQuery(t, p, s, vectorIndexOf("cosine"))
	for i := range 10 {
		mustQuery(t, p, s, fmt.Sprintf("INSERT INTO t (pk, ck, v) VALUES (%d, 1, [1, %d])", i, i))
	}
	text := "SELECT pk FROM t ORDER BY v ANN OF ? LIMIT ?"
	vector := []byte{0x3f, 0x80, 0, 0, 0x40, 0, 0, 0} // [1, 2]
	values := []wire.Value{wire.BytesValue(vector), wire.BytesValue([]byte{0, 0, 0, 4})}
	for _, c := range []struct {
		level    ring.Consistency
		pageSize int32
		values   []wire.Value
		rows     int32
		failure  string
		warning  string
	}{
		{level: ring.One, pageSize: 5000, values: values, rows: 4},
		{level: ring.Quorum, pageSize: 4, values: values, rows: 4},
		{level: ring.One, pageSize: 2, values: values, rows: 4,
			warning: "Top-K queries do not support paging and the page size is set to 2, " +
				"which is less than LIMIT 4. The page size has been set to 4 to match the LIMIT."},
		{level: ring.Serial, values: values, failure: "Top-K queries can only be run with consistency level " +
			"ONE/LOCAL_ONE. Consistency level SERIAL was used."},
		{level: ring.One, values: []wire.Value{{Kind: wire.ValueNull}, values[1]},
			failure: "Unsupported null value for column v"},
		{level: ring.One, values: []wire.Value{{Kind: wire.ValueUnset}, values[1]},
			failure: "Unsupported unset value for column v"},
		{level: ring.One, values: []wire.Value{values[0], {Kind: wire.ValueUnset}},
			failure: "Top-K queries must have a limit specified and the limit must be less than the query page size"},
	} {
		req := at(c.level)
		r, err := p.Query(req, s, text, &Params{Values: c.values, PageSize: c.pageSize})
		if c.failure != "" {
			if err == nil || err.Error() != c.failure {
				t.Errorf("%v: %v, expected %s", c.level, err, c.failure)
			}
			continue
		}
		if err != nil {
			t.Errorf("%v: %v", c.level, err)
			continue
		}
		if r.RowCount != c.rows || r.PagingState != nil || strings.Join(req.Warnings, "") != c.warning {
			t.Errorf("%v by pages of %d: %d rows, paging state %x, warnings %q", c.level, c.pageSize, r.RowCount,
				r.PagingState, req.Warnings)
		}
	}
}

// TestNearestIsExact compares the order of results with that of all rows by similarity, which is the reference.
func TestNearestIsExact(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for name, function := range map[string]string{"cosine": "similarity_cosine", "euclidean": "similarity_euclidean",
		"dot_product": "similarity_dot_product"} {
		store := &modelStore{}
		p, s := newTestProcessor(t, store, "CREATE TABLE t (pk int, ck int, v vector<float,3>, x int, PRIMARY KEY "+
			"(pk, ck))")
		mustQuery(t, p, s, vectorIndexOf(name))
		mustQuery(t, p, s, "CREATE INDEX ON t (x) USING 'sai'")
		random := func() string {
			return fmt.Sprintf("[%d, %d, %d]", rng.IntN(9)+1, rng.IntN(19)-9, rng.IntN(19)-9)
		}
		for range 200 {
			mustQuery(t, p, s, fmt.Sprintf("INSERT INTO t (pk, ck, v, x) VALUES (%d, %d, %s, %d)", rng.IntN(20),
				rng.IntN(20), random(), rng.IntN(3)))
		}
		for i := range 30 {
			store.searches = nil
			to, limit := random(), 1+rng.IntN(40)
			where := []string{"", "WHERE x = 1", "WHERE pk = 3", "WHERE pk = 4 AND ck > 5",
				"WHERE pk = 5 AND x = 2"}[i%5]
			near := runStatement(p, s, fmt.Sprintf("SELECT pk, ck, %s(v, %s) FROM t %s ORDER BY v ANN OF %s LIMIT %d",
				function, to, where, to, limit))
			if want := [][]search.Order{{search.ByScore}, {search.ByToken}, nil, nil,
				{search.ByToken}}[i%5]; !slices.Equal(store.searches, want) {
				t.Fatalf("%s: searches %v, expected %v", where, store.searches, want)
			}
			all := runStatement(p, s, fmt.Sprintf("SELECT pk, ck, %s(v, %s) FROM t %s ALLOW FILTERING", function, to,
				where))
			got, rows := strings.Split(strings.TrimSpace(near), "\n"), strings.Split(strings.TrimSpace(all), "\n")
			slices.SortStableFunc(rows[1:], func(a, b string) int {
				x, y := a[strings.LastIndex(a, "| ")+2:], b[strings.LastIndex(b, "| ")+2:]
				var f, g float64
				_, _ = fmt.Sscan(x, &f)
				_, _ = fmt.Sscan(y, &g)
				switch {
				case f > g:
					return -1
				case f < g:
					return 1
				}
				return 0
			})
			if rows = rows[:min(len(rows), limit+1)]; !slices.Equal(got[1:], rows[1:]) {
				t.Fatalf("%s %s near %s:\n%s\nexpected\n%s", name, where, to, strings.Join(got, "\n"),
					strings.Join(rows, "\n"))
			}
		}
	}
}
