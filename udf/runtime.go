package udf

import (
	"context"
	"errors"
	"fmt"
	"time"

	"cqld/internal/guard"
	"cqld/internal/memory"
	"cqld/schema"
	"cqld/types"
	"cqld/udf/lua"
	"cqld/udf/value"
	"cqld/udf/wasm"
)

// Options configure a Runtime. The zero value means default limits and no bound on memory.
type Options struct {
	// The bounds of one call. Fields that are zero have defaults.
	Limits value.Limits
	// Now returns the time of day. nil means the Unix epoch, without a limit on the time of calls.
	Now func() time.Time
	// Memory bounds the memory of calls, compilations, compiled functions and idle instances together, in bytes; zero
	// means no bound.
	Memory int64
	// Guard logs and counts panics of compilers and interpreters. A panic ends the call, even if Guard is nil.
	Guard *guard.Guard
}

// Runtime executes functions. It is safe for concurrent use. There is one for each node.
type Runtime struct {
	o         Options
	memory    *memory.Pool
	calls     calls
	instances *wasm.Pool
	programs  *cache
}

// program is a compiled function. It is immutable and safe for concurrent use. Several calls of it may run at the same
// time.
type program interface {
	// call returns the value of the function for arguments in wire form. Errors are *value.Exceeded, *value.Fault and
	// *value.Unavailable. m belongs to this call.
	call(m *value.Meter, args [][]byte) ([]byte, error)
	// bytes returns the approximate memory of the program in bytes.
	bytes() int64
}

// New returns a Runtime. Zero fields of o.Limits have defaults.
func New(o Options) *Runtime {
	o.Limits = defaultLimits(o.Limits)
	r := &Runtime{o: o, memory: newMemory(o.Memory)}
	idle, programs := int64(idleBytesMax), int64(programBytesMax)
	if o.Memory > 0 {
		idle, programs = min(idle, o.Memory/keptDivisor), min(programs, o.Memory/keptDivisor)
	}
	// The cache measures compilations; without a clock they take no time.
	now := o.Now
	if now == nil {
		now = func() time.Time { return time.Time{} }
	}
	r.instances = wasm.NewPool(r.memory, idle)
	r.programs = newCache(r.compile, r.instances, r.memory, programs, now)
	if r.memory != nil {
		// Drop instances first, because a new one costs less than a compilation.
		r.memory.OnShortage(r.instances.Clear)
		r.memory.OnShortage(r.programs.clear)
	}
	return r
}

// Stats contains the current statistics of a Runtime.
type Stats struct {
	Memory       memory.Stats // zero if memory has no bound
	Compilations Compilations
	Idle         int   // instances
	IdleBytes    int64 // bytes of idle instances
}

// Stats returns the current statistics.
func (r *Runtime) Stats() (s Stats) {
	if r.memory != nil {
		s.Memory = r.memory.Stats()
	}
	s.Compilations = r.programs.compilations()
	s.Idle, s.IdleBytes = r.instances.Idle()
	return s
}

// Failure is the error of a call that failed. The client gets it as FUNCTION_FAILURE with the function's name and
// argument types.
type Failure struct {
	// The function whose call failed.
	Function *schema.Function
	Msg      string
}

// Error returns the message.
func (e *Failure) Error() string { return e.Msg }

// Refused is the error of a body that cannot be compiled.
type Refused struct{ Msg string }

// Error returns the message.
func (e *Refused) Error() string { return e.Msg }

// Check compiles a function for CREATE FUNCTION and caches the program for its calls. The error is *Refused,
// memory.ErrExhausted, or the error of ctx. A function that equals a cached one is not compiled again. role is the
// owner of the compilation.
func (r *Runtime) Check(ctx context.Context, role string, f *schema.Function) error {
	p, err := r.programs.get(ctx, role, f)
	if err == nil {
		r.programs.release(p)
	}
	return err
}

