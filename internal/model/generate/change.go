package generate

import (
	"strings"
)

// Change makes an INSERT, UPDATE, DELETE or BATCH.
func (g *Generator) Change() Statement {
	t := &text{}
	if !g.oneIn(12) {
		g.change(t, !g.Stamps && g.oneIn(8), true)
		return t.statement()
	}
	conditional := !g.Stamps && !g.Counters && g.oneIn(4)
	switch {
	case g.Counters:
		t.add("BEGIN COUNTER BATCH ")
	case g.oneIn(2):
		t.add("BEGIN UNLOGGED BATCH ")
	default:
		t.add("BEGIN BATCH ")
	}
	keys := g.keys(PartitionKey)
	for range 1 + g.r.IntN(3) {
		if conditional {
			g.changeAt(t, keys, g.oneIn(2))
		} else {
			g.change(t, false, false)
		}
		t.add("; ")
	}
	t.add("APPLY BATCH")
	return t.statement()
}

// Row makes an INSERT, or an UPDATE of a static column alone. (A counter's row is made by UPDATE.)
func (g *Generator) Row() Statement {
	t := &text{}
	if g.Counters {
		g.update(t, g.keys(PartitionKey), false)
		return t.statement()
	}
	keys := g.keys(PartitionKey)
	if statics := g.of(Static); len(statics) > 0 && g.oneIn(4) {
		c := g.any(statics)
		t.add("UPDATE %s%s SET %s = ", g.table, g.using(), c.Name)
		t.bind(g.value(c.Type))
		g.whereKeys(t, keys, nil)
		return t.statement()
	}
	g.insert(t, keys, false)
	return t.statement()
}

func (g *Generator) change(t *text, conditional, lists bool) {
	if !conditional && lists && !g.Counters && g.oneIn(8) {
		g.deleteMany(t)
		return
	}
	g.changeAt(t, g.keys(PartitionKey), conditional)
}

func (g *Generator) changeAt(t *text, keys []Value, conditional bool) {
	switch n := g.r.IntN(7); {
	case g.Counters: // cqld and Cassandra differ on purpose after a counter was deleted
		g.update(t, keys, false)
	case n < 3:
		g.insert(t, keys, conditional)
	case n < 5:
		g.update(t, keys, conditional)
	default:
		g.delete(t, keys, conditional)
	}
}

// keys makes values for the columns of a kind.
func (g *Generator) keys(kind Kind) []Value {
	var out []Value
	for _, c := range g.of(kind) {
		out = append(out, g.value(c.Type))
	}
	return out
}

func (g *Generator) using() string {
	switch {
	case g.Stamps:
		return " USING TIMESTAMP " + g.scalar("int").Literal + "1"
	case !g.Counters && g.oneIn(12):
		return " USING TTL 100000"
	}
	return ""
}

func (g *Generator) insert(t *text, keys []Value, conditional bool) {
	columns := g.of(PartitionKey, Clustering)
	values := append(append([]Value{}, keys...), g.keys(Clustering)...)
	statics := g.of(Static)
	if len(statics) > 0 && g.oneIn(6) {
		columns, values = g.of(PartitionKey), keys
	}
	for _, c := range g.of(Static, Regular) {
		if c.Kind == Regular && len(columns) < len(g.of(PartitionKey, Clustering)) || g.oneIn(3) {
			continue
		}
		v := g.value(c.Type)
		if g.oneIn(8) {
			v = null()
		}
		columns, values = append(columns, c), append(values, v)
	}
	t.add("INSERT INTO %s (%s) VALUES (", g.table, strings.Join(names(columns), ", "))
	t.each(len(values), ", ", func(i int) { t.bind(values[i]) })
	t.add(")")
	if conditional {
		t.add(" IF NOT EXISTS")
	}
	t.WriteString(g.using())
}

func (g *Generator) update(t *text, keys []Value, conditional bool) {
	kind := Regular
	if len(g.of(Static)) > 0 && g.oneIn(4) {
		kind = Static
	}
	columns := g.of(kind)
	g.r.Shuffle(len(columns), func(i, j int) { columns[i], columns[j] = columns[j], columns[i] })
	t.add("UPDATE %s%s SET ", g.table, g.using())
	t.each(1+g.r.IntN(len(columns)), ", ", func(i int) { g.assignment(t, columns[i]) })
	var clustering []Value
	if kind == Regular {
		clustering = g.keys(Clustering)
	}
	g.whereKeys(t, keys, clustering)
	if conditional {
		g.condition(t, columns)
	}
}

