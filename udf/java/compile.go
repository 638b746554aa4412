package java

import (
	"fmt"

	"cqld/types"
	"cqld/udf/value"
)

// Program is a compiled function. It is immutable: calls share nothing. All state of a call is in its frame. Package
// udf caches programs.
type Program struct {
	body []stmt
	// slots is the length of frame.vars: one slot for each variable, and for each value that is kept during a method
	// call.
	slots int
	// params is the number of parameters, which have the first slots in order.
	params int
}

// Function is the input of Compile. ArgNames and ArgTypes have the same length. The body is the text between the
// quotes of CREATE FUNCTION: statements, without the header of a method.
type Function struct {
	Body     string
	ArgNames []string
	ArgTypes []*types.Type
	// Returns is the type of the result. The body cannot access the name and the keyspace of the function.
	Returns *types.Type
	// CalledOnNull means CALLED ON NULL INPUT: arguments and the result are boxes, which may be null. Otherwise they
	// have primitive types.
	CalledOnNull bool
}

// Unsupported is the error of a body that is Java, but outside of the subset. A Java compiler may accept the body, so
// the message says that the server does not support it. The message begins with the line of the body, so that a user
// can find the place.
type Unsupported struct {
	// The line in the body, from 1.
	Line int
	// What names the unsupported construct; the message continues with "is not supported".
	What string
}

// Error returns what is not supported.
func (e *Unsupported) Error() string {
	return fmt.Sprintf("Line %d: %s is not supported", e.Line, e.What)
}

// Invalid is the error of a body that a Java compiler rejects. Messages follow the Eclipse compiler, which Cassandra
// uses, as far as they are known.
type Invalid struct {
	Line int
	// The message of a Java compiler, without the line.
	Msg string
}

// Error returns the message.
func (e *Invalid) Error() string { return fmt.Sprintf("Line %d: %s", e.Line, e.Msg) }

// unsupported ends the compilation. The compiler is recursive, and Compile recovers the panic.
func unsupported(line int, what string) { panic(&Unsupported{line, what}) }

// invalid ends the compilation, as unsupported does. format is a format of fmt.Sprintf.
func invalid(line int, format string, args ...any) {
	panic(&Invalid{line, fmt.Sprintf(format, args...)})
}

// Compile compiles a function. Errors are *Unsupported and *Invalid. It compiles in one pass, without a syntax tree:
// variables are declared before use, so the types in an expression are known when it is parsed.
//
// f.Body may be hostile: its tokens, its nesting and its variables are bounded, and compiling takes time in
// proportion to its length. Nothing in it is executed.
func Compile(f Function) (p *Program, err error) {
	defer func() {
		// The compiler reports its two errors by panics, so that its recursive methods need no error results.
		switch e := recover().(type) {
		case nil:
		case *Unsupported:
			err = e
		case *Invalid:
			err = e
		// Any other panic is a bug in the compiler.
		default:
			panic(e)
		}
	}()
	// RETURNS NULL ON NULL INPUT gives primitive types, because no argument can be null then.
	c := &compiler{source: source{tokens: lex(f.Body)}, returns: fromCQL(f.Returns, f.CalledOnNull)}
	// Open the scope of the parameters.
	c.open()
	for i, name := range f.ArgNames {
		v := c.declare(name, fromCQL(f.ArgTypes[i], f.CalledOnNull), 1)
		// Messages of exceptions contain the number, as in a Java virtual machine.
		v.param = i + 1
	}
	var body []stmt
	// The body has its own scope, but declare rejects names of parameters.
	c.open()
	ends := true
	for c.peek().kind != tokenEnd {
		// As in Java, a statement after return, break, continue or an endless loop is an error.
		if !ends {
			invalid(c.peek().line, "Unreachable code")
		}
		var s stmt
		s, ends = c.statement()
		// The body is a block without braces.
		body = append(body, s)
	}
	if ends {
		invalid(c.peek().line, "This method must return a result of type %s", c.returns)
	}
	// No slot was used twice, so their number is the size of a frame.
	return &Program{body: body, slots: c.slots, params: len(f.ArgNames)}, nil
}

// compiler compiles a body in one pass over its tokens. It is used once. Errors are panics, after which its state is
// not used.
type compiler struct {
	source
	scopes
	// returns is the type to which every return statement converts its value.
	returns *jtype
	// loops is the number of loops around the current statement.
	loops int
	// broken means that the current loop contains break; only then can a loop with the condition true complete
	// normally. loopBody saves and restores it.
	broken bool
	// depth is the current level of nesting (enter, leave).
	depth int
}

// Bounds of a body.
const (
	// Levels of blocks and expressions, and of operators and calls in a row. Each level costs a few frames of Go's
	// stack, in the compiler and in each call.
	nestingMax = 100
	// Parameters count as well.
	variablesMax = 200
)

// enter counts a level of nesting, so that neither compilation nor execution exhausts the stack. Every recursive
// method must call it.
func (c *compiler) enter() {
	// The compiler recurses through its methods, and a call through closures.
	if c.depth++; c.depth > nestingMax {
		unsupported(c.peek().line, fmt.Sprintf("nesting of more than %d levels", nestingMax))
	}
}

// leave ends what enter has begun.
func (c *compiler) leave() { c.depth-- }

// frame is a call in progress. Each call has its own, so a Program can be executed concurrently. Run counts its
// memory once.
type frame struct {
	// m counts the work and memory of the call, and panics when a bound is exceeded; Run recovers the panic.
	m *value.Meter
	// vars is indexed by slot. An int is stored as int64 (see expr).
	vars []value.Value
	// result is set by the return statement, which the compiler guarantees to be reached.
	result value.Value
}

// Run calls the program and returns its result. Errors are *value.Exceeded and *value.Fault. args has one value for
// each parameter, in the form that package value describes; with CalledOnNull, a value may be nil. After an error,
// arguments keep the changes that the body has made.
func (p *Program) Run(m *value.Meter, args []value.Value) (result value.Value, err error) {
	defer value.Catch(&err)
	// Count the memory before allocating it. An interface takes 16 bytes.
	m.Alloc(int64(16*p.slots + 64))
	fr := &frame{m: m, vars: make([]value.Value, p.slots)}
	// The parameters were declared first, so they have the first slots.
	copy(fr.vars, args)
	// The body always ends with return or throw, so the signal does not matter.
	run(fr, p.body)
	return fr.result, nil
}
