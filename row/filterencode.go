package row

import (
	"cqld/internal/wire"
	"cqld/schema"
	"cqld/types"
)

// The encoded filter, between nodes only:
//
//	filter    := decisive columns n clustering* n condition*
//	clustering := desc type
//	condition := kind column|position operator [type] n value*
//	type      := kind | 0x80 if multi-cell, then the types of its elements
//
// A condition on a clustering column has the type of the column. A user-defined type is encoded as the tuple of
// its fields, and a custom type as blob: they compare alike.

// typeMultiCell is a bit of the byte of the kind.
const typeMultiCell = 0x80

// appendFilter appends the encoding of f.
func appendFilter(dst []byte, f *Filter) []byte {
	dst = append(dst, boolByte(f.Decisive))
	dst = wire.AppendUvarint(dst, uint64(f.PartitionKey))
	dst = wire.AppendUvarint(dst, uint64(len(f.Clustering)))
	for _, c := range f.Clustering {
		dst = append(dst, boolByte(c.Desc))
		dst = appendType(dst, c.Type)
	}
	dst = wire.AppendUvarint(dst, uint64(len(f.Conditions)))
	for i := range f.Conditions {
		c := &f.Conditions[i]
		dst = append(dst, byte(c.Kind))
		// A column of the key is identified by its position, any other by its identifier.
		if c.OnKey() {
			dst = wire.AppendUvarint(dst, uint64(c.Position))
		} else {
			dst = wire.AppendUvarint(dst, uint64(c.Column))
		}
		dst = append(dst, byte(c.Operator))
		// The types of clustering columns are in the list above.
		if c.Kind != schema.Clustering {
			dst = appendType(dst, c.Type)
		}
		dst = wire.AppendUvarint(dst, uint64(len(c.Values)))
		for _, v := range c.Values {
			dst = append(wire.AppendUvarint(dst, uint64(len(v))), v...)
		}
	}
	return dst
}

// boolByte returns 1 for true, and 0 otherwise.
func boolByte(b bool) byte {
	if b {
		return 1
	}
	return 0
}

// consumeFilter decodes a filter, whose values point into the bytes of c. It rejects filters that Supports and the
// bounds of this package exclude, so that a matcher need not check them.
func consumeFilter(c *wire.Cursor) *Filter {
	f := &Filter{Decisive: consumeBool(c)}
	f.PartitionKey = consumeSmall(c)
	for n := c.Count(2); n > 0 && c.Err() == nil; n-- {
		column := ClusteringColumn{Desc: consumeBool(c)}
		column.Type = consumeType(c, filterTypeDepthMax)
		f.Clustering = append(f.Clustering, column)
	}
	n := c.Count(5)
	// Check the bounds, because the filter comes from another node.
	if n > filterConditionsMax {
		c.Fail(wire.ErrMalformed)
	}
	for ; n > 0 && c.Err() == nil; n-- {
		f.Conditions = append(f.Conditions, f.consumeCondition(c))
	}
	return f
}

// consumeCondition decodes a condition. f must already contain the number of partition key columns and the types of
// the clustering columns.
func (f *Filter) consumeCondition(c *wire.Cursor) (x Condition) {
	x.Kind = schema.ColumnKind(c.Uint8())
	fits := true
	switch x.Kind {
	case schema.PartitionKey:
		x.Position = consumeSmall(c)
		fits = x.Position < f.PartitionKey
	case schema.Clustering:
		x.Position = consumeSmall(c)
		fits = x.Position < len(f.Clustering)
	case schema.Static, schema.Regular:
		x.Column = consumeColumn(c)
	default:
		fits = false
	}
	if !fits {
		c.Fail(wire.ErrMalformed)
		return x
	}
	x.Operator = FilterOperator(c.Uint8())
	if x.Kind == schema.Clustering {
		x.Type = f.Clustering[x.Position].Type
	} else {
		x.Type = consumeType(c, filterTypeDepthMax)
	}
	for n := c.Count(1); n > 0 && c.Err() == nil; n-- {
		// An empty value is not null: it is encoded with the length 0.
		x.Values = append(x.Values, notNull(consumeShort(c)))
	}
	// want is the number of values for the operator; a negative one never matches.
	want := 1
	switch {
	case x.Operator < FilterEqual || x.Operator > FilterEntry:
		want = -1
	case x.Operator == FilterIn:
		// Any number fits.
		want = len(x.Values)
	case x.Operator == FilterEntry:
		want = 2
	}
	if c.Err() == nil && (len(x.Values) != want || !x.Supports() || x.OnKey() && x.Type.MultiCell()) {
		c.Fail(wire.ErrMalformed)
	}
	return x
}

