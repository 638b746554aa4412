package query

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"cqld/internal/model/generate"
)

const unionSeeds = 12

// TestUnions executes OR on tables with indexes.
func TestUnions(t *testing.T) {
	store := &searchStore{r: rand.New(rand.NewPCG(1, 2))}
	p, s := newTestProcessor(t, store)
	datadriven.RunTest(t, "testdata/union.txt", func(_ *testing.T, d *datadriven.TestData) string {
		var out strings.Builder
		for _, text := range strings.Split(d.Input, "\n") {
			before := store.searches
			out.WriteString(runStatement(p, s, text))
			if d.Cmd == "query" {
				fmt.Fprintf(&out, "searches: %t\n", store.searches > before)
			}
		}
		return out.String()
	})
}

// relation returns a random relation that an index finds, or a disjunction or conjunction of such.
func unionRelation(r *rand.Rand, depth int) string {
	switch r.IntN(9) {
	case 0:
		return fmt.Sprintf("v IN (%d, %d)", r.IntN(4), r.IntN(4))
	case 1:
		return fmt.Sprintf("w > %d", r.IntN(6))
	case 2:
		return fmt.Sprintf("l CONTAINS %d", r.IntN(4))
	case 3:
		return fmt.Sprintf("c = %d", r.IntN(4))
	case 4:
		return fmt.Sprintf("w BETWEEN %d AND %d", r.IntN(4), r.IntN(6))
	case 5:
		if depth > 0 {
			return "(" + unionRelation(r, depth-1) + " OR " + unionRelation(r, depth-1) + ")"
		}
	case 6:
		if depth > 0 {
			return "(" + unionRelation(r, depth-1) + " AND x = " + fmt.Sprint(r.IntN(3)) + ")"
		}
	}
	return fmt.Sprintf("%s = %d", []string{"v", "w"}[r.IntN(2)], r.IntN(4))
}

// TestUnionsEqualFilters compares random disjunctions of indexed relations, page by page, without ALLOW FILTERING, with
// filters of the same rows without indexes.
func TestUnionsEqualFilters(t *testing.T) {
	answered := 0
	for seed := range uint64(unionSeeds) {
		r := rand.New(rand.NewPCG(seed, 5))
		store := &searchStore{r: r}
		with, plain := &pagingCase{r: r}, &pagingCase{r: r}
		for _, c := range []*pagingCase{with, plain} {
			c.p, c.s = newTestProcessor(t, store, "CREATE TABLE t (p int, c int, s int STATIC, v int, w int, x int, "+
				"l set<int>, PRIMARY KEY (p, c))")
		}
		using := []string{"", " USING 'sai'"}
		for _, column := range []string{"v", "l", "c"} {
			mustQuery(t, with.p, with.s, "CREATE INDEX ON t ("+column+")"+using[r.IntN(2)])
		}
		mustQuery(t, with.p, with.s, "CREATE INDEX ON t (w) USING 'sai'")
		for range 60 {
			mustQuery(t, with.p, with.s, fmt.Sprintf("INSERT INTO t (p, c, s, v, w, x, l) VALUES (%d, %d, %d, %d, "+
				"%d, %d, {%d, %d})",
				r.IntN(5), r.IntN(6), r.IntN(3), r.IntN(6), r.IntN(8), r.IntN(3), r.IntN(6), r.IntN(6)))
		}
		for range 40 {
			where := unionRelation(r, 2) + " OR " + unionRelation(r, 1)
			if r.IntN(4) == 0 {
				where = fmt.Sprintf("p = %d AND (%s)", r.IntN(5), where)
			}
			q := "SELECT p, c, s, v, w, x, l FROM t WHERE " + where
			if r.IntN(3) == 0 {
				q += fmt.Sprintf(" LIMIT %d", 1+r.IntN(6))
			}
			before := store.searches
			got, _, err := with.rows(generate.Statement{Text: q}, int32(r.IntN(5)))
			if err != nil {
				t.Fatalf("seed %d, %s: %v", seed, q, err)
			}
			if store.searches == before && !strings.Contains(where, "p = ") {
				t.Errorf("seed %d, %s is not answered by a search", seed, q)
			}
			want, _, err := plain.rows(generate.Statement{Text: q + " ALLOW FILTERING"}, 0)
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("seed %d, %s:\n got %q\nwant %q, %v", seed, q, got, want, err)
			}
			if len(want) > 0 {
				answered++
			}
		}
	}
	if answered < unionSeeds*40/2 {
		t.Errorf("%d queries return rows", answered)
	}
}
