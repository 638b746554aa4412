package query

import (
	"fmt"
	"slices"
	"testing"
)

// TestDeleteOfExclusionsEqualsSelect requires that a DELETE with NOT IN deletes the rows that a SELECT with the same
// WHERE returns, and no others, in ascending and descending order of clustering columns.
func TestDeleteOfExclusionsEqualsSelect(t *testing.T) {
	deleted := 0
	for seed := range uint64(extensionSeeds) {
		c := newExtensionCase(t, seed)
		mustQuery(t, c.p, c.s, "CREATE TABLE e (p int, c int, d int, v int, PRIMARY KEY (p, c, d)) WITH CLUSTERING "+
			"ORDER BY (c DESC, d ASC)")
		for i := range 60 {
			mustQuery(t, c.p, c.s, fmt.Sprintf("INSERT INTO e (p, c, d, v) VALUES (%d, %d, %d, %d)", i%3, c.r.IntN(5),
				c.r.IntN(5), i))
		}
		for range 8 {
			table := []string{"t", "e"}[c.r.IntN(2)]
			where := fmt.Sprintf("p = %d%s", c.r.IntN(3), c.exclusion())
			all := "SELECT * FROM " + table
			before, matching := c.query(all), c.query(all+" WHERE "+where+" ALLOW FILTERING")
			mustQuery(t, c.p, c.s, "DELETE FROM "+table+" WHERE "+where)
			want := slices.DeleteFunc(before, func(row string) bool { return slices.Contains(matching, row) })
			got := c.query(all)
			if table == "t" { // a partition whose rows are deleted keeps its static row
				got, want = c.query(all+" WHERE c >= 0 ALLOW FILTERING"), withClustering(want)
			}
			if !slices.Equal(got, want) {
				t.Fatalf("seed %d: after DELETE FROM %s WHERE %s:\n%q\nwant\n%q", seed, table, where, got, want)
			}
			deleted += len(matching)
		}
	}
	if deleted < extensionSeeds {
		t.Errorf("%d rows were deleted: the test tests nothing", deleted)
	}
}

// exclusion returns relations of clustering columns, one of which is NOT IN.
func (c *extensionCase) exclusion() string {
	a, b := c.r.IntN(5), c.r.IntN(5)
	switch c.r.IntN(5) {
	case 0:
		return fmt.Sprintf(" AND c NOT IN (%d, %d)", a, b)
	case 1:
		return fmt.Sprintf(" AND c = %d AND d NOT IN (%d)", a, b)
	case 2:
		return fmt.Sprintf(" AND c IN (%d, %d) AND d NOT IN (%d, %d)", a, b, c.r.IntN(5), c.r.IntN(5))
	case 3:
		return fmt.Sprintf(" AND (c, d) NOT IN ((%d, %d), (%d, %d))", a, b, c.r.IntN(5), c.r.IntN(5))
	}
	return fmt.Sprintf(" AND c > %d AND c <= %d AND c NOT IN (%d)", min(a, b), max(a, b), c.r.IntN(5))
}

// withClustering returns the rows that have clustering columns.
func withClustering(rows []string) (out []string) {
	for _, row := range rows {
		var p, c int
		if n, _ := fmt.Sscanf(row, "%d | %d", &p, &c); n == 2 {
			out = append(out, row)
		}
	}
	return out
}
