package restriction

import (
	"bytes"
	"slices"

	"cqld/cql"
	"cqld/internal/wire"
	"cqld/query/invalid"
	"cqld/query/term"
	"cqld/schema"
	"cqld/types"
	"cqld/types/analysis"
)

// The restrictions in this file filter rows, and select neither keys nor slices. The only exception is NOT IN in a
// DELETE, which selects the slices between its values. A null value satisfies none of them. != is NOT IN with one
// value.

// operator returns the operator of a restriction for messages. elements is not empty for kindNotContains. The names are
// words of CQL, as in Cassandra's messages.
func (r *restriction) operator() string {
	switch r.kind {
	case kindNotIn:
		return "NOT IN"
	case kindNotContains:
		return r.elements[0].operator.String()
	case kindLike:
		if r.folded {
			return cql.ILike.String()
		}
		return cql.Like.String()
	case kindOr:
		return "OR"
	}
	return "IN"
}

// restricts reports whether a column of a kind is restricted. A restriction of several columns, for example OR, may
// have columns of several kinds.
func (r *restriction) restricts(kind schema.ColumnKind) bool {
	return slices.ContainsFunc(r.columns, func(col *schema.Column) bool { return col.Kind == kind })
}

// checkExtra checks the restrictions that only filter rows, and adds them to the filters. It runs last, because it
// depends on the clustering restrictions and on whether an index is used. It returns the first error. NOT IN is
// checked before the kind of statement, because its message is more precise.
func (rs rules) checkExtra(o Options) error {
	for _, r := range rs.extra {
		if err := rs.checkNotIn(r); err != nil {
			return err
		}
		switch {
		case o.Statement != Select:
			return invalid.Errorf("Cannot use %s with %s", o.Statement, r.operator())
		case o.OnlyStatic && r.restricts(schema.Clustering):
			return invalid.Errorf("Cannot restrict clustering columns when selecting only static columns")
		case r.kind == kindLike && len(rs.supporting(r, nil)) > 0:
			// For Cassandra, a LIKE that an index finds is an ordinary restriction, so it counts as one more
			// restriction of the clustering columns.
			if r.restricts(schema.Clustering) && len(rs.clustering) > 0 &&
				!slices.Contains(rs.expected, rs.clustering[0]) {
				rs.expected = append(rs.expected, rs.clustering...)
			}
			rs.usesIndex, rs.expected = true, append(rs.expected, r)
		// ALLOW FILTERING is given or not needed.
		case o.AllowFiltering || freeToFilter(rs.table) || rs.afterPrefix(r) || rs.indexedOr(r):
		case r.kind == kindNotIn && r.first().Kind == schema.Clustering && !rs.follows(r):
			return rs.refusePlaced(r.first(), rs.firstFree())
		default:
			return invalid.Errorf(allowFilteringMessage)
		}
	}
	// Each restriction stays a filter, even if an index finds its rows.
	rs.filters = append(rs.filters, rs.extra...)
	return nil
}

// checkNotIn rejects a NOT IN together with an incompatible restriction of the same column: =, IN, or a range or NOT
// IN that begins with another column. The pairs and messages are Cassandra 6's, where NOT IN and != are part of
// ranges.
func (rs rules) checkNotIn(r *restriction) error {
	if r.kind != kindNotIn {
		return nil
	}
	// All relations have been added, so their order in WHERE does not matter.
	for _, list := range [...][]*restriction{rs.partition, rs.clustering, rs.other, rs.extra} {
		for _, x := range list {
			switch {
			// Restrictions of other columns are compatible.
			case x == nil || !x.overlaps(r):
			case x.kind == kindEqual || x.kind == kindIn:
				return x.merge(r)
			// Two ranges must begin with the same column.
			case x.kind == kindSlice && x.first() != r.first():
				return x.mergeSlice(r)
			case x.kind == kindNotIn && x.first() != r.first():
				return x.slice().mergeSlice(r)
			}
		}
	}
	return nil
}

// refusePlaced returns the error for a restriction of the clustering column col that follows a column without = or
// IN. before is the first such column. The message depends on whether before is restricted by a range or not at all.
func (rs rules) refusePlaced(col, before *schema.Column) error {
	restricts := func(x *restriction) bool { return slices.Contains(x.columns, before) }
	if slices.ContainsFunc(rs.clustering, restricts) || slices.ContainsFunc(rs.extra, restricts) {
		return invalid.Errorf("Clustering column \"%s\" cannot be restricted (preceding column \"%s\" is restricted "+
			"by a non-EQ relation)", col.Name, before.Name)
	}
	return invalid.Errorf("PRIMARY KEY column \"%s\" cannot be restricted as preceding column \"%s\" is not restricted",
		col.Name, before.Name)
}

