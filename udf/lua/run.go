package lua

import (
	"fmt"

	"cqld/udf/value"
)

// Values of a script at execution:
//
//	nil, boolean, string    nil, bool, string (bytes)
//	number                  int64, float64, *big.Int, *apd.Decimal (package value)
//	table                   *value.Table, or *namespace for a table of the library
//	function                *closure of the script, *builtin of the library
//
// A call is a frame with a box for each local variable. A closure has the boxes of the variables that it captured, so
// that it and its enclosing function see each other's assignments.

// box is a local variable, which closures share. Every local variable has one, whether it is captured or not. A box
// costs a pointer in the frame and an allocation, even if no closure captures the variable.
type box struct{ v value.Value }

// closure is a function value of a script. Two closures are equal only if they are the same object. Two evaluations of
// one function expression make two closures.
type closure struct {
	proto *proto
	// The captured variables, in the order of proto.capture.
	up []*box
}

// builtin is a function of the library. == compares functions by address. Iterators, such as the step of pairs, are
// builtins with their own state.
type builtin struct {
	// For messages.
	name string
	call func(fr *frame, args []value.Value) []value.Value
}

// frame is a call in progress. The compiler has turned names into slots, so no name is looked up in a call. Closures
// keep the boxes that they capture, not the frame.
type frame struct {
	m *value.Meter
	// The library of the program, for globals and methods of strings.
	library *library
	// By slot. A slot is nil until its declaration has run.
	locals []*box
	// The boxes that the closure has captured.
	up []*box
	// The arguments after the parameters; nil unless the function has ....
	varargs []value.Value
	// Set by return. nil means no result.
	result []value.Value
	// Number of calls around this one.
	depth int
}

// slotBytes is the memory of a local variable in bytes, with its box and a number in it.
const slotBytes = 32

// callsMax bounds the depth of calls, so that recursion does not exhaust the stack. Each call takes several Go frames,
// one for each level of closures in it.
const callsMax = 150

// Run calls the program with arguments and returns its first result. Errors are *value.Exceeded and *value.Fault.
// Missing arguments are nil. Further results are dropped. It is safe for concurrent use, with a meter for each call.
// args has at most as many values as the program has parameters; p is not changed.
func (p *Program) Run(m *value.Meter, args []value.Value) (result value.Value, err error) {
	defer value.Catch(&err)
	// A frame outside of the script, from which the body is called.
	fr := &frame{m: m, library: p.library}
	return at(fr.enter(p.main, nil, args), 0), nil
}

// fail ends the call with a message and the line of the body. The message begins with the line, counted from 1 in the
// body. line 0 stands for the library.
func fail(line int, format string, args ...any) {
	value.Failf("line %d: %s", line, fmt.Sprintf(format, args...))
}

// call calls a function value. The list of arguments is counted as memory. The arguments must not be modified after the
// call: a function may keep them as its varargs. Results must not be modified, either.
func (fr *frame) call(fn value.Value, args []value.Value, line int) []value.Value {
	// 16 bytes are a value. Four more stand for the results.
	fr.m.Alloc(int64(16 * (len(args) + 4)))
	switch fn := fn.(type) {
	case *closure:
		return fr.enter(fn.proto, fn.up, args)
	case *builtin:
		// Functions of the library call the script again, so they count too.
		fr.depth++
		// pcall(pcall, pcall, …) nests without a function of the script.
		if fr.depth > callsMax {
			fail(line, "stack overflow")
		}
		defer func() { fr.depth-- }()
		return fn.call(fr, args)
	}
	fail(line, "attempt to call a %s value", typeName(fn))
	return nil
}

// enter executes a function of the script. Its results may be the arguments, or parts of them: the caller must not
// modify them. Only enter creates frames of script functions.
func (fr *frame) enter(p *proto, up []*box, args []value.Value) []value.Value {
	if fr.depth >= callsMax {
		value.Failf("stack overflow: calls are nested deeper than %d", callsMax)
	}
	// All slots, although boxes are created as declarations run.
	fr.m.Alloc(int64(slotBytes*p.slots + 64))
	// A new frame, also for recursion: slots of two calls never mix.
	next := &frame{m: fr.m, library: fr.library, locals: make([]*box, p.slots), up: up, depth: fr.depth + 1}
	for i := range p.params {
		// Missing arguments are nil, and surplus ones are dropped.
		next.locals[i] = &box{at(args, i)}
	}
	if p.vararg && len(args) > p.params {
		next.varargs = args[p.params:]
	}
	// A body that ends without return has no result.
	run(next, p.body)
	return next.result
}

// typeName returns what type(v) returns. Exact numbers are numbers, too; math.type distinguishes them.
func typeName(v value.Value) string {
	switch v.(type) {
	case nil:
		return "nil"
	case bool:
		return "boolean"
	case string:
		return "string"
	case *value.Table, *namespace:
		return "table"
	case *closure, *builtin:
		return "function"
	}
	// All four kinds of numbers have one type, as in Lua.
	return "number"
}

// index returns object[key]. There are no metatables. A missing key is nil. It fails for values that have no keys;
// strings have methods only, not fields. The caller has counted the step.
func index(m *value.Meter, object, key value.Value, line int) value.Value {
	switch t := object.(type) {
	case *value.Table:
		return t.Get(m, key)
	case *namespace:
		if name, ok := key.(string); ok {
			// An unknown member is nil, as in a table.
			return t.members[name]
		}
		return nil
	}
	if name, ok := key.(string); ok {
		fail(line, "attempt to index a %s value with the key '%.40s'", typeName(object), name)
	}
	fail(line, "attempt to index a %s value", typeName(object))
	return nil
}

// setIndex sets object[key]. The library is no table, so scripts cannot change it. A value nil removes the key.
func setIndex(m *value.Meter, object, key, v value.Value, line int) {
	t, ok := object.(*value.Table)
	if !ok {
		fail(line, "attempt to assign a field of a %s value", typeName(object))
	}
	t.Set(m, key, v)
}

// method returns the function of object:name(…); methods of strings are the functions of the string library. A method
// of a table is any value in it; call fails if it is no function.
func (fr *frame) method(object value.Value, name string, line int) value.Value {
	if _, ok := object.(string); ok {
		// Strings have no fields, only these functions.
		if fn, ok := fr.library.strings.members[name]; ok {
			return fn
		}
		fail(line, "there is no function string.%s", name)
	}
	return index(fr.m, object, name, line)
}
