package restriction

import (
	"slices"
	"strings"

	"cqld/cql"
	"cqld/internal/wire"
	"cqld/query/invalid"
	"cqld/query/term"
	"cqld/schema"
	"cqld/types"
	"cqld/types/analysis"
)

// kind is the type of a restriction. The order matters: kinds before kindNotIn select keys, slices and index entries as
// in Cassandra, the others are filters.
type kind uint8

const (
	kindEqual kind = iota + 1
	kindIn
	kindSlice
	kindContains // any number of CONTAINS, CONTAINS KEY and map elements

	// These only filter rows.
	kindNotIn       // also !=
	kindNotContains // one NOT CONTAINS or NOT CONTAINS KEY, or != on a map entry
	kindLike        // equal is the pattern
	kindOr
)

// valueTerm is a value for each of several columns: a term for each, or one bind marker for a tuple. The values of a
// marker are known only at execution. Exactly one of terms and marker is set.
type valueTerm struct {
	terms  []term.Term
	marker *term.MarkerTerm // bind marker for a tuple; terms is nil
	bounds bool             // bound of BETWEEN, which must not be null
	tuple  bool             // written as (a, b)
}

// bound is one end of a slice. It may be the bound of several columns, (c, d) > (1, 2).
type bound struct {
	value     *valueTerm
	inclusive bool
}

// element is a restriction on the contents of a collection. A restriction of kindContains may have several elements,
// which must all hold.
type element struct {
	operator cql.Operator // Contains, ContainsKey, or Equal and NotEqual for a map entry
	key      term.Term    // key of a map entry
	name     string       // name of the entry that NotEqual compares, for messages
	value    term.Term
	analyzer *analysis.Analyzer // analyzer of the index that finds the element; nil means none
}

// restriction combines the relations on one column, or on several clustering columns together. It is built by merge
// while a statement is compiled, and is not changed afterwards, except for analyze. The kind decides which fields are
// set.
type restriction struct {
	// columns is in the order of the statement, which is the clustering order for several columns.
	columns  []*schema.Column
	analyzer *analysis.Analyzer // analyzer of the index that finds the column; nil means none
	multi    bool               // written as (c, d) op …
	// equal contains the value of =, or the pattern of LIKE.
	kind  kind
	equal *valueTerm
	// in contains the values of IN and NOT IN; != has one.
	in       []*valueTerm
	inMarker *term.MarkerTerm // IN ?, instead of in
	// lower and upper are the ends of a slice. At least one of lower, upper and excluded is set.
	lower    *bound
	upper    *bound
	excluded []*restriction // NOT IN restrictions of a slice in a DELETE
	// elements is set for kindContains and kindNotContains.
	elements []element
	folded   bool // ILIKE
	token    bool // token(…); columns is the partition key
	// any contains the alternatives of an OR; the restrictions of an alternative are combined with AND.
	any [][]*restriction // of OR
}

// first and last return the columns at the ends; there is at least one.
func (r *restriction) first() *schema.Column { return r.columns[0] }
func (r *restriction) last() *schema.Column  { return r.columns[len(r.columns)-1] }

// merge adds the relations of o to r. Both restrict a common column. Only two slices, or two restrictions of
// elements, can be combined; any other pair is an error, with the message of the first case that applies.
func (r *restriction) merge(o *restriction) error {
	common := commonNames(r, o)
	switch {
	case r.kind == kindEqual:
		return invalid.Errorf("%s cannot be restricted by more than one relation if it includes an Equal", common)
	case r.kind == kindIn:
		return invalid.Errorf("%s cannot be restricted by more than one relation if it includes a IN", common)
	case r.kind == kindLike:
		return invalid.Errorf("%s cannot be restricted by more than one relation if it includes a LIKE", common)
	case r.kind == kindSlice && o.kind == kindSlice:
		return r.mergeSlice(o)
	case r.kind == kindSlice && len(r.excluded) == 0: // with NOT IN, messages are Cassandra 6's
		return invalid.Errorf("Column \"%s\" cannot be restricted by both an equality and an inequality relation",
			common)
	// All elements must be in the collection.
	case r.kind == kindContains && o.kind == kindContains:
		r.elements = append(r.elements, o.elements...)
		return nil
	case o.kind == kindEqual && r.kind != kindContains:
		return invalid.Errorf("%s cannot be restricted by more than one relation if it includes an Equal", common)
	case o.kind == kindIn && r.kind != kindContains:
		return invalid.Errorf("%s cannot be restricted by more than one relation if it includes a IN", common)
	}
	return invalid.Errorf("Collection column %s can only be restricted by CONTAINS, CONTAINS KEY, or map-entry "+
		"equality", common)
}

