package generate

import (
	"fmt"
	"strings"
)

// Object is something that is added to a table and must not change the answers to queries of the table.
type Object struct{ Create, Drop string }

// Beside generates an index of one of the classes, a view, or a mask of a column. Some definitions are refused.
func (g *Generator) Beside(name string) Object {
	// A key column too, which indexes of some classes refuse.
	c := g.any(g.Columns)
	// Only for its generators of targets and views; its lists are dropped with it.
	o := &Objects{Generator: g}
	t := &text{}
	switch n := g.r.IntN(12); {
	case n < 4:
		t.add("CREATE INDEX %s ON %s (%s)", name, g.table, o.target(c))
	case n < 8:
		t.add("CREATE INDEX %s ON %s (%s) USING 'sai'", name, g.table, o.target(c))
	case n < 10:
		step := o.createView()
		// The view has a name of its own, which the caller's name replaces.
		create := strings.Replace(step.Text, " "+o.created[0]+" AS ", " "+name+" AS ", 1)
		return Object{create, "DROP MATERIALIZED VIEW IF EXISTS " + name}
	default:
		mask := []string{"DEFAULT", "mask_null()", "mask_default()"}[g.r.IntN(3)]
		change := fmt.Sprintf("ALTER TABLE %s ALTER %s ", g.table, c.Name)
		return Object{change + "MASKED WITH " + mask, change + "DROP MASKED"}
	}
	return Object{t.String(), "DROP INDEX IF EXISTS " + name}
}

// Refused generates an UPDATE or DELETE that is refused because of its WHERE: a range or a gap in the clustering
// columns, or a column that is not in the primary key.
func (g *Generator) Refused() Statement {
	// The statement has a complete partition key and one more restriction, which makes it invalid.
	t := &text{}
	deletes := g.oneIn(2)
	if deletes {
		t.add("DELETE FROM %s", g.table)
	} else {
		t.add("UPDATE %s SET ", g.table)
		c := g.any(g.of(Regular))
		if g.Counters {
			t.add("%s = %s + ", c.Name, c.Name)
		} else {
			t.add("%s = ", c.Name)
		}
		t.bind(g.value(c.Type))
	}
	g.whereKeys(t, g.keys(PartitionKey), nil)
	// A gap needs two clustering columns: the restriction of the second one without the first.
	all := g.of(Clustering)
	if len(all) < 2 || g.oneIn(3) {
		c := g.any(g.of(Static, Regular))
		t.add(" AND %s = ", c.Name)
		t.bind(g.value(c.Type))
		return t.statement()
	}
	i := g.r.IntN(len(all) - 1)
	if g.oneIn(2) {
		t.add(" AND %s %s ", all[i].Name, []string{"<", "<=", ">", ">="}[g.r.IntN(4)])
		t.bind(g.value(all[i].Type))
	}
	t.add(" AND %s = ", all[i+1].Name)
	t.bind(g.value(all[i+1].Type))
	if deletes && i == 0 && g.oneIn(3) {
		t.add(" IF EXISTS")
	}
	return t.statement()
}
