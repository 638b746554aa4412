package generate

import (
	"fmt"
	"strings"
)

// Object is something that is added to a table and must not change the answers to queries of the table. Create is
// executed beside the table, Drop undoes it. Drop must work also when Create was refused, hence IF EXISTS.
type Object struct{ Create, Drop string }

// Beside generates an index of one of the classes, a view, or a mask of a column. Some definitions are refused. The
// test executes its queries again after Create and after Drop. An index may only change how rows are found, a view must
// not change its table, and the superuser as which the test logs in does not see masks.
func (g *Generator) Beside(name string) Object {
	// A key column too, which indexes of some classes refuse.
	c := g.any(g.Columns)
	// Only for its generators of targets and views; its lists are dropped with it.
	o := &Objects{Generator: g}
	t := &text{}
	// Of twelve, four are classic indexes, four SAI, two views and two masks.
	switch n := g.r.IntN(12); {
	case n < 4:
		t.add("CREATE INDEX %s ON %s (%s)", name, g.table, o.target(c))
	case n < 8:
		t.add("CREATE INDEX %s ON %s (%s) USING 'sai'", name, g.table, o.target(c))
	case n < 10:
		// createView records the name that it generated as the only one in created.
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
// columns, or a column that is not in the primary key. The statement is refused before anything is read or written, so
// it can be sent at any time, and its error is compared.
//
// With the columns p0, c0, c1 and v0, the restrictions after p0 = 1 are for example:
//
//	c0 < 1 AND c1 = 2    a range before another column
//	c1 = 2               a gap
//	v0 = 3               not in the primary key
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
	// The clustering is added below, in a form that no UPDATE or DELETE may have.
	g.whereKeys(t, g.keys(PartitionKey), nil)
	// A gap needs two clustering columns: the restriction of the second one without the first.
	all := g.of(Clustering)
	if len(all) < 2 || g.oneIn(3) {
		c := g.any(g.of(Static, Regular))
		t.add(" AND %s = ", c.Name)
		t.bind(g.value(c.Type))
		return t.statement()
	}
	// The last clustering column has no successor, so it cannot be the first of the two.
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
