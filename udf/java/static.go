package java

import (
	"math"
	"math/big"
	"strings"

	"github.com/cockroachdb/apd/v3"

	"cqld/types"
	"cqld/udf/value"
)

// This file compiles what begins with the name of a class:
//
//	constants    Integer.MAX_VALUE, Math.PI, Double.NaN, java.math.BigInteger.ONE, Boolean.TRUE, …
//	methods      of Math, the box classes, String, System, BigInteger, BigDecimal, and of udfContext
//	new          ArrayList, HashSet, HashMap and their variants, BigInteger, BigDecimal, String, boxes
//
// Classes of java.lang need no package. java.math has none that is imported, as in the bodies of Cassandra.

// static compiles a name that is not a variable: a constant or a method of a class, or a method of udfContext. It
// returns an expression or ends the compilation.
func (c *compiler) static(t token) *expr {
	path := t.text
	// Read the whole path first; only its end shows which part is a package, a class or a member.
	for c.peek().text == "." && c.ahead(1).kind == tokenName {
		c.next()
		path += "." + c.name()
	}
	class, member := "", path
	if i := strings.LastIndexByte(path, '.'); i >= 0 {
		class, member = path[:i], path[i+1:]
	}
	class = strings.TrimPrefix(class, "java.lang.")
	if c.peek().text != "(" {
		// By convention it is a class, which the message says.
		if class == "" && path[0] >= 'A' && path[0] <= 'Z' {
			unsupported(t.line, "the class "+path)
		}
		if path == "char" {
			unsupported(t.line, "the type char")
		}
		if class == "" {
			invalid(t.line, "%s cannot be resolved to a variable", path)
		}
		e := constantOf(class, member)
		if e == nil {
			unsupported(t.line, path)
		}
		return e
	}
	if class == "" {
		unsupported(t.line, "the method "+member)
	}
	c.expect("(")
	m := call{c: c, name: member, args: c.arguments(), line: t.line}
	var e *expr
	switch class {
	case "Math", "StrictMath":
		e = m.ofMath()
	case "System":
		if m.is("currentTimeMillis", 0) {
			e = &expr{t: primitive(kindLong), eval: func(fr *frame) value.Value {
				fr.m.Step()
				// The clock of the meter, which is the node's.
				return fr.m.Wall().UnixMilli()
			}}
		}
	case "String":
		if m.is("valueOf", 1) && m.args[0].t.kind <= kindBigDecimal {
			e = textOf(m.args[0])
		}
	case "java.math.BigInteger":
		if m.is("valueOf", 1) {
			in := m.arg(0, primitive(kindLong))
			e = &expr{t: primitive(kindBigInteger), eval: func(fr *frame) value.Value {
				n, _ := in(fr).(int64)
				return big.NewInt(n)
			}}
		}
	case "java.math.BigDecimal":
		if m.is("valueOf", 1) {
			e = m.decimalValueOf()
		}
	case "udfContext":
		// The type is the return type of the function, so its fields are known.
		if m.is("newReturnTupleValue", 0) && c.returns.kind == kindTuple || m.is("newReturnUDTValue", 0) &&
			c.returns.kind == kindUDT {
			e = &expr{t: c.returns, eval: func(fr *frame) value.Value { return value.NewTable(fr.m) }}
		}
	default:
		if k := boxed(class); k != kindNone {
			e = m.ofBoxClass(k)
		}
	}
	if e == nil {
		unsupported(t.line, "the method "+path+"("+argumentTypes(m.args)+")")
	}
	e.effect = true
	return e
}

// textOf compiles String.valueOf(e). Null becomes "null".
func textOf(of *expr) *expr {
	return &expr{t: primitive(kindString), eval: func(fr *frame) value.Value {
		fr.m.Alloc(32)
		return text(fr.m, of.t, of.eval(fr))
	}}
}

