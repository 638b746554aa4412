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

// JSONValue is a parsed JSON value. It keeps the text of numbers and the order of members. The zero JSONValue is null.
type JSONValue struct {
	kind    jsonKind
	text    string // number or string
	list    []JSONValue
	members []JSONMember
}

// JSONMember is a name and its value in a JSON object.
type JSONMember struct {
	Name  string
	Value JSONValue
}

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

// Members returns the names and values of an object. ok is false for other values.
func (v *JSONValue) Members() (members []JSONMember, ok bool) {
	return v.members, v.kind == jsonObject
}

// CQLName returns the CQL name of the member: without its double quotes if it has them, otherwise in lower case.
func (m *JSONMember) CQLName() string {
	if n := len(m.Name); n >= 2 && m.Name[0] == '"' && m.Name[n-1] == '"' {
		return m.Name[1 : n-1]
	}
	return strings.ToLower(m.Name)
}

// ParseJSON parses a text that consists of one JSON value.
func ParseJSON(text []byte) (JSONValue, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	v, err := parseJSON(d, 0)
	if err == nil {
		if _, err = d.Token(); err == nil {
			err = fmt.Errorf("text after the value")
		} else if errors.Is(err, io.EOF) {
			return v, nil
		}
	}
	return JSONValue{}, fmt.Errorf("Error decoding JSON string: %w", err)
}

func parseJSON(d *json.Decoder, depth int) (JSONValue, error) {
	if depth > nestingMax {
		return JSONValue{}, fmt.Errorf("nested deeper than %d", nestingMax)
	}
	token, err := d.Token()
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
			return parseJSONArray(d, depth)
		}
		return parseJSONObject(d, depth)
	}
	return JSONValue{}, nil
}

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

// isWhole reports whether a number is written without point and exponent.
func (v *JSONValue) isWhole() bool {
	return v.kind == jsonNumber && isWholeNumber(v.text)
}

// class returns Java's class of the value, as Cassandra's messages name it.
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

// String returns the value as Cassandra's messages contain it, which is as Java prints it.
func (v JSONValue) String() string {
	var b strings.Builder
	v.write(&b)
	return b.String()
}

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
			f, _ := strconv.ParseFloat(v.text, 64)
			b.Write(appendFloatText(nil, f, 64))
			return
		}
		b.WriteString(v.text)
	default:
		b.WriteString(v.text)
	}
}
