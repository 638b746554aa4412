package java

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"cqld/udf/value"
)

// Expressions, from the lowest precedence to the highest. Each level is compiled by a method that calls the next one:
//
//	expression    a ? b : c
//	operation     || && | ^ & == != < > <= >= << >> >>> + - * / %     (levels)
//	unary         - + ! ~ ++x --x (T) x
//	postfix       .method(…) x++ x--
//	primary       literals, variables, (…), new, constants and methods of classes
//
// Assignments are statements here, not expressions.

// expr is a compiled expression with its type. Values of byte, short, int and long are int64 in the range of their
// type; values of float and double are float64. A compiled expression may be evaluated many times, also concurrently,
// so eval keeps its state in the frame.
//
// An expr is immutable when it is complete. Several expressions may share an eval.
type expr struct {
	// t is the static type. eval returns nil only if the type is not primitive.
	t *jtype
	// eval computes the value. It panics with *value.Fault for an exception.
	eval func(fr *frame) value.Value
	// constant is the value of a constant expression of type byte, short, int or char, for implicit narrowing. It is
	// nil for other types, whose constants do not narrow.
	constant *int64
	// variable is set if the expression is only a variable, which ++ and -- can change and messages name.
	variable *variable
	// literal means a string literal, which may name a field of a user-defined type.
	literal bool
	// effect means that the expression is valid as a statement: a call, an increment, or new.
	effect bool
	// create completes new C<>() with the type of its receiver. convert calls it. It is nil for other expressions.
	create func(t *jtype) *expr
}

// constantInt returns a constant of type int. Constants are folded only as far as narrowing needs it.
func constantInt(n int64) *expr { return constantOfKind(kindInt, n) }

// constantOfKind returns a constant of an integer type that is not wider than int.
func constantOfKind(k kind, n int64) *expr {
	// n is int64 in every value of an integer type, see expr.
	return &expr{t: primitive(k), constant: &n, eval: func(*frame) value.Value { return n }}
}

// variableExpr returns the value of a variable at the time of its evaluation. The compiler has resolved the slot, so
// calls look up no names.
func (c *compiler) variableExpr(v *variable) *expr {
	return &expr{t: v.t, variable: v, eval: func(fr *frame) value.Value { return fr.vars[v.slot] }}
}

// expression compiles a conditional expression or one with higher precedence. The condition must be a boolean or
// Boolean. It is the entry for every expression in the grammar.
func (c *compiler) expression() *expr {
	c.enter()
	defer c.leave()
	e := c.operation(0)
	line := c.peek().line
	if !c.symbol("?") {
		return e
	}
	// Boolean is unboxed, and fails for null.
	condition := convert(e, primitive(kindBoolean), line)
	// The operator is right-associative, so both operands may be conditional expressions.
	then := c.expression()
	c.expect(":")
	otherwise := c.expression()
	t := c.conditionalType(then, otherwise, line)
	a, b := convert(then, t, line), convert(otherwise, t, line)
	// Only the operand that is chosen is evaluated.
	return &expr{t: t, eval: func(fr *frame) value.Value {
		fr.m.Step()
		if condition.eval(fr) == true {
			return a.eval(fr)
		}
		return b.eval(fr)
	}}
}

