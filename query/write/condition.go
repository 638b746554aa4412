package write

import (
	"cqld/cql"
	"cqld/internal/wire"
	"cqld/query/invalid"
	"cqld/query/rowview"
	"cqld/query/term"
	"cqld/schema"
	"cqld/types"
)

// condition compares a column, an element or a field of one with a value. It is part of a plan, so it is immutable
// and shared by executions. At most one of value, in and inMarker is set.
type condition struct {
	Column   *schema.Column
	key      term.Term // key in c[key]
	field    int       // index of the field in c.field, otherwise -1
	operator cql.Operator
	// value is nil for IN.
	value term.Term
	in    []term.Term // values of IN; operator is OperatorInvalid
	// inMarker is the marker of IN ?, whose value is a list.
	inMarker *term.MarkerTerm
}

// conditionCompiler compiles conditions.
type conditionCompiler struct{ *term.Compiler }

// compileCondition compiles one condition of IF. It rejects conditions on key columns, which cannot change, and on
// counters, which have no conditional updates.
func compileCondition(terms *term.Compiler, in *cql.Condition) (*condition, error) {
	c := conditionCompiler{terms}
	col, err := c.Column(in.Column)
	if err != nil {
		return nil, err
	}
	if col.Type.Kind() == types.Counter {
		return nil, invalid.Errorf("Conditions on counters are not supported")
	}
	if col.Kind == schema.PartitionKey || col.Kind == schema.Clustering {
		return nil, invalid.Errorf("PRIMARY KEY column '%s' cannot have IF conditions", col.Name)
	}
	x := &condition{Column: col, field: -1, operator: in.Operator}
	// The receiver is the column, then possibly its element or field, and with CONTAINS an element of that.
	value := c.Receiver(col.Name, col.Type)
	switch {
	case in.Key != nil:
		value, err = c.conditionElement(x, in)
	case in.Field != "":
		value, err = c.conditionField(x, in)
	}
	if err != nil {
		return nil, err
	}
	if in.In != nil {
		// IN compares with the receiver itself. Like =, it is valid for durations, which have no order.
		return x, c.conditionIn(x, in.In, value)
	}
	switch in.Operator {
	case cql.Contains, cql.ContainsKey:
		if value, err = c.conditionContains(x, value); err != nil {
			return nil, err
		}
	case cql.Less, cql.LessOrEqual, cql.Greater, cql.GreaterOrEqual:
		if value.Type.HasDuration() {
			return nil, durationCondition(in.Operator, value.Type)
		}
	}
	// The term's error has the receiver's name, for example value(c) or key(c).
	x.value, err = c.Term(in.Value, value)
	return x, err
}

// durationCondition returns the error for an operator that needs an order of durations. A type that contains durations
// is named by its outermost kind. The spaces in parentheses are Cassandra's.
func durationCondition(operator cql.Operator, t *types.Type) error {
	on := "durations"
	switch {
	case t.Kind().IsCollection():
		on = "collections containing durations"
	case t.Kind() == types.Tuple:
		on = "tuples containing durations"
	case t.Kind() == types.UDT:
		on = "UDTs containing durations"
	}
	return invalid.Errorf("Slice conditions ( %s ) are not supported on %s", operator, on)
}

// conditionElement compiles the key of c[key] and returns the specification of its value. Frozen collections are
// valid, because a condition only reads.
func (c conditionCompiler) conditionElement(x *condition, in *cql.Condition) (value term.Spec, err error) {
	t := x.Column.Type
	switch t.Kind() {
	case types.List:
		x.key, err = c.Term(in.Key, c.Receiver("idx("+x.Column.Name+")", types.Native(types.Int)))
		return c.Receiver("value("+x.Column.Name+")", t.Elems()[0]), err
	case types.Map:
		x.key, err = c.Term(in.Key, c.Receiver("key("+x.Column.Name+")", t.Elems()[0]))
		return c.Receiver("value("+x.Column.Name+")", t.Elems()[1]), err
	case types.Set:
		return value, invalid.Errorf("Invalid element access syntax for set column %s", x.Column.Name)
	}
	// This includes user-defined types, whose fields are selected by c.field.
	return value, invalid.Errorf("Invalid element access syntax for non-collection column %s", x.Column.Name)
}

// conditionField sets the field of c.field and returns the specification of its value. Frozen types are valid, too.
func (c conditionCompiler) conditionField(x *condition, in *cql.Condition) (value term.Spec, err error) {
	t := x.Column.Type
	if t.Kind() != types.UDT {
		return value, invalid.Errorf("Invalid element access syntax for non-UDT column %s", x.Column.Name)
	}
	if x.field = t.FieldIndex(in.Field); x.field < 0 {
		return value, invalid.Errorf("Unknown field %s for column %s", in.Field, x.Column.Name)
	}
	return c.Receiver(x.Column.Name+"."+in.Field, t.Elems()[x.field]), nil
}

