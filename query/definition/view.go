package definition

import (
	"slices"
	"strings"

	"cqld/cql"
	"cqld/internal/wire"
	"cqld/query/invalid"
	"cqld/query/restriction"
	"cqld/query/term"
	"cqld/schema"
	"cqld/types"
)

// createView defines CREATE MATERIALIZED VIEW. The view and its table must be in one keyspace. The event names a table,
// because the protocol has no views.
func (d *Definer) createView(stmt *cql.CreateMaterializedView) Definition {
	if d.ViewsDisabled {
		return refuse(invalid.Errorf("Materialized views are disabled. Enable in cassandra.yaml to use."))
	}
	keyspace, err := d.KeyspaceOf(stmt.View)
	if err != nil {
		return refuse(err)
	}
	of, err := d.KeyspaceOf(stmt.Base())
	if err != nil {
		return refuse(err)
	}
	// As in Cassandra, creating a view needs ALTER on the base table.
	if err := mayChange(keyspace, "ALTER", "table "+of+"."+stmt.Table.Name); err != nil {
		return refuse(err)
	}
	c := &schema.CreateView{Keyspace: keyspace, View: stmt.View.Name, IfNotExists: stmt.IfNotExists,
		Base: stmt.Table.Name}
	def := Definition{Change: c, Event: schema.Event{Change: schema.Created, Target: schema.TargetTable,
		Keyspace: keyspace, Name: c.View}}
	if of != keyspace {
		return refuse(invalid.Errorf("Cannot create a materialized view on a table in a different keyspace"))
	}
	base := d.Schema.Table(keyspace, c.Base)
	if base == nil || base.View != nil || d.Schema.Table(keyspace, c.View) != nil {
		return def // Apply returns this error
	}
	b := viewBuilder{d: d, stmt: stmt, base: base, change: c}
	if err := b.build(); err != nil {
		return refuse(err)
	}
	return def
}

// viewBuilder converts CREATE MATERIALIZED VIEW. The change refers to columns by id, so renaming a column of the base
// table does not affect the view.
type viewBuilder struct {
	d      *Definer
	stmt   *cql.CreateMaterializedView
	base   *schema.Table
	change *schema.CreateView
	// selected contains the columns of SELECT; for *, all columns of the base table.
	selected []*schema.Column
}

// build makes the checks in Cassandra's order. Each step sets its fields of the change.
func (b *viewBuilder) build() error {
	// Apply compares the id, because the table may be dropped and created again in the meantime.
	b.change.BaseID = b.base.ID
	if b.base.IsCounter() {
		return invalid.Errorf("Materialized views are not supported on counter tables")
	}
	for _, part := range []func() error{b.columns, b.key, b.where, b.order} {
		if err := part(); err != nil {
			return err
		}
	}
	return nil
}

// columns converts the SELECT clause, which may only contain column names. SELECT * sets All: the view then also gets
// columns that are added later.
func (b *viewBuilder) columns() error {
	b.change.All = len(b.stmt.Columns) == 0
	b.selected = b.base.Columns()
	// The loop adds the named columns.
	if !b.change.All {
		b.selected = nil
	}
	for i := range b.stmt.Columns {
		s := &b.stmt.Columns[i]
		if s.Alias != "" {
			return invalid.Errorf("Cannot use aliases when defining a materialized view (got %s AS %s)",
				term.SelectorText(s.Selector), s.Alias)
		}
		named, ok := s.Selector.(*cql.ColumnSelector)
		if !ok {
			return invalid.Errorf("Can only select columns by name when defining a materialized view (got %s)",
				term.SelectorText(s.Selector))
		}
		c, err := b.column(named.Column)
		if err != nil {
			return err
		}
		b.selected = append(b.selected, c)
	}
	// SELECT * is refused as well if the table has static columns.
	for _, c := range b.selected {
		if c.Kind == schema.Static {
			return invalid.Errorf("Cannot include static column '%s' in materialized view '%s'", c.Name, b.change.View)
		}
		if !b.change.All {
			b.change.Columns = append(b.change.Columns, c.ID)
		}
	}
	return nil
}