// mergeSlice adds the bounds of a slice to r. Each end may be restricted once. c > 1 and c < 5 become one slice, in
// either order.
func (r *restriction) mergeSlice(o *restriction) error {
	if r.first() != o.first() {
		// The message names the column that is later in the clustering.
		later := r.first()
		if o.first().Position > later.Position {
			later = o.first()
		}
		return invalid.Errorf("Column \"%s\" cannot be restricted by two inequalities not starting with the same "+
			"column", later.Name)
	}
	if o.lower != nil {
		if r.lower != nil {
			return invalid.Errorf("More than one restriction was found for the start bound on %s", commonNames(r, o))
		}
		r.lower = o.lower
	}
	if o.upper != nil {
		if r.upper != nil {
			return invalid.Errorf("More than one restriction was found for the end bound on %s", commonNames(r, o))
		}
		r.upper = o.upper
	}
	r.excluded = append(r.excluded, o.excluded...)
	// Keep the longer list: for (c, d) > … and c < …, it contains the columns of the other, because both begin with
	// the same column.
	if len(o.columns) > len(r.columns) {
		r.columns = o.columns
	}
	r.multi = r.multi || o.multi
	return nil
}

// commonNames returns the columns that both restrict, as Cassandra prints them: in reverse order, except for tokens.
func commonNames(r, o *restriction) string {
	if r.token {
		return ColumnNames(r.columns)
	}
	var names []string
	for _, c := range r.columns {
		if slices.Contains(o.columns, c) {
			names = append(names, c.Name)
		}
	}
	slices.Reverse(names)
	return strings.Join(names, " ,")
}

// overlaps reports whether both restrict a column in common.
func (r *restriction) overlaps(o *restriction) bool {
	if len(r.columns) == 1 && len(o.columns) == 1 {
		return r.columns[0] == o.columns[0]
	}
	return slices.ContainsFunc(r.columns, func(c *schema.Column) bool { return slices.Contains(o.columns, c) })
}

// columnRestriction compiles c op term. It checks the type of the column before the value, as Cassandra does.
func (c compiler) columnRestriction(r *cql.ColumnRelation) (*restriction, error) {
	col, err := c.Column(r.Column)
	if err != nil {
		return nil, err
	}
	switch r.Operator {
	case cql.Contains, cql.ContainsKey, cql.NotContains, cql.NotContainsKey:
		return c.containsRestriction(col, r)
	case cql.Like, cql.ILike:
		if err := checkComparable(col, c.operator(r.Operator)); err != nil {
			return nil, err
		}
		return c.likeRestriction(col, r)
	}
	slice := r.Operator != cql.Equal && r.Operator != cql.NotEqual
	if slice && col.Type.Kind() == types.UDT { // before the check of its kind, as in Cassandra
		if err := checkSliceable(col.Type); err != nil {
			return nil, err
		}
	}
	if err := checkComparable(col, c.operator(r.Operator)); err != nil {
		return nil, err
	}
	if slice {
		if err := checkSliceable(col.Type); err != nil {
			return nil, err
		}
	}
	t, err := c.ColumnTerm(r.Value, col)
	if err != nil {
		return nil, err
	}
	return compare([]*schema.Column{col}, r.Operator, &valueTerm{terms: []term.Term{t}}), nil
}

