package generate

import (
	"fmt"
	"slices"
	"strings"
)

// createView generates CREATE MATERIALIZED VIEW: the key of the table in another order, and perhaps one more column.
// Some are invalid. One or two columns of the key are the partition key of the view, the others clustering columns in
// random direction. For example:
//
//	CREATE MATERIALIZED VIEW t_w0 AS SELECT v0, p0, c0 FROM t
//	  WHERE v0 IS NOT NULL AND p0 IS NOT NULL AND c0 IS NOT NULL
//	  PRIMARY KEY ((v0), p0, c0) WITH CLUSTERING ORDER BY (p0 ASC, c0 DESC)
func (o *Objects) createView() Step {
	name := fmt.Sprintf("%s_w%d", o.table, len(o.created))
	// The key of a view contains the key of its table, and at most one other column.
	key := o.of(PartitionKey, Clustering)
	if candidates := o.of(Regular, Static); len(candidates) > 0 && !o.oneIn(3) {
		key = append(key, o.any(candidates))
	}
	o.r.Shuffle(len(key), func(i, j int) { key[i], key[j] = key[j], key[i] })
	if o.oneIn(12) {
		// Refused: a column of the table's key is missing.
		key = key[1:]
	}
	// The table has one key column, which was removed.
	if len(key) == 0 {
		key = o.of(PartitionKey)
	}
	inherits := o.oneIn(3) // the order of the base table
	// The view is a table of its own to select from: its columns are the selected ones, with the kinds that they have
	// there.
	view := &Generator{r: o.r, table: name, Options: o.Options, udt: o.udt}
	partition := 1 + b2i(len(key) > 1 && o.oneIn(3))
	for i, c := range key {
		desc := o.oneIn(3)
		if inherits {
			desc = c.Desc
		}
		c.Kind, c.Desc = PartitionKey, false
		if i >= partition {
			c.Kind, c.Desc = Clustering, desc
		}
		view.Columns = append(view.Columns, c)
	}
	all := o.oneIn(2)
	for _, c := range o.of(Static, Regular) {
		inKey := slices.ContainsFunc(key, func(x Column) bool { return x.Name == c.Name })
		// Static columns are refused in a view, so they are rare unless all columns are selected.
		if !inKey && (all || o.oneIn(2)) && (c.Kind == Regular || all || o.oneIn(4)) {
			c.Kind = Regular
			view.Columns = append(view.Columns, c)
		}
	}
	o.created, o.views = append(o.created, name), append(o.views, view)
	return o.viewStatement(view, all, inherits)
}

// viewStatement generates the statement for a view. With all it selects *, and with inherits it has no clustering
// order. A restriction IS NOT NULL is required for every key column; one of twelve is replaced by a restriction to a
// value.
func (o *Objects) viewStatement(view *Generator, all, inherits bool) Step {
	t := &text{}
	t.add("CREATE MATERIALIZED VIEW %s%s AS SELECT ", []string{"", "", "", "IF NOT EXISTS "}[o.r.IntN(4)], view.table)
	if all {
		t.add("*")
	} else {
		t.WriteString(strings.Join(names(view.Columns), ", "))
	}
	t.add(" FROM %s WHERE ", o.table)
	key := view.of(PartitionKey, Clustering)
	t.each(len(key), " AND ", func(i int) {
		if c := key[i]; o.oneIn(12) {
			// A restriction to values also excludes null.
			t.add("%s %s %s", c.Name, []string{"=", ">=", "<"}[o.r.IntN(3)], o.value(c.Type).Literal)
		} else {
			t.add("%s IS NOT NULL", c.Name)
		}
	})
	// Cassandra refuses a restriction of a column that is not in the key of the view (CASSANDRA-13798).
	if o.oneIn(20) {
		c := o.any(o.Columns)
		t.add(" AND %s = %s", c.Name, o.value(c.Type).Literal)
	}
	t.add(" PRIMARY KEY ((%s)", strings.Join(names(view.of(PartitionKey)), ", "))
	var order []string
	for _, c := range view.of(Clustering) {
		t.add(", %s", c.Name)
		direction := " ASC"
		if c.Desc {
			direction = " DESC"
		}
		order = append(order, c.Name+direction)
	}
	t.add(")")
	if len(order) > 0 && !inherits {
		t.add(" WITH CLUSTERING ORDER BY (%s)", strings.Join(order, ", "))
	}
	return step(t)
}
