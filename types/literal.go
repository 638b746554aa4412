package types

import (
	"encoding/hex"
	"fmt"
	"math/big"
	"net/netip"
	"strconv"
	"strings"

	"cqld/types/number"
)

// LiteralKind is the kind of a CQL constant. The zero LiteralKind is invalid. null is no constant here: it needs no
// type.
type LiteralKind uint8

// The kinds that the grammar distinguishes. NaN and Infinity, with or without a minus sign, are float literals.
const (
	_ LiteralKind = iota
	// In single quotes, or in dollar signs.
	StringLiteral
	IntegerLiteral
	FloatLiteral
	UUIDLiteral
	BooleanLiteral
	HexLiteral // including 0x
	DurationLiteral
)

// String returns the kind as Cassandra's messages name it.
func (k LiteralKind) String() string {
	//exhaustive:enforce
	switch k {
	case StringLiteral:
		return "STRING"
	case IntegerLiteral:
		return "INTEGER"
	case FloatLiteral:
		return "FLOAT"
	case UUIDLiteral:
		return "UUID"
	case BooleanLiteral:
		return "BOOLEAN"
	case HexLiteral:
		return "HEX"
	case DurationLiteral:
		return "DURATION"
	}
	return "INVALID"
}

// Assigns reports whether a constant of that kind may be assigned to t. It does not examine the text, which FromText
// may still reject. Types with parts have other literals, except for the string form of a tuple.
func (k LiteralKind) Assigns(t *Type) bool {
	// These types accept constants of any kind, if FromText accepts the text.
	switch {
	case t.kind == Custom:
		return !t.IsEmpty()
	case t.kind == Tuple:
		return k != HexLiteral // Cassandra stores any bytes, which clients cannot decode
	}
	//exhaustive:enforce
	switch k {
	case StringLiteral:
		switch t.kind {
		case Ascii, Text, Inet, Date, Time, Timestamp:
			return true
		}
	case IntegerLiteral:
		switch t.kind {
		// A date or time may be a number; a timestamp is milliseconds.
		case Bigint, Counter, Date, Decimal, Double, Duration, Float, Int, Smallint, Time, Timestamp, Tinyint, Varint:
			return true
		}
	case FloatLiteral:
		return t.kind == Decimal || t.kind == Double || t.kind == Float
	case UUIDLiteral:
		return t.kind == UUID || t.kind == Timeuuid
	case BooleanLiteral:
		return t.kind == Boolean
	case HexLiteral:
		return t.kind == Blob
	case DurationLiteral:
		return t.kind == Duration
	}
	return false
}

// Preferred returns the type of a constant whose context does not determine it: ascii before text, the first of int,
// bigint and varint that can represent the number, and double, or decimal if that is more exact. text is as in
// FromLiteral. It selects among overloaded functions.
//
//	'abc'         ascii      'é'                     text
//	1             int        3000000000              bigint
//	1.5           double     100000000000000000000   varint
func (k LiteralKind) Preferred(text string) *Type {
	//exhaustive:enforce
	switch k {
	case StringLiteral:
		if _, err := Native(Ascii).FromText(text); err == nil {
			return Native(Ascii)
		}
	// The grammar has checked the digits, so an error means that the number is out of range.
	case IntegerLiteral:
		if _, err := strconv.ParseInt(text, 10, 32); err == nil {
			return Native(Int)
		}
		if _, err := strconv.ParseInt(text, 10, 64); err == nil {
			return Native(Bigint)
		}
		return Native(Varint)
	case FloatLiteral:
		return preferredFloat(text)
	case UUIDLiteral:
		// The version is the digit after the second hyphen.
		if len(text) > 14 && text[14] == '1' {
			return Native(Timeuuid)
		}
		return Native(UUID)
	case BooleanLiteral:
		return Native(Boolean)
	case HexLiteral:
		return Native(Blob)
	case DurationLiteral:
		return Native(Duration)
	}
	return Native(Text)
}

// preferredFloat returns double if the number, printed as Java prints a double, is the same number; otherwise decimal.
func preferredFloat(text string) *Type {
	exact, err := decimalFromText(text)
	if err != nil {
		return Native(Double) // NaN, Infinity
	}
	f, err := strconv.ParseFloat(text, 64)
	// Beyond the range of a double.
	if err != nil {
		return Native(Decimal)
	}
	// Compare as decimals, so that 1.50 and 1.5 are equal.
	nearest, err := decimalFromText(string(appendFloatText(nil, f, 64)))
	if err != nil || Native(Decimal).Compare(exact, nearest) != 0 {
		return Native(Decimal)
	}
	return Native(Double)
}

// ConstantError means that a kind of constant does not match a type. Its Message needs the name of the column or
// parameter, which only the caller knows. Error has the same text without the name.
type ConstantError struct {
	Kind LiteralKind
	// The content of the constant, as in FromLiteral.
	Text string
	Type *Type
}