// column returns a column of the base table.
func (b *viewBuilder) column(name string) (*schema.Column, error) {
	if c := b.base.Column(name); c != nil {
		return c, nil
	}
	return nil, invalid.Errorf("Undefined column name %s in table %s.%s", cql.QuoteIdentifier(name), b.base.Keyspace,
		b.base.Name)
}

// key converts PRIMARY KEY. It must contain the base table's key columns, so each row of the view has one base row, and
// at most one other column.
//
//	table (k, c), with the regular column v
//	view  (v, k, c), (c, k), (k, v, c)   valid
//	view  (v, k)                         error: c is missing
//	view  (v, w, k, c)                   error: two other columns
func (b *viewBuilder) key() error {
	names := slices.Concat(b.stmt.PrimaryKey.Partition, b.stmt.PrimaryKey.Clustering)
	var others []string
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			return invalid.Errorf("Duplicate column '%s' in PRIMARY KEY clause for materialized view '%s'", name,
				b.change.View)
		}
		c := b.base.Column(name)
		// A column that is not selected counts as unknown.
		if c == nil || !slices.Contains(b.selected, c) {
			return invalid.Errorf("Unknown column '%s' referenced in PRIMARY KEY for materialized view '%s'", name,
				b.change.View)
		}
		switch {
		case c.Type.Kind().IsCollection() && c.Type.MultiCell():
			return invalid.Errorf("Invalid non-frozen collection type '%s' for PRIMARY KEY column '%s'",
				c.Type.MarshalClass(), name)
		case c.Type.Kind() == types.UDT && c.Type.MultiCell():
			return invalid.Errorf("Invalid non-frozen user-defined type '%s' for PRIMARY KEY column '%s'",
				c.Type.MarshalClass(), name)
		case c.Type.Kind() == types.Duration:
			return invalid.Errorf("duration type is not supported for PRIMARY KEY column '%s'", name)
		}
		if c.Kind == schema.Regular {
			others = append(others, name)
		}
		// names is the partition key, then the clustering.
		if i < len(b.stmt.PrimaryKey.Partition) {
			b.change.Partition = append(b.change.Partition, c.ID)
		} else {
			// CLUSTERING ORDER BY may override the order later.
			b.change.Clustering = append(b.change.Clustering, schema.ViewClustering{Column: c.ID, Desc: c.Desc})
		}
	}
	var missing []string
	for _, c := range slices.Concat(b.base.PartitionKey, b.base.Clustering) {
		if !slices.Contains(names, c.Name) {
			missing = append(missing, c.Name)
		}
	}
	switch {
	case len(missing) > 0:
		return invalid.Errorf("Cannot create materialized view '%s' without primary key columns %s from base table "+
			"'%s'", b.change.View, strings.Join(missing, ", "), b.base.Name)
	case len(others) > 1:
		return invalid.Errorf("Cannot include more than one non-primary key column in materialized view primary key "+
			"(got %s)", strings.Join(others, ", "))
	}
	return nil
}

// where converts the WHERE clause. It must restrict every column of the view's primary key, at least by IS NOT NULL,
// because a row of the view needs a value for each.
func (b *viewBuilder) where() error {
	w := &viewWhere{b: b, compiler: term.Compiler{Schema: b.d.Schema, Functions: b.d.Functions,
		ResolveType: ResolveType,
		Keyspace:    b.base.Keyspace, Table: b.base}, restricted: map[string]bool{}}
	// DESCRIBE shows the relations in the order of the statement.
	for _, r := range b.stmt.Where {
		if err := w.add(r); err != nil {
			return err
		}
	}
	// Illegal restrictions are reported before missing ones.
	if len(w.illegal) > 0 {
		return invalid.Errorf("Non-primary key columns can only be restricted with 'IS NOT NULL' (got: %s restricted "+
			"illegally)",
			strings.Join(w.illegal, ","))
	}
	var free []string
	for _, name := range slices.Concat(b.stmt.PrimaryKey.Partition, b.stmt.PrimaryKey.Clustering) {
		if !w.restricted[name] {
			free = append(free, name)
		}
	}
	if len(free) > 0 {
		// Cassandra lists them in the iteration order of a set.
		slices.SortStableFunc(free, func(x, y string) int { return bucket(x) - bucket(y) })
		return invalid.Errorf("Primary key columns %s must be restricted with 'IS NOT NULL' or otherwise",
			strings.Join(free, ", "))
	}
	return nil
}

