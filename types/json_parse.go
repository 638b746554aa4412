package types

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// JSONValue is a parsed JSON value. It keeps the text of numbers and the order of members. The zero JSONValue is
// null. Numbers are kept as text, because the target type determines their precision.
type JSONValue struct {
	kind jsonKind
	text string // number or string; true or false
	// list contains the elements of an array.
	list []JSONValue
	// members is in the order of the text, with duplicates; the type determines which duplicate counts.
	members []JSONMember
}

// JSONMember is a name and its value in a JSON object. A name may occur several times.
type JSONMember struct {
	Name  string
	Value JSONValue
}

// jsonKind is the kind of a JSONValue.
type jsonKind uint8

const (
	jsonNull jsonKind = iota
	jsonBool
	jsonNumber
	jsonString
	jsonArray
	jsonObject
)

// IsNull reports whether the value is JSON's null.
func (v *JSONValue) IsNull() bool { return v.kind == jsonNull }

// Members returns the names and values of an object, in the order of the text. ok is false for other values. Callers
// must not modify the slice.
func (v *JSONValue) Members() (members []JSONMember, ok bool) {
	return v.members, v.kind == jsonObject
}

// CQLName returns the CQL name of the member: without its double quotes if it has them, otherwise in lower case.
// Doubled quotes inside are kept.
//
//	"Id"       is the name id
//	"\"Id\""   is the name Id
func (m *JSONMember) CQLName() string {
	if n := len(m.Name); n >= 2 && m.Name[0] == '"' && m.Name[n-1] == '"' {
		return m.Name[1 : n-1]
	}
	return strings.ToLower(m.Name)
}

// ParseJSON parses a text that consists of one JSON value. The error has Cassandra's beginning and this parser's
// reason. Objects and arrays may be nested nestingMax deep.
func ParseJSON(text []byte) (JSONValue, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	// Keep numbers as text; float64 would lose digits.
	d.UseNumber()
	v, err := parseJSON(d, 0)
	if err == nil {
		// Any further token is an error; only the end is expected.
		if _, err = d.Token(); err == nil {
			err = fmt.Errorf("text after the value")
		} else if errors.Is(err, io.EOF) {
			return v, nil
		}
	}
	return JSONValue{}, fmt.Errorf("Error decoding JSON string: %w", err)
}

// parseJSON parses the next value of d.
func parseJSON(d *json.Decoder, depth int) (JSONValue, error) {
	if depth > nestingMax {
		return JSONValue{}, fmt.Errorf("nested deeper than %d", nestingMax)
	}
	token, err := d.Token()
	// A value must follow, so the end of the text is an error.
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return JSONValue{}, err
	}
	switch token := token.(type) {
	case bool:
		return JSONValue{kind: jsonBool, text: strconv.FormatBool(token)}, nil
	case json.Number:
		return JSONValue{kind: jsonNumber, text: string(token)}, nil
	case string:
		return JSONValue{kind: jsonString, text: token}, nil
	case json.Delim:
		if token == '[' {
			// d has only opening delimiters here: More sees the closing ones.
			return parseJSONArray(d, depth)
		}
		return parseJSONObject(d, depth)
	}
	// null has a nil token.
	return JSONValue{}, nil
}

// parseJSONArray parses the rest of an array after its bracket.
func parseJSONArray(d *json.Decoder, depth int) (JSONValue, error) {
	v := JSONValue{kind: jsonArray}
	for d.More() {
		e, err := parseJSON(d, depth+1)
		if err != nil {
			return JSONValue{}, err
		}
		v.list = append(v.list, e)
	}
	_, err := d.Token() // the closing bracket
	return v, err
}

// parseJSONObject parses the rest of an object after its brace. Duplicate names are kept.
func parseJSONObject(d *json.Decoder, depth int) (JSONValue, error) {
	v := JSONValue{kind: jsonObject}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return JSONValue{}, err
		}
		e, err := parseJSON(d, depth+1)
		if err != nil {
			return JSONValue{}, err
		}
		v.members = append(v.members, JSONMember{Name: name.(string), Value: e}) // Token guarantees a string
	}
	_, err := d.Token()
	return v, err
}

// isWhole reports whether a number is written without point and exponent: Java's parser makes it an integer.
func (v *JSONValue) isWhole() bool {
	return v.kind == jsonNumber && isWholeNumber(v.text)
}

// class returns the Java class of the value for Cassandra's messages. Integers have the smallest class that can
// represent them.
func (v *JSONValue) class() string {
	switch v.kind {
	case jsonBool:
		return "Boolean"
	case jsonString:
		return "String"
	case jsonArray:
		return "ArrayList"
	case jsonObject:
		return "LinkedHashMap"
	// A number with a point or exponent is a Double, whatever its value.
	case jsonNumber:
		if !v.isWhole() {
			return "Double"
		}
		if _, err := strconv.ParseInt(v.text, 10, 32); err == nil {
			return "Integer"
		}
		if _, err := strconv.ParseInt(v.text, 10, 64); err == nil {
			return "Long"
		}
		return "BigInteger"
	}
	return "null"
}

// String returns the value as Cassandra's messages contain it, which is as Java prints it. It is not JSON: strings have
// no quotes, and members are name=value.
//
//	{"a": [1, "x"], "b": null}   becomes {a=[1, x], b=null}
func (v JSONValue) String() string {
	var b strings.Builder
	v.write(&b)
	return b.String()
}

// write appends String to b.
func (v *JSONValue) write(b *strings.Builder) {
	switch v.kind {
	case jsonNull:
		b.WriteString("null")
	case jsonArray:
		b.WriteByte('[')
		for i := range v.list {
			if i > 0 {
				b.WriteString(", ")
			}
			v.list[i].write(b)
		}
		b.WriteByte(']')
	case jsonObject:
		b.WriteByte('{')
		for i := range v.members {
			if i > 0 {
				b.WriteString(", ")
			}
			b.WriteString(v.members[i].Name + "=")
			v.members[i].Value.write(b)
		}
		b.WriteByte('}')
	case jsonNumber:
		if !v.isWhole() {
			// ParseFloat returns an infinity beyond the range, as Java does.
			f, _ := strconv.ParseFloat(v.text, 64)
			b.Write(appendFloatText(nil, f, 64))
			return
		}
		b.WriteString(v.text)
	// Booleans and strings.
	default:
		b.WriteString(v.text)
	}
}
