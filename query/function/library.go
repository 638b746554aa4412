package function

import (
	"cqld/types"
)

// Library contains all native functions by name. It is immutable.
type Library struct {
	fixed     map[string][]*Function
	factories map[string]factory
}

// factory creates the signature for a call of a function that accepts arguments of many types.
type factory func(c Call) (*Function, error)

// New returns the library.
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

// add adds a signature under its name and aliases.
func (l *Library) add(f *Function, aliases ...string) {
	l.fixed[f.Name] = append(l.fixed[f.Name], f)
	for _, a := range aliases {
		alias := *f
		alias.Name = a
		l.fixed[a] = append(l.fixed[a], &alias)
	}
}

// make adds a factory under a name and aliases.
func (l *Library) make(name string, f func(name string, c Call) (*Function, error), aliases ...string) {
	for _, n := range append([]string{name}, aliases...) {
		l.factories[n] = func(c Call) (*Function, error) { return f(n, c) }
	}
}

func native(k types.Kind) *types.Type { return types.Native(k) }

func args(kinds ...types.Kind) []*types.Type {
	out := make([]*types.Type, len(kinds))
	for i, k := range kinds {
		out[i] = native(k)
	}
	return out
}

// numericKinds returns the numeric types, in the order in which Cassandra lists signatures.
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

// strict returns a function that returns null if an argument is null, and f of the arguments otherwise.
func strict(f func(args [][]byte) ([]byte, error)) func(Env, [][]byte) ([]byte, error) {
	return func(_ Env, args [][]byte) ([]byte, error) {
		if anyNull(args) {
			return nil, nil
		}
		return f(args)
	}
}
