package definition

import (
	"slices"
	"strings"

	"cqld/cql"
	"cqld/internal/javanumber"
)

// properties reads the properties of a WITH clause. As in Cassandra, its errors are syntax errors. For an absent
// property, methods return a default or false.
type properties struct{ of cql.Properties }

// newProperties returns an error for unknown names.
func newProperties(of cql.Properties, known ...string) (properties, error) {
	// Reports the first unknown name in the order of the statement. The parser refuses duplicates.
	for _, p := range of {
		if !slices.Contains(known, p.Name) {
			return properties{}, syntaxf("Unknown property '%s'", p.Name)
		}
	}
	return properties{of}, nil
}

// has reports whether the property is present.
func (p properties) has(name string) bool {
	_, ok := p.of.Get(name)
	return ok
}

// text returns the value of a property; ok is false if it is absent. Any literal is accepted; numbers and booleans are
// returned as text.
//
//	'a'      "a"       1.5    "1.5"
//	true     "true"    {}     an error
func (p properties) text(name string) (value string, ok bool, err error) {
	t, ok := p.of.Get(name)
	if !ok {
		return "", false, nil
	}
	// Maps, sets and function calls are not literals.
	l, isLiteral := t.(*cql.Literal)
	if !isLiteral {
		return "", true, syntaxf("Invalid value for property '%s'. It should be a string", name)
	}
	return l.Text, true, nil
}

// boolean returns a boolean property, or otherwise if it is absent. It accepts Cassandra's spellings.
func (p properties) boolean(name string, otherwise bool) (bool, error) {
	text, ok, err := p.text(name)
	if err != nil || !ok {
		return otherwise, err
	}
	// Numbers are literals, too, so 1 and 0 are accepted without quotes.
	switch strings.ToLower(text) {
	case "1", "true", "yes":
		return true, nil
	case "0", "false", "no":
		return false, nil
	}
	return false, syntaxf("Invalid boolean value %s for '%s'. Positive values can be '1', 'true' or 'yes'. "+
		"Negative values can be '0', 'false' or 'no'.", text, name)
}

// integer returns a 32-bit integer property in Java's syntax, or otherwise if it is absent.
func (p properties) integer(name string, otherwise int32) (int32, error) {
	text, ok, err := p.text(name)
	if err != nil || !ok {
		return otherwise, err
	}
	n, err := javanumber.ParseInt(text, 32)
	if err != nil {
		return 0, syntaxf("Invalid integer value %s for '%s'", text, name)
	}
	return int32(n), nil
}

// double returns a floating-point property in Java's syntax, or otherwise if it is absent.
func (p properties) double(name string, otherwise float64) (float64, error) {
	text, ok, err := p.text(name)
	if err != nil || !ok {
		return otherwise, err
	}
	f, err := javanumber.ParseDouble(text)
	if err != nil {
		return 0, syntaxf("Invalid double value %s for '%s'", text, name)
	}
	return f, nil
}

// stringMap returns the value of a property that is a map; ok is false if it is absent. The caller owns the map. Keys
// and values may be any literals, and are returned as text.
//
//	{'a': 1, 'b': true}   becomes {a: 1, b: true}, all strings
//	{}                    the empty map
//	'a', {'a'}            errors
func (p properties) stringMap(name string) (m map[string]string, ok bool, err error) {
	t, ok := p.of.Get(name)
	if !ok {
		return nil, false, nil
	}
	m = map[string]string{}
	// The parser cannot know whether {} is a map or a set.
	switch t := t.(type) {
	case *cql.MapLiteral:
		for _, e := range t.Entries {
			key, isKey := e.Key.(*cql.Literal)
			value, isValue := e.Value.(*cql.Literal)
			if !isKey || !isValue {
				return nil, true, syntaxf("Invalid value for property '%s'. It should be a map.", name)
			}
			m[key.Text] = value.Text
		}
		return m, true, nil
	case *cql.SetLiteral:
		if len(t.Elements) == 0 { // {} is an empty map or an empty set
			return m, true, nil
		}
	}
	return nil, true, syntaxf("Invalid value for property '%s'. It should be a map.", name)
}
