package lua

import (
	"math"
	"strconv"
	"strings"

	"github.com/yuin/gopher-lua/ast"

	"cqld/udf/value"
)

// expr evaluates an expression to one value, multi to any number of values.
type (
	expr  func(fr *frame) value.Value
	multi func(fr *frame) []value.Value
)

// at returns the i-th value, or nil. Missing values are nil everywhere in Lua. It works for the results of calls, too.
func at(vs []value.Value, i int) value.Value {
	if i < len(vs) {
		return vs[i]
	}
	return nil
}

// list compiles expressions; the last one may have any number of values. Callers must not modify the values, which
// may be the arguments of the function. The values are evaluated from left to right.
func (f *function) list(xs []ast.Expr) multi {
	if len(xs) == 0 {
		return func(*frame) []value.Value { return nil }
	}
	// All but the last are adjusted to one value.
	first := make([]expr, len(xs)-1)
	for i, x := range xs[:len(xs)-1] {
		first[i] = f.expr(x)
	}
	// f(a, g()) passes all results of g, and f(g(), a) only the first.
	last := f.multi(xs[len(xs)-1])
	if len(first) == 0 {
		return last
	}
	return func(fr *frame) []value.Value {
		vs := make([]value.Value, 0, len(first)+1)
		for _, x := range first {
			vs = append(vs, x(fr))
		}
		// A new slice, because last may be the varargs of the frame.
		return append(vs, last(fr)...)
	}
}

// multi compiles an expression that may have any number of values: a call or ..., unless it is in parentheses.
func (f *function) multi(x ast.Expr) multi {
	switch x := x.(type) {
	case *ast.FuncCallExpr:
		// (f()) is one value, and f() all of them.
		if !x.AdjustRet {
			return f.call(x)
		}
	case *ast.Comma3Expr:
		if !x.AdjustRet {
			f.checkVararg(x)
			// Functions do not modify their arguments, so do not copy them.
			return func(fr *frame) []value.Value { return fr.varargs }
		}
	}
	// Parentheses around a call or ... adjust it to one value.
	one := f.expr(x)
	return func(fr *frame) []value.Value { return []value.Value{one(fr)} }
}

// checkVararg refuses ... in a function without it. The body itself has none.
func (f *function) checkVararg(x *ast.Comma3Expr) {
	if !f.vararg {
		refuse(x.Line(), "cannot use '...' outside of a vararg function")
	}
}

// expr compiles an expression to one value. A call or ... is adjusted to its first value, or nil. Every case returns
// an immutable closure or rejects the expression.
func (f *function) expr(x ast.Expr) expr {
	f.enter(x.Line())
	defer f.leave()
	switch x := x.(type) {
	case *ast.TrueExpr:
		return constant(true)
	case *ast.FalseExpr:
		return constant(false)
	case *ast.NilExpr:
		return constant(nil)
	case *ast.StringExpr:
		return constant(x.Value)
	case *ast.NumberExpr:
		// Convert the number during compilation.
		n, ok := parseNumber(x.Value)
		if !ok {
			refuse(x.Line(), "malformed number %s", x.Value)
		}
		return constant(n)
	// In a place with one value.
	case *ast.Comma3Expr:
		f.checkVararg(x)
		return func(fr *frame) value.Value { return at(fr.varargs, 0) }
	// A name, which is resolved now.
	case *ast.IdentExpr:
		return f.variable(x)
	case *ast.AttrGetExpr:
		// t.name is t["name"] for the parser.
		object, key, line := f.expr(x.Object), f.expr(x.Key), x.Line()
		return func(fr *frame) value.Value {
			fr.m.Step()
			t, k := object(fr), key(fr)
			return index(fr.m, t, k, line)
		}
	case *ast.TableExpr:
		return f.table(x)
	case *ast.FuncCallExpr:
		// In a place with one value, further results are dropped.
		call := f.call(x)
		return func(fr *frame) value.Value { return at(call(fr), 0) }
	case *ast.FunctionExpr:
		return f.functionExpr(x)
	}
	return f.operator(x)
}