// boxed returns the kind of a box by its class. kindNone means that the class is no box.
func boxed(class string) kind {
	for k := kindByte; k <= kindBoolean; k++ {
		if boxName(k) == class {
			return k
		}
	}
	return kindNone
}

// constantOf returns a constant of a class, or nil if it is not known. The maps are built when a body is compiled, not
// in a call.
func constantOf(class, name string) *expr {
	ints := map[string]int64{"Integer.MAX_VALUE": math.MaxInt32, "Integer.MIN_VALUE": math.MinInt32}
	shorts := map[string]int64{"Short.MAX_VALUE": math.MaxInt16, "Short.MIN_VALUE": math.MinInt16}
	bytes := map[string]int64{"Byte.MAX_VALUE": math.MaxInt8, "Byte.MIN_VALUE": math.MinInt8}
	longs := map[string]int64{"Long.MAX_VALUE": math.MaxInt64, "Long.MIN_VALUE": math.MinInt64}
	doubles := map[string]float64{"Math.PI": math.Pi, "Math.E": math.E, "Double.MAX_VALUE": math.MaxFloat64,
		"Double.MIN_VALUE": math.SmallestNonzeroFloat64,
		"Double.NaN":       math.NaN(), "Double.POSITIVE_INFINITY": math.Inf(1),
		"Double.NEGATIVE_INFINITY": math.Inf(-1)}
	bigs := map[string]int64{"java.math.BigInteger.ZERO": 0, "java.math.BigInteger.ONE": 1,
		"java.math.BigInteger.TEN": 10}
	decimals := map[string]int64{"java.math.BigDecimal.ZERO": 0, "java.math.BigDecimal.ONE": 1,
		"java.math.BigDecimal.TEN": 10}
	// The class determines the type.
	full := class + "." + name
	fixed := func(k kind, boxed bool, v value.Value) *expr {
		return &expr{t: &jtype{kind: k, boxed: boxed}, eval: func(*frame) value.Value { return v }}
	}
	if n, ok := ints[full]; ok {
		return constantOfKind(kindInt, n)
	}
	if n, ok := shorts[full]; ok {
		return constantOfKind(kindShort, n)
	}
	if n, ok := bytes[full]; ok {
		return constantOfKind(kindByte, n)
	}
	if n, ok := longs[full]; ok {
		return fixed(kindLong, false, n)
	}
	if x, ok := doubles[full]; ok {
		return fixed(kindDouble, false, x)
	}
	if n, ok := bigs[full]; ok {
		// Shared by all calls: no operation changes a number in place.
		return fixed(kindBigInteger, false, big.NewInt(n))
	}
	if n, ok := decimals[full]; ok {
		return fixed(kindBigDecimal, false, apd.New(n, 0))
	}
	switch full {
	case "Boolean.TRUE", "Boolean.FALSE":
		// Objects, unlike the literals true and false.
		return fixed(kindBoolean, true, name == "TRUE")
	}
	return nil
}

