package entity

import (
	"math"
	"strconv"

	"cqld/azuretables/odata"
	"cqld/internal/wire"
	"cqld/types"
)

// appendWire appends the cell value for v, which has the type that col is shown as. It returns an error if the column's
// CQL type has no such value. Storage has no value of another type, so a value must fit exactly. dst is returned
// unchanged after an error. The bytes of v are copied.
func (c *column) appendWire(dst []byte, v *odata.Value) ([]byte, error) {
	switch c.Type.Kind() {
	case types.Text, types.Blob:
		// Text and blob have the value's bytes as they are.
		return append(dst, v.Bytes...), nil
	case types.Boolean:
		return append(dst, byte(v.Int)), nil
	case types.Timestamp:
		// The ticks below a millisecond are in a separate column (splitTicks).
		millis, _ := splitTicks(v.Int)
		return wire.AppendInt64(dst, millis), nil
	case types.Double:
		return wire.AppendUint64(dst, math.Float64bits(v.Float)), nil
	case types.Float:
		return wire.AppendUint32(dst, math.Float32bits(float32(v.Float))), nil
	case types.UUID:
		// A UUID that is not of version 1 is no timeuuid.
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
		// A value that does not fit is refused, rather than changed.
		if !c.Type.Kind().FitsInt64(v.Int) {
			return dst, invalid("Property " + c.Name + ": " + strconv.FormatInt(v.Int, 10) +
				" is out of the range of CQL's " + c.Type.String() + ".")
		}
		return c.Type.AppendInt64(dst, v.Int), nil
	}
	// Every other type has a text form.
	return c.appendParsed(dst, v)
}

// appendParsed is appendWire for text in CQL's format, or JSON for collections, tuples and user-defined types. Its
// errors name the property, the CQL type and what was wrong with the value. The text is as value shows it, so a value
// that was read can be written.
func (c *column) appendParsed(dst []byte, v *odata.Value) ([]byte, error) {
	var b []byte
	var err error
	// A collection, a tuple or a user-defined type: the value is JSON, as it is shown (rareValue).
	if c.Type.Kind() >= types.List {
		b, err = c.Type.FromJSON(v.Bytes, nil)
	} else {
		b, err = c.Type.FromText(string(v.Bytes))
	}
	if err == nil {
		// FromText and FromJSON accept more than storage does.
		err = c.Type.Validate(b)
	}
	if err != nil {
		return dst, c.bad(err)
	}
	return append(dst, b...), nil
}

// bad returns the error of a value that the column cannot have.
func (c *column) bad(err error) error {
	return invalid("Property " + c.Name + " is a column of CQL type " + c.Type.String() + ": " + err.Error() + ".")
}

// value sets v to the property value of b, a cell's value; it appends converted text to *arena. ok is false for values
// that cannot be shown: an empty number, or bytes that are invalid for the type. An absent property is what a null cell
// becomes. v may refer to b.
func (c *column) value(v *odata.Value, b []byte, arena *[]byte) (ok bool) {
	v.Type = c.shown
	switch c.Type.Kind() {
	case types.Text, types.Blob, types.Ascii:
		// An empty string or blob is a value.
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
		// A cell of the wrong size is not this version's.
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
		// The ticks are added by the decoder, if the same write has stored any.
		v.Int = joinTicks(int64(b64(b)), 0)
		return true
	case types.Double:
		if len(b) != 8 {
			return false
		}
		v.Float = math.Float64frombits(b64(b))
		return true
	case types.UUID, types.Timeuuid:
		// The bytes of UUIDs are copied unchanged, too.
		v.Bytes = b
		return len(b) == 16
	}
	return c.rareValue(v, b, arena)
}

// rareValue is value for types that the service has no type for, as numbers or text. A varint, for example, is shown as
// its digits.
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
	// A type whose empty value means null has no property.
	if len(b) == 0 && c.Type.Kind().EmptyIsNull() {
		return false
	}
	from := len(*arena)
	if c.Type.Kind() >= types.List {
		// An invalid collection is left out rather than shown in part.
		if c.Type.Validate(b) != nil {
			return false
		}
		*arena = c.Type.AppendJSON(*arena, b)
	} else {
		*arena = c.Type.AppendText(*arena, b)
	}
	// The capacity is cut, because the arena is appended to for other values.
	v.Bytes = (*arena)[from:len(*arena):len(*arena)]
	return true
}

// b32 returns the 32-bit integer in b, or 0 if it is shorter. Callers have checked the length where it matters.
func b32(b []byte) uint32 {
	c := wire.NewCursor(b)
	return c.Uint32()
}

// b64 returns the 64-bit integer in b, or 0 if it is shorter.
func b64(b []byte) uint64 {
	c := wire.NewCursor(b)
	return c.Uint64()
}