// constant returns an expression with a fixed value. v must be immutable; tables are never constants.
func constant(v value.Value) expr { return func(*frame) value.Value { return v } }

// operator compiles an expression with an operator. and, or and not work with every value; the others need numbers or
// strings. There are no metamethods. Integer overflow wraps around.
func (f *function) operator(x ast.Expr) expr {
	line := x.Line()
	switch x := x.(type) {
	case *ast.LogicalOpExpr:
		// Both operators return an operand, not a boolean.
		a, b, and := f.expr(x.Lhs), f.expr(x.Rhs), x.Operator == "and"
		return func(fr *frame) value.Value {
			fr.m.Step()
			// and returns a false first operand, or returns a true one.
			if v := a(fr); truth(v) != and {
				return v
			}
			return b(fr)
		}
	case *ast.RelationalOpExpr:
		return f.relation(x)
	case *ast.StringConcatOpExpr:
		a, b := f.expr(x.Lhs), f.expr(x.Rhs)
		return func(fr *frame) value.Value { return concat(fr.m, a(fr), b(fr), line) }
	case *ast.ArithmeticOpExpr:
		// The first byte is enough: all operators of arithmetic have one.
		a, b, op := f.expr(x.Lhs), f.expr(x.Rhs), x.Operator[0]
		return func(fr *frame) value.Value { return arith(fr.m, op, a(fr), b(fr), line) }
	case *ast.UnaryMinusOpExpr:
		a := f.expr(x.Expr)
		return func(fr *frame) value.Value {
			fr.m.Step()
			// A string with a number is converted, as for the binary operators.
			v := a(fr)
			n, ok := number(fr.m, v)
			if !ok {
				fail(line, "attempt to perform arithmetic on a %s value", typeName(v))
			}
			return value.Negate(fr.m, n)
		}
	case *ast.UnaryNotOpExpr:
		// not of every value is a boolean.
		a := f.expr(x.Expr)
		return func(fr *frame) value.Value { fr.m.Step(); return !truth(a(fr)) }
	case *ast.UnaryLenOpExpr:
		a := f.expr(x.Expr)
		return func(fr *frame) value.Value {
			fr.m.Step()
			switch v := a(fr).(type) {
			case string:
				// In bytes.
				return int64(len(v))
			case *value.Table:
				return int64(v.Len())
			default:
				fail(line, "attempt to get length of a %s value", typeName(v))
				return nil
			}
		}
	}
	refuse(line, "this expression is not supported")
	return nil
}

// relation compiles comparisons. The operands are evaluated before their types are checked. Strings are compared by
// bytes.
func (f *function) relation(x *ast.RelationalOpExpr) expr {
	// The operands are evaluated from left to right.
	a, b, op, line := f.expr(x.Lhs), f.expr(x.Rhs), x.Operator, x.Line()
	// Values of different types are not equal; only order comparisons fail for them.
	if op == "==" || op == "~=" {
		equal := op == "=="
		return func(fr *frame) value.Value {
			fr.m.Step()
			// Equal compares numbers of different kinds by value: 1 == 1.0.
			x, y := a(fr), b(fr)
			return value.Equal(fr.m, x, y) == equal
		}
	}
	return func(fr *frame) value.Value {
		fr.m.Step()
		x, y := a(fr), b(fr)
		// With NaN each comparison is false, also the opposite one.
		order, ok := compare(fr.m, x, y, line)
		switch {
		case !ok:
			return false
		case op == "<":
			return order < 0
		case op == "<=":
			return order <= 0
		case op == ">":
			return order > 0
		}
		return order >= 0
	}
}

