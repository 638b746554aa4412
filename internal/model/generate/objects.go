package generate

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// Theme is the kind of objects that an Objects generates beside its table. A generator has one theme and one table.
type Theme int

// The themes.
const (
	Indexes   Theme = iota // secondary indexes of a table with few types
	Types                  // secondary indexes of a table with all types
	Views                  // materialized views
	Functions              // functions and aggregates
	Compact                // a table with compact storage, and indexes on it
	Vectors                // vectors with an index
	Themes                 // the number of themes
)

// Step is a statement, and how its answer is compared.
type Step struct {
	Statement
	Options []string // of a transcript: raw, mask=…
	Paged   bool     // the statement is a query that can be answered in pages
}

// Objects generates a table, the objects of a theme that depend on it, statements that change and drop these objects,
// and queries that use them. A test calls its methods in this order, the middle ones many times:
//
//	Definitions ── Define ── Row, Change, Query, Alter … ── Drops
type Objects struct {
	*Generator
	Theme Theme

	// Objects that were generated, whether or not the server accepted them.
	created    []string // names of indexes and views
	indexed    []Column
	views      []*Generator
	functions  []userFunction
	aggregates []string
	// Added columns are n1, n2 and so on.
	added int // columns that were added
}

// NewObjects returns a generator for a table with that name. The table is not created: Definitions returns the
// statements. A function is called with columns as its arguments, so tables of the theme Functions have all types half
// of the time.
func NewObjects(r *rand.Rand, table string, theme Theme) *Objects {
	options := Options{Types: theme == Types || theme == Functions && r.IntN(2) == 0, Compact: theme == Compact}
	o := &Objects{Generator: New(r, table, options), Theme: theme}
	switch theme {
	case Vectors:
		o.Columns = append(o.Columns, Column{Name: "e", Kind: Regular, Type: vector(3)})
	// A collection, which random types rarely contain, for indexes of its elements.
	case Indexes, Types:
		if !o.Counters {
			o.Columns = append(o.Columns, Column{Name: "l", Kind: Regular, Type: o.collectionType()})
		}
	}
	return o
}

// collectionType returns a list, a set or, half of the time, a map of int or text. Two of three are not frozen.
func (o *Objects) collectionType() *Type {
	element := native([]string{"int", "text"}[o.r.IntN(2)])
	multi := !o.oneIn(3)
	switch o.r.IntN(4) {
	case 0:
		return collection("list", multi, element)
	case 1:
		return collection("set", multi, element)
	default:
		return collection("map", multi, native("text"), element)
	}
}

// Define generates a statement that creates an object. Call it a few times before Query: most queries use what it has
// created. For views, one of five objects is an index of the base table.
func (o *Objects) Define() Step {
	switch {
	case o.Theme == Views && !o.oneIn(5):
		return o.createView()
	case o.Theme == Functions:
		return o.createFunction()
	}
	return o.createIndex()
}

// Query generates a SELECT of the table, of its views, or of the schema. Cases are tried in order, so the probabilities
// of later ones are conditional on the earlier ones.
func (o *Objects) Query() Step {
	switch {
	case o.oneIn(12):
		return o.schemaRows()
	case o.oneIn(20):
		return o.describe()
	case o.Theme == Views && len(o.views) > 0 && !o.oneIn(3):
		return queryStep(o.SelectView())
	case o.Theme == Vectors && o.oneIn(2):
		return o.nearest()
	case o.Theme == Functions && len(o.functions) > 0 && !o.oneIn(4):
		return o.selectCalls()
	case len(o.indexed) > 0 && !o.oneIn(4):
		return o.selectIndexed()
	}
	return queryStep(o.Select())
}

// SelectView generates a query of one of the views, or of the table if there are none.
func (o *Objects) SelectView() Query {
	if len(o.views) == 0 {
		return o.Select()
	}
	return o.views[o.r.IntN(len(o.views))].Select()
}

// queryStep returns the step of a query, which is paged unless Cassandra refuses pages for it. Cassandra refuses paging
// of queries with both ORDER BY and IN restrictions on the partition key.
func queryStep(q Query) Step { return Step{Statement: q.Statement, Paged: !q.Sorted} }

// step returns the step of a statement that has no pages.
func step(t *text) Step { return Step{Statement: t.statement()} }

