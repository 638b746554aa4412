package query

import (
	"errors"

	"cqld/cql"
	"cqld/cql/types"
	"cqld/internal/wire"
	"cqld/query/function"
	"cqld/schema"
)

// scope is what a term is evaluated in: the bound values and the outside.
type scope struct {
	values []wire.Value
	env    function.Env
	json   []wire.Value // of INSERT … JSON, by column
}

// term is a compiled cql.Term: a value once the bind markers have theirs.
type term interface {
	eval(s *scope) (wire.Value, error)
}

// constTerm has its value already.
type constTerm struct{ v wire.Value }

func (t *constTerm) eval(*scope) (wire.Value, error) { return t.v, nil }

// markerTerm is a bind marker.
type markerTerm struct {
	index int
	typ   *types.Type
}

func (t *markerTerm) eval(s *scope) (wire.Value, error) {
	v := s.values[t.index]
	if v.Kind == wire.ValueSet {
		if err := t.typ.Validate(v.Bytes); err != nil {
			return wire.Value{}, &Invalid{Msg: err.Error()}
		}
	}
	return v, nil
}

// callTerm is a call of a native function.
type callTerm struct {
	fn   *function.Function
	args []term
}

func (t *callTerm) eval(s *scope) (wire.Value, error) {
	args := make([][]byte, len(t.args))
	for i, a := range t.args {
		v, err := a.eval(s)
		if err != nil {
			return wire.Value{}, err
		}
		if v.Kind == wire.ValueUnset {
			return wire.Value{}, invalidf("Invalid unset value for argument in call to function %s", t.fn.Name)
		}
		if v.Kind == wire.ValueSet {
			args[i] = notNil(v.Bytes)
		}
	}
	b, err := t.fn.Eval(s.env, args)
	if err != nil {
		return wire.Value{}, functionError(err)
	}
	return wire.BytesValue(b), nil
}

// functionError turns an error of package function into one of this package.
func functionError(err error) error {
	if err == nil {
		return nil
	}
	var invalid *function.Invalid
	if errors.As(err, &invalid) {
		return &Invalid{Msg: invalid.Msg}
	}
	var failure *function.Failure
	if errors.As(err, &failure) {
		return &FunctionFailure{Keyspace: failure.Keyspace, Function: failure.Function, Args: failure.Args, Msg: failure.Msg}
	}
	return err
}

// notNil tells an empty value from null.
func notNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// partsKind is what a partsTerm builds.
type partsKind uint8

const (
	partsList partsKind = iota + 1
	partsSet
	partsMap // keys and values by turns
	partsFields
	partsVector
)

// partsTerm is a list, set, map, vector, tuple or user-defined type of terms.
type partsTerm struct {
	kind  partsKind
	typ   *types.Type
	parts []term // nil where a field of a user-defined type is not given
}

func (t *partsTerm) eval(s *scope) (wire.Value, error) {
	values := make([][]byte, len(t.parts))
	for i, p := range t.parts {
		if p == nil {
			continue
		}
		v, err := p.eval(s)
		if err != nil {
			return wire.Value{}, err
		}
		switch {
		case v.Kind == wire.ValueSet:
			values[i] = notNil(v.Bytes)
		case t.kind == partsFields && v.Kind == wire.ValueUnset:
			return wire.Value{}, invalidf("Invalid unset value for tuple field number %d", i)
		case t.kind == partsFields:
		case t.kind == partsVector:
			return wire.Value{}, invalidf("null is not supported inside vectors")
		case v.Kind == wire.ValueUnset:
			return wire.Value{}, invalidf("unset value is not supported inside collections")
		default:
			return wire.Value{}, invalidf("null is not supported inside collections")
		}
	}
	b, err := t.typ.AppendParts(nil, values)
	if err != nil {
		return wire.Value{}, &Invalid{Msg: err.Error()}
	}
	return wire.BytesValue(notNil(b)), nil
}

// isConst says whether a term has its value without being evaluated.
func isConst(t term) bool {
	_, ok := t.(*constTerm)
	return ok
}

// fold evaluates a term whose parts are all constant.
func fold(t term, parts []term) (term, error) {
	for _, p := range parts {
		if p != nil && !isConst(p) {
			return t, nil
		}
	}
	v, err := t.eval(&scope{})
	if err != nil {
		return nil, err
	}
	return &constTerm{v}, nil
}

// marker is what is known of one bind marker of a statement.
type marker struct {
	spec   Column
	column *schema.Column // the column whose whole value it is; nil otherwise
}

// compiler turns the names and terms of one statement into plans.
type compiler struct {
	p        *Processor
	schema   *schema.Schema
	keyspace string // of unqualified names
	table    *schema.Table
	markers  []marker // by index
}

// bind notes what the bind marker is for.
func (c *compiler) bind(m *cql.BindMarker, receiver Column, column *schema.Column) {
	for len(c.markers) <= m.Index {
		c.markers = append(c.markers, marker{})
	}
	if m.Name != "" {
		receiver.Name = m.Name
	}
	c.markers[m.Index] = marker{spec: receiver, column: column}
}

// receiver is the spec of a value that becomes something of the statement's table.
func (c *compiler) receiver(name string, t *types.Type) Column {
	r := Column{Name: name, Type: t}
	if c.table != nil {
		r.Keyspace, r.Table = c.table.Keyspace, c.table.Name
	}
	return r
}

