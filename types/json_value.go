package types

import (
	"encoding/binary"
	"fmt"
	"strings"
)

// FromJSON returns the wire form of a JSON value in INSERT JSON and from_json; null is nil. The error is a *ValueError.
// now is as for FromJSONValue.
func (t *Type) FromJSON(text []byte, now func() int64) ([]byte, error) {
	v, err := ParseJSON(text)
	if err != nil {
		return nil, &ValueError{Type: t, Reason: err.Error()}
	}
	return t.FromJSONValue(&v, now)
}

// FromJSONValue is FromJSON for a parsed value. Every type accepts a string: for a scalar, it contains the text that
// FromText parses, for a type with parts, it contains JSON, which is how a map has such keys. The error is a
// *ValueError. The result is valid, and its sets and maps are sorted.
//
// As in Cassandra, the string "now", in any case of letters, converts to a timestamp: the result of now, in ms. If
// now is nil, the string is an error.
func (t *Type) FromJSONValue(v *JSONValue, now func() int64) ([]byte, error) {
	return fromJSON(t, v, jsonScope{now: now})
}

// jsonScope is the context of the conversion of a part of a value.
type jsonScope struct {
	now func() int64
	// depth counts nested JSON strings. Each is parsed separately.
	depth int
}

// fromJSON converts v.
func fromJSON(t *Type, v *JSONValue, in jsonScope) ([]byte, error) {
	if v.kind == jsonNull {
		return nil, nil
	}
	// Handle scalars first; their strings do not contain JSON.
	if t.kind < List {
		// Only JSON has it inside of values: as a constant of CQL, it is a call of a function.
		if t.kind == Timestamp && v.kind == jsonString && in.now != nil && strings.EqualFold(v.text, "now") {
			return binary.BigEndian.AppendUint64([]byte{}, uint64(in.now())), nil
		}
		return scalarFromJSON(t, v)
	}
	if t.kind == Custom {
		return legacyFromJSON(t, v)
	}
	// At the bound, the code below rejects the string as a value of the wrong kind.
	if v.kind == jsonString && in.depth < nestingMax {
		inner, err := ParseJSON([]byte(v.text))
		if err != nil {
			return nil, invalid(t, "%v", err)
		}
		return fromJSON(t, &inner, jsonScope{in.now, in.depth + 1})
	}
	switch t.kind {
	case List, Set, Vector, Tuple:
		return listFromJSON(t, v, in)
	case Map:
		return mapFromJSON(t, v, in)
	case UDT:
		return fieldsFromJSON(t, v, in)
	}
	return nil, invalid(t, "JSON values of the type %s are not supported", t)
}

// invalid returns a *ValueError.
func invalid(t *Type, format string, args ...any) error {
	return &ValueError{Type: t, Reason: fmt.Sprintf(format, args...)}
}

// expected returns Cassandra's message for a JSON value of the wrong kind. what includes the article.
func expected(t *Type, what string, v *JSONValue) error {
	return invalid(t, "Expected %s, but got a %s: %s", what, v.class(), v)
}

// scalarFromJSON converts a value for a native type. The accepted kinds of values and the error messages are
// Cassandra's.
func scalarFromJSON(t *Type, v *JSONValue) ([]byte, error) {
	isString := v.kind == jsonString
	// A case that does not return falls to the message below, which names what the type expects.
	switch t.kind {
	case Varint, Decimal:
		return exactFromJSON(t, v)
	case Tinyint, Smallint:
		if isString || v.kind == jsonNumber {
			// Use String, because Java prints 1e2 as 100.0, which the error message must contain.
			return t.FromText(v.String())
		}
	case Int, Bigint, Counter, Timestamp:
		if isString {
			return t.FromText(v.text)
		}
		// A whole number beyond the range has the same error as a value of another kind.
		if v.isWhole() {
			if b, err := t.FromText(v.text); err == nil {
				return b, nil
			}
		}
	case Float, Double:
		if isString || v.kind == jsonNumber {
			// A number in quotes, or NaN in quotes, which JSON does not have.
			return t.FromText(v.text)
		}
	case Boolean:
		if v.kind == jsonBool {
			return t.FromText(v.text)
		}
		// As in Cassandra, the empty string is false.
		if isString && v.text == "" {
			return []byte{0}, nil
		}
		if isString {
			return t.FromText(v.text)
		}
	case Blob:
		return blobFromJSON(t, v)
	// Texts, UUIDs, inet, dates, times and durations come from strings only.
	default:
		if isString {
			return textFromJSON(t, v.text)
		}
	}
	return nil, expected(t, jsonExpectation(t.kind), v)
}

// jsonExpectation returns what a type expects, as messages name it.
func jsonExpectation(k Kind) string {
	switch k {
	case Ascii:
		return "an ascii string"
	case Text:
		return "a UTF-8 string"
	case Tinyint:
		return "a byte value"
	case Smallint:
		return "a short value"
	case Int:
		return "an int value"
	case Bigint, Counter:
		return "a bigint value"
	case Float:
		return "a float value"
	case Double:
		return "a double value"
	case Boolean:
		return "a boolean value"
	case Timestamp:
		return "a long or a datestring representation of a timestamp value"
	case Inet:
		return "a string representation of an inet value"
	case UUID:
		return "a string representation of a uuid"
	case Timeuuid:
		return "a string representation of a timeuuid"
	case Duration:
		return "a string representation of a duration"
	}
	return "a string representation of a " + Native(k).text + " value" // date, time
}

