package odata

import "strconv"

// ParseFilter parses a $filter; the result of an empty one is nil. Operators in order of precedence, highest first: not
// and minus, comparisons, and, or. A value may be on either side of a comparison; a name alone is a Boolean property
// that must be true. Errors: InvalidInput with the service's message; NotImplemented for OData syntax that the Table
// service does not support. The result has no comparison of two literals: their result is a Constant.
//
// White space separates tokens. Names and keywords are case-sensitive; eq, not EQ.
func ParseFilter(filter string, l *Limits) (Expr, error) {
	if len(filter) > l.FilterBytes {
		return nil, invalid("The $filter is longer than " + strconv.Itoa(l.FilterBytes) + " bytes.")
	}
	p := parser{lexer: lexer{text: filter}, limits: l}
	// Only white space is an empty filter, too.
	if err := p.next(); err != nil || p.token.kind == tokenEnd {
		return nil, err
	}
	o, err := p.or()
	if err != nil {
		return nil, err
	}
	// A complete expression is followed by something else.
	if p.token.kind != tokenEnd {
		return nil, p.errSyntax()
	}
	// A single property or literal is a condition only if it is Boolean.
	return p.boolean(o)
}

// parser is a recursive descent parser of tokens; depth bounds the recursion. It has a method for each rule:
//
//	or         = and { "or" and }
//	and        = comparison { "and" comparison }
//	comparison = unary { op unary }               op is eq, ne, gt, ge, lt or le
//	unary      = ( "not" | "-" ) unary | primary
//	primary    = literal | name | function | "(" or ")"
//	function   = name "(" unary "," unary ")"
//
// It builds the Expr while it parses: a rule returns an operand, which joined and compare check. Tokens come from
// lexer; token is the one that is next.
type parser struct {
	lexer
	limits      *Limits
	depth       int // nesting of parentheses, not and minus
	comparisons int // so far, including constants
}

// operand is an operand: a Boolean Expr, or else a property, or else a value. Exactly one field is set; an operand with
// no field set follows an error. The parser cannot know before whether a name is a property or a condition.
type operand struct {
	expr     Expr
	property string
	value    Value
}

// is reports whether the current token is a keyword. Keywords are case-sensitive. A name in quotes is a literal, never
// a keyword.
func (p *parser) is(word string) bool { return p.token.kind == tokenName && p.token.text == word }

// or parses conjunctions that are joined by or, from the left. or has the lowest precedence, so this is also the start
// of an expression.
func (p *parser) or() (operand, error) {
	left, err := p.and()
	// A loop and not a recursion: a long chain needs no depth.
	for err == nil && p.is("or") {
		left, err = p.joined(left, p.and, func(l, r Expr) Expr { return &Or{l, r} })
	}
	return left, err
}

// and parses comparisons that are joined by and. Its operators are left-associative, which matters for the form of the
// Expr only.
func (p *parser) and() (operand, error) {
	left, err := p.comparison()
	for err == nil && p.is("and") {
		left, err = p.joined(left, p.comparison, func(l, r Expr) Expr { return &And{l, r} })
	}
	return left, err
}

// joined skips the operator, parses its right side, and combines both. Both must be conditions. A property or a Boolean
// literal on either side becomes a condition. side is the rule of the right side.
func (p *parser) joined(left operand, side func() (operand, error), join func(l, r Expr) Expr) (operand, error) {
	// The left side is checked first, so that its error is the one that is reported.
	l, err := p.boolean(left)
	if err != nil {
		return operand{}, err
	}
	if err := p.next(); err != nil {
		return operand{}, err
	}
	right, err := side()
	if err != nil {
		return operand{}, err
	}
	r, err := p.boolean(right)
	if err != nil {
		return operand{}, err
	}
	return operand{expr: join(l, r)}, nil
}

// boolean returns the operand as a condition. A property alone is compared with true. Other operands are InvalidInput.
// It counts the comparisons that it makes.
func (p *parser) boolean(o operand) (Expr, error) {
	switch {
	case o.expr != nil:
		return o.expr, nil
	case o.property != "":
		return p.compared(&Comparison{Property: o.property, Op: Eq, Value: Value{Type: Boolean, Int: 1}})
	case o.value.Type == Boolean:
		// Constants count, too, so that a filter of constants is bounded.
		if err := p.count(); err != nil {
			return nil, err
		}
		return &Constant{True: o.value.Int != 0}, nil
	}
	return nil, newError(InvalidInput)
}

