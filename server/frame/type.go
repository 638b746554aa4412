package frame

import (
	"cqld/internal/wire"
	"cqld/types"
)

// The ids of a type [option].
const (
	// Section 4.2.5.2 of the specification has them. The comment names the version that added the type.
	typeCustom    = 0x0000
	typeASCII     = 0x0001
	typeBigint    = 0x0002
	typeBlob      = 0x0003
	typeBoolean   = 0x0004
	typeCounter   = 0x0005
	typeDecimal   = 0x0006
	typeDouble    = 0x0007
	typeFloat     = 0x0008
	typeInt       = 0x0009
	typeText      = 0x000A // never sent: text is sent as varchar
	typeTimestamp = 0x000B
	typeUUID      = 0x000C
	typeVarchar   = 0x000D
	typeVarint    = 0x000E
	typeTimeuuid  = 0x000F
	typeInet      = 0x0010
	typeDate      = 0x0011 // v4
	typeTime      = 0x0012 // v4
	typeSmallint  = 0x0013 // v4
	typeTinyint   = 0x0014 // v4
	typeDuration  = 0x0015 // v5
	typeList      = 0x0020
	typeMap       = 0x0021
	typeSet       = 0x0022
	typeUDT       = 0x0030
	typeTuple     = 0x0031
)

// scalarType returns the id of a native scalar type and the first version that has it. A type without one is sent as a
// custom class. Older clients get the class name instead.
func scalarType(k types.Kind) (id uint16, since Version, ok bool) {
	switch k {
	case types.Ascii:
		return typeASCII, V3, true
	case types.Bigint:
		return typeBigint, V3, true
	case types.Blob:
		return typeBlob, V3, true
	case types.Boolean:
		return typeBoolean, V3, true
	case types.Counter:
		return typeCounter, V3, true
	case types.Decimal:
		return typeDecimal, V3, true
	case types.Double:
		return typeDouble, V3, true
	case types.Float:
		return typeFloat, V3, true
	case types.Int:
		return typeInt, V3, true
	case types.Text:
		return typeVarchar, V3, true
	case types.Timestamp:
		return typeTimestamp, V3, true
	case types.UUID:
		return typeUUID, V3, true
	case types.Varint:
		return typeVarint, V3, true
	case types.Timeuuid:
		return typeTimeuuid, V3, true
	case types.Inet:
		return typeInet, V3, true
	case types.Date:
		return typeDate, V4, true
	case types.Time:
		return typeTime, V4, true
	case types.Smallint:
		return typeSmallint, V4, true
	case types.Tinyint:
		return typeTinyint, V4, true
	case types.Duration:
		return typeDuration, V5, true
	default:
		return 0, 0, false
	}
}

// AppendType appends the [option] of t. A type that version v does not have (vector in all versions) is sent as a
// custom type with its marshal class. Frozen types have the same option as others. For example, list<int> is 0020 0009,
// and tuple<int, text> is 0031 0002 0009 000D.
func AppendType(dst []byte, v Version, t *types.Type) []byte {
	if id, since, ok := scalarType(t.Kind()); ok && v >= since {
		return wire.AppendUint16(dst, id)
	}
	switch t.Kind() {
	case types.List:
		return appendTypes(wire.AppendUint16(dst, typeList), v, t.Elems())
	case types.Set:
		return appendTypes(wire.AppendUint16(dst, typeSet), v, t.Elems())
	case types.Map:
		return appendTypes(wire.AppendUint16(dst, typeMap), v, t.Elems())
	case types.Tuple:
		dst = wire.AppendUint16(dst, typeTuple)
		dst = wire.AppendUint16(dst, uint16(len(t.Elems())))
		return appendTypes(dst, v, t.Elems())
	case types.UDT:
		dst = wire.AppendUint16(dst, typeUDT)
		// The option contains the whole type, so that a client needs no schema to decode values.
		dst = wire.AppendString(dst, t.UDTKeyspace())
		dst = wire.AppendString(dst, t.UDTName())
		dst = wire.AppendUint16(dst, uint16(len(t.Elems())))
		for i, field := range t.Elems() {
			dst = wire.AppendString(dst, t.FieldNames()[i])
			dst = AppendType(dst, v, field)
		}
		return dst
	default:
		dst = wire.AppendUint16(dst, typeCustom)
		return wire.AppendString(dst, t.MarshalClass())
	}
}

// appendTypes appends the options of element types.
func appendTypes(dst []byte, v Version, elems []*types.Type) []byte {
	for _, e := range elems {
		dst = AppendType(dst, v, e)
	}
	return dst
}

// typeDepthMax bounds the nesting that ConsumeType accepts. A deeper type is an error.
const typeDepthMax = 64

// ConsumeType decodes a type [option], or returns nil after an error. Collections and user-defined types are returned
// unfrozen, because the option does not contain that. Clients use it, and tests; the server receives no types.
func ConsumeType(c *wire.Cursor) *types.Type { return consumeType(c, typeDepthMax) }

func consumeType(c *wire.Cursor, depth int) *types.Type {
	// The recursion is bounded, because the bytes may come from anywhere.
	if depth == 0 {
		c.Fail(wire.ErrMalformed)
	}
	id := c.Uint16()
	if c.Err() != nil {
		return nil
	}
	// A constructor of types needs parts that are not nil, even if the result is dropped.
	t := types.Native(types.Blob) // replaces parts that failed
	part := func() *types.Type {
		if e := consumeType(c, depth-1); e != nil {
			return e
		}
		return t
	}
	switch id {
	case typeCustom:
		t = customType(c.String())
	case typeList:
		t = types.NewList(part(), false)
	case typeSet:
		t = types.NewSet(part(), false)
	case typeMap:
		key := part()
		t = types.NewMap(key, part(), false)
	case typeTuple:
		// ShortCount fails for more elements than bytes that are left.
		elems := make([]*types.Type, c.ShortCount(2))
		for i := range elems {
			elems[i] = part()
		}
		t = types.NewTuple(elems...)
	case typeUDT:
		keyspace, name := c.String(), c.String()
		n := c.ShortCount(2 + 2)
		fields, elems := make([]string, n), make([]*types.Type, n)
		for i := range n {
			fields[i] = c.String()
			elems[i] = part()
		}
		t = types.NewUDT(keyspace, name, fields, elems, false)
	default:
		t = consumeScalar(c, id)
	}
	if c.Err() != nil {
		return nil
	}
	return t
}

// customType returns the type of a class name: one without an id in this version, or one that this server does not
// know. class is a name of Cassandra, such as org.apache.cassandra.db.marshal.DurationType.
func customType(class string) *types.Type {
	// Such as duration before v5, or vector.
	if t, err := types.ParseDeclaredClass(class); err == nil {
		return t
	}
	return types.NewCustom(class)
}

// consumeScalar returns the native type with an id, in any version.
func consumeScalar(c *wire.Cursor, id uint16) *types.Type {
	// Both ids mean the same type.
	if id == typeText {
		id = typeVarchar
	}
	// All native kinds, so that scalarType is the only list of ids.
	for k := types.Ascii; k <= types.Varint; k++ {
		if kind, _, ok := scalarType(k); ok && kind == id {
			return types.Native(k)
		}
	}
	c.Fail(wire.ErrMalformed)
	return nil
}
