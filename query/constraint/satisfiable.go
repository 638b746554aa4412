package constraint

import (
	"strings"

	"cqld/cql"
	"cqld/query/invalid"
	"cqld/schema"
	"cqld/types"
)

// satisfiable refuses constraints on one column that contradict or repeat each other, as Cassandra does: each function,
// and the comparisons of the column itself, may have one constraint of each operator, two with other operators than !=,
// and any number with != and different constants. Combinations of exactly two are examined; those with further != are
// not.
func satisfiable(col *schema.Column, all []cql.Constraint) error {
	var repeated []string
	names := map[string]int{}
	for i := range all {
		c := &all[i]
		if c.Operator == cql.NotEqual {
			continue
		}
		name := subject(c)
		if c.Operator != cql.OperatorInvalid {
			name += " " + c.Operator.String()
		}
		if names[name]++; names[name] == 2 {
			repeated = append(repeated, name)
		}
	}
	if len(repeated) > 0 {
		return invalid.Errorf("There are duplicate constraint definitions on column '%s': [%s]", col.Name,
			strings.Join(repeated, ", "))
	}
	for _, name := range []string{"LENGTH", "OCTET_LENGTH", "REGEXP", col.Name} {
		var group []cql.Constraint
		for i := range all {
			if c := &all[i]; subject(c) == name && c.Operator != cql.OperatorInvalid {
				group = append(group, *c)
			}
		}
		if err := combinable(col, group); err != nil {
			return err
		}
	}
	return nil
}

// subject returns what a constraint restricts: the name of its function, or of the column.
func subject(c *cql.Constraint) string {
	if c.Column != "" {
		return c.Column
	}
	return c.Function
}

// combinable examines the comparisons of one subject.
func combinable(col *schema.Column, group []cql.Constraint) error {
	different := make(map[string]bool, len(group))
	others := 0
	for i := range group {
		if group[i].Operator != cql.NotEqual {
			others++
			continue
		}
		text := string(cql.AppendConstraints(nil, group[i:i+1]))
		if different[text] {
			return invalid.Errorf("There are duplicate constraint definitions on column '%s': %s", col.Name, text)
		}
		different[text] = true
	}
	if others > 2 {
		return invalid.Errorf("There can not be more than 2 constraints (not including non-equal relations) on a "+
			"column '%s' but you have specified %d",
			col.Name, others)
	}
	if len(group) != 2 || others == 0 {
		return nil
	}
	return pair(col, &group[0], &group[1])
}

// pair examines two comparisons of one subject that are not both !=.
func pair(col *schema.Column, a, b *cql.Constraint) error {
	name := a.Function
	if a.Column != "" {
		name = "scalar"
	}
	text := col.Name + " " + a.Operator.String() + " " + valueText(a) + ", " + col.Name + " " + b.Operator.String() +
		" " + valueText(b)
	below, above := a, b
	if isUpper(b.Operator) {
		below, above = b, a
	}
	switch {
	case a.Operator == cql.Equal || b.Operator == cql.Equal || isUpper(a.Operator) && isUpper(b.Operator) ||
		isLower(a.Operator) && isLower(b.Operator):
		return invalid.Errorf("Constraints combination of %s is not supported: %s", name, text)
	case a.Operator == cql.NotEqual || b.Operator == cql.NotEqual:
		return nil
	}
	n, err := compareConstants(col, above, below)
	if err != nil {
		return err
	}
	if n > 0 || n == 0 && (below.Operator == cql.Less || above.Operator == cql.Greater) {
		return invalid.Errorf("Constraints of %s are not satisfiable: %s", name, text)
	}
	return nil
}

func isUpper(op cql.Operator) bool { return op == cql.Less || op == cql.LessOrEqual }
func isLower(op cql.Operator) bool { return op == cql.Greater || op == cql.GreaterOrEqual }

// compareConstants compares the constants of two constraints: those of functions are integers.
func compareConstants(col *schema.Column, a, b *cql.Constraint) (int, error) {
	as := col
	if a.Column == "" {
		as = &schema.Column{Name: col.Name, Type: types.Native(types.Int)}
	}
	x, err := constant(as, a)
	if err != nil {
		return 0, err
	}
	y, err := constant(as, b)
	if err != nil {
		return 0, err
	}
	return as.Type.Compare(x, y), nil
}