// consumeBool decodes a byte that must be 0 or 1, so that a filter has one encoding.
func consumeBool(c *wire.Cursor) bool {
	b := c.Uint8()
	if b > 1 {
		c.Fail(wire.ErrMalformed)
	}
	return b == 1
}

// consumeSmall decodes a number of columns, or a position.
func consumeSmall(c *wire.Cursor) int {
	// More than a table can have columns.
	const most = 1 << 16
	n := c.Uvarint()
	if n > most {
		c.Fail(wire.ErrMalformed)
		return 0
	}
	return int(n)
}

// encodableType reports whether a type has no more than depth levels.
func encodableType(t *types.Type, depth int) bool {
	// The replica's consumeType would reject it.
	if depth == 0 || t.Dimensions() > filterDimensionsMax {
		return false
	}
	for _, e := range t.Elems() {
		if !encodableType(e, depth-1) {
			return false
		}
	}
	return true
}

// appendType appends a type that encodableType allows.
func appendType(dst []byte, t *types.Type) []byte {
	kind := t.Kind()
	switch kind {
	case types.UDT:
		// A replica compares fields by position, so it needs no names.
		kind = types.Tuple
	case types.Custom:
		kind = types.Blob
	}
	dst = append(dst, byte(kind))
	// A multi-cell user-defined type has no condition (Supports), so a tuple is always frozen.
	if t.MultiCell() && kind != types.Tuple {
		dst[len(dst)-1] |= typeMultiCell
	}
	switch kind {
	case types.Tuple:
		dst = wire.AppendUvarint(dst, uint64(len(t.Elems())))
	case types.Vector:
		dst = wire.AppendUvarint(dst, uint64(t.Dimensions()))
	}
	for _, e := range t.Elems() {
		// Types within a type are frozen in any case.
		dst = appendType(dst, e.Freeze())
	}
	return dst
}

// consumeType decodes a type of at most depth levels. It never returns nil.
func consumeType(c *wire.Cursor, depth int) *types.Type {
	b := c.Uint8()
	kind, frozen := types.Kind(b&^typeMultiCell), b&typeMultiCell == 0
	if c.Err() != nil || depth == 0 {
		c.Fail(wire.ErrMalformed)
		return types.Native(types.Blob)
	}
	switch {
	case kind >= types.Ascii && kind <= types.Varint && frozen:
		return types.Native(kind)
	case kind == types.List:
		return types.NewList(consumeType(c, depth-1), frozen)
	case kind == types.Set:
		return types.NewSet(consumeType(c, depth-1), frozen)
	case kind == types.Map:
		// In a statement of its own, because the key comes first in the bytes.
		key := consumeType(c, depth-1)
		return types.NewMap(key, consumeType(c, depth-1), frozen)
	case kind == types.Tuple && frozen:
		var fields []*types.Type
		for n := c.Count(1); n > 0 && c.Err() == nil; n-- {
			fields = append(fields, consumeType(c, depth-1))
		}
		return types.NewTuple(fields...)
	case kind == types.Vector && frozen:
		n := c.Uvarint()
		if n > filterDimensionsMax {
			c.Fail(wire.ErrMalformed)
			return types.Native(types.Blob)
		}
		return types.NewVector(consumeType(c, depth-1), int(n))
	}
	c.Fail(wire.ErrMalformed)
	return types.Native(types.Blob)
}