// ofMath compiles the methods of Math.
func (m *call) ofMath() *expr {
	if len(m.args) == 0 {
		return nil
	}
	for i, a := range m.args {
		a = promotedChar(a)
		m.args[i] = a
		if !a.t.numeric() {
			invalid(m.line, "The method %s(double) in the type Math is not applicable for the arguments (%s)", m.name,
				argumentTypes(m.args))
		}
	}
	// Most methods only exist for double; arguments are widened.
	double := primitive(kindDouble)
	functions := map[string]func(float64) float64{"sqrt": math.Sqrt, "cbrt": math.Cbrt, "exp": math.Exp,
		"log": math.Log, "log10": math.Log10,
		"sin": math.Sin, "cos": math.Cos, "tan": math.Tan, "asin": math.Asin, "acos": math.Acos, "atan": math.Atan,
		"floor": math.Floor,
		"ceil":  math.Ceil, "rint": math.RoundToEven}
	if f := functions[m.name]; f != nil && len(m.args) == 1 {
		in := m.arg(0, double)
		return &expr{t: double, eval: func(fr *frame) value.Value {
			fr.m.Step()
			return f(value.ToFloat(fr.m, in(fr)))
		}}
	}
	switch {
	case m.is("pow", 2), m.is("atan2", 2):
		x, y := m.arg(0, double), m.arg(1, double)
		f := math.Pow
		if m.name == "atan2" {
			f = math.Atan2
		}
		return &expr{t: double, eval: func(fr *frame) value.Value {
			fr.m.Step()
			return f(value.ToFloat(fr.m, x(fr)), value.ToFloat(fr.m, y(fr)))
		}}
	case m.is("abs", 1):
		// abs has an overload for each type that arithmetic has: int, long, float and double.
		t := promoted(m.args[0].t, m.args[0].t)
		in := m.arg(0, t)
		return &expr{t: t, eval: func(fr *frame) value.Value {
			fr.m.Step()
			return narrow(absolute(fr.m, in(fr)),
				t.kind)
		}}
	case m.is("max", 2), m.is("min", 2):
		return m.extreme()
	case m.is("round", 1):
		return m.round()
	case m.is("floorMod", 2), m.is("floorDiv", 2):
		return m.floor()
	}
	return nil
}

// absolute returns |v|. The least long has no positive counterpart and stays, as in Java. It is called with int64 or
// float64.
func absolute(m *value.Meter, v value.Value) value.Value {
	if n, ok := v.(int64); ok {
		// For an int the caller narrows the result, which wraps the least int.
		return max(n, -n)
	}
	return math.Abs(value.ToFloat(m, v))
}

// extreme compiles max and min. They have overloads for int, long, float and double; the promoted type selects one.
func (m *call) extreme() *expr {
	t := promoted(m.args[0].t, m.args[1].t)
	x, y := m.arg(0, t), m.arg(1, t)
	most := m.name == "max"
	return &expr{t: t, eval: func(fr *frame) value.Value {
		fr.m.Step()
		a, b := x(fr), y(fr)
		// Go's functions have Java's results for NaN and for zeros of either sign.
		if p, ok := a.(float64); ok {
			q := value.ToFloat(fr.m, b)
			if most {
				return math.Max(p, q)
			}
			return math.Min(p, q)
		}
		order, _ := value.Compare(fr.m, a, b)
		if order > 0 == most {
			return a
		}
		return b
	}}
}

// round compiles Math.round: an int for float, a long for double. Floor of x + 0.5 would round 0.49999999999999994 to
// 1.
func (m *call) round() *expr {
	from, to := primitive(kindDouble), kindLong
	if m.args[0].t.kind <= kindFloat {
		from, to = primitive(kindFloat), kindInt
	}
	in := m.arg(0, from)
	return &expr{t: primitive(to), eval: func(fr *frame) value.Value {
		fr.m.Step()
		x := value.ToFloat(fr.m, in(fr))
		// Not math.Round, which rounds -2.5 to -3. Java rounds half up, to -2.
		floor := math.Floor(x)
		if x-floor >= 0.5 {
			floor++
		}
		return truncate(floor, to)
	}}
}

// floor compiles floorMod and floorDiv, which round toward negative infinity. A division by zero fails as / does.
func (m *call) floor() *expr {
	t := promoted(m.args[0].t, m.args[1].t)
	if !t.integral() {
		return nil
	}
	x, y := m.arg(0, t), m.arg(1, t)
	return &expr{t: t, eval: func(fr *frame) value.Value {
		fr.m.Step()
		a, b := x(fr), y(fr)
		// Both truncate. They are one too high, or a divisor too low, if the signs of remainder and divisor differ.
		q, r := intArith("/", a, b), intArith("%", a, b)
		if d, _ := b.(int64); r != 0 && (r^d) < 0 {
			q, r = q-1, r+d
		}
		// Only the quotient of the least int by -1 leaves the range of int.
		if m.name == "floorDiv" {
			return narrow(q, t.kind)
		}
		return r
	}}
}

