package query

import (
	"errors"

	"cqld/query/function"
	"cqld/query/invalid"
	"cqld/schema"
	"cqld/types"
	"cqld/udf"
)

// userFunctions returns user-defined functions in the form of package function. Its methods are safe for concurrent
// use.
type userFunctions struct {
	runtime *udf.Runtime
	enabled bool
}

// newUserFunctions returns user-defined functions that runtime executes. If enabled is false, calls fail.
func newUserFunctions(runtime *udf.Runtime, enabled bool) *userFunctions {
	return &userFunctions{runtime, enabled}
}

// Named returns the functions and aggregates of k, which may be nil, with the given name. Each call returns new
// function.Function values; Signatures identify the functions.
func (u *userFunctions) Named(k *schema.Keyspace, name string) []*function.Function {
	if k == nil || !k.HasFunctions() {
		return nil
	}
	var out []*function.Function
	for _, f := range k.FunctionsNamed(name) {
		out = append(out, u.Scalar(f))
	}
	for _, a := range k.AggregatesNamed(name) {
		out = append(out, u.aggregate(k, a))
	}
	return out
}

// Scalar returns a scalar function. It is volatile, because its result may depend on anything: as in Cassandra, it is
// only called when the statement is executed.
func (u *userFunctions) Scalar(f *schema.Function) *function.Function {
	return &function.Function{Keyspace: f.Keyspace, Name: f.Name, Args: f.ArgTypes, Returns: f.Returns, Volatile: true,
		Signatures: []string{f.Signature()},
		Eval:       func(env function.Env, args [][]byte) ([]byte, error) { return u.call(env, f, args) }}
}

// call calls a function, unless an argument is null and it has RETURNS NULL ON NULL INPUT.
func (u *userFunctions) call(env function.Env, f *schema.Function, args [][]byte) ([]byte, error) {
	// Cassandra's message names cassandra.yaml, although cqld has another configuration file.
	if !u.enabled {
		return nil, &invalid.Error{Msg: "User-defined functions are disabled in cassandra.yaml - set " +
			"user_defined_functions_enabled=true to enable"}
	}
	if !f.CalledOnNull {
		// An empty value of most types is null for functions, as in Cassandra.
		for i, a := range args {
			if a == nil || len(a) == 0 && !hasEmpty(f.ArgTypes[i]) {
				return nil, nil
			}
		}
	}
	b, warning, err := u.runtime.Call(f, args)
	// Warnings, such as of a slow call, go to the client. Compilation has no env.
	if warning != "" && env != nil {
		env.Warn(warning)
	}
	var failure *udf.Failure
	// The function failed or exceeded a bound.
	if errors.As(err, &failure) {
		return nil, &invalid.FunctionFailure{Keyspace: f.Keyspace, Function: f.Name,
			Args: schema.ArgumentTexts(f.ArgTypes), Msg: failure.Msg}
	}
	return b, err
}

// hasEmpty reports whether an empty value of type t is not null for functions.
func hasEmpty(t *types.Type) bool {
	switch t.Kind() {
	case types.Ascii, types.Text, types.Blob, types.Tuple, types.UDT, types.Custom:
		return true
	}
	return false
}

// aggregate returns an aggregate of k. Signatures includes both functions of the aggregate, because the client needs
// the permission to call them.
func (u *userFunctions) aggregate(k *schema.Keyspace, a *schema.Aggregate) *function.Function {
	// The functions are resolved in the schema of the statement; final is nil if there is none.
	state, final := k.StateOf(a), k.FinalOf(a)
	f := &function.Function{Keyspace: a.Keyspace, Name: a.Name, Args: a.ArgTypes, Returns: a.Returns,
		Signatures: []string{a.Signature(), state.Signature()},
		New: func(env function.Env) function.Accumulator {
			return &accumulator{u: u, env: env, of: a, step: state, final: final, state: a.Initial}
		}}
	if final != nil {
		f.Signatures = append(f.Signatures, final.Signature())
	}
	return f
}

// accumulator is an aggregation in progress. Its state is a value of the state type in wire form; nil is null.
type accumulator struct {
	u           *userFunctions
	env         function.Env
	of          *schema.Aggregate
	step, final *schema.Function
	state       []byte
}

// Add calls the state function. If it has RETURNS NULL ON NULL INPUT, rows with a null argument do not change the
// state.
func (a *accumulator) Add(args [][]byte) error {
	if !a.step.CalledOnNull {
		for _, v := range args {
			if v == nil {
				return nil
			}
		}
	}
	// The state is the first argument of the state function.
	all := make([][]byte, 0, len(args)+1)
	next, err := a.u.call(a.env, a.step, append(append(all, a.state), args...))
	if err != nil {
		return err
	}
	a.state = next
	return nil
}

// Result calls the final function. For an empty group it receives the initial state.
func (a *accumulator) Result() ([]byte, error) {
	if a.final == nil {
		return a.state, nil
	}
	return a.u.call(a.env, a.final, [][]byte{a.state})
}

// Reset sets the initial state.
func (a *accumulator) Reset() { a.state = a.of.Initial }

// Size implements function.Accumulator.
func (a *accumulator) Size() int { return len(a.state) }
