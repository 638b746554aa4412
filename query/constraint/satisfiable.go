package constraint

import (
	"strings"

	"cqld/cql"
	"cqld/query/invalid"
	"cqld/schema"
	"cqld/types"
)

// satisfiable refuses constraints on one column that contradict or repeat each other, as Cassandra does: a subject (a
// function, or the column itself) may have one constraint for each operator other than !=, at most two of these, and
// any number of != with different constants. As in Cassandra, exactly two constraints on a subject are tested for a
// contradiction; with a third, the test is skipped.
func satisfiable(col *schema.Column, all []cql.Constraint) error {
	// repeated contains each repeated constraint once, in the order of the second occurrence.
	var repeated []string
	names := map[string]int{}
	for i := range all {
		c := &all[i]
		// != may be repeated; combinable compares the constants.
		if c.Operator == cql.NotEqual {
			continue
		}
		name := subject(c)
		if c.Operator != cql.OperatorInvalid {
			name += " " + c.Operator.String()
		}
		// A third occurrence is not listed again.
		if names[name]++; names[name] == 2 {
			repeated = append(repeated, name)
		}
	}
	if len(repeated) > 0 {
		return invalid.Errorf("There are duplicate constraint definitions on column '%s': [%s]", col.Name,
			strings.Join(repeated, ", "))
	}
	// Only constraints on the same subject are compared with each other.
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
	// different contains the text of the != comparisons. Equal constants with different spelling therefore count as
	// different.
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
	// A single comparison, or any number of !=, can always be satisfied.
	if len(group) != 2 || others == 0 {
		return nil
	}
	return pair(col, &group[0], &group[1])
}

// pair examines two comparisons of one subject that are not both !=. The error names the function, or "scalar" for
// comparisons of the column, and both constraints.
func pair(col *schema.Column, a, b *cql.Constraint) error {
	name := a.Function
	if a.Column != "" {
		name = "scalar"
	}
	text := col.Name + " " + a.Operator.String() + " " + valueText(a) + ", " + col.Name + " " + b.Operator.String() +
		" " + valueText(b)
	// below is the upper bound and above the lower one, if there is one of each.
	below, above := a, b
	if isUpper(b.Operator) {
		below, above = b, a
	}
	switch {
	// The only valid pairs are a lower with an upper bound, and a pair with !=. A second constraint beside = is
	// redundant or contradictory, and so is the weaker of two bounds in the same direction.
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
	// Equal bounds leave exactly one value, if both include it.
	if n > 0 || n == 0 && (below.Operator == cql.Less || above.Operator == cql.Greater) {
		return invalid.Errorf("Constraints of %s are not satisfiable: %s", name, text)
	}
	return nil
}

// isUpper reports whether a comparison is an upper bound, isLower whether it is a lower one.
func isUpper(op cql.Operator) bool { return op == cql.Less || op == cql.LessOrEqual }
func isLower(op cql.Operator) bool { return op == cql.Greater || op == cql.GreaterOrEqual }

// compareConstants compares the constants of two constraints on one subject. The constants of functions are lengths,
// and therefore integers; other constants have the type of the column.
func compareConstants(col *schema.Column, a, b *cql.Constraint) (int, error) {
	as := col
	if a.Column == "" {
		// A length is an int, so its constants are parsed as values of an int column.
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