// afterPrefix reports whether r is a NOT IN on clustering columns of selected partitions that follows other
// restrictions. It then excludes rows from slices, and, as in Cassandra 6, needs no ALLOW FILTERING. Without selected
// partitions, the whole table would be scanned.
func (rs rules) afterPrefix(r *restriction) bool {
	return r.kind == kindNotIn && !rs.KeyRange && r.first().Kind == schema.Clustering && rs.follows(r)
}

// follows reports whether all clustering columns before the first column of r are restricted by = or IN. r restricts
// clustering columns. firstFree returns nil if every clustering column has a value.
func (rs rules) follows(r *restriction) bool {
	free := rs.firstFree()
	return free == nil || free.Position >= r.first().Position
}

// firstFree returns the first clustering column that is restricted neither by = nor by IN, or nil. The columns of the
// clustering are numbered from 0, in the order of the primary key. For example, with PRIMARY KEY (p, a, b) and a = 1,
// it is b.
func (rs rules) firstFree() *schema.Column {
	for _, col := range rs.table.Clustering {
		if !slices.ContainsFunc(rs.clustering, func(x *restriction) bool {
			return (x.kind == kindEqual || x.kind == kindIn) && slices.Contains(x.columns, col)
		}) {
			return col
		}
	}
	return nil
}

// slice returns the slice of all values but those of NOT IN. A DELETE cannot filter rows, so it writes range
// tombstones between the values. For example, a NOT IN (3, 5) deletes the slices below 3, between 3 and 5, and above
// 5.
func (r *restriction) slice() *restriction {
	return &restriction{columns: r.columns, multi: r.multi, kind: kindSlice, excluded: []*restriction{r}}
}

// evalNotIn returns the values of NOT IN. Null is refused: no row would satisfy the relation. The number of values of
// each element is the number of columns, or more for a marker whose tuple is longer. Values are not sorted here.
func (r *restriction) evalNotIn(s *term.Scope) ([][][]byte, error) {
	all, err := r.evalIn(s)
	if err != nil {
		return nil, err
	}
	for _, values := range all {
		for i, v := range values {
			switch {
			// Ignore surplus fields of a bound tuple.
			case v != nil || i >= len(r.columns):
			case r.multi:
				return nil, invalid.Errorf("Invalid null value for %s in tuple (%s)", r.columns[i].Name,
					ColumnNames(r.columns))
			default:
				return nil, invalid.Errorf("Invalid null value for column %s", r.columns[i].Name)
			}
		}
	}
	return all, nil
}

// checkedLike compiles c LIKE pattern, which needs ALLOW FILTERING and a column of text. A LIKE that a SASI index
// finds needs neither, because the index supports the column.
func (c compiler) checkedLike(r *cql.ColumnRelation, o Options) (*restriction, error) {
	x, err := c.columnRestriction(r)
	if err != nil {
		return nil, err
	}
	// columnRestriction has checked that the column exists and is not multi-cell.
	kind := x.first().Type.Kind()
	// If an index finds the pattern, the conditions below do not apply.
	if o.Statement == Select && slices.ContainsFunc(c.Table.Indexes(), func(ix *schema.Index) bool {
		return ix.Column == x.first().ID && findsWhole(ix, x, x.first())
	}) {
		return x, nil
	}
	// Otherwise LIKE filters a text column, which needs ALLOW FILTERING.
	if o.Statement != Select || !o.AllowFiltering && !freeToFilter(c.Table) || kind != types.Text &&
		kind != types.Ascii {
		return nil, invalid.Errorf("%s restriction is only supported on properly indexed columns. %s is not valid.",
			r.Operator, term.RelationText(r))
	}
	return x, nil
}

// checkLikes rejects r together with another restriction of its columns if one of the two is a LIKE that a SASI index
// finds. A LIKE that filters rows may be combined. The error comes from merge, with Cassandra's message for both
// kinds.
func (rs rules) checkLikes(r *restriction) error {
	indexed := func(r *restriction) bool { return r.kind == kindLike && !r.folded && len(rs.supporting(r, nil)) > 0 }
	// Filters may be combined with every restriction, so examine only the kinds that Cassandra merges.
	merges := func(r *restriction) bool { return r.kind < kindNotIn || r.kind == kindLike }
	if len(rs.table.Indexes()) == 0 || !merges(r) {
		return nil
	}
	like := indexed(r)
	for _, list := range [...][]*restriction{rs.clustering, rs.other, rs.extra} {
		for _, x := range list {
			if merges(x) && x.overlaps(r) && (like || indexed(x)) {
				return x.merge(r)
			}
		}
	}
	return nil
}

