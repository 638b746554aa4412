package definition

import (
	"slices"
	"strings"

	"cqld/cql"
	"cqld/internal/wire"
	"cqld/query/invalid"
	"cqld/ring"
	"cqld/schema"
	"cqld/types"
)

// Describer executes DESCRIBE against one snapshot of the schema. It serves one page of one statement: the caller sets
// the fields, and Describe skips the rows of earlier pages. It does not check permissions.
type Describer struct {
	Schema *schema.Schema
	// Topology is only used for range_ownership in DESCRIBE CLUSTER.
	Topology  *ring.Topology
	Cluster   string // the cluster's name
	Keyspace  string // in use; empty means none
	Internals bool   // WITH INTERNALS
	// From is the number of rows that earlier pages returned, and Limit is the page size (0: all rows). Statements are
	// only built for the rows of this page, so a page does not cost as much as the whole schema. All pages of a result
	// must use one snapshot.
	From, Limit int

	// The result of the current statement.
	columns []Column
	rows    [][][]byte
	count   int // rows so far, with those that are not returned
}

// Column is a column of the result of DESCRIBE. Clients see these columns in the metadata of the result.
type Column struct {
	Name string
	Type *types.Type
}

// Describe executes a statement. It returns the columns, and rows of values in wire form. more reports whether further
// rows follow. rows are invalid if err is not nil.
func (d *Describer) Describe(stmt *cql.Describe) (columns []Column, rows [][][]byte, more bool, err error) {
	// Reset, because a Describer may be reused.
	d.columns, d.rows, d.count = nil, nil, 0
	// count includes the rows after this page, so it shows whether there are more.
	err = d.describe(stmt)
	return d.columns, d.rows, d.Limit > 0 && d.count > d.From+d.Limit, err
}

// describe adds the columns and rows. The columns come first, so an empty result has them, too.
func (d *Describer) describe(stmt *cql.Describe) error {
	switch stmt.Kind {
	case cql.DescribeCluster:
		return d.describeCluster()
	// Lists have no column create_statement.
	case cql.DescribeKeyspaces, cql.DescribeTables, cql.DescribeTypes, cql.DescribeFunctions, cql.DescribeAggregates:
		d.textColumns("keyspace_name", "type", "name")
		return d.list(stmt.Kind)
	}
	// All other results contain the statements that create the elements.
	d.textColumns("keyspace_name", "type", "name", "create_statement")
	if stmt.Kind == cql.DescribeSchema {
		// FULL adds the system keyspaces.
		for _, name := range ignoringCase(d.Schema.KeyspaceNames()) {
			if stmt.Full || !schema.IsSystem(name) {
				d.addKeyspace(d.Schema.Keyspace(name), false)
			}
		}
		return nil
	}
	return d.element(stmt)
}

// textColumns adds columns of type text, the type of all columns but range_ownership.
func (d *Describer) textColumns(names ...string) {
	for _, name := range names {
		d.columns = append(d.columns, Column{name, types.Native(types.Text)})
	}
}

// addElement adds a row for an element of a keyspace, with the statement that creates it. It calls statement only if
// the row is on this page.
func (d *Describer) addElement(keyspace, kind, name string, statement func() string) {
	if !d.skips() {
		d.addRow(types.QuoteName(keyspace), kind, name, statement())
	}
}

// skips reports whether the next row is outside this page, and counts it if so. Rows after the page are counted as
// well, so that Describe knows whether more follow.
func (d *Describer) skips() bool {
	skip := d.count < d.From || d.Limit > 0 && d.count >= d.From+d.Limit
	if skip {
		d.count++
	}
	return skip
}

// addRow adds a row of text values, or counts it if it is outside this page.
func (d *Describer) addRow(values ...string) {
	// addElement has called skips already; a second call returns the same result.
	if d.skips() {
		return
	}
	// skips counts only the rows that it skips.
	d.count++
	row := make([][]byte, len(values))
	for i, v := range values {
		row[i] = []byte(v)
	}
	d.rows = append(d.rows, row)
}

// list lists the keyspaces, or the tables, types, functions or aggregates of the current keyspace or, without one, of
// all.
func (d *Describer) list(kind cql.DescribeKind) error {
	keyspaces := ignoringCase(d.Schema.KeyspaceNames())
	if kind == cql.DescribeKeyspaces {
		for _, name := range keyspaces {
			d.addRow(types.QuoteName(name), "keyspace", types.QuoteName(name))
		}
		return nil
	}
	// The keyspace in use may have been dropped since USE.
	if d.Keyspace != "" {
		keyspaces = []string{d.Keyspace}
	}
	// A keyspace in use leaves one iteration.
	for _, keyspace := range keyspaces {
		k := d.Schema.Keyspace(keyspace)
		if k == nil {
			return notInKeyspaces(keyspace)
		}
		switch kind {
		// TableNames omits views, which this list does not show.
		case cql.DescribeTables:
			for _, name := range ignoringCase(k.TableNames()) {
				d.addRow(types.QuoteName(keyspace), "table", types.QuoteName(name))
			}
		case cql.DescribeFunctions, cql.DescribeAggregates:
			d.listFunctions(k, kind)
		case cql.DescribeTypes:
			for _, name := range ignoringCase(k.TypeNames()) {
				d.addRow(types.QuoteName(keyspace), "type", types.QuoteName(name))
			}
		}
	}
	return nil
}

