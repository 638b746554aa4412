// Package constraint implements CHECK: it validates the constraints of a column when they are defined, and evaluates
// them on the values that statements write. Constraints and messages equal Cassandra 6's.
//
// It does not decide when a value is checked: query/write does, for the values that a statement assigns and for the
// keys of the rows that it writes. Rows from before a constraint was defined may violate it.
//
//	CREATE TABLE, ALTER TABLE ─▶ Define ─▶ text in the schema ─▶ Compile ─▶ Check ─▶ query/write
package constraint

import (
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"cqld/cql"
	"cqld/query/function"
	"cqld/query/invalid"
	"cqld/schema"
	"cqld/types"
)

// Check evaluates the constraints of one column. It is immutable. Violations are *invalid.Error, with Cassandra's
// messages.
type Check struct {
	// column provides the type, whose order compares values, and the name for error messages.
	column *schema.Column
	// required means NOT NULL. The caller enforces it, because it depends on the columns that a statement assigns and
	// not on a value: see Missing and Deleted.
	required bool
	// conditions are evaluated in the order of their definition. Value returns the error of the first violated
	// condition.
	conditions []condition
}

// condition returns an error if a value, which is not null, violates a constraint. v is in wire form. It may be empty,
// which is a valid value of some types.
type condition func(v []byte) error

// Compile returns the constraints of a column, or nil if it has none. The text comes from the schema, where Define has
// put it.
func Compile(col *schema.Column) (*Check, error) {
	text := col.CheckText()
	if text == "" {
		return nil, nil
	}
	// The stored form is CQL text, as DESCRIBE shows it.
	all, err := cql.ParseConstraints(text)
	if err != nil {
		return nil, err
	}
	return compile(col, all)
}

// Define checks the constraints of a column, and returns them in the form that Compile accepts. Only the name, kind and
// type of the column are used. all are not changed. It returns an empty text if there are none.
func Define(keyspace, table string, col *schema.Column, all []cql.Constraint) (string, error) {
	if len(all) == 0 {
		return "", nil
	}
	// Only types that constraints accept when frozen get a hint in the error message.
	if !schema.Constrainable(col.Type) {
		// Constraints are supported on a frozen collection, so the message suggests one.
		advice := ""
		if col.Type.MultiCell() && col.Type.Kind() != types.UDT {
			advice = " When using collections, constraints can be used only of frozen collections."
		}
		return "", invalid.Errorf("Constraint cannot be defined on the column %s of type %s for the table %s.%s.%s",
			col.Name, col.Type, keyspace, table, advice)
	}
	// The order of the checks determines which of several errors the client gets: first unknown functions, then
	// contradictions, then types and constants.
	for i := range all {
		if err := recognize(col, &all[i]); err != nil {
			return "", err
		}
	}
	if err := satisfiable(col, all); err != nil {
		return "", err
	}
	if _, err := compile(col, all); err != nil {
		return "", err
	}
	return string(cql.AppendConstraints(nil, all)), nil
}

// Renamed returns the text of a column's constraints with references to the column replaced by its new name.
func Renamed(col *schema.Column, to string) (string, error) {
	all, err := cql.ParseConstraints(col.CheckText())
	if err != nil {
		return "", err
	}
	for i := range all {
		// Functions apply to the column they are defined on and do not name it.
		if all[i].Column != "" {
			all[i].Column = to
		}
	}
	return string(cql.AppendConstraints(nil, all)), nil
}

// recognize rejects unknown functions and comparisons with another column. The parser has converted the function name
// in c to upper case.
func recognize(col *schema.Column, c *cql.Constraint) error {
	// compared means that the constraint has an operator and a constant. NOT NULL and JSON stand alone, the other
	// functions need a comparison.
	compared := c.Operator != cql.OperatorInvalid
	switch {
	case c.Column != "" && c.Column != col.Name:
		return invalid.Errorf("Constraint %s was not specified on a column it operates on: %s but on: %s",
			cql.AppendConstraints(nil, []cql.Constraint{*c}), col.Name, c.Column)
	// c compares the column itself, without a function.
	case c.Column != "":
		return nil
	case !compared && (c.Function == cql.NotNullConstraint || c.Function == "JSON"),
		compared && (c.Function == "LENGTH" || c.Function == "OCTET_LENGTH" || c.Function == "REGEXP"):
		return nil
	}
	return invalid.Errorf("Unrecognized constraint function: %s", strings.ToLower(c.Function))
}

// compile returns the Check of constraints that have been parsed.
func compile(col *schema.Column, all []cql.Constraint) (*Check, error) {
	x := &Check{column: col}
	for i := range all {
		c := &all[i]
		// NOT NULL adds no condition, because conditions run on assigned values only.
		if c.Function == cql.NotNullConstraint {
			if err := checkNotNull(col, c); err != nil {
				return nil, err
			}
			// Conditions never see null. The caller finds missing values and reports them with Missing or Deleted.
			x.required = true
			continue
		}
		// Constants are converted here, once, so that the condition only compares.
		one, err := compileOne(col, c)
		if err != nil {
			return nil, err
		}
		x.conditions = append(x.conditions, one)
	}
	return x, nil
}