// compare orders two numbers or two strings. ok is false if one is NaN. Other types, and a number with a string, fail.
// The meter counts by length.
func compare(m *value.Meter, a, b value.Value, line int) (int, bool) {
	if value.IsNumber(a) && value.IsNumber(b) {
		return value.Compare(m, a, b)
	}
	// A comparison of long strings takes time by their length.
	m.Scan(a, b)
	s, ok := a.(string)
	t, also := b.(string)
	if !ok || !also {
		fail(line, "attempt to compare %s with %s", typeName(a), typeName(b))
	}
	// By bytes, not by a locale, so that all nodes agree.
	return strings.Compare(s, t), true
}

// concat returns a .. b. Numbers become text, as tostring shows them. Both operands are strings or numbers, as in Lua;
// booleans and nil fail.
func concat(m *value.Meter, a, b value.Value, line int) value.Value {
	// Both are converted before either fails, but the left one is reported.
	s, ok := stringOf(m, a)
	t, also := stringOf(m, b)
	if !ok {
		fail(line, "attempt to concatenate a %s value", typeName(a))
	}
	if !also {
		fail(line, "attempt to concatenate a %s value", typeName(b))
	}
	// A loop that concatenates allocates the square of its result, which is counted here.
	m.Alloc(int64(len(s) + len(t)))
	return s + t
}

// stringOf returns a string, or a number as text. The text of a number is counted, because exact numbers may be long.
// An exact number may have thousands of digits.
func stringOf(m *value.Meter, v value.Value) (string, bool) {
	if s, ok := v.(string); ok {
		return s, true
	}
	if value.IsNumber(v) {
		return value.NumberText(m, v), true
	}
	// Tables and functions have no text in concatenations; tostring gives them one.
	return "", false
}

// number returns a number, or the number that a string contains. White space around the number is ignored. Its text is
// bounded by MayParse, so a long string is no number.
func number(m *value.Meter, v value.Value) (value.Value, bool) {
	if s, ok := v.(string); ok {
		if !value.MayParse(m, s) {
			return nil, false
		}
		return parseNumber(strings.TrimSpace(s))
	}
	// Other values, among them nil, are not ok.
	return v, value.IsNumber(v)
}

// arith computes a op b. Strings that contain numbers are converted, as in Lua. / and ^ of two integers are floats, as
// in Lua 5.4.
func arith(m *value.Meter, op byte, a, b value.Value, line int) value.Value {
	x, ok := number(m, a)
	y, also := number(m, b)
	if !ok {
		fail(line, "attempt to perform arithmetic on a %s value", typeName(a))
	}
	if !also {
		fail(line, "attempt to perform arithmetic on a %s value", typeName(b))
	}
	// It counts the step.
	return value.Arith(m, op, x, y)
}

// parseNumber parses a number as Lua writes it. A number with a point or an exponent is a float, any other an integer.
// Hexadecimal numbers are integers of 64 bits. s has no white space around it. It returns false for what is no number.
// It serves the compiler for literals, and tonumber for strings.
func parseNumber(s string) (value.Value, bool) {
	const longest = 400
	// Go accepts more than Lua does: underscores, inf, nan, and hexadecimal exponents.
	if len(s) > longest || strings.ContainsAny(s, "_iInNpP") {
		return nil, false
	}
	digits, negative := strings.CutPrefix(s, "-")
	if hex, ok := strings.CutPrefix(strings.ToLower(digits), "0x"); ok {
		n, err := strconv.ParseUint(hex, 16, 64)
		// Wraps around: -0xFFFFFFFFFFFFFFFF is 1.
		if negative {
			return -int64(n), err == nil
		}
		return int64(n), err == nil
	}
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return n, true
	}
	// Integers of more than 64 bits become floats. A float out of range is infinite and not an error.
	x, err := strconv.ParseFloat(s, 64)
	return x, err == nil || math.IsInf(x, 0) && s != ""
}

