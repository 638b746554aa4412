package generate

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// Kind is the kind of a column.
type Kind int

// The kinds of columns. Their order is relied on: the kinds from Static on are outside of the primary key.
const (
	PartitionKey Kind = iota
	Clustering
	Static
	Regular
)

// Column is a column of the generated table. Name is p0, c0, s0 or v0 and so on, by its kind, and needs no quotes.
type Column struct {
	Name string
	Kind Kind
	Type *Type
	Desc bool // clustering order
}

// Statement is a statement with a bind marker for each of Values. The markers in Text are in the order of Values. Both
// ways of sending it must have the same effect: Text with Values in EXECUTE, and Literal in QUERY. For example:
//
//	INSERT INTO t (p0, v0) VALUES (?, ?)             Text
//	INSERT INTO t (p0, v0) VALUES (1, 'it''s')       Literal
type Statement struct {
	Text   string
	Values []Value
}

// Literal returns the statement with its values in place of the bind markers. It panics if Text has more markers than
// Values has elements.
func (s Statement) Literal() string {
	// No generated literal contains a question mark, so each one is a bind marker.
	parts := strings.Split(s.Text, "?")
	var out strings.Builder
	for i, p := range parts {
		if i > 0 {
			out.WriteString(s.Values[i-1].Literal)
		}
		out.WriteString(p)
	}
	return out.String()
}

// Options configure a Generator. Without Types, the values of a column never differ in their encoding, which leaves the
// logic of queries alone to be tested.
type Options struct {
	Types  bool // collections, tuples, user-defined types and all native types instead of only int and text
	Stamps bool // every write has a small explicit timestamp, so that some are equal
	// Filters makes most queries filter on arbitrary columns. Such a query has ALLOW FILTERING.
	Filters bool
	// Ranges adds ranges of the clustering columns, also of several at once, to queries that filter.
	Ranges bool
	// Hints gives some literals type hints, and writes some user-defined types as tuples. Bound values have neither.
	Hints bool
	// Elements adds changes of elements of lists, by their index.
	Elements bool
	// Groups gives half of the queries GROUP BY, and more of them LIMIT and PER PARTITION LIMIT.
	Groups bool
	// Compact gives the table compact storage: no static columns and no collections, and one regular column if it has
	// clustering columns.
	Compact bool
}

// Generator generates one table, statements that change its rows, and queries. It is not safe for concurrent use. A
// change of Columns has an effect on later statements only.
type Generator struct {
	Options
	Columns []Column
	// A counter has no INSERT, no TTL, no timestamp and no condition, so most branches of this package ask for it.
	Counters bool // the table's regular columns are counters

	// The only source of randomness: the same seed and the same calls give the same statements.
	r     *rand.Rand
	table string
	// nil without Types.
	udt  *Type
	rows [][]Value // the clusterings that a batch repeats
	// Columns that were dropped and not added again.
	dropped []Column
	// unread means that the batch has conditions. Cassandra does not read the lists of rows without conditions, so that
	// nothing that reads lists is generated.
	unread bool
}

// New returns a generator for a table with that name. The random shape: one or two partition key columns, up to three
// clustering columns, up to two static columns, and one to three regular ones. The generator keeps r. Two generators
// that share it are repeatable only if their calls are made in the same order.
func New(r *rand.Rand, table string, o Options) *Generator {
	g := &Generator{Options: o, r: r, table: table}
	// Tables with compact storage get neither collections nor counters.
	if o.Types && !o.Compact {
		// It is not frozen; columnType derives the frozen one.
		g.udt = &Type{Name: table + "_u", Elems: []*Type{native("int"), native("text")}, Fields: []string{"f", "g"},
			Multi: true}
		// One of eight tables has counters, only with Types.
		g.Counters = g.oneIn(8)
	}
	g.columns("p", PartitionKey, 1+b2i(g.oneIn(3)))
	// Static columns need clustering columns, and are columns of the partition.
	clustering := g.r.IntN(4)
	g.columns("c", Clustering, clustering)
	if clustering > 0 && !o.Compact {
		g.columns("s", Static, g.r.IntN(3))
	}
	regular := 1 + g.r.IntN(3)
	if o.Compact && clustering > 0 && !g.oneIn(12) {
		// Cassandra allows one; sometimes more are generated, whose refusal is compared.
		regular = 1
	}
	g.columns("v", Regular, regular)
	return g
}

// oneIn is true with probability 1/n.
func (g *Generator) oneIn(n int) bool { return g.r.IntN(n) == 0 }

// columns adds n columns with the names prefix0, prefix1 and so on. With names that are numbered by kind, two seeds
// that generate the same shape generate the same names.
func (g *Generator) columns(prefix string, kind Kind, n int) {
	for i := range n {
		c := Column{Name: fmt.Sprintf("%s%d", prefix, i), Kind: kind}
		switch {
		// In a table with counters, all columns outside of the key are counters.
		case g.Counters && kind >= Static:
			c.Type = native("counter")
		case kind >= Static:
			c.Type = g.columnType()
		default:
			c.Type = g.keyType()
			// Cassandra does not sort bound sets and maps if the clustering order is descending.
			c.Desc = kind == Clustering && len(c.Type.Elems) == 0 && g.oneIn(3)
		}
		g.Columns = append(g.Columns, c)
	}
}