// conditionContains returns the specification of the value of CONTAINS or CONTAINS KEY; of is the specification of the
// column, element or field that is searched.
func (c conditionCompiler) conditionContains(x *condition, of term.Spec) (value term.Spec, err error) {
	t := of.Type
	switch {
	case x.operator == cql.ContainsKey && t.Kind() != types.Map:
		return value, invalid.Errorf("Cannot use CONTAINS KEY on non-map column %s", x.Column.Name)
	case x.operator == cql.ContainsKey:
		return c.Receiver("key("+x.Column.Name+")", t.Elems()[0]), nil
	case !t.Kind().IsCollection():
		return value, invalid.Errorf("Cannot use CONTAINS on non-collection column %s", x.Column.Name)
	}
	// The last element type is the value of a map, and the only one of other collections.
	return c.Receiver("value("+x.Column.Name+")", t.Elems()[len(t.Elems())-1]), nil
}

// conditionIn compiles the values of IN: a list of terms, or one marker that is bound to a list.
func (c conditionCompiler) conditionIn(x *condition, in *cql.InList, value term.Spec) (err error) {
	// Holds recognizes IN by OperatorInvalid, because cql.Operator has no value for it.
	x.operator = cql.OperatorInvalid
	if in.Marker != nil {
		// The list is frozen, because it is a value and not a column. Its name is in(c), as in Cassandra's metadata.
		list := types.NewList(value.Type, false)
		c.Bind(in.Marker, c.Receiver("in("+value.Name+")", list), nil)
		x.inMarker = &term.MarkerTerm{Index: in.Marker.Index, Type: list}
		return nil
	}
	x.in = make([]term.Term, len(in.Values))
	for i, v := range in.Values {
		if x.in[i], err = c.Term(v, value); err != nil {
			return err
		}
	}
	return nil
}

// boundCondition is a condition with its values. It belongs to one execution. Values are in wire form.
type boundCondition struct {
	*condition
	at     []byte // value of key in c[key]
	wanted []byte // nil means null
	// among contains the values of IN without unset ones; a nil element means null.
	among [][]byte
	// nowhere means that the element does not exist.
	nowhere bool
	never   bool // the condition does not hold
	// err is the error for an invalid value. As in Cassandra, it is reported when the condition is evaluated, so that a
	// statement with another condition that does not hold has no error.
	err error
}

// Bind evaluates the values of the condition. An error that Bind returns ends the statement. Holds reports b.err if
// it evaluates the condition.
func (x *condition) Bind(s *term.Scope) (b boundCondition, err error) {
	b.condition = x
	if x.key != nil {
		v, err := x.key.Eval(s)
		if err != nil {
			return b, err
		}
		// Keep the error of a null or unset key, which does not matter if an earlier condition does not hold.
		switch {
		case v.Kind == wire.ValueUnset && x.Column.Type.Kind() == types.Map:
			b.nowhere = true // Cassandra finds no element there
		case v.Kind == wire.ValueUnset:
			b.err = invalid.Errorf("Invalid unset value for element access on column %s", x.Column.Name)
		case v.Kind == wire.ValueNull:
			b.err = invalid.Errorf("Invalid null value for %s element access", collectionWord(x.Column.Type))
		}
		// at is not nil even for null, because nil would mean that the condition has no key.
		b.at = term.NotNil(v.Bytes)
	}
	// The value may be null, which only = and != compare.
	if x.value != nil {
		v, err := x.value.Eval(s)
		// An unset value cannot be compared. Keep the first error, because the key is evaluated before the value.
		switch {
		case v.Kind == wire.ValueUnset && x.Column.Type.MultiCell() &&
			(x.operator == cql.Contains || x.operator == cql.ContainsKey):
			b.never = true // as in Cassandra
		case v.Kind == wire.ValueUnset && b.err == nil:
			b.err = invalid.Errorf("Invalid 'unset' value in condition")
		}
		b.wanted = conditionValue(v)
		// A condition with a value has no IN.
		return b, err
	}
	for _, t := range x.in {
		v, err := t.Eval(s)
		if err != nil {
			return b, err
		}
		if v.Kind != wire.ValueUnset { // Cassandra omits these
			b.among = append(b.among, conditionValue(v))
		}
	}
	if x.inMarker != nil {
		v, err := x.inMarker.Eval(s)
		if err != nil {
			return b, err
		}
		switch v.Kind {
		case wire.ValueUnset:
			return b, invalid.Errorf("Invalid 'unset' value in condition")
		case wire.ValueNull:
			return b, invalid.Errorf("Invalid null list in IN condition")
		}
		// Elements are in wire form; a null element stays nil and equals a column without a value.
		b.among = term.SplitCollection(v.Bytes, 1)
	}
	return b, nil
}