// Error returns the message without a name.
func (e *ConstantError) Error() string {
	return fmt.Sprintf("Invalid %s constant (%s) of type %s", e.Kind, e.Text, e.Type)
}

// Message returns Cassandra's text for a column or parameter with that name.
func (e *ConstantError) Message(column string) string {
	return fmt.Sprintf("Invalid %s constant (%s) for \"%s\" of type %s", e.Kind, e.Text, column, e.Type)
}

// ValueError means that a text is not a value of a type. Its text is Cassandra's. Reason is the whole message.
type ValueError struct {
	Type   *Type
	Reason string
}

// Error returns Reason.
func (e *ValueError) Error() string { return e.Reason }

// FromLiteral returns the wire form of a constant if CQL accepts it for t. text is the content of the quotes for a
// string, and the token itself for other kinds. The error is a *ConstantError if the kind does not match the type, and
// a *ValueError if the text does not. The result is a new slice, and valid.
func (t *Type) FromLiteral(kind LiteralKind, text string) ([]byte, error) {
	if !kind.Assigns(t) {
		return nil, &ConstantError{Kind: kind, Text: text, Type: t}
	}
	if t.kind == Custom && kind == HexLiteral {
		return legacyFromHex(t, text)
	}
	return t.FromText(text)
}

// FromText returns the wire form of a scalar written like FromLiteral's text. An empty text is the empty value if the
// type has one. Types with parts have no such form, except for tuples. The error is a *ValueError.
func (t *Type) FromText(text string) ([]byte, error) {
	if text == "" && t.kind < List && t.kind.AllowsEmpty() {
		return []byte{}, nil
	}
	switch t.kind {
	case Ascii:
		for i := range len(text) {
			if text[i] >= 0x80 {
				// The message contains Java's exception, as Cassandra's does.
				return nil, valueError(Ascii, "Invalid ASCII character in string literal: "+
					"java.nio.charset.UnmappableCharacterException: Input length = 1")
			}
		}
		return []byte(text), nil
	// The text of a statement is valid UTF-8.
	case Text:
		return []byte(text), nil
	case Bigint, Counter, Int, Smallint, Tinyint:
		return integerFromText(t, text)
	case Varint:
		// Check the length before the conversion, which takes more than linear time.
		if len(strings.TrimLeft(text, "+-")) > literalDigitsMax {
			return nil, valueError(Varint, "unable to make int from '%s'", text)
		}
		x, ok := new(big.Int).SetString(text, 10)
		if !ok {
			return nil, valueError(Varint, "unable to make int from '%s'", text)
		}
		return number.Append(nil, x), nil
	case Float, Double:
		return floatFromText(t, text)
	case Decimal:
		return decimalFromText(text)
	case Blob:
		// The digits may also be written without 0x.
		digits := strings.TrimPrefix(strings.TrimPrefix(text, "0x"), "0X")
		b, err := hex.DecodeString(digits)
		if err != nil {
			return nil, valueError(Blob, "cannot parse '%s' as hex bytes", digits)
		}
		return b, nil
	case Boolean:
		return booleanFromText(text)
	case UUID, Timeuuid:
		return uuidFromText(t, text)
	case Inet:
		return inetFromText(text)
	case Date, Time, Timestamp, Duration:
		return temporalFromText(t, text)
	case Tuple:
		return tupleFromText(t, text)
	case Custom:
		return legacyFromText(t, text)
	}
	return nil, &ValueError{Type: t, Reason: fmt.Sprintf("Unable to make %s from '%s'", t, text)}
}

// tupleFromText parses the fields of a tuple separated by colons, like Cassandra: "@" is null, and a backslash escapes
// a colon or "@". Fewer fields than the type has are valid.
func tupleFromText(t *Type, text string) ([]byte, error) {
	fields := splitFields(text)
	if len(fields) > len(t.elems) {
		return nil, &ValueError{Type: t, Reason: fmt.Sprintf("Invalid tuple literal: too many elements. Type %s "+
			"expects %d but got %d",
			t, len(t.elems), len(fields))}
	}
	parts := make([][]byte, len(fields))
	for i, f := range fields {
		// The part stays nil, which is null.
		if f == "@" {
			continue
		}
		var err error
		if parts[i], err = t.elems[i].FromText(strings.NewReplacer(`\:`, ":", `\@`, "@").Replace(f)); err != nil {
			return nil, err
		}
	}
	return t.AppendParts([]byte{}, parts)
}

// splitFields splits a text at the colons that have no backslash before them. Backslashes stay. An empty text has no
// fields.
//
//	1:2       "1", "2"
//	a\:b:c    "a\:b", "c"
//	1::2      "1", "", "2"
func splitFields(text string) (fields []string) {
	if text == "" {
		return nil
	}
	// Escapes are left in the fields: whether "@" is null depends on them.
	start := 0
	for i := range len(text) {
		if text[i] == ':' && (i == 0 || text[i-1] != '\\') {
			fields = append(fields, text[start:i])
			start = i + 1
		}
	}
	return append(fields, text[start:])
}