// checkNotNull refuses NOT NULL on columns of the primary key, which are never null.
func checkNotNull(col *schema.Column, c *cql.Constraint) error {
	if err := checkArguments(c); err != nil {
		return err
	}
	// Primary key columns always have a value, so NOT NULL would have no effect.
	switch col.Kind {
	case schema.PartitionKey:
		return invalid.Errorf("%s constraint can not be specified on a partition key column '%s'", c.Function,
			col.Name)
	case schema.Clustering:
		return invalid.Errorf("%s constraint can not be specified on a clustering key column '%s'", c.Function,
			col.Name)
	}
	return nil
}

// checkArguments refuses arguments. The grammar accepts them, and no constraint has any.
func checkArguments(c *cql.Constraint) error {
	if len(c.Args) > 0 {
		return invalid.Errorf("Constraint %s does not accept any arguments.", c.Function)
	}
	return nil
}

// compileOne returns the condition of a constraint other than NOT NULL.
func compileOne(col *schema.Column, c *cql.Constraint) (condition, error) {
	// Define has already called recognize for all constraints; Compile has not.
	if err := recognize(col, c); err != nil {
		return nil, err
	}
	if c.Column != "" {
		return scalar(col, c)
	}
	if err := checkArguments(c); err != nil {
		return nil, err
	}
	switch c.Function {
	case "LENGTH":
		// The length of a text is counted like Java's String.length, in UTF-16 units; the length of a blob in bytes.
		length := function.UTF16Length
		if col.Type.Kind() == types.Blob {
			length = func(v []byte) int { return len(v) }
		}
		return lengthOf(col, c, length)
	// The wire form of a text is UTF-8, so its length is the number of octets.
	case "OCTET_LENGTH":
		return lengthOf(col, c, func(v []byte) int { return len(v) })
	case "JSON":
		return isJSON(col, c)
	}
	// recognize rejects all other functions, so this is REGEXP.
	return matches(col, c)
}

// scalar compares the column with a constant. An empty value violates every comparison.
func scalar(col *schema.Column, c *cql.Constraint) (condition, error) {
	// The types are in the order of Cassandra's error message. Counters are in the list, but constant rejects them.
	err := checkType(col, c.Column+" "+c.Operator.String(), types.Tinyint, types.Counter, types.Decimal, types.Double,
		types.Float, types.Int,
		types.Varint, types.Bigint, types.Smallint, types.Time, types.Date, types.Timestamp)
	if err != nil {
		return nil, err
	}
	bound, err := constant(col, c)
	if err != nil {
		return nil, err
	}
	return func(v []byte) error {
		// An empty value has no number to compare.
		if len(v) > 0 && holds(c.Operator, col.Type.Compare(v, bound)) {
			return nil
		}
		return invalid.Errorf("Column value does not satisfy value constraint for column '%s'. It should be %s "+
			"%s %s",
			col.Name, col.Name, c.Operator, valueText(c))
	}, nil
}

// constant returns the encoding of the constant with which a constraint compares the column. constant parses the text
// as the text form of the column's type. It accepts a quoted constant only for types with quoted literals in CQL, so
// a number cannot be written as a string.
func constant(col *schema.Column, c *cql.Constraint) ([]byte, error) {
	if quoted := c.Value.Kind == cql.LiteralString; !quoted || takesStrings(col.Type) {
		// A constant that converts to an empty value has no order.
		if bound, err := col.Type.FromText(c.Value.Text); err == nil && len(bound) > 0 &&
			col.Type.Kind() != types.Counter {
			return bound, nil
		}
	}
	return nil, unparsed(col, c)
}

// takesStrings reports whether constants of a type are strings in CQL.
func takesStrings(t *types.Type) bool {
	return t.Kind() == types.Date || t.Kind() == types.Time || t.Kind() == types.Timestamp
}

// unparsed returns the error for a constant that does not fit the column.
func unparsed(col *schema.Column, c *cql.Constraint) error {
	return invalid.Errorf("Cannot parse constraint value from %s for column '%s'", valueText(c), col.Name)
}

// valueText returns the constant of a constraint as CQL text.
func valueText(c *cql.Constraint) string { return cql.FormatTerm(c.Value) }

