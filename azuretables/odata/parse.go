package odata

import "strconv"

// ParseFilter parses a $filter; the result of an empty one is nil. Operators in order of precedence, highest first: not
// and minus, comparisons, and, or. A value may be on either side of a comparison; a name alone is a Boolean property
// that must be true. Errors: InvalidInput with the service's message; NotImplemented for OData syntax that the Table
// service does not support.
func ParseFilter(filter string, l *Limits) (Expr, error) {
	if len(filter) > l.FilterBytes {
		return nil, invalid("The $filter is longer than " + strconv.Itoa(l.FilterBytes) + " bytes.")
	}
	p := parser{lexer: lexer{text: filter}, limits: l}
	if err := p.next(); err != nil || p.token.kind == tokenEnd {
		return nil, err
	}
	o, err := p.or()
	if err != nil {
		return nil, err
	}
	if p.token.kind != tokenEnd {
		return nil, p.errSyntax()
	}
	return p.boolean(o)
}

// parser is a recursive descent parser of tokens; depth bounds the recursion.
type parser struct {
	lexer
	limits      *Limits
	depth       int
	comparisons int
}

// operand is an operand: a Boolean Expr, or else a property, or else a value.
type operand struct {
	expr     Expr
	property string
	value    Value
}

func (p *parser) is(word string) bool { return p.token.kind == tokenName && p.token.text == word }

func (p *parser) or() (operand, error) {
	left, err := p.and()
	for err == nil && p.is("or") {
		left, err = p.joined(left, p.and, func(l, r Expr) Expr { return &Or{l, r} })
	}
	return left, err
}

func (p *parser) and() (operand, error) {
	left, err := p.comparison()
	for err == nil && p.is("and") {
		left, err = p.joined(left, p.comparison, func(l, r Expr) Expr { return &And{l, r} })
	}
	return left, err
}

// joined skips the operator, parses its right side, and combines both.
func (p *parser) joined(left operand, side func() (operand, error), join func(l, r Expr) Expr) (operand, error) {
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

// boolean returns the operand as a condition.
func (p *parser) boolean(o operand) (Expr, error) {
	switch {
	case o.expr != nil:
		return o.expr, nil
	case o.property != "":
		return p.compared(&Comparison{Property: o.property, Op: Eq, Value: Value{Type: Boolean, Int: 1}})
	case o.value.Type == Boolean:
		if err := p.count(); err != nil {
			return nil, err
		}
		return &Constant{True: o.value.Int != 0}, nil
	}
	return nil, newError(InvalidInput)
}

func (p *parser) compared(c *Comparison) (Expr, error) {
	if err := p.count(); err != nil {
		return nil, err
	}
	return c, nil
}

func (p *parser) count() error {
	if p.comparisons++; p.comparisons > p.limits.Comparisons {
		return invalid("The $filter has more than " + strconv.Itoa(p.limits.Comparisons) + " comparisons.")
	}
	return nil
}

func (p *parser) comparison() (operand, error) {
	left, err := p.unary()
	for err == nil && p.token.kind == tokenName {
		op := opOf(p.token.text)
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

func opOf(word string) Op {
	switch word {
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

// reserved reports whether a word is an operator. A property may have such a name.
func reserved(word string) bool {
	switch word {
	case "and", "or", "not":
		return true
	}
	return opOf(word) != 0
}

// unlessArithmetic refuses OData operators that the service does not support.
func (p *parser) unlessArithmetic() error {
	switch p.token.text {
	case "add", "sub", "mul", "div", "mod":
		return newError(NotImplemented)
	}
	return nil
}

// compare returns the condition for two operands: a property and a value, in either order. It evaluates a comparison of
// two values; a condition can only be compared with true and false.
func (p *parser) compare(left operand, op Op, right operand) (operand, error) {
	leftValue, rightValue := left.value.Type != 0, right.value.Type != 0
	switch {
	case leftValue && !rightValue:
		return p.compare(right, flipped(op), left)
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
	case leftValue:
		if err := p.count(); err != nil {
			return operand{}, err
		}
		return operand{expr: &Constant{True: left.value.matches(op, &right.value)}}, nil
	}
	e, err := p.compared(&Comparison{Property: left.property, Op: op, Value: right.value})
	return operand{expr: e}, err
}

// flipped returns the operator for exchanged sides.
func flipped(op Op) Op {
	switch op {
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

func (p *parser) unary() (operand, error) {
	if p.token.kind != tokenMinus && !p.is("not") {
		return p.primary()
	}
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
	if minus {
		return o, o.value.negate()
	}
	e, err := p.boolean(o)
	return operand{expr: &Not{e}}, err
}

// negate applies the unary minus to a literal; a property cannot be negated.
func (v *Value) negate() error {
	switch v.Type {
	case Double:
		v.Float = -v.Float
		return nil
	case Int32, Int64:
		v.Int = -v.Int
		return nil
	case 0:
		return newError(NotImplemented)
	}
	return newError(InvalidInput)
}

func (p *parser) deeper() error {
	if p.depth++; p.depth > p.limits.FilterDepth {
		return invalid("Recursion depth exceeded allowed limit.")
	}
	return nil
}

func (p *parser) shallower() { p.depth-- }

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

func (p *parser) parentheses() (operand, error) {
	if err := p.deeper(); err != nil {
		return operand{}, err
	}
	defer p.shallower()
	if err := p.next(); err != nil {
		return operand{}, err
	}
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
// parenthesis.
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
		if want := [...]tokenKind{tokenComma, tokenClose}[i]; p.token.kind != want {
			return operand{}, p.errAt("')' or ',' expected", p.token.at)
		}
	}
	property, value := arguments[0], arguments[1]
	if name == "substringof" {
		property, value = value, property
	}
	if property.property == "" || value.value.Type != String {
		return operand{}, newError(InvalidInput)
	}
	e, err := p.compared(&Comparison{Property: property.property, Op: op, Value: value.value})
	if err != nil {
		return operand{}, err
	}
	return operand{expr: e}, p.next()
}