// textFromJSON converts a string. Cassandra has its own words for a timeuuid that is no UUID.
func textFromJSON(t *Type, text string) ([]byte, error) {
	b, err := t.FromText(text)
	if err != nil && t.kind == Timeuuid && !strings.HasPrefix(err.Error(), "TimeUUID") {
		return nil, invalid(t, "Unknown timeuuid representation: %s", text)
	}
	return b, err
}

// exactFromJSON converts to varint and decimal, which have one message for everything.
func exactFromJSON(t *Type, v *JSONValue) ([]byte, error) {
	// An empty string is refused for varint before FromText, which would make it the empty value.
	if v.kind == jsonNumber || v.kind == jsonString && (v.text != "" || t.kind == Decimal) {
		if b, err := t.FromText(v.text); err == nil {
			return b, nil
		}
	}
	return nil, invalid(t, "Value '%s' is not a valid representation of a %s value", v, t)
}

// blobFromJSON converts a string with 0x. Without it the string is no blob, unlike in FromText.
func blobFromJSON(t *Type, v *JSONValue) ([]byte, error) {
	if v.kind != jsonString {
		return nil, invalid(t, "Value '%s' is not a valid blob representation: a string is expected, not a %s", v,
			v.class())
	}
	if !strings.HasPrefix(v.text, "0x") {
		return nil, invalid(t, "Value '%s' is not a valid blob representation: "+
			"String representation of blob is missing 0x prefix: %s", v, v.text)
	}
	// FromText removes the prefix.
	b, err := t.FromText(v.text)
	if err != nil {
		return nil, invalid(t, "Value '%s' is not a valid blob representation: %v", v, err)
	}
	return b, nil
}

// listFromJSON converts an array to a type whose parts have positions. A tuple needs all its fields here, although it
// may have fewer in wire form.
func listFromJSON(t *Type, v *JSONValue, in jsonScope) ([]byte, error) {
	if v.kind != jsonArray {
		switch t.kind {
		case Set:
			return nil, expected(t, "a list (representing a set)", v)
		case Tuple:
			return nil, expected(t, "a list representation of a tuple", v)
		}
		return nil, expected(t, "a list", v)
	}
	// Lists and sets have any number of elements.
	switch n := len(v.list); {
	case t.kind == Vector && n != t.dims:
		return nil, invalid(t, "List had incorrect size: expected %d but given %d; %s", t.dims, n, v)
	case t.kind == Tuple && n > len(t.elems):
		return nil, invalid(t, "Tuple contains extra items (expected %d): %s", len(t.elems), v)
	case t.kind == Tuple && n < len(t.elems):
		return nil, invalid(t, "Tuple is missing items (expected %d): %s", len(t.elems), v)
	}
	parts := make([][]byte, len(v.list))
	for i := range v.list {
		b, err := fromJSON(partType(t, i), &v.list[i], in)
		if err != nil {
			return nil, err
		}
		// Fields of a tuple may be null.
		if b == nil && t.kind != Tuple {
			word := kindWord(t.kind)
			if t.kind == Vector {
				word = kindWord(List)
			}
			return nil, invalid(t, "Invalid null element in %s", word)
		}
		parts[i] = b
	}
	return partsFromJSON(t, parts)
}

// mapFromJSON converts an object to a map. A key is a string of JSON: its type decides what it contains.
func mapFromJSON(t *Type, v *JSONValue, in jsonScope) ([]byte, error) {
	if v.kind != jsonObject {
		return nil, expected(t, "a map", v)
	}
	parts := make([][]byte, 0, 2*len(v.members))
	for i := range v.members {
		m := &v.members[i]
		if m.Value.kind == jsonNull {
			return nil, invalid(t, "Invalid null value in map")
		}
		// A key of a type with parts is JSON inside this string, which fromJSON parses.
		key, err := fromJSON(t.elems[0], &JSONValue{kind: jsonString, text: m.Name}, in)
		if err != nil {
			return nil, err
		}
		value, err := fromJSON(t.elems[1], &m.Value, in)
		if err != nil {
			return nil, err
		}
		if key == nil || value == nil { // null inside a string
			return nil, invalid(t, "Invalid null value in map")
		}
		parts = append(parts, key, value)
	}
	return partsFromJSON(t, parts)
}

// fieldsFromJSON converts an object to a user-defined type. Fields that it does not name are null; of a field that it
// names twice the last value counts.
func fieldsFromJSON(t *Type, v *JSONValue, in jsonScope) ([]byte, error) {
	if v.kind != jsonObject {
		return nil, expected(t, "a map", v)
	}
	// All fields, so that an object in any order becomes a value in the type's order.
	parts := make([][]byte, len(t.elems))
	for i := range v.members {
		m := &v.members[i]
		at := t.FieldIndex(m.CQLName())
		if at < 0 {
			return nil, invalid(t, "Unknown field '%s' in value of user defined type %s", m.CQLName(), t.name)
		}
		b, err := fromJSON(t.elems[at], &m.Value, in)
		if err != nil {
			return nil, err
		}
		parts[at] = b
	}
	return partsFromJSON(t, parts)
}

// partsFromJSON builds the value. An empty collection is not nil: nil would be null.
func partsFromJSON(t *Type, parts [][]byte) ([]byte, error) {
	b, err := t.AppendParts([]byte{}, parts)
	if err != nil {
		return nil, invalid(t, "%v", err)
	}
	return b, nil
}