// keyType returns a type for a column of the primary key: scalar, or frozen. A collection in a key is always frozen,
// because it is compared as one value. A set that is bound out of order must be sorted by the server before it becomes
// part of a key.
func (g *Generator) keyType() *Type {
	if g.Types && g.oneIn(8) {
		switch g.r.IntN(3) {
		case 0:
			return collection("set", false, native("int"))
		case 1:
			return collection("map", false, native("text"), native("int"))
		default:
			return collection("tuple", false, native("int"), native("text"))
		}
	}
	return g.scalarType()
}

// scalarType returns a native type; without Types, int or text. int is chosen twice as often as text.
func (g *Generator) scalarType() *Type {
	if !g.Types {
		return native([]string{"int", "int", "text"}[g.r.IntN(3)])
	}
	all := scalars()
	return native(all[g.r.IntN(len(all))])
}

// columnType returns a type for a column outside of the key. Two of three collections are not frozen. Only collections
// and user-defined types can be not frozen; a tuple never is.
func (g *Generator) columnType() *Type {
	if !g.Types || g.oneIn(2) {
		return g.scalarType()
	}
	multi := !g.oneIn(3)
	// Sets are twice as frequent: servers sort them and remove duplicates.
	switch g.r.IntN(6) {
	case 0:
		return collection("list", multi, g.scalarType())
	case 1, 2:
		return collection("set", multi, g.scalarType())
	case 3:
		return collection("map", multi, g.scalarType(), g.scalarType())
	case 4:
		return collection("tuple", false, g.scalarType(), g.scalarType())
	default:
		if multi {
			return g.udt
		}
		// A copy, because the type of the generator is the one that is not frozen.
		frozen := *g.udt
		frozen.Name, frozen.Multi = "frozen<"+g.udt.Name+">", false
		return &frozen
	}
}

// of returns the columns of the kinds. The columns are in the order of the kinds as given, and of the definition within
// a kind. The slice is new at each call, so callers may shuffle it and append to it.
func (g *Generator) of(kinds ...Kind) []Column {
	var out []Column
	for _, k := range kinds {
		for _, c := range g.Columns {
			if c.Kind == k {
				out = append(out, c)
			}
		}
	}
	return out
}

// any returns a random one of columns.
func (g *Generator) any(columns []Column) Column { return columns[g.r.IntN(len(columns))] }

// names returns the names of columns, in their order.
func names(columns []Column) []string {
	out := make([]string, len(columns))
	for i, c := range columns {
		out[i] = c.Name
	}
	return out
}

// Definitions returns the statements that create the table and its types. The type comes first, because the table needs
// it. There is at most one: all columns with a user-defined type share it. For example:
//
//	CREATE TYPE t_u (f int, g text)
//	CREATE TABLE t (p0 int, c0 text, s0 set<int> static, v0 t_u, PRIMARY KEY ((p0), c0))
//	  WITH CLUSTERING ORDER BY (c0 DESC)
func (g *Generator) Definitions() []string {
	var out, lines, order []string
	for _, c := range g.Columns {
		static := ""
		if c.Kind == Static {
			static = " static"
		}
		// The type is created once, and only if a column has it.
		if strings.Contains(c.Type.Name, g.table+"_u") && len(out) == 0 {
			out = append(out, fmt.Sprintf("CREATE TYPE %s_u (f int, g text)", g.table))
		}
		lines = append(lines, c.Name+" "+c.Type.Name+static)
		if c.Kind == Clustering {
			direction := " ASC"
			if c.Desc {
				direction = " DESC"
			}
			order = append(order, c.Name+direction)
		}
	}
	// The partition key in parentheses, even if it has one column.
	key := append([]string{"(" + strings.Join(names(g.of(PartitionKey)), ", ") + ")"}, names(g.of(Clustering))...)
	with := ""
	if len(order) > 0 {
		with = " WITH CLUSTERING ORDER BY (" + strings.Join(order, ", ") + ")"
	}
	if g.Compact && with == "" {
		with = " WITH COMPACT STORAGE"
	} else if g.Compact {
		with += " AND COMPACT STORAGE"
	}
	return append(out, fmt.Sprintf("CREATE TABLE %s (%s, PRIMARY KEY (%s))%s",
		g.table, strings.Join(lines, ", "), strings.Join(key, ", "), with))
}

// text builds a statement. Each marker in the text has one element of values, in the same order. The parts are
// appended; nothing is ever removed, so a caller that decides late collects functions instead (see where). It is used
// for one statement, which shares values with it.
type text struct {
	strings.Builder
	values []Value
}

// add appends text with the verbs of fmt. A percent sign of CQL must be doubled.
func (t *text) add(format string, args ...any) { fmt.Fprintf(t, format, args...) }

// bind adds a bind marker.
func (t *text) bind(v Value) {
	t.WriteByte('?')
	t.values = append(t.values, v)
}

// statement returns what was built. The text may be extended afterwards.
func (t *text) statement() Statement { return Statement{Text: t.String(), Values: t.values} }

// each calls f n times, with a separator between the outputs. f appends the i-th part, from 0 on.
func (t *text) each(n int, separator string, f func(i int)) {
	for i := range n {
		if i > 0 {
			t.WriteString(separator)
		}
		f(i)
	}
}
