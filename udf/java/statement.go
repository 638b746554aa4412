package java

import (
	"strings"

	"cqld/udf/value"
)

// Statements become closures that return a signal. A closure that returns proceed has completed normally; any other
// signal ends the statements around it up to the one that handles it:
//
//	break       leaveLoop      handled by the innermost loop
//	continue    nextRound      handled by the innermost loop
//	return      leaveMethod    handled by Program.Run; the result is in the frame
//
// throw and failures are panics with *value.Fault, which Run recovers. The functions that compile statements also
// report whether the statement can complete normally. The compiler needs that for two rules of the language: a
// statement must be reachable, and a body must not end without return.

// signal determines how the enclosing statement continues.
type signal uint8

const (
	proceed signal = iota
	leaveLoop
	nextRound
	leaveMethod
)

// stmt executes a statement.
type stmt func(fr *frame) signal

// run executes statements until one of them leaves the list. It returns the signal of the statement that left the list.
func run(fr *frame, list []stmt) signal {
	for _, s := range list {
		if sig := s(fr); sig != proceed {
			return sig
		}
	}
	return proceed
}

// statement compiles a statement. ends reports whether it can complete normally. A label is not supported, so break and
// continue concern the innermost loop.
func (c *compiler) statement() (s stmt, ends bool) {
	c.enter()
	defer c.leave()
	t := c.peek()
	switch {
	case c.symbol(";"):
		return func(*frame) signal { return proceed }, true
	case t.kind == tokenSymbol && t.text == "{":
		return c.block()
	case t.kind != tokenName:
		return c.simple(true)
	}
	switch t.text {
	case "return":
		return c.returnStatement()
	case "if":
		return c.ifStatement()
	case "while":
		return c.whileStatement()
	case "for":
		return c.forStatement()
	case "throw":
		return c.throwStatement()
	case "break", "continue":
		c.next()
		c.expect(";")
		if c.loops == 0 {
			invalid(t.line, "%s cannot be used outside of a loop", t.text)
		}
		sig := leaveLoop
		c.broken = c.broken || t.text == "break"
		if t.text == "continue" {
			sig = nextRound
		}
		return func(*frame) signal { return sig }, false
	case "do", "switch", "try", "synchronized", "class", "assert", "yield", "interface", "enum":
		unsupported(t.line, "the statement "+t.text)
	}
	return c.simple(true)
}

// block compiles { … } with a scope of its own. Variables of the block are not visible after it; their slots stay.
func (c *compiler) block() (stmt, bool) {
	c.expect("{")
	c.open()
	defer c.close()
	var list []stmt
	ends := true
	for !c.symbol("}") {
		if t := c.peek(); t.kind == tokenEnd {
			invalid(t.line, "Syntax error, insert \"}\" to complete Block")
		} else if !ends {
			invalid(t.line, "Unreachable code")
		}
		var s stmt
		s, ends = c.statement()
		list = append(list, s)
	}
	return func(fr *frame) signal { return run(fr, list) }, ends
}

// scoped compiles the statement of if and loops. A declaration without a block is local to its branch or loop. Java
// forbids a declaration as the only statement of a branch; here it is accepted and has no effect.
func (c *compiler) scoped() (stmt, bool) {
	c.open()
	defer c.close()
	return c.statement()
}

// returnStatement compiles return e. A function always returns a value. Its value is converted to the type of the
// function.
func (c *compiler) returnStatement() (stmt, bool) {
	line := c.next().line
	e := convert(c.expression(), c.returns, line)
	c.expect(";")
	return func(fr *frame) signal {
		fr.m.Step()
		fr.result = e.eval(fr)
		return leaveMethod
	}, false
}

// condition compiles an expression in parentheses. Its value is a bool, also for the box Boolean, which fails for null.
// An Integer or a number is an error: Java has no truth of numbers.
func (c *compiler) condition() *expr {
	c.expect("(")
	line := c.peek().line
	e := convert(c.expression(), primitive(kindBoolean), line)
	c.expect(")")
	return e
}

// ifStatement compiles if. As in Java (JLS 14.22), it can complete if either branch can, even if its condition is
// constant, so that if (false) can disable code.
func (c *compiler) ifStatement() (stmt, bool) {
	c.next()
	condition := c.condition()
	then, thenEnds := c.scoped()
	// Without else, an if always can complete.
	otherwise, ends := stmt(func(*frame) signal { return proceed }), true
	if c.word("else") {
		otherwise, ends = c.scoped()
	}
	return func(fr *frame) signal {
		fr.m.Step()
		if condition.eval(fr) == true {
			return then(fr)
		}
		return otherwise(fr)
	}, thenEnds || ends
}

