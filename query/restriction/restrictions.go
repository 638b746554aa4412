package restriction

import (
	"slices"
	"strings"

	"cqld/cql"
	"cqld/query/invalid"
	"cqld/query/term"
	"cqld/schema"
)

// Statement is the kind of statement, which determines the rules for WHERE. The values appear in messages.
type Statement string

// The kinds of statements that have a WHERE clause, or the values of a key.
const (
	Select Statement = "SELECT"
	Insert Statement = "INSERT"
	Update Statement = "UPDATE"
	Delete Statement = "DELETE"
)

// allowFilteringMessage is Cassandra's message. Clients and tests compare it, so it must not be changed.
const allowFilteringMessage = "Cannot execute this query as it might involve data filtering and thus may have " +
	"unpredictable performance. If you want to execute this query despite the performance unpredictability, " +
	"use ALLOW FILTERING"

// Set contains the restrictions of WHERE, grouped by how a read satisfies them: partition keys or tokens to read,
// slices of clusterings, and filters for the rest. It is immutable. Concurrent executions share it. A restriction is
// in exactly one of partition, token, clustering, other and extra; filters, expected and indexed refer to some of the
// same restrictions. For SELECT … WHERE p = 1 AND c > 2 AND v = 3 on PRIMARY KEY (p, c), partition has p = 1,
// clustering has c > 2, and other and filters have v = 3.
type Set struct {
	// If false, partition has a restriction by = or IN for every column, and PartitionKeys returns the keys. If true,
	// Tokens returns the range to scan.
	KeyRange bool // the command scans partitions
	// KeyNamed is true for restrictions by columns or by token(…). Aggregates over unrestricted partitions cause a
	// warning.
	KeyNamed bool // WHERE restricts the partition key
	KeyLists bool // IN restricts a column of the partition key

	// table is the table of all columns below.
	table     *schema.Table
	partition []*restriction // by position; nil if the column is not restricted
	// token is nil without a token restriction. If KeyRange is false, it excludes some of the keys.
	token *restriction // lower and upper, or equal, of token(partition key)
	// clustering is sorted by position. Slices uses the restrictions up to the first gap; the others are filters.
	clustering []*restriction // by first column
	other      []*restriction // statics and regulars, by name of the first relation
	// extra contains the restrictions of kindNotIn and later kinds, in the order of WHERE.
	extra   []*restriction // those that only filter rows
	filters []*restriction // restrictions that filter rows, including extra
	writes  bool           // the statement changes rows

	// indexed is determined before the rules are checked, because they depend on whether an index could be used.
	indexed []indexedPart // what indexes can find
	// findsVector means that an indexed vector is restricted by =, which BeforeOthers rejects, or orders the rows. As
	// in Cassandra, restrictions of the primary key are then validated as if the index were used.
	findsVector bool
	nearest     *schema.Column // column of ANN OF, which orders the rows; nil means none
	keyFiltered bool           // rows are filtered by their partition keys

	// usesIndex means that Cassandra would use an index. It only affects errors: cqld may use an index even if it is
	// false.
	usesIndex bool           // by Cassandra's rules
	expected  []*restriction // what an index must find to avoid ALLOW FILTERING
	// indexes that can find the rows, the expected best first
	candidates []indexedPart
}

// rules builds a Set: it adds restrictions, checks Cassandra's rules for WHERE, and finds the indexes that can be used.
// Only Compile and CompileValues have one; the Set that they return no longer changes. The embedded pointer makes the
// fields of the Set accessible; methods of rules may change them.
type rules struct{ *Set }

// Options contains what the rules depend on besides WHERE.
type Options struct {
	// Statement determines the rules and the words in messages.
	Statement  Statement
	OnlyStatic bool // the statement reads or writes static columns only
	// AllowFiltering means that the client permits filtering of rows.
	AllowFiltering bool
	// AfterRelations, if not nil, is called after all relations are compiled, before the restrictions are checked.
	AfterRelations func(*Set) error
	// BeforeOthers, if not nil, is called after the restrictions of the primary key are checked, before the
	// restrictions of other columns.
	BeforeOthers func(*Set) error
}

// compiler compiles relations.
type compiler struct {
	*term.Compiler
	// between makes errors name BETWEEN instead of >= or <=.
	between bool // the relation is one half of BETWEEN
}

