package restriction

import (
	"slices"
	"strings"

	"cqld/cql"
	"cqld/query/invalid"
	"cqld/query/term"
	"cqld/schema"
)

// Statement is the kind of statement, on which the rules for WHERE depend.
type Statement string

// The kinds of statements that have a WHERE clause, or the values of a key.
const (
	Select Statement = "SELECT"
	Insert Statement = "INSERT"
	Update Statement = "UPDATE"
	Delete Statement = "DELETE"
)

// allowFilteringMessage is Cassandra's text.
const allowFilteringMessage = "Cannot execute this query as it might involve data filtering and thus may have " +
	"unpredictable performance. If you want to execute this query despite the performance unpredictability, " +
	"use ALLOW FILTERING"

// Set is the relations in WHERE, by how they are satisfied: partition keys or tokens to read, slices of
// clusterings, and filters for the rest. It is immutable.
type Set struct {
	KeyRange bool // the command scans partitions
	KeyNamed bool // WHERE restricts the partition key
	KeyLists bool // some column of the partition key by IN

	table      *schema.Table
	partition  []*restriction // by position; nil if the column is not restricted
	token      *restriction   // lower and upper, or equal, of token(partition key)
	clustering []*restriction // by first column
	other      []*restriction // statics and regulars, by name of the first relation
	extra      []*restriction // those that only filter rows
	filters    []*restriction // by which rows are filtered, including extra
	writes     bool           // the statement changes rows

	indexed []indexedPart // what indexes can find
	// findsVector reports that an indexed vector is restricted by =, which BeforeOthers refuses, or that rows are
	// ordered by it. As in Cassandra, the restrictions of the primary key are valid as if the index found the vector.
	findsVector bool
	nearest     *schema.Column // by which rows are ordered with ANN OF; nil means none
	keyFiltered bool           // rows are filtered by their partition keys

	usesIndex bool           // by Cassandra's rules
	expected  []*restriction // of what an index must find by these rules, or ALLOW FILTERING is needed
	// by which rows can be found, the expected best first; none if they are not found by an index
	candidates []indexedPart
}

// rules builds a Set: it adds restrictions, checks Cassandra's rules for WHERE, and finds the indexes that can be used.
// Only Compile and CompileValues have one; the Set that they return no longer changes.
type rules struct{ *Set }

// Options contains what the rules depend on besides WHERE.
type Options struct {
	Statement      Statement
	OnlyStatic     bool // the statement reads or writes static columns only
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
	between bool // the relation is one half of BETWEEN
}

// Compile compiles the WHERE of a statement on the compiler's table.
func Compile(in *term.Compiler, where []cql.Relation, o Options) (*Set, error) {
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
	if o.Statement == Select {
		rs.findIndexes()
		rs.findsVector = rs.equalsVector()
	}
	if o.AfterRelations != nil {
		if err := o.AfterRelations(rs.Set); err != nil {
			return nil, err
		}
	}
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
	if rs.usesIndex && rs.KeyLists {
		return nil, invalid.Errorf("Select on indexed columns and with IN clause for the PRIMARY KEY are not supported")
	}
	rs.chooseIndexes()
	return rs.Set, nil
}

// CompileValues returns the restrictions by = that the key columns in the VALUES of an INSERT on t mean. onlyStatic
// means that all other columns are static.
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

// NeedsFiltering returns the error for a statement that needs ALLOW FILTERING.
func (rs *Set) NeedsFiltering() error { return invalid.Errorf(allowFilteringMessage) }

// CheckFiltering refuses a search in all partitions, or by an index, without ALLOW FILTERING.
func (rs *Set) CheckFiltering(allowed bool) error {
	if (rs.KeyRange || rs.usesIndex) && !allowed && !freeToFilter(rs.table) && rs.needsFiltering() {
		return invalid.Errorf(allowFilteringMessage)
	}
	found := func(p indexedPart) bool {
		return p.of.multi && p.of.kind == kindSlice && slices.Contains(rs.expected, p.of)
	}
	if rs.usesIndex && slices.ContainsFunc(rs.indexed, found) { // as in Cassandra; without the index it is a slice
		return invalid.Errorf("Multi-column slice restrictions cannot be used for filtering.")
	}
	return nil
}

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

// relation compiles a relation on columns.
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

// addClustering adds r in the order of its first column; the last restriction may be a slice.
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

// nextClustering returns the restricted column that follows col.
func (rs rules) nextClustering(col *schema.Column) *schema.Column {
	for _, r := range rs.clustering {
		if r.first().Position > col.Position {
			return r.first()
		}
	}
	return col
}

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
	if rs.token != nil || !restricted {
		rs.KeyRange = true
		rs.usesIndex = rs.token == nil && rs.queriable()
	}
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
		if rs.token == nil || len(missing) > 0 || slice {
			rs.partition = make([]*restriction, len(rs.partition))
		}
	} else if restricted && rs.token != nil {
		rs.KeyRange = false // the token only filters the keys
	}
	return nil
}

func (rs rules) checkClustering(o Options) error {
	updates := o.Statement == Update || o.Statement == Insert
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
		} else if !o.OnlyStatic && len(missing) > 0 {
			return rs.checkPrefix()
		}
		return nil
	}
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
	if filtering && rs.queriable() || rs.KeyRange && rs.queriableClustering() {
		rs.usesIndex = true
	}
	if rs.usesIndex || filtering {
		rs.expected = append(rs.expected, rs.clustering...)
	}
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
func inFilter(r *restriction, position int) bool {
	return r.kind == kindContains || r.first().Position != position
}

func (rs *Set) missingClustering() []*schema.Column {
	var missing []*schema.Column
	for _, col := range rs.table.Clustering {
		if !slices.ContainsFunc(rs.clustering, func(r *restriction) bool { return slices.Contains(r.columns, col) }) {
			missing = append(missing, col)
		}
	}
	return missing
}

func (rs rules) checkOther(o Options) error {
	if len(rs.other) == 0 && rs.nearest == nil {
		return nil
	}
	if o.Statement != Select {
		var names []string
		for _, r := range rs.other {
			names = append(names, r.first().Name)
		}
		slices.Sort(names)
		return invalid.Errorf("Non PRIMARY KEY columns found in where clause: %s ", joinNames(names))
	}
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

// EqualTo reports whether WHERE restricts col to one value.
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

// KeyIn reports whether the partition key is restricted by an IN.
func (rs *Set) KeyIn() bool {
	return slices.ContainsFunc(rs.partition, func(r *restriction) bool { return r != nil && r.kind == kindIn })
}

// ColumnNames returns the names of columns as Cassandra lists them.
func ColumnNames(columns []*schema.Column) string {
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = c.Name
	}
	return joinNames(names)
}

func joinNames(names []string) string { return strings.Join(names, ", ") }