// bucket returns the position of a name in the iteration order of Cassandra's set of names, a Java HashSet with 16
// buckets. A name is hashed as a ByteBuffer.
func bucket(name string) int {
	h := int32(1)
	// ByteBuffer.hashCode starts at the last byte. Java's bytes are signed.
	for i := len(name) - 1; i >= 0; i-- {
		h = 31*h + int32(int8(name[i]))
	}
	// HashMap mixes the upper half of the hash into the lower one.
	return int((uint32(h) ^ uint32(h)>>16) & 15)
}

// order converts CLUSTERING ORDER BY, and checks the options. Without the clause, columns keep the order of the base
// table. Unlike for a table, the clause must name all clustering columns.
func (b *viewBuilder) order() error {
	options, set, err := tableOptions(schema.DefaultOptions(), b.stmt.Options.Properties)
	if err != nil {
		return err
	}
	if strings.HasSuffix(options.Compaction["class"], "LeveledCompactionStrategy") &&
		!slices.Contains(set, "bloom_filter_fp_chance") {
		options.BloomFilterFPChance = 0.1 // as for tables
	}
	b.change.Options = options
	if order := b.stmt.Options.ClusteringOrder; len(order) > 0 {
		if !slices.EqualFunc(order, b.stmt.PrimaryKey.Clustering,
			func(o cql.ClusteringOrder, name string) bool { return o.Column == name }) {
			return invalid.Errorf("Clustering key columns must exactly match columns in CLUSTERING ORDER BY directive")
		}
		for i := range order {
			b.change.Clustering[i].Desc = order[i].Descending
		}
	}
	if b.change.Options.DefaultTTL > 0 {
		return invalid.Errorf("Cannot set default_time_to_live for a materialized view. Data in a materialized view " +
			"always expire at the " +
			"same time than the corresponding data in the parent table.")
	}
	// tableBuilder.id uses only the Definer and the options.
	b.change.ID, err = (&tableBuilder{d: b.d, stmt: &cql.CreateTable{Options: b.stmt.Options}}).id()
	return err
}

// viewWhere converts the relations of WHERE. It evaluates terms immediately, so that all nodes apply the same values.
type viewWhere struct {
	b        *viewBuilder
	compiler term.Compiler
	// restricted contains the names of all restricted columns, including IS NOT NULL.
	restricted map[string]bool
	// relations refuses relations on one column that cannot be combined.
	relations restriction.Merger
	illegal   []string // columns that are not part of the base table's key and are restricted
}

