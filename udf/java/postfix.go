package java

import (
	"cmp"
	"math"
	"strings"

	"cqld/udf/value"
)

// postfix compiles the calls and increments after an expression. It loops, so a.b().c() is not recursive.
func (c *compiler) postfix(e *expr) *expr {
	for n := 0; ; n++ {
		t := c.peek()
		// The chain of calls is nested in closures, so its length is bounded. The remaining tokens cause a syntax
		// error.
		if t.kind != tokenSymbol || n > nestingMax {
			return e
		}
		switch t.text {
		case ".":
			c.next()
			name := c.name()
			// Objects have no visible fields. Constants of classes are read by static.
			if !c.symbol("(") {
				unsupported(t.line, "the field "+name)
			}
			// The call becomes the object of what follows: a.b().c().
			e = c.method(e, name, c.arguments(), t.line)
		case "++", "--":
			c.next()
			e = c.postIncrement(e, t)
		case "[":
			unsupported(t.line, "an array")
		default:
			return e
		}
	}
}

// arguments compiles the arguments of a call, after its opening parenthesis. They are converted when the method is
// known. Each argument is an expression of any type.
func (c *compiler) arguments() []*expr {
	var list []*expr
	for !c.symbol(")") {
		// The list may be empty, but no argument may.
		if len(list) > 0 {
			c.expect(",")
		}
		list = append(list, c.expression())
	}
	return list
}

// postIncrement compiles x++ and x--. The type of the result is the type of the variable, also for a box. It can be
// part of an expression, unlike an assignment here.
func (c *compiler) postIncrement(e *expr, op token) *expr {
	v := e.variable
	if v == nil || !v.t.numeric() {
		invalid(op.line, "Invalid argument to operation ++/--")
	}
	c.assignable(v, op.line)
	next := convert(cast(binary(op.text[:1], e, constantInt(1), op.line), v.t.unboxed(), op.line), v.t, op.line)
	return &expr{t: v.t, effect: true, eval: func(fr *frame) value.Value {
		// Numbers are immutable values, so old stays as it is.
		old := fr.vars[v.slot]
		fr.vars[v.slot] = next.eval(fr)
		return old
	}}
}

// method compiles a call of a method of an object. An unknown method, or an unknown number of arguments, is outside
// of the subset. The compiler of the method distinguishes overloads with equal numbers of arguments.
func (c *compiler) method(e *expr, name string, args []*expr, line int) *expr {
	if e.t.isPrimitive() {
		invalid(line, "Cannot invoke %s(%s) on the primitive type %s", name, argumentTypes(args), e.t)
	}
	// The literal null, or a method without a result.
	if e.t.kind == kindNull || e.t.kind == kindVoid {
		invalid(line, "Cannot invoke %s() on the type %s", name, e.t)
	}
	// A method is found by its name and number of arguments, and converts the arguments itself.
	m := call{c: c, on: e, name: name, args: args, line: line}
	// Reserve the slot of the object before the arguments are compiled.
	hold := m.holdObject()
	var out *expr
	switch e.t.kind {
	case kindString:
		out = m.ofString()
	case kindList:
		out = m.ofList()
	// ofSet distinguishes them.
	case kindSet, kindCollection:
		out = m.ofSet()
	case kindMap:
		out = m.ofMap()
	// Their methods depend on the CQL type.
	case kindTuple, kindUDT:
		out = m.ofTuple()
	case kindBigInteger, kindBigDecimal:
		out = m.ofBig()
	case kindDate:
		if name == "getTime" && len(args) == 0 {
			out = m.simple(primitive(kindLong), func(_ *frame, v value.Value) value.Value { return v })
		}
	default:
		// All other classes, such as inet's, have no methods here.
		if e.t.boxed {
			out = m.ofBox()
		}
	}
	if out == nil {
		unsupported(line, "the method "+name+"("+argumentTypes(args)+") of "+e.t.String())
	}
	// Now the evaluation of the object and of the arguments precedes the method.
	hold(out)
	// Also if it changes nothing: Java accepts every call as a statement.
	out.effect = true
	return out
}

