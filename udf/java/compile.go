package java

import (
	"fmt"

	"cqld/types"
	"cqld/udf/value"
)

// Program is a compiled function. It is immutable: calls share nothing. All state of a call is in its frame. Package
// udf keeps programs for several calls.
type Program struct {
	body []stmt
	// Length of frame.vars: the variables, and values that are kept while a method is called.
	slots int
	// The number of parameters. They have the first slots, in their order.
	params int
}

// Function is what a body is compiled for. ArgNames and ArgTypes have the same length. The body is the text between the
// quotes of CREATE FUNCTION: statements, without the header of a method.
type Function struct {
	Body     string
	ArgNames []string
	ArgTypes []*types.Type
	// Nothing else about the function matters to the compiler: its name and its keyspace are not visible to the body.
	Returns *types.Type
	// CALLED ON NULL INPUT: arguments and the result are boxes, which may be null. Otherwise they have primitive types.
	CalledOnNull bool
}

// Unsupported is the error of a body that is Java, but outside of the subset. A Java compiler may accept the body, so
// the message says that the server is the reason. The message begins with the line of the body, so that a user can find
// the place.
type Unsupported struct {
	// The line in the body, from 1.
	Line int
	// What is used, as a noun: the message continues with "is not supported".
	What string
}

// Error returns what is not supported.
func (e *Unsupported) Error() string {
	return fmt.Sprintf("Line %d: %s is not supported", e.Line, e.What)
}

// Invalid is the error of a body that a Java compiler refuses, in its words. They follow the Eclipse compiler, which
// Cassandra uses, as far as they are known.
type Invalid struct {
	Line int
	// The message of a Java compiler, without the line.
	Msg string
}

// Error returns the message.
func (e *Invalid) Error() string { return fmt.Sprintf("Line %d: %s", e.Line, e.Msg) }

// unsupported ends the compilation. The compiler is recursive, and Compile recovers the panic.
func unsupported(line int, what string) { panic(&Unsupported{line, what}) }

// invalid ends the compilation, as unsupported does. The format is the one of fmt.Sprintf.
func invalid(line int, format string, args ...any) {
	panic(&Invalid{line, fmt.Sprintf(format, args...)})
}

// Compile compiles a function. Errors are *Unsupported and *Invalid. It compiles in one pass, without a syntax tree:
// types are known when an expression is read, because variables are declared before their use.
//
// f.Body may be hostile: its tokens, its nesting and its variables are bounded, and compiling takes time in proportion
// to its length. Nothing in it is executed.
func Compile(f Function) (p *Program, err error) {
	defer func() {
		// The compiler panics with its two errors, so that its recursive methods need no results for them.
		switch e := recover().(type) {
		case nil:
		case *Unsupported:
			err = e
		case *Invalid:
			err = e
		// Any other panic is a defect of the compiler.
		default:
			panic(e)
		}
	}()
	// RETURNS NULL ON NULL INPUT gives primitive types, because no argument can be null then.
	c := &compiler{source: source{tokens: lex(f.Body)}, returns: fromCQL(f.Returns, f.CalledOnNull)}
	// The scope of the parameters. A local variable must not have the name of one, which declare checks.
	c.open()
	for i, name := range f.ArgNames {
		v := c.declare(name, fromCQL(f.ArgTypes[i], f.CalledOnNull), 1)
		// The number is in messages of exceptions, as a Java virtual machine has it.
		v.param = i + 1
	}
	var body []stmt
	// The body may not declare a name of a parameter: the scope is another, but declare searches both.
	c.open()
	ends := true
	for c.peek().kind != tokenEnd {
		// The rule of the language: a statement after return, break, continue or an endless loop is an error.
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

// compiler compiles a body in one pass over its tokens. It is used once. Errors end it by a panic, so no method has to
// leave it in a consistent state then.
type compiler struct {
	source
	scopes
	// The type that every return statement converts its value to.
	returns *jtype
	// The number of loops around the statement that is compiled.
	loops int
	// The loop that is compiled contains break. A loop with the condition true can complete normally only then.
	// loopBody saves and restores it.
	broken bool
	// Levels of nesting that enter has counted and leave has not yet ended.
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

// enter counts a level of nesting, so that neither compilation nor execution exhausts the stack. Every method that may
// call itself through others begins with it.
func (c *compiler) enter() {
	// Both recurse: the compiler through its methods, a call through closures.
	if c.depth++; c.depth > nestingMax {
		unsupported(c.peek().line, fmt.Sprintf("nesting of more than %d levels", nestingMax))
	}
}

// leave ends what enter has begun.
func (c *compiler) leave() { c.depth-- }

// frame is a call in progress. Each call has its own, so a Program can be executed concurrently. Its memory is counted
// once, in Run.
type frame struct {
	// Counts the work and the memory of the call, and panics when it has used its share; Run catches that.
	m *value.Meter
	// By slot. An int is an int64 here, see expr. One meter may serve several calls, such as the calls of one row of a
	// SELECT.
	vars []value.Value
	// Set by the return statement. The compiler has checked that one is reached.
	result value.Value
}

// Run calls the program and returns its result. Errors are *value.Exceeded and *value.Fault. args has one value for
// each parameter, in the form that package value describes; with CalledOnNull, a value may be nil. An error leaves the
// arguments as the body has changed them.
func (p *Program) Run(m *value.Meter, args []value.Value) (result value.Value, err error) {
	defer value.Catch(&err)
	// Counted before it is allocated: an interface takes 16 bytes.
	m.Alloc(int64(16*p.slots + 64))
	fr := &frame{m: m, vars: make([]value.Value, p.slots)}
	// The parameters were declared first, so they have the first slots.
	copy(fr.vars, args)
	// The last statement of the body returns, or throws, so run's answer does not matter.
	run(fr, p.body)
	return fr.result, nil
}
