package schema

import (
	"fmt"

	"cqld/types"
)

// encodedFunction is a Function with its types as class names.
type encodedFunction struct {
	Keyspace string `json:",omitempty"` // only in changes
	Name     string
	ArgNames []string `json:",omitempty"`
	// ArgTypes are class names, parallel to ArgNames.
	ArgTypes     []string `json:",omitempty"`
	Returns      string
	CalledOnNull bool `json:",omitempty"`
	// Language and Body are as in CREATE FUNCTION. Decoding does not validate them.
	Language string
	Body     string
}

// encodedAggregate is an Aggregate with its types as class names.
type encodedAggregate struct {
	Keyspace string `json:",omitempty"` // only in changes
	Name     string
	ArgTypes []string `json:",omitempty"`
	// Functions are stored by name; their argument types follow from StateType and ArgTypes.
	StateFunction string
	StateType     string
	FinalFunction string `json:",omitempty"`
	Initial       []byte // null is nil; "" is an empty value
	Returns       string `json:",omitempty"` // not in changes
}

// encodedCreateFunction is a CreateFunction in the Raft log. Function contains the types.
type encodedCreateFunction struct {
	OrReplace   bool `json:",omitempty"`
	IfNotExists bool `json:",omitempty"`
	Function    encodedFunction
}

// encodedCreateAggregate is a CreateAggregate in the Raft log.
type encodedCreateAggregate struct {
	OrReplace   bool `json:",omitempty"`
	IfNotExists bool `json:",omitempty"`
	Aggregate   encodedAggregate
}

// encodedDropFunction is a DropFunction in the Raft log.
type encodedDropFunction struct {
	Aggregate bool `json:",omitempty"`
	Keyspace  string
	Name      string
	Args      []string `json:",omitempty"`
	// HasArgs distinguishes f() from f without argument types; Args is empty for both.
	HasArgs  bool `json:",omitempty"`
	IfExists bool `json:",omitempty"`
}

// classesOf returns the class names of types, which contain the names of fields.
func classesOf(list []*types.Type) []string {
	var classes []string
	for _, t := range list {
		classes = append(classes, t.DeclaredClass())
	}
	return classes
}

// decodeTypes is the inverse of classesOf.
func decodeTypes(classes []string) ([]*types.Type, error) {
	var list []*types.Type
	for _, class := range classes {
		t, err := decodeType(class)
		if err != nil {
			return nil, err
		}
		list = append(list, t)
	}
	return list, nil
}

// encodeFunction encodes a function without its keyspace.
func encodeFunction(f *Function) encodedFunction {
	return encodedFunction{Name: f.Name, ArgNames: f.ArgNames, ArgTypes: classesOf(f.ArgTypes),
		Returns:      f.Returns.DeclaredClass(),
		CalledOnNull: f.CalledOnNull, Language: f.Language, Body: f.Body}
}

// decodeFunction decodes a function of a keyspace. ArgNames and ArgTypes must have the same length, because callers
// index both.
func decodeFunction(e *encodedFunction, keyspace string) (*Function, error) {
	args, err := decodeTypes(e.ArgTypes)
	if err != nil {
		return nil, err
	}
	if len(args) != len(e.ArgNames) || e.Name == "" {
		return nil, fmt.Errorf("%w: function %q has %d arguments and %d types", ErrFormat, e.Name, len(e.ArgNames),
			len(args))
	}
	returns, err := decodeType(e.Returns)
	if err != nil {
		return nil, err
	}
	return &Function{Keyspace: keyspace, Name: e.Name, ArgNames: e.ArgNames, ArgTypes: args, Returns: returns,
		CalledOnNull: e.CalledOnNull, Language: e.Language, Body: e.Body}, nil
}

// encodeAggregate encodes an aggregate without its keyspace. The result type of a new aggregate is not known yet.
func encodeAggregate(a *Aggregate) encodedAggregate {
	e := encodedAggregate{Name: a.Name, ArgTypes: classesOf(a.ArgTypes), StateFunction: a.StateFunction,
		StateType: a.StateType.DeclaredClass(), FinalFunction: a.FinalFunction, Initial: a.Initial}
	if a.Returns != nil {
		e.Returns = a.Returns.DeclaredClass()
	}
	return e
}

