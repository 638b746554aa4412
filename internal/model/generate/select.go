package generate

import (
	"fmt"
	"strings"
)

// Query is a SELECT and the properties that a comparison needs.
type Query struct {
	Statement
	Sorted     bool // IN on the partition key with ORDER BY: it cannot be paged
	Aggregates bool
}

// Select generates a query of the table. The clauses are, in this order:
//
//	SELECT [DISTINCT] … FROM t [WHERE …] [GROUP BY …] [ORDER BY …]
//	  [PER PARTITION LIMIT n] [LIMIT n] [ALLOW FILTERING]
func (g *Generator) Select() Query {
	t := &text{}
	q := Query{}
	// DISTINCT selects partition keys and static columns only, which restricts the rest of the query.
	distinct := g.oneIn(8)
	group := 0
	often := 4
	if g.Groups {
		often = 2
	}
	switch {
	case !distinct && g.oneIn(often):
		// The number of grouped parts: 1 is the partition key, and each further one a clustering column.
		group = 1 + g.r.IntN(1+len(g.of(Clustering)))
	// With DISTINCT, only the partition key may be grouped by.
	case g.Groups && distinct && g.oneIn(2):
		group = 1
	}
	t.add("SELECT ")
	if distinct {
		t.add("DISTINCT %s", strings.Join(names(g.of(PartitionKey)), ", "))
		for _, c := range g.of(Static) {
			t.add(", %s", c.Name)
		}
	} else {
		q.Aggregates = g.selection(t, group > 0) || group > 0
	}
	t.add(" FROM %s", g.table)
	in, filtered := g.where(t, distinct)
	if group > 0 {
		t.add(" GROUP BY %s", strings.Join(names(append(g.of(PartitionKey), g.of(Clustering)[:group-1]...)), ", "))
	}
	// ORDER BY needs a restricted partition key; orderBy ignores that now and then.
	q.Sorted = g.orderBy(t, in != whereRange) && in == whereIn
	if g.oneIn(often) && !distinct {
		t.add(" PER PARTITION LIMIT %d", 1+g.r.IntN(3))
	}
	if g.oneIn(often) {
		t.add(" LIMIT %d", 1+g.r.IntN(6))
	}
	// Cassandra refuses a query that may filter without it, and accepts it also where nothing is filtered.
	if filtered {
		t.add(" ALLOW FILTERING")
	}
	q.Statement = t.statement()
	return q
}

// selection adds the selection, and reports whether it has aggregates. grouped selects whole columns, too: Cassandra
// returns the value of the first row of each group for them.
func (g *Generator) selection(t *text, grouped bool) (aggregates bool) {
	switch {
	case g.oneIn(3):
		t.add("*")
		return false
	case !grouped && g.oneIn(8):
		t.add("count(*)")
		return true
	}
	n := 1 + g.r.IntN(4)
	aggregates = grouped && g.oneIn(2) || g.oneIn(10)
	t.each(n, ", ", func(int) {
		c := g.any(g.Columns)
		switch {
		case aggregates && g.oneIn(2):
			t.add("%s(%s)", []string{"count", "min", "max", "count"}[g.r.IntN(4)], c.Name)
		// Without Stamps the clock decides the timestamps, which differ between servers.
		case g.Stamps && c.Kind >= Static && !c.Type.Multi && !g.Counters && g.oneIn(3):
			t.add("writetime(%s)", c.Name)
		case g.Types && c.Type.Multi && c.Type.kind() == "map" && g.oneIn(3):
			t.add("%s[", c.Name)
			t.add("%s]", g.value(c.Type.Elems[0]).Literal)
		case g.Types && c.Type.kind() == "udt" && g.oneIn(3):
			t.add("%s.%s", c.Name, c.Type.Fields[g.r.IntN(2)])
		// The divisor is never zero.
		case g.Types && c.Type.kind() == "int" && g.oneIn(6):
			t.add("%s %s %d", c.Name, []string{"+", "-", "*", "/"}[g.r.IntN(4)], 1+g.r.IntN(3))
		// Elements may be null, which only literals that are selected permit.
		case g.Types && !c.Type.Multi && !grouped && g.oneIn(6):
			form := []string{"[%[1]s]", "[%[1]s, %[1]s]", "[[%[1]s], []]", "(%[1]s, %[2]s)", "([%[2]s], %[1]s)"}
			t.add(form[g.r.IntN(len(form))], c.Name, g.any(g.of(PartitionKey)).Name)
		default:
			t.WriteString(c.Name)
		}
	})
	return aggregates
}

