package write

import (
	"slices"

	"cqld/cql"
	"cqld/query/invalid"
	"cqld/query/mask"
	"cqld/schema"
)

// conditions are the conditions in IF.
type conditions struct {
	exists, notExists bool
	columns           []*condition
	masking           *mask.Decision
}

// conditional reports whether the statement has an IF.
func (m *Modification) conditional() bool { return m.conditions != nil }

// compileConditions compiles IF.
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
	out.masking = mask.NewDecision(mask.Compile(c.Compiler, c.Table), c.Table, restricted)
	if using.Timestamp != nil {
		return nil, invalid.Errorf("Cannot provide custom timestamp for conditional updates")
	}
	return out, nil
}

// regular reports whether a condition is on a regular column.
func (c *conditions) regular() bool {
	return slices.ContainsFunc(c.columns, func(x *condition) bool { return x.Column.Kind == schema.Regular })
}
