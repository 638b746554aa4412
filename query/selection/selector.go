package selection

import (
	"bytes"

	"cqld/cql"
	"cqld/internal/wire"
	"cqld/query/function"
	"cqld/query/invalid"
	"cqld/query/mask"
	"cqld/query/rowview"
	"cqld/query/term"
	"cqld/row"
	"cqld/schema"
	"cqld/types"
)

// Context is the input of selectors: a row, and the aggregations of its group. It is reused for all rows of an
// execution: Row is set for each. Selectors must not keep it.
type Context struct {
	Scope      term.Scope
	Row        *rowview.View
	Masks      *mask.Table // nil means that the client sees all values
	Aggregates []function.Accumulator
	Memory     Memory // nil means no bound
}

// Memory is the memory of a request.
type Memory interface {
	// Reserve reserves n bytes for a value while it is built. The next value may reuse the reservation. Reserve may
	// wait.
	Reserve(n int) error
}

// valueFree is the size in bytes up to which a value that combines others needs no reservation.
const valueFree = 4 << 10

// reserve reserves n bytes for a value while it is built, unless the value is small.
func (x *Context) reserve(n int) error {
	if n <= valueFree || x.Memory == nil {
		return nil
	}
	return x.Memory.Reserve(n)
}

// Selector computes a value of a row; nil means null. The result may share memory with the row or with a bound value,
// so it is valid until the next row is read, and must not be changed. A Selector has no state and is safe for
// concurrent use with different Contexts.
type Selector interface {
	Value(x *Context) ([]byte, error)
}

// Column is the selector of a column. It is exported because the reader reads and groups by plain columns without
// calling Value.
type Column struct{ Column *schema.Column }

// Value returns the column's value, masked if the client does not see it. nil means null, which may be masked, too.
func (s *Column) Value(x *Context) ([]byte, error) {
	// A multi-cell column is serialized from its live cells.
	v := x.Row.Value(s.Column)
	if x.Masks == nil {
		return v, nil
	}
	return x.Masks.Value(x.Scope.Env, s.Column, v)
}

// termSelector is a literal or bind marker. An unset marker as an argument of a function is an error.
type termSelector struct {
	t     term.Term
	unset []byte             // the value of an unset marker, see unsetValue
	of    *function.Function // the function whose argument it is; nil means none
}

// unsetValue returns the value of an unset marker of type t. As in Cassandra, it is the empty value, although not every
// type permits it in a column. A client cannot read an empty collection or vector, so those are null.
func unsetValue(t *types.Type) []byte {
	if k := t.Kind(); k.IsCollection() || k == types.Vector {
		return nil
	}
	return []byte{}
}

// Value implements Selector.
func (s *termSelector) Value(x *Context) ([]byte, error) {
	v, err := s.t.Eval(&x.Scope)
	switch {
	case err != nil || v.Kind == wire.ValueNull:
		return nil, err
	case v.Kind == wire.ValueUnset && s.of != nil:
		return nil, invalid.Errorf("Invalid unset value for argument in call to function %s", s.of.Name)
	case v.Kind == wire.ValueUnset:
		return s.unset, nil
	}
	return term.NotNil(v.Bytes), nil
}

// callSelector is a scalar function of selectors. The arguments are evaluated first and in their order; null is passed
// to the function.
type callSelector struct {
	fn   *function.Function
	args []Selector
}

func (s *callSelector) Value(x *Context) ([]byte, error) {
	args, err := EvalAll(x, s.args)
	if err != nil {
		return nil, err
	}
	v, err := s.fn.Eval(x.Scope.Env, args)
	return v, err
}

