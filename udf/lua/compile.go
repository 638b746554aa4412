package lua

import (
	"errors"
	"fmt"
	"strings"

	"github.com/yuin/gopher-lua/ast"
	"github.com/yuin/gopher-lua/parse"

	"cqld/udf/value"
)

// The compiler turns the syntax tree into closures: a statement becomes a stmt, an expression an expr or a multi. The
// compiler resolves names, not the running script:
//
//	local variable                        slot in frame.locals
//	variable of an enclosing function     index in frame.up (an upvalue)
//	anything else                         a name of the library; assignments to it are refused
//
// So a misspelled name is an error of CREATE FUNCTION, and calls share no state.

// Program is a compiled function. It is immutable: calls share nothing. All state of a call is in its frames. Two calls
// of one Program may run at the same time, each with its own meter.
type Program struct {
	// main is the body, as a function whose parameters are the arguments.
	main *proto
	// library is immutable, so concurrent calls share it.
	library *library
}

// proto is a compiled function body. Several closures may share it, each with its own upvalues. It is the code of a
// function expression; a closure is a proto with upvalues.
type proto struct {
	// The parameters have the first slots.
	params int
	// vararg means that the function has ..., which receives the arguments after the parameters.
	vararg bool
	// slots is the number of local variables in all scopes, including parameters. Later scopes do not reuse slots.
	slots int
	// capture contains the origin of each upvalue, by index.
	capture []capture
	// The statements, as closures that get the frame of their call.
	body []stmt
}

// capture is the origin of an upvalue: a local variable or an upvalue of the enclosing function. The index is a slot of
// the enclosing function, or an index of its upvalues. As in the compilers of Lua, an upvalue of a distant function is
// captured by each function between.
type capture struct {
	// True: a local variable of the enclosing function. False: one of its upvalues.
	local bool
	index int
}

// Bounds of a body.
const (
	nestingMax = 100 // of blocks and expressions
	localsMax  = 200 // of one function
)

// Compile compiles the body of a function with named parameters. Errors contain the line and the reason. params are
// the names of the parameters; Run receives their values in the same order. The body is a chunk of Lua, and returns
// its result with return. Compile does not check types, because Lua is dynamically typed.
func Compile(body string, params []string) (p *Program, err error) {
	// Half of the variables stay for the body.
	if len(params) > localsMax/2 {
		return nil, compileError{"there are too many parameters"}
	}
	defer func() {
		// Any panic other than compileError is a bug in the compiler.
		if e := recover(); e != nil {
			failed, ok := e.(compileError)
			if !ok {
				panic(e)
			}
			err = failed
		}
	}()
	// Syntax first; names and nesting are checked while the tree is compiled.
	chunk, err := parseChunk(body)
	if err != nil {
		return nil, err
	}
	// The body is a function without an enclosing one, so it has no upvalues.
	f := &function{}
	f.open()
	for _, name := range params {
		// Declare parameters first, so that a local of the same name hides the parameter.
		f.declare(name, 0)
	}
	// The body itself has no varargs: its parameters are named.
	main := f.finish(f.block(chunk), len(params), false)
	// Globals are resolved during compilation, so each program contains the library.
	return &Program{main, newLibrary()}, nil
}

// compileError is the reason why a body is rejected. The compiler panics with it, and Compile recovers it.
type compileError struct{ msg string }

// Error returns the reason.
func (e compileError) Error() string { return e.msg }

// refuse ends the compilation. The compiler is recursive, and Compile recovers the panic. line is the line in the body,
// from 1.
func refuse(line int, format string, args ...any) {
	panic(compileError{fmt.Sprintf("line %d: ", line) + fmt.Sprintf(format, args...)})
}

// parseChunk parses a body to the syntax tree of the library. The parser is gopher-lua's; its virtual machine is not
// used, because it cannot be bounded by steps and bytes.
func parseChunk(body string) ([]ast.Stmt, error) {
	// Escape begins compiled code of Lua, which has no bounds.
	if strings.HasPrefix(body, "\x1b") {
		return nil, compileError{"binary code is not allowed"}
	}
	// Check the nesting before the parser runs, whose recursion is not bounded.
	if err := checkNesting(body); err != nil {
		return nil, err
	}
	// The name is only in messages of the parser, which syntaxError omits.
	chunk, err := parse.Parse(strings.NewReader(body), "function")
	if err != nil {
		return nil, syntaxError(err)
	}
	return chunk, nil
}