// conditionalType returns the type of a ? b : c, as the language specification has it. It ends the compilation if the
// operands have no common type. JLS 15.25 has the table that this follows.
func (c *compiler) conditionalType(a, b *expr, line int) *jtype {
	switch {
	case a.t.equal(b.t):
		return a.t
	// The result can be null, so a primitive type becomes its box.
	case a.t.kind == kindNull && b.t.kind != kindNull:
		return boxOf(b.t)
	case b.t.kind == kindNull:
		return boxOf(a.t)
	// One operand is a boolean and the other a Boolean.
	case a.t.kind == kindBoolean && b.t.kind == kindBoolean:
		return primitive(kindBoolean)
	// b ? 'x' : 65 is a char, because the constant is one.
	case a.t.kind == kindChar && b.constant != nil && b.t.kind == kindInt && uint64(*b.constant) <= math.MaxUint16,
		b.t.kind == kindChar && a.constant != nil && a.t.kind == kindInt && uint64(*a.constant) <= math.MaxUint16:
		return primitive(kindChar)
	case (a.t.numeric() || a.t.kind == kindChar) && (b.t.numeric() || b.t.kind == kindChar):
		// Only int constants adopt the type of the other operand.
		constantA, constantB := a.constant != nil && a.t.kind == kindInt, b.constant != nil && b.t.kind == kindInt
		// A char and another number: the char counts as an int.
		a, b = promotedChar(a), promotedChar(b)
		if a.t.kind == b.t.kind {
			return a.t.unboxed()
		}
		// b ? 1 : aByte is a byte, because the constant fits.
		if constantA && fits(*a.constant, b.t.kind) {
			return b.t.unboxed()
		}
		if constantB && fits(*b.constant, a.t.kind) {
			return a.t.unboxed()
		}
		// A byte and a short: the only pair of numbers whose result is narrower than int.
		if a.t.kind <= kindShort && b.t.kind <= kindShort {
			return primitive(kindShort)
		}
		// As in arithmetic, for all other pairs of numbers.
		return promoted(a.t, b.t)
	}
	// The types have no common type. Java reports the operand that does not match the receiver, which usually is the
	// result of the function.
	if c.returns.kind == a.t.kind {
		invalid(line, "Type mismatch: cannot convert from %s to %s", b.t, c.returns)
	}
	invalid(line, "Type mismatch: cannot convert from %s to %s", a.t, c.returns)
	return nil
}

// boxOf returns the type of values of t that may be null. A class is returned unchanged, because its values may
// always be null.
func boxOf(t *jtype) *jtype {
	if t.isPrimitive() {
		return box(t.kind)
	}
	return t
}

// fits reports whether a constant of type int can be converted to a narrower integer type. Only byte and short are
// narrower than int. int itself needs no narrowing.
func fits(n int64, k kind) bool {
	switch k {
	case kindByte:
		return n == int64(int8(n))
	case kindShort:
		return n == int64(int16(n))
	}
	return false
}

// levels are the binary operators, from the lowest precedence to the highest. The operators of one level associate to
// the left. It is a function, because package variables are not allowed to be mutable.
func levels() [][]string {
	return [][]string{{"||"}, {"&&"}, {"|"}, {"^"}, {"&"}, {"==", "!="}, {"<", ">", "<=", ">="}, {"<<", ">>", ">>>"},
		{"+", "-"}, {"*", "/", "%"}}
}

// operation compiles binary operators of a level and higher ones. All are left-associative. level counts from 0, the
// lowest precedence.
func (c *compiler) operation(level int) *expr {
	all := levels()
	// Operands of the last level are unary expressions.
	if level == len(all) {
		return c.unary()
	}
	e := c.operation(level + 1)
	// n counts operators of this level.
	for n := 0; ; n++ {
		t := c.peek()
		// The lexer reads instanceof as a name; without this check the message would be unclear.
		if t.kind == tokenName && t.text == "instanceof" {
			unsupported(t.line, "instanceof")
		}
		if t.kind != tokenSymbol || !contains(all[level], t.text) {
			return e
		}
		// Each operator nests the previous expression one closure deeper.
		if n > nestingMax {
			unsupported(t.line, "an expression with more than "+strconv.Itoa(nestingMax)+" operators in a row")
		}
		// Consume the token only now, because it may belong to a lower level.
		c.next()
		// The right operand has a higher level, which makes the operators left-associative.
		e = binary(t.text, e, c.operation(level+1), t.line)
	}
}

// contains reports whether a list has a string. The lists have a few elements.
func contains(list []string, s string) bool {
	for _, e := range list {
		if e == s {
			return true
		}
	}
	return false
}