// EvalAll evaluates selectors. It stops at the first error. The caller owns the slice; its elements share memory like
// results of Value.
func EvalAll(x *Context, in []Selector) ([][]byte, error) {
	out := make([][]byte, len(in))
	for i, s := range in {
		var err error
		if out[i], err = s.Value(x); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// aggregateSelector is the result of an aggregation over the group. The accumulator must have received all rows of the
// group.
type aggregateSelector struct{ index int }

func (s *aggregateSelector) Value(x *Context) ([]byte, error) {
	v, err := x.Aggregates[s.index].Result()
	return v, err
}

// partsSelector is a tuple, list, set, map or user-defined type of selectors. Parts are in the order of the type's
// serialization: keys and values of a map alternate.
type partsSelector struct {
	t     *types.Type
	parts []Selector // nil means that a field is not set
	// nulls permits null in a list and in the values of a map. It is set for results that only the client reads.
	nulls bool
}

// permitNulls permits null in the lists and maps of a result's value, as Cassandra does. Null remains an error in
// sets, map keys, vectors and arguments of functions.
func permitNulls(s Selector) {
	p, ok := s.(*partsSelector)
	if !ok {
		return
	}
	kind := p.t.Kind()
	p.nulls = kind == types.List || kind == types.Map
	for i, part := range p.parts {
		if kind == types.List || kind == types.Map && i%2 == 1 || kind == types.Tuple || kind == types.UDT {
			permitNulls(part)
		}
	}
}

func (s *partsSelector) Value(x *Context) ([]byte, error) {
	values := make([][]byte, len(s.parts))
	n := 0 // bytes of the result
	for i, p := range s.parts {
		// A field that is not named is null.
		if p == nil {
			continue
		}
		var err error
		if values[i], err = p.Value(x); err != nil {
			return nil, err
		}
		// Reserve after each part, because it may be the result of a function and own its memory.
		n += 4 + len(values[i])
		if err := x.reserve(n); err != nil {
			return nil, err
		}
	}
	appendParts := (*types.Type).AppendParts
	if s.nulls {
		appendParts = types.AppendSelected
	}
	b, err := appendParts(s.t, nil, values)
	// For example null in a set, or values that are too long.
	if err != nil {
		return nil, invalid.Errorf("%s", err)
	}
	return term.NotNil(b), nil
}

// fieldSelector is x.field. index is the position of the field in the type t.
type fieldSelector struct {
	of    Selector
	t     *types.Type
	index int
}

func (s *fieldSelector) Value(x *Context) ([]byte, error) {
	// A field of null is null.
	v, err := s.of.Value(x)
	if v == nil || err != nil {
		return nil, err
	}
	// The value lacks fields that were added to the type later; these are null.
	part, _ := s.t.At(v, s.index)
	return part, nil
}

// elementSelector is x[key] of a set or map. For a set, it is the element itself if it is in the set.
type elementSelector struct {
	of   Selector
	t    *types.Type
	key  term.Term
	name name
}

func (s *elementSelector) Value(x *Context) ([]byte, error) {
	// The key is evaluated first: its errors do not depend on the row.
	key, err := elementKey(x, s.key, s.name)
	if err != nil {
		return nil, err
	}
	v, err := s.of.Value(x)
	if v == nil || err != nil {
		return nil, err
	}
	// Keys are sorted in the serialized form, too.
	found, ok := s.t.Lookup(v, key)
	if !ok {
		return nil, nil
	}
	return term.NotNil(found), nil
}

// elementKey evaluates the key of x[key]; null and unset are errors. of names x in the messages.
func elementKey(x *Context, key term.Term, of name) ([]byte, error) {
	v, err := key.Eval(&x.Scope)
	if err != nil {
		return nil, err
	}
	switch v.Kind {
	case wire.ValueUnset:
		return nil, invalid.Errorf("Invalid unset value for element selection on %s", of)
	case wire.ValueNull:
		return nil, invalid.Errorf("Invalid null value for element selection on %s", of)
	}
	return term.NotNil(v.Bytes), nil
}

// sliceSelector is x[from..to] of a set or map. Both ends are included, as in Cassandra.
type sliceSelector struct {
	of       Selector
	t        *types.Type
	from, to term.Term // nil means open
	name     name
}

func (s *sliceSelector) Value(x *Context) ([]byte, error) {
	from, err := s.limit(x, s.from)
	if err != nil {
		return nil, err
	}
	to, err := s.limit(x, s.to)
	if err != nil {
		return nil, err
	}
	v, err := s.of.Value(x)
	if v == nil || err != nil {
		return nil, err
	}
	// Elements are sorted by key, but the loop does not stop after to: it must read the remaining parts anyway.
	var parts [][]byte
	key := s.t.Elems()[0]
	for p := s.t.Parts(v); p.Next(); {
		k := p.Bytes()
		in := (from == nil || key.Compare(k, from) >= 0) && (to == nil || key.Compare(k, to) <= 0)
		if in {
			parts = append(parts, k)
		}
		// The value follows its key. Next must be called for every entry.
		if s.t.Kind() == types.Map && p.Next() && in {
			parts = append(parts, p.Bytes())
		}
	}
	// An empty multi-cell collection is null, like one that has no cells. A frozen one is an empty value.
	if len(parts) == 0 && s.t.MultiCell() {
		return nil, nil
	}
	return s.t.AppendParts(nil, parts)
}

// limit evaluates a bound; nil means open. Unlike an unset key, an unset bound means unbounded.
func (s *sliceSelector) limit(x *Context, t term.Term) ([]byte, error) {
	if t == nil {
		return nil, nil
	}
	v, err := t.Eval(&x.Scope)
	if err != nil {
		return nil, err
	}
	switch v.Kind {
	// An unset bound counts as omitted.
	case wire.ValueUnset:
		return nil, nil
	case wire.ValueNull:
		return nil, invalid.Errorf("Invalid null value for slice selection on %s", s.name)
	}
	return term.NotNil(v.Bytes), nil
}

// metadataSelector is writetime, maxwritetime or ttl of a column or of parts of one. A frozen column has one cell, and
// so one value. A multi-cell column has a cell for each element or field.
type metadataSelector struct {
	kind cql.Metadata
	// At most one of key, field and slice is set; it selects a part of col.
	col *schema.Column
	key term.Term // key of one element
	// field is the index of a user-defined type's field, or -1 for the whole value.
	field    int
	slice    bool
	from, to term.Term
}

// one reports whether the result is one value, not a list. It determines the type of the result at compilation, so it
// must not depend on the row.
func (s *metadataSelector) one() bool {
	return !s.col.Type.MultiCell() || s.key != nil || s.field >= 0 || s.kind == cql.MaxWriteTime
}

func (s *metadataSelector) Value(x *Context) ([]byte, error) {
	if (s.key != nil || s.slice || !s.one()) && x.Masks.Masks(s.col) {
		return nil, nil // metadata would reveal which elements exist, or how many
	}
	// The only cell has the metadata of the whole value.
	if !s.col.Type.MultiCell() {
		c := x.Row.LiveCell(s.col)
		// The cell of a counter is computed from its shards.
		if s.col.IsCounter() {
			c = x.Row.CounterCell(s.col)
		}
		// The column is null, deleted or expired.
		if c == nil {
			return nil, nil
		}
		// Parts of a frozen value have the metadata of the whole value.
		if s.key != nil || s.field >= 0 || s.slice {
			return s.frozenPart(x, c)
		}
		return s.of(c, x.Row.Now()), nil
	}
	if s.key != nil || s.field >= 0 {
		// Elements of a collection and fields of a user-defined type are cells with a path.
		path := rowview.FieldPath(max(s.field, 0))
		if s.key != nil {
			key, err := elementKey(x, s.key, named(s.col.Name))
			if err != nil {
				return nil, err
			}
			path = rowview.ElementPath(s.col.Type, key)
		}
		// Only live elements are found.
		c := x.Row.FindElement(s.col, path)
		if c == nil {
			return nil, nil
		}
		return s.of(c, x.Row.Now()), nil
	}
	return s.all(x)
}

// frozenPart returns the metadata of the whole cell if the part exists. For a field or a slice, it does not check
// that, because all parts have the same metadata.
func (s *metadataSelector) frozenPart(x *Context, c *row.Cell) ([]byte, error) {
	if s.key != nil {
		key, err := elementKey(x, s.key, named(s.col.Name))
		if err != nil {
			return nil, err
		}
		if _, ok := s.col.Type.Lookup(c.Value, key); !ok {
			return nil, nil
		}
	}
	return s.of(c, x.Row.Now()), nil
}

// all returns a list with the metadata of each cell or, for maxwritetime, the greatest. The list is serialized as it
// is built, with its count filled in at the end. Cells that are expired are not visited.
func (s *metadataSelector) all(x *Context) ([]byte, error) {
	var from, to []byte
	if s.slice {
		// limits only evaluates the bounds and provides the name in their errors.
		limits := &sliceSelector{name: named(s.col.Name)}
		f, err := limits.limit(x, s.from)
		if err != nil {
			return nil, err
		}
		t, err := limits.limit(x, s.to)
		if err != nil {
			return nil, err
		}
		if f != nil {
			from = rowview.ElementPath(s.col.Type, f)
		}
		if t != nil {
			to = rowview.ElementPath(s.col.Type, t)
		}
	}
	var out []byte
	n := int32(0)
	newest := int64(row.NoTimestamp)
	// In the order of their paths, which is the order of the keys.
	x.Row.Elements(s.col, func(c *row.Cell) {
		// Paths are in ordered form, so bytes compare like keys.
		if from != nil && bytes.Compare(c.Path, from) < 0 || to != nil && bytes.Compare(c.Path, to) > 0 {
			return
		}
		if out == nil {
			out = make([]byte, 4, 64)
		}
		out = wire.AppendBytes(out, s.of(c, x.Row.Now()))
		newest = max(newest, c.Timestamp)
		n++
	})
	switch {
	case n == 0:
		return nil, nil
	// Return only the greatest value.
	case s.kind == cql.MaxWriteTime:
		return wire.AppendInt64(nil, newest), nil
	}
	// out has room for the count, so append writes it in place.
	wire.AppendInt32(out[:0], n)
	return out, nil
}

// of returns the metadata of one cell. The write time is in microseconds since the Unix epoch, the TTL in seconds that
// remain; now is in seconds. A cell without TTL has null.
func (s *metadataSelector) of(c *row.Cell, now int64) []byte {
	// writetime and maxwritetime.
	if s.kind != cql.TTL {
		return wire.AppendInt64(nil, c.Timestamp)
	}
	if c.TTL == 0 {
		return nil
	}
	return wire.AppendInt32(nil, int32(c.LocalTime-now))
}

// jsonSelector combines named selectors to one JSON object. Names are the names of the columns, quoted if they are not
// lower case, as JSON INSERT expects them.
type jsonSelector struct {
	names []string
	types []*types.Type
	of    []Selector
}

func (s *jsonSelector) Value(x *Context) ([]byte, error) {
	out := []byte{'{'}
	for i, sel := range s.of {
		if i > 0 {
			out = append(out, ", "...)
		}
		out = types.AppendJSONName(out, s.names[i])
		out = append(out, ": "...)
		v, err := sel.Value(x)
		if err != nil {
			return nil, err
		}
		// types.AppendJSON does not accept null.
		if v == nil {
			out = append(out, "null"...)
			continue
		}
		// A lower bound: len(out) includes escaped characters only for previous values.
		if err := x.reserve(len(out) + len(v)); err != nil {
			return nil, err
		}
		out = s.types[i].AppendJSON(out, v)
	}
	return append(out, '}'), nil
}