// Compile compiles the WHERE of a statement on the compiler's table. Of several errors, it returns the same one as
// Cassandra, so the order of the steps must not change: relations in their order, partition key, clustering, the
// callbacks of ANN OF, other columns, and last the filters that only newer versions have.
func Compile(in *term.Compiler, where []cql.Relation, o Options) (*Set, error) {
	// Check the bound first, because some steps compare restrictions in pairs.
	if len(where) > relationsMax {
		return nil, invalid.Errorf("WHERE has more than %d relations", relationsMax)
	}
	c := compiler{Compiler: in}
	rs := rules{&Set{table: c.Table, writes: o.Statement != Select,
		partition: make([]*restriction, len(c.Table.PartitionKey))}}
	for _, relation := range where {
		if err := c.addRelation(rs, relation, o); err != nil {
			return nil, err
		}
	}
	// Writes find their rows by the key, never by an index.
	if o.Statement == Select {
		rs.findIndexes()
		rs.findsVector = rs.equalsVector()
	}
	if o.AfterRelations != nil {
		if err := o.AfterRelations(rs.Set); err != nil {
			return nil, err
		}
	}
	// The checks below may add to filters and expected.
	if err := rs.checkPartition(o); err != nil {
		return nil, err
	}
	if o.OnlyStatic && len(rs.clustering) > 0 {
		switch o.Statement {
		case Update, Delete:
			return nil,
				invalid.Errorf("Invalid restrictions on clustering columns since the %s statement modifies only "+
					"static columns", o.Statement)
		case Select:
			return nil, invalid.Errorf("Cannot restrict clustering columns when selecting only static columns")
		}
	}
	if err := rs.checkClustering(o); err != nil {
		return nil, err
	}
	if o.BeforeOthers != nil {
		if err := o.BeforeOthers(rs.Set); err != nil {
			return nil, err
		}
	}
	if err := rs.checkOther(o); err != nil {
		return nil, err
	}
	if err := rs.checkExtra(o); err != nil {
		return nil, err
	}
	// As in Cassandra, this applies to an IN on any column of the key.
	if rs.usesIndex && rs.KeyLists {
		return nil, invalid.Errorf("Select on indexed columns and with IN clause for the PRIMARY KEY are not supported")
	}
	// Choose indexes last, because an index can also find a restriction that became a filter.
	rs.chooseIndexes()
	return rs.Set, nil
}

// CompileValues returns restrictions by = for the key columns in the VALUES of an INSERT on t. onlyStatic means that
// all other columns are static. Missing key columns are an error with the message of INSERT. Values may be bind
// markers. The Set has no filters and no index.
func CompileValues(t *schema.Table, keys map[*schema.Column]term.Term, onlyStatic bool) (*Set, error) {
	rs := rules{&Set{table: t, writes: true, partition: make([]*restriction, len(t.PartitionKey))}}
	for i, col := range t.PartitionKey {
		if value, ok := keys[col]; ok {
			rs.partition[i] = compare([]*schema.Column{col}, cql.Equal, &valueTerm{terms: []term.Term{value}})
		}
	}
	for _, col := range t.Clustering {
		if value, ok := keys[col]; ok {
			rs.clustering = append(rs.clustering, compare([]*schema.Column{col}, cql.Equal,
				&valueTerm{terms: []term.Term{value}}))
		}
	}
	o := Options{Statement: Insert, OnlyStatic: onlyStatic && len(rs.clustering) == 0}
	if err := rs.checkPartition(o); err != nil {
		return nil, err
	}
	return rs.Set, rs.checkClustering(o)
}

// NeedsFiltering returns the error for a statement that needs ALLOW FILTERING. SELECT also returns it for other
// rules.
func (rs *Set) NeedsFiltering() error { return invalid.Errorf(allowFilteringMessage) }

// CheckFiltering refuses a search in all partitions, or by an index, without ALLOW FILTERING. It is separate from
// Compile because SELECT reports errors of ORDER BY first.
func (rs *Set) CheckFiltering(allowed bool) error {
	if (rs.KeyRange || rs.usesIndex) && !allowed && !freeToFilter(rs.table) && rs.needsFiltering() {
		return invalid.Errorf(allowFilteringMessage)
	}
	// No index contains tuples of several columns.
	found := func(p indexedPart) bool {
		return p.of.multi && p.of.kind == kindSlice && slices.Contains(rs.expected, p.of)
	}
	if rs.usesIndex && slices.ContainsFunc(rs.indexed, found) { // as in Cassandra; without the index it is a slice
		return invalid.Errorf("Multi-column slice restrictions cannot be used for filtering.")
	}
	return nil
}