// likeRestriction compiles c LIKE pattern and c ILIKE pattern. The pattern may be a bind marker, so it is analyzed at
// execution.
func (c compiler) likeRestriction(col *schema.Column, r *cql.ColumnRelation) (*restriction, error) {
	t, err := c.ColumnTerm(r.Value, col)
	if err != nil {
		return nil, err
	}
	return &restriction{columns: []*schema.Column{col}, kind: kindLike, equal: &valueTerm{terms: []term.Term{t}},
		folded: r.Operator == cql.ILike}, nil
}

// pattern is the pattern of LIKE: a text with a wildcard before it, after it, or both. As in Cassandra, % within the
// text is an ordinary character. LIKE '%ab' is {text: ab, begin: true}, and LIKE 'a%b' is equality with a%b.
type pattern struct {
	text       []byte
	begin, end bool // the text may begin and end with other characters
	folded     bool // ignore case; text is in lower case
}

// evalPattern evaluates the pattern of an execution. The result may share memory with the bound value.
func (r *restriction) evalPattern(s *term.Scope) (pattern, error) {
	v, err := r.equal.terms[0].Eval(s)
	if err != nil {
		return pattern{}, err
	}
	if v.Kind != wire.ValueSet {
		return pattern{}, supported(v, "value", r.first())
	}
	p := pattern{text: v.Bytes, folded: r.folded}
	// A single % counts as a suffix and leaves an empty text, which is rejected below.
	p.text, p.end = bytes.CutSuffix(p.text, []byte("%"))
	p.text, p.begin = bytes.CutPrefix(p.text, []byte("%"))
	if len(p.text) == 0 {
		return pattern{}, invalid.Errorf("LIKE value can't be empty.")
	}
	// matches folds values in the same way, with bytes.ToLower.
	if p.folded {
		p.text = bytes.ToLower(p.text)
	}
	return p, nil
}

// matches reports whether the column value v matches without an analyzer. It does not change v.
func (p *pattern) matches(v []byte) bool {
	if p.folded {
		v = bytes.ToLower(v)
	}
	switch {
	// Comparing bytes suffices: in UTF-8, a text matches only at character boundaries.
	case p.begin && p.end:
		return bytes.Contains(v, p.text)
	case p.begin:
		return bytes.HasSuffix(v, p.text)
	case p.end:
		return bytes.HasPrefix(v, p.text)
	}
	return bytes.Equal(v, p.text)
}

// matchesTerm reports whether a value matches after analysis: with %, one of its terms must; without, it must have
// all terms of the text. The text of a pattern is analyzed as one term, because a wildcard adjoins it. An index
// searches for the same terms, so the filter keeps every row that the index finds for the pattern.
func (p *pattern) matchesTerm(a *analysis.Analyzer, v []byte) bool {
	if !p.begin && !p.end {
		return a.Matches(v, p.text)
	}
	analyzed := pattern{text: a.Pattern(p.text), begin: p.begin, end: p.end}
	return slices.ContainsFunc(a.Terms(v), analyzed.matches)
}

// orRestriction compiles a disjunction. An OR may be nested as an alternative. columns contains the columns of all
// alternatives, with duplicates, for masks and the rules of DISTINCT. Cassandra has no OR; the grammar of cqld
// extends CQL here.
func (c compiler) orRestriction(or *cql.OrRelation, o Options) (*restriction, error) {
	x := &restriction{kind: kindOr}
	// Each alternative is a list of relations that must all hold.
	for _, alternative := range or.Alternatives {
		var all []*restriction
		for _, relation := range alternative {
			parts := []cql.Relation{relation}
			// Split BETWEEN into two restrictions of the alternative, as addRelation does outside of OR.
			if between, ok := relation.(*cql.BetweenRelation); ok {
				parts = []cql.Relation{between.Low, between.High}
			}
			for _, part := range parts {
				r, err := c.alternative(part, o)
				if err != nil {
					return nil, err
				}
				all = append(all, r)
				x.columns = append(x.columns, r.columns...)
			}
		}
		x.any = append(x.any, all)
	}
	return x, nil
}

// alternative compiles a relation within OR. Within OR, token(…) filters rows instead of selecting the range to read,
// because other alternatives may match outside of that range.
func (c compiler) alternative(relation cql.Relation, o Options) (*restriction, error) {
	if token, ok := relation.(*cql.TokenRelation); ok {
		return c.tokenRestriction(token)
	}
	return c.relation(relation, o)
}

// refuseNull makes null an error in the bounds of a BETWEEN. Cassandra allows null in the bounds of other ranges of
// SELECT.
func (r *restriction) refuseNull() {
	// Each half of a BETWEEN has one bound.
	for _, b := range []*bound{r.lower, r.upper} {
		if b != nil {
			b.value.bounds = true
		}
	}
}

// operator returns the operator of the relation as the client wrote it, for error messages. For both halves of a
// BETWEEN, it returns BETWEEN.
func (c compiler) operator(op cql.Operator) string {
	if c.between {
		return "BETWEEN"
	}
	return op.String()
}