// compared counts a comparison and returns it. The limit is on the text's comparisons, not on evaluated ones.
func (p *parser) compared(c *Comparison) (Expr, error) {
	if err := p.count(); err != nil {
		return nil, err
	}
	return c, nil
}

// count refuses a filter with too many comparisons. Each costs a comparison for every entity read. The first one beyond
// the limit is refused.
func (p *parser) count() error {
	if p.comparisons++; p.comparisons > p.limits.Comparisons {
		return invalid("The $filter has more than " + strconv.Itoa(p.limits.Comparisons) + " comparisons.")
	}
	return nil
}

// comparison parses an operand, and comparisons from the left: a eq b eq true compares the result.
func (p *parser) comparison() (operand, error) {
	left, err := p.unary()
	for err == nil && p.token.kind == tokenName {
		op := opOf(p.token.text)
		// Another name follows; and, or and arithmetic are the caller's, or an error there.
		if op == 0 {
			return left, p.unlessArithmetic()
		}
		if err = p.next(); err != nil {
			break
		}
		var right operand
		if right, err = p.unary(); err != nil {
			break
		}
		left, err = p.compare(left, op, right)
	}
	return left, err
}

// opOf returns the operator for a keyword, or 0. The zero Op means that the word is not an operator.
func opOf(word string) Op {
	switch word {
	// Keywords are in lower case only.
	case "eq":
		return Eq
	case "ne":
		return Ne
	case "gt":
		return Gt
	case "ge":
		return Ge
	case "lt":
		return Lt
	case "le":
		return Le
	}
	return 0
}

// reserved reports whether a word is an operator. A property may have such a name. The parser therefore finds a missing
// operand only where two properties are compared. Its result is a hint for an error, not a rule of the grammar.
func reserved(word string) bool {
	switch word {
	case "and", "or", "not":
		return true
	}
	return opOf(word) != 0
}

// unlessArithmetic refuses OData operators that the service does not support. Other words are a syntax error, which
// the caller reports.
func (p *parser) unlessArithmetic() error {
	switch p.token.text {
	case "add", "sub", "mul", "div", "mod":
		return newError(NotImplemented)
	}
	return nil
}

// compare returns the condition for two operands: a property and a value, in either order. It evaluates a comparison of
// two values; a condition can only be compared with true and false. It is recursive once, for a value on the left. A
// comparison of two properties is NotImplemented, as in the service.
func (p *parser) compare(left operand, op Op, right operand) (operand, error) {
	leftValue, rightValue := left.value.Type != 0, right.value.Type != 0
	switch {
	// A value on the left: the same comparison with the sides exchanged.
	case leftValue && !rightValue:
		return p.compare(right, flipped(op), left)
	// (a eq 1) eq true is a eq 1 itself, and eq false its negation.
	case left.expr != nil && rightValue && right.value.Type == Boolean && (op == Eq || op == Ne):
		if (right.value.Int != 0) == (op == Eq) {
			return left, nil
		}
		return operand{expr: &Not{left.expr}}, nil
	case left.expr != nil || right.expr != nil:
		return operand{}, newError(InvalidInput)
	case !leftValue && !rightValue && (reserved(left.property) || reserved(right.property)):
		return operand{}, p.errSyntax() // an operand is missing, as in a eq and b eq 1
	case !leftValue && !rightValue: // two properties
		return operand{}, newError(NotImplemented)
	// Two values: the result is known now, and no entity is needed.
	case leftValue:
		if err := p.count(); err != nil {
			return operand{}, err
		}
		return operand{expr: &Constant{True: left.value.matches(op, &right.value)}}, nil
	}
	e, err := p.compared(&Comparison{Property: left.property, Op: op, Value: right.value})
	return operand{expr: e}, err
}

// flipped returns the operator for exchanged sides. Eq and Ne are symmetric. It is used when the value was on the left.
func flipped(op Op) Op {
	switch op {
	// a gt b is b lt a.
	case Gt:
		return Lt
	case Ge:
		return Le
	case Lt:
		return Gt
	case Le:
		return Ge
	}
	return op
}

