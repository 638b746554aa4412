package restriction

import (
	"slices"
	"strings"

	"cqld/cql"
	"cqld/query/invalid"
	"cqld/query/term"
	"cqld/schema"
)

// Statement is the kind of statement, on which the rules for WHERE depend. The values are the names in messages.
type Statement string

// The kinds of statements that have a WHERE clause, or the values of a key.
const (
	Select Statement = "SELECT"
	Insert Statement = "INSERT"
	Update Statement = "UPDATE"
	Delete Statement = "DELETE"
)

// allowFilteringMessage is Cassandra's text. Clients and tests compare it, so it must not be changed.
const allowFilteringMessage = "Cannot execute this query as it might involve data filtering and thus may have " +
	"unpredictable performance. If you want to execute this query despite the performance unpredictability, " +
	"use ALLOW FILTERING"

// Set is the relations in WHERE, by how they are satisfied: partition keys or tokens to read, slices of clusterings,
// and filters for the rest. It is immutable. Concurrent executions share it. A restriction is in exactly one of
// partition, token, clustering, other and extra; filters, expected and indexed refer to some of them again. For SELECT
// … WHERE p = 1 AND c > 2 AND v = 3 on PRIMARY KEY (p, c), partition has p = 1, clustering has c > 2, and other and
// filters have v = 3.
type Set struct {
	// If false, partition has a restriction by = or IN for every column, and PartitionKeys returns the keys. If true,
	// Tokens returns the range to scan.
	KeyRange bool // the command scans partitions
	// By columns or by token(…). Aggregates without it cause a warning.
	KeyNamed bool // WHERE restricts the partition key
	KeyLists bool // some column of the partition key by IN

	// All columns below are columns of this table.
	table     *schema.Table
	partition []*restriction // by position; nil if the column is not restricted
	// Nil means no token restriction. With KeyRange false, it excludes some of the keys.
	token *restriction // lower and upper, or equal, of token(partition key)
	// Sorted by position. They need not be adjacent: Slices stops at the first gap, and the rest are filters.
	clustering []*restriction // by first column
	other      []*restriction // statics and regulars, by name of the first relation
	// Kinds from kindNotIn on, of any columns, in the order of WHERE.
	extra   []*restriction // those that only filter rows
	filters []*restriction // by which rows are filtered, including extra
	writes  bool           // the statement changes rows

	// They are determined before the rules are checked, as the rules depend on whether an index could be used.
	indexed []indexedPart // what indexes can find
	// findsVector reports that an indexed vector is restricted by =, which BeforeOthers refuses, or that rows are
	// ordered by it. As in Cassandra, the restrictions of the primary key are valid as if the index found the vector.
	findsVector bool
	nearest     *schema.Column // by which rows are ordered with ANN OF; nil means none
	keyFiltered bool           // rows are filtered by their partition keys

	// Whether Cassandra would use an index. It decides on errors, and cqld can find rows by an index without it.
	usesIndex bool           // by Cassandra's rules
	expected  []*restriction // of what an index must find by these rules, or ALLOW FILTERING is needed
	// by which rows can be found, the expected best first; none if they are not found by an index
	candidates []indexedPart
}

// rules builds a Set: it adds restrictions, checks Cassandra's rules for WHERE, and finds the indexes that can be used.
// Only Compile and CompileValues have one; the Set that they return no longer changes. The embedded pointer makes the
// fields of the Set accessible; methods of rules may change them.
type rules struct{ *Set }

// Options contains what the rules depend on besides WHERE.
type Options struct {
	// The rules and the names in messages depend on the kind.
	Statement  Statement
	OnlyStatic bool // the statement reads or writes static columns only
	// The client accepts that rows are filtered.
	AllowFiltering bool
	// AfterRelations, if not nil, is called when all relations are compiled, before the restrictions are checked.
	AfterRelations func(*Set) error
	// BeforeOthers, if not nil, is called when the restrictions of the primary key are valid, before those of other
	// columns are checked.
	BeforeOthers func(*Set) error
}

// compiler compiles relations.
type compiler struct {
	*term.Compiler
	// Errors name BETWEEN instead of >= or <=.
	between bool // the relation is one half of BETWEEN
}

