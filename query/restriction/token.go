package restriction

import (
	"slices"

	"cqld/cql"
	"cqld/query/invalid"
	"cqld/query/rowview"
	"cqld/query/term"
	"cqld/ring"
	"cqld/schema"
	"cqld/types"
)

// tokenRestriction compiles token(…) op value. The columns must be the whole partition key in its order; otherwise it
// returns Cassandra's error. The restriction has kind slice or equal, with one value for all columns. For PRIMARY KEY
// ((a, b)), token(a, b) is valid, and token(b, a), token(a) and token(a, a, b) are the three errors.
func (c compiler) tokenRestriction(relation *cql.TokenRelation) (*restriction, error) {
	columns := make([]*schema.Column, len(relation.Columns))
	for i, n := range relation.Columns {
		col, err := c.Column(n)
		if err != nil {
			return nil, err
		}
		columns[i] = col
	}
	keys := c.Table.PartitionKey
	// The messages distinguish a wrong order, duplicates, and missing columns.
	if !slices.Equal(columns, keys) {
		sorted := slices.Clone(columns)
		slices.SortFunc(sorted, func(a, b *schema.Column) int {
			return int(a.Kind-b.Kind)*1000 +
				a.Position - b.Position
		})
		if slices.Equal(sorted, keys) {
			return nil, invalid.Errorf("The token function arguments must be in the partition key order: %s",
				ColumnNames(keys))
		}
		if slices.Equal(slices.Compact(sorted), keys) {
			return nil, invalid.Errorf("The token() function contains duplicate partition key components")
		}
		return nil, invalid.Errorf("The token() function must be applied to all partition key components or none of " +
			"them")
	}
	// A marker has the same type: drivers send tokens as bigint.
	t, err := c.Term(relation.Value, c.Receiver("partition key token", types.Native(types.Bigint)))
	if err != nil {
		return nil, err
	}
	// IN and != would select several ranges, which are not supported.
	if relation.Operator == cql.NotEqual || relation.Operator > cql.GreaterOrEqual {
		return nil, invalid.Errorf("Unsupported \"%s\" relation: %s", relation.Operator, term.RelationText(relation))
	}
	r := compare(columns, relation.Operator, &valueTerm{terms: []term.Term{t}})
	r.token = true
	return r, nil
}

// tokenFilter compares the token of a row's partition, within OR. A nil bound is unbounded. Within OR, a token
// restriction is a filter, because other alternatives may match in other ranges.
type tokenFilter struct{ equal, lower, upper *ring.Token }

// evalToken evaluates the bounds for an execution. The result has either equal or bounds.
func (r *restriction) evalToken(s *term.Scope) (*tokenFilter, error) {
	f := &tokenFilter{}
	eval := func(v *valueTerm) (*ring.Token, error) {
		token, err := tokenValue(s, v, r.columns)
		return &token, err
	}
	var err error
	if r.equal != nil {
		f.equal, err = eval(r.equal)
	}
	if r.lower != nil && err == nil {
		f.lower, err = eval(r.lower.value)
	}
	if r.upper != nil && err == nil {
		f.upper, err = eval(r.upper.value)
	}
	return f, err
}

// matches compares the token of a row. As in Tokens, an upper bound of MinToken means unbounded.
func (f *tokenFilter) matches(r *restriction, v *rowview.View) bool {
	// Pages contain the token of each key, so it is not computed.
	token := v.Key.Token
	switch {
	case f.equal != nil:
		return token == *f.equal
	case f.lower != nil && (token < *f.lower || token == *f.lower && !r.lower.inclusive):
		return false
	case f.upper == nil || *f.upper == ring.MinToken:
		return true
	}
	return token < *f.upper || token == *f.upper && r.upper.inclusive
}
