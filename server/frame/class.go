package frame

import (
	"encoding/hex"
	"strconv"
	"strings"

	"cqld/cql/types"
)

// classPackage is where Cassandra's type classes live; drivers parse the names.
const classPackage = "org.apache.cassandra.db.marshal."

// marshalClass is the class name a type goes by in a custom [option].
func marshalClass(t *types.Type) string {
	switch t.Kind() {
	case types.Custom:
		return t.CustomClass()
	case types.Vector:
		return classPackage + "VectorType(" + marshalClass(t.Elems()[0]) + ", " + strconv.Itoa(t.Dimensions()) + ")"
	case types.Tuple:
		return classPackage + "TupleType(" + classList(t.Elems()) + ")"
	case types.UDT:
		parts := []string{t.UDTKeyspace(), hex.EncodeToString([]byte(t.UDTName()))}
		for i, field := range t.Elems() {
			parts = append(parts, hex.EncodeToString([]byte(t.FieldNames()[i]))+":"+marshalClass(field))
		}
		return frozenClass(t, classPackage+"UserType("+strings.Join(parts, ",")+")")
	case types.List:
		return frozenClass(t, classPackage+"ListType("+classList(t.Elems())+")")
	case types.Set:
		return frozenClass(t, classPackage+"SetType("+classList(t.Elems())+")")
	case types.Map:
		return frozenClass(t, classPackage+"MapType("+classList(t.Elems())+")")
	default:
		return classPackage + scalarClass(t.Kind())
	}
}

func classList(elems []*types.Type) string {
	names := make([]string, len(elems))
	for i, e := range elems {
		names[i] = marshalClass(e)
	}
	return strings.Join(names, ",")
}

func frozenClass(t *types.Type, class string) string {
	if t.Frozen() {
		return classPackage + "FrozenType(" + class + ")"
	}
	return class
}

func scalarClass(k types.Kind) string {
	switch k {
	case types.Ascii:
		return "AsciiType"
	case types.Bigint:
		return "LongType"
	case types.Blob:
		return "BytesType"
	case types.Boolean:
		return "BooleanType"
	case types.Counter:
		return "CounterColumnType"
	case types.Date:
		return "SimpleDateType"
	case types.Decimal:
		return "DecimalType"
	case types.Double:
		return "DoubleType"
	case types.Duration:
		return "DurationType"
	case types.Float:
		return "FloatType"
	case types.Inet:
		return "InetAddressType"
	case types.Int:
		return "Int32Type"
	case types.Smallint:
		return "ShortType"
	case types.Text:
		return "UTF8Type"
	case types.Time:
		return "TimeType"
	case types.Timestamp:
		return "TimestampType"
	case types.Timeuuid:
		return "TimeUUIDType"
	case types.Tinyint:
		return "ByteType"
	case types.UUID:
		return "UUIDType"
	default:
		return "IntegerType" // varint, the only one left
	}
}