// syntaxError converts an error of the parser to the form of the other errors. The parser's messages contain the
// token at which it stopped. Lines are counted from 1.
func syntaxError(err error) compileError {
	var e *parse.Error
	switch {
	case !errors.As(err, &e):
		return compileError{err.Error()}
	// The parser has no line for the end.
	case e.Pos.Line == parse.EOF:
		return compileError{e.Message + " at the end of the body"}
	}
	return compileError{fmt.Sprintf("line %d: %s near '%s'", e.Pos.Line, e.Message, e.Token)}
}

// function compiles one function body. finish converts it to a proto. The body, and each function expression in it,
// has its own.
type function struct {
	// outer is the enclosing function; nil for the body.
	outer *function
	// The slots of the visible variables by name. The innermost scope is the last one.
	scopes []map[string]int
	// Slots are not used again after a scope has ended: closures may still refer to their boxes. The maximum is the
	// size of a frame.
	slotsMax int
	// upvalues maps names to indexes; a variable is captured once.
	upvalues map[string]int
	capture  []capture
	vararg   bool
	// loops counts the loops around the current statement; break needs one.
	loops int
	// depth is the level of nesting, including the enclosing functions.
	depth int
}

// open begins a scope. close ends the innermost one.
func (f *function) open()  { f.scopes = append(f.scopes, map[string]int{}) }
func (f *function) close() { f.scopes = f.scopes[:len(f.scopes)-1] }

// enter counts a level of nesting, so that neither compilation nor execution exhausts the stack. line is for the
// message.
func (f *function) enter(line int) {
	// Execution recurses through closures as deeply as the text is nested.
	if f.depth++; f.depth > nestingMax {
		panic(nestingError(line))
	}
}

// nestingError returns the error for a body that is nested too deeply. The same error is used before and after parsing.
func nestingError(line int) compileError {
	return compileError{fmt.Sprintf("line %d: the nesting is deeper than %d levels", line, nestingMax)}
}

// leave ends what enter has begun.
func (f *function) leave() { f.depth-- }

// declare returns the slot of a new local variable.
func (f *function) declare(name string, line int) int {
	// A new slot each time, also for a name that was declared before.
	slot := f.slotsMax
	f.slotsMax++
	if f.slotsMax > localsMax {
		refuse(line, "a function has more than %d local variables", localsMax)
	}
	// A second declaration in one scope hides the first, as Lua allows.
	f.scopes[len(f.scopes)-1][name] = slot
	return slot
}

// local returns the slot of a variable of this function that is visible here. It does not search enclosing functions.
func (f *function) local(name string) (int, bool) {
	// From the innermost scope, so that the latest declaration hides others.
	for i := len(f.scopes) - 1; i >= 0; i-- {
		if slot, ok := f.scopes[i][name]; ok {
			return slot, true
		}
	}
	return 0, false
}

// upvalue returns the index of a variable of an enclosing function. It records the capture in this function and, if
// needed, in the functions around it. It returns false if no enclosing function has the variable: the name is then one
// of the library, or unknown.
func (f *function) upvalue(name string) (int, bool) {
	if i, ok := f.upvalues[name]; ok {
		return i, true
	}
	if f.outer == nil {
		return 0, false
	}
	// The nearest enclosing function is searched first.
	c := capture{local: true}
	var ok bool
	// Otherwise the enclosing functions pass it on, each as an upvalue of its own.
	if c.index, ok = f.outer.local(name); !ok {
		c.local = false
		if c.index, ok = f.outer.upvalue(name); !ok {
			return 0, false
		}
	}
	// Most functions capture nothing.
	if f.upvalues == nil {
		f.upvalues = map[string]int{}
	}
	f.upvalues[name] = len(f.capture)
	f.capture = append(f.capture, c)
	return len(f.capture) - 1, true
}

