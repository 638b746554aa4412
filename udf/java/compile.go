package java

import (
	"fmt"

	"cqld/types"
	"cqld/udf/value"
)

// Program is a compiled function. It is immutable: calls share nothing.
type Program struct {
	body   []stmt
	slots  int
	params int
}

// Function is what a body is compiled for.
type Function struct {
	Body         string
	ArgNames     []string
	ArgTypes     []*types.Type
	Returns      *types.Type
	CalledOnNull bool // arguments and the result are boxes; otherwise primitive types
}

// Unsupported is the error of a body that is Java, but outside of the subset.
type Unsupported struct {
	Line int
	What string
}

// Error returns what is not supported.
func (e *Unsupported) Error() string {
	return fmt.Sprintf("Line %d: %s is not supported", e.Line, e.What)
}

// Invalid is the error of a body that a Java compiler refuses, in its words.
type Invalid struct {
	Line int
	Msg  string
}

// Error returns the message.
func (e *Invalid) Error() string { return fmt.Sprintf("Line %d: %s", e.Line, e.Msg) }

func unsupported(line int, what string) { panic(&Unsupported{line, what}) }

func invalid(line int, format string, args ...any) {
	panic(&Invalid{line, fmt.Sprintf(format, args...)})
}

// Compile compiles a function. Errors are *Unsupported and *Invalid.
func Compile(f Function) (p *Program, err error) {
	defer func() {
		switch e := recover().(type) {
		case nil:
		case *Unsupported:
			err = e
		case *Invalid:
			err = e
		default:
			panic(e)
		}
	}()
	c := &compiler{source: source{tokens: lex(f.Body)}, returns: fromCQL(f.Returns, f.CalledOnNull)}
	c.open()
	for i, name := range f.ArgNames {
		v := c.declare(name, fromCQL(f.ArgTypes[i], f.CalledOnNull), 1)
		v.param = i + 1
	}
	var body []stmt
	c.open()
	ends := true
	for c.peek().kind != tokenEnd {
		if !ends {
			invalid(c.peek().line, "Unreachable code")
		}
		var s stmt
		s, ends = c.statement()
		body = append(body, s)
	}
	if ends {
		invalid(c.peek().line, "This method must return a result of type %s", c.returns)
	}
	return &Program{body: body, slots: c.slots, params: len(f.ArgNames)}, nil
}

// compiler compiles a body in one pass over its tokens.
type compiler struct {
	source
	scopes
	returns *jtype
	loops   int
	broken  bool // the loop that is compiled contains break
	depth   int
}

// Bounds of a body.
const (
	nestingMax   = 100
	variablesMax = 200
)

// enter counts a level of nesting, so that neither compilation nor execution exhausts the stack.
func (c *compiler) enter() {
	if c.depth++; c.depth > nestingMax {
		unsupported(c.peek().line, fmt.Sprintf("nesting of more than %d levels", nestingMax))
	}
}

func (c *compiler) leave() { c.depth-- }

// frame is a call in progress.
type frame struct {
	m      *value.Meter
	vars   []value.Value
	result value.Value
}

// Run calls the program and returns its result. Errors are *value.Exceeded and *value.Fault.
func (p *Program) Run(m *value.Meter, args []value.Value) (result value.Value, err error) {
	defer value.Catch(&err)
	m.Alloc(int64(16*p.slots + 64))
	fr := &frame{m: m, vars: make([]value.Value, p.slots)}
	copy(fr.vars, args)
	run(fr, p.body)
	return fr.result, nil
}
