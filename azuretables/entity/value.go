package entity

import (
	"math"
	"strconv"

	"cqld/azuretables/odata"
	"cqld/internal/wire"
	"cqld/types"
)

// appendWire appends the cell value for v, which has the type that col is shown as. It returns an error if the column's
// CQL type has no such value.
func (c *column) appendWire(dst []byte, v *odata.Value) ([]byte, error) {
	switch c.Type.Kind() {
	case types.Text, types.Blob:
		return append(dst, v.Bytes...), nil
	case types.Boolean:
		return append(dst, byte(v.Int)), nil
	case types.Timestamp:
		millis, _ := splitTicks(v.Int)
		return wire.AppendInt64(dst, millis), nil
	case types.Double:
		return wire.AppendUint64(dst, math.Float64bits(v.Float)), nil
	case types.Float:
		return wire.AppendUint32(dst, math.Float32bits(float32(v.Float))), nil
	case types.UUID:
		return append(dst, v.Bytes...), nil
	case types.Timeuuid:
		if err := c.Type.Validate(v.Bytes); err != nil {
			return dst, c.bad(err)
		}
		return append(dst, v.Bytes...), nil
	case types.Int:
		return wire.AppendInt32(dst, int32(v.Int)), nil
	case types.Bigint:
		return wire.AppendInt64(dst, v.Int), nil
	case types.Smallint, types.Tinyint:
		if !c.Type.Kind().FitsInt64(v.Int) {
			return dst, invalid("Property " + c.Name + ": " + strconv.FormatInt(v.Int, 10) +
				" is out of the range of CQL's " + c.Type.String() + ".")
		}
		return c.Type.AppendInt64(dst, v.Int), nil
	}
	return c.appendParsed(dst, v)
}

// appendParsed is appendWire for text in CQL's format, or JSON for collections, tuples and user-defined types.
func (c *column) appendParsed(dst []byte, v *odata.Value) ([]byte, error) {
	var b []byte
	var err error
	if c.Type.Kind() >= types.List {
		b, err = c.Type.FromJSON(v.Bytes)
	} else {
		b, err = c.Type.FromText(string(v.Bytes))
	}
	if err == nil {
		err = c.Type.Validate(b)
	}
	if err != nil {
		return dst, c.bad(err)
	}
	return append(dst, b...), nil
}

func (c *column) bad(err error) error {
	return invalid("Property " + c.Name + " is a column of CQL type " + c.Type.String() + ": " + err.Error() + ".")
}

// value sets v to the property value of b, a cell's value; it appends converted text to *arena. ok is false for values
// that cannot be shown: an empty number, or bytes that are invalid for the type.
func (c *column) value(v *odata.Value, b []byte, arena *[]byte) (ok bool) {
	v.Type = c.shown
	switch c.Type.Kind() {
	case types.Text, types.Blob, types.Ascii:
		v.Bytes = b
		return true
	case types.Boolean:
		if len(b) != 1 {
			return false
		}
		if b[0] != 0 {
			v.Int = 1
		}
		return true
	case types.Int:
		if len(b) != 4 {
			return false
		}
		v.Int = int64(int32(b32(b)))
		return true
	case types.Bigint, types.Counter:
		if len(b) != 8 {
			return false
		}
		v.Int = int64(b64(b))
		return true
	case types.Timestamp:
		if len(b) != 8 {
			return false
		}
		v.Int = joinTicks(int64(b64(b)), 0)
		return true
	case types.Double:
		if len(b) != 8 {
			return false
		}
		v.Float = math.Float64frombits(b64(b))
		return true
	case types.UUID, types.Timeuuid:
		v.Bytes = b
		return len(b) == 16
	}
	return c.rareValue(v, b, arena)
}

func (c *column) rareValue(v *odata.Value, b []byte, arena *[]byte) (ok bool) {
	switch c.Type.Kind() {
	case types.Float:
		if len(b) != 4 {
			return false
		}
		v.Float = float64(math.Float32frombits(b32(b)))
		return true
	case types.Smallint, types.Tinyint:
		v.Int, ok = c.Type.Int64(b)
		return ok
	}
	if len(b) == 0 && c.Type.Kind().EmptyIsNull() {
		return false
	}
	from := len(*arena)
	if c.Type.Kind() >= types.List {
		if c.Type.Validate(b) != nil {
			return false
		}
		*arena = c.Type.AppendJSON(*arena, b)
	} else {
		*arena = c.Type.AppendText(*arena, b)
	}
	v.Bytes = (*arena)[from:len(*arena):len(*arena)]
	return true
}

func b32(b []byte) uint32 {
	c := wire.NewCursor(b)
	return c.Uint32()
}

func b64(b []byte) uint64 {
	c := wire.NewCursor(b)
	return c.Uint64()
}