// finish returns the compiled function. It must be called after the body was compiled, when all variables and
// upvalues are known.
func (f *function) finish(body []stmt, params int, vararg bool) *proto {
	return &proto{params: params, vararg: vararg, slots: f.slotsMax, capture: f.capture, body: body}
}

// block compiles statements in a scope of their own. Variables that it declares are not visible after it, and keep
// their slots.
func (f *function) block(list []ast.Stmt) []stmt {
	f.open()
	defer f.close()
	return f.statements(list)
}

// statements compiles statements in the current scope. The last statement may be return or break, which the parser
// allows only there.
func (f *function) statements(list []ast.Stmt) []stmt {
	out := make([]stmt, 0, len(list))
	for _, s := range list {
		out = append(out, f.statement(s))
	}
	return out
}

// statement compiles one statement. Its nesting is counted, as the nesting of expressions is.
func (f *function) statement(s ast.Stmt) stmt {
	f.enter(s.Line())
	defer f.leave()
	switch s := s.(type) {
	case *ast.AssignStmt:
		return f.assign(s)
	case *ast.LocalAssignStmt:
		return f.localAssign(s)
	case *ast.FuncCallStmt:
		// A call as a statement: its results are dropped.
		call := f.call(s.Expr.(*ast.FuncCallExpr)) //nolint:forcetypeassert // by the parser
		return func(fr *frame) signal { call(fr); return proceed }
	case *ast.DoBlockStmt:
		// A do block only opens a scope.
		return sequence(f.block(s.Stmts))
	case *ast.WhileStmt:
		return f.while(s)
	case *ast.RepeatStmt:
		return f.repeat(s)
	case *ast.IfStmt:
		return f.branch(s)
	case *ast.NumberForStmt:
		return f.numericFor(s)
	case *ast.GenericForStmt:
		return f.genericFor(s)
	case *ast.FuncDefStmt:
		return f.functionStatement(s)
	case *ast.ReturnStmt:
		return f.returns(s)
	case *ast.BreakStmt:
		if f.loops == 0 {
			refuse(s.Line(), "break outside of a loop")
		}
		return func(*frame) signal { return leaveLoop }
	}
	// Labels as well: they are the only statements that are left.
	refuse(s.Line(), "goto is not supported")
	return nil
}

// localAssign compiles local a, b = x, y. The values do not see the new variables. A list of values that is too long is
// evaluated in full, and the surplus is dropped.
func (f *function) localAssign(s *ast.LocalAssignStmt) stmt {
	// local function f: the name is visible in the body.
	if len(s.Names) == 1 && len(s.Exprs) == 1 {
		if fn, ok := s.Exprs[0].(*ast.FunctionExpr); ok {
			slot := f.declare(s.Names[0], s.Line())
			make := f.functionExpr(fn)
			return func(fr *frame) signal {
				// The box exists before the closure captures it. A function that calls itself finds its own box.
				fr.locals[slot] = new(box)
				fr.locals[slot].v = make(fr)
				return proceed
			}
		}
	}
	// Compiled before the names are declared: local x = x reads the outer x.
	values := f.list(s.Exprs)
	slots := make([]int, len(s.Names))
	// Names without a value are nil, see at.
	for i, name := range s.Names {
		slots[i] = f.declare(name, s.Line())
	}
	return func(fr *frame) signal {
		fr.m.Step()
		vs := values(fr)
		for i, slot := range slots {
			// Create a new box each time, so that closures of earlier iterations keep theirs.
			fr.locals[slot] = &box{at(vs, i)}
		}
		return proceed
	}
}

// target assigns a value to a variable or a field. Its object and key are evaluated before the values. The returned
// function does the assignment.
type target func(fr *frame) func(v value.Value)

