package restriction

import (
	"slices"

	"cqld/cql"
	"cqld/schema"
)

// Merger rejects relations on the same column that cannot be combined, for a WHERE that is not compiled into a Set,
// such as the WHERE of a materialized view. It does not compile values; only the kinds of the relations matter. The
// zero value is empty. A Merger is not safe for concurrent use.
type Merger struct{ all []*restriction }

// Add adds the relation columns op value; OperatorInvalid means IN. multi means that it is written as (c, d) op
// value. After an error, the Merger must not be used, because it may have merged a part of the relation.
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