// add converts one relation. For relations that views do not support, the errors are Cassandra's.
//
//	c IS NOT NULL                  ViewNotNull
//	c = 1, c > 1, c CONTAINS 1     ViewEqual, ViewGreater, ViewContains
//	c BETWEEN 1 AND 2              two conditions: >= and <=
//	c IN (1, 2)                    ViewIn, with two values
//	(a, b) IN ((1, 2), (3, 4))     ViewIn, with four values
//	token(k) > 1, c NOT IN (1)     errors
func (w *viewWhere) add(r cql.Relation) error {
	switch r := r.(type) {
	case *cql.NotNullRelation:
		return w.condition(r, []string{r.Column}, false, schema.ViewNotNull, nil)
	// IN and BETWEEN are separate kinds of relations.
	case *cql.ColumnRelation:
		op, ok := viewOperator(r.Operator)
		if !ok {
			return w.unsupported(r, r.Column, r.Operator)
		}
		return w.condition(r, []string{r.Column}, false, op, [][]cql.Term{{r.Value}})
	// BETWEEN becomes two conditions; DESCRIBE shows both.
	case *cql.BetweenRelation:
		if err := w.add(r.Low); err != nil {
			return err
		}
		return w.add(r.High)
	case *cql.InRelation:
		switch {
		case r.Not:
			return invalid.Errorf("Unsupported \"NOT IN\" relation: %s", term.RelationText(r))
		case r.In.Marker != nil:
			return errViewMarker()
		}
		// Each value becomes a tuple of one term.
		var values [][]cql.Term
		for _, t := range r.In.Values {
			values = append(values, []cql.Term{t})
		}
		return w.condition(r, []string{r.Column}, false, schema.ViewIn, values)
	case *cql.TupleRelation:
		op, ok := viewOperator(r.Operator)
		// The value may be a marker for the whole tuple.
		tuple, isTuple := r.Value.(*cql.TupleLiteral)
		switch {
		case !isTuple:
			return errViewMarker()
		case !ok:
			return invalid.Errorf("Unsupported \"%s\" relation: %s", r.Operator, term.RelationText(r))
		}
		return w.condition(r, r.Columns, true, op, [][]cql.Term{tuple.Elements})
	case *cql.TupleInRelation:
		if r.Not {
			return invalid.Errorf("Unsupported \"NOT IN\" relation: %s", term.RelationText(r))
		}
		var values [][]cql.Term
		for _, t := range r.In.Values {
			tuple, ok := t.(*cql.TupleLiteral)
			if !ok {
				return errViewMarker()
			}
			values = append(values, tuple.Elements)
		}
		return w.condition(r, r.Columns, true, schema.ViewIn, values)
	case *cql.TokenRelation:
		return invalid.Errorf("Cannot use token relation when defining a materialized view")
	}
	return invalid.Errorf("Unsupported relation in the definition of a materialized view: %s", term.RelationText(r))
}

// errViewMarker returns the error for bind markers: a view has no client that could bind values.
func errViewMarker() error {
	return invalid.Errorf("Bind variables are not allowed in CREATE MATERIALIZED VIEW statements")
}

// viewOperator converts an operator; ok is false if views do not support it. IN is a separate relation.
func viewOperator(o cql.Operator) (schema.ViewOperator, bool) {
	//exhaustive:ignore
	switch o {
	case cql.Equal:
		return schema.ViewEqual, true
	case cql.Less:
		return schema.ViewLess, true
	case cql.LessOrEqual:
		return schema.ViewLessOrEqual, true
	case cql.Greater:
		return schema.ViewGreater, true
	case cql.GreaterOrEqual:
		return schema.ViewGreaterOrEqual, true
	case cql.Contains:
		return schema.ViewContains, true
	case cql.ContainsKey:
		return schema.ViewContainsKey, true
	}
	return 0, false
}

// relationOperator returns the operator for restriction.Merger: IN with one value is Equal, and any other IN is
// OperatorInvalid. It is not called for IS NOT NULL.
func relationOperator(op schema.ViewOperator, values [][]cql.Term) cql.Operator {
	//exhaustive:ignore
	switch op {
	// IN with one value falls through to Equal at the end.
	case schema.ViewIn:
		if len(values) != 1 {
			return cql.OperatorInvalid
		}
	case schema.ViewLess:
		return cql.Less
	case schema.ViewLessOrEqual:
		return cql.LessOrEqual
	case schema.ViewGreater:
		return cql.Greater
	case schema.ViewGreaterOrEqual:
		return cql.GreaterOrEqual
	case schema.ViewContains:
		return cql.Contains
	case schema.ViewContainsKey:
		return cql.ContainsKey
	}
	return cql.Equal
}