// variable compiles a name: a local variable, an upvalue, or a global of the library. The first of these that has the
// name is meant. Names are searched in this order at each place, so a parameter may hide a function of the library.
func (f *function) variable(x *ast.IdentExpr) expr {
	if slot, ok := f.local(x.Value); ok {
		// The box exists: a local can be named only after its declaration has run.
		return func(fr *frame) value.Value { return fr.locals[slot].v }
	}
	if i, ok := f.upvalue(x.Value); ok {
		return func(fr *frame) value.Value { return fr.up[i].v }
	}
	name := x.Value
	// A misspelled name is an error of CREATE FUNCTION, and not nil at each call.
	if !isGlobal(name) {
		refuse(x.Line(), "%s is neither a local variable nor a function of the library", name)
	}
	return func(fr *frame) value.Value { return fr.global(name) }
}

// table compiles { … }. Fields are set in the order of the text; a later one with the same key wins. A nil key or NaN
// fails when the constructor runs.
func (f *function) table(x *ast.TableExpr) expr {
	type field struct {
		key   expr // nil for the next number
		value expr
		rest  multi // of the last field, which may have several values
	}
	// Determine the kinds of fields during compilation; only values are evaluated at run time.
	fields := make([]field, len(x.Fields))
	for i, in := range x.Fields {
		switch {
		case in.Key != nil:
			fields[i] = field{key: f.expr(in.Key), value: f.expr(in.Value)}
		case i == len(x.Fields)-1:
			// {f()} contains all results of f, {f(), 1} only the first.
			fields[i] = field{rest: f.multi(in.Value)}
		default:
			fields[i] = field{value: f.expr(in.Value)}
		}
	}
	return func(fr *frame) value.Value {
		t := value.NewTable(fr.m)
		// Explicit keys do not change the count.
		n := int64(1)
		for _, in := range fields {
			switch {
			case in.rest != nil:
				// nil results leave gaps.
				for _, v := range in.rest(fr) {
					t.Set(fr.m, n, v)
					n++
				}
			case in.key != nil:
				t.Set(fr.m, in.key(fr), in.value(fr))
			default:
				t.Set(fr.m, n, in.value(fr))
				n++
			}
		}
		return t
	}
}

// functionExpr compiles a function value: a closure over the boxes of its upvalues. Each evaluation creates a new
// closure with the current boxes. Closures share the code.
func (f *function) functionExpr(x *ast.FunctionExpr) expr {
	// Its nesting counts from the enclosing function, because compilation recurses through both.
	inner := &function{outer: f, vararg: x.ParList.HasVargs, depth: f.depth}
	inner.open()
	for _, name := range x.ParList.Names {
		inner.declare(name, x.Line())
	}
	p := inner.finish(inner.block(x.Stmts), len(x.ParList.Names), x.ParList.HasVargs)
	return func(fr *frame) value.Value {
		// The closure itself and a pointer for each upvalue.
		fr.m.Alloc(int64(64 + slotBytes*len(p.capture)))
		c := &closure{proto: p, up: make([]*box, len(p.capture))}
		for i, from := range p.capture {
			// The box is shared, not the value: both functions see later assignments.
			if from.local {
				c.up[i] = fr.locals[from.index]
			} else {
				c.up[i] = fr.up[from.index]
			}
		}
		return c
	}
}

// call compiles f(…) and o:m(…). o:m(…) passes o as the first argument. All results of the function are returned; the
// caller adjusts them.
func (f *function) call(x *ast.FuncCallExpr) multi {
	// The line is for messages of the call.
	args, line := f.list(x.Args), x.Line()
	if x.Method != "" {
		object, name := f.expr(x.Receiver), x.Method
		return func(fr *frame) []value.Value {
			// The object is evaluated once, though it is used twice.
			self := object(fr)
			fn := fr.method(self, name, line)
			return fr.call(fn, append([]value.Value{self}, args(fr)...), line)
		}
	}
	// The function is evaluated before its arguments.
	fn := f.expr(x.Func)
	return func(fr *frame) []value.Value { return fr.call(fn(fr), args(fr), line) }
}