// Compile compiles the WHERE of a statement on the compiler's table. Of several errors, it returns the one that
// Cassandra returns, so the order of the steps must not be changed: relations in their order, partition key,
// clustering, the callbacks of ANN OF, other columns, and last the filters that only newer versions have.
func Compile(in *term.Compiler, where []cql.Relation, o Options) (*Set, error) {
	// First, because some steps compare restrictions in pairs.
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
	// From here on, each check may add to filters and expected.
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
	// As in Cassandra, whether the IN is on one column of the key or on all.
	if rs.usesIndex && rs.KeyLists {
		return nil, invalid.Errorf("Select on indexed columns and with IN clause for the PRIMARY KEY are not supported")
	}
	// Last, since a restriction that became a filter can be found by an index.
	rs.chooseIndexes()
	return rs.Set, nil
}

// CompileValues returns the restrictions by = that the key columns in the VALUES of an INSERT on t mean. onlyStatic
// means that all other columns are static. keys may be incomplete: the missing columns are errors, with the messages of
// INSERT. Values may be bind markers. An INSERT has no other relations, so no filters and no index.
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

// NeedsFiltering returns the error for a statement that needs ALLOW FILTERING. SELECT returns it for rules of its own.
func (rs *Set) NeedsFiltering() error { return invalid.Errorf(allowFilteringMessage) }

// CheckFiltering refuses a search in all partitions, or by an index, without ALLOW FILTERING. It is separate from
// Compile because SELECT reports errors of ORDER BY first.
func (rs *Set) CheckFiltering(allowed bool) error {
	if (rs.KeyRange || rs.usesIndex) && !allowed && !freeToFilter(rs.table) && rs.needsFiltering() {
		return invalid.Errorf(allowFilteringMessage)
	}
	// An index would have to be searched for tuples, which no index contains.
	found := func(p indexedPart) bool {
		return p.of.multi && p.of.kind == kindSlice && slices.Contains(rs.expected, p.of)
	}
	if rs.usesIndex && slices.ContainsFunc(rs.indexed, found) { // as in Cassandra; without the index it is a slice
		return invalid.Errorf("Multi-column slice restrictions cannot be used for filtering.")
	}
	return nil
}

// addRelation compiles a relation and adds it to the list for its column. It merges it with a restriction of the same
// column, or refuses it. The parts of BETWEEN are added one by one.
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
	// A statement that writes has no filters: its exclusions are slices, or become errors with the name of their
	// column.
	switch {
	case r.kind == kindNotIn && o.Statement != Select:
		r = r.slice()
	case r.kind == kindNotContains && r.elements[0].operator == cql.NotEqual && o.Statement != Select:
		r.kind = kindContains // a column that these statements refuse, with its name
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
// and without an index, a restriction after a slice is an error at once, before the rest of WHERE is compiled, as in
// Cassandra. For example, c > 1 AND d = 2 is refused, and d = 2 AND c > 1 with another message.
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

// checkPartition decides how partitions are found: by keys, or by a range of tokens. A statement that writes must name
// its partitions. Of a key (a, b), a = 1 alone scans the ring with a filter, and needs ALLOW FILTERING or an index.
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
	// No column of the key is restricted, or the token is: a range of the ring is scanned.
	if rs.token != nil || !restricted {
		rs.KeyRange = true
		rs.usesIndex = rs.token == nil && rs.queriable()
	}
	// Columns are restricted, but not all of them, or not by = and IN.
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
		// The restrictions are filters now, and the keys are not known.
		if rs.token == nil || len(missing) > 0 || slice {
			rs.partition = make([]*restriction, len(rs.partition))
		}
	} else if restricted && rs.token != nil {
		rs.KeyRange = false // the token only filters the keys
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
		// such a row may have the first parts of a clustering
		partial := rs.table.Compact == schema.CompactDense && len(rs.clustering) > 0
		if missing := rs.missingClustering(); !o.OnlyStatic && len(missing) > 0 && !partial {
			return invalid.Errorf("Some clustering keys are missing: %s", ColumnNames(missing))
			// COMPACT STORAGE: only a prefix may be given.
		} else if !o.OnlyStatic && len(missing) > 0 {
			return rs.checkPrefix()
		}
		return nil
	}
	// position is the first column after the ones that have values. A slice does not advance it, so that everything
	// after a slice is a filter.
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
	// Filters are allowed, by the client, an index or a generated table.
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
// CONTAINS is never part of a slice, as a serialized collection is ordered by its bytes. With c1 = 1 AND c3 = 3, the
// restriction of c3 is a filter, because c2 has none.
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
	// Any index that could be used makes the statement valid, even if rows are found in another way.
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

// EqualTo reports whether WHERE restricts col to one value. GROUP BY and ORDER BY may omit such columns. An IN with one
// value is =.
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

// KeyIn reports whether the partition key is restricted by an IN. It is false for a key whose restrictions became
// filters.
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
