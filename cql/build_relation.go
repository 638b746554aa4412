package cql

import (
	"github.com/antlr4-go/antlr/v4"

	"cqld/grammar"
)

// where builds WHERE; nil if there is none. The list is in the order of the text.
func (b dataBuilder) where(ctx grammar.IWhereClauseContext) []Relation {
	if ctx == nil {
		return nil
	}
	return b.disjunction(ctx.GetChildren())
}

// disjunction builds relations joined by AND and OR, where AND binds more tightly. Without OR it returns all
// relations, otherwise one *OrRelation.
func (b dataBuilder) disjunction(children []antlr.Tree) []Relation {
	var out []Relation
	var alternatives [][]Relation
	for _, child := range children {
		switch c := child.(type) {
		case *grammar.RelationContext:
			out = b.appendRelations(out, c)
		case *grammar.IndexExpressionContext:
			out = append(out, &IndexRelation{Index: QualifiedName{Name: name(c.Ident())}, Value: b.term(c.Term())})
		default:
			if kindOf(child) == grammar.CqlLexerK_OR {
				// The relations so far are one alternative; AND binds them.
				alternatives, out = append(alternatives, out), nil
			}
		}
	}
	// Without OR the list is flat, and parentheses have no effect.
	if alternatives == nil {
		return out
	}
	return []Relation{&OrRelation{Alternatives: append(alternatives, out)}}
}

// appendRelations appends one relation, or those within parentheses.
func (b dataBuilder) appendRelations(out []Relation, ctx grammar.IRelationContext) []Relation {
	// Parentheses without OR add their relations to the list.
	if ctx.ColumnName() == nil && ctx.K_TOKEN() == nil && ctx.ColumnNames() == nil {
		return append(out, b.disjunction(ctx.GetChildren())...)
	}
	return append(out, b.relation(ctx))
}

// relation builds a relation of a column, of token(…), or of a tuple of columns. BETWEEN becomes two relations of the
// same subject, which share the slice of columns.
func (b dataBuilder) relation(ctx grammar.IRelationContext) Relation {
	switch {
	case ctx.ColumnName() != nil:
		return b.columnRelation(name(ctx.ColumnName()), ctx)
	case ctx.K_TOKEN() != nil:
		columns := names(ctx.ColumnNames().AllColumnName())
		if ctx.K_BETWEEN() != nil {
			low := &TokenRelation{Columns: columns, Operator: GreaterOrEqual, Value: b.term(ctx.Term(0))}
			return &BetweenRelation{Low: low, High: &TokenRelation{Columns: columns, Operator: LessOrEqual,
				Value: b.term(ctx.Term(1))}}
		}
		return &TokenRelation{Columns: columns, Operator: operator(ctx.Operator()), Value: b.term(ctx.Term(0))}
	}
	// Neither a column nor TOKEN: a tuple of columns.
	columns := names(ctx.ColumnNames().AllColumnName())
	switch {
	case ctx.K_IN() != nil:
		return &TupleInRelation{Columns: columns, Not: ctx.K_NOT() != nil, In: b.tupleInValues(ctx.TupleInValues())}
	case ctx.K_BETWEEN() != nil:
		low := &TupleRelation{Columns: columns, Operator: GreaterOrEqual, Value: b.tupleValue(ctx.TupleValue(0))}
		return &BetweenRelation{Low: low, High: &TupleRelation{Columns: columns, Operator: LessOrEqual,
			Value: b.tupleValue(ctx.TupleValue(1))}}
	}
	return &TupleRelation{Columns: columns, Operator: operator(ctx.Operator()), Value: b.tupleValue(ctx.TupleValue(0))}
}

// columnRelation builds a relation whose subject is a column or an element of one. The operator words LIKE, ILIKE and
// CONTAINS are read here, the symbols by operator.
func (b dataBuilder) columnRelation(column string, ctx grammar.IRelationContext) Relation {
	switch {
	case ctx.LBRACKET() != nil:
		key := b.term(ctx.Term(0))
		return &ElementRelation{Column: column, Key: key, Operator: operator(ctx.Operator()),
			Value: b.term(ctx.Term(1))}
	case ctx.K_BETWEEN() != nil:
		low := &ColumnRelation{Column: column, Operator: GreaterOrEqual, Value: b.term(ctx.Term(0))}
		return &BetweenRelation{Low: low, High: &ColumnRelation{Column: column, Operator: LessOrEqual,
			Value: b.term(ctx.Term(1))}}
	case ctx.K_IN() != nil:
		return &InRelation{Column: column, Not: ctx.K_NOT() != nil, In: b.inValues(ctx.InValues())}
	// IS NOT NULL is the only form of IS.
	case ctx.K_IS() != nil:
		return &NotNullRelation{Column: column}
	case ctx.K_LIKE() != nil:
		return &ColumnRelation{Column: column, Operator: Like, Value: b.term(ctx.Term(0))}
	case ctx.K_ILIKE() != nil:
		return &ColumnRelation{Column: column, Operator: ILike, Value: b.term(ctx.Term(0))}
	case ctx.K_CONTAINS() != nil:
		contains := containsOperator(ctx.K_KEY() != nil)
		if ctx.K_NOT() != nil {
			// The negated operators follow in the same order.
			contains += NotContains - Contains
		}
		return &ColumnRelation{Column: column, Operator: contains, Value: b.term(ctx.Term(0))}
	}
	return &ColumnRelation{Column: column, Operator: operator(ctx.Operator()), Value: b.term(ctx.Term(0))}
}

// tupleValue builds (a, b), or a marker for the whole tuple.
func (b dataBuilder) tupleValue(ctx grammar.ITupleValueContext) Term {
	if marker := ctx.Marker(); marker != nil {
		return b.marker(marker)
	}
	return &TupleLiteral{Elements: b.terms(ctx.Terms())}
}

// tupleInValues builds the list of a tuple IN: only tuples, or only markers.
func (b dataBuilder) tupleInValues(ctx grammar.ITupleInValuesContext) InList {
	if marker := ctx.Marker(); marker != nil {
		return InList{Marker: b.marker(marker)}
	}
	var in InList
	all := ctx.AllTupleValue()
	for _, v := range all {
		// Cassandra's grammar has a list of tuples and a list of markers, and no mixed one.
		if first := all[0].Marker() != nil; first != (v.Marker() != nil) {
			expected := grammar.CqlLexerLPAREN
			if first { // a marker has two forms
				expected = antlr.TokenInvalidType
			}
			b.failAt(v.GetStart(), expected)
		}
		in.Values = append(in.Values, b.tupleValue(v))
	}
	return in
}