// columnTerm compiles a term that becomes the value of a column.
func (c *compiler) columnTerm(t cql.Term, col *schema.Column) (term, error) {
	r := c.receiver(col.Name, col.Type)
	if m, ok := t.(*cql.BindMarker); ok {
		c.bind(m, r, col)
		return &markerTerm{m.Index, col.Type}, nil
	}
	return c.term(t, r)
}

// term compiles a term that becomes a value of receiver.
func (c *compiler) term(t cql.Term, receiver Column) (term, error) {
	switch t := t.(type) {
	case *cql.Literal:
		return c.literal(t, receiver)
	case *cql.BindMarker:
		c.bind(t, receiver, nil)
		return &markerTerm{t.Index, receiver.Type}, nil
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
	name, args, ok := callOf(t)
	if !ok {
		return nil, NotSupported("This term")
	}
	return c.call(t, name, args, receiver)
}

// callOf is a term as the function call that it is or stands for.
func callOf(t cql.Term) (name cql.QualifiedName, args []cql.Term, ok bool) {
	switch t := t.(type) {
	case *cql.FunctionCall:
		return t.Name, t.Args, true
	case *cql.ArithmeticTerm:
		return cql.QualifiedName{Name: t.Operator.Function()}, []cql.Term{t.Left, t.Right}, true
	case *cql.NegateTerm:
		return cql.QualifiedName{Name: "_negate"}, []cql.Term{t.Value}, true
	case *cql.CastTerm:
		return cql.QualifiedName{Name: "cast_as_" + castName(t.Type)}, []cql.Term{t.Value}, true
	}
	return name, nil, false
}

// castName is the type's part of a cast function's name.
func castName(t cql.TypeExpr) string {
	if t.Name == "varchar" {
		return "text"
	}
	return t.Name
}

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

func (c *compiler) literal(t *cql.Literal, receiver Column) (term, error) {
	if t.Kind == cql.LiteralNull && receiver.Type.Kind() == types.Counter {
		return nil, invalidf("Invalid null value for counter increment/decrement")
	}
	if t.Kind == cql.LiteralNull {
		return &constTerm{}, nil
	}
	b, err := receiver.Type.FromLiteral(literalKind(t.Kind), t.Text)
	if err != nil {
		var constant *types.ConstantError
		if errors.As(err, &constant) {
			return nil, &Invalid{Msg: constant.Message(receiver.Name)}
		}
		return nil, &Invalid{Msg: err.Error()}
	}
	return &constTerm{wire.BytesValue(notNil(b))}, nil
}

// call compiles a function call; source is what is written, for messages.
func (c *compiler) call(source cql.Term, name cql.QualifiedName, args []cql.Term, receiver Column) (term, error) {
	fn, err := c.resolve(name, c.args(args), receiver.Type)
	if err != nil {
		return nil, err
	}
	if fn == nil {
		return nil, invalidf("Unknown function %s called", functionText(name))
	}
	if fn.IsAggregate() {
		return nil, invalidf("Aggregation function are not supported in the where clause")
	}
	if function.Assignable(fn.Returns, receiver.Type) == function.NoMatch {
		if _, plain := source.(*cql.FunctionCall); !plain {
			return nil, invalidf("Type error: cannot assign result of operation %s (type %s) to %s (type %s)",
				termText(source), fn.Returns, receiver.Name, receiver.Type)
		}
		return nil, invalidf("Type error: cannot assign result of function %s (type %s) to %s (type %s)",
			"system."+fn.Name, fn.Returns, receiver.Name, receiver.Type)
	}
	terms := make([]term, len(args))
	for i, a := range args {
		r := c.receiver(functionArg(i, fn.Name), fn.Args[i])
		if terms[i], err = c.term(a, r); err != nil {
			return nil, err
		}
	}
	t := &callTerm{fn, terms}
	if fn.Volatile {
		return t, nil
	}
	return fold(t, terms)
}

// functionArg is the name of a function's parameter in the metadata of bind markers.
func functionArg(i int, name string) string {
	return "arg" + string(rune('0'+i%10)) + "(system." + name + ")"
}

// resolve finds a native function; nil when there is none of that name.
func (c *compiler) resolve(name cql.QualifiedName, args []function.Arg, receiver *types.Type) (*function.Function, error) {
	if name.Keyspace != "" && name.Keyspace != "system" {
		return nil, nil
	}
	call := function.Call{Name: name.Name, Args: args, Receiver: receiver}
	if c.table != nil {
		for _, col := range c.table.PartitionKey {
			call.PartitionKey = append(call.PartitionKey, col.Type)
		}
	}
	fn, err := c.p.functions.Resolve(call)
	if err != nil {
		return nil, functionError(err)
	}
	return fn, nil
}

func functionText(n cql.QualifiedName) string {
	if n.Keyspace != "" {
		return n.Keyspace + "." + n.Name
	}
	return n.Name
}

func (c *compiler) typeHint(t *cql.TypeHint, receiver Column) (term, error) {
	hinted, err := c.typeOf(t.Type)
	if err != nil {
		return nil, err
	}
	if (&termArg{c, t.Value}).Match(hinted) == function.NoMatch {
		return nil, invalidf("Cannot cast value %s to type %s", termText(t.Value), hinted)
	}
	if function.Assignable(hinted, receiver.Type) == function.NoMatch {
		return nil, invalidf("Cannot assign value %s to %s of type %s", termText(t), receiver.Name, receiver.Type)
	}
	return c.term(t.Value, Column{Keyspace: receiver.Keyspace, Table: receiver.Table, Name: receiver.Name, Type: hinted})
}
