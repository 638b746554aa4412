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

// Error returns Reason.
func (e *MalformedError) Error() string { return e.Reason }

// malformed returns a *MalformedError.
func malformed(t *Type, format string, args ...any) error {
	return &MalformedError{Type: t, Reason: fmt.Sprintf(format, args...)}
}

// Validate returns a *MalformedError unless wire is a value of the type. It checks the length, the structure, the parts
// and the encoding of text. Null (nil) is always valid; the empty value is valid if AllowsEmpty returns true. Of legacy
// types, only the length is checked. It does not check that sets and maps are sorted: see Normalize.
func (t *Type) Validate(wire []byte) error {
	if wire == nil {
		return nil
	}
	// Kinds that do not allow it have messages of their own for a length of zero.
	if len(wire) == 0 && t.kind.AllowsEmpty() {
		return nil
	}
	switch t.kind {
	case List, Set, Map:
		return validateCollection(t, wire)
	case Tuple, UDT:
		return validateFields(t, wire)
	case Vector:
		return validateVector(t, wire)
	case Duration:
		return validateDuration(t, wire)
	case Custom:
		return validateLegacy(t, wire)
	case Ascii, Text:
		return validateText(t, wire)
	case Decimal:
		// The scale; the digits may be missing, which is zero.
		if len(wire) < 4 {
			return malformed(t, "Expected 0 or at least 4 bytes (%d)", len(wire))
		}
	case Inet:
		if len(wire) != 4 && len(wire) != 16 {
			return malformed(t, "Expected 4 or 16 byte inetaddress; got %s", hex.EncodeToString(wire))
		}
	default:
		return validateFixed(t, wire)
	}
	return nil
}

// AllowsEmpty reports whether the zero-length value is valid for the kind, as in Cassandra.
func (k Kind) AllowsEmpty() bool {
	switch k {
	case Tinyint, Smallint, Date, Time, Duration, List, Set, Map, Vector:
		return false
	}
	return true
}

// EmptyIsNull reports whether conditions and functions treat the empty value as null. It reports false for kinds with
// a meaningful empty value.
func (k Kind) EmptyIsNull() bool {
	switch k {
	case Ascii, Blob, Text, Tuple, UDT, List, Set, Map, Vector, Custom:
		return false
	}
	return true
}

// validateFixed checks the length of a kind with a fixed size. Blobs and varints have none: any bytes are valid.
func validateFixed(t *Type, wire []byte) error {
	n := fixedSize(t.kind)
	if n != 0 && len(wire) != n {
		return wrongLength(t, len(wire))
	}
	// The length is 16 here.
	if t.kind == Timeuuid && wire[6]>>4 != 1 {
		// Cassandra's message shows the first digit as the version, not the thirteenth.
		return malformed(t, "Invalid version for TimeUUID type: 0x%x", wire[0]>>4)
	}
	return nil
}

// wrongLength returns the error for a value of n bytes. Cassandra has a different message for each type.
func wrongLength(t *Type, n int) error {
	// "or 0" is in the messages of kinds that allow the empty value.
	switch t.kind {
	case Boolean:
		return malformed(t, "Expected 1 or 0 byte value (%d)", n)
	case Tinyint:
		return malformed(t, "Expected 1 byte for a tinyint (%d)", n)
	case Smallint:
		return malformed(t, "Expected 2 bytes for a smallint (%d)", n)
	case Int:
		return malformed(t, "Expected 4 or 0 byte int (%d)", n)
	case Bigint, Counter:
		return malformed(t, "Expected 8 or 0 byte long (%d)", n)
	case Float:
		return malformed(t, "Expected 4 or 0 byte value for a float (%d)", n)
	case Double:
		return malformed(t, "Expected 8 or 0 byte value for a double (%d)", n)
	case Date:
		return malformed(t, "Expected 4 byte long for date (%d)", n)
	case Time:
		return malformed(t, "Expected 8 byte long for time (%d)", n)
	case Timestamp:
		return malformed(t, "Expected 8 or 0 byte long for date (%d)", n)
	}
	return malformed(t, "UUID should be 16 or 0 bytes (%d)", n)
}

// validateText checks ASCII or UTF-8.
func validateText(t *Type, wire []byte) error {
	// A Java byte is signed: the message has the number as Java prints it.
	if t.kind == Ascii {
		for _, b := range wire {
			if b >= 0x80 {
				return malformed(t, "Invalid byte for ascii: %d", int8(b))
			}
		}
		return nil
	}
	// The standard check is fast; the other one is for the rest.
	if !utf8.Valid(wire) && !validJavaText(wire) {
		return malformed(t, "String didn't validate.")
	}
	return nil
}

