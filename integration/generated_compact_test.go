//go:build integration

package integration

import (
	"regexp"
	"slices"
	"strings"
)

var (
	selectedView   = regexp.MustCompile(` FROM (o\d+_w\d+) `)
	viewWithoutKey = regexp.MustCompile(`PRIMARY KEY \(\([^()]*\)\)`)
)

// legacyOfCompact matches a partition key beside a column with a legacy index, in a compact table without clustering
// columns.
func (c *comparison) legacyOfCompact() bool {
	definition := c.table.definition
	none := strings.HasSuffix(c.want, "\n(0 rows)\n") || strings.HasSuffix(c.want, "count bigint\n0\n(1 rows)\n")
	return none && strings.HasSuffix(c.got, " rows)\n") && strings.Contains(definition, ")))") &&
		strings.Contains(definition, "COMPACT STORAGE") && c.restrictsIndexed("legacy", "v") &&
		c.restricts(func(column, operator, _ string) bool {
			return column == "p0" && (operator == "=" || operator == "IN")
		})
}

// legacyOfKey matches a column of the partition key with a legacy index beside a clustering column that is not the
// first, in a table with static columns.
func (c *comparison) legacyOfKey() bool {
	return c.failed() && strings.Contains(c.table.definition, " static") && c.restrictsIndexed("legacy", "p") &&
		strings.Contains(c.input, "ALLOW FILTERING") &&
		c.restricts(func(column, _, _ string) bool { return column[0] == 'c' && column != "c0" })
}

// saiMissesEmpty matches a descending clustering column with an SAI index, and an empty text.
func (c *comparison) saiMissesEmpty() bool {
	return lacks(c.want, c.got) && c.restricts(func(column, _, value string) bool {
		return strings.Contains(c.table.definition, column+" DESC") && c.hasIndex(column, "SAI") &&
			(value == "''" || emptyText.MatchString(c.input))
	})
}

// groupPages matches the second page of a GROUP BY on a table or view without clustering columns, and the pages of one
// with IN, which have more rows than requested.
func (c *comparison) groupPages() bool {
	if !strings.Contains(c.input, " GROUP BY ") || !c.unclustered() || !c.paged() {
		return false
	}
	first, refused := strings.CutSuffix(c.want,
		"-- next page\nPROTOCOL_ERROR: Invalid value for the paging state\n")
	return refused && strings.HasPrefix(c.got, first) ||
		strings.Contains(c.input, " IN (") && slices.Equal(rowsOf(c.want), rowsOf(c.got))
}

// paged reports whether the statement was executed in pages.
func (c *comparison) paged() bool {
	return slices.ContainsFunc(c.options, func(o string) bool { return strings.HasPrefix(o, "page=") })
}

// distinctGroups matches pages of GROUP BY with DISTINCT, which have one size in Cassandra.
func (c *comparison) distinctGroups() bool {
	return strings.Contains(c.input, "SELECT DISTINCT ") && strings.Contains(c.input, " GROUP BY ") &&
		!strings.Contains(c.want, "-- next page") && strings.Contains(c.got, "-- next page") &&
		slices.Equal(rowsOf(c.want), rowsOf(c.got))
}

// unclustered reports whether the table or view from which a SELECT reads has no clustering columns.
func (c *comparison) unclustered() bool {
	m := selectedView.FindStringSubmatch(c.input)
	if m == nil {
		return strings.Contains(c.table.definition, ")))") // PRIMARY KEY ((p)))
	}
	return slices.ContainsFunc(c.table.views, func(view string) bool {
		return strings.Contains(view, " "+m[1]+" AS ") && viewWithoutKey.MatchString(view)
	})
}