// ignoringCase sorts names in place without regard to case, as Cassandra does. Names that differ only in case keep
// their order.
func ignoringCase(names []string) []string {
	slices.SortStableFunc(names, func(a, b string) int {
		return strings.Compare(strings.ToLower(a),
			strings.ToLower(b))
	})
	return names
}

// notInKeyspaces returns Cassandra's error for a keyspace that does not exist.
func notInKeyspaces(name string) error { return invalid.Errorf("'%s' not found in keyspaces", name) }

// element describes the elements with a name. An unqualified name is resolved in the current keyspace.
func (d *Describer) element(stmt *cql.Describe) error {
	name := stmt.Name
	// DESCRIBE KEYSPACE without a name means the current keyspace.
	if stmt.Kind == cql.DescribeKeyspace {
		if name.Name == "" {
			name.Name = d.Keyspace
		}
		if name.Name == "" {
			return noKeyspace()
		}
		k := d.Schema.Keyspace(name.Name)
		if k == nil {
			return notInKeyspaces(name.Name)
		}
		d.addKeyspace(k, stmt.Only)
		return nil
	}
	// DESCRIBE x without a kind prefers a keyspace of that name to elements of the current keyspace.
	if stmt.Kind == cql.DescribeGeneric && name.Keyspace == "" {
		if k := d.Schema.Keyspace(name.Name); k != nil {
			d.addKeyspace(k, false)
			return nil
		}
		if d.Keyspace == "" {
			return notInKeyspaces(name.Name)
		}
	}
	// All other kinds are elements of a keyspace.
	keyspace := name.Keyspace
	if keyspace == "" {
		keyspace = d.Keyspace
	}
	if keyspace == "" {
		return noKeyspace()
	}
	k := d.Schema.Keyspace(keyspace)
	if k == nil {
		return notInKeyspaces(keyspace)
	}
	return d.elementOf(k, stmt.Kind, name.Name)
}

// noKeyspace returns the error for a statement that needs a current keyspace.
func noKeyspace() error { return invalid.Errorf("No keyspace specified and no current keyspace") }

// elementOf describes an element of a keyspace. As in Cassandra, DESCRIBE x without a kind finds tables, views and
// indexes, in this order, but neither types nor functions.
//
//	DESCRIBE TABLE x               a table, with its indexes and views
//	DESCRIBE MATERIALIZED VIEW x   a view
//	DESCRIBE INDEX x               an index
//	DESCRIBE TYPE x                a type, without the types in it
//	DESCRIBE FUNCTION x            all functions with the name
//	DESCRIBE x                     a table, a view or an index
func (d *Describer) elementOf(k *schema.Keyspace, kind cql.DescribeKind, name string) error {
	switch kind {
	case cql.DescribeTable, cql.DescribeGeneric:
		// A view is stored as a table with View set.
		t := k.Table(name)
		switch {
		case t != nil && t.View == nil:
			d.addTable(k, t)
			// With its indexes and views.
			return nil
		case t != nil && kind == cql.DescribeGeneric:
			d.addView(k, t)
			return nil
		case kind == cql.DescribeTable:
			return invalid.Errorf("Table '%s' not found in keyspace '%s'", name, k.Name)
		}
		// DescribeGeneric falls through to here if there is no table or view.
		if t, ix := k.Index(name); ix != nil {
			d.addIndex(t, ix)
			return nil
		}
		return invalid.Errorf("'%s' not found in keyspace '%s'", name, k.Name)
	case cql.DescribeType:
		if t := k.Type(name); t != nil {
			d.addType(k, t)
			return nil
		}
		return invalid.Errorf("User defined type '%s' not found in '%s'", name, k.Name)
	case cql.DescribeIndex:
		if t, ix := k.Index(name); ix != nil {
			d.addIndex(t, ix)
			return nil
		}
		return invalid.Errorf("Table for existing index '%s' not found in '%s'", name, k.Name)
	case cql.DescribeMaterializedView:
		if t := k.Table(name); t != nil && t.View != nil {
			d.addView(k, t)
			return nil
		}
		return invalid.Errorf("Materialized view '%s' not found in '%s'", name, k.Name)
	case cql.DescribeFunction, cql.DescribeAggregate:
		return d.functionsNamed(k, kind, name)
	}
	// The parser accepts a kind that this function does not handle.
	return invalid.NotSupported("This DESCRIBE")
}

