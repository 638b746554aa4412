package term

import (
	"errors"
	"strings"

	"cqld/cql"
	"cqld/internal/wire"
	"cqld/query/function"
	"cqld/query/invalid"
	"cqld/schema"
	"cqld/types"
)

// Marker describes one bind marker of a statement. The result of PREPARE contains it; its position in Compiler.Markers
// is the index of its value. For WHERE k = ?, the name is k, its type the type of k, and Column is k.
type Marker struct {
	Spec   Spec
	Column *schema.Column // the column to which the marker assigns the whole value, or nil
}

// Spec is the name and type of a value: of a term's receiver or a bind marker (Cassandra's ColumnSpecification).
// Keyspace and Table are empty outside of a table. The metadata of results and of bind markers consists of Specs.
// Names of receivers that are not columns are Cassandra's, such as [limit], value(l) or arg0(system.token).
type Spec struct {
	Keyspace, Table, Name string
	Type                  *types.Type
}

// Compiler compiles the terms of one statement and determines the types of its bind markers. It belongs to one
// statement and one goroutine. The schema is a snapshot: all names of a statement are resolved in it. The caller sets
// the exported fields, except for Markers, Called and Decoded, which are results.
type Compiler struct {
	Schema    *schema.Schema
	Functions *function.Library
	// ResolveType resolves the type e in the keyspace k, which may be nil and has the name keyspace. It returns an
	// error for an unknown type.
	ResolveType func(k *schema.Keyspace, keyspace string, e *cql.TypeExpr) (*types.Type, error)

	Keyspace string        // keyspace of unqualified names
	Table    *schema.Table // table of the statement; nil while unknown
	Markers  []Marker      // bind markers by index

	// UserFunctions returns the functions and aggregates of the keyspace k, which may be nil, with a name; nil means
	// there are none.
	UserFunctions func(k *schema.Keyspace, name string) []*function.Function
	Called        []*function.Function // the user-defined functions that the statement calls
	// Decoded are the markers in terms that are decoded as JSON, by index. A marker occurs once for each such term.
	// The caller may read and clear it between the statements of a batch.
	Decoded []int

	// calls caches resolved calls by the pointers to their terms, because the syntax tree does not change.
	calls    map[callKey]*function.Function // resolved to match arguments; nil where none matches
	mismatch error                          // a list literal matched with another type
	decoding int                            // nesting depth of DecodedTerm
}

// callKey is a call and the required type of its result; nil means any type. Types are compared by identity, so equal
// types may have several entries, which only costs memory.
type callKey struct {
	call     cql.Term
	receiver *types.Type
}

// Bind records the receiver of a bind marker. Markers may be bound in any order: a gap is filled later. A named marker
// keeps its name instead of the receiver's. Binding a marker again replaces its receiver.
func (c *Compiler) Bind(m *cql.BindMarker, receiver Spec, column *schema.Column) {
	// Markers may be compiled out of order, because clauses are not compiled in the order of the text.
	for len(c.Markers) <= m.Index {
		c.Markers = append(c.Markers, Marker{})
	}
	if m.Name != "" {
		receiver.Name = m.Name
	}
	c.Markers[m.Index] = Marker{Spec: receiver, Column: column}
	if c.decoding > 0 {
		c.Decoded = append(c.Decoded, m.Index)
	}
}

// Receiver returns the spec of a value in the statement's table. Without a table, as in CREATE FUNCTION, the keyspace
// and the table are empty.
func (c *Compiler) Receiver(name string, t *types.Type) Spec {
	r := Spec{Name: name, Type: t}
	if c.Table != nil {
		r.Keyspace, r.Table = c.Table.Keyspace, c.Table.Name
	}
	return r
}

// Column returns a column of the statement's table. The table must be known.
func (c *Compiler) Column(name string) (*schema.Column, error) {
	col := c.Table.Column(name)
	if col == nil {
		return nil, invalid.Errorf("Undefined column name %s in table %s.%s", cql.QuoteIdentifier(name),
			cql.QuoteIdentifier(c.Table.Keyspace), cql.QuoteIdentifier(c.Table.Name))
	}
	return col, nil
}

