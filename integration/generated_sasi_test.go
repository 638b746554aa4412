//go:build integration

package integration

import (
	"regexp"
	"slices"
	"strings"
)

// sasiEmptyRange matches a column with a SASI index and both bounds of a range that contains no value: Cassandra
// searches the memtable for a range whose start is after its end.
func (c *comparison) sasiEmptyRange() bool {
	bounded := func(operator string) bool {
		return c.restricts(func(column, o, _ string) bool {
			return strings.HasPrefix(o, operator) && c.hasIndex(column, "SASI")
		})
	}
	return strings.HasPrefix(c.want, "READ_FAILURE: ") && len(rowsOf(c.got)) == 0 && bounded("<") && bounded(">")
}

// sasiMissesTexts matches a restricted column with a SASI index together with a range of texts of a column that has
// neither an index nor a place in the primary key.
func (c *comparison) sasiMissesTexts() bool {
	texts := c.restricts(func(column, operator, _ string) bool {
		return strings.ContainsAny(operator, "<>") && strings.ContainsAny(column[:1], "sv") &&
			!c.hasIndex(column, "SASI") && textColumn(c.table.definition, column)
	})
	return lacks(c.want, c.got) && texts && c.restrictsIndexed("SASI", "") &&
		strings.Contains(c.input, "ALLOW FILTERING")
}

// textColumn reports whether a definition has a column of texts with that name.
func textColumn(definition, column string) bool {
	return regexp.MustCompile(`[ (]` + column + ` (text|varchar|ascii)\b`).MatchString(definition)
}

// saiIgnoresVector matches a vector that is compared by = beside a column with an SAI index, in one partition.
func (c *comparison) saiIgnoresVector() bool {
	vector := c.restricts(func(column, operator, _ string) bool {
		return operator == "=" && strings.Contains(c.table.definition, " "+column+" vector<")
	})
	partition := c.restricts(func(column, operator, _ string) bool {
		return strings.HasPrefix(column, "p") && (operator == "=" || operator == "IN")
	})
	return lacks(c.got, c.want) && vector && partition && c.restrictsIndexed("SAI", "") &&
		strings.Contains(c.input, "ALLOW FILTERING")
}

// lacksEmpty reports whether Cassandra's answer lacks rows, of which each has an empty text in a descending clustering
// column.
func (c *comparison) lacksEmpty(column string) bool {
	header, _, _ := strings.Cut(c.got, "\n")
	at := slices.IndexFunc(strings.Split(header, " | "),
		func(name string) bool { return strings.HasPrefix(name, column+" ") })
	if at < 0 || !strings.Contains(c.table.definition, column+" DESC") {
		return false
	}
	known := rowsOf(c.want)
	for _, r := range rowsOf(c.got) {
		if i := slices.Index(known, r); i >= 0 {
			known = slices.Delete(known, i, i+1)
		} else if values := strings.Split(r, " | "); at >= len(values) || values[at] != "''" {
			return false
		}
	}
	return true
}