// addRelation compiles a relation and adds it to the list for its column. It merges the relation with a restriction
// of the same column, or returns an error. The two parts of BETWEEN are added one after the other.
func (c compiler) addRelation(rs rules, relation cql.Relation, o Options) error {
	switch relation := relation.(type) {
	case *cql.BetweenRelation:
		c.between = true
		if err := c.addRelation(rs, relation.Low, o); err != nil {
			return err
		}
		return c.addRelation(rs, relation.High, o)
	case *cql.TokenRelation:
		return c.addToken(rs, relation)
	}
	r, err := c.relation(relation, o)
	if err != nil {
		return err
	}
	if c.between {
		r.refuseNull()
	}
	// A write has no filters: NOT IN becomes slices or an error that names the column.
	switch {
	case r.kind == kindNotIn && o.Statement != Select:
		r = r.slice()
	case r.kind == kindNotContains && r.elements[0].operator == cql.NotEqual && o.Statement != Select:
		r.kind = kindContains // checkOther rejects it and names the column
	}
	if err := rs.checkLikes(r); err != nil {
		return err
	}
	if r.kind >= kindNotIn {
		rs.extra = append(rs.extra, r)
		return nil
	}
	// The restrictions of one relation have columns of one kind, except OR, which is among the extra ones.
	switch r.first().Kind {
	case schema.PartitionKey:
		at := &rs.partition[r.first().Position]
		if *at == nil {
			*at = r
			return nil
		}
		return (*at).merge(r)
	case schema.Clustering:
		return rs.addClustering(r, o)
	}
	for _, x := range rs.other {
		if x.first() == r.first() {
			return x.merge(r)
		}
	}
	rs.other = append(rs.other, r)
	return nil
}

// relation compiles a relation on columns. It does not know the other relations. Forms that the grammar accepts, but no
// statement supports, are errors.
func (c compiler) relation(relation cql.Relation, o Options) (*restriction, error) {
	switch relation := relation.(type) {
	case *cql.ColumnRelation:
		switch relation.Operator {
		case cql.Contains, cql.ContainsKey, cql.NotContains, cql.NotContainsKey:
			if o.Statement != Select {
				return nil, invalid.Errorf("Cannot use %s with %s", o.Statement, relation.Operator)
			}
		case cql.Like, cql.ILike:
			return c.checkedLike(relation, o)
		}
		return c.columnRestriction(relation)
	case *cql.InRelation:
		return c.inRestriction(relation)
	case *cql.ElementRelation:
		return c.elementRestriction(relation)
	case *cql.TupleRelation:
		return c.tupleRestriction(relation)
	case *cql.TupleInRelation:
		return c.tupleInRestriction(relation)
	case *cql.OrRelation:
		return c.orRestriction(relation, o)
	case *cql.NotNullRelation:
		if _, err := c.Column(relation.Column); err != nil {
			return nil, err
		}
		return nil, invalid.Errorf("Unsupported restriction: %s", term.RelationText(relation))
	case *cql.IndexRelation:
		return nil, c.refuseExpression(relation)
	}
	return nil, invalid.NotSupported("A relation of another form in WHERE")
}

// addToken adds a restriction of token(…). All of them have the same columns, the partition key.
func (c compiler) addToken(rs rules, relation *cql.TokenRelation) error {
	r, err := c.tokenRestriction(relation)
	if err != nil {
		return err
	}
	if rs.token == nil {
		rs.token = r
		return nil
	}
	if rs.token.kind == kindSlice && r.kind == kindEqual {
		return invalid.Errorf("Columns \"%s\" cannot be restricted by both an equality and an inequality relation",
			ColumnNames(c.Table.PartitionKey))
	}
	return rs.token.merge(r)
}

// addClustering adds r in the order of its first column; the last restriction may be a slice. Without ALLOW FILTERING
// and without an index, a restriction after a slice is an immediate error, as in Cassandra, before the rest of WHERE
// is compiled. For example, c > 1 AND d = 2 and d = 2 AND c > 1 are rejected with different messages.
func (rs rules) addClustering(r *restriction, o Options) error {
	for _, x := range rs.clustering {
		if slices.ContainsFunc(x.columns, func(col *schema.Column) bool { return slices.Contains(r.columns, col) }) {
			return x.merge(r)
		}
	}
	if n := len(rs.clustering); n > 0 && !o.AllowFiltering &&
		(o.Statement != Select || len(rs.supporting(r, nil)) == 0) {
		last := rs.clustering[n-1]
		if last.kind == kindSlice && r.first().Position > last.first().Position {
			return invalid.Errorf("Clustering column \"%s\" cannot be restricted (preceding column \"%s\" is "+
				"restricted by a non-EQ relation)", r.first().Name, last.first().Name)
		}
		if r.kind == kindSlice && r.first().Position < last.first().Position {
			return invalid.Errorf("PRIMARY KEY column \"%s\" cannot be restricted (preceding column \"%s\" is "+
				"restricted by a non-EQ relation)", rs.nextClustering(r.first()).Name, r.first().Name)
		}
	}
	rs.clustering = append(rs.clustering, r)
	slices.SortFunc(rs.clustering, func(a, b *restriction) int { return a.first().Position - b.first().Position })
	return nil
}

