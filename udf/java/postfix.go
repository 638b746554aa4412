package java

import (
	"math"
	"strings"

	"cqld/udf/value"
)

// postfix compiles the calls and increments after an expression.
func (c *compiler) postfix(e *expr) *expr {
	for n := 0; ; n++ {
		t := c.peek()
		if t.kind != tokenSymbol || n > nestingMax {
			return e
		}
		switch t.text {
		case ".":
			c.next()
			name := c.name()
			if !c.symbol("(") {
				unsupported(t.line, "the field "+name)
			}
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

// arguments compiles the arguments of a call, after its opening parenthesis.
func (c *compiler) arguments() []*expr {
	var list []*expr
	for !c.symbol(")") {
		if len(list) > 0 {
			c.expect(",")
		}
		list = append(list, c.expression())
	}
	return list
}

// postIncrement compiles x++ and x--.
func (c *compiler) postIncrement(e *expr, op token) *expr {
	v := e.variable
	if v == nil || !v.t.numeric() {
		invalid(op.line, "Invalid argument to operation ++/--")
	}
	next := c.convert(c.cast(c.binary(op.text[:1], e, constantInt(1), op.line), v.t.unboxed(), op.line), v.t, op.line)
	return &expr{t: v.t, effect: true, eval: func(fr *frame) value.Value {
		old := fr.vars[v.slot]
		fr.vars[v.slot] = next.eval(fr)
		return old
	}}
}

// method compiles a call of a method of an object.
func (c *compiler) method(e *expr, name string, args []*expr, line int) *expr {
	if e.t.isPrimitive() {
		invalid(line, "Cannot invoke %s(%s) on the primitive type %s", name, argumentTypes(args), e.t)
	}
	if e.t.kind == kindNull || e.t.kind == kindVoid {
		invalid(line, "Cannot invoke %s() on the type %s", name, e.t)
	}
	m := call{c: c, on: e, name: name, args: args, line: line}
	var out *expr
	switch e.t.kind {
	case kindString:
		out = m.ofString()
	case kindList:
		out = m.ofList()
	case kindSet, kindCollection:
		out = m.ofSet()
	case kindMap:
		out = m.ofMap()
	case kindTuple, kindUDT:
		out = m.ofTuple()
	case kindBigInteger, kindBigDecimal:
		out = m.ofBig()
	case kindDate:
		if name == "getTime" && len(args) == 0 {
			out = m.simple(primitive(kindLong), func(_ *frame, v value.Value) value.Value { return v })
		}
	default:
		if e.t.boxed {
			out = m.ofBox()
		}
	}
	if out == nil {
		unsupported(line, "the method "+name+"("+argumentTypes(args)+") of "+e.t.String())
	}
	out.effect = true
	return out
}

// argumentTypes returns the types of arguments for messages.
func argumentTypes(args []*expr) string {
	const shown = 20
	var names []string
	for _, a := range args[:min(len(args), shown)] {
		names = append(names, a.t.String())
	}
	if len(args) > shown {
		names = append(names, "…")
	}
	return strings.Join(names, ", ")
}

// call is a method call that is compiled.
type call struct {
	c    *compiler
	on   *expr
	name string
	args []*expr
	line int
}

// is reports whether the call has this name and number of arguments.
func (m *call) is(name string, n int) bool { return m.name == name && len(m.args) == n }

// arg returns an argument as a value of a type.
func (m *call) arg(i int, t *jtype) func(fr *frame) value.Value {
	return m.c.convert(m.args[i], t, m.line).eval
}

// object evaluates the object, which must not be null.
func (m *call) object(fr *frame) value.Value {
	fr.m.Step()
	v := m.on.eval(fr)
	if v == nil {
		nullPointer(m.on, m.name+"("+argumentTypes(m.args)+")")
	}
	return v
}

// simple returns a method without arguments.
func (m *call) simple(t *jtype, f func(fr *frame, v value.Value) value.Value) *expr {
	return &expr{t: t, eval: func(fr *frame) value.Value { return f(fr, m.object(fr)) }}
}

// deref returns the table of a collection, which must not be null.
func deref(v value.Value, e *expr, method string) *value.Table {
	t, ok := v.(*value.Table)
	if !ok {
		nullPointer(e, method)
	}
	return t
}

// ofBox compiles the methods of Integer, Double, Boolean, ….
func (m *call) ofBox() *expr {
	of := m.on.t
	conversions := map[string]kind{"byteValue": kindByte, "shortValue": kindShort, "intValue": kindInt, "longValue": kindLong, "floatValue": kindFloat,
		"doubleValue": kindDouble}
	if k, ok := conversions[m.name]; ok && len(m.args) == 0 && of.numeric() {
		in := &expr{t: of.unboxed(), eval: func(fr *frame) value.Value { return m.object(fr) }}
		return m.c.cast(in, primitive(k), m.line)
	}
	switch {
	case m.is("booleanValue", 0) && of.kind == kindBoolean:
		return m.simple(primitive(kindBoolean), func(_ *frame, v value.Value) value.Value { return v })
	case m.is("toString", 0):
		return m.simple(primitive(kindString), func(fr *frame, v value.Value) value.Value {
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

// equals compiles a.equals(b): objects of different classes are not equal.
func (m *call) equals() *expr {
	other := m.args[0]
	same := other.t.kind == m.on.t.kind
	return &expr{t: primitive(kindBoolean), eval: func(fr *frame) value.Value {
		v := m.object(fr)
		o := other.eval(fr)
		if x, ok := v.(float64); ok && same && o != nil { // NaN equals NaN, and 0.0 does not equal -0.0
			y, _ := o.(float64)
			return math.Float64bits(x) == math.Float64bits(y)
		}
		return same && o != nil && value.Equal(fr.m, v, o)
	}}
}

// compareTo compiles a.compareTo(b) of numbers.
func (m *call) compareTo(t *jtype) *expr {
	other := m.arg(0, t)
	return &expr{t: primitive(kindInt), eval: func(fr *frame) value.Value {
		v := m.object(fr)
		o := other(fr)
		if o == nil {
			value.Failf("java.lang.NullPointerException")
		}
		order, ok := value.Compare(fr.m, v, o)
		if !ok { // NaN is equal to itself and greater than all others
			x, y := value.ToFloat(fr.m, v), value.ToFloat(fr.m, o)
			return compareNaN(x, y)
		}
		return int64(order)
	}}
}

func compareNaN(x, y float64) value.Value {
	switch {
	case x != x && y != y:
		return int64(0)
	case x != x:
		return int64(1)
	}
	return int64(-1)
}
