package java

import (
	"slices"

	"cqld/types"
	"cqld/udf/value"
)

// ofTuple compiles the methods of TupleValue and UDTValue: isNull, setToNull, and getX and setX by position or, for
// user-defined types, by name. As in Cassandra, getX of a primitive type returns zero for null. Fields that are not
// set are null. setX changes the table of the value in place.
func (m *call) ofTuple() *expr {
	if m.on.t.cql == nil {
		unsupported(m.line, "a variable of the raw type "+m.on.t.String())
	}
	if len(m.args) == 0 {
		return nil
	}
	// The field is known to the compiler, so a wrong name or type is an error of CREATE FUNCTION.
	key, cql := m.field()
	switch m.name {
	case "isNull":
		return &expr{t: primitive(kindBoolean), eval: func(fr *frame) value.Value {
			return m.table(fr).Get(fr.m, key) == nil
		}}
	// Setters return the object, so that calls can be chained.
	case "setToNull":
		return &expr{t: m.on.t, eval: func(fr *frame) value.Value {
			t := m.table(fr)
			t.Set(fr.m, key, nil)
			return t
		}}
	}
	// Shorter than get and set with a suffix.
	if len(m.name) < 4 {
		return nil
	}
	// get and set have the same suffixes.
	of := accessor(m.name[3:], cql)
	if of == nil {
		return nil
	}
	switch {
	case m.name[:3] == "get" && len(m.args) == 1:
		// Computed once, when the body is compiled.
		zero := zeroOf(of)
		return &expr{t: of, eval: func(fr *frame) value.Value {
			if v := m.table(fr).Get(fr.m, key); v != nil {
				return v
			}
			return zero
		}}
	case m.name[:3] == "set" && len(m.args) == 2:
		v := m.arg(1, of)
		return &expr{t: m.on.t, eval: func(fr *frame) value.Value {
			t := m.table(fr)
			t.Set(fr.m, key, v(fr))
			return t
		}}
	}
	return nil
}

// field returns the key and the type of the field that the first argument names, which must be a constant. Positions
// count from 0. A wrong position or name is an error of CREATE FUNCTION, unlike in Cassandra, where the call fails.
func (m *call) field() (value.Value, *types.Type) {
	// of is the tuple or user-defined type.
	of, arg := m.on.t.cql, m.args[0]
	// A position, also for a user-defined type.
	if arg.constant != nil {
		n := *arg.constant
		if n < 0 || n >= int64(len(of.Elems())) {
			invalid(m.line, "The index %d is out of the range of %s", n, of)
		}
		if of.Kind() == types.UDT {
			return of.FieldNames()[n], of.Elems()[n]
		}
		// Tuples are tables with keys from 1, user-defined types with keys by name.
		return n + 1, of.Elems()[n]
	}
	if arg.t.kind != kindString || of.Kind() != types.UDT || !arg.literal {
		unsupported(m.line, "a field that is not named by a constant")
	}
	// A literal does not use the frame.
	name, _ := arg.eval(nil).(string)
	i := slices.Index(of.FieldNames(), name)
	if i < 0 {
		invalid(m.line, "%s is not a field defined in %s", name, of)
	}
	return name, of.Elems()[i]
}

// accessor returns the Java type of getX and setX for a field of a CQL type; nil if X does not fit the field. The names
// are Cassandra's. Collections and types such as inet and uuid have accessors in Cassandra that are not in the subset.
func accessor(suffix string, cql *types.Type) *jtype {
	kinds := map[string][]types.Kind{"Byte": {types.Tinyint}, "Short": {types.Smallint}, "Int": {types.Int},
		"Long": {types.Bigint, types.Counter},
		"Time": {types.Time}, "Float": {types.Float}, "Double": {types.Double}, "Bool": {types.Boolean},
		"String": {types.Text, types.Ascii},
		"Varint": {types.Varint}, "Decimal": {types.Decimal}, "Timestamp": {types.Timestamp},
		"TupleValue": {types.Tuple}, "UDTValue": {types.UDT}}
	// getX must fit the field exactly: getLong of an int is refused.
	if slices.Contains(kinds[suffix], cql.Kind()) {
		return fromCQL(cql, false)
	}
	return nil
}

// zeroOf returns what getX returns for null: zero for primitive types, otherwise null. For a number it is 0 or 0.0.
func zeroOf(t *jtype) value.Value {
	switch {
	// All integers are int64 here.
	case t.integral():
		return int64(0)
	case t.numeric():
		return float64(0)
	case t.kind == kindBoolean:
		return false
	}
	return nil
}
