package types

import (
	"encoding/hex"
	"fmt"
	"unicode/utf8"

	"cqld/internal/wire"
)

// MalformedError means that bytes are not a value of a type. Its text is Cassandra's.
type MalformedError struct {
	Type   *Type
	Reason string
}

func (e *MalformedError) Error() string { return e.Reason }

func (t *Type) malformed(format string, args ...any) error {
	return &MalformedError{Type: t, Reason: fmt.Sprintf(format, args...)}
}

// Validate returns a *MalformedError unless wire is a value of the type. It checks the length, the structure, the parts
// and the encoding of text. Null (nil) is always valid; the empty value is valid if AllowsEmpty returns true. Of legacy
// types, only the length is checked.
func (t *Type) Validate(wire []byte) error {
	if wire == nil {
		return nil
	}
	if len(wire) == 0 && t.AllowsEmpty() {
		return nil
	}
	switch t.kind {
	case List, Set, Map:
		return t.validateCollection(wire)
	case Tuple, UDT:
		return t.validateFields(wire)
	case Vector:
		return t.validateVector(wire)
	case Duration:
		return t.validateDuration(wire)
	case Custom:
		return t.validateLegacy(wire)
	case Ascii, Text:
		return t.validateText(wire)
	case Decimal:
		if len(wire) < 4 {
			return t.malformed("Expected 0 or at least 4 bytes (%d)", len(wire))
		}
	case Inet:
		if len(wire) != 4 && len(wire) != 16 {
			return t.malformed("Expected 4 or 16 byte inetaddress; got %s", hex.EncodeToString(wire))
		}
	default:
		return t.validateFixed(wire)
	}
	return nil
}

// AllowsEmpty reports whether the zero-length value is valid for the type.
func (t *Type) AllowsEmpty() bool {
	switch t.kind {
	case Tinyint, Smallint, Date, Time, Duration, List, Set, Map, Vector:
		return false
	}
	return true
}

// EmptyIsNull reports whether conditions and functions treat the empty value as null.
func (t *Type) EmptyIsNull() bool {
	switch t.kind {
	case Ascii, Blob, Text, Tuple, UDT, List, Set, Map, Vector, Custom:
		return false
	}
	return true
}

func (t *Type) validateFixed(wire []byte) error {
	n := fixedSize(t.kind)
	if n != 0 && len(wire) != n {
		return t.wrongLength(len(wire))
	}
	if t.kind == Timeuuid && wire[6]>>4 != 1 {
		// Cassandra's message takes the first digit as the version, not the thirteenth.
		return t.malformed("Invalid version for TimeUUID type: 0x%x", wire[0]>>4)
	}
	return nil
}

func (t *Type) wrongLength(n int) error {
	switch t.kind {
	case Boolean:
		return t.malformed("Expected 1 or 0 byte value (%d)", n)
	case Tinyint:
		return t.malformed("Expected 1 byte for a tinyint (%d)", n)
	case Smallint:
		return t.malformed("Expected 2 bytes for a smallint (%d)", n)
	case Int:
		return t.malformed("Expected 4 or 0 byte int (%d)", n)
	case Bigint, Counter:
		return t.malformed("Expected 8 or 0 byte long (%d)", n)
	case Float:
		return t.malformed("Expected 4 or 0 byte value for a float (%d)", n)
	case Double:
		return t.malformed("Expected 8 or 0 byte value for a double (%d)", n)
	case Date:
		return t.malformed("Expected 4 byte long for date (%d)", n)
	case Time:
		return t.malformed("Expected 8 byte long for time (%d)", n)
	case Timestamp:
		return t.malformed("Expected 8 or 0 byte long for date (%d)", n)
	}
	return t.malformed("UUID should be 16 or 0 bytes (%d)", n)
}

func (t *Type) validateText(wire []byte) error {
	if t.kind == Ascii {
		for _, b := range wire {
			if b >= 0x80 {
				return t.malformed("Invalid byte for ascii: %d", int8(b))
			}
		}
		return nil
	}
	if !utf8.Valid(wire) && !validJavaText(wire) {
		return t.malformed("String didn't validate.")
	}
	return nil
}

