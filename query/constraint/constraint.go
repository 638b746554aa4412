// Package constraint implements CHECK: it validates the constraints of a column when they are defined, and evaluates them on the
// values that statements write. Constraints and messages are those of Cassandra 6.
package constraint

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"

	"cqld/cql"
	"cqld/query/function"
	"cqld/schema"
	"cqld/types"
)

// Check evaluates the constraints of one column. It is immutable.
type Check struct {
	column     *schema.Column
	required   bool // NOT NULL
	conditions []condition
}

// condition returns an error if a value, which is not null, violates a constraint.
type condition func(v []byte) error

// Compile returns the constraints of a column, or nil if it has none.
func Compile(col *schema.Column) (*Check, error) {
	text := col.CheckText()
	if text == "" {
		return nil, nil
	}
	all, err := cql.ParseConstraints(text)
	if err != nil {
		return nil, err
	}
	return compile(col, all)
}

// Define checks the constraints of a column, and returns them in the form that Compile accepts. Only the name, kind and type of the
// column are used.
func Define(keyspace, table string, col *schema.Column, all []cql.Constraint) (string, error) {
	if len(all) == 0 {
		return "", nil
	}
	if !schema.Constrainable(col.Type) {
		return "", function.Invalidf("Constraint cannot be defined on the column %s of type %s for the table %s.%s.",
			col.Name, col.Type, keyspace, table)
	}
	if _, err := compile(col, all); err != nil {
		return "", err
	}
	return string(cql.AppendConstraints(nil, all)), nil
}

func compile(col *schema.Column, all []cql.Constraint) (*Check, error) {
	x := &Check{column: col}
	for i := range all {
		c := &all[i]
		if c.Function == cql.NotNullConstraint {
			if err := checkNotNull(col, c); err != nil {
				return nil, err
			}
			x.required = true
			continue
		}
		one, err := compileOne(col, c)
		if err != nil {
			return nil, err
		}
		x.conditions = append(x.conditions, one)
	}
	return x, nil
}

func checkNotNull(col *schema.Column, c *cql.Constraint) error {
	if len(c.Args) > 0 || c.Operator != cql.OperatorInvalid {
		return function.Invalidf("Constraint %s has neither parameters nor a comparison", c.Function)
	}
	switch col.Kind {
	case schema.PartitionKey:
		return function.Invalidf("%s constraint can not be specified on a partition key column '%s'", c.Function, col.Name)
	case schema.Clustering:
		return function.Invalidf("%s constraint can not be specified on a clustering key column '%s'", c.Function, col.Name)
	}
	return nil
}

func compileOne(col *schema.Column, c *cql.Constraint) (condition, error) {
	if c.Column != "" {
		return scalar(col, c)
	}
	if len(c.Args) > 0 {
		return nil, function.Invalidf("Constraint %s has no parameters", c.Function)
	}
	text, ascii, blob := types.Native(types.Text), types.Native(types.Ascii), types.Native(types.Blob)
	switch c.Function {
	case "LENGTH":
		length := function.UTF16Length
		if col.Type.Kind() == types.Blob {
			length = func(v []byte) int { return len(v) }
		}
		return lengthOf(col, c, length, blob, text, ascii)
	case "OCTET_LENGTH":
		return lengthOf(col, c, func(v []byte) int { return len(v) }, blob, text, ascii)
	case "JSON":
		return isJSON(col, c, text, ascii)
	case "REGEXP":
		return matches(col, c, text, ascii)
	}
	return nil, function.Invalidf("Unrecognized constraint function: %s", c.Function)
}

// scalar compares a number with the column.
func scalar(col *schema.Column, c *cql.Constraint) (condition, error) {
	switch {
	case c.Column != col.Name:
		return nil, function.Invalidf("Constraint %s was not specified on a column it operates on: %s but on: %s",
			cql.AppendConstraints(nil, []cql.Constraint{*c}), c.Column, col.Name)
	case !col.Type.IsNumber():
		return nil, function.Invalidf("Column '%s' is not a number type.", col.Name)
	}
	bound, err := col.Type.FromText(c.Value.Text)
	if err != nil || len(bound) == 0 {
		return nil, function.Invalidf("%s and %s need to be numbers.", col.Name, c.Value.Text)
	}
	return func(v []byte) error {
		if len(v) > 0 && holds(c.Operator, col.Type.Compare(v, bound)) {
			return nil
		}
		return function.Invalidf("Column value does not satisfy value constraint for column '%s'. It should be %s %s %s",
			col.Name, col.Name, c.Operator, c.Value.Text)
	}, nil
}

