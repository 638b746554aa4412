package query

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"cqld/internal/model/generate"
)

// extensionSeeds is the number of tables on which TestExtensionsEqualTheirDefinitions compares queries.
const extensionSeeds = 30

// extensionCase is a table of random rows over a store with short pages.
type extensionCase struct {
	pagingCase
	t *testing.T
}

func newExtensionCase(t *testing.T, seed uint64) *extensionCase {
	r := rand.New(rand.NewPCG(seed, 7))
	store := &shortPages{r: r, short: true, rows: r.IntN(4)}
	c := &extensionCase{pagingCase: pagingCase{r: r, store: store}, t: t}
	c.p, c.s = newTestProcessor(t, store)
	mustQuery(t, c.p, c.s, "CREATE TABLE t (p int, c int, d int, s int static, v int, w text, l set<int>, PRIMARY "+
		"KEY (p, c, d))")
	value := func(text string) string {
		if r.IntN(5) == 0 {
			return "null"
		}
		return text
	}
	for range r.IntN(60) {
		w := fmt.Sprintf("'%c%c%c'", 'a'+r.IntN(3), 'A'+r.IntN(3), 'a'+r.IntN(3))
		mustQuery(t, c.p, c.s, fmt.Sprintf("INSERT INTO t (p, c, d, s, v, w, l) VALUES (%d, %d, %d, %s, %s, %s, "+
			"{%d, %d})", r.IntN(4), r.IntN(4), r.IntN(3),
			value(fmt.Sprint(r.IntN(3))), value(fmt.Sprint(r.IntN(5))), value(w), r.IntN(4), r.IntN(4)))
	}
	return c
}

// query returns the rows of a query, read by pages of a random size.
func (c *extensionCase) query(text string) []string {
	c.t.Helper()
	rows, _, err := c.rows(generate.Statement{Text: text}, int32(c.r.IntN(5)))
	if err != nil {
		c.t.Fatalf("%s: %v", text, err)
	}
	return rows
}

// relation returns a random relation that needs filtering.
func (c *extensionCase) relation() string {
	column := []string{"p", "c", "d", "s", "v"}[c.r.IntN(5)]
	switch c.r.IntN(6) {
	case 0:
		return fmt.Sprintf("%s IN (%d, %d)", column, c.r.IntN(4), c.r.IntN(4))
	case 1:
		return fmt.Sprintf("%s BETWEEN %d AND %d", column, c.r.IntN(4), c.r.IntN(5))
	case 2:
		return fmt.Sprintf("l CONTAINS %d", c.r.IntN(4))
	case 3:
		return fmt.Sprintf("w LIKE '%%%c%%'", 'A'+c.r.IntN(3))
	}
	return fmt.Sprintf("%s = %d", column, c.r.IntN(4))
}

// compareSorted compares ORDER BY of one or two columns with sorted rows. Rows that compare equal keep their order.
func (c *extensionCase) compareSorted(equal func(what string, got, want []string), where string, rows []string) {
	c.t.Helper()
	names := []string{"p", "c", "d", "s", "v", "w"}
	i, j := c.r.IntN(len(names)), c.r.IntN(len(names))
	descending := c.r.IntN(2) == 0
	want := slices.Clone(rows)
	slices.SortStableFunc(want, func(a, b string) int {
		x, y := strings.Split(a, " | "), strings.Split(b, " | ")
		n := compareShown(x[i], y[i])
		if descending && i != j { // the last direction of a column counts
			n = -n
		}
		return cmp.Or(n, compareShown(x[j], y[j]))
	})
	order := " ORDER BY " + names[i]
	if descending {
		order += " DESC"
	}
	limit, n := 1+c.r.IntN(8), c.r.IntN(3)
	rest := want[min(n, len(want)):]
	equal("ORDER BY", c.query(fmt.Sprintf("SELECT p, c, d, s, v, w, l FROM t%s%s, %s LIMIT %d OFFSET %d ALLOW "+
		"FILTERING", where, order, names[j], limit, n)),
		rest[:min(limit, len(rest))])
}

// compareShown compares two values in the form that rows show: null first, one-digit numbers, and texts of one length.
func compareShown(a, b string) int {
	switch {
	case a == "null" && b == "null":
		return 0
	case a == "null":
		return -1
	case b == "null":
		return 1
	}
	return strings.Compare(a, b)
}