// nextClustering returns the restricted column that follows col. It returns col if there is none.
func (rs rules) nextClustering(col *schema.Column) *schema.Column {
	for _, r := range rs.clustering {
		if r.first().Position > col.Position {
			return r.first()
		}
	}
	return col
}

// checkPartition determines how partitions are found: by keys, or by a token range. A write must name its partitions.
// Of a key (a, b), a = 1 alone scans the ring with a filter, and needs ALLOW FILTERING or an index.
func (rs rules) checkPartition(o Options) error {
	var missing []*schema.Column
	slice := false
	for i, r := range rs.partition {
		if r == nil {
			missing = append(missing, rs.table.PartitionKey[i])
		} else if r.kind == kindSlice || r.kind == kindContains {
			slice = true
		}
	}
	// Writes must have = or IN on every column.
	if o.Statement != Select {
		switch {
		case rs.token != nil:
			return invalid.Errorf("The token function cannot be used in WHERE clauses for %s statements", o.Statement)
		case len(missing) > 0:
			return invalid.Errorf("Some partition key parts are missing: %s", ColumnNames(missing))
		case slice:
			return invalid.Errorf("Only EQ and IN relation are supported on the partition key (unless you use the "+
				"token() function) for %s statements", o.Statement)
		}
		return nil
	}
	restricted := len(missing) < len(rs.partition)
	rs.KeyNamed, rs.KeyLists = restricted || rs.token != nil, rs.KeyIn()
	// A token range is scanned if no key column is restricted, or if the token is.
	if rs.token != nil || !restricted {
		rs.KeyRange = true
		rs.usesIndex = rs.token == nil && rs.queriable()
	}
	// Not all key columns are restricted, or not by = and IN.
	if restricted && (len(missing) > 0 || slice) {
		if !o.AllowFiltering && !freeToFilter(rs.table) && !rs.queriable() {
			return invalid.Errorf(allowFilteringMessage)
		}
		rs.KeyRange, rs.usesIndex, rs.keyFiltered = true, rs.queriable(), true
		for _, r := range rs.partition {
			if r != nil {
				rs.filters = append(rs.filters, r)
			}
		}
		rs.expected = append(rs.expected, rs.filters...)
		// The keys are not known, so the restrictions are filters.
		if rs.token == nil || len(missing) > 0 || slice {
			rs.partition = make([]*restriction, len(rs.partition))
		}
	} else if restricted && rs.token != nil {
		rs.KeyRange = false // token(…) only filters the keys
	}
	return nil
}

// checkClustering checks the restrictions of clustering columns. In an INSERT or UPDATE they must be the whole
// clustering; otherwise those that cannot be part of a slice become filters.
func (rs rules) checkClustering(o Options) error {
	updates := o.Statement == Update || o.Statement == Insert
	// A restriction of several columns is one slice, so it is enough to examine the kinds.
	hasSlice := slices.ContainsFunc(rs.clustering, func(r *restriction) bool { return r.kind == kindSlice })
	if updates {
		if hasSlice {
			return invalid.Errorf("Slice restrictions are not supported on the clustering columns in %s statements",
				o.Statement)
		}
		// such a row may have only a prefix of the clustering
		partial := rs.table.Compact == schema.CompactDense && len(rs.clustering) > 0
		if missing := rs.missingClustering(); !o.OnlyStatic && len(missing) > 0 && !partial {
			return invalid.Errorf("Some clustering keys are missing: %s", ColumnNames(missing))
			// With COMPACT STORAGE, the clustering may be a prefix.
		} else if !o.OnlyStatic && len(missing) > 0 {
			return rs.checkPrefix()
		}
		return nil
	}
	// position is the first column after the columns with values. A slice does not advance it, so all restrictions
	// after a slice are filters.
	position, filtering := 0, false
	for _, r := range rs.clustering {
		if inFilter(r, position) {
			filtering = true
			rs.filters = append(rs.filters, r)
			continue
		}
		if r.kind != kindSlice {
			position = r.last().Position + 1
		}
	}
	// An index is used for a filter, or if no partition is named and it finds a clustering column.
	if filtering && rs.queriable() || rs.KeyRange && rs.queriableClustering() {
		rs.usesIndex = true
	}
	if rs.usesIndex || filtering {
		rs.expected = append(rs.expected, rs.clustering...)
	}
	// The client, an index, or a table of generated rows permits filters.
	if !filtering || o.AllowFiltering || rs.queriable() || freeToFilter(rs.table) && o.Statement == Select {
		return nil
	}
	contains := func(r *restriction) bool { return r.kind == kindContains }
	if err := rs.checkPrefix(); err != nil && !slices.ContainsFunc(rs.clustering, contains) {
		return err
	}
	return invalid.Errorf("Clustering columns can only be restricted with CONTAINS with a secondary index or filtering")
}

