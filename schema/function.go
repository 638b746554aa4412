package schema

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"cqld/types"
)

// Function is a user-defined scalar function. It is immutable. Language and Body are as in CREATE FUNCTION; this
// package does not compile them.
type Function struct {
	Keyspace, Name string
	// ArgNames and ArgTypes have the same length.
	ArgNames []string
	ArgTypes []*types.Type // as declared: collections and user-defined types are not frozen
	Returns  *types.Type
	// CalledOnNull distinguishes CALLED ON NULL INPUT from RETURNS NULL ON NULL INPUT.
	CalledOnNull bool // otherwise the result is null if an argument is null
	Language     string
	Body         string
}

// Aggregate is a user-defined aggregate of functions in the same keyspace. It is immutable. Its functions are looked up
// by name and argument types, because they may be replaced.
type Aggregate struct {
	Keyspace, Name string
	ArgTypes       []*types.Type
	StateFunction  string // its arguments are the state and the aggregate's arguments
	// StateType is STYPE: the first argument of the state function and the argument of the final function.
	StateType     *types.Type
	FinalFunction string // its argument is the state; empty means the state is the result
	// Initial is INITCOND in wire form. An empty slice is a value of length zero.
	Initial []byte // the first state; nil is null
	// Returns is the result type of the final function or, without one, of the state function.
	Returns *types.Type
}

// Signature returns the name with the argument types, which identifies a function within its keyspace.
func (f *Function) Signature() string { return FunctionSignature(f.Name, f.ArgTypes) }

// Signature returns the name with the argument types, which identifies an aggregate within its keyspace.
func (a *Aggregate) Signature() string { return FunctionSignature(a.Name, a.ArgTypes) }

// FunctionSignature returns the name of a function with its argument types, as name(int, text), by which a keyspace
// finds its functions. It omits frozen, so frozen and unfrozen arguments have the same signature. It is not CQL, so
// names are not quoted.
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

// thawedText returns the text of a type without frozen at any depth. User-defined types are shown by name.
func thawedText(t *types.Type) string {
	// Only these kinds show their parts.
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

// FunctionText returns the name of a function with its declared argument types, for messages. The name is not quoted.
func FunctionText(name string, args []*types.Type) string {
	return name + "(" + strings.Join(ArgumentTexts(args), ", ") + ")"
}

// ArgumentTexts returns argument types as declared: without the outermost frozen.
func ArgumentTexts(args []*types.Type) []string {
	texts := make([]string, len(args))
	for i, t := range args {
		texts[i] = DeclaredText(t)
	}
	return texts
}

// DeclaredText returns an argument or result type as CREATE FUNCTION declares it. Such types are always frozen, so the
// outermost frozen is omitted.
func DeclaredText(t *types.Type) string {
	text := t.String()
	// In the text of a frozen type, the last character closes the prefix.
	if inner, ok := strings.CutPrefix(text, "frozen<"); ok {
		return strings.TrimSuffix(inner, ">")
	}
	return text
}

// routines are the functions and aggregates of a keyspace, by signature. No signature is in both maps. Keyspaces embed
// it.
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

// FunctionsNamed returns the functions with a name, sorted by signature.
func (r *routines) FunctionsNamed(name string) []*Function {
	return slices.DeleteFunc(r.Functions(), func(f *Function) bool { return f.Name != name })
}

// AggregatesNamed returns the aggregates with a name, sorted by signature.
func (r *routines) AggregatesNamed(name string) []*Aggregate {
	return slices.DeleteFunc(r.Aggregates(), func(a *Aggregate) bool { return a.Name != name })
}

// HasFunctions reports whether the keyspace contains functions or aggregates.
func (r *routines) HasFunctions() bool { return len(r.functions)+len(r.aggregates) > 0 }

// SameFunctions reports whether k and o have the same versions of the same functions and aggregates. It compares
// pointers, which unrelated changes keep.
func (k *Keyspace) SameFunctions(o *Keyspace) bool {
	return maps.Equal(k.functions, o.functions) && maps.Equal(k.aggregates, o.aggregates)
}

// StateOf returns the state function of an aggregate, or nil if it does not exist. The aggregate need not be part of r.
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

// replaceIn returns a new slice in which u replaces every older version of u.
func replaceIn(list []*types.Type, u *types.Type) []*types.Type {
	out := make([]*types.Type, len(list))
	for i, t := range list {
		out[i] = replaceType(t, u)
	}
	return out
}

// withFunctionTypes replaces a user-defined type in the functions and aggregates; r must be a clone. Signatures contain
// only the names of types, so they stay.
func (r *routines) withFunctionTypes(u *types.Type) {
	for key, f := range r.functions {
		if f.usesType(u.UDTName()) {
			// Assigning to existing keys during the iteration is safe.
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

// equal reports whether f and o have the same definition. The caller found o by signature, so keyspace and name are
// equal.
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
