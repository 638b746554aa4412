package mask

import (
	"fmt"
	"strings"

	"cqld/cql"
	"cqld/internal/wire"
	"cqld/query/function"
	"cqld/query/invalid"
	"cqld/query/term"
	"cqld/schema"
	"cqld/types"
)

// Definer converts MASKED WITH to masks of columns. Its error messages are Cassandra's. One Definer serves the
// definitions of one statement.
type Definer struct {
	Compiler *term.Compiler // compiles the arguments
	Table    string         // for messages
	Env      function.Env   // the environment of function calls in the arguments, which are evaluated once
	// Execute returns an error if the client may not call a user-defined function; a nil Execute permits all
	// functions. The client that attaches a function as a mask needs the permission to call it, because clients that
	// read the column need none.
	Execute func(fn *function.Function) error
}

// Define returns the mask that m attaches to a column. t is the type of the column. The arguments of the mask are
// constants, and are evaluated here, once: all reads use the same values. Errors are *invalid.Error, and errors of
// Execute.
func (d *Definer) Define(column string, t *types.Type, m *cql.Mask) (*schema.Mask, error) {
	name, terms := m.Function, m.Args
	if m.Default {
		// DEFAULT names no function, and takes no arguments.
		name = cql.QualifiedName{Name: "mask_default"}
	}
	written := term.FunctionText(name) + "(" + termsText(terms) + ")"
	// The first argument of the function is the masked value, which CQL omits.
	args := []function.Arg{columnArg{t}}
	for _, a := range terms {
		if term.HasMarker(a) {
			return nil, invalid.Errorf("Bind variables are not supported in the arguments of masking functions")
		}
		if call, ok := a.(*cql.FunctionCall); ok && !d.Compiler.Functions.Exists(call.Name.Name) {
			return nil, invalid.Errorf("Unknown function %s called", term.FunctionText(call.Name))
		}
		args = append(args, d.Compiler.Arg(a))
	}
	fn, err := d.Compiler.Resolve(name, args, nil)
	switch {
	case err != nil:
		return nil, err
	case fn == nil:
		return nil, invalid.Errorf("Unable to find masking function for %s, no declared function matches the "+
			"signature %s", column, written)
	case fn.IsAggregate():
		return nil, invalid.Errorf("Aggregate function %s cannot be used for masking table columns", written)
	case fn.Keyspace != "" && fn.Keyspace != d.Compiler.Keyspace:
		return nil, invalid.Errorf("Masking function %s doesn't belong to the same keyspace as the table %s.%s",
			written, d.Compiler.Keyspace, d.Table)
	case fn.Keyspace == "" && !function.IsMask(fn.Name):
		return nil, invalid.Errorf("Not-masking function %s cannot be used for masking table columns", written)
	// The result replaces the value of the column. frozen is ignored for user-defined functions, because their
	// declarations omit it.
	case !fn.Returns.Equal(t) && (fn.Keyspace == "" || !fn.Returns.Freeze().Equal(t.Freeze())):
		return nil,
			invalid.Errorf("Masking function %s return type is %s. This is different to the type of the masked "+
				"column %s of type %s. Masking functions can only be attached to table columns if they return the "+
				"same data type as the masked column.", written, fn.Returns, column, t)
	}
	if fn.Keyspace != "" && d.Execute != nil {
		if err := d.Execute(fn); err != nil {
			return nil, err
		}
	}
	// User-defined functions may be overloaded, so the mask stores the declared types of the arguments to find the
	// same function later. A native function is determined by its name and the column (ArgumentTypes).
	out := &schema.Mask{Keyspace: fn.Keyspace, Function: fn.Name}
	for i, a := range terms {
		v, err := d.value(a, fn, i+1)
		if err != nil {
			return nil, err
		}
		out.Args = append(out.Args, v)
		if fn.Keyspace != "" {
			out.Types = append(out.Types, fn.Args[i+1].DeclaredClass())
		}
	}
	return out, nil
}

// value evaluates the ith argument of fn, and returns its wire form; nil is null. i counts from the masked value, which
// is argument 0.
func (d *Definer) value(a cql.Term, fn *function.Function, i int) ([]byte, error) {
	// Cassandra's messages use this name for an argument.
	receiver := term.Spec{Name: fmt.Sprintf("arg%d(%s)", i, fn.Qualified()), Type: fn.Args[i]}
	// The argument is converted to the type that the function declares.
	t, err := d.Compiler.Term(a, receiver)
	if err != nil {
		return nil, err
	}
	v, err := t.Eval(&term.Scope{Env: d.Env})
	// A null argument is stored as nil.
	if err != nil || v.Kind != wire.ValueSet {
		return nil, err
	}
	return term.NotNil(v.Bytes), nil
}

// termsText returns arguments as CQL, for messages.
func termsText(terms []cql.Term) string {
	texts := make([]string, len(terms))
	for i, t := range terms {
		texts[i] = term.Text(t)
	}
	return strings.Join(texts, ", ")
}

// columnArg is the masked column as an argument of the masking function. It has a type but no value, which is known
// only when rows are read.
type columnArg struct{ t *types.Type }

// Match implements function.Arg.
func (a columnArg) Match(to *types.Type) function.Match { return function.Assignable(a.t, to) }

// Type implements function.Arg.
func (a columnArg) Type() *types.Type { return a.t }

// Elements implements function.Arg.
func (a columnArg) Elements() int { return -1 }

// IsMarker implements function.Arg.
func (a columnArg) IsMarker() bool { return false }

// String implements function.Arg. Cassandra's messages show the class of the type instead of the column's name.
func (a columnArg) String() string { return a.t.MarshalClass() }