// unary compiles prefix operators, casts, and what follows a primary expression. Operators of one place apply from
// right to left: - - x, !(!b). A minus is part of the literal only for the minimum int and long.
func (c *compiler) unary() *expr {
	c.enter()
	defer c.leave()
	t := c.peek()
	switch {
	case c.symbol("-"):
		// These literals are valid only after a minus, because the minimum has no positive counterpart.
		if n := c.peek(); n.kind == tokenInt && (n.text == "2147483648" ||
			strings.EqualFold(n.text, "9223372036854775808L")) {
			c.next()
			if n.text == "2147483648" {
				return constantInt(math.MinInt32)
			}
			return &expr{t: primitive(kindLong), eval: func(*frame) value.Value { return int64(math.MinInt64) }}
		}
		// Two minuses with a space between them are two operators; without it the lexer reads a decrement.
		e := promotedChar(c.unary())
		// The result remains a constant, so that byte b = -1 needs no cast. It wraps like an int.
		if e.constant != nil {
			return constantInt(int64(int32(-*e.constant)))
		}
		if !e.t.numeric() {
			invalid(t.line, "The operator - is undefined for the argument type(s) %s", e.t)
		}
		if e.t.kind >= kindFloat { // not 0 - x, which differs for zero
			in := convert(e, e.t.unboxed(), t.line)
			//nolint:forcetypeassert // by type
			return &expr{t: in.t, eval: func(fr *frame) value.Value { return -in.eval(fr).(float64) }}
		}
		// Promotes byte and short to int, and wraps the least number.
		return binary("-", constantInt(0), e, t.line)
	case c.symbol("+"):
		e := promotedChar(c.unary())
		if e.t.numeric() && e.t.kind >= kindFloat { // not 0 + x, which differs for -0.0
			return convert(e, e.t.unboxed(), t.line)
		}
		return binary("+", constantInt(0), e, t.line)
	// Both kinds of booleans; a Boolean is unboxed below.
	case c.symbol("!"):
		e := c.unary()
		if e.t.kind != kindBoolean {
			invalid(t.line, "The operator ! is undefined for the argument type(s) %s", e.t)
		}
		// A Boolean is unboxed, and null fails.
		e = convert(e, primitive(kindBoolean), t.line)
		return &expr{t: e.t, eval: func(fr *frame) value.Value { fr.m.Step(); return e.eval(fr) != true }}
	// ~x is x ^ -1 in two's complement.
	case c.symbol("~"):
		return binary("^", constantInt(-1), c.unary(), t.line)
	case t.kind == tokenSymbol && (t.text == "++" || t.text == "--"):
		return c.preIncrement()
	case t.kind == tokenSymbol && t.text == "(":
		if e := c.castExpr(); e != nil {
			return e
		}
	}
	// There is no prefix operator.
	return c.postfix(c.primary())
}

// preIncrement compiles ++x and --x. x must be a local variable or parameter that is not final. The parser has seen the
// operator, but not consumed it.
func (c *compiler) preIncrement() *expr {
	op := c.next()
	v := c.find(c.name())
	if v == nil || !v.t.numeric() {
		invalid(op.line, "Invalid argument to operation ++/--")
	}
	// Java defines ++ with an implicit cast, so a byte wraps.
	c.assignable(v, op.line)
	next := convert(cast(binary(op.text[:1], c.variableExpr(v), constantInt(1), op.line), v.t.unboxed(),
		op.line), v.t, op.line)
	// Return the value after the change; postIncrement returns the value before.
	return &expr{t: v.t, effect: true, eval: func(fr *frame) value.Value {
		fr.vars[v.slot] = next.eval(fr)
		return fr.vars[v.slot]
	}}
}

// castExpr compiles (T) x, or returns nil if the parenthesis is not a cast. If it is not a cast, it restores the
// position. One token of lookahead does not suffice: (a) - b is a subtraction, (int) - b is a cast.
func (c *compiler) castExpr() *expr {
	// Where the parenthesis is read again as a part of an expression.
	start := c.at
	c.expect("(")
	t, ok := c.typeName()
	// A name that is no type, or a type that does not end at the parenthesis, as in (a + b).
	if !ok || t == nil || !c.symbol(")") {
		c.at = start
		return nil
	}
	next := c.peek()
	// (Integer) - x is a subtraction from a variable, while (int) - x is a cast of -x.
	if !t.isPrimitive() && next.kind == tokenSymbol && next.text != "(" && next.text != "!" && next.text != "~" {
		c.at = start
		return nil
	}
	// A cast binds as tightly as the other prefix operators: (int) a + b is ((int) a) + b.
	e := c.unary()
	return cast(e, t, next.line)
}

