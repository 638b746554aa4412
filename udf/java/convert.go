package java

import (
	"math"
	"strconv"

	"cqld/internal/javanumber"
	"cqld/udf/value"
)

// The conversions of this file are the assignment, invocation and casting conversions of the language, as far as the
// types of kind.go need them:
//
//	widening     byte ▶ short ▶ int ▶ long ▶ float ▶ double; only integer to float changes the Go value
//	unboxing     Integer to int and so on; fails with NullPointerException for null
//	boxing       int to Integer; the Go value stays, and no widening precedes it
//	narrowing    of a constant int that fits into byte or short, and of a character constant
//	cast         of any number to any primitive number, with wrap-around or saturation
//
// Everything else is an error of the compilation, so no conversion can fail at execution but unboxing.

// convert returns e as a value of type t by an assignment conversion: widening, boxing, unboxing, and narrowing of
// constants. Conversions that only change the type reuse the closure, because boxes and primitive values are the same
// Go values. Errors have Java's messages. line is the line of the conversion, for messages.
func convert(e *expr, t *jtype, line int) *expr {
	// new C<>() gets its type now.
	if e.create != nil {
		// Without a receiver type, the type is raw.
		e = e.create(t)
	}
	// A character converts to a number where a primitive number is expected. Constants may also become a Byte or a
	// Short.
	if e.t.kind == kindChar && t.numeric() && (!t.boxed || t.kind <= kindShort) {
		// A char becomes an int here, and the cases below widen it.
		e = promotedChar(e)
	}
	switch {
	case e.t.equal(t):
		return e
	// null belongs to every class.
	case e.t.kind == kindNull && !t.isPrimitive():
		return &expr{t: t, eval: e.eval}
	// There is no conversion: null has no primitive value, and a class without methods only accepts its own values.
	case t.kind == kindOther || e.t.kind == kindNull || e.t.kind == kindVoid:
	// Unboxing fails when it is executed, if the box is null.
	case e.t.kind == t.kind && e.t.boxed && !t.boxed:
		return &expr{t: t, eval: unbox(e)}
	// Boxing: an Integer is the same int64.
	case e.t.kind == t.kind && t.boxed && !e.t.boxed:
		return &expr{t: t, eval: e.eval}
	case e.t.kind == t.kind && len(t.elems) == 0 && !t.boxed: // a raw type
		return &expr{t: e.t, eval: e.eval}
	// Widening applies after unboxing, but never before boxing: an int is no Long.
	case !t.boxed && t.numeric() && e.t.numeric() && e.t.kind < t.kind:
		return widen(&expr{t: e.t.unboxed(), eval: unbox(e)}, t.kind)
	case t.kind == kindChar && e.constant != nil: // b ? (char) : (constant)
		return &expr{t: t, eval: e.eval, constant: e.constant}
	// byte b = 1 needs no cast, because the value is known.
	case e.constant != nil && fits(*e.constant, t.kind):
		return &expr{t: t, eval: e.eval}
	}
	// There is no assignment conversion.
	invalid(line, "Type mismatch: cannot convert from %s to %s", e.t, t)
	return nil
}

// unbox returns the evaluation of a box as a primitive value, which fails for null. The error names the method that
// Java calls implicitly. It evaluates e once.
func unbox(e *expr) func(fr *frame) value.Value {
	if !e.t.boxed {
		// A primitive value is never nil, so it needs no check.
		return e.eval
	}
	// The names of the methods that Java calls for unboxing: intValue() and so on.
	method := map[kind]string{kindByte: "byte", kindShort: "short", kindInt: "int", kindLong: "long",
		kindFloat: "float", kindDouble: "double",
		kindBoolean: "boolean"}[e.t.kind]
	return func(fr *frame) value.Value {
		v := e.eval(fr)
		// A box of a Go value that is not nil is the value itself.
		if v == nil {
			nullPointer(e, method+"Value()")
		}
		return v
	}
}

// nullPointer panics with the NullPointerException of a Java virtual machine for a method call on null. The format is
// the one of helpful NullPointerExceptions (JEP 358).
func nullPointer(e *expr, method string) {
	// Java names a parameter by its position, from 1. For other expressions, the message gives no reason.
	because := ""
	if e.variable != nil && e.variable.param > 0 {
		because = " because \"<parameter" + itoa(e.variable.param) + ">\" is null"
	}
	value.Failf("java.lang.NullPointerException: Cannot invoke \"%s.%s\"%s", e.t.className(), method, because)
}

// itoa returns n in decimal.
func itoa(n int) string { return strconv.Itoa(n) }

// widen returns a primitive number as one of a wider kind. Only long to float and double, and int to float, can lose
// digits. Byte to short, short to int and int to long keep the Go value; only its bounds change.
func widen(e *expr, to kind) *expr {
	// Only this widening changes the Go type of the value.
	if e.t.integral() && to >= kindFloat {
		in := e.eval
		return &expr{t: primitive(to), eval: func(fr *frame) value.Value {
			n := in(fr).(int64) //nolint:forcetypeassert // guaranteed by the type
			if to == kindFloat {
				// Rounded to the precision of float; a float is kept as a float64 with such a value.
				return float64(float32(n))
			}
			return float64(n)
		}}
	}
	return &expr{t: primitive(to), eval: e.eval, constant: keepConstant(e, to)}
}