// holdObject makes the calls of a method with arguments evaluate the object, then the arguments, and only then fail if
// the object is null, as Java does. The function that it returns must be called with the call. JLS 15.12.4.
func (m *call) holdObject() func(out *expr) {
	if len(m.args) == 0 {
		// Without arguments nothing happens between the object and the call.
		return func(*expr) {}
	}
	// A slot of the frame keeps the object. A variable of the closure would be shared by concurrent calls.
	slot, object, on := m.c.slot(), m.on.eval, *m.on
	on.eval = func(fr *frame) value.Value { return fr.vars[slot] }
	m.on = &on
	return func(out *expr) {
		inner := out.eval
		out.eval = func(fr *frame) value.Value {
			fr.vars[slot] = object(fr)
			// In order, each into a slot of its own.
			for _, evaluate := range m.before {
				evaluate(fr)
			}
			return inner(fr)
		}
	}
}

// argumentTypes returns the types of arguments for messages. It is used in messages only.
func argumentTypes(args []*expr) string {
	const shown = 20
	var names []string
	for _, a := range args[:min(len(args), shown)] {
		names = append(names, a.t.String())
	}
	if len(args) > shown {
		// Messages of bodies with many arguments stay short.
		names = append(names, "…")
	}
	return strings.Join(names, ", ")
}

// call is a method call that is compiled. on is nil for static methods and constructors. It is only used during
// compilation, except for parts that closures capture.
type call struct {
	c *compiler
	// The object, as an expression.
	on   *expr
	name string
	// args are compiled but not converted, because the method determines their types.
	args []*expr
	line int

	// before evaluates the arguments of a method of an object, in order.
	before []func(fr *frame)
}

// is reports whether the call has this name and number of arguments. Names are compared exactly.
func (m *call) is(name string, n int) bool { return m.name == name && len(m.args) == n }

// arg returns an argument as a value of a type. It converts as in an assignment, without the narrowing of constants;
// other conversions are an error of the compilation. It must be called in the order of the arguments, because it
// appends to before.
func (m *call) arg(i int, t *jtype) func(fr *frame) value.Value {
	e := *m.args[i]
	e.constant = nil
	return m.evaluated(convert(&e, t, m.line).eval)
}

// evaluated returns an argument, which methods of objects evaluate before they check the object. The result reads the
// slot of the argument, so it may be called several times.
func (m *call) evaluated(argument func(fr *frame) value.Value) func(fr *frame) value.Value {
	// A static method: its arguments are evaluated where it uses them, in order.
	if m.on == nil {
		return argument
	}
	slot := m.c.slot()
	m.before = append(m.before, func(fr *frame) { fr.vars[slot] = argument(fr) })
	return func(fr *frame) value.Value { return fr.vars[slot] }
}

// key returns an argument that Java declares as Object, which is compared with elements of type t. An object of another
// class equals none of them: it is nil. Java's signature is contains(Object), so a wrong type is no error there,
// either.
func (m *call) key(i int, t *jtype) func(fr *frame) value.Value {
	arg := m.args[i]
	if arg.t.kind == kindVoid {
		invalid(m.line, "The method %s(Object) is not applicable for the arguments (void)", m.name)
	}
	// Kinds are compared without boxes: contains(1) finds an Integer.
	if arg.t.kind == t.kind {
		return m.evaluated(arg.eval)
	}
	// Its evaluation may have effects or fail, so it is not omitted.
	return m.evaluated(func(fr *frame) value.Value { arg.eval(fr); return nil })
}

// object evaluates the object, which must not be null. Each method calls it once, before it uses its arguments. A
// second call would count a second step, and evaluate the object again if the method has no arguments.
func (m *call) object(fr *frame) value.Value {
	// A call of a method is a step, in addition to its arguments.
	fr.m.Step()
	v := m.on.eval(fr)
	if v == nil {
		nullPointer(m.on, m.name+"("+argumentTypes(m.args)+")")
	}
	return v
}

// simple returns a method without arguments. f gets the object, which is not null. Its cost beyond a step must be
// counted by f.
func (m *call) simple(t *jtype, f func(fr *frame, v value.Value) value.Value) *expr {
	return &expr{t: t, eval: func(fr *frame) value.Value { return f(fr, m.object(fr)) }}
}