// unsupported returns the error for an operator that views do not support. Errors about the column come first and, for
// LIKE, errors about the value.
func (w *viewWhere) unsupported(r *cql.ColumnRelation, name string, o cql.Operator) error {
	column, err := w.b.column(name)
	if err != nil {
		return err
	}
	// The value is only evaluated for its errors.
	if o == cql.Like {
		if _, err := w.value(column, schema.ViewEqual, r.Value); err != nil {
			return err
		}
		return invalid.Errorf("LIKE restriction is only supported on properly indexed columns. %s is not valid.",
			term.RelationText(r))
	}
	return invalid.Errorf("Unsupported \"%s\" relation: %s", o, term.RelationText(r))
}

// condition adds one condition. values is nil for IS NOT NULL; otherwise it contains tuples with one term for each
// column. tuple means that the columns are written in parentheses.
func (w *viewWhere) condition(r cql.Relation, names []string, tuple bool, op schema.ViewOperator,
	values [][]cql.Term) error {
	c := schema.ViewCondition{Tuple: tuple, Operator: op}
	var columns []*schema.Column
	for _, name := range names {
		column, err := w.b.column(name)
		if err != nil {
			return err
		}
		// Cassandra has multi-column relations for clustering columns only.
		if tuple && column.Kind != schema.Clustering {
			return invalid.Errorf("Multi-column relations can only be applied to clustering columns but was applied "+
				"to: %s", name)
		}
		// The change refers to ids; the merger and the terms need the columns.
		columns, c.Columns = append(columns, column), append(c.Columns, column.ID)
	}
	// The values of several tuples, as IN has, are concatenated.
	for _, terms := range values {
		if slices.ContainsFunc(terms, term.HasMarker) {
			return errViewMarker()
		}
		if len(terms) != len(columns) {
			return invalid.Errorf("Expected %d elements in value tuple, but got %d: (%s)", len(columns), len(terms),
				term.Text(&cql.TupleLiteral{Elements: terms}))
		}
		for i, t := range terms {
			v, err := w.value(columns[i], op, t)
			if err != nil {
				return err
			}
			c.Values = append(c.Values, v)
		}
	}
	// IS NOT NULL may be combined with any other relation.
	if op != schema.ViewNotNull {
		if err := w.relations.Add(columns, relationOperator(op, values), tuple); err != nil {
			return err
		}
	}
	for _, column := range columns {
		// Illegal columns are collected: Cassandra reports them together, after all relations.
		w.restricted[column.Name] = true
		if op != schema.ViewNotNull && (column.Kind == schema.Regular || column.Kind == schema.Static) &&
			!slices.Contains(w.illegal, column.Name) {
			w.illegal = append(w.illegal, column.Name)
		}
	}
	// DESCRIBE shows the relation as it was written.
	c.Text = conditionText(r)
	w.b.change.Where = append(w.b.change.Where, c)
	return nil
}

// value evaluates the term that a column is compared with, and returns its wire form; null is nil. For CONTAINS and
// CONTAINS KEY, the term has the type of an element or key.
func (w *viewWhere) value(column *schema.Column, op schema.ViewOperator, t cql.Term) ([]byte, error) {
	// The receiver determines the type of the term, and is named in messages.
	receiver := w.compiler.Receiver(column.Name, column.Type)
	if op == schema.ViewContains || op == schema.ViewContainsKey {
		word := "CONTAINS"
		if op == schema.ViewContainsKey {
			word = "CONTAINS KEY"
		}
		// elems is only used for collections, because other types are refused first.
		elems := column.Type.Elems()
		switch {
		case !column.Type.Kind().IsCollection():
			return nil, invalid.Errorf("Cannot use %s on non-collection column %s", word, column.Name)
		case op == schema.ViewContainsKey && column.Type.Kind() != types.Map:
			return nil, invalid.Errorf("Cannot use %s on non-map column %s", word, column.Name)
		case op == schema.ViewContainsKey:
			receiver = w.compiler.Receiver("key("+column.Name+")", elems[0])
		default:
			receiver = w.compiler.Receiver("value("+column.Name+")", elems[len(elems)-1])
		}
	}
	compiled, err := w.compiler.Term(t, receiver)
	if err != nil {
		return nil, err
	}
	// Functions are evaluated once: later evaluations could select other rows.
	v, err := compiled.Eval(&term.Scope{Env: w.b.d.Env})
	if err != nil || v.Kind != wire.ValueSet {
		return nil, err
	}
	return term.NotNil(v.Bytes), nil
}