// ColumnTerm compiles a term that is assigned to a column. Unlike Term, it records the column of a marker that is its
// whole value, from which drivers compute the routing key (see PartitionKeyMarkers) and constraints are checked.
func (c *Compiler) ColumnTerm(t cql.Term, col *schema.Column) (Term, error) {
	r := c.Receiver(col.Name, col.Type)
	// The usual case: col = ?.
	if m, ok := t.(*cql.BindMarker); ok {
		c.Bind(m, r, col)
		return &MarkerTerm{m.Index, col.Type}, nil
	}
	out, err := c.Term(t, r)
	// Compare the type, because a hint may have given the marker a different one.
	if m := enclosedMarker(t); m != nil && err == nil && c.Markers[m.Index].Spec.Type == col.Type {
		c.Markers[m.Index].Column = col // as in Cassandra, (?) and (int)? count like ?
	}
	return out, err
}

// enclosedMarker returns the bind marker of a term that only adds parentheses or type hints to it, or nil. It treats
// a tuple of one element as parentheses; ColumnTerm checks by the type whether the receiver is a tuple.
func enclosedMarker(t cql.Term) *cql.BindMarker {
	switch t := t.(type) {
	// Its value has the type of the receiver when it is evaluated.
	case *cql.BindMarker:
		return t
	case *cql.TypeHint:
		return enclosedMarker(t.Value)
	case *cql.TupleLiteral:
		if len(t.Elements) == 1 {
			return enclosedMarker(t.Elements[0])
		}
	}
	return nil
}

// Term compiles a term that is assigned to receiver. The result has the receiver's type: a constant is already encoded,
// a marker is validated when it is evaluated. Errors are invalid requests with Cassandra's messages. The statement's
// tree is not changed, and the result does not refer to it.
func (c *Compiler) Term(t cql.Term, receiver Spec) (Term, error) {
	switch t := t.(type) {
	case *cql.Literal:
		return c.literal(t, receiver)
	case *cql.BindMarker:
		c.Bind(t, receiver, nil)
		return &MarkerTerm{t.Index, receiver.Type}, nil
	case *cql.ListLiteral:
		return c.listLiteral(t, receiver)
	case *cql.SetLiteral:
		return c.setLiteral(t, receiver)
	case *cql.MapLiteral:
		return c.mapLiteral(t, receiver)
	case *cql.UDTLiteral:
		return c.udtLiteral(t, receiver)
	case *cql.TupleLiteral:
		return c.tupleLiteral(t, receiver)
	case *cql.TypeHint:
		return c.typeHint(t, receiver)
	}
	// All other terms are calls, operators or casts.
	name, args, ok := callOf(t)
	if !ok {
		return nil, invalid.NotSupported("This term")
	}
	return c.call(t, name, args, receiver)
}

// DecodedTerm is Term for a value that is decoded as JSON when the statement is executed.
func (c *Compiler) DecodedTerm(t cql.Term, receiver Spec) (Term, error) {
	c.decoding++
	out, err := c.Term(t, receiver)
	c.decoding--
	return out, err
}

// callOf returns the function call that a term is or represents. Casts are named after their target, see package
// function.
func callOf(t cql.Term) (name cql.QualifiedName, args []cql.Term, ok bool) {
	switch t := t.(type) {
	case *cql.FunctionCall:
		return t.Name, t.Args, true
	case *cql.ArithmeticTerm:
		return native(t.Operator.Function()), []cql.Term{t.Left, t.Right}, true
	case *cql.NegateTerm:
		return native("_negate"), []cql.Term{t.Value}, true
	// The target type is part of the function's name.
	case *cql.CastTerm:
		return native("cast_as_" + t.Type.Name), []cql.Term{t.Value}, true
	}
	return name, nil, false
}

// native returns the name of a function that implements syntax. User-defined functions with its name do not count.
func native(name string) cql.QualifiedName { return cql.QualifiedName{Keyspace: "system", Name: name} }

// literalKind converts the kind of a literal from the grammar's to the one of package types; 0 for null.
func literalKind(k cql.LiteralKind) types.LiteralKind {
	switch k {
	case cql.LiteralString:
		return types.StringLiteral
	case cql.LiteralInteger:
		return types.IntegerLiteral
	case cql.LiteralFloat:
		return types.FloatLiteral
	case cql.LiteralBoolean:
		return types.BooleanLiteral
	case cql.LiteralUUID:
		return types.UUIDLiteral
	case cql.LiteralBlob:
		return types.HexLiteral
	case cql.LiteralDuration:
		return types.DurationLiteral
	}
	return 0
}