// ofBoxClass compiles the static methods of Integer, Double, …: valueOf, parseX, toString, compare, sum, max, min. It
// returns nil for a method that k does not have. The arguments are converted to the primitive type.
func (m *call) ofBoxClass(k kind) *expr {
	// Float and Boolean have parse methods as well, which are not in the subset.
	parse := map[kind]string{kindInt: "parseInt", kindLong: "parseLong", kindDouble: "parseDouble",
		kindShort: "parseShort", kindByte: "parseByte"}[k]
	switch {
	case m.is("valueOf", 1) && m.args[0].t.kind != kindString, m.is("valueOf", 1) && k == kindBoolean:
		return &expr{t: box(k), eval: m.arg(0, primitive(k))}
	case m.is("valueOf", 1) && parse != "":
		return m.parse(box(k))
	case parse != "" && m.is(parse, 1):
		return m.parse(primitive(k))
	case m.is("toString", 1):
		return textOf(convert(m.args[0], primitive(k), m.line))
	case m.is("compare", 2) && k != kindBoolean:
		x, y := m.arg(0, primitive(k)), m.arg(1, primitive(k))
		return &expr{t: primitive(kindInt), eval: func(fr *frame) value.Value {
			return compared(fr.m, k, x(fr), y(fr))
		}}
	case m.is("sum", 2) && k >= kindInt && k != kindBoolean:
		return binary("+", convert(m.args[0], primitive(k), m.line),
			convert(m.args[1], primitive(k), m.line), m.line)
	case (m.is("max", 2) || m.is("min", 2)) && k >= kindInt && k != kindBoolean:
		for i, a := range m.args {
			m.args[i] = convert(a, primitive(k), m.line)
		}
		return m.extreme()
	}
	return nil
}

// decimalValueOf compiles BigDecimal.valueOf(long) and (double). BigDecimal.valueOf(2.50) is 2.5.
func (m *call) decimalValueOf() *expr {
	if m.args[0].t.integral() {
		in := m.arg(0, primitive(kindLong))
		return &expr{t: primitive(kindBigDecimal), eval: func(fr *frame) value.Value {
			n, _ := in(fr).(int64)
			return apd.New(n, 0)
		}}
	}
	in := m.arg(0, primitive(kindDouble))
	return &expr{t: primitive(kindBigDecimal), eval: func(fr *frame) value.Value {
		// By the decimal text of the double, as BigDecimal.valueOf is documented.
		return decimalText(fr, text(fr.m, primitive(kindDouble), in(fr)))
	}}
}

// decimalText parses a BigDecimal. s may have an exponent.
func decimalText(fr *frame, s string) value.Value {
	// It bounds the length, because parsing takes more than linear time.
	if value.MayParse(fr.m, s) {
		b, err := types.Native(types.Decimal).FromText(s)
		if d, ok := types.Native(types.Decimal).Decimal(b); err == nil && ok {
			return d
		}
	}
	value.Failf("java.lang.NumberFormatException: For input string: \"%.40s\"", s)
	return nil
}