// keepConstant returns the constant of an expression that is widened. Only constants of type int are followed. A
// widening to a float has no constant that matters.
func keepConstant(e *expr, to kind) *int64 {
	if to == kindInt {
		return e.constant
	}
	// Only int constants narrow implicitly, so the value of a long constant is not needed.
	return nil
}

// cast returns (t) e. As in Java, a cast between primitive numbers cannot fail, but may lose digits. Boxes are never
// created by a cast to another number: (Long) anInt is an error.
func cast(e *expr, t *jtype, line int) *expr {
	if t.numeric() && !t.boxed {
		// (int) 'a' is the number of the character.
		e = promotedChar(e)
	}
	// A cast between other types is an assignment conversion or an error.
	if !e.t.numeric() || !t.numeric() || t.boxed {
		if e.t.kind == kindOther && t.boxed {
			invalid(line, "Cannot cast from %s to %s", e.t, t)
		}
		// A primitive value is only cast to its own box, and the reverse.
		if e.t.isPrimitive() != t.isPrimitive() && e.t.kind != t.kind {
			invalid(line, "Cannot cast from %s to %s", e.t, t)
		}
		return convert(e, t, line)
	}
	// (int) of a Long is no conversion of Java: a box is only unboxed and widened.
	if e.t.boxed && e.t.kind > t.kind {
		invalid(line, "Cannot cast from %s to %s", e.t, t)
	}
	// From here both are numbers and t is primitive.
	in, from := unbox(e), e.t.kind
	if from <= t.kind {
		return widen(&expr{t: primitive(from), eval: in, constant: e.constant}, t.kind)
	}
	// narrow only needs the target kind.
	to := t.kind
	out := &expr{t: t, eval: func(fr *frame) value.Value { fr.m.Step(); return narrow(in(fr), to) }}
	if e.constant != nil && to <= kindInt {
		// The language has constants of these types, too, and they fit into narrower ones by their value.
		n, _ := narrow(*e.constant, to).(int64)
		out.constant = &n
	}
	return out
}

// narrow returns a number as one of a narrower kind, as Java's casts do. v is an int64 or a float64. JLS 5.1.3 is the
// section of the specification about narrowing.
func narrow(v value.Value, to kind) value.Value {
	if x, ok := v.(float64); ok {
		switch to {
		// A double out of range becomes an infinity.
		case kindFloat:
			return float64(float32(x))
		case kindDouble:
			return x
		}
		// byte and short narrow in two steps, by way of int, as the language specification says.
		v = truncate(x, to)
	}
	// Go's conversions drop the high bits, as Java's do.
	n, _ := v.(int64)
	switch to {
	case kindByte:
		return int64(int8(n))
	case kindShort:
		return int64(int16(n))
	case kindInt:
		return int64(int32(n))
	}
	return n
}

// truncate converts a float to long, or to int for narrower kinds: values out of range become the nearest one, and NaN
// 0.
// Go's conversion of such values is implementation-defined, so it must not be reached.
func truncate(x float64, to kind) int64 {
	// For byte and short, clamp to the range of int; narrow cuts further.
	low, high := int64(math.MinInt32), int64(math.MaxInt32)
	if to == kindLong {
		low, high = math.MinInt64, math.MaxInt64
	}
	switch {
	case x != x:
		return 0
	// Compare as floats before the conversion.
	case x <= float64(low):
		return low
	// float64(MaxInt64) is 2^63, which overflows int64, so the comparison includes equality.
	case x >= float64(high):
		return high
	}
	return int64(x)
}

// parse compiles Integer.parseInt and similar methods. The message is NumberFormatException's, with the text shortened
// if it is long. A sign is accepted, also +.
func (m *call) parse(t *jtype) *expr {
	in := m.arg(0, primitive(kindString))
	// The size also bounds the value: parseByte refuses 128.
	bits := map[kind]int{kindByte: 8, kindShort: 16, kindInt: 32, kindLong: 64}[t.kind]
	return &expr{t: t, eval: func(fr *frame) value.Value {
		s, ok := in(fr).(string)
		// Long texts fail before they are parsed.
		if ok && !value.MayParse(fr.m, s) {
			value.Failf("java.lang.NumberFormatException: For input string: \"%.40s\"", s)
		}
		if t.kind == kindDouble {
			return parsedDouble(s, ok)
		}
		n, err := strconv.ParseInt(s, 10, bits)
		switch {
		// The argument is null, which parses as an empty text above.
		case !ok:
			value.Failf("java.lang.NumberFormatException: Cannot parse null string")
		case err != nil:
			value.Failf("java.lang.NumberFormatException: For input string: \"%s\"", s)
		}
		return n
	}}
}

// parsedDouble implements Double.parseDouble. ok is false for null. Unlike Integer.parseInt, it ignores white space
// around the number, and its messages do not show it.
func parsedDouble(s string, ok bool) float64 {
	if !ok {
		value.Failf("java.lang.NullPointerException: Cannot invoke \"String.trim()\" because \"in\" is null")
	}
	x, err := javanumber.ParseDouble(s)
	switch s = javanumber.Trim(s); {
	case err == nil:
		return x
	case s == "":
		value.Failf("java.lang.NumberFormatException: empty String")
	}
	value.Failf("java.lang.NumberFormatException: For input string: \"%s\"", s)
	return 0
}