// decodeAggregate decodes an aggregate of a keyspace. Returns is nil if it is not encoded.
func decodeAggregate(e *encodedAggregate, keyspace string) (*Aggregate, error) {
	args, err := decodeTypes(e.ArgTypes)
	if err != nil {
		return nil, err
	}
	if e.Name == "" {
		return nil, fmt.Errorf("%w: an aggregate without a name", ErrFormat)
	}
	a := &Aggregate{Keyspace: keyspace, Name: e.Name, ArgTypes: args, StateFunction: e.StateFunction,
		FinalFunction: e.FinalFunction, Initial: e.Initial}
	if a.StateType, err = decodeType(e.StateType); err != nil {
		return nil, err
	}
	// Apply computes the result type of a new aggregate. decodeFunctions checks that an existing one has it.
	if e.Returns != "" {
		a.Returns, err = decodeType(e.Returns)
	}
	return a, err
}

// encodeFunctions adds the functions and aggregates of k to e, by signature.
func encodeFunctions(e *encodedKeyspace, k *Keyspace) {
	for _, f := range k.Functions() {
		e.Functions = append(e.Functions, encodeFunction(f))
	}
	for _, a := range k.Aggregates() {
		e.Aggregates = append(e.Aggregates, encodeAggregate(a))
	}
}

// decodeFunctions adds the functions and aggregates of e to k. The functions of an aggregate must exist, because its
// execution does not check that.
func decodeFunctions(e *encodedKeyspace, k *Keyspace) error {
	for i := range e.Functions {
		f, err := decodeFunction(&e.Functions[i], k.Name)
		if err != nil {
			return err
		}
		// Functions and aggregates share the namespace of signatures.
		if k.HasSignature(f.Signature()) {
			return fmt.Errorf("%w: duplicate function %q", ErrFormat, f.Signature())
		}
		k.functions[f.Signature()] = f
	}
	// Functions are decoded first, because aggregates refer to them.
	for i := range e.Aggregates {
		a, err := decodeAggregate(&e.Aggregates[i], k.Name)
		if err != nil {
			return err
		}
		// StateOf and FinalOf search by argument types, so the types are checked as well.
		if k.HasSignature(a.Signature()) || k.StateOf(a) == nil || a.FinalFunction != "" && k.FinalOf(a) == nil ||
			a.Returns == nil {
			return fmt.Errorf("%w: aggregate %q", ErrFormat, a.Signature())
		}
		k.aggregates[a.Signature()] = a
	}
	return nil
}

// encodeCreateFunction encodes a change with the keyspace of its function.
func encodeCreateFunction(c *CreateFunction) *encodedCreateFunction {
	e := &encodedCreateFunction{OrReplace: c.OrReplace, IfNotExists: c.IfNotExists,
		Function: encodeFunction(c.Function)}
	e.Function.Keyspace = c.Function.Keyspace
	return e
}

// change returns the decoded change.
func (e *encodedCreateFunction) change() (Change, error) {
	f, err := decodeFunction(&e.Function, e.Function.Keyspace)
	if err != nil {
		return nil, err
	}
	return &CreateFunction{OrReplace: e.OrReplace, IfNotExists: e.IfNotExists, Function: f}, nil
}

// encodeCreateAggregate encodes a change with the keyspace of its aggregate. It omits the result type, which Apply
// computes.
func encodeCreateAggregate(c *CreateAggregate) *encodedCreateAggregate {
	e := &encodedCreateAggregate{OrReplace: c.OrReplace, IfNotExists: c.IfNotExists,
		Aggregate: encodeAggregate(c.Aggregate)}
	e.Aggregate.Keyspace, e.Aggregate.Returns = c.Aggregate.Keyspace, ""
	return e
}

// change returns the decoded change.
func (e *encodedCreateAggregate) change() (Change, error) {
	a, err := decodeAggregate(&e.Aggregate, e.Aggregate.Keyspace)
	if err != nil {
		return nil, err
	}
	return &CreateAggregate{OrReplace: e.OrReplace, IfNotExists: e.IfNotExists, Aggregate: a}, nil
}

// encodeDropFunction encodes a change.
func encodeDropFunction(c *DropFunction) *encodedDropFunction {
	return &encodedDropFunction{Aggregate: c.Aggregate, Keyspace: c.Keyspace, Name: c.Name, Args: classesOf(c.Args),
		HasArgs: c.HasArgs, IfExists: c.IfExists}
}

// change returns the decoded change.
func (e *encodedDropFunction) change() (Change, error) {
	args, err := decodeTypes(e.Args)
	if err != nil {
		return nil, err
	}
	return &DropFunction{Aggregate: e.Aggregate, Keyspace: e.Keyspace, Name: e.Name, Args: args, HasArgs: e.HasArgs,
		IfExists: e.IfExists}, nil
}