// literal compiles a constant. Its value is encoded once. For example, 1 for a column of bigint becomes
// 0000000000000001.
func (c *Compiler) literal(t *cql.Literal, receiver Spec) (Term, error) {
	if t.Kind == cql.LiteralNull && receiver.Type.Kind() == types.Counter {
		return nil, invalid.Errorf("Invalid null value for counter increment/decrement")
	}
	// null is a constant of every other type.
	if t.Kind == cql.LiteralNull {
		return &constTerm{}, nil
	}
	// Cassandra accepts 'now' for a timestamp. Compile it as a call of the function, so that it is not folded.
	if t.Kind == cql.LiteralString && receiver.Type.Kind() == types.Timestamp && strings.EqualFold(t.Text, "now") {
		return c.call(t, cql.QualifiedName{Keyspace: "system", Name: "current_timestamp"}, nil, receiver)
	}
	b, err := receiver.Type.FromLiteral(literalKind(t.Kind), t.Text)
	if err != nil {
		// The message of a constant contains the name of the receiver.
		var constant *types.ConstantError
		if errors.As(err, &constant) {
			return nil, &invalid.Error{Msg: constant.Message(receiver.Name)}
		}
		return nil, &invalid.Error{Msg: err.Error()}
	}
	return &constTerm{wire.BytesValue(NotNil(b))}, nil
}

// call compiles a function call; source is the text for messages. It resolves the function, checks its result against
// the receiver, and compiles the arguments with the types of the parameters. A call of constants is folded, unless it
// is volatile.
func (c *Compiler) call(source cql.Term, name cql.QualifiedName, args []cql.Term, receiver Spec) (Term, error) {
	fn, err := c.Resolve(name, c.args(args), receiver.Type)
	if err != nil {
		return nil, err
	}
	// Unknown names are errors for all clients, regardless of permissions.
	if fn == nil {
		return nil, invalid.Errorf("Unknown function %s called", FunctionText(name))
	}
	// Cassandra's message, also outside of WHERE.
	if fn.IsAggregate() {
		return nil, invalid.Errorf("Aggregation function are not supported in the where clause")
	}
	// The value is not converted, so both types must have the same form.
	if function.Assignable(fn.Returns, receiver.Type) == function.NoMatch {
		// Operators and casts are shown as operations, not by the names of their functions.
		if _, plain := source.(*cql.FunctionCall); !plain {
			return nil, invalid.Errorf("Type error: cannot assign result of operation %s (type %s) to %s (type %s)",
				Text(source), fn.Returns, receiver.Name, receiver.Type)
		}
		return nil, invalid.Errorf("Type error: cannot assign result of function %s (type %s) to %s (type %s)",
			fn.Qualified(), fn.Returns, receiver.Name, receiver.Type)
	}
	terms, compile := make([]Term, len(args)), c.Term
	if fn.Decodes {
		compile = c.DecodedTerm
	}
	for i, a := range args {
		// A marker in an argument is named after the parameter.
		r := c.Receiver(functionArg(i, fn), fn.Args[i])
		if terms[i], err = compile(a, r); err != nil {
			return nil, err
		}
	}
	t := &callTerm{fn, terms}
	if fn.Volatile {
		return t, nil
	}
	return fold(t, terms)
}

// functionArg returns the name of a function's parameter in the metadata of bind markers. The number has one digit, as
// in Cassandra.
func functionArg(i int, fn *function.Function) string {
	return "arg" + string(rune('0'+i%10)) + "(" + fn.Qualified() + ")"
}

// Resolve returns the function that a call means, or nil if there is none with that name. It records those of users in
// Called. A list literal that does not fit any type is reported before other errors of the arguments.
func (c *Compiler) Resolve(name cql.QualifiedName, args []function.Arg, receiver *types.Type) (*function.Function,
	error) {
	c.mismatch = nil
	fn, err := c.resolve(name, args, receiver, false)
	// Match of an argument has set c.mismatch.
	if c.mismatch != nil {
		return nil, c.mismatch
	}
	if err == nil && fn != nil && fn.Keyspace != "" {
		c.Called = append(c.Called, fn)
	}
	return fn, err
}