// primary compiles literals, variables, parentheses, new, and names of classes. It consumes at least one token, or
// ends the compilation. All other paths end in invalid or unsupported.
func (c *compiler) primary() *expr {
	t := c.next()
	switch t.kind {
	// The literals: their values are known to the compiler.
	case tokenInt:
		return intLiteral(t)
	case tokenFloat:
		return floatLiteral(t)
	case tokenString:
		// The lexer has replaced the escapes.
		s := t.text
		return &expr{t: primitive(kindString), literal: true, eval: func(*frame) value.Value { return s }}
	case tokenChar:
		// The lexer guarantees exactly one character.
		r, _ := utf8.DecodeRuneInString(t.text)
		e := constantInt(int64(r))
		// Its constant is the number, so it can become a byte or a short.
		e.t = primitive(kindChar)
		return e
	case tokenSymbol:
		// A parenthesized variable stays a variable: (x)++ is valid in Java, too.
		if t.text == "(" {
			e := c.expression()
			c.expect(")")
			return e
		}
		invalid(t.line, "Syntax error on token \"%s\", delete this token", t.text)
	// The body ends where an expression must follow.
	case tokenEnd:
		invalid(t.line, "Syntax error, insert \"Expression\" to complete Expression")
	case tokenName:
	}
	switch t.text {
	case "true", "false":
		// Keywords are names for the lexer.
		v := t.text == "true"
		return &expr{t: primitive(kindBoolean), eval: func(*frame) value.Value { return v }}
	case "null":
		// null has its own type, which convert accepts for every class.
		return &expr{t: primitive(kindNull), eval: func(*frame) value.Value { return nil }}
	case "new":
		return c.newExpr(t.line)
	// A body is a static method, which has no this.
	case "this", "super":
		unsupported(t.line, t.text)
	}
	// A variable hides a class of the same name.
	if v := c.find(t.text); v != nil {
		return c.variableExpr(v)
	}
	return c.static(t)
}

// intLiteral returns an int, or with the suffix L a long. Decimal and hexadecimal numbers are supported, octal and
// binary ones are not. The digits are checked here: the lexer accepts any letters that numbers may have.
func intLiteral(t token) *expr {
	// Underscores separate digits.
	text := strings.ReplaceAll(t.text, "_", "")
	digits, long := strings.CutSuffix(strings.ToLower(text), "l")
	base := 10
	if hex, ok := strings.CutPrefix(digits, "0x"); ok {
		digits, base = hex, 16
	} else if len(digits) > 1 && digits[0] == '0' {
		unsupported(t.line, "an octal number")
	}
	// Without a sign: a minus is an operator, and unary handles the least numbers itself.
	u, err := strconv.ParseUint(digits, base, 64)
	n := int64(u)
	switch {
	// Hexadecimal literals cover all bits: 0xFFFFFFFF is -1.
	case err != nil, long && base == 10 && u > math.MaxInt64, !long && base == 10 && u > math.MaxInt32, !long &&
		u > math.MaxUint32:
		invalid(t.line, "The literal %s of type %s is out of range ", t.text,
			map[bool]string{true: "long", false: "int"}[long])
	// 0xFFFFFFFF wraps to -1.
	case !long:
		return constantInt(int64(int32(u)))
	}
	return &expr{t: primitive(kindLong), eval: func(*frame) value.Value { return n }}
}

// floatLiteral returns a double, or with the suffix f a float. The number may have an exponent. Hexadecimal floats are
// not supported: the lexer ends them at the p.
func floatLiteral(t token) *expr {
	text, single := strings.ToLower(strings.ReplaceAll(t.text, "_", "")), false
	if strings.HasSuffix(text, "f") {
		text, single = text[:len(text)-1], true
	}
	text = strings.TrimSuffix(text, "d")
	bits := 64
	if single {
		bits = 32
	}
	// Parse with the precision of the type, because rounding twice may differ from Java in the last bit.
	x, err := strconv.ParseFloat(text, bits)
	// Too large. A literal that is too small becomes 0.
	if err != nil {
		invalid(t.line, "The literal %s is out of range ", t.text)
	}
	k := kindDouble
	if single {
		k = kindFloat
	}
	return &expr{t: primitive(k), eval: func(*frame) value.Value { return x }}
}