// lengthOf compares a length of the column's value with a constant. length computes it from the wire form.
func lengthOf(col *schema.Column, c *cql.Constraint, length func([]byte) int) (condition, error) {
	if err := checkType(col, c.Function, types.Blob, types.Text, types.Ascii); err != nil {
		return nil, err
	}
	// The bound has 32 bits, so that the difference below does not overflow.
	bound, err := strconv.ParseInt(c.Value.Text, 10, 32)
	if err != nil || c.Value.Kind != cql.LiteralInteger {
		return nil, unparsed(col, c)
	}
	return func(v []byte) error {
		n := length(v)
		if holds(c.Operator, n-int(bound)) {
			return nil
		}
		return invalid.Errorf("Column value does not satisfy value constraint for column '%s'. It has a length "+
			"of %d and it should be %s %s",
			col.Name, n, c.Operator, valueText(c))
	}, nil
}

// isJSON refuses values that are not JSON.
func isJSON(col *schema.Column, c *cql.Constraint) (condition, error) {
	if err := checkType(col, c.Function, types.Text, types.Ascii); err != nil {
		return nil, err
	}
	return func(v []byte) error {
		// Any JSON value is accepted, not only objects.
		if json.Valid(v) {
			return nil
		}
		return invalid.Errorf("Value for column '%s' violated %s constraint as it is not a valid JSON.", col.Name,
			c.Function)
	}, nil
}

// matches compares the whole value with a regular expression in the syntax of RE2, which has no backreferences and no
// lookaround, and is evaluated in linear time.
func matches(col *schema.Column, c *cql.Constraint) (condition, error) {
	if err := checkType(col, c.Function, types.Text, types.Ascii); err != nil {
		return nil, err
	}
	// Regular expressions have no order; only = and != are defined.
	if c.Operator != cql.Equal && c.Operator != cql.NotEqual {
		return nil, invalid.Errorf("%s constraint of relation '%s' is not supported. Only these are: [=, !=]",
			c.Function, c.Operator)
	}
	// Compile the expression without the group first. "a)|(b" is invalid by itself, but valid inside the group below,
	// where it would match a part of the value.
	if _, err := regexp.Compile(c.Value.Text); err != nil {
		return nil, invalid.Errorf("String '%s' is not a valid regular expression", c.Value.Text)
	}
	// The whole value must match, as with Matcher.matches in Java.
	expression, err := regexp.Compile(`^(?:` + c.Value.Text + `)$`)
	if err != nil { // the group made it too large
		return nil, invalid.Errorf("String '%s' is not a valid regular expression", c.Value.Text)
	}
	return func(v []byte) error {
		switch match := expression.Match(v); {
		case c.Operator == cql.Equal && !match:
			return invalid.Errorf("Value does not match regular expression %s", valueText(c))
		case c.Operator == cql.NotEqual && match:
			return invalid.Errorf("Value does match regular expression %s", valueText(c))
		}
		return nil
	}, nil
}

// checkType rejects columns whose type is not in allowed. name names the constraint in the error message.
func checkType(col *schema.Column, name string, allowed ...types.Kind) error {
	if slices.Contains(allowed, col.Type.Kind()) {
		return nil
	}
	classes := make([]string, len(allowed))
	// The message contains the names of Cassandra's type classes.
	for i, kind := range allowed {
		classes[i] = class(types.Native(kind))
	}
	return invalid.Errorf("Constraint '%s' can be used only for columns of type [%s] but it was class %s",
		name, strings.Join(classes, ", "), class(col.Type))
}

// class returns the name of a type's class in Cassandra, without its parameters.
func class(t *types.Type) string {
	name := t.MarshalClass()
	// The class of a frozen type is FrozenType(inner); the message contains inner.
	if inner, frozen := strings.CutPrefix(name, "org.apache.cassandra.db.marshal.FrozenType("); frozen {
		name = inner
	}
	// A class with parameters ends before them.
	name, _, _ = strings.Cut(name, "(")
	return name
}

// holds reports whether a comparison with result n satisfies the operator. n is negative, zero or positive, as the
// result of a Compare.
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

// Required reports whether the column is NOT NULL.
func (c *Check) Required() bool { return c.required }

// Value returns an error unless a value satisfies all constraints. Null satisfies none, as in Cassandra. The first
// violated constraint is the error.
func (c *Check) Value(v []byte) error {
	// An empty value is not null, and is examined by the conditions.
	if v == nil {
		return invalid.Errorf("Column value does not satisfy value constraint for column '%s' as it is null.",
			c.column.Name)
	}
	for _, one := range c.conditions {
		if err := one(v); err != nil {
			return err
		}
	}
	return nil
}

// Missing returns the error for a statement that writes rows without a value for a required column. The caller knows
// which columns the statement assigns.
func (c *Check) Missing() error {
	return invalid.Errorf("Column '%s' has to be specified as part of this query.", c.column.Name)
}

// Deleted returns the error for the deletion of a required column.
func (c *Check) Deleted() error {
	return invalid.Errorf("Column '%s' can not be set to null.", c.column.Name)
}