// assignment adds a change of one column: of its value, or of elements of a collection.
func (g *Generator) assignment(t *text, c Column) {
	if g.Counters {
		t.add("%s = %s %s ", c.Name, c.Name, []string{"+", "-"}[g.r.IntN(2)])
		t.bind(g.value(c.Type))
		return
	}
	kind := c.Type.kind()
	if c.Type.Multi && g.oneIn(2) {
		switch kind {
		case "map":
			t.add("%s[", c.Name)
			t.bind(g.value(c.Type.Elems[0]))
			t.add("] = ")
			t.bind(g.value(c.Type.Elems[1]))
			return
		case "udt":
			i := g.r.IntN(2)
			t.add("%s.%s = ", c.Name, c.Type.Fields[i])
			t.bind(g.value(c.Type.Elems[i]))
			return
		case "list", "set":
			t.add("%s = %s %s ", c.Name, c.Name, []string{"+", "+", "-"}[g.r.IntN(3)])
			t.bind(g.value(c.Type))
			return
		}
	}
	t.add("%s = ", c.Name)
	if g.oneIn(8) {
		t.bind(null())
		return
	}
	t.bind(g.value(c.Type))
}

func (g *Generator) whereKeys(t *text, keys, clustering []Value) {
	columns := g.of(PartitionKey, Clustering)
	values := append(append([]Value{}, keys...), clustering...)
	t.add(" WHERE ")
	t.each(len(values), " AND ", func(i int) {
		t.add("%s = ", columns[i].Name)
		t.bind(values[i])
	})
}

// condition adds IF.
func (g *Generator) condition(t *text, columns []Column) {
	if g.oneIn(3) {
		t.add(" IF EXISTS")
		return
	}
	c := columns[0]
	if kind := c.Type.kind(); c.Type.Multi && kind == "map" && g.oneIn(2) {
		t.add(" IF %s[", c.Name)
		t.bind(g.value(c.Type.Elems[0]))
		t.add("] = ")
		t.bind(g.value(c.Type.Elems[1]))
		return
	}
	operator := []string{"=", "=", "!=", "<", ">=", "IN"}[g.r.IntN(6)]
	t.add(" IF %s %s ", c.Name, operator)
	switch {
	case operator == "IN":
		t.add("(")
		t.each(1+g.r.IntN(2), ", ", func(int) { t.bind(g.value(c.Type)) })
		t.add(")")
	case g.oneIn(4):
		t.bind(null())
	default:
		t.bind(g.value(c.Type))
	}
}

func (g *Generator) delete(t *text, keys []Value, conditional bool) {
	clustering := g.keys(Clustering)
	if conditional {
		t.add("DELETE FROM %s", g.table)
		g.whereKeys(t, keys, clustering)
		g.condition(t, g.of(Regular))
		return
	}
	t.add("DELETE ")
	switch {
	case g.oneIn(3):
		c := g.any(g.of(Regular))
		if c.Type.Multi && c.Type.kind() == "map" && g.oneIn(2) {
			t.add("%s[", c.Name)
			t.bind(g.value(c.Type.Elems[0]))
			t.add("] ")
		} else {
			t.add("%s ", c.Name)
		}
	case len(g.of(Static)) > 0 && g.oneIn(4):
		t.add("%s ", g.any(g.of(Static)).Name)
		clustering = nil
	default:
		clustering = clustering[:g.r.IntN(len(clustering)+1)] // a row, rows with a prefix, or the partition
	}
	t.add("FROM %s%s", g.table, strings.Replace(g.using(), " USING TTL 100000", "", 1))
	g.whereKeys(t, keys, clustering)
}

// deleteMany deletes by IN or slices.
func (g *Generator) deleteMany(t *text) {
	t.add("DELETE FROM %s%s WHERE ", g.table, strings.Replace(g.using(), " USING TTL 100000", "", 1))
	var parts []func()
	for _, c := range g.of(PartitionKey) {
		list := g.oneIn(3)
		parts = append(parts, func() { g.relation(t, c, list) })
	}
	if len(g.of(Clustering)) > 0 {
		parts = append(parts, g.clusteringRelations(t)...)
	}
	t.each(len(parts), " AND ", func(i int) { parts[i]() })
}
