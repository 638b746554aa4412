package write

import (
	"slices"

	"cqld/cql"
	"cqld/query/invalid"
	"cqld/query/mask"
	"cqld/schema"
)

// conditions are the conditions in IF. At most one of exists and notExists is set, and columns is empty then.
type conditions struct {
	exists, notExists bool
	columns           []*condition
	// masking determines the masks for the result, and whether the client may use the conditions; nil means that the
	// table has no masks.
	masking *mask.Decision
}

// conditional reports whether the statement has an IF. An IF without conditions does not parse.
func (m *Modification) conditional() bool { return m.conditions != nil }

// compileConditions compiles IF, and returns nil if the statement has none. It rejects a timestamp in using, because
// the ballot determines the timestamp of a conditional change.
func (c *compiler) compileConditions(exists, notExists bool, in []cql.Condition, using cql.Using) (*conditions, error) {
	if !exists && !notExists && len(in) == 0 {
		return nil, nil
	}
	out := &conditions{exists: exists, notExists: notExists}
	var restricted []*schema.Column
	for i := range in {
		x, err := compileCondition(c.Compiler, &in[i])
		if err != nil {
			return nil, err
		}
		out.columns = append(out.columns, x)
		restricted = append(restricted, x.Column)
	}
	// Like a restriction in WHERE, a condition reveals whether a masked column has a given value.
	out.masking = mask.NewDecision(mask.Compile(c.Compiler, c.Table), c.Table, restricted)
	// The ballot determines the timestamp of a conditional change.
	if using.Timestamp != nil {
		return nil, invalid.Errorf("Cannot provide custom timestamp for conditional updates")
	}
	return out, nil
}

// regular reports whether a condition is on a regular column. Such a condition needs a row: WHERE must restrict all
// clustering columns.
func (c *conditions) regular() bool {
	return slices.ContainsFunc(c.columns, func(x *condition) bool { return x.Column.Kind == schema.Regular })
}