// deref returns the table of a collection, which must not be null. method is the one that Java calls implicitly, for
// the message. The loop over a collection is the only caller without a call.
func deref(v value.Value, e *expr, method string) *value.Table {
	t, ok := v.(*value.Table)
	if !ok {
		nullPointer(e, method)
	}
	return t
}

// ofBox compiles the methods of Integer, Double, Boolean, …. The object is a box; calls on a primitive value are an
// error of the compilation. Methods that need a locale or a radix are not in the subset.
func (m *call) ofBox() *expr {
	// The class of the box. Boxes and primitive values are the same Go values.
	of := m.on.t
	conversions := map[string]kind{"byteValue": kindByte, "shortValue": kindShort, "intValue": kindInt,
		"longValue": kindLong, "floatValue": kindFloat,
		"doubleValue": kindDouble}
	if k, ok := conversions[m.name]; ok && len(m.args) == 0 && of.numeric() {
		// These methods convert as casts do.
		in := &expr{t: of.unboxed(), eval: func(fr *frame) value.Value { return m.object(fr) }}
		return cast(in, primitive(k), m.line)
	}
	switch {
	// object has checked that the box is not null, which is all that unboxing does.
	case m.is("booleanValue", 0) && of.kind == kindBoolean:
		return m.simple(primitive(kindBoolean), func(_ *frame, v value.Value) value.Value { return v })
	case m.is("toString", 0):
		return m.simple(primitive(kindString), func(fr *frame, v value.Value) value.Value {
			// More than the longest text of a number.
			fr.m.Alloc(32)
			return text(fr.m, of, v)
		})
	case m.is("equals", 1):
		return m.equals()
	case m.is("compareTo", 1) && of.numeric():
		return m.compareTo(of)
	}
	return nil
}

// equals compiles a.equals(b): objects of different classes are not equal. equals of an Integer and a Long is false in
// Java, whatever their values are.
func (m *call) equals() *expr {
	same := m.args[0].t.kind == m.on.t.kind
	// The argument is evaluated also if the classes differ.
	other := m.key(0, m.on.t)
	return &expr{t: primitive(kindBoolean), eval: func(fr *frame) value.Value {
		v := m.object(fr)
		o := other(fr)
		if x, ok := v.(float64); ok && same && o != nil { // NaN equals NaN, and 0.0 does not equal -0.0
			y, _ := o.(float64)
			return x != x && y != y || math.Float64bits(x) == math.Float64bits(y)
		}
		return same && o != nil && value.Equal(fr.m, v, o)
	}}
}

// compareTo compiles a.compareTo(b) of numbers. The argument is unboxed to t, and null fails. Both operands are of the
// same class here.
func (m *call) compareTo(t *jtype) *expr {
	other := m.arg(0, t)
	return &expr{t: primitive(kindInt), eval: func(fr *frame) value.Value {
		v := m.object(fr)
		// Conversion to the class of a box does not unbox, so the argument may be null.
		o := other(fr)
		if o == nil {
			value.Failf("java.lang.NullPointerException")
		}
		return compared(fr.m, t.kind, v, o)
	}}
}

// compared returns the order of two numbers of a kind, as compare and compareTo of its class do: bytes and shorts by
// their difference; NaN equals itself and is greater than all others, and 0.0 is greater than -0.0. A NaN has one order
// in Java, unlike with the operators.
func compared(m *value.Meter, k kind, a, b value.Value) value.Value {
	x, integer := a.(int64)
	y, _ := b.(int64)
	switch {
	case k == kindByte || k == kindShort:
		return x - y
	// int and long: -1, 0 or 1.
	case integer:
		return int64(cmp.Compare(x, y))
	// BigInteger and BigDecimal.
	case k != kindFloat && k != kindDouble:
		order, _ := value.Compare(m, a, b)
		return int64(order)
	}
	p, q := value.ToFloat(m, a), value.ToFloat(m, b)
	switch {
	case p < q:
		return int64(-1)
	case p > q:
		return int64(1)
	// Only zeros can be equal with different bits. The sign bit makes -0.0 the lesser one.
	case p == q:
		return int64(cmp.Compare(int64(math.Float64bits(p)), int64(math.Float64bits(q))))
	case p != p && q != q:
		return int64(0)
	case p != p:
		return int64(1)
	}
	return int64(-1)
}
