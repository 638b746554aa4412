package term

import (
	"slices"

	"cqld/cql"
	"cqld/internal/wire"
	"cqld/query/function"
	"cqld/query/invalid"
	"cqld/types"
)

// fits returns an error unless a term matches a type: the error of a list literal within the term, or mismatch.
// mismatch is a function, because its message is expensive and rarely needed.
func (c *Compiler) fits(t cql.Term, to *types.Type, mismatch func() error) error {
	// Discard the mismatch of an earlier term.
	c.mismatch = nil
	match := (&termArg{c, t}).Match(to)
	if c.mismatch == nil && match == function.NoMatch {
		return mismatch()
	}
	return c.mismatch
}

// fitsElement checks an element of a collection literal. All elements are checked before one is compiled. what is the
// kind of literal and word the kind of part, for the message. part is the receiver of the element, and of the
// receiver of the collection.
func (c *Compiler) fitsElement(what string, t cql.Term, part Spec, of Spec, word string) error {
	return c.fits(t, part.Type, func() error {
		return invalid.Errorf("Invalid %s literal for %s: %s %s is not of type %s", what, of.Name, word, Text(t),
			part.Type)
	})
}

// element compiles an element of a collection literal. Cassandra does not allow markers in a collection literal, except
// in a vector.
func (c *Compiler) element(what string, t cql.Term, part Spec, of Spec) (Term, error) {
	compiled, err := c.Term(t, part)
	// Check after the compilation, so that other errors of the element come first.
	if err == nil && HasMarker(t) {
		err = invalid.Errorf("Invalid %s literal for %s: bind variables are not supported inside collection literals",
			what, of.Name)
	}
	return compiled, err
}

// elements compiles the elements of a list or set literal. All are checked before one is compiled, so that the error of
// the first mismatch is returned.
func (c *Compiler) elements(what string, kind partsKind, in []cql.Term, receiver Spec) (Term, error) {
	// Cassandra's name of an element in the metadata.
	part := c.Receiver("value("+receiver.Name+")", receiver.Type.Elems()[0])
	for _, e := range in {
		if err := c.fitsElement(what, e, part, receiver, "value"); err != nil {
			return nil, err
		}
	}
	terms := make([]Term, len(in))
	for i, e := range in {
		var err error
		if terms[i], err = c.element(what, e, part, receiver); err != nil {
			return nil, err
		}
	}
	return fold(&partsTerm{kind, receiver.Type, terms}, terms)
}

// listLiteral compiles [a, b] for a list or a vector.
func (c *Compiler) listLiteral(t *cql.ListLiteral, receiver Spec) (Term, error) {
	switch receiver.Type.Kind() {
	case types.List:
		return c.elements("list", partsList, t.Elements, receiver)
	case types.Vector:
		// The number of elements is part of a vector's type.
		if len(t.Elements) != receiver.Type.Dimensions() {
			return nil, invalid.Errorf("Invalid vector literal for %s of type %s; expected %d elements, but given %d",
				receiver.Name, receiver.Type, receiver.Type.Dimensions(), len(t.Elements))
		}
		return c.vectorLiteral(t, receiver)
	}
	return nil, unexpectedReceiver(receiver.Type)
}

// unexpectedReceiver is the error of a list literal that is compiled, or matched, with a type other than a list or
// vector.
func unexpectedReceiver(t *types.Type) error {
	return invalid.Errorf("Unexpected receiver type '%s'; only list and vector are expected", t)
}

// vectorLiteral compiles the elements of a vector, which may be bind markers.
func (c *Compiler) vectorLiteral(t *cql.ListLiteral, receiver Spec) (Term, error) {
	// Elements of vectors have the name of the vector.
	part := c.Receiver(receiver.Name, receiver.Type.Elems()[0])
	terms := make([]Term, len(t.Elements))
	for _, e := range t.Elements {
		if err := c.fitsElement("vector", e, part, receiver, "value"); err != nil {
			return nil, err
		}
	}
	for i, e := range t.Elements {
		var err error
		if terms[i], err = c.Term(e, part); err != nil {
			return nil, err
		}
	}
	return fold(&partsTerm{partsVector, receiver.Type, terms}, terms)
}

// setLiteral compiles {a, b}; {} may be a set or an empty map. Duplicates are removed when the value is built.
func (c *Compiler) setLiteral(t *cql.SetLiteral, receiver Spec) (Term, error) {
	if receiver.Type.Kind() == types.Map && len(t.Elements) == 0 {
		// A collection of no elements.
		return &constTerm{wire.BytesValue(wire.AppendInt32(nil, 0))}, nil
	}
	if receiver.Type.Kind() != types.Set {
		return nil, invalid.Errorf("Invalid set literal for %s of type %s", receiver.Name, receiver.Type)
	}
	return c.elements("set", partsSet, t.Elements, receiver)
}