// validJavaText accepts the invalid UTF-8 that Cassandra accepts: C0 80 for NUL, single surrogates, and code points
// above 10FFFF up to the limit of four bytes. Such text is stored and returned as it is.
//
//	00 … 7F    one byte
//	C0         only C0 80
//	C2 … DF    two bytes
//	E0         three bytes, the second from A0 on
//	E1 … EF    three bytes
//	F0         four bytes, the second from 90 on
//	F1 … F7    four bytes
func validJavaText(b []byte) bool {
	for len(b) > 0 {
		// lower is the least second byte: it excludes forms that are longer than needed.
		n, lower := 1, byte(0x80)
		// C1 is not a lead byte: it would encode a character of one byte in two.
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
		// The bound is for the second byte only.
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

// validateDuration checks three vints: two of 32 bits and one of 64, all without different signs.
func validateDuration(t *Type, b []byte) error {
	// Each vint has at least one byte.
	if len(b) < 3 {
		return malformed(t, "Expected at least 3 bytes for a duration (%d)", len(b))
	}
	c := wire.NewCursor(b)
	months, days, nanos := c.Vint(), c.Vint(), c.Vint()
	switch {
	case c.Err() != nil: // additional bytes are ignored, as in Cassandra
		return malformed(t, "Expected three vints for a duration (%d bytes)", len(b))
	case months != int64(int32(months)):
		return malformed(t, "The duration months must be a 32 bits integer but was: %d", months)
	case days != int64(int32(days)):
		return malformed(t, "The duration days must be a 32 bits integer but was: %d", days)
	case (months < 0 || days < 0 || nanos < 0) && (months > 0 || days > 0 || nanos > 0):
		return malformed(t, "The duration months, days and nanoseconds must be all of the same sign (%d, %d, %d)",
			months, days, nanos)
	}
	return nil
}

// validateCollection checks a list, set or map. Every element is validated; null elements are errors.
func validateCollection(t *Type, b []byte) error {
	word := kindWord(t.kind)
	c := wire.NewCursor(b)
	n := c.Int32()
	if c.Err() != nil || n < 0 {
		return malformed(t, "Not enough bytes to read a %s", word)
	}
	// If the count is too large, the loop ends at the first missing size. n is not used for an allocation.
	for range n {
		for _, e := range t.elems {
			size := c.Int32()
			switch {
			case c.Err() != nil || int(size) > c.Len():
				return malformed(t, "Not enough bytes to read a %s", word)
			case size < 0:
				return malformed(t, "Null value read when not allowed")
			}
			if err := e.Validate(c.Take(int(size))); err != nil {
				return err
			}
		}
	}
	if c.Len() > 0 {
		return malformed(t, "Unexpected extraneous bytes after %s value", word)
	}
	return nil
}

// validateFields checks a tuple or UDT. Fields at the end may be missing; null ones are valid.
func validateFields(t *Type, b []byte) error {
	c := wire.NewCursor(b)
	for i, e := range t.elems {
		if c.Len() == 0 {
			return nil
		}
		// Between one and three bytes are left, which is not a size.
		if c.Len() < 4 {
			return malformed(t, "Not enough bytes to read size of %s", fieldWord(t, i))
		}
		size := c.Int32()
		// Any negative size is null.
		if size < 0 {
			continue
		}
		if int(size) > c.Len() {
			return malformed(t, "Not enough bytes to read %s", fieldWord(t, i))
		}
		if err := e.Validate(c.Take(int(size))); err != nil {
			// The message of a UDT contains the message of its field.
			if t.kind == UDT {
				return malformed(t, "Failure validating the %s; %v", fieldWord(t, i), err)
			}
			return err
		}
	}
	if c.Len() > 0 {
		if t.kind == UDT {
			return malformed(t, "Invalid remaining data after end of UDT value")
		}
		return malformed(t, "Invalid remaining data after end of tuple value")
	}
	return nil
}

// fieldWord names a field in messages: by position, and in a UDT also by name.
func fieldWord(t *Type, i int) string {
	if t.kind == UDT {
		return fmt.Sprintf("%dth field %s", i, t.fields[i])
	}
	return fmt.Sprintf("%dth component", i)
}

// validateVector checks the elements of a vector, which must be complete. Elements cannot be null.
func validateVector(t *Type, b []byte) error {
	// Every vector has bytes: its elements have a fixed length, or a length before them.
	if len(b) == 0 {
		return malformed(t, "Invalid empty vector value")
	}
	c := wire.NewCursor(b)
	for range t.dims {
		v := vectorElement(t, &c)
		if c.Err() != nil {
			return malformed(t, "Not enough bytes to read a %s", t)
		}
		if err := t.elems[0].Validate(v); err != nil {
			return err
		}
	}
	if c.Len() > 0 {
		return malformed(t, "Unexpected %d extraneous bytes after %s value", c.Len(), t)
	}
	return nil
}
