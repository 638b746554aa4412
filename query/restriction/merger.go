package restriction

import (
	"slices"

	"cqld/cql"
	"cqld/schema"
)

// Merger refuses relations on the same columns that cannot be combined, for a WHERE that is not compiled into a Set: as
// in a materialized view. The zero value is empty. It must not be used concurrently. Values are not compiled, so only
// the kinds of the relations matter.
type Merger struct{ all []*restriction }

// Add adds the relation columns op value; OperatorInvalid means IN. multi means that it is written as (c, d) op value.
// After an error the Merger must not be used: the restriction may be changed in part.
func (m *Merger) Add(columns []*schema.Column, op cql.Operator, multi bool) error {
	r := &restriction{columns: columns, kind: kindContains}
	switch op {
	case cql.OperatorInvalid:
		r.kind = kindIn
	case cql.Contains, cql.ContainsKey:
	default:
		r = compare(columns, op, &valueTerm{})
	}
	r.multi = multi
	for _, x := range m.all {
		if slices.ContainsFunc(columns, func(c *schema.Column) bool { return slices.Contains(x.columns, c) }) {
			return x.merge(r)
		}
	}
	m.all = append(m.all, r)
	return nil
}