// TestGroupsByAPartOfThePartitionKey compares GROUP BY with sums of the rows, for tables of random rows.
func TestGroupsByAPartOfThePartitionKey(t *testing.T) {
	for seed := range uint64(10) {
		r := rand.New(rand.NewPCG(seed, 8))
		store := &shortPages{r: r, short: true, rows: r.IntN(4)}
		c := &extensionCase{pagingCase: pagingCase{r: r, store: store}, t: t}
		c.p, c.s = newTestProcessor(t, store)
		mustQuery(t, c.p, c.s, "CREATE TABLE t (a int, b int, c int, v int, PRIMARY KEY ((a, b), c))")
		rows := map[[3]int]int{}
		for range r.IntN(40) {
			key, v := [3]int{r.IntN(3), r.IntN(4), r.IntN(3)}, r.IntN(100)
			rows[key] = v
			mustQuery(t, c.p, c.s, fmt.Sprintf("INSERT INTO t (a, b, c, v) VALUES (%d, %d, %d, %d)", key[0], key[1],
				key[2], v))
		}
		for i, column := range []string{"a", "b"} {
			sums, counts := map[int]int{}, map[int]int{}
			for key, v := range rows {
				sums[key[i]] += v
				counts[key[i]]++
			}
			var want []string
			for k := range sums {
				want = append(want, fmt.Sprintf("%d | %d | %d", k, counts[k], sums[k]))
			}
			got := c.query(fmt.Sprintf("SELECT %s, count(*), sum(v) FROM t GROUP BY %s ALLOW FILTERING", column,
				column))
			if slices.Sort(got); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
				t.Errorf("seed %d: groups by %s: %q, want %q", seed, column, got, want)
			}
		}
	}
}

// TestExtensionsEqualTheirDefinitions compares queries with those that define them: BETWEEN with two bounds, NOT IN and
// NOT CONTAINS with the complement among the rows that are not null, ILIKE with LIKE, OR with the union, OFFSET with
// the rest of the rows, and ORDER BY with sorted rows.
func TestExtensionsEqualTheirDefinitions(t *testing.T) {
	const all, filtering = "SELECT p, c, d, s, v, w, l FROM t", " ALLOW FILTERING"
	answered := 0
	for seed := range uint64(extensionSeeds) {
		c := newExtensionCase(t, seed)
		equal := func(what string, got, want []string) {
			t.Helper()
			if len(got) > 0 {
				answered++
			}
			if !slices.Equal(got, want) {
				t.Errorf("seed %d, %s:\n got %q\nwant %q", seed, what, got, want)
			}
		}
		everything := c.query(all)
		without := func(rows []string) []string {
			return slices.DeleteFunc(slices.Clone(everything),
				func(row string) bool { return slices.Contains(rows, row) })
		}
		for range 10 {
			a, b := c.r.IntN(5), c.r.IntN(5)
			column := []string{"p", "c", "d", "s", "v"}[c.r.IntN(5)]
			equal(column+" BETWEEN", c.query(fmt.Sprintf("%s WHERE %s BETWEEN %d AND %d%s", all, column, a, b,
				filtering)),
				c.query(fmt.Sprintf("%s WHERE %s >= %d AND %s <= %d%s", all, column, a, column, b, filtering)))

			null := without(c.query(all + " WHERE " + column + " >= -1" + filtering))
			equal(column+" NOT IN", c.query(fmt.Sprintf("%s WHERE %s NOT IN (%d, %d)%s", all, column, a, b, filtering)),
				without(append(null, c.query(fmt.Sprintf("%s WHERE %s IN (%d, %d)%s", all, column, a, b,
					filtering))...)))

			empty := without(c.query(all + " WHERE l CONTAINS 0 OR l CONTAINS 1 OR l CONTAINS 2 OR l CONTAINS 3" +
				filtering))
			equal("NOT CONTAINS", c.query(fmt.Sprintf("%s WHERE l NOT CONTAINS %d%s", all, a, filtering)),
				without(append(empty, c.query(fmt.Sprintf("%s WHERE l CONTAINS %d%s", all, a, filtering))...)))

			x, y := c.relation(), c.relation()
			both := append(c.query(all+" WHERE "+x+filtering), c.query(all+" WHERE "+y+filtering)...)
			equal(x+" OR "+y, c.query(all+" WHERE "+x+" OR "+y+filtering), without(without(both)))

			upper := fmt.Sprintf("%c", 'A'+c.r.IntN(3))
			equal("ILIKE", c.query(all+" WHERE w ILIKE '%"+upper+"%'"+filtering),
				c.query(all+" WHERE w LIKE '%"+upper+"%' OR w LIKE '%"+strings.ToLower(upper)+"%'"+filtering))

			where := ""
			if c.r.IntN(2) == 0 {
				where = " WHERE " + x
			}
			rows := c.query(all + where + filtering)
			c.compareSorted(equal, where, rows)
			n, limit := c.r.IntN(len(rows)+2), 1+c.r.IntN(5)
			rest := rows[min(n, len(rows)):]
			equal("OFFSET", c.query(fmt.Sprintf("%s%s OFFSET %d%s", all, where, n, filtering)), rest)
			equal("LIMIT OFFSET", c.query(fmt.Sprintf("%s%s LIMIT %d OFFSET %d%s", all, where, limit, n, filtering)),
				rest[:min(limit, len(rest))])
		}
	}
	if answered < extensionSeeds*20 {
		t.Errorf("only %d queries return rows", answered)
	}
}