// target compiles the left side of an assignment. The name must be a local variable or an upvalue. A global name is
// refused here, and not when the body runs.
func (f *function) target(x ast.Expr) target {
	switch x := x.(type) {
	case *ast.IdentExpr:
		// A local variable hides an upvalue of the same name.
		if slot, ok := f.local(x.Value); ok {
			return func(fr *frame) func(value.Value) { return func(v value.Value) { fr.locals[slot].v = v } }
		}
		if i, ok := f.upvalue(x.Value); ok {
			return func(fr *frame) func(value.Value) { return func(v value.Value) { fr.up[i].v = v } }
		}
		refuse(x.Line(), "%s is not a local variable: global variables cannot be assigned, because calls share "+
			"nothing; write local %s", x.Value, x.Value)
	case *ast.AttrGetExpr:
		// A field of a table. Whether the object is one is known when it runs.
		object, key := f.expr(x.Object), f.expr(x.Key)
		line := x.Line()
		return func(fr *frame) func(value.Value) {
			// Evaluated now. The assignment comes when all values are known.
			t, k := object(fr), key(fr)
			return func(v value.Value) { setIndex(fr.m, t, k, v, line) }
		}
	}
	refuse(x.Line(), "this cannot be assigned")
	return nil
}

// assign compiles a, b = x, y. All values are evaluated before any is assigned, so a, b = b, a exchanges them. Globals
// cannot be assigned, so a script has no state besides its local variables and tables.
func (f *function) assign(s *ast.AssignStmt) stmt {
	targets := make([]target, len(s.Lhs))
	for i, x := range s.Lhs {
		targets[i] = f.target(x)
	}
	// The usual form needs no slices.
	if len(s.Lhs) == 1 && len(s.Rhs) == 1 {
		target, v := targets[0], f.expr(s.Rhs[0])
		return func(fr *frame) signal {
			fr.m.Step()
			set := target(fr)
			set(v(fr))
			return proceed
		}
	}
	values := f.list(s.Rhs)
	return func(fr *frame) signal {
		fr.m.Step()
		// Each setter keeps its evaluated object and key.
		setters := make([]func(value.Value), len(targets))
		for i, t := range targets {
			// Evaluate targets from left to right, before the values. Lua does not define the order; a fixed order
			// makes results equal on all nodes.
			setters[i] = t(fr)
		}
		// After the targets: t[i], i = 1, 2 uses the old i.
		vs := values(fr)
		for i, set := range setters {
			set(at(vs, i))
		}
		return proceed
	}
}

// functionStatement compiles function t.f() and function t:f(), which has the parameter self. function name() assigns
// to a local variable or an upvalue, which must have been declared. In function t.a.b() only the last field is
// assigned.
func (f *function) functionStatement(s *ast.FuncDefStmt) stmt {
	if s.Name.Method != "" {
		// function t:f() is t.f = function(self).
		object, name := f.expr(s.Name.Receiver), s.Name.Method
		// A copy: the syntax tree is not modified.
		fn := *s.Func
		// The list is copied as well, because append could write into its array.
		params := *fn.ParList
		params.Names = append([]string{"self"}, params.Names...)
		fn.ParList = &params
		make := f.functionExpr(&fn)
		line := s.Line()
		return func(fr *frame) signal { setIndex(fr.m, object(fr), name, make(fr), line); return proceed }
	}
	if id, ok := s.Name.Func.(*ast.IdentExpr); ok {
		// The message says what to write instead.
		if _, local := f.local(id.Value); !local {
			if _, up := f.upvalue(id.Value); !up {
				refuse(s.Line(), "write local function %s: global variables cannot be assigned", id.Value)
			}
		}
	}
	// The target is the name, or the field of a table: function t.f().
	target, make := f.target(s.Name.Func), f.functionExpr(s.Func)
	return func(fr *frame) signal {
		set := target(fr)
		set(make(fr))
		return proceed
	}
}

// returns compiles return. Calls in tail position are ordinary calls. A return leaves the innermost function, also out
// of loops. It has no results if it names none.
func (f *function) returns(s *ast.ReturnStmt) stmt {
	values := f.list(s.Exprs)
	return func(fr *frame) signal {
		fr.m.Step()
		// Lua has nothing after return in a block, so no statement overwrites it.
		fr.result = values(fr)
		return leaveFunction
	}
}