// Alter generates a statement that changes or drops the table, its columns or its objects; many are refused. A
// statement about an object of another theme names one that does not exist, which is refused; so no theme needs its own
// list.
func (o *Objects) Alter() Step {
	t := &text{}
	// The generator follows only changes that are probably accepted: later statements should be valid most of the time.
	switch c := o.any(o.Columns); o.r.IntN(12) {
	case 0, 1:
		if o.oneIn(2) {
			if again, ok := addAgain(o.Generator); ok {
				return Step{Statement: again}
			}
		}
		o.added++
		added := Column{Name: fmt.Sprintf("n%d", o.added), Kind: Regular, Type: o.columnType()}
		t.add("ALTER TABLE %s ADD %s %s", o.table, added.Name, added.Type.Name)
		// Otherwise the column is refused, or may be: the type may not exist. The type of the user-defined fields
		// exists only if a column of the original table has it.
		if !o.Compact && !o.Counters && !strings.Contains(added.Type.Name, "_u") {
			o.Columns = append(o.Columns, added)
		}
	case 2:
		t.add("ALTER TABLE %s DROP %s", o.table, c.Name)
		if o.droppable(c) {
			drop(o.Generator, c)
		}
	case 3:
		// The new name is taken, so this is refused.
		t.add("ALTER TABLE %s RENAME %s TO %s", o.table, c.Name, o.any(o.Columns).Name)
	case 4:
		// Refused while a column has the type.
		t.add("DROP TYPE %s_u", o.table)
	case 5:
		t.add("ALTER TABLE %s WITH comment = 'x'", o.table)
	case 6:
		if o.Compact { // it depends on the configuration
			t.add("ALTER TABLE %s ADD %s int", o.table, c.Name)
			break
		}
		// The table has no compact storage, so this is refused.
		t.add("ALTER TABLE %s DROP COMPACT STORAGE", o.table)
	case 7:
		t.add("DROP INDEX %s%s", ifExists(o.oneIn(4)), o.anyCreated("_i9"))
	case 8:
		t.add("DROP MATERIALIZED VIEW %s%s", ifExists(o.oneIn(4)), o.anyCreated("_w9"))
	case 9:
		t.add("ALTER MATERIALIZED VIEW %s WITH comment = 'y'", o.anyCreated("_w9"))
	case 10:
		o.dropFunction(t)
	default:
		// Always refused: Cassandra does not change types of columns since CASSANDRA-12443.
		t.add("ALTER TABLE %s ALTER %s TYPE %s", o.table, c.Name, o.any(o.Columns).Type.Name)
	}
	return step(t)
}

// droppable reports whether Cassandra probably drops the column: it is not in a key, an index or a view, and others
// remain. It errs on the side of false: the generator then keeps a column that the server dropped, and later statements
// about it are refused by both servers.
func (o *Objects) droppable(c Column) bool {
	return c.Kind == Regular && !o.Compact && !o.Counters && len(o.views) == 0 && len(o.of(Regular)) > 1 &&
		!slices.ContainsFunc(o.indexed, func(x Column) bool { return x.Name == c.Name })
}

// ifExists returns IF EXISTS with a space after it, or "".
func ifExists(yes bool) string {
	if yes {
		return "IF EXISTS "
	}
	return ""
}

// anyCreated returns the name of an index or a view, rarely one that does not exist. missing is the suffix of a name
// that is never generated, such as _i9 for indexes.
func (o *Objects) anyCreated(missing string) string {
	if len(o.created) == 0 || o.oneIn(5) {
		return o.table + missing
	}
	return o.created[o.r.IntN(len(o.created))]
}

// describe generates a DESCRIBE of the table or of an object. Its output is compared as it is (raw).
func (o *Objects) describe() Step {
	t := &text{}
	switch o.r.IntN(5) {
	case 0:
		t.add("DESCRIBE INDEX %s", o.anyCreated("_i9"))
	case 1:
		t.add("DESCRIBE MATERIALIZED VIEW %s", o.anyCreated("_w9"))
	case 2:
		if len(o.functions) > 0 {
			t.add("DESCRIBE FUNCTION %s", o.functions[o.r.IntN(len(o.functions))].name)
			break
		}
		t.add("DESCRIBE %s", o.anyCreated("_x9"))
	default:
		t.add("DESCRIBE TABLE %s", o.table)
	}
	s := step(t)
	s.Options = []string{"raw"}
	return s
}

// schemaRows generates a SELECT from system_schema. The keyspace must be bound by the caller: the text contains
// %KEYSPACE%. Columns that differ between servers, such as ids, are not selected.
func (o *Objects) schemaRows() Step {
	// The percent signs are doubled, because the text is a format.
	const own = " FROM system_schema.%s WHERE keyspace_name = '%%KEYSPACE%%' AND %s"
	t := &text{}
	table := fmt.Sprintf("table_name = '%s'", o.table)
	switch o.r.IntN(5) {
	case 0:
		t.add("SELECT column_name, clustering_order, kind, position, type"+own, "columns", table)
	case 1:
		t.add("SELECT column_name, kind, type"+own, "dropped_columns", table)
	case 2:
		t.add("SELECT where_clause, base_table_name, include_all_columns, comment"+own, "views",
			fmt.Sprintf("view_name = '%s'", o.anyCreated("_w9")))
	case 3:
		if len(o.functions) > 0 {
			f := o.functions[o.r.IntN(len(o.functions))]
			t.add("SELECT *"+own, "functions", fmt.Sprintf("function_name = '%s'", f.name))
			break
		}
		t.add("SELECT flags, comment, compaction"+own, "tables", table)
	default:
		t.add("SELECT index_name, kind, options"+own, "indexes", table)
	}
	return step(t)
}

// Drops returns statements that drop the views and the table, dependents first. Indexes are dropped with the table.
// Functions, aggregates and the type of the table remain in the keyspace, which the caller drops.
func (o *Objects) Drops() []string {
	var out []string
	// A table with views cannot be dropped.
	for _, v := range o.views {
		out = append(out, fmt.Sprintf("DROP MATERIALIZED VIEW IF EXISTS %s;", v.table))
	}
	return append(out, fmt.Sprintf("DROP TABLE IF EXISTS %s;", o.table))
}