// conditionText returns the operator and the value of a relation as CQL. BETWEEN does not occur, because add has split
// it.
//
//	a > 1                       > 1
//	a IN ('x', 'y')             IN ('x', 'y')
//	(a, b) = (1, 'x')           = (1, 'x')
//	a IS NOT NULL               IS NOT NULL
func conditionText(r cql.Relation) string {
	// Column names are omitted, because columns may be renamed; WhereText adds them.
	switch r := r.(type) {
	case *cql.ColumnRelation:
		return r.Operator.String() + " " + valueText(r.Value)
	case *cql.InRelation:
		return "IN " + valuesText(r.In.Values)
	case *cql.TupleRelation:
		return r.Operator.String() + " " + valueText(r.Value)
	case *cql.TupleInRelation:
		return "IN " + valuesText(r.In.Values)
	}
	return "IS NOT NULL"
}

// valueText returns a term as CQL. Strings are quoted, also inside tuples.
func valueText(t cql.Term) string {
	switch t := t.(type) {
	case *cql.Literal:
		if t.Kind == cql.LiteralString {
			return cql.QuoteString(t.Text)
		}
	case *cql.TupleLiteral:
		return valuesText(t.Elements)
	}
	return term.Text(t)
}

// valuesText returns terms in parentheses.
func valuesText(terms []cql.Term) string {
	texts := make([]string, len(terms))
	for i, t := range terms {
		texts[i] = valueText(t)
	}
	return "(" + strings.Join(texts, ", ") + ")"
}

// alterView defines ALTER MATERIALIZED VIEW, which changes only options. As for tables, they must be valid both by
// themselves and combined with the view's other options.
func (d *Definer) alterView(stmt *cql.AlterMaterializedView) Definition {
	keyspace, err := d.KeyspaceOf(stmt.View)
	if err != nil {
		return refuse(err)
	}
	name := stmt.View.Name
	c := &schema.AlterView{Keyspace: keyspace, View: name, IfExists: stmt.IfExists}
	def := Definition{Change: c, Event: schema.Event{Change: schema.Updated, Target: schema.TargetTable,
		Keyspace: keyspace, Name: name}}
	if (properties{stmt.Options.Properties}).has("id") {
		return refuse(invalid.Configf("Cannot alter table id."))
	}
	if _, _, err := tableOptions(schema.DefaultOptions(), stmt.Options.Properties); err != nil {
		return refuse(err)
	}
	// Apply reports a name that is not a view.
	if t := d.Schema.Table(keyspace, name); t != nil {
		if c.Options, c.Set, err = tableOptions(t.Options, stmt.Options.Properties); err != nil {
			return refuse(err)
		}
	}
	return def
}

// dropView defines DROP MATERIALIZED VIEW. The base table is not changed.
func (d *Definer) dropView(stmt *cql.DropMaterializedView) Definition {
	keyspace, err := d.KeyspaceOf(stmt.View)
	if err != nil {
		return refuse(err)
	}
	return Definition{Change: &schema.DropView{Keyspace: keyspace, View: stmt.View.Name, IfExists: stmt.IfExists},
		Event: schema.Event{Change: schema.Dropped, Target: schema.TargetTable, Keyspace: keyspace,
			Name: stmt.View.Name}}
}
