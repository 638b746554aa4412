package query

import (
	"slices"
	"strings"

	"cqld/cql"
	"cqld/query/term"
	"cqld/schema"
	"cqld/types"
)

// statementKind is the kind of statement, on which the rules for WHERE depend.
type statementKind string

const (
	kindSelect statementKind = "SELECT"
	kindInsert statementKind = "INSERT"
	kindUpdate statementKind = "UPDATE"
	kindDelete statementKind = "DELETE"
)

// allowFilteringMessage is Cassandra's text.
const allowFilteringMessage = "Cannot execute this query as it might involve data filtering and thus may have " +
	"unpredictable performance. If you want to execute this query despite the performance unpredictability, " +
	"use ALLOW FILTERING"

// restrictions are the relations in WHERE, by how they are satisfied: partition keys or tokens to read, slices of
// clusterings, and filters for the rest.
type restrictions struct {
	table      *schema.Table
	partition  []*restriction // by position; nil if the column is not restricted
	token      *restriction   // lower and upper, or equal, of token(partition key)
	clustering []*restriction // by first column
	other      []*restriction // statics and regulars, by name of the first relation

	keyRange bool // the command scans partitions
	keyNamed bool // WHERE restricts the partition key
	keyLists bool // some column by IN
	filters  []*restriction
	writes   bool // the statement changes rows
}

// restrictionOptions contains what the rules depend on besides WHERE.
type restrictionOptions struct {
	kind           statementKind
	onlyStatic     bool // the statement reads or writes static columns only
	allowFiltering bool
}

// restrictions compiles WHERE.
func (c *compiler) restrictions(where []cql.Relation, o restrictionOptions) (*restrictions, error) {
	rs := &restrictions{table: c.Table, writes: o.kind != kindSelect, partition: make([]*restriction, len(c.Table.PartitionKey))}
	for _, relation := range where {
		if err := c.addRelation(rs, relation, o); err != nil {
			return nil, err
		}
	}
	if err := rs.checkPartition(o); err != nil {
		return nil, err
	}
	if o.onlyStatic && len(rs.clustering) > 0 {
		switch o.kind {
		case kindUpdate, kindDelete:
			return nil, invalidf("Invalid restrictions on clustering columns since the %s statement modifies only static columns", o.kind)
		case kindSelect:
			return nil, invalidf("Cannot restrict clustering columns when selecting only static columns")
		}
	}
	if err := rs.checkClustering(o); err != nil {
		return nil, err
	}
	if err := rs.checkOther(o); err != nil {
		return nil, err
	}
	return rs, nil
}

// checkFiltering refuses a search in all partitions without ALLOW FILTERING.
func (rs *restrictions) checkFiltering(allowed bool) error {
	filtering := len(rs.filters) > 0 || len(rs.clustering) > 0
	if rs.keyRange && filtering && !allowed && !freeToFilter(rs.table) {
		return &Invalid{Msg: allowFilteringMessage}
	}
	return nil
}