// typeName consumes a type. ok is false if the next tokens are not a type; the type is nil for var. Tokens are not
// consumed if ok is false.
func (c *compiler) typeName() (t *jtype, ok bool) {
	// Where the tokens are read again if they are no type.
	start := c.at
	if c.peek().kind != tokenName {
		return nil, false
	}
	name := c.name()
	// A package, which is part of the name.
	for c.peek().text == "." && c.ahead(1).kind == tokenName {
		c.next()
		name += "." + c.name()
	}
	// The declaration has the type of its initial value.
	if name == "var" {
		return nil, true
	}
	// A new value for each use: its elements are added below.
	t = namedType(name)
	if t == nil {
		c.at = start
		return nil, false
	}
	if c.peek().text == "<" {
		c.next()
		// At most two types of elements: no class has more here. Wildcards (List<?>) and arrays are not types here.
		for !c.closesType() {
			elem, ok := c.typeName()
			// Not a type after all: a variable may have such a name, and be compared.
			if !ok || elem == nil || len(t.elems) > 1 {
				c.at = start
				return nil, false
			}
			t.elems = append(t.elems, elem)
			if !strings.HasPrefix(c.peek().text, ">") && !c.symbol(",") {
				c.at = start
				return nil, false
			}
		}
		c.checkArity(t, name)
	}
	return t, true
}

// checkArity refuses a type with another number of type parameters than its class has. class is its name in the body.
func (c *compiler) checkArity(t *jtype, class string) {
	if want := map[kind]int{kindList: 1, kindSet: 1, kindMap: 2}[t.kind]; len(t.elems) != want {
		invalid(c.peek().line, "Incorrect number of arguments for type %s: it has %d type parameters", class, want)
	}
}

// closesType consumes the > that closes a list of type parameters. It may be the first character of >> or >>>, which
// the lexer reads as one symbol even if it closes two lists. closesType then splits the symbol permanently, because
// the tokens of a type are never read again as an expression.
//
// It inserts a token, so positions after the current one change.
func (c *compiler) closesType() bool {
	t := c.peek()
	if t.kind != tokenSymbol || t.text != ">" && t.text != ">>" && t.text != ">>>" {
		return false
	}
	if rest := t.text[1:]; rest != "" {
		// The rest becomes a separate symbol, for the enclosing list.
		c.tokens = slices.Insert(c.tokens, c.at+1, token{kind: tokenSymbol, text: rest, line: t.line})
		c.tokens[c.at].text = ">"
	}
	// The symbol is one > now.
	c.at++
	return true
}

// namedType returns the type with a name, or nil if it is not known. A collection has no type parameters yet: typeName
// adds them. The name is qualified or simple; other packages have no types here.
func namedType(name string) *jtype {
	// The kinds with a primitive type and a box. char is not among them: no variable has that type.
	for k := kindByte; k <= kindBoolean; k++ {
		switch name {
		case primitive(k).String():
			return primitive(k)
		case boxName(k), "java.lang." + boxName(k):
			return box(k)
		}
	}
	switch name {
	case "String", "java.lang.String":
		return primitive(kindString)
	case "java.math.BigInteger":
		return primitive(kindBigInteger)
	case "java.math.BigDecimal":
		return primitive(kindBigDecimal)
	case "Date", "java.util.Date":
		return primitive(kindDate)
	case "TupleValue":
		return primitive(kindTuple)
	case "UDTValue":
		return primitive(kindUDT)
	case "List", "java.util.List":
		return primitive(kindList)
	case "Set", "java.util.Set":
		return primitive(kindSet)
	case "Map", "java.util.Map":
		return primitive(kindMap)
	}
	// Every other name: the caller decides whether that is an error.
	return nil
}