// addKeyspace adds a keyspace and, unless only is set, its elements. The statements can be executed in this order:
// types precede their uses, functions precede aggregates, and tables precede their indexes and views.
//
//	keyspace_name | type     | name | create_statement
//	ks            | keyspace | ks   | CREATE KEYSPACE …
//	ks            | type     | u    | CREATE TYPE …
//	ks            | table    | t    | CREATE TABLE …
//	ks            | index    | i    | CREATE INDEX …
func (d *Describer) addKeyspace(k *schema.Keyspace, only bool) {
	d.addElement(k.Name, "keyspace", types.QuoteName(k.Name), func() string { return keyspaceText(k) })
	if only {
		return
	}
	for _, t := range typesInOrder(k) {
		d.addType(k, t)
	}
	for _, f := range sortedFunctions(k) {
		d.addFunction(f)
	}
	for _, a := range sortedAggregates(k) {
		d.addAggregate(a)
	}
	// addTable also adds the views, which TableNames omits.
	for _, name := range ignoringCase(k.TableNames()) {
		d.addTable(k, k.Table(name))
	}
}

// addType adds a user-defined type.
func (d *Describer) addType(k *schema.Keyspace, t *types.Type) {
	d.addElement(k.Name, "type", types.QuoteName(t.UDTName()), func() string { return typeText(k, t) })
}

// addTable adds a table, its indexes, and its views.
func (d *Describer) addTable(k *schema.Keyspace, t *schema.Table) {
	d.addElement(k.Name, "table", types.QuoteName(t.Name), func() string { return tableText(k, t, d.Internals) })
	for _, ix := range t.Indexes() {
		d.addIndex(t, ix)
	}
	// Views may come after the indexes: both need only the table.
	for _, v := range t.Views() {
		d.addView(k, v)
	}
}

// addView adds a materialized view.
func (d *Describer) addView(k *schema.Keyspace, t *schema.Table) {
	d.addElement(k.Name, "materialized_view", types.QuoteName(t.Name), func() string {
		// WHERE refers to columns of the base table.
		return viewText(d.Schema.BaseOf(t), t, d.Internals)
	})
}

// addIndex adds an index of t.
func (d *Describer) addIndex(t *schema.Table, ix *schema.Index) {
	d.addElement(t.Keyspace, "index", types.QuoteName(ix.Name), func() string { return indexText(t, ix) })
}

// typesInOrder returns the types of k sorted by name, except that the types of fields precede the type that contains
// them.
//
//	types a {f frozen<b>}, b {g int}   b, a
func typesInOrder(k *schema.Keyspace) []*types.Type {
	var ordered []*types.Type
	placed := map[string]bool{}
	// The recursion ends because types cannot contain themselves.
	var place func(t *types.Type)
	place = func(t *types.Type) {
		if t.Kind() == types.UDT && placed[t.UDTName()] {
			return
		}
		for _, e := range t.Elems() {
			place(e)
		}
		if t.Kind() == types.UDT {
			placed[t.UDTName()] = true
			// The type is read from the keyspace again, because a nested type is frozen.
			ordered = append(ordered, k.Type(t.UDTName()))
		}
	}
	for _, name := range ignoringCase(k.TypeNames()) {
		place(k.Type(name))
	}
	return ordered
}

// describeCluster describes the cluster and, if a user's keyspace is in use, the replicas of each token range.
func (d *Describer) describeCluster() error {
	d.textColumns("cluster", "partitioner", "snitch")
	// Constants: cqld has one partitioner and no snitch.
	d.addRow(d.Cluster, "Murmur3Partitioner", "DynamicEndpointSnitch")
	k := d.Schema.Keyspace(d.Keyspace)
	// As in Cassandra, range_ownership is only shown for a user keyspace. A keyspace in use may have been dropped.
	if k == nil || schema.IsSystem(d.Keyspace) {
		return nil
	}
	text := types.Native(types.Text)
	// map<text, frozen<list<text>>>, frozen as a whole.
	d.columns = append(d.columns, Column{"range_ownership", types.NewMap(text, types.NewList(text, true), true)})
	for i := range d.rows { // none if an earlier page had it
		d.rows[i] = append(d.rows[i], d.ownership(k))
	}
	return nil
}

// ownership returns a map from the last token of each range to the addresses of its replicas, in wire form. Addresses
// begin with a slash, as Java prints them.
//
//	{'-9223372036854775808': ['/127.0.0.1', '/127.0.0.2'], '0': ['/127.0.0.2', '/127.0.0.1']}
func (d *Describer) ownership(k *schema.Keyspace) []byte {
	placement := d.Topology.Placement(k.Replication)
	type entry struct {
		token string
		value []byte
	}
	var entries []entry
	for _, token := range d.Topology.Tokens() {
		replicas := placement.Replicas(token).Natural
		// The value is a frozen list of text: a count, and each address with its length.
		list := wire.AppendInt32(nil, int32(len(replicas)))
		for _, id := range replicas {
			list = wire.AppendBytes(list, []byte("/"+d.Topology.Node(id).Internode.String()))
		}
		entries = append(entries, entry{token.String(), list})
	}
	// The keys of a map are sorted as text, not as numbers.
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.token, b.token) })
	out := wire.AppendInt32(nil, int32(len(entries)))
	for _, e := range entries {
		out = wire.AppendBytes(out, []byte(e.token))
		out = wire.AppendBytes(out, e.value)
	}
	return out
}