// newExpr compiles new C(…) for the classes of numbers and collections. The body cannot define classes, so all others
// are unknown.
func (c *compiler) newExpr(line int) *expr {
	class := c.qualified()
	// As in Cassandra, java.util is imported implicitly, but java.math is not.
	short := strings.TrimPrefix(class, "java.util.")
	if kinds := map[string]kind{"ArrayList": kindList, "LinkedList": kindList, "HashSet": kindSet,
		"LinkedHashSet": kindSet,
		"HashMap":       kindMap, "LinkedHashMap": kindMap}; kinds[short] != kindNone {
		return c.newCollection(kinds[short], short, line)
	}
	if c.peek().text == "[" {
		unsupported(line, "an array")
	}
	c.expect("(")
	// Constructors are resolved like methods, with the class as the name.
	m := call{c: c, name: class, args: c.arguments(), line: line}
	switch {
	case m.is("java.math.BigDecimal", 1) && m.args[0].t.kind == kindString:
		in := m.argument(0)
		return &expr{t: primitive(kindBigDecimal), effect: true,
			eval: func(fr *frame) value.Value { return decimalText(fr, in(fr)) }}
	case m.is("java.math.BigInteger", 1) && m.args[0].t.kind == kindString:
		in := m.argument(0)
		return &expr{t: primitive(kindBigInteger), effect: true, eval: func(fr *frame) value.Value {
			s := in(fr)
			n, ok := value.ParseInteger(fr.m, s)
			if !ok {
				value.Failf("java.lang.NumberFormatException: For input string: \"%.40s\"", s)
			}
			return n
		}}
	}
	class = strings.TrimPrefix(class, "java.lang.")
	if e := m.newBox(boxed(class)); e != nil {
		return e
	}
	if class == "String" && len(m.args) == 1 && m.args[0].t.kind == kindString {
		in := m.argument(0)
		return &expr{t: primitive(kindString), effect: true, eval: func(fr *frame) value.Value { return in(fr) }}
	}
	unsupported(line, "new "+class+"("+argumentTypes(m.args)+")")
	return nil
}

// newBox compiles new Integer(…) and similar. These constructors are deprecated in Java, but common in old bodies.
func (m *call) newBox(k kind) *expr {
	if k == kindNone || len(m.args) != 1 {
		return nil
	}
	from := m.args[0].t
	var e *expr
	switch {
	case from.kind == kindString && k == kindBoolean:
		in := m.arg(0, primitive(kindString))
		e = &expr{t: box(k), eval: func(fr *frame) value.Value {
			fr.m.Step()
			s, _ := in(fr).(string)
			// Any other text is false, also null.
			return len(s) == len("true") && strings.EqualFold(s, "true")
		}}
	case from.kind == kindString && k != kindFloat:
		e = m.parse(box(k))
	// new Float(double) exists, although a double does not convert to float implicitly.
	case from.kind == kindDouble && k == kindFloat:
		e = &expr{t: box(k), eval: cast(m.args[0], primitive(k), m.line).eval}
	case from.kind != kindString:
		e = &expr{t: box(k), eval: m.arg(0, primitive(k))}
	default:
		return nil
	}
	e.effect = true
	return e
}

// newCollection compiles new ArrayList<T>() and similar; with <>, the receiver determines the type. All variants of a
// class keep the order of insertion, including HashMap and HashSet. Initial capacities and copies of other
// collections are refused.
func (c *compiler) newCollection(k kind, class string, line int) *expr {
	t := &jtype{kind: k}
	if c.symbol("<") {
		for !c.closesType() {
			elem, ok := c.typeName()
			if !ok || elem == nil {
				invalid(line, "Syntax error on token \"<\"")
			}
			t.elems = append(t.elems, elem)
			c.symbol(",")
		}
		// <> takes the types of the receiver.
		if len(t.elems) > 0 {
			c.checkArity(t, class)
		}
	}
	c.expect("(")
	if len(c.arguments()) > 0 {
		unsupported(line, "new "+class+" with arguments")
	}
	// NewTable counts the memory of the table.
	eval := func(fr *frame) value.Value { return value.NewTable(fr.m) }
	e := &expr{t: t, eval: eval, effect: true}
	// The receiver determines the types of <>; convert calls create.
	if len(t.elems) == 0 {
		e.create = func(to *jtype) *expr {
			if to.kind != k {
				invalid(line, "Type mismatch: cannot convert from %s to %s", class, to)
			}
			return &expr{t: to, eval: eval}
		}
	}
	return e
}