// compare returns the restriction columns op value. Other operators, which are not comparisons, have separate
// functions. The restriction keeps v.
func compare(columns []*schema.Column, op cql.Operator, v *valueTerm) *restriction {
	x := &restriction{columns: columns, kind: kindSlice}
	switch op {
	case cql.Equal:
		x.kind, x.equal = kindEqual, v
	case cql.NotEqual:
		x.kind, x.in = kindNotIn, []*valueTerm{v}
	case cql.Less, cql.LessOrEqual:
		x.upper = &bound{v, op == cql.LessOrEqual}
	case cql.Greater, cql.GreaterOrEqual:
		x.lower = &bound{v, op == cql.GreaterOrEqual}
	}
	return x
}

// checkComparable refuses comparisons with multi-cell columns.
func checkComparable(col *schema.Column, operator string) error {
	if !col.Type.MultiCell() {
		return nil
	}
	if col.Type.Kind() == types.UDT {
		return invalid.Errorf("Non-frozen UDT column '%s' (%s) cannot be restricted by any relation", col.Name,
			col.Type)
	}
	return invalid.Errorf("Collection column '%s' (%s) cannot be restricted by a '%s' relation", col.Name, col.Type,
		operator)
}

// checkSliceable rejects ranges of types that contain durations, which have no order because a month has no fixed
// number of days.
func checkSliceable(t *types.Type) error {
	if !t.HasDuration() {
		return nil
	}
	switch {
	case t.Kind().IsCollection():
		return invalid.Errorf("Slice restrictions are not supported on collections containing durations")
	case t.Kind() == types.Tuple:
		return invalid.Errorf("Slice restrictions are not supported on tuples containing durations")
	case t.Kind() == types.UDT:
		return invalid.Errorf("Slice restrictions are not supported on UDTs containing durations")
	}
	return invalid.Errorf("Slice restrictions are not supported on duration columns")
}

// containsRestriction compiles CONTAINS, CONTAINS KEY and their negations. The names of the markers are Cassandra's.
func (c compiler) containsRestriction(col *schema.Column, r *cql.ColumnRelation) (*restriction, error) {
	t := col.Type
	onKey := r.Operator == cql.ContainsKey || r.Operator == cql.NotContainsKey
	switch {
	case onKey && t.Kind() != types.Map:
		return nil, invalid.Errorf("Cannot use %s on non-map column %s", r.Operator, col.Name)
	case !t.Kind().IsCollection():
		return nil, invalid.Errorf("Cannot use %s on non-collection column %s", r.Operator, col.Name)
	}
	// The last type is the element of a list or set, or the value of a map.
	spec := c.Receiver("value("+col.Name+")", t.Elems()[len(t.Elems())-1])
	if onKey {
		spec = c.Receiver("key("+col.Name+")", t.Elems()[0])
	}
	value, err := c.Term(r.Value, spec)
	if err != nil {
		return nil, err
	}
	x := &restriction{columns: []*schema.Column{col}, kind: kindContains,
		elements: []element{{operator: r.Operator, value: value}}}
	if r.Operator == cql.NotContains || r.Operator == cql.NotContainsKey {
		x.kind = kindNotContains
	}
	return x, nil
}

// elementRestriction compiles m[key] = term and m[key] != term. The latter follows Cassandra 6.
func (c compiler) elementRestriction(r *cql.ElementRelation) (*restriction, error) {
	col, err := c.Column(r.Column)
	if err != nil {
		return nil, err
	}
	t := col.Type
	switch {
	case t.Kind() == types.List:
		return nil, invalid.Errorf("Indexes on list entries (%s[index] = value) are not currently supported.", col.Name)
	case t.Kind() != types.Map:
		return nil, invalid.Errorf("Column %s cannot be used as a map", col.Name)
	case !t.MultiCell() && r.Operator != cql.NotEqual:
		return nil, invalid.Errorf("Map-entry equality predicates on frozen map column %s are not supported", col.Name)
	case r.Operator != cql.Equal && r.Operator != cql.NotEqual:
		return nil, invalid.Errorf("Only EQ relations are supported on map entries")
	}
	e := element{operator: r.Operator}
	key, value := "key("+col.Name+")", "value("+col.Name+")"
	kind := kindContains
	if r.Operator == cql.NotEqual {
		e.name = cql.QuoteIdentifier(col.Name) + "[" + term.Text(r.Key) + "]"
		value, kind = e.name, kindNotContains
	}
	if e.key, err = c.Term(r.Key, c.Receiver(key, t.Elems()[0])); err != nil {
		return nil, err
	}
	if e.value, err = c.Term(r.Value, c.Receiver(value, t.Elems()[1])); err != nil {
		return nil, err
	}
	return &restriction{columns: []*schema.Column{col}, kind: kind, elements: []element{e}}, nil
}

