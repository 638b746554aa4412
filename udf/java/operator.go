package java

import (
	"math"

	"github.com/cockroachdb/apd/v3"

	"cqld/types"
	"cqld/udf/value"
)

// Binary operators. Both operands are promoted to one type first, as the language says:
//
//	int, long, float or double    the widest of the operands' types, but at least int
//	String                        if + has a string on either side
//	boolean                       for the logical operators, and for &, | and ^ of booleans
//
// The closures of an operator read both operands, count one step, and compute with int64 or float64. A result of type
// int is wrapped to 32 bits and a float is rounded to 24 bits of precision after each operation.

// promoted returns the type of arithmetic on two numbers. The kinds are ordered for this purpose. Boxes are unboxed by
// the conversion. promoted(byte, byte) is int.
func promoted(a, b *jtype) *jtype { return primitive(max(a.kind, b.kind, kindInt)) }

// undefined ends the compilation with Java's message for operands of wrong types. Operands are named in the order of
// the source.
func undefined(op string, a, b *expr, line int) {
	invalid(line, "The operator %s is undefined for the argument type(s) %s, %s", op, a.t, b.t)
}

// binary compiles an operation with two operands. Operands are evaluated from left to right. The result is new; a and
// b must not be used afterwards.
func binary(op string, a, b *expr, line int) *expr {
	// A character that is added to a string stays a character.
	if op != "+" || a.t.kind != kindString && b.t.kind != kindString {
		a, b = promotedChar(a), promotedChar(b)
	}
	switch op {
	// These operators have special type rules; arithmetic follows.
	case "&&", "||":
		return logical(op, a, b, line)
	case "==", "!=":
		return equality(op, a, b, line)
	case "<", ">", "<=", ">=":
		return comparison(op, a, b, line)
	case "<<", ">>", ">>>":
		return shift(op, a, b, line)
	case "&", "|", "^":
		return bitwise(op, a, b, line)
	}
	if op == "+" && (a.t.kind == kindString || b.t.kind == kindString) {
		// All other values have a text, including null.
		if a.t.kind == kindVoid || b.t.kind == kindVoid {
			undefined(op, a, b, line)
		}
		return concat(a, b)
	}
	// The operators that are left compute with numbers.
	if !a.t.numeric() || !b.t.numeric() {
		undefined(op, a, b, line)
	}
	t := promoted(a.t, b.t)
	// Unboxes, and so fails for null when it is executed.
	x, y := convert(a, t, line), convert(b, t, line)
	// The closures below are chosen by the type once, when the body is compiled.
	e := &expr{t: t}
	if t.kind >= kindFloat {
		e.eval = func(fr *frame) value.Value {
			// One step for each operator bounds the time of a loop.
			fr.m.Step()
			return floatArith(op, x.eval(fr), y.eval(fr), t.kind == kindFloat)
		}
		return e
	}
	// int or long.
	e.eval = func(fr *frame) value.Value {
		fr.m.Step()
		n := intArith(op, x.eval(fr), y.eval(fr))
		if t.kind == kindInt {
			// The sum of two ints does not overflow an int64; the conversion wraps it as Java does. A product of two
			// ints fits too.
			return int64(int32(n))
		}
		return n
	}
	// Constants are followed, because 1 + 1 can be assigned to a byte. A division by zero must fail when it is
	// executed.
	if a.constant != nil && b.constant != nil && t.kind == kindInt && (*b.constant != 0 || op != "/" && op != "%") {
		n := int64(int32(intArith(op, *a.constant, *b.constant)))
		e.constant = &n
	}
	return e
}

// intArith computes with wrap-around. A long wraps by itself. op is one of + - * / and %. A division by zero fails as
// in Java. Operands are of type int64, by the compiler's types.
func intArith(op string, a, b value.Value) int64 {
	x, _ := a.(int64)
	y, _ := b.(int64)
	switch op {
	case "+":
		return x + y
	case "-":
		return x - y
	case "*":
		return x * y
	}
	switch {
	case y == 0:
		value.Failf("java.lang.ArithmeticException: / by zero")
	// The least number divided by -1 stays the least number, as -x does.
	case y == -1 && op == "/":
		return -x
	case y == -1:
		return 0
	case op == "/":
		return x / y
	}
	return x % y
}