func lengthOf(col *schema.Column, c *cql.Constraint, length func([]byte) int, allowed ...*types.Type) (condition, error) {
	if err := checkType(col, c, allowed); err != nil {
		return nil, err
	}
	if c.Operator == cql.OperatorInvalid {
		return nil, function.Invalidf("Constraint %s needs a comparison", c.Function)
	}
	bound, err := strconv.Atoi(c.Value.Text)
	if err != nil || bound < 0 {
		return nil, function.Invalidf("Constraint %s needs a length, and not %s", c.Function, c.Value.Text)
	}
	return func(v []byte) error {
		n := length(v)
		if holds(c.Operator, n-bound) {
			return nil
		}
		return function.Invalidf("Column value does not satisfy value constraint for column '%s'. It has a length of %d and it should be %s %s",
			col.Name, n, c.Operator, c.Value.Text)
	}, nil
}

func isJSON(col *schema.Column, c *cql.Constraint, allowed ...*types.Type) (condition, error) {
	if err := checkType(col, c, allowed); err != nil {
		return nil, err
	}
	if c.Operator != cql.OperatorInvalid {
		return nil, function.Invalidf("Constraint %s has no comparison", c.Function)
	}
	return func(v []byte) error {
		if json.Valid(v) {
			return nil
		}
		return function.Invalidf("Value for column '%s' violated %s constraint as it is not a valid JSON.", col.Name, c.Function)
	}, nil
}

// matches compares the whole value with a regular expression in the syntax of RE2, which has no backreferences and no lookaround, and
// is evaluated in linear time.
func matches(col *schema.Column, c *cql.Constraint, allowed ...*types.Type) (condition, error) {
	if err := checkType(col, c, allowed); err != nil {
		return nil, err
	}
	if c.Operator != cql.Equal && c.Operator != cql.NotEqual || c.Value.Kind != cql.LiteralString {
		return nil, function.Invalidf("Constraint %s is compared with a string by = or !=", c.Function)
	}
	if _, err := regexp.Compile(c.Value.Text); err != nil {
		return nil, function.Invalidf("String '%s' is not a valid regular expression", c.Value.Text)
	}
	expression, err := regexp.Compile(`^(?:` + c.Value.Text + `)$`)
	if err != nil { // too large with the group
		return nil, function.Invalidf("String '%s' is not a valid regular expression", c.Value.Text)
	}
	return func(v []byte) error {
		switch match := expression.Match(v); {
		case c.Operator == cql.Equal && !match:
			return function.Invalidf("Value does not match regular expression %s", cql.QuoteString(c.Value.Text))
		case c.Operator == cql.NotEqual && match:
			return function.Invalidf("Value does match regular expression %s", cql.QuoteString(c.Value.Text))
		}
		return nil
	}, nil
}

func checkType(col *schema.Column, c *cql.Constraint, allowed []*types.Type) error {
	names := make([]string, len(allowed))
	for i, t := range allowed {
		if t.Kind() == col.Type.Kind() {
			return nil
		}
		names[i] = t.String()
	}
	return function.Invalidf("Constraint '%s' can be used only for columns of type [%s] but it was %s",
		c.Function, strings.Join(names, ", "), col.Type)
}

// holds reports whether a comparison with result n satisfies the operator.
func holds(op cql.Operator, n int) bool {
	switch op {
	case cql.Equal:
		return n == 0
	case cql.NotEqual:
		return n != 0
	case cql.Less:
		return n < 0
	case cql.LessOrEqual:
		return n <= 0
	case cql.Greater:
		return n > 0
	case cql.GreaterOrEqual:
		return n >= 0
	}
	return false
}

// Column returns the column.
func (c *Check) Column() *schema.Column { return c.column }

// Required reports whether the column must have a value.
func (c *Check) Required() bool { return c.required }

// Value returns an error unless a value satisfies all constraints. Null satisfies none, as in Cassandra.
func (c *Check) Value(v []byte) error {
	if v == nil {
		return function.Invalidf("Column value does not satisfy value constraint for column '%s' as it is null.", c.column.Name)
	}
	for _, one := range c.conditions {
		if err := one(v); err != nil {
			return err
		}
	}
	return nil
}

// Missing returns the error for a statement that writes rows without a value for a required column.
func (c *Check) Missing() error {
	return function.Invalidf("Column '%s' has to be specified as part of this query.", c.column.Name)
}

// Deleted returns the error for the deletion of a required column.
func (c *Check) Deleted() error {
	return function.Invalidf("Column '%s' can not be set to null.", c.column.Name)
}