// inRestriction compiles c IN (…). IN ? is a single marker with a list type; IN (?, ?) has a marker for each element.
func (c compiler) inRestriction(r *cql.InRelation) (*restriction, error) {
	col, err := c.Column(r.Column)
	if err != nil {
		return nil, err
	}
	x := &restriction{columns: []*schema.Column{col}, kind: kindIn}
	if r.Not {
		x.kind = kindNotIn
	}
	if err := checkComparable(col, x.operator()); err != nil {
		return nil, err
	}
	if r.In.Marker != nil {
		list := types.NewList(col.Type, false)
		c.Bind(r.In.Marker, c.Receiver("in("+col.Name+")", list), nil)
		x.inMarker = &term.MarkerTerm{Index: r.In.Marker.Index, Type: list}
		return x, nil
	}
	for _, v := range r.In.Values {
		t, err := c.ColumnTerm(v, col)
		if err != nil {
			return nil, err
		}
		x.in = append(x.in, &valueTerm{terms: []term.Term{t}})
	}
	x.reduceIn()
	return x, nil
}

// tupleColumns returns the clustering columns that a multi-column relation names. They must be adjacent in the
// clustering, but need not begin with its first column.
func (c compiler) tupleColumns(names []string, source cql.Relation) ([]*schema.Column, error) {
	if len(names) > multiColumnsMax {
		return nil, invalid.Errorf("Multi-column relation has more than %d columns", multiColumnsMax)
	}
	columns := make([]*schema.Column, len(names))
	previous := -1
	for i, n := range names {
		col, err := c.Column(n)
		if err != nil {
			return nil, err
		}
		if col.Kind != schema.Clustering {
			return nil,
				invalid.Errorf("Multi-column relations can only be applied to clustering columns but was applied to: "+
					"%s", col.Name)
		}
		if slices.Contains(columns[:i], col) {
			return nil, invalid.Errorf("Column \"%s\" appeared twice in a relation: %s", col.Name,
				term.RelationText(source))
		}
		if previous >= 0 && col.Position != previous+1 {
			return nil, invalid.Errorf("Clustering columns must appear in the PRIMARY KEY order in multi-column "+
				"relations: %s",
				term.RelationText(source))
		}
		columns[i], previous = col, col.Position
	}
	return columns, nil
}

// tupleType returns the type of a tuple with a field for each column.
func tupleType(columns []*schema.Column) *types.Type {
	elems := make([]*types.Type, len(columns))
	for i, col := range columns {
		elems[i] = col.Type
	}
	return types.NewTuple(elems...)
}

// tupleName returns the columns as in Cassandra's messages and names of markers, without spaces. For example (c,d).
func tupleName(columns []*schema.Column) string {
	names := "("
	for i, col := range columns {
		if i > 0 {
			names += ","
		}
		names += col.Name
	}
	return names + ")"
}

