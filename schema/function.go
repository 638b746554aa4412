package schema

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"cqld/types"
)

// Function is a scalar function that a user has defined. It is immutable. Language and Body are as CREATE FUNCTION has
// them; this package does not compile them.
type Function struct {
	Keyspace, Name string
	// As many as ArgTypes.
	ArgNames []string
	ArgTypes []*types.Type // as declared: collections and user-defined types are not frozen
	Returns  *types.Type
	// CALLED ON NULL INPUT, not RETURNS NULL ON NULL INPUT.
	CalledOnNull bool // otherwise the result is null if an argument is null
	Language     string
	Body         string
}

// Aggregate is an aggregate that a user has defined from functions of the same keyspace. It is immutable. Its functions
// are found by name and argument types, never stored as pointers: they may be replaced.
type Aggregate struct {
	Keyspace, Name string
	ArgTypes       []*types.Type
	StateFunction  string // its arguments are the state and the aggregate's arguments
	// STYPE. It is also the first argument of the state function and the argument of the final one.
	StateType     *types.Type
	FinalFunction string // its argument is the state; empty means the state is the result
	// INITCOND, in wire form of StateType. An empty slice is a value of length zero.
	Initial []byte // the first state; nil is null
	// Of the final function or, without one, of the state function.
	Returns *types.Type
}

// Signature returns the name with the types of the arguments, which identifies a function within its keyspace.
func (f *Function) Signature() string { return FunctionSignature(f.Name, f.ArgTypes) }

// Signature returns the name with the types of the arguments, which identifies an aggregate within its keyspace.
func (a *Aggregate) Signature() string { return FunctionSignature(a.Name, a.ArgTypes) }

// FunctionSignature returns the name of a function with the types of its arguments, as name(int, text). It contains no
// frozen, so it is the same however the types are written. It is the key of a keyspace's functions, and is not quoted:
// it is not CQL.
//
//	f(int, list<text>)   also of f(int, frozen<list<text>>)
//	f()
func FunctionSignature(name string, args []*types.Type) string {
	texts := make([]string, len(args))
	for i, t := range args {
		texts[i] = thawedText(t)
	}
	return name + "(" + strings.Join(texts, ", ") + ")"
}

// thawedText returns the text of a type without any frozen, at any depth. User-defined types are their names.
func thawedText(t *types.Type) string {
	// Only these kinds have parts in their texts. User-defined types are shown by their names.
	words := map[types.Kind]string{types.List: "list", types.Set: "set", types.Map: "map", types.Tuple: "tuple",
		types.Vector: "vector"}
	word, ok := words[t.Kind()]
	if !ok {
		return DeclaredText(t)
	}
	parts := make([]string, len(t.Elems()))
	for i, e := range t.Elems() {
		parts[i] = thawedText(e)
	}
	if t.Kind() == types.Vector {
		parts = append(parts, strconv.Itoa(t.Dimensions()))
	}
	return word + "<" + strings.Join(parts, ", ") + ">"
}

// FunctionText returns the name of a function with the types of its arguments as declared, for messages. The name is
// not quoted.
func FunctionText(name string, args []*types.Type) string {
	return name + "(" + strings.Join(ArgumentTexts(args), ", ") + ")"
}

// ArgumentTexts returns the types of arguments as declared, that is, without frozen around each.
func ArgumentTexts(args []*types.Type) []string {
	texts := make([]string, len(args))
	for i, t := range args {
		texts[i] = DeclaredText(t)
	}
	return texts
}

// DeclaredText returns the type of an argument or a result as CREATE FUNCTION declares it: what is always frozen there,
// is not written so. Only the outermost frozen is removed.
func DeclaredText(t *types.Type) string {
	text := t.String()
	// The text of a frozen type is balanced: its last character closes the prefix.
	if inner, ok := strings.CutPrefix(text, "frozen<"); ok {
		return strings.TrimSuffix(inner, ">")
	}
	return text
}

// routines are the functions and aggregates of a keyspace, by signature. The two maps have no signature in common.
// Keyspaces embed it.
type routines struct {
	functions  map[string]*Function
	aggregates map[string]*Aggregate
}

// Function returns the function with these argument types, or nil.
func (r *routines) Function(name string, args []*types.Type) *Function {
	return r.functions[FunctionSignature(name, args)]
}

// Aggregate returns the aggregate with these argument types, or nil.
func (r *routines) Aggregate(name string, args []*types.Type) *Aggregate {
	return r.aggregates[FunctionSignature(name, args)]
}

// HasSignature reports whether a function or an aggregate has this signature.
func (r *routines) HasSignature(signature string) bool {
	return r.functions[signature] != nil || r.aggregates[signature] != nil
}

// Functions returns the functions in the order of their signatures, in a new slice.
func (r *routines) Functions() []*Function {
	functions := make([]*Function, 0, len(r.functions))
	for _, signature := range slices.Sorted(maps.Keys(r.functions)) {
		functions = append(functions, r.functions[signature])
	}
	return functions
}