// unary parses not and minus, which may be repeated, before a primary. not not x is valid.
func (p *parser) unary() (operand, error) {
	if p.token.kind != tokenMinus && !p.is("not") {
		return p.primary()
	}
	// The recursion is bounded like the recursion of parentheses.
	if err := p.deeper(); err != nil {
		return operand{}, err
	}
	defer p.shallower()
	minus := p.token.kind == tokenMinus
	if err := p.next(); err != nil {
		return operand{}, err
	}
	o, err := p.unary()
	if err != nil {
		return o, err
	}
	// The literal -5 is one token; this is the minus before a parenthesis, a space or another minus.
	if minus {
		return o, o.value.negate()
	}
	e, err := p.boolean(o)
	return operand{expr: &Not{e}}, err
}

// negate applies the unary minus to a literal; a property cannot be negated. An Int32 that exceeds its range by the
// negation keeps its type: values are compared as 64-bit numbers. It changes v in place.
func (v *Value) negate() error {
	switch v.Type {
	case Double:
		v.Float = -v.Float
		return nil
	case Int32, Int64:
		v.Int = -v.Int
		return nil
	// Type 0 is not a literal.
	case 0:
		return newError(NotImplemented)
	}
	return newError(InvalidInput)
}

// deeper enters a level of recursion. The message is the service's. Each level costs a few stack frames, in the parser
// and in Matches.
func (p *parser) deeper() error {
	if p.depth++; p.depth > p.limits.FilterDepth {
		return invalid("Recursion depth exceeded allowed limit.")
	}
	return nil
}

// shallower leaves it. Every deeper has one shallower, deferred.
func (p *parser) shallower() { p.depth-- }

// primary parses a literal, a name, a call or an expression in parentheses. It consumes what it returns.
func (p *parser) primary() (operand, error) {
	switch p.token.kind {
	case tokenLiteral:
		o := operand{value: p.token.value}
		return o, p.next()
	case tokenOpen:
		return p.parentheses()
	case tokenName:
		name := p.token.text
		if err := p.next(); err != nil {
			return operand{}, err
		}
		// A name before a parenthesis is a function, even if a property has that name.
		if p.token.kind == tokenOpen {
			return p.function(name)
		}
		if name == "null" { // the service responds so: it has no null values
			return operand{}, newError(InvalidInput)
		}
		return operand{property: name}, nil
	}
	return operand{}, p.errAt("Expression expected", p.token.at)
}

// parentheses parses an expression in parentheses; the current token is the opening one. Parentheses leave no trace in
// the Expr.
func (p *parser) parentheses() (operand, error) {
	if err := p.deeper(); err != nil {
		return operand{}, err
	}
	defer p.shallower()
	if err := p.next(); err != nil {
		return operand{}, err
	}
	// The whole grammar is allowed inside parentheses, also a single value.
	o, err := p.or()
	if err != nil {
		return o, err
	}
	if p.token.kind != tokenClose {
		return o, p.errAt("')' or operator expected", p.token.at)
	}
	return o, p.next()
}

// function parses startswith(p,'x'), contains(p,'x') and OData 3's substringof('x',p); the current token is the
// parenthesis. The result is a condition. Other functions are NotImplemented. A function counts as one comparison. The
// name of a function is case-sensitive.
func (p *parser) function(name string) (operand, error) {
	op := Contains
	switch name {
	case "startswith":
		op = StartsWith
	case "contains", "substringof":
	default:
		return operand{}, newError(NotImplemented)
	}
	var arguments [2]operand
	for i := range arguments {
		if err := p.next(); err != nil { // skip ( and ,
			return operand{}, err
		}
		var err error
		if arguments[i], err = p.unary(); err != nil {
			return operand{}, err
		}
		// The first argument ends at a comma, the second at the closing parenthesis.
		if want := [...]tokenKind{tokenComma, tokenClose}[i]; p.token.kind != want {
			return operand{}, p.errAt("')' or ',' expected", p.token.at)
		}
	}
	property, value := arguments[0], arguments[1]
	// substringof has its arguments in the opposite order.
	if name == "substringof" {
		property, value = value, property
	}
	// Literals on both sides and nested conditions are not supported.
	if property.property == "" || value.value.Type != String {
		return operand{}, newError(InvalidInput)
	}
	e, err := p.compared(&Comparison{Property: property.property, Op: op, Value: value.value})
	if err != nil {
		return operand{}, err
	}
	return operand{expr: e}, p.next()
}