// literalDigitsMax bounds the decimal digits of a number. A conversion takes quadratic time: 0.2 ms for a number of
// this length, and 0.2 s for a statement of 16 MiB that consists of such numbers. Arithmetic has 10,000 digits at
// most. Longer numbers can be bound as values, which are binary.
const literalDigitsMax = 1 << 14

// integerFromText parses a number that fits the type's size.
func integerFromText(t *Type, text string) ([]byte, error) {
	size := fixedSize(t.kind)
	// A plus sign is accepted, as in Java.
	n, err := strconv.ParseInt(text, 10, 8*size)
	if err != nil {
		return nil, valueError(t.kind, "Unable to make %s from '%s'", javaInteger(size), text)
	}
	b := appendBE64(make([]byte, 0, 8), uint64(n))
	// The lower bytes of the number, big-endian.
	return b[8-size:], nil
}

// javaInteger returns the name of an integer of that size in bytes in Cassandra's messages.
func javaInteger(size int) string {
	switch size {
	case 1:
		return "byte"
	case 2:
		return "short"
	case 4:
		return "int"
	}
	return "long"
}

// booleanFromText parses true and false, without case.
func booleanFromText(text string) ([]byte, error) {
	switch strings.ToLower(text) {
	case "true":
		return []byte{1}, nil
	case "false":
		return []byte{0}, nil
	}
	return nil, valueError(Boolean, "Unable to make boolean from '%s'", text)
}

// uuidFromText parses the 8-4-4-4-12 form.
func uuidFromText(t *Type, text string) ([]byte, error) {
	if len(text) != 36 || text[8] != '-' || text[13] != '-' || text[18] != '-' || text[23] != '-' {
		return nil, valueError(t.kind, "Unable to make UUID from '%s'", text)
	}
	// The places of the hyphens are known, so that exactly 32 digits remain.
	digits := text[:8] + text[9:13] + text[14:18] + text[19:23] + text[24:]
	b, err := hex.DecodeString(digits)
	if err != nil {
		return nil, valueError(t.kind, "Unable to make UUID from '%s'", text)
	}
	if t.kind == Timeuuid && b[6]>>4 != 1 {
		return nil, valueError(Timeuuid, "TimeUUID supports only version 1 UUIDs")
	}
	return b, nil
}

// inetFromText parses addresses but no host names, because the meaning of a statement must not depend on DNS. IPv6
// addresses may be in brackets and have a zone, which is dropped. An IPv4 address in IPv6 form has 4 bytes.
func inetFromText(text string) ([]byte, error) {
	source := text
	// IPv4 addresses in brackets are accepted, too.
	if strings.HasPrefix(source, "[") && strings.HasSuffix(source, "]") {
		source = source[1 : len(source)-1]
	}
	if b, ok := ipv4FromText(source); ok {
		return b, nil
	}
	a, err := netip.ParseAddr(source)
	// IPv4 was parsed above, in Java's wider form.
	if err != nil || a.Is4() {
		return nil, valueError(Inet, "Unable to make inet address from '%s'", text)
	}
	return a.WithZone("").Unmap().AsSlice(), nil
}

// ipv4FromText parses one to four decimal parts; the last one fills the remaining bytes, as in Java: 127.1 is
// 127.0.0.1.
func ipv4FromText(s string) ([]byte, bool) {
	parts := strings.Split(s, ".")
	if len(parts) > 4 {
		return nil, false
	}
	b := make([]byte, 4)
	for i, p := range parts {
		// Each part but the last is one byte.
		limit := uint64(1) << 8
		last := i == len(parts)-1
		if last {
			limit = 1 << (8 * (4 - i))
		}
		// Decimal only: a leading zero does not make a part octal.
		n, err := strconv.ParseUint(p, 10, 64)
		if err != nil || !allDigits(p) || n >= limit {
			return nil, false
		}
		if last {
			var rest [8]byte
			copy(b[i:], appendBE64(rest[:0], n)[4+i:])
			return b, true
		}
		b[i] = byte(n)
	}
	return nil, false
}

// temporalFromText parses a date, time, timestamp or duration. 'now' is handled by the caller of FromText.
func temporalFromText(t *Type, text string) ([]byte, error) {
	switch t.kind {
	case Date:
		d, err := ParseDate(text)
		if err != nil {
			return nil, err
		}
		return appendBE32(nil, d), nil
	case Time:
		n, err := ParseTime(text)
		if err != nil {
			return nil, err
		}
		return appendBE64(nil, uint64(n)), nil
	case Timestamp:
		ms, err := ParseTimestamp(text)
		if err != nil {
			return nil, err
		}
		return appendBE64(nil, uint64(ms)), nil
	}
	// Duration is the only kind left.
	d, err := ParseDuration(text)
	if err != nil {
		return nil, err
	}
	return d.Append(nil), nil
}
