package cql

import (
	"github.com/antlr4-go/antlr/v4"

	"cqld/grammar"
)

func (b *builder) where(ctx grammar.IWhereClauseContext) []Relation {
	if ctx == nil {
		return nil
	}
	var out []Relation
	for _, child := range ctx.GetChildren() {
		switch c := child.(type) {
		case *grammar.RelationContext:
			out = append(out, b.relation(c))
		case *grammar.IndexExpressionContext:
			out = append(out, &IndexRelation{Index: QualifiedName{Name: name(c.Ident())}, Value: b.term(c.Term())})
		}
	}
	return out
}

func (b *builder) relation(ctx grammar.IRelationContext) Relation {
	switch {
	case ctx.ColumnName() != nil:
		return b.columnRelation(name(ctx.ColumnName()), ctx)
	case ctx.K_TOKEN() != nil:
		return &TokenRelation{
			Columns:  names(ctx.ColumnNames().AllColumnName()),
			Operator: operator(ctx.Operator()),
			Value:    b.term(ctx.Term(0)),
		}
	case ctx.ColumnNames() == nil: // parentheses around a relation
		return b.relation(ctx.Relation())
	case ctx.K_IN() != nil:
		return &TupleInRelation{Columns: names(ctx.ColumnNames().AllColumnName()), In: b.tupleInValues(ctx.TupleInValues())}
	}
	return &TupleRelation{
		Columns:  names(ctx.ColumnNames().AllColumnName()),
		Operator: operator(ctx.Operator()),
		Value:    b.tupleValue(ctx.TupleValue()),
	}
}

func (b *builder) columnRelation(column string, ctx grammar.IRelationContext) Relation {
	switch {
	case ctx.LBRACKET() != nil:
		key := b.term(ctx.Term(0))
		return &ElementRelation{Column: column, Key: key, Operator: operator(ctx.Operator()), Value: b.term(ctx.Term(1))}
	case ctx.K_IN() != nil:
		return &InRelation{Column: column, In: b.inValues(ctx.InValues())}
	case ctx.K_IS() != nil:
		return &NotNullRelation{Column: column}
	case ctx.K_LIKE() != nil:
		return &ColumnRelation{Column: column, Operator: Like, Value: b.term(ctx.Term(0))}
	case ctx.K_CONTAINS() != nil:
		return &ColumnRelation{Column: column, Operator: containsOperator(ctx.K_KEY() != nil), Value: b.term(ctx.Term(0))}
	}
	return &ColumnRelation{Column: column, Operator: operator(ctx.Operator()), Value: b.term(ctx.Term(0))}
}

func (b *builder) tupleValue(ctx grammar.ITupleValueContext) Term {
	if marker := ctx.Marker(); marker != nil {
		return b.marker(marker)
	}
	return &TupleLiteral{Elements: b.terms(ctx.Terms())}
}

// tupleInValues builds the list of a tuple IN: only tuples, or only markers.
func (b *builder) tupleInValues(ctx grammar.ITupleInValuesContext) InList {
	if marker := ctx.Marker(); marker != nil {
		return InList{Marker: b.marker(marker)}
	}
	var in InList
	all := ctx.AllTupleValue()
	for _, v := range all {
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