// floatArith computes with IEEE 754. A float result is rounded once: a double is precise enough for that. op is one of
// + - * / and %. The product of two floats has 48 bits, which fit into the 53 of a double.
func floatArith(op string, a, b value.Value, single bool) value.Value {
	x, _ := a.(float64)
	y, _ := b.(float64)
	var r float64
	switch op {
	case "+":
		r = x + y
	case "-":
		r = x - y
	case "*":
		r = x * y
	// A division by zero gives an infinity or NaN, and no exception.
	case "/":
		r = x / y
	default:
		// Java's % of floats truncates, as math.Mod does; it is not the IEEE remainder.
		r = math.Mod(x, y)
	}
	if single {
		return float64(float32(r))
	}
	return r
}

// logical compiles && and ||, which evaluate the second operand only if the first does not determine the result. The
// result is a primitive boolean. Both operands may be Boolean; null fails.
func logical(op string, a, b *expr, line int) *expr {
	if a.t.kind != kindBoolean || b.t.kind != kindBoolean {
		undefined(op, a, b, line)
	}
	x, y := unbox(a), unbox(b)
	// stop is the value of the first operand that determines the result.
	stop := op == "||"
	return &expr{t: primitive(kindBoolean), eval: func(fr *frame) value.Value {
		fr.m.Step()
		// The second operand is not evaluated, and its exceptions do not occur.
		if x(fr) == stop {
			return stop
		}
		return y(fr)
	}}
}

// bitwise compiles &, | and ^ of booleans, which evaluate both operands, and of integers. Boxes are unboxed, and fail
// for null. For booleans they differ from && and || only in that.
func bitwise(op string, a, b *expr, line int) *expr {
	x, y := unbox(a), unbox(b)
	if a.t.kind == kindBoolean && b.t.kind == kindBoolean {
		return &expr{t: primitive(kindBoolean), eval: func(fr *frame) value.Value {
			fr.m.Step()
			// No operand decides alone: both are evaluated, as the language says.
			p, q := x(fr) == true, y(fr) == true
			switch op {
			case "&":
				return p && q
			case "|":
				return p || q
			}
			return p != q
		}}
	}
	// Floats have no bitwise operators.
	if !a.t.integral() || !b.t.integral() {
		undefined(op, a, b, line)
	}
	// Sign extension keeps the result of two ints in the range of int, so nothing is wrapped.
	e := &expr{t: promoted(a.t, b.t), eval: func(fr *frame) value.Value {
		fr.m.Step()
		p, _ := x(fr).(int64)
		q, _ := y(fr).(int64)
		return intBits(op, p, q)
	}}
	// byte b = 0xFF & 7 needs no cast.
	if a.constant != nil && b.constant != nil {
		n := intBits(op, *a.constant, *b.constant)
		e.constant = &n
	}
	return e
}

// intBits computes &, | or ^.
func intBits(op string, p, q int64) int64 {
	switch op {
	case "&":
		return p & q
	case "|":
		return p | q
	}
	return p ^ q
}

// shift compiles shifts. The type is the promoted type of the left operand alone, and the distance is taken modulo its
// size. A negative distance is taken modulo as well: x << -1 is x << 31. JLS 15.19.
func shift(op string, a, b *expr, line int) *expr {
	if !a.t.integral() || !b.t.integral() {
		undefined(op, a, b, line)
	}
	// Unlike in arithmetic, the operands are not promoted to a common type.
	x, y := unbox(a), unbox(b)
	// 1 << aLong is an int.
	t := promoted(a.t, a.t)
	e := &expr{t: t, eval: func(fr *frame) value.Value {
		fr.m.Step()
		n, _ := x(fr).(int64)
		by, _ := y(fr).(int64)
		return shifted(op, t.kind, n, by)
	}}
	// byte b = 1 << 3 needs no cast.
	if a.constant != nil && b.constant != nil {
		n := shifted(op, t.kind, *a.constant, *b.constant)
		e.constant = &n
	}
	return e
}

// shifted computes a shift of an int or long.
func shifted(op string, k kind, n, by int64) int64 {
	if k == kindInt {
		// A shift by 33 is a shift by 1.
		by &= 31
		switch op {
		case "<<":
			// Bits beyond 32 are dropped.
			return int64(int32(n) << by)
		case ">>":
			return int64(int32(n) >> by)
		}
		// >>> shifts zeros in, so it works on the unsigned form.
		return int64(int32(uint32(n) >> by))
	}
	by &= 63
	switch op {
	case "<<":
		return n << by
	case ">>":
		return n >> by
	}
	return int64(uint64(n) >> by)
}