// tupleValue compiles (a, b) or a marker for columns. A literal compiles to a term for each column; it may contain
// markers, which get the types of the columns. A single marker is bound to a tuple value, whose fields are split at
// execution.
func (c compiler) tupleValue(columns []*schema.Column, t cql.Term) (*valueTerm, error) {
	if m, ok := t.(*cql.BindMarker); ok {
		typ := tupleType(columns)
		c.Bind(m, c.Receiver(tupleName(columns), typ), nil)
		return &valueTerm{marker: &term.MarkerTerm{Index: m.Index, Type: typ}}, nil
	}
	literal, ok := t.(*cql.TupleLiteral)
	if !ok {
		return nil, invalid.Errorf("Invalid tuple type literal for %s", tupleName(columns))
	}
	if len(literal.Elements) != len(columns) {
		return nil, invalid.Errorf("Expected %d elements in value tuple, but got %d: %s",
			len(columns), len(literal.Elements), term.Text(t))
	}
	v := &valueTerm{terms: make([]term.Term, len(columns)), tuple: true}
	for i, e := range literal.Elements {
		var err error
		if m, ok := e.(*cql.BindMarker); ok {
			c.Bind(m, c.Receiver(columns[i].Name, columns[i].Type), nil)
			v.terms[i] = &term.MarkerTerm{Index: m.Index, Type: columns[i].Type}
			continue
		}
		if v.terms[i], err = c.Term(e, c.Receiver(columns[i].Name, columns[i].Type)); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// tupleRestriction compiles (c, d) op value.
func (c compiler) tupleRestriction(r *cql.TupleRelation) (*restriction, error) {
	columns, err := c.tupleColumns(r.Columns, r)
	if err != nil {
		return nil, err
	}
	if r.Operator > cql.GreaterOrEqual {
		return nil, invalid.Errorf("%s cannot be used for multi-column relations", r.Operator)
	}
	if r.Operator != cql.Equal && r.Operator != cql.NotEqual {
		for _, col := range columns {
			if err := checkSliceable(col.Type); err != nil {
				return nil, err
			}
		}
	}
	v, err := c.tupleValue(columns, r.Value)
	if err != nil {
		return nil, err
	}
	x := compare(columns, r.Operator, v)
	x.multi = true
	return x, nil
}

// tupleInRestriction compiles (c, d) IN (…), with a marker for the list or for its elements.
func (c compiler) tupleInRestriction(r *cql.TupleInRelation) (*restriction, error) {
	columns, err := c.tupleColumns(r.Columns, r)
	if err != nil {
		return nil, err
	}
	x := &restriction{columns: columns, multi: true, kind: kindIn}
	if r.Not {
		x.kind = kindNotIn
	}
	if r.In.Marker != nil {
		list := types.NewList(tupleType(columns), false)
		c.Bind(r.In.Marker, c.Receiver("in"+tupleName(columns), list), nil)
		x.inMarker = &term.MarkerTerm{Index: r.In.Marker.Index, Type: list}
		return x, nil
	}
	for _, t := range r.In.Values {
		v, err := c.tupleValue(columns, t)
		if err != nil {
			return nil, err
		}
		x.in = append(x.in, v)
	}
	x.reduceIn()
	return x, nil
}

// reduceIn replaces IN with one value by =. Cassandra does it as well: the rules for = are less strict.
func (r *restriction) reduceIn() {
	if len(r.in) == 1 && r.kind == kindIn {
		r.kind, r.equal, r.in = kindEqual, r.in[0], nil
	}
}

// eval appends the values to dst; nil means null. There is one value for each column, except for a marker, whose
// bound tuple may be shorter or longer. Callers reject null where it is invalid.
func (v *valueTerm) eval(s *term.Scope, columns []*schema.Column, dst [][]byte) ([][]byte, error) {
	if v.marker != nil {
		value, err := v.marker.Eval(s)
		if err != nil {
			return nil, err
		}
		switch value.Kind {
		case wire.ValueUnset:
			return nil, invalid.Errorf("Invalid unset value for tuple %s", tupleName(columns))
		case wire.ValueNull:
			return nil, invalid.Errorf("Invalid null value for tuple %s", tupleName(columns))
		}
		return append(dst, term.SplitFields(value.Bytes, v.marker.Type)...), nil
	}
	for i, t := range v.terms {
		value, err := t.Eval(s)
		if err != nil {
			return nil, err
		}
		switch value.Kind {
		case wire.ValueSet:
			dst = append(dst, term.NotNil(value.Bytes))
		case wire.ValueUnset:
			if v.tuple {
				return nil, invalid.Errorf("Invalid unset value for tuple field number %d", i)
			}
			return nil, invalid.Errorf("Invalid unset value for column %s", columns[i].Name)
		default:
			if v.bounds {
				return nil, invalid.Errorf("Invalid null value for column %s", columns[i].Name)
			}
			dst = append(dst, nil)
		}
	}
	return dst, nil
}