// The restriction of the partition key in WHERE.
const (
	whereRange = iota // none, or tokens
	whereOne
	whereIn
)

// where adds WHERE. It returns the restriction of the partition key, and whether the query filters. distinct excludes
// regular columns, because DISTINCT reads partition keys and static rows only.
func (g *Generator) where(t *text, distinct bool) (in int, filtered bool) {
	// Functions, because a relation adds its values when it is written, and the order of the parts may still change.
	var parts []func()
	in = g.r.IntN(3)
	switch {
	case in != whereRange:
		many := in == whereIn
		for i, c := range g.of(PartitionKey) {
			// At least the first column has IN.
			list := many && (i == 0 || g.oneIn(2))
			parts = append(parts, func() { g.relation(t, c, list) })
		}
	case g.oneIn(4):
		key := strings.Join(names(g.of(PartitionKey)), ", ")
		parts = append(parts, func() {
			t.add("token(%s) %s token(", key, []string{">", ">=", "<", "<="}[g.r.IntN(4)])
			t.each(len(g.of(PartitionKey)), ", ", func(i int) { t.bind(g.value(g.of(PartitionKey)[i].Type)) })
			t.add(")")
		})
	}
	if !distinct && len(g.of(Clustering)) > 0 && g.oneIn(2) {
		parts = append(parts, g.clusteringRelations(t)...)
		// A clustering restriction without a partition key needs ALLOW FILTERING.
		filtered = in == whereRange
	}
	if others := g.filterable(distinct); len(others) > 0 && g.oneIn(6) {
		parts = append(parts, func() { g.filter(t, g.any(others)) })
		filtered = true
	}
	if g.Filters {
		parts, in, filtered = g.filters(t, distinct, parts, in, filtered)
	}
	if g.Ranges && filtered && !distinct && len(g.of(Clustering)) > 0 && g.oneIn(3) {
		parts, filtered = g.rangeAndFilters(t, parts, in), true
	}
	if len(parts) > 0 {
		t.add(" WHERE ")
		t.each(len(parts), " AND ", func(i int) { parts[i]() })
	}
	return in, filtered
}

// filters replaces the relations of some queries by relations on any columns, each at most once. Three of four queries
// are replaced. A part of the partition key may be among the columns: Cassandra filters on it, too.
func (g *Generator) filters(t *text, distinct bool, parts []func(), in int, filtered bool) ([]func(), int, bool) {
	if g.oneIn(4) {
		return parts, in, filtered
	}
	candidates := append(g.of(PartitionKey), g.filterable(distinct)...)
	if !distinct {
		candidates = append(candidates, g.of(Clustering)...)
	}
	parts = nil
	g.r.Shuffle(len(candidates), func(i, j int) { candidates[i], candidates[j] = candidates[j], candidates[i] })
	for _, c := range candidates[:1+g.r.IntN(min(3, len(candidates)))] {
		parts = append(parts, func() {
			if !c.Type.Multi && g.oneIn(4) {
				g.relation(t, c, true)
				return
			}
			g.filter(t, c)
		})
	}
	// The partition key is not restricted as a whole, so the query counts as one of a range.
	return parts, whereRange, true
}

// rangeAndFilters replaces the relations of parts by relations on clustering columns and filters on other columns. It
// generates what is planned as ranges of clusterings with a filter of rows for the rest. For example:
//
//	c0 = ? AND (c1, c2) > (?, ?) AND v0 = ? ALLOW FILTERING
func (g *Generator) rangeAndFilters(t *text, parts []func(), in int) []func() {
	if in == whereRange || g.Filters {
		parts = nil
	} else {
		// The relations of the partition key come first; where adds them.
		parts = parts[:len(g.of(PartitionKey))]
	}
	parts = append(parts, g.clusteringRelations(t)...)
	for _, c := range g.filterable(false) {
		if g.oneIn(2) {
			parts = append(parts, func() { g.filter(t, c) })
		}
	}
	return parts
}