// validJavaText accepts the invalid UTF-8 that Cassandra accepts: C0 80 for NUL, single surrogates, and code points
// above 10FFFF up to the limit of four bytes.
func validJavaText(b []byte) bool {
	for len(b) > 0 {
		n, lower := 1, byte(0x80)
		switch c := b[0]; {
		case c < 0x80:
		case c == 0xC0:
			if len(b) < 2 || b[1] != 0x80 {
				return false
			}
			n = 2
		case c >= 0xC2 && c <= 0xDF:
			n = 2
		case c == 0xE0:
			n, lower = 3, 0xA0
		case c >= 0xE1 && c <= 0xEF:
			n = 3
		case c == 0xF0:
			n, lower = 4, 0x90
		case c >= 0xF1 && c <= 0xF7:
			n = 4
		default:
			return false
		}
		if len(b) < n {
			return false
		}
		for _, c := range b[1:n] {
			if c < lower || c > 0xBF {
				return false
			}
			lower = 0x80
		}
		b = b[n:]
	}
	return true
}

func (t *Type) validateDuration(b []byte) error {
	if len(b) < 3 {
		return t.malformed("Expected at least 3 bytes for a duration (%d)", len(b))
	}
	c := wire.NewCursor(b)
	months, days, nanos := c.Vint(), c.Vint(), c.Vint()
	switch {
	case c.Err() != nil: // additional bytes are ignored, as in Cassandra
		return t.malformed("Expected three vints for a duration (%d bytes)", len(b))
	case months != int64(int32(months)):
		return t.malformed("The duration months must be a 32 bits integer but was: %d", months)
	case days != int64(int32(days)):
		return t.malformed("The duration days must be a 32 bits integer but was: %d", days)
	case (months < 0 || days < 0 || nanos < 0) && (months > 0 || days > 0 || nanos > 0):
		return t.malformed("The duration months, days and nanoseconds must be all of the same sign (%d, %d, %d)",
			months, days, nanos)
	}
	return nil
}

func (t *Type) validateCollection(b []byte) error {
	word := kindWord(t.kind)
	c := wire.NewCursor(b)
	n := c.Int32()
	if c.Err() != nil || n < 0 {
		return t.malformed("Not enough bytes to read a %s", word)
	}
	for range n {
		for _, e := range t.elems {
			size := c.Int32()
			switch {
			case c.Err() != nil || int(size) > c.Len():
				return t.malformed("Not enough bytes to read a %s", word)
			case size < 0:
				return t.malformed("Null value read when not allowed")
			}
			if err := e.Validate(c.Take(int(size))); err != nil {
				return err
			}
		}
	}
	if c.Len() > 0 {
		return t.malformed("Unexpected extraneous bytes after %s value", word)
	}
	return nil
}

func (t *Type) validateFields(b []byte) error {
	c := wire.NewCursor(b)
	for i, e := range t.elems {
		if c.Len() == 0 {
			return nil
		}
		if c.Len() < 4 {
			return t.malformed("Not enough bytes to read size of %s", t.fieldWord(i))
		}
		size := c.Int32()
		if size < 0 {
			continue
		}
		if int(size) > c.Len() {
			return t.malformed("Not enough bytes to read %s", t.fieldWord(i))
		}
		if err := e.Validate(c.Take(int(size))); err != nil {
			if t.kind == UDT {
				return t.malformed("Failure validating the %s; %v", t.fieldWord(i), err)
			}
			return err
		}
	}
	if c.Len() > 0 {
		if t.kind == UDT {
			return t.malformed("Invalid remaining data after end of UDT value")
		}
		return t.malformed("Invalid remaining data after end of tuple value")
	}
	return nil
}

func (t *Type) fieldWord(i int) string {
	if t.kind == UDT {
		return fmt.Sprintf("%dth field %s", i, t.fields[i])
	}
	return fmt.Sprintf("%dth component", i)
}

func (t *Type) validateVector(b []byte) error {
	if len(b) == 0 {
		return t.malformed("Invalid empty vector value")
	}
	c := wire.NewCursor(b)
	for range t.dims {
		v := t.vectorElement(&c)
		if c.Err() != nil {
			return t.malformed("Not enough bytes to read a %s", t)
		}
		if err := t.elems[0].Validate(v); err != nil {
			return err
		}
	}
	if c.Len() > 0 {
		return t.malformed("Unexpected %d extraneous bytes after %s value", c.Len(), t)
	}
	return nil
}