// loopBody compiles the body of a loop. broken reports whether it contains a break of this loop. It does not matter
// whether the body itself can complete. c.loops permits break and continue, and broken determines whether an endless
// loop can complete.
func (c *compiler) loopBody() (body stmt, broken bool) {
	// A break in the body belongs to this loop, not to the enclosing one.
	outer := c.broken
	c.broken = false
	c.loops++
	defer func() { c.loops, c.broken = c.loops-1, outer }()
	body, _ = c.scoped()
	return body, c.broken
}

// whileStatement compiles while. Java counts a loop with the condition true and without break as one that does not end.
// Only the literal true is recognized, not an expression such as 1 == 1, which Java counts as constant, too.
func (c *compiler) whileStatement() (stmt, bool) {
	c.next()
	at := c.at
	condition := c.condition()
	forever := c.tokens[at+1].text == "true" && c.tokens[at+2].text == ")"
	body, broken := c.loopBody()
	return loop(func(*frame) {}, condition, body, func(*frame) {}), !forever || broken
}

// loop returns a loop. begin is executed once, and after at the end of each iteration. Each iteration costs at least
// one step, so the bounds of the call end an endless loop.
func loop(begin func(*frame), condition *expr, body stmt, after func(*frame)) stmt {
	return func(fr *frame) signal {
		for begin(fr); condition.eval(fr) == true; after(fr) {
			fr.m.Step()
			switch body(fr) {
			case leaveLoop:
				return proceed
			case leaveMethod:
				return leaveMethod
			case proceed, nextRound:
			}
		}
		return proceed
	}
}

// forStatement compiles both forms of for. The variables of the first part are visible in the whole loop.
func (c *compiler) forStatement() (stmt, bool) {
	line := c.next().line
	c.expect("(")
	c.open()
	defer c.close()
	if s := c.forEach(line); s != nil {
		return s, true
	}
	begin := stmt(func(*frame) signal { return proceed })
	if !c.symbol(";") {
		begin, _ = c.simple(true)
	}
	// Such a loop never completes, which the callers of this method do not expect.
	if c.peek().text == ";" {
		unsupported(line, "a loop without a condition")
	}
	forever := c.peek().text == "true" && c.tokens[c.at+1].text == ";"
	condition := convert(c.expression(), primitive(kindBoolean), line)
	c.expect(";")
	after := stmt(func(*frame) signal { return proceed })
	if c.peek().text != ")" {
		after, _ = c.simple(false)
	}
	c.expect(")")
	body, broken := c.loopBody()
	return loop(func(fr *frame) { begin(fr) }, condition, body, func(fr *frame) { after(fr) }), !forever || broken
}

// forEach compiles for (T x : collection), or returns nil if it is another kind of loop. It iterates over a table in
// the order of insertion. A body may remove the current element; there is no ConcurrentModificationException.
func (c *compiler) forEach(line int) stmt {
	start := c.at
	t, ok := c.typeName()
	if !ok || c.peek().kind != tokenName || c.ahead(1).text != ":" {
		c.at = start
		return nil
	}
	name := c.name()
	c.expect(":")
	in := c.expression()
	c.expect(")")
	if in.t.kind != kindList && in.t.kind != kindSet && in.t.kind != kindCollection {
		invalid(line, "Can only iterate over an array or an instance of java.lang.Iterable")
	}
	// The element is a value in the slot of the variable, and is converted there.
	if len(in.t.elems) == 0 {
		unsupported(line, in.t.String()+" without the types of its elements")
	}
	element := &expr{t: in.t.elems[0]}
	if t == nil {
		t = element.t
	}
	v := c.declare(name, t, line)
	slot := v.slot
	element.eval = func(fr *frame) value.Value { return fr.vars[slot] }
	converted := convert(element, t, line)
	body, _ := c.loopBody()
	keys := in.t.kind == kindSet
	return func(fr *frame) signal {
		table := deref(in.eval(fr), in, "iterator()")
		for k, e, at := table.Next(fr.m, 0); at >= 0; k, e, at = table.Next(fr.m, at) {
			fr.m.Step()
			if fr.vars[slot] = e; keys {
				fr.vars[slot] = k
			}
			// An element that is null fails here if the variable is primitive.
			fr.vars[slot] = converted.eval(fr)
			switch body(fr) {
			case leaveLoop:
				return proceed
			case leaveMethod:
				return leaveMethod
			case proceed, nextRound:
			}
		}
		return proceed
	}
}

// throwStatement compiles throw new E(message). There is no catch, so an exception always ends the call. The class need
// not exist: its name becomes the message.
func (c *compiler) throwStatement() (stmt, bool) {
	line := c.next().line
	if !c.word("new") {
		unsupported(line, "throw of a variable")
	}
	class := c.qualified()
	if !strings.HasSuffix(class, "Exception") && !strings.HasSuffix(class, "Error") {
		invalid(line, "%s cannot be resolved to a type", class)
	}
	if !strings.Contains(class, ".") {
		class = "java.lang." + class
	}
	c.expect("(")
	message := &expr{t: primitive(kindNull), eval: func(*frame) value.Value { return nil }}
	if c.peek().text != ")" {
		message = convert(c.expression(), primitive(kindString), line)
	}
	c.expect(")")
	c.expect(";")
	return func(fr *frame) signal {
		if s, ok := message.eval(fr).(string); ok {
			value.Failf("%s: %s", class, s)
		}
		value.Failf("%s", class)
		return leaveMethod
	}, false
}