// conditionValue returns the bytes of a value; nil for null. An empty value is not null: it is an empty, non-nil slice.
func conditionValue(v wire.Value) []byte {
	if v.Kind != wire.ValueSet {
		return nil
	}
	return term.NotNil(v.Bytes)
}

// Holds reports whether the condition holds for the row. v is nil if the row does not exist; then every column is
// null. It reports errors before it checks whether the condition can hold, which matters for CONTAINS with an unset
// value.
func (b *boundCondition) Holds(v *rowview.View) (bool, error) {
	if b.err != nil {
		return false, b.err
	}
	value, t, err := b.actual(v)
	if err != nil {
		return false, err
	}
	if b.never {
		return false, nil
	}
	// IN holds if any value is equal.
	if b.operator == cql.OperatorInvalid {
		for _, w := range b.among {
			if ok, err := compareCondition(t, cql.Equal, value, w); ok || err != nil {
				return ok, err
			}
		}
		return false, nil
	}
	return compareCondition(t, b.operator, value, b.wanted)
}

// actual returns the value to which the condition applies, and its type. A nil value means null: the column has no
// value, or the collection has no such element. The value may point into the row's memory.
func (b *boundCondition) actual(v *rowview.View) (value []byte, t *types.Type, err error) {
	t = b.Column.Type
	if v != nil {
		value = v.Value(b.Column)
	}
	switch {
	case b.field >= 0:
		// A value that was written before fields were added has fewer fields; these are null.
		if value != nil {
			value, _ = t.At(value, b.field)
		}
		return value, t.Elems()[b.field], nil
	// The condition is on the whole column.
	case b.key == nil:
		return value, t, nil
	case t.Kind() == types.Map:
		// Bind has rejected a null key; an unset key finds nothing.
		if value != nil && !b.nowhere {
			value, _ = t.Lookup(value, b.at)
		} else {
			value = nil
		}
		return value, t.Elems()[1], nil
	}
	// The key of a list is an index of 4 bytes. An index beyond the end of the list gives null; only a negative index
	// is an error.
	c := wire.NewCursor(b.at)
	i := c.Int32()
	if i < 0 {
		return nil, nil, invalid.Errorf("Invalid negative list index %d", i)
	}
	if value != nil {
		value, _ = t.At(value, int(i))
	}
	return value, t.Elems()[0], nil
}

// compareCondition compares as IF does: null equals only null, and is not ordered. value is from the row and wanted
// from the statement; nil means null. It returns an error if the type has no such order.
func compareCondition(t *types.Type, operator cql.Operator, value, wanted []byte) (bool, error) {
	// An empty multi-cell collection has no cells, so it cannot be distinguished from null, unlike a frozen one.
	empty := t.MultiCell() && t.Kind().IsCollection() && wanted != nil && len(term.SplitCollection(wanted, 1)) == 0 &&
		operator != cql.Contains && operator != cql.ContainsKey // an empty multi-cell collection is null
	if wanted == nil || empty {
		switch {
		case operator == cql.Equal:
			return value == nil, nil
		case operator == cql.NotEqual:
			return value != nil, nil
		case empty:
			return false, invalid.Errorf("Invalid comparison with an empty %s for operator \"%s\"", collectionWord(t),
				operator)
		}
		return false, invalid.Errorf("Invalid comparison with null for operator \"%s\"", operator)
	}
	// Null in the row is unequal to any value, and satisfies no other operator.
	if value == nil {
		return operator == cql.NotEqual, nil
	}
	switch operator {
	case cql.Contains:
		return t.Contains(value, wanted), nil
	case cql.ContainsKey:
		_, ok := t.Lookup(value, wanted)
		return ok, nil
	}
	// Types compare values, not bytes: for example, decimals 1.0 and 1.00 are equal.
	// Neither is null here.
	n := t.Compare(value, wanted)
	switch operator {
	case cql.Equal:
		return n == 0, nil
	case cql.NotEqual:
		return n != 0, nil
	case cql.Less:
		return n < 0, nil
	case cql.LessOrEqual:
		return n <= 0, nil
	case cql.Greater:
		return n > 0, nil
	}
	return n >= 0, nil
}

// collectionWord returns the kind of a collection as in Cassandra's messages. Callers only pass collections.
func collectionWord(t *types.Type) string {
	switch t.Kind() {
	case types.List:
		return "list"
	case types.Set:
		return "set"
	}
	return "map"
}