// Aggregates returns the aggregates in the order of their signatures, in a new slice.
func (r *routines) Aggregates() []*Aggregate {
	aggregates := make([]*Aggregate, 0, len(r.aggregates))
	for _, signature := range slices.Sorted(maps.Keys(r.aggregates)) {
		aggregates = append(aggregates, r.aggregates[signature])
	}
	return aggregates
}

// FunctionsNamed returns the functions with a name, in the order of their signatures.
// Functions returns a new slice, which DeleteFunc may change.
func (r *routines) FunctionsNamed(name string) []*Function {
	return slices.DeleteFunc(r.Functions(), func(f *Function) bool { return f.Name != name })
}

// AggregatesNamed returns the aggregates with a name, in the order of their signatures.
func (r *routines) AggregatesNamed(name string) []*Aggregate {
	return slices.DeleteFunc(r.Aggregates(), func(a *Aggregate) bool { return a.Name != name })
}

// HasFunctions reports whether the keyspace contains functions or aggregates.
func (r *routines) HasFunctions() bool { return len(r.functions)+len(r.aggregates) > 0 }

// SameFunctions reports whether k and o have the same versions of the same functions and aggregates. It compares
// pointers: a change that does not concern functions shares them.
func (k *Keyspace) SameFunctions(o *Keyspace) bool {
	return maps.Equal(k.functions, o.functions) && maps.Equal(k.aggregates, o.aggregates)
}

// StateOf returns the state function of an aggregate, or nil if it does not exist. The aggregate need not be in r.
func (r *routines) StateOf(a *Aggregate) *Function {
	return r.Function(a.StateFunction, append([]*types.Type{a.StateType}, a.ArgTypes...))
}

// FinalOf returns the final function of an aggregate, or nil if it has none.
func (r *routines) FinalOf(a *Aggregate) *Function {
	if a.FinalFunction == "" {
		return nil
	}
	return r.Function(a.FinalFunction, []*types.Type{a.StateType})
}

// replaceIn returns the types with u in place of every older version of u, in a new slice.
func replaceIn(list []*types.Type, u *types.Type) []*types.Type {
	out := make([]*types.Type, len(list))
	for i, t := range list {
		out[i] = replaceType(t, u)
	}
	return out
}

// withFunctionTypes replaces a user-defined type in the functions and aggregates; r must be a clone. Signatures stay:
// they contain the names of types only.
func (r *routines) withFunctionTypes(u *types.Type) {
	for key, f := range r.functions {
		if f.usesType(u.UDTName()) {
			// Replacing an entry of the map that is iterated is safe: no key is added.
			changed := *f
			changed.ArgTypes, changed.Returns = replaceIn(f.ArgTypes, u), replaceType(f.Returns, u)
			r.functions[key] = &changed
		}
	}
	for key, a := range r.aggregates {
		if a.usesType(u.UDTName()) {
			changed := *a
			changed.ArgTypes, changed.StateType = replaceIn(a.ArgTypes, u), replaceType(a.StateType, u)
			changed.Returns = replaceType(a.Returns, u)
			r.aggregates[key] = &changed
		}
	}
}

// usesType reports whether an argument or the result is or contains the user-defined type called name.
func (f *Function) usesType(name string) bool {
	return uses(f.Returns, name) || slices.ContainsFunc(f.ArgTypes, func(t *types.Type) bool { return uses(t, name) })
}

// usesType reports whether an argument, the state or the result is or contains the user-defined type called name.
func (a *Aggregate) usesType(name string) bool {
	return uses(a.Returns, name) || uses(a.StateType, name) ||
		slices.ContainsFunc(a.ArgTypes, func(t *types.Type) bool { return uses(t, name) })
}

// equal reports whether f and o have the same definition. Keyspace and name are equal: the caller has found o by
// signature.
func (f *Function) equal(o *Function) bool {
	return slices.Equal(f.ArgNames, o.ArgNames) && slices.EqualFunc(f.ArgTypes, o.ArgTypes, (*types.Type).Equal) &&
		f.Returns.Equal(o.Returns) &&
		f.CalledOnNull == o.CalledOnNull && f.Language == o.Language && f.Body == o.Body
}

// equal reports whether a and o have the same definition. Initial distinguishes null from the empty value.
func (a *Aggregate) equal(o *Aggregate) bool {
	return slices.EqualFunc(a.ArgTypes, o.ArgTypes, (*types.Type).Equal) && a.StateFunction == o.StateFunction &&
		a.StateType.Equal(o.StateType) &&
		a.FinalFunction == o.FinalFunction && a.Returns.Equal(o.Returns) && string(a.Initial) == string(o.Initial) &&
		(a.Initial == nil) == (o.Initial == nil)
}