// Call returns the value of a function for arguments in wire form, and a warning for the client, or "". The error is
// *Failure, or wraps memory.ErrExhausted. args has one value for each argument; nil means null. The caller must not
// call a function with RETURNS NULL ON NULL INPUT with a null argument.
func (r *Runtime) Call(f *schema.Function, args [][]byte) (result []byte, warning string, err error) {
	elapsed := r.elapsed()
	result, err = r.run(f, args, elapsed)
	// A call that failed needs no warning in addition.
	if err == nil && elapsed != nil && r.o.Limits.Warn > 0 && elapsed() > r.o.Limits.Warn {
		warning = fmt.Sprintf("User defined function %s ran longer than %dms", Signature(f),
			r.o.Limits.Warn.Milliseconds())
	}
	return result, warning, err
}

// run executes one call. elapsed is its clock, or nil. A panic of the interpreter becomes a Failure, and so does one
// of a compiler, which compile has made an error.
func (r *Runtime) run(f *schema.Function, args [][]byte, elapsed func() time.Duration) (result []byte, err error) {
	p, err := r.programs.get(context.Background(), "", f) // compilations are bounded
	switch {
	// The caller reports an overload, not a failure of the function.
	case errors.Is(err, memory.ErrExhausted):
		return nil, err
	case err != nil:
		return nil, &Failure{f, err.Error()}
	}
	defer r.programs.release(p)
	defer func() {
		// A bug in the interpreter must not affect other requests.
		if e := recover(); e != nil {
			result, err = nil, &Failure{f, failed(f, r.panicked(e))}
		}
	}()
	// The meter does not count the compilation, which several calls share.
	m := value.NewMeter(r.o.Limits, elapsed)
	m.SetWall(r.o.Now)
	if c := r.calls.open(r.memory); c != nil {
		defer r.calls.close(c)
		m.SetMemory(c)
	}
	result, err = p.p.call(m, args)
	if err == nil && int64(len(result)) > r.o.Limits.Output {
		err = &value.Exceeded{Reason: fmt.Sprintf("its result has more than %d bytes", r.o.Limits.Output)}
	}
	var unavailable *value.Unavailable
	switch {
	case errors.As(err, &unavailable):
		return nil, unavailable.Err
	case err != nil:
		return nil, &Failure{f, message(f, err)}
	}
	return result, nil
}

// panicked reports a recovered panic to the guard, and returns the reason for the client, which does not contain the
// panic's value.
func (r *Runtime) panicked(value any) string {
	if r.o.Guard == nil {
		return "internal error"
	}
	return r.o.Guard.Caught("user-defined function", value).Error()
}

// elapsed returns a clock of one call. It starts now.
func (r *Runtime) elapsed() func() time.Duration {
	if r.o.Now == nil {
		return nil
	}
	began := r.o.Now()
	return func() time.Duration { return r.o.Now().Sub(began) }
}

// message returns the text of an error. Exceptions of Java have Cassandra's text. Bounds are named in the words of this
// package.
func message(f *schema.Function, err error) string {
	if exceeded, ok := err.(*value.Exceeded); ok { //nolint:errorlint // not wrapped
		return fmt.Sprintf("User defined function %s was stopped: %s", Signature(f), exceeded.Reason)
	}
	if f.Language == Java {
		return err.Error()
	}
	return failed(f, err.Error())
}

// failed returns the message of a function that failed, with Cassandra's text before the reason. ArgumentTexts has the
// form [int, text].
func failed(f *schema.Function, reason string) string {
	return fmt.Sprintf("execution of '%s.%s%v' failed: %s", f.Keyspace, f.Name, schema.ArgumentTexts(f.ArgTypes),
		reason)
}

// Signature returns a function as Cassandra's messages show it. For example ks.f : (int, text) -> double.
func Signature(f *schema.Function) string {
	return fmt.Sprintf("%s.%s : (%s) -> %s", f.Keyspace, f.Name, joined(f.ArgTypes), schema.DeclaredText(f.Returns))
}

// joined returns types with commas between them. It is not the form of failed.
func joined(list []*types.Type) string {
	text := ""
	for i, t := range schema.ArgumentTexts(list) {
		if i > 0 {
			text += ", "
		}
		text += t
	}
	return text
}

// The languages. Names in CREATE FUNCTION … LANGUAGE, in lower case.
const (
	Lua  = "lua"
	Java = "java"
	Wasm = "wasm"
)

