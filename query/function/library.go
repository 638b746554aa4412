package function

import (
	"cqld/types"
)

// Library contains all native functions by name. It is immutable and safe for concurrent use, and one Library is enough
// for a process. A name is in one of the two maps, never in both.
type Library struct {
	// fixed contains the functions with fixed signatures, in the order in which errors list them.
	fixed map[string][]*Function
	// factories contains the functions that create a signature for the argument types of each call.
	factories map[string]factory
}

// factory creates the signature for a call of a function that accepts arguments of many types. It returns the error for
// arguments that the function does not accept.
type factory func(c Call) (*Function, error)

// New returns the library. It has several hundred signatures, mostly of operators and casts, and is therefore made
// once.
func New() *Library {
	l := &Library{fixed: map[string][]*Function{}, factories: map[string]factory{}}
	l.addTime()
	l.addBlob()
	l.addCast()
	l.addOperators()
	l.addMath()
	l.addAggregates()
	l.addCollections()
	l.addJSON()
	l.addToken()
	l.addMask()
	l.addVector()
	l.addLength()
	l.addFormat()
	return l
}

// add adds a signature under its name and aliases. An alias is a copy, so that errors and names of columns show the
// name that was used. It is called by New only, like make: a Library that is in use does not change.
func (l *Library) add(f *Function, aliases ...string) {
	l.fixed[f.Name] = append(l.fixed[f.Name], f)
	for _, a := range aliases {
		alias := *f
		alias.Name = a
		l.fixed[a] = append(l.fixed[a], &alias)
	}
}

// make adds a factory under a name and aliases. f receives the name that the call uses. The Function that it returns
// must not change afterwards.
func (l *Library) make(name string, f func(name string, c Call) (*Function, error), aliases ...string) {
	for _, n := range append([]string{name}, aliases...) {
		l.factories[n] = func(c Call) (*Function, error) { return f(n, c) }
	}
}

// native returns a native type.
func native(k types.Kind) *types.Type { return types.Native(k) }

// args returns the argument types of a signature.
func args(kinds ...types.Kind) []*types.Type {
	out := make([]*types.Type, len(kinds))
	for i, k := range kinds {
		out[i] = native(k)
	}
	return out
}

// numericKinds returns the numeric types, in the order in which Cassandra lists signatures. Counter is among them:
// arithmetic on a counter is arithmetic on a bigint.
func numericKinds() []types.Kind {
	return []types.Kind{types.Int, types.Float, types.Smallint, types.Decimal, types.Counter, types.Tinyint,
		types.Bigint, types.Varint, types.Double}
}

// anyNull reports whether an argument is null: most functions then return null.
func anyNull(args [][]byte) bool {
	for _, a := range args {
		if a == nil {
			return true
		}
	}
	return false
}

// strict returns a function that returns null if any argument is null, and otherwise calls f. An empty value is not
// null: f must handle it.
func strict(f func(args [][]byte) ([]byte, error)) func(Env, [][]byte) ([]byte, error) {
	return func(_ Env, args [][]byte) ([]byte, error) {
		if anyNull(args) {
			return nil, nil
		}
		return f(args)
	}
}
