package java

import (
	"strings"

	"cqld/types"
)

// kind is the kind of a Java type. A kind and the bit boxed identify a class; type parameters are compared apart.
// Conversions depend on the order, so new kinds must be added at the end of their group.
type kind uint8

// The numeric kinds are in the order of their widening conversions. See jtype.boxed for the boxes of the first seven.
const (
	kindNone kind = iota
	// From here to kindDouble the order is the order of widening, which comparisons of kinds use.
	kindByte
	kindShort
	kindInt
	kindLong
	kindFloat
	kindDouble
	kindBoolean
	kindChar // type of expressions, not of variables; values are int64
	// The classes below have no primitive form.
	kindString
	kindBigInteger
	kindBigDecimal
	kindDate
	kindList
	kindSet
	kindMap
	kindCollection // result of keySet() and values()
	kindTuple
	kindUDT
	// Types of expressions only.
	kindNull
	kindOther // a class without methods here
	kindVoid
)

// jtype is a Java type. It is immutable. Types are compared with equal: each use may have a value of its own. boxed is
// false for classes. elems is empty for a raw type, whose elements cannot be used: call.elem and forEach refuse that.
// Otherwise it has as many types as the class has parameters, which checkArity ensures.
type jtype struct {
	// kind is the class, without the distinction between box and primitive type.
	kind  kind
	boxed bool // of numbers and booleans
	// Type parameters of collections; empty for a raw type.
	elems []*jtype
	// cql is the CQL type of a tuple, a user-defined type, a collection or a class without methods. It is nil for a
	// raw type, such as a variable of type TupleValue before its value is known.
	cql *types.Type
}

// primitive returns the non-boxed type of a kind, including classes. The returned type is new and may be completed by
// the caller.
func primitive(k kind) *jtype { return &jtype{kind: k} }

// box returns the class of boxes of a kind: Integer for kindInt. Only the numeric kinds and kindBoolean have boxes.
func box(k kind) *jtype { return &jtype{kind: k, boxed: true} }

// numeric reports whether t is a number with operators, or its box. BigInteger and BigDecimal have methods only.
func (t *jtype) numeric() bool { return t.kind >= kindByte && t.kind <= kindDouble }

// integral reports whether t is byte, short, int or long, or a box of one. char is not integral here: promotedChar
// makes it an int first.
func (t *jtype) integral() bool { return t.kind >= kindByte && t.kind <= kindLong }

// isPrimitive reports whether values of t cannot be null. They cannot be compared with null either.
func (t *jtype) isPrimitive() bool {
	return !t.boxed && (t.numeric() || t.kind == kindBoolean || t.kind == kindChar)
}

// unboxed returns the primitive type of a box. For a primitive type it is an equal one. For a class it is the raw
// class.
func (t *jtype) unboxed() *jtype { return primitive(t.kind) }

// String returns the name as in error messages of Java compilers.
func (t *jtype) String() string {
	// In the order of the kinds.
	plain := [...]string{"", "byte", "short", "int", "long", "float", "double", "boolean", "char", "String",
		"BigInteger", "BigDecimal", "Date", "List", "Set",
		"Map", "Collection", "TupleValue", "UDTValue", "null", "Object", "void"}
	// Integer for int, and so on.
	if t.boxed {
		return boxName(t.kind)
	}
	name := plain[t.kind]
	if len(t.elems) > 0 {
		// The parameters, as in List<Integer>.
		parts := make([]string, len(t.elems))
		for i, e := range t.elems {
			parts[i] = e.String()
		}
		name += "<" + strings.Join(parts, ",") + ">"
	}
	return name
}

// boxName returns the class of a box. k is at most kindBoolean. It is the simple name.
func boxName(k kind) string {
	return [...]string{"", "Byte", "Short", "Integer", "Long", "Float", "Double", "Boolean"}[k]
}

// className returns the name with the package, for exceptions. Messages of exceptions contain it, as a Java virtual
// machine writes them.
func (t *jtype) className() string {
	switch {
	case t.numeric() || t.kind == kindBoolean:
		return "java.lang." + boxName(t.kind)
	// Without its package, unlike the boxes.
	case t.kind == kindString:
		return "String"
	case t.kind == kindBigInteger, t.kind == kindBigDecimal:
		return "java.math." + t.String()
	// Classes of Cassandra, which bodies get as arguments.
	case t.kind == kindTuple, t.kind == kindUDT:
		return "org.apache.cassandra.cql3.functions.types." + t.String()
	}
	// Exceptions name the class without its type parameters.
	name, _, _ := strings.Cut(t.String(), "<")
	return "java.util." + name
}

// fromCQL returns the Java type of arguments and results of a CQL type. boxed matters for numbers and booleans only. A
// type that has no methods here, for example inet or uuid, becomes kindOther: a body can pass its values on, and
// compare them with null.
func fromCQL(t *types.Type, boxed bool) *jtype {
	// The types equal Cassandra's function bindings (default codecs of org.apache.cassandra.cql3.functions.types):
	// time is a long in nanoseconds.
	number := map[types.Kind]kind{types.Tinyint: kindByte, types.Smallint: kindShort, types.Int: kindInt,
		types.Bigint:  kindLong,
		types.Counter: kindLong, types.Time: kindLong, types.Float: kindFloat, types.Double: kindDouble,
		types.Boolean: kindBoolean}
	// Only these types have two forms: primitive and box.
	if k, ok := number[t.Kind()]; ok {
		return &jtype{kind: k, boxed: boxed}
	}
	elems := make([]*jtype, len(t.Elems()))
	for i, e := range t.Elems() {
		// Elements of collections are always boxes.
		elems[i] = fromCQL(e, true)
	}
	switch t.Kind() {
	case types.Text, types.Ascii:
		return primitive(kindString)
	case types.Varint:
		return primitive(kindBigInteger)
	case types.Decimal:
		return primitive(kindBigDecimal)
	case types.Timestamp:
		return primitive(kindDate)
	// A vector is a List of its elements.
	case types.List, types.Vector:
		return &jtype{kind: kindList, elems: elems, cql: t}
	case types.Set:
		return &jtype{kind: kindSet, elems: elems, cql: t}
	case types.Map:
		return &jtype{kind: kindMap, elems: elems, cql: t}
	// cql has the types of the fields, which accessors need.
	case types.Tuple:
		return &jtype{kind: kindTuple, cql: t}
	case types.UDT:
		return &jtype{kind: kindUDT, cql: t}
	}
	// Types such as uuid and inet, which have no methods here.
	return &jtype{kind: kindOther, cql: t}
}

// equal reports whether two types are the same. Boxes and primitive types differ, although their values do not. It is
// not identity of classes: a raw List differs from a List<Integer>, and convert allows the assignment.
func (t *jtype) equal(o *jtype) bool {
	if t.kind != o.kind || t.boxed != o.boxed || len(t.elems) != len(o.elems) {
		return false
	}
	// The parameters must be equal: a List<Integer> is no List<Long>.
	for i, e := range t.elems {
		if !e.equal(o.elems[i]) {
			return false
		}
	}
	switch t.kind {
	case kindOther:
		// Values of different CQL types never mix, although none has a method.
		return t.cql.Kind() == o.cql.Kind()
	// A raw type equals every tuple or user-defined type. Whether a type is frozen is not visible in Java.
	case kindTuple, kindUDT:
		return t.cql == nil || o.cql == nil || t.cql.Freeze().Equal(o.cql.Freeze())
	}
	return true
}