// Languages returns the names of the languages.
func Languages() []string { return []string{Lua, Wasm, Java} }

// compile compiles a function. Errors are *Refused, or the errors of reserve. It is called by the cache, without a
// lock. A panic of a compiler becomes *Refused, because bodies come from clients.
func (r *Runtime) compile(f *schema.Function, reserve func(bytes int64) error) (p program, err error) {
	defer func() {
		// A bug in a compiler must not affect other requests.
		if e := recover(); e != nil {
			p, err = nil, &Refused{fmt.Sprintf("Function %s cannot be compiled: %s", f.Name, r.panicked(e))}
		}
	}()
	var failed error
	reserve = remembering(reserve, &failed)
	// Compilers wrap errors of reserve in their own errors, so use the original from remembering.
	p, err = r.program(f, reserve)
	var large *memory.TooLarge
	switch {
	case errors.As(failed, &large):
		return nil, &Refused{fmt.Sprintf("To compile function %s, %d bytes of memory are needed, and this node"+
			" has at most %d for functions", f.Name,
			large.Bytes, large.Max)}
	case failed != nil:
		return nil, failed
	}
	return p, err
}

// remembering returns reserve, and stores its error. failed keeps the last error, or nil after a success. It is needed
// because a compiler may report an error of its own after reserve has failed.
func remembering(reserve func(bytes int64) error, failed *error) func(bytes int64) error {
	return func(bytes int64) error {
		*failed = reserve(bytes)
		return *failed
	}
}

// program compiles a function in its language. Memory is reserved before the compiler runs. f has been checked by
// package query: its types are valid and its names are unique.
func (r *Runtime) program(f *schema.Function, reserve func(bytes int64) error) (program, error) {
	if f.Language == Wasm {
		return compileWasm(f, r.o.Limits, r.instances, reserve)
	}
	// Modules have a bound of their own, see package wasm.
	if len(f.Body) > bodyBytesMax {
		return nil, &Refused{fmt.Sprintf("The body of function %s has %d bytes; no more than %d are possible", f.Name,
			len(f.Body), bodyBytesMax)}
	}
	if err := reserve(compilerBytes + sourceBytes(f)); err != nil {
		return nil, err
	}
	switch f.Language {
	case Lua:
		p, err := lua.Compile(f.Body, f.ArgNames)
		if err != nil {
			return nil, &Refused{"Lua compilation failed: " + err.Error()}
		}
		return &luaProgram{f, p}, nil
	case Java:
		return compileJava(f)
	}
	return nil, &Refused{fmt.Sprintf("Functions in the language %s are not supported: write LANGUAGE lua, wasm or "+
		"java", f.Language)}
}

// sourceBytes returns the approximate memory of the program of a source, in bytes. It is used before and after the
// compilation.
func sourceBytes(f *schema.Function) int64 {
	return programBytes + int64(len(f.Body))*bytesPerSourceByte
}

// luaProgram is a function in Lua. Its parameters have the names of the arguments.
type luaProgram struct {
	f *schema.Function
	p *lua.Program
}

// call implements program, as javaProgram.call does.
func (p *luaProgram) call(m *value.Meter, args [][]byte) (result []byte, err error) {
	values, err := fromCQL(m, p.f.ArgTypes, args)
	if err != nil {
		return nil, err
	}
	v, err := p.p.Run(m, values)
	if err != nil {
		return nil, err
	}
	// Converting the result counts memory, too, and may exceed the bounds.
	defer value.Catch(&err)
	return value.ToCQL(m, p.f.Returns, v), nil
}

// bytes implements program.
func (p *luaProgram) bytes() int64 { return sourceBytes(p.f) }

// fromCQL converts arguments in wire form to values of scripts, which m counts. It stops at the first argument that
// exceeds a bound.
func fromCQL(m *value.Meter, list []*types.Type, args [][]byte) (values []value.Value, err error) {
	defer value.Catch(&err)
	for i, t := range list {
		values = append(values, value.FromCQL(m, t, args[i]))
	}
	return values, nil
}