func (c *compiler) addRelation(rs *restrictions, relation cql.Relation, o restrictionOptions) error {
	var r *restriction
	var err error
	switch relation := relation.(type) {
	case *cql.BetweenRelation:
		if err := c.addRelation(rs, relation.Low, o); err != nil {
			return err
		}
		return c.addRelation(rs, relation.High, o)
	case *cql.OrRelation:
		return NotSupported("OR in WHERE")
	case *cql.ColumnRelation:
		if o.kind != kindSelect && (relation.Operator == cql.Contains || relation.Operator == cql.ContainsKey) {
			return invalidf("Cannot use %s with %s", o.kind, relation.Operator)
		}
		r, err = c.columnRestriction(relation)
	case *cql.InRelation:
		r, err = c.inRestriction(relation)
	case *cql.ElementRelation:
		r, err = c.elementRestriction(relation)
	case *cql.TupleRelation:
		r, err = c.tupleRestriction(relation)
	case *cql.TupleInRelation:
		r, err = c.tupleInRestriction(relation)
	case *cql.TokenRelation:
		return c.addToken(rs, relation)
	case *cql.NotNullRelation:
		if _, err := c.column(relation.Column); err != nil {
			return err
		}
		return invalidf("Unsupported restriction: %s", term.RelationText(relation))
	default:
		return NotSupported("An index expression in WHERE")
	}
	if err != nil {
		return err
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

func (c *compiler) addToken(rs *restrictions, relation *cql.TokenRelation) error {
	columns := make([]*schema.Column, len(relation.Columns))
	for i, n := range relation.Columns {
		col, err := c.column(n)
		if err != nil {
			return err
		}
		columns[i] = col
	}
	keys := c.Table.PartitionKey
	if !slices.Equal(columns, keys) {
		sorted := slices.Clone(columns)
		slices.SortFunc(sorted, func(a, b *schema.Column) int { return int(a.Kind-b.Kind)*1000 + a.Position - b.Position })
		if slices.Equal(sorted, keys) {
			return invalidf("The token function arguments must be in the partition key order: %s", columnNames(keys))
		}
		return invalidf("The token() function must be applied to all partition key components or none of them")
	}
	t, err := c.Term(relation.Value, c.Receiver("partition key token", types.Native(types.Bigint)))
	if err != nil {
		return err
	}
	if relation.Operator == cql.NotEqual || relation.Operator > cql.GreaterOrEqual {
		return invalidf("Unsupported \"%s\" relation: %s", relation.Operator, term.RelationText(relation))
	}
	r := compare(columns, relation.Operator, &valueTerm{terms: []term.Term{t}})
	if rs.token == nil {
		rs.token = r
		return nil
	}
	if rs.token.kind == restrictSlice && r.kind == restrictEqual {
		return invalidf("Columns \"%s\" cannot be restricted by both an equality and an inequality relation", columnNames(keys))
	}
	return rs.token.merge(r)
}

// addClustering adds r in the order of its first column; the last restriction may be a slice.
func (rs *restrictions) addClustering(r *restriction, o restrictionOptions) error {
	for _, x := range rs.clustering {
		if slices.ContainsFunc(x.columns, func(col *schema.Column) bool { return slices.Contains(r.columns, col) }) {
			return x.merge(r)
		}
	}
	if n := len(rs.clustering); n > 0 && !o.allowFiltering {
		last := rs.clustering[n-1]
		if last.kind == restrictSlice && r.first().Position > last.first().Position {
			return invalidf("Clustering column \"%s\" cannot be restricted (preceding column \"%s\" is restricted by a non-EQ relation)",
				r.first().Name, last.first().Name)
		}
		if r.kind == restrictSlice && r.first().Position < last.first().Position {
			return invalidf("PRIMARY KEY column \"%s\" cannot be restricted (preceding column \"%s\" is restricted by a non-EQ relation)",
				rs.nextClustering(r.first()).Name, r.first().Name)
		}
	}
	rs.clustering = append(rs.clustering, r)
	slices.SortFunc(rs.clustering, func(a, b *restriction) int { return a.first().Position - b.first().Position })
	return nil
}

// nextClustering returns the restricted column that follows col.
func (rs *restrictions) nextClustering(col *schema.Column) *schema.Column {
	for _, r := range rs.clustering {
		if r.first().Position > col.Position {
			return r.first()
		}
	}
	return col
}

func (rs *restrictions) checkPartition(o restrictionOptions) error {
	var missing []*schema.Column
	slice := false
	for i, r := range rs.partition {
		if r == nil {
			missing = append(missing, rs.table.PartitionKey[i])
		} else if r.kind == restrictSlice || r.kind == restrictContains {
			slice = true
		}
	}
	if o.kind != kindSelect {
		switch {
		case rs.token != nil:
			return invalidf("The token function cannot be used in WHERE clauses for %s statements", o.kind)
		case len(missing) > 0:
			return invalidf("Some partition key parts are missing: %s", columnNames(missing))
		case slice:
			return invalidf("Only EQ and IN relation are supported on the partition key (unless you use the token() function) for %s statements", o.kind)
		}
		return nil
	}
	restricted := len(missing) < len(rs.partition)
	rs.keyNamed, rs.keyLists = restricted || rs.token != nil, rs.keyIn()
	if rs.token != nil || !restricted {
		rs.keyRange = true
	}
	if restricted && (len(missing) > 0 || slice) {
		if !o.allowFiltering && !freeToFilter(rs.table) {
			return &Invalid{Msg: allowFilteringMessage}
		}
		rs.keyRange = true
		for _, r := range rs.partition {
			if r != nil {
				rs.filters = append(rs.filters, r)
			}
		}
		if rs.token == nil || len(missing) > 0 || slice {
			rs.partition = make([]*restriction, len(rs.partition))
		}
	} else if restricted && rs.token != nil {
		rs.keyRange = false // the token only filters the keys
	}
	return nil
}

func (rs *restrictions) checkClustering(o restrictionOptions) error {
	updates := o.kind == kindUpdate || o.kind == kindInsert
	hasSlice := slices.ContainsFunc(rs.clustering, func(r *restriction) bool { return r.kind == restrictSlice })
	if updates {
		if hasSlice {
			return invalidf("Slice restrictions are not supported on the clustering columns in %s statements", o.kind)
		}
		if missing := rs.missingClustering(); !o.onlyStatic && len(missing) > 0 {
			return invalidf("Some clustering keys are missing: %s", columnNames(missing))
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
		if r.kind != restrictSlice {
			position = r.last().Position + 1
		}
	}
	if !filtering || o.allowFiltering || freeToFilter(rs.table) && o.kind == kindSelect {
		return nil
	}
	i := 0
	for _, r := range rs.clustering {
		for _, col := range r.columns {
			if want := rs.table.Clustering[i]; want != col {
				return invalidf("PRIMARY KEY column \"%s\" cannot be restricted as preceding column \"%s\" is not restricted",
					col.Name, want.Name)
			}
			i++
		}
	}
	return invalidf("Clustering columns can only be restricted with CONTAINS with a secondary index or filtering")
}

// inFilter reports whether a clustering restriction cannot be part of a slice that covers the first position columns.
func inFilter(r *restriction, position int) bool {
	return r.kind == restrictContains || r.first().Position != position
}

func (rs *restrictions) missingClustering() []*schema.Column {
	var missing []*schema.Column
	for _, col := range rs.table.Clustering {
		if !slices.ContainsFunc(rs.clustering, func(r *restriction) bool { return slices.Contains(r.columns, col) }) {
			missing = append(missing, col)
		}
	}
	return missing
}

func (rs *restrictions) checkOther(o restrictionOptions) error {
	if len(rs.other) == 0 {
		return nil
	}
	if o.kind != kindSelect {
		var names []string
		for _, r := range rs.other {
			names = append(names, r.first().Name)
		}
		slices.Sort(names)
		return invalidf("Non PRIMARY KEY columns found in where clause: %s ", joinNames(names))
	}
	if !o.allowFiltering && !freeToFilter(rs.table) {
		return &Invalid{Msg: allowFilteringMessage}
	}
	rs.filters = append(rs.filters, rs.other...)
	return nil
}

// freeToFilter reports whether filtering needs no ALLOW FILTERING, because the rows are generated anyway.
func freeToFilter(t *schema.Table) bool { return schema.IsVirtualSystem(t.Keyspace) }

// equalTo reports whether WHERE restricts col to one value.
func (rs *restrictions) equalTo(col *schema.Column) bool {
	if col.Kind == schema.PartitionKey {
		r := rs.partition[col.Position]
		return r != nil && r.kind == restrictEqual
	}
	for _, r := range rs.clustering {
		if slices.Contains(r.columns, col) {
			return r.kind == restrictEqual
		}
	}
	return false
}

// keyIn reports whether the partition key is restricted by an IN.
func (rs *restrictions) keyIn() bool {
	return slices.ContainsFunc(rs.partition, func(r *restriction) bool { return r != nil && r.kind == restrictIn })
}

func columnNames(columns []*schema.Column) string {
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = c.Name
	}
	return joinNames(names)
}

func joinNames(names []string) string { return strings.Join(names, ", ") }
