package generate

import (
	"slices"
	"strings"
)

// AlterColumn generates ALTER TABLE that drops a static or regular column, or adds a dropped one again. Its cells stay
// in storage: no query may show them, nor a row that has no other cell. The last regular column is kept.
func (g *Generator) AlterColumn() Statement {
	candidates := g.of(Static)
	if regular := g.of(Regular); len(regular) > 1 {
		candidates = append(candidates, regular...)
	}
	if len(candidates) == 0 || len(g.dropped) > 0 && g.oneIn(3) {
		if s, ok := addAgain(g); ok {
			return s
		}
	}
	t := &text{}
	if len(candidates) == 0 {
		// Refused: the statement has no effect on the table.
		t.add("ALTER TABLE %s DROP %s", g.table, g.of(PartitionKey)[0].Name)
		return t.statement()
	}
	c := g.any(candidates)
	t.add("ALTER TABLE %s DROP %s", g.table, c.Name)
	drop(g, c)
	return t.statement()
}

// drop follows a DROP of a column that the server probably accepts.
func drop(g *Generator, c Column) {
	g.Columns = slices.DeleteFunc(g.Columns, func(x Column) bool { return x.Name == c.Name })
	g.dropped = append(g.dropped, c)
}

// addAgain generates ADD of a dropped column, with its former type. It returns false if there is none. Counters cannot
// be added again, and Cassandra also refuses user-defined types.
func addAgain(g *Generator) (s Statement, ok bool) {
	at := slices.IndexFunc(g.dropped, func(c Column) bool {
		return !g.Counters && !strings.Contains(c.Type.Name, "_u")
	})
	if at < 0 {
		return s, false
	}
	c := g.dropped[at]
	g.dropped = slices.Delete(g.dropped, at, at+1)
	g.Columns = append(g.Columns, c)
	t := &text{}
	t.add("ALTER TABLE %s ADD %s %s", g.table, c.Name, c.Type.Name)
	if c.Kind == Static {
		t.add(" static")
	}
	return t.statement(), true
}