// filterable returns the columns that a filter may name.
func (g *Generator) filterable(distinct bool) []Column {
	if g.Counters {
		return nil
	}
	if distinct {
		return g.of(Static)
	}
	return g.of(Static, Regular)
}

// filter adds a relation on a column that is not in the primary key. Ranges on collections are refused, so a collection
// of several cells gets CONTAINS.
func (g *Generator) filter(t *text, c Column) {
	kind := c.Type.kind()
	switch {
	case g.Filters && c.Type.Multi && kind == "map" && g.oneIn(3):
		t.add("%s[", c.Name)
		t.bind(g.value(c.Type.Elems[0]))
		t.add("] = ")
		t.bind(g.value(c.Type.Elems[1]))
	case c.Type.Multi && kind == "map" && g.oneIn(2):
		t.add("%s CONTAINS KEY ", c.Name)
		t.bind(g.value(c.Type.Elems[0]))
	// A set or list, or the values of a map.
	case c.Type.Multi && kind != "udt" && kind != "tuple":
		t.add("%s CONTAINS ", c.Name)
		t.bind(g.value(c.Type.Elems[len(c.Type.Elems)-1]))
	default:
		operators := []string{"=", "=", "<", ">="}
		if g.Filters {
			operators = append(operators, "<=", ">")
		}
		t.add("%s %s ", c.Name, operators[g.r.IntN(len(operators))])
		t.bind(g.value(c.Type))
	}
}

// relation adds a relation with = or IN. A list has one to four values, in random order and with duplicates.
func (g *Generator) relation(t *text, c Column, list bool) {
	if !list {
		t.add("%s = ", c.Name)
		t.bind(g.value(c.Type))
		return
	}
	t.add("%s IN (", c.Name)
	t.each(1+g.r.IntN(4), ", ", func(int) { t.bind(g.value(c.Type)) })
	t.add(")")
}

// clusteringRelations returns relations on a prefix of the clustering columns: = or IN, and a slice at the end. The
// functions write to t when they are called. clusteringRelations draws the shape at once, and the values later. For
// example:
//
//	c0 = ?                     a prefix
//	c0 IN (?, ?) AND c1 > ?    a prefix and a slice
//	c0 >= ? AND c0 < ?         a slice with both bounds
//	(c0, c1) > (?, ?)          a slice of tuples
func (g *Generator) clusteringRelations(t *text) (parts []func()) {
	all := g.of(Clustering)
	// Columns with = or IN precede the slice.
	n := g.r.IntN(len(all) + 1)
	for _, c := range all[:n] {
		list := g.oneIn(4)
		parts = append(parts, func() { g.relation(t, c, list) })
	}
	rest := all[n:]
	if len(rest) == 0 || n > 0 && g.oneIn(2) {
		return parts
	}
	// One or both bounds, inclusive and exclusive.
	operators := [][]string{{">"}, {"<="}, {">=", "<"}, {">", "<"}, {">=", "<="}}[g.r.IntN(5)]
	columns := rest[:1]
	// A slice of several columns compares tuples.
	if g.oneIn(3) {
		columns = rest[:1+g.r.IntN(len(rest))]
	}
	for _, operator := range operators {
		parts = append(parts, func() {
			if len(columns) == 1 {
				t.add("%s %s ", columns[0].Name, operator)
				t.bind(g.value(columns[0].Type))
				return
			}
			t.add("(%s) %s (", strings.Join(names(columns), ", "), operator)
			t.each(len(columns), ", ", func(i int) { t.bind(g.value(columns[i].Type)) })
			t.add(")")
		})
	}
	return parts
}

// orderBy adds ORDER BY, in the table's order or reversed; it is rarely invalid. It reports whether it added the
// clause.
func (g *Generator) orderBy(t *text, allowed bool) bool {
	all := g.of(Clustering)
	if len(all) == 0 || !allowed && !g.oneIn(40) || !g.oneIn(3) {
		return false
	}
	reversed := g.oneIn(2)
	t.add(" ORDER BY ")
	t.each(1+g.r.IntN(len(all)), ", ", func(i int) {
		direction := "ASC"
		// All columns in the order of the table, or all against it; anything else is refused.
		if all[i].Desc != reversed {
			direction = "DESC"
		}
		t.WriteString(fmt.Sprintf("%s %s", all[i].Name, direction))
	})
	return true
}