// mapLiteral compiles {k: v}. The receivers of keys and values have Cassandra's names.
func (c *Compiler) mapLiteral(t *cql.MapLiteral, receiver Spec) (Term, error) {
	if receiver.Type.Kind() != types.Map {
		return nil, invalid.Errorf("Invalid map literal for %s of type %s", receiver.Name, receiver.Type)
	}
	key := c.Receiver("key("+receiver.Name+")", receiver.Type.Elems()[0])
	value := c.Receiver("value("+receiver.Name+")", receiver.Type.Elems()[1])
	for _, e := range t.Entries {
		if err := c.fitsElement("map", e.Key, key, receiver, "key"); err != nil {
			return nil, err
		}
		if err := c.fitsElement("map", e.Value, value, receiver, "value"); err != nil {
			return nil, err
		}
	}
	// Keys and values alternate, as partsMap expects.
	var terms []Term
	for _, e := range t.Entries {
		k, err := c.element("map", e.Key, key, receiver)
		if err != nil {
			return nil, err
		}
		v, err := c.element("map", e.Value, value, receiver)
		if err != nil {
			return nil, err
		}
		terms = append(terms, k, v)
	}
	return fold(&partsTerm{partsMap, receiver.Type, terms}, terms)
}

// udtLiteral compiles {name: value}. Fields that are not written are null. If a name occurs twice, the first value
// counts.
func (c *Compiler) udtLiteral(t *cql.UDTLiteral, receiver Spec) (Term, error) {
	if receiver.Type.Kind() != types.UDT {
		return nil, invalid.Errorf("Invalid user type literal for %s of type %s", receiver.Name, receiver.Type)
	}
	names := receiver.Type.FieldNames()
	written := make([]cql.Term, len(names)) // in the order of the type's fields
	unknown := ""
	// Iterate backward, so that the first of several unknown or repeated names remains.
	for _, f := range slices.Backward(t.Fields) {
		if i := slices.Index(names, f.Name); i < 0 {
			unknown = f.Name
		} else {
			written[i] = f.Value
		}
	}
	for i, name := range names {
		if written[i] == nil {
			continue
		}
		typ := receiver.Type.Elems()[i]
		if err := c.fits(written[i], typ, func() error {
			return invalid.Errorf("Invalid user type literal for %s: field %s is not of type %s", receiver.Name, name,
				typ)
		}); err != nil {
			return nil, err
		}
	}
	terms := make([]Term, len(names))
	for i, name := range names {
		if written[i] == nil {
			continue
		}
		var err error
		part := c.Receiver(receiver.Name+"."+name, receiver.Type.Elems()[i])
		if terms[i], err = c.Term(written[i], part); err != nil {
			return nil, err
		}
	}
	// Report an unknown field last, after errors in the values of known fields.
	if unknown != "" {
		return nil, invalid.Errorf("Unknown field '%s' in value of user defined type %s", unknown,
			receiver.Type.UDTName())
	}
	return fold(&partsTerm{partsFields, receiver.Type, terms}, terms)
}

// tupleLiteral compiles a tuple, which is also a value of a user-defined type with such fields. Elements that are
// missing at the end are null. One element in parentheses is the element itself for other types.
func (c *Compiler) tupleLiteral(t *cql.TupleLiteral, receiver Spec) (Term, error) {
	if k := receiver.Type.Kind(); k != types.Tuple && k != types.UDT {
		if len(t.Elements) == 1 {
			return c.Term(t.Elements[0], receiver)
		}
		return nil, invalid.Errorf("Invalid tuple type literal for %s of type %s", receiver.Name, receiver.Type)
	}
	elems := receiver.Type.Elems()
	if len(t.Elements) > len(elems) {
		return nil, invalid.Errorf("Invalid tuple literal for %s: too many elements. Type %s expects %d but got %d",
			receiver.Name, receiver.Type, len(elems), len(t.Elements))
	}
	for i, e := range t.Elements {
		if err := c.fits(e, elems[i], func() error {
			return invalid.Errorf("Invalid tuple literal for %s: component %d is not of type %s", receiver.Name, i,
				elems[i])
		}); err != nil {
			return nil, err
		}
	}
	terms := make([]Term, len(t.Elements))
	for i, e := range t.Elements {
		var err error
		if terms[i], err = c.Term(e, c.Receiver(receiver.Name+"["+itoa(i)+"]", elems[i])); err != nil {
			return nil, err
		}
	}
	return fold(&partsTerm{partsTuple, receiver.Type, terms}, terms)
}

// CountElements returns the number of elements of a list or set without splitting it, and 0 for bytes that are neither.
func CountElements(b []byte) int {
	c := wire.NewCursor(b)
	return c.IntCount(4)
}

// SplitCollection returns the parts of a list, set or map; nil for bytes that are not a collection. perEntry is 1 for a
// list or set, and 2 for a map. The parts share the memory of b; nil is a null part. The wire form is a count of 4
// bytes, and each part after its length of 4 bytes.
func SplitCollection(b []byte, perEntry int) [][]byte {
	if len(b) == 0 {
		return nil
	}
	c := wire.NewCursor(b)
	// IntCount bounds the count by the remaining bytes, so a forged count does not cause a large allocation.
	n := c.IntCount(4 * perEntry)
	parts := make([][]byte, 0, n*perEntry)
	for range n * perEntry {
		v := c.Bytes()
		if c.Err() != nil {
			return nil
		}
		parts = append(parts, v)
	}
	return parts
}

// SplitFields returns the fields of a tuple or user-defined type, as many as the type has; missing fields are null.
// They share the memory of b. Bytes after the last field are ignored. A tuple of an older definition of the type has
// fewer fields.
func SplitFields(b []byte, t *types.Type) [][]byte {
	c := wire.NewCursor(b)
	parts := make([][]byte, len(t.Elems()))
	for i := range parts {
		if c.Len() == 0 {
			break
		}
		parts[i] = c.Bytes()
	}
	return parts
}
