package restriction

import (
	"slices"

	"cqld/cql"
	"cqld/row"
	"cqld/schema"
)

// Columns returns the columns that the filter restricts. The slice belongs to the compiled statement and must not be
// changed. For OR, a column may occur several times.
func (f *Filter) Columns() []*schema.Column { return f.r.columns }

// Expressible reports whether replicas can evaluate the filter: it restricts one column, which was never dropped.
// Comparisons of several clustering columns at once, and of analyzed values, are evaluated by the coordinator only. A
// column that was dropped and added again may have values from before the drop; the coordinator ignores them, but
// replicas would not. It depends on the statement only, so it is the same for each execution.
func (f *Filter) Expressible() bool {
	// Analyzers are not part of the protocol between nodes.
	if f.r.analyzer != nil || slices.ContainsFunc(f.elements, func(e elementFilter) bool { return e.analyzer != nil }) {
		return false
	}
	// The kinds from kindNotIn on have no operator in row.Filter.
	return f.r.kind < kindNotIn && len(f.r.columns) == 1 && !f.r.multi && f.r.first().DroppedMicros == 0
}

// Conditions returns the filter as conditions, or nil if replicas cannot evaluate it. All of them must hold. The
// values share memory with the filter. A filter of a range gives up to two conditions, a filter of elements one for
// each. The coordinator evaluates the filter once more on the merged rows, so replicas must only be right about the
// rows that they omit.
func (f *Filter) Conditions() (out []row.Condition) {
	if !f.Expressible() {
		return nil
	}
	// One column, as Expressible has checked.
	col := f.r.first()
	// Position is used for clustering columns only.
	add := func(op row.FilterOperator, values ...[]byte) {
		out = append(out, row.Condition{Kind: col.Kind, Column: col.ID, Position: col.Position, Operator: op,
			Type: col.Type, Values: values})
	}
	switch f.r.kind {
	// The restriction has one column, so each list of values has one element.
	case kindEqual:
		add(row.FilterEqual, f.equal[0])
	case kindIn:
		var values [][]byte
		for _, in := range f.in {
			if in[0] != nil { // null equals nothing
				values = append(values, in[0])
			}
		}
		// An IN without values remains a condition: no row satisfies it.
		add(row.FilterIn, values...)
	case kindSlice:
		// filterValues has rejected null bounds.
		if f.lower != nil {
			add(operatorOf(f.r.lower, row.FilterGreater, row.FilterGreaterOrEqual), f.lower[0])
		}
		if f.upper != nil {
			add(operatorOf(f.r.upper, row.FilterLess, row.FilterLessOrEqual), f.upper[0])
		}
	case kindContains:
		for _, e := range f.elements {
			switch e.operator {
			case cql.Contains:
				add(row.FilterContains, e.value)
			case cql.ContainsKey:
				add(row.FilterContainsKey, e.value)
			case cql.Equal:
				add(row.FilterEntry, e.key, e.value)
			}
		}
	}
	return out
}

// operatorOf returns the operator of a bound, depending on whether the bound is inclusive.
func operatorOf(b *bound, exclusive, inclusive row.FilterOperator) row.FilterOperator {
	if b.inclusive {
		return inclusive
	}
	return exclusive
}