// checkPrefix returns an error unless the restricted clustering columns are the first ones.
func (rs rules) checkPrefix() error {
	i := 0
	for _, r := range rs.clustering {
		for _, col := range r.columns {
			if want := rs.table.Clustering[i]; want != col {
				return rs.refusePlaced(col, want)
			}
			i++
		}
	}
	return nil
}

// inFilter reports whether a clustering restriction cannot be part of a slice that covers the first position columns.
// CONTAINS is never part of a slice, because collections are not ordered by their elements. With c1 = 1 AND c3 = 3,
// the restriction of c3 is a filter, because c2 has none.
func inFilter(r *restriction, position int) bool {
	return r.kind == kindContains || r.first().Position != position
}

// missingClustering returns the clustering columns without a restriction, in the order of the table.
func (rs *Set) missingClustering() []*schema.Column {
	var missing []*schema.Column
	for _, col := range rs.table.Clustering {
		if !slices.ContainsFunc(rs.clustering, func(r *restriction) bool { return slices.Contains(r.columns, col) }) {
			missing = append(missing, col)
		}
	}
	return missing
}

// checkOther checks the restrictions of static and regular columns, which are always filters. ORDER BY … ANN OF counts
// as one of them.
func (rs rules) checkOther(o Options) error {
	if len(rs.other) == 0 && rs.nearest == nil {
		return nil
	}
	// The names are sorted, and the message ends with a space, as in Cassandra.
	if o.Statement != Select {
		var names []string
		for _, r := range rs.other {
			names = append(names, r.first().Name)
		}
		slices.Sort(names)
		return invalid.Errorf("Non PRIMARY KEY columns found in where clause: %s ", joinNames(names))
	}
	// The statement is valid if an index could be used, even if rows are found in another way.
	if rs.queriable() {
		rs.usesIndex = true
	} else if !o.AllowFiltering && !freeToFilter(rs.table) {
		return invalid.Errorf(allowFilteringMessage)
	}
	rs.filters = append(rs.filters, rs.other...)
	rs.expected = append(rs.expected, rs.other...)
	return nil
}

// freeToFilter reports whether filtering needs no ALLOW FILTERING, because the rows are generated anyway.
func freeToFilter(t *schema.Table) bool { return schema.IsVirtualSystem(t.Keyspace) }

// EqualTo reports whether WHERE restricts col to one value. GROUP BY and ORDER BY may omit such columns. IN with one
// value counts as =.
func (rs *Set) EqualTo(col *schema.Column) bool {
	if col.Kind == schema.PartitionKey {
		r := rs.partition[col.Position]
		return r != nil && r.kind == kindEqual
	}
	for _, r := range rs.clustering {
		if slices.Contains(r.columns, col) {
			return r.kind == kindEqual
		}
	}
	return false
}

// KeyIn reports whether the partition key is restricted by an IN. It reports false if the restrictions of the key
// became filters.
func (rs *Set) KeyIn() bool {
	return slices.ContainsFunc(rs.partition, func(r *restriction) bool { return r != nil && r.kind == kindIn })
}

// ColumnNames returns the names of columns as Cassandra lists them. The names are not quoted.
func ColumnNames(columns []*schema.Column) string {
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = c.Name
	}
	return joinNames(names)
}

// joinNames joins names as Cassandra prints lists of columns.
func joinNames(names []string) string { return strings.Join(names, ", ") }
