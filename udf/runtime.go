package udf

import (
	"context"
	"fmt"
	"time"

	"cqld/schema"
	"cqld/types"
	"cqld/udf/lua"
	"cqld/udf/value"
	"cqld/udf/wasm"
)

// Options configure a Runtime.
type Options struct {
	Limits value.Limits     // of one call; zero fields have defaults
	Now    func() time.Time // a clock that only measures durations; nil means that time is not limited
}

// Runtime executes functions. It is safe for concurrent use.
type Runtime struct {
	o         Options
	instances *wasm.Pool
	programs  *cache
}

// program is a compiled function. It is immutable and safe for concurrent use.
type program interface {
	// call returns the value of the function for arguments in wire form. Errors are *value.Exceeded and *value.Fault.
	call(m *value.Meter, args [][]byte) ([]byte, error)
	// bytes returns about what the program needs in memory.
	bytes() int64
}

// New returns a Runtime.
func New(o Options) *Runtime {
	o.Limits = defaultLimits(o.Limits)
	r := &Runtime{o: o, instances: wasm.NewPool()}
	r.programs = newCache(r.compile, r.instances)
	return r
}

// Failure is the error of a call that failed.
type Failure struct {
	Function *schema.Function
	Msg      string
}

// Error returns the message.
func (e *Failure) Error() string { return e.Msg }

// Refused is the error of a body that cannot be compiled.
type Refused struct{ Msg string }

// Error returns the message.
func (e *Refused) Error() string { return e.Msg }

// Check compiles a function that is to be created, and keeps the program for its calls. The error is *Refused, or ctx's.
func (r *Runtime) Check(ctx context.Context, f *schema.Function) error {
	_, err := r.programs.get(ctx, f)
	return err
}

// Call returns the value of a function for arguments in wire form, and a warning for the client, or "". The error is *Failure.
func (r *Runtime) Call(f *schema.Function, args [][]byte) (result []byte, warning string, err error) {
	elapsed := r.elapsed()
	result, err = r.run(f, args, elapsed)
	if err == nil && elapsed != nil && r.o.Limits.Warn > 0 && elapsed() > r.o.Limits.Warn {
		warning = fmt.Sprintf("User defined function %s ran longer than %dms", Signature(f), r.o.Limits.Warn.Milliseconds())
	}
	return result, warning, err
}

func (r *Runtime) run(f *schema.Function, args [][]byte, elapsed func() time.Duration) (result []byte, err error) {
	p, err := r.programs.get(context.Background(), f) // compilations are bounded
	if err != nil {
		return nil, &Failure{f, err.Error()}
	}
	defer func() {
		// A fault of the interpreter must not end more than the query.
		if e := recover(); e != nil {
			result, err = nil, &Failure{f, failed(f, fmt.Sprintf("internal error: %v", e))}
		}
	}()
	result, err = p.call(value.NewMeter(r.o.Limits, elapsed), args)
	if err == nil && int64(len(result)) > r.o.Limits.Output {
		err = &value.Exceeded{Reason: fmt.Sprintf("its result has more than %d bytes", r.o.Limits.Output)}
	}
	if err != nil {
		return nil, &Failure{f, message(f, err)}
	}
	return result, nil
}

// elapsed returns a clock of one call.
func (r *Runtime) elapsed() func() time.Duration {
	if r.o.Now == nil {
		return nil
	}
	began := r.o.Now()
	return func() time.Duration { return r.o.Now().Sub(began) }
}

// message returns the text of an error. Exceptions of Java have Cassandra's text.
func message(f *schema.Function, err error) string {
	if exceeded, ok := err.(*value.Exceeded); ok { //nolint:errorlint // not wrapped
		return fmt.Sprintf("User defined function %s was stopped: %s", Signature(f), exceeded.Reason)
	}
	if f.Language == Java {
		return err.Error()
	}
	return failed(f, err.Error())
}

func failed(f *schema.Function, reason string) string {
	return fmt.Sprintf("execution of '%s.%s%v' failed: %s", f.Keyspace, f.Name, schema.ArgumentTexts(f.ArgTypes), reason)
}

// Signature returns a function as Cassandra's messages show it.
func Signature(f *schema.Function) string {
	return fmt.Sprintf("%s.%s : (%s) -> %s", f.Keyspace, f.Name, joined(f.ArgTypes), schema.DeclaredText(f.Returns))
}

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

// The languages.
const (
	Lua  = "lua"
	Java = "java"
	Wasm = "wasm"
)

// Languages returns the names of the languages.
func Languages() []string { return []string{Lua, Wasm, Java} }

func (r *Runtime) compile(f *schema.Function) (program, error) {
	if len(f.Body) > bodyBytesMax && f.Language != Wasm {
		return nil, &Refused{fmt.Sprintf("The body of function %s has %d bytes; no more than %d are possible", f.Name, len(f.Body), bodyBytesMax)}
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
	case Wasm:
		return compileWasm(f, r.o.Limits, r.instances)
	}
	return nil, &Refused{fmt.Sprintf("Functions in the language %s are not supported: write LANGUAGE lua, wasm or java", f.Language)}
}

// luaProgram is a function in Lua.
type luaProgram struct {
	f *schema.Function
	p *lua.Program
}

func (p *luaProgram) call(m *value.Meter, args [][]byte) (result []byte, err error) {
	values, err := fromCQL(m, p.f.ArgTypes, args)
	if err != nil {
		return nil, err
	}
	v, err := p.p.Run(m, values)
	if err != nil {
		return nil, err
	}
	defer value.Catch(&err)
	return value.ToCQL(m, p.f.Returns, v), nil
}

func (p *luaProgram) bytes() int64 { return programBytes + int64(len(p.f.Body))*bytesPerSourceByte }

func fromCQL(m *value.Meter, list []*types.Type, args [][]byte) (values []value.Value, err error) {
	defer value.Catch(&err)
	for i, t := range list {
		values = append(values, value.FromCQL(m, t, args[i]))
	}
	return values, nil
}