// equality compiles == and !=. It rejects comparisons of references to boxes, strings and numbers: Java compares
// object identity, which does not exist here. Primitive numbers are compared after promotion, so 1 == 1.0 is true.
// Java caches boxes from -128 to 127, so == of boxes is a usual error in bodies.
func equality(op string, a, b *expr, line int) *expr {
	equal := op == "=="
	// same compares once; != negates its result.
	result := func(same func(fr *frame) bool) *expr {
		return &expr{t: primitive(kindBoolean), eval: func(fr *frame) value.Value {
			fr.m.Step()
			return same(fr) == equal
		}}
	}
	switch {
	case a.t.kind == kindNull && b.t.kind == kindNull:
		// The only comparison that is known to the compiler.
		return result(func(*frame) bool { return true })
	case a.t.kind == kindNull || b.t.kind == kindNull:
		// The comparison is symmetric; test the operand that is not the literal null.
		if a.t.kind == kindNull {
			a = b
		}
		if a.t.isPrimitive() {
			invalid(line, "The operator %s is undefined for the argument type(s) %s, null", op, a.t)
		}
		return result(func(fr *frame) bool { return a.eval(fr) == nil })
	// One primitive operand makes Java unbox the other.
	case a.t.kind == kindBoolean && b.t.kind == kindBoolean && (a.t.isPrimitive() || b.t.isPrimitive()):
		x, y := unbox(a), unbox(b)
		return result(func(fr *frame) bool { return x(fr) == y(fr) })
	case a.t.numeric() && b.t.numeric() && (a.t.isPrimitive() || b.t.isPrimitive()):
		t := promoted(a.t, b.t)
		x, y := convert(a, t, line), convert(b, t, line)
		return result(func(fr *frame) bool { return x.eval(fr) == y.eval(fr) })
	case a.t.isPrimitive() || b.t.isPrimitive() || a.t.kind != b.t.kind:
		invalid(line, "Incompatible operand types %s and %s", a.t, b.t)
	}
	unsupported(line, op+" between objects, which compares their identity in Java (write a.equals(b))")
	return nil
}

// comparison compiles <, >, <= and >=. With NaN all are false. Boxes are unboxed, and fail for null. value.Compare
// orders int64 and float64.
func comparison(op string, a, b *expr, line int) *expr {
	if !a.t.numeric() || !b.t.numeric() {
		undefined(op, a, b, line)
	}
	// Booleans and strings have no order in Java's operators.
	t := promoted(a.t, b.t)
	x, y := convert(a, t, line), convert(b, t, line)
	return &expr{t: primitive(kindBoolean), eval: func(fr *frame) value.Value {
		fr.m.Step()
		// Both have the promoted type.
		order, ok := value.Compare(fr.m, x.eval(fr), y.eval(fr))
		switch {
		// Not ordered: at least one is NaN.
		case !ok:
			return false
		case op == "<":
			return order < 0
		case op == ">":
			return order > 0
		case op == "<=":
			return order <= 0
		}
		return order >= 0
	}}
}

// promotedChar returns a character as the int that it is in arithmetic and comparisons. Its value is unchanged: a char
// is an int64.
func promotedChar(e *expr) *expr {
	if e.t.kind != kindChar {
		return e
	}
	return &expr{t: primitive(kindInt), constant: e.constant, eval: e.eval}
}

// concat compiles + with a string. The operands are evaluated before their texts are made, from left to right. null
// becomes the text "null". The result is new in memory, so both lengths are counted.
func concat(a, b *expr) *expr {
	// Not a constant: the result is no literal, so it cannot name a field.
	return &expr{t: primitive(kindString), eval: func(fr *frame) value.Value {
		s, t := text(fr.m, a.t, a.eval(fr)), text(fr.m, b.t, b.eval(fr))
		fr.m.Alloc(int64(len(s) + len(t)))
		return s + t
	}}
}

// text returns a value as String.valueOf does. t distinguishes values that are the same Go type: int and char, float
// and double. Numbers have the text form of CQL.
func text(m *value.Meter, t *jtype, v value.Value) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case string:
		return v
	// Other integers are formatted at the end, in decimal.
	case int64:
		if t.kind == kindChar {
			return string(rune(v))
		}
	case bool:
		if v {
			return "true"
		}
		return "false"
	// The format of Double.toString and Float.toString.
	case float64:
		of := types.Native(types.Double)
		if t.kind == kindFloat {
			of = types.Native(types.Float)
		}
		return string(of.AppendText(nil, of.AppendFloat64(nil, v)))
	case *apd.Decimal:
		// The text of a large number takes time, which the meter bounds.
		m.Convert(v)
		return string(types.Native(types.Decimal).AppendText(nil, types.AppendDecimal(nil, v)))
	case *value.Table:
		value.Failf("java.lang.UnsupportedOperationException: a %s has no text", t)
	}
	return value.NumberText(m, v)
}