// qualified returns a name with dots. It is used where only classes can stand.
func (c *compiler) qualified() string {
	name := c.name()
	for c.symbol(".") {
		name += "." + c.name()
	}
	return name
}

// simple compiles a declaration, an assignment or an expression, with a semicolon if it is a statement of its own. The
// last part of for has no semicolon. An expression without an effect is refused, as in Java.
func (c *compiler) simple(semicolon bool) (stmt, bool) {
	end := func() {
		if semicolon {
			c.expect(";")
		}
	}
	if final := c.word("final"); final || c.declares() {
		s := c.declaration(final)
		end()
		return s, true
	}
	line := c.peek().line
	// An assignment begins with a variable, and so may an expression such as list.add(1).
	if t := c.peek(); t.kind == tokenName && c.find(t.text) != nil {
		if s := c.assignment(); s != nil {
			end()
			return s, true
		}
	}
	e := c.expression()
	if !e.effect {
		invalid(line, "Syntax error: the expression is not a statement")
	}
	end()
	return func(fr *frame) signal { fr.m.Step(); e.eval(fr); return proceed }, true
}

// declares reports whether the next tokens are a type and a name. It consumes nothing. A local variable of an unknown
// type is not recognized, and is refused as an expression.
func (c *compiler) declares() bool {
	start := c.at
	defer func() { c.at = start }()
	_, ok := c.typeName()
	return ok && c.peek().kind == tokenName
}

// declaration compiles T a = x, b = y, with var in place of T if it has no type. All variables of one declaration have
// one type.
func (c *compiler) declaration(final bool) stmt {
	line := c.peek().line
	t, ok := c.typeName()
	if !ok {
		invalid(line, "%s cannot be resolved to a type", c.peek().text)
	}
	var list []stmt
	for {
		name := c.name()
		if !c.symbol("=") {
			unsupported(line, "the declaration of "+name+" without an initial value")
		}
		e := c.expression()
		declared := t
		if declared == nil { // var
			if declared = e.t; e.t.kind == kindNull || e.t.kind == kindVoid {
				invalid(line, "Cannot infer type for local variable initialized to '%s'", e.t)
			}
		}
		if declared.kind == e.t.kind && (declared.kind == kindTuple || declared.kind == kindUDT) &&
			declared.cql == nil {
			declared = e.t // their fields follow from the value
		}
		// Convert before declaring the name, which the initial value must not use.
		e = convert(e, declared, line)
		v := c.declare(name, declared, line)
		v.final = final
		slot := v.slot
		list = append(list, func(fr *frame) signal {
			fr.m.Step()
			fr.vars[slot] = e.eval(fr)
			return proceed
		})
		if !c.symbol(",") {
			return func(fr *frame) signal { return run(fr, list) }
		}
	}
}

// assignable refuses the assignment to a final variable. Parameters are not final.
func (c *compiler) assignable(v *variable, line int) {
	if v.final {
		invalid(line, "A final local variable cannot be assigned")
	}
}

// assignment compiles an assignment to a variable, or x++ and x--; it returns nil if the next tokens are not an
// assignment. The value of an assignment cannot be used: it is a statement.
func (c *compiler) assignment() stmt {
	op := c.ahead(1)
	if op.kind != tokenSymbol {
		return nil
	}
	switch op.text {
	case "=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>=", ">>>=", "++", "--":
	default:
		return nil
	}
	v := c.find(c.name())
	c.next()
	line := op.line
	c.assignable(v, line)
	old := c.variableExpr(v)
	var e *expr
	switch op.text {
	case "=":
		e = convert(c.expression(), v.t, line)
	case "++", "--":
		one := constantInt(1)
		if !v.t.numeric() {
			invalid(line, "Type mismatch: cannot convert from %s to double", v.t)
		}
		e = cast(binary(op.text[:1], old, one, line), v.t.unboxed(), line)
	default:
		// a op= b includes a cast to the type of a, so b += 1 is valid for a byte.
		sum := binary(strings.TrimSuffix(op.text, "="), old, c.expression(), line)
		if v.t.numeric() && (!v.t.boxed || sum.t.kind == v.t.kind) { // a box is not cast from another type
			e = cast(sum, v.t.unboxed(), line)
		} else {
			e = convert(sum, v.t, line)
		}
	}
	return func(fr *frame) signal {
		fr.m.Step()
		fr.vars[v.slot] = e.eval(fr)
		return proceed
	}
}