// ofBig compiles the methods of BigInteger and BigDecimal. Their operations do not modify the operands.
func (m *call) ofBig() *expr {
	t, isDecimal := m.on.t, m.on.t.kind == kindBigDecimal
	operators := map[string]byte{"add": '+', "subtract": '-', "multiply": '*'}
	if op, ok := operators[m.name]; ok && len(m.args) == 1 {
		// Both operands have the same class: BigInteger and BigDecimal do not convert into each other.
		other := m.arg(0, t)
		return &expr{t: t, eval: func(fr *frame) value.Value {
			v, o := m.object(fr), other(fr)
			if o == nil {
				value.Failf("java.lang.NullPointerException")
			}
			return value.Arith(fr.m, op, v, o)
		}}
	}
	switch {
	case !isDecimal && len(m.args) == 1 && (m.name == "divide" || m.name == "remainder" || m.name == "mod"):
		return m.bigDivision()
	case m.is("negate", 0):
		return m.simple(t, func(fr *frame, v value.Value) value.Value { return value.Negate(fr.m, v) })
	case m.is("abs", 0):
		return m.simple(t, func(fr *frame, v value.Value) value.Value {
			if order, _ := value.Compare(fr.m, v, int64(0)); order < 0 {
				return value.Negate(fr.m, v)
			}
			return v
		})
	case m.is("signum", 0):
		return m.simple(primitive(kindInt), func(fr *frame, v value.Value) value.Value {
			order, _ := value.Compare(fr.m, v, int64(0))
			return int64(order)
		})
	case m.is("doubleValue", 0):
		return m.simple(primitive(kindDouble), func(fr *frame,
			v value.Value) value.Value {
			return value.ToFloat(fr.m, v)
		})
	case !isDecimal && (m.is("intValue", 0) || m.is("longValue", 0)):
		// intValue and longValue drop the high bits and never fail.
		k := kindLong
		if m.name == "intValue" {
			k = kindInt
		}
		return m.simple(primitive(k), func(_ *frame, v value.Value) value.Value {
			n, _ := v.(*big.Int)
			// And uses two's complement for negative numbers, so the result has the low 64 bits, as in Java.
			low := new(big.Int).And(n, new(big.Int).SetUint64(math.MaxUint64))
			return narrow(int64(low.Uint64()), k)
		})
	case m.is("toString", 0):
		return m.simple(primitive(kindString), func(fr *frame, v value.Value) value.Value {
			s := text(fr.m, t, v)
			fr.m.Alloc(int64(len(s)))
			return s
		})
	case m.is("compareTo", 1):
		return m.compareTo(t)
	// BigDecimal.equals distinguishes 1.0 from 1.00, and is not supported.
	case m.is("equals", 1) && !isDecimal:
		return m.equals()
	}
	return nil
}

// bigDivision compiles the division of BigInteger, which truncates. divide and remainder have the sign of the dividend;
// mod is never negative.
func (m *call) bigDivision() *expr {
	other := m.arg(0, m.on.t)
	return &expr{t: m.on.t, eval: func(fr *frame) value.Value {
		a, _ := m.object(fr).(*big.Int)
		b, ok := other(fr).(*big.Int)
		switch {
		// The divisor is null. The object was checked by object.
		case !ok:
			value.Failf("java.lang.NullPointerException")
		case m.name == "mod" && b.Sign() <= 0:
			value.Failf("java.lang.ArithmeticException: BigInteger: modulus not positive")
		case b.Sign() == 0:
			value.Failf("java.lang.ArithmeticException: BigInteger divide by zero")
		}
		// Counted before the division, whose time grows with the product of the lengths.
		fr.m.Alloc(int64(a.BitLen())/8 + 32)
		fr.m.Work(int64(a.BitLen()/64) * int64(b.BitLen()/64+1))
		switch m.name {
		case "divide":
			return new(big.Int).Quo(a, b)
		case "mod":
			return new(big.Int).Mod(a, b)
		}
		return new(big.Int).Rem(a, b)
	}}
}