// Outermost moves the last function in Called to position n, and shifts the functions from there on. Arguments are
// resolved before the call that contains them, but permissions are checked from the outermost call inwards.
func (c *Compiler) Outermost(n int) {
	last := len(c.Called) - 1
	// Otherwise at most the outer call has been recorded since.
	if last > n {
		outer := c.Called[last]
		copy(c.Called[n+1:], c.Called[n:last])
		c.Called[n] = outer
	}
}

// resolve is Resolve without recording the function. Errors of a trial have no message. User-defined functions of the
// keyspace in the name, or else of the table's keyspace, are candidates together with the native ones.
func (c *Compiler) resolve(name cql.QualifiedName, args []function.Arg, receiver *types.Type,
	trial bool) (*function.Function, error) {
	call := function.Call{Keyspace: name.Keyspace, Name: name.Name, Args: args, Receiver: receiver, Trial: trial}
	if c.UserFunctions != nil {
		keyspace := name.Keyspace
		if keyspace == "" {
			keyspace = c.currentKeyspace()
		}
		call.User = c.UserFunctions(c.Schema.Keyspace(keyspace), name.Name)
	}
	// Only token has arguments that depend on the table.
	if c.Table != nil {
		for _, col := range c.Table.PartitionKey {
			call.PartitionKey = append(call.PartitionKey, col.Type)
		}
	}
	fn, err := c.Functions.Resolve(call)
	if err != nil {
		return nil, err
	}
	return fn, nil
}

// resolveArg resolves a call in an argument; nil means that no function matches. It caches the result, because each
// signature of each enclosing function needs it. Without the cache, the cost would be exponential in the depth of
// calls.
func (c *Compiler) resolveArg(call cql.Term, receiver *types.Type) *function.Function {
	key := callKey{call, receiver}
	if fn, ok := c.calls[key]; ok {
		return fn
	}
	name, args, ok := callOf(call)
	if !ok {
		return nil
	}
	// The arguments need no texts, since the error is discarded.
	trial := make([]function.Arg, len(args))
	for i, t := range args {
		trial[i] = &trialArg{termArg{c, t}}
	}
	// A mismatch within the argument concerns its own resolution only.
	before := c.mismatch
	c.mismatch = nil
	fn, err := c.resolve(name, trial, receiver, true)
	// Cache failures as well, so that the attempt is not repeated.
	if err != nil || c.mismatch != nil {
		fn = nil
	}
	c.mismatch = before
	if c.calls == nil {
		c.calls = map[callKey]*function.Function{}
	}
	c.calls[key] = fn
	return fn
}

// currentKeyspace returns the keyspace of unqualified functions.
func (c *Compiler) currentKeyspace() string {
	if c.Table != nil {
		return c.Table.Keyspace
	}
	return c.Keyspace
}

// FunctionText returns the name of a function as written.
func FunctionText(n cql.QualifiedName) string {
	if n.Keyspace != "" {
		return n.Keyspace + "." + n.Name
	}
	return n.Name
}

// typeHint compiles (type) term. As in Cassandra, the term must match the type of the hint, and that type the
// receiver. The hint does not convert the value. For example, (int) ? gives a marker in a + ? a type, and (int) 'a'
// is an error.
func (c *Compiler) typeHint(t *cql.TypeHint, receiver Spec) (Term, error) {
	hinted, err := c.TypeOf(t.Type)
	if err != nil {
		return nil, err
	}
	if err := c.fits(t.Value, hinted, func() error {
		return invalid.Errorf("Cannot cast value %s to type %s", Text(t.Value), HintText(hinted))
	}); err != nil {
		return nil, err
	}
	// Frozen and multi-cell types differ for hints.
	if function.AssignableAsIs(hinted, receiver.Type) == function.NoMatch {
		return nil, invalid.Errorf("Cannot assign value (%s)%s to %s of type %s", HintText(hinted), Text(t.Value),
			receiver.Name, receiver.Type)
	}
	return c.Term(t.Value, receiver)
}

// TypeOf resolves a type as written. Unqualified names of user-defined types are resolved in the keyspace of the
// statement.
func (c *Compiler) TypeOf(e cql.TypeExpr) (*types.Type, error) {
	return c.ResolveType(c.Schema.Keyspace(c.Keyspace), c.Keyspace, &e)
}
