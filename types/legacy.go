package types

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"

	"cqld/internal/wire"
)

// legacyKind is a class of Cassandra that has no name in CQL. Tables from the time of Thrift have such types.
type legacyKind uint8

const (
	notLegacy        legacyKind = iota
	lexicalUUID                 // LexicalUUIDType: a UUID ordered as two signed numbers
	composite                   // CompositeType: components with types that the class names
	dynamicComposite            // DynamicCompositeType: components that name their types
)

// The class names without their package.
const (
	lexicalUUIDClass      = "LexicalUUIDType"
	compositeClass        = "CompositeType"
	dynamicCompositeClass = "DynamicCompositeType"
	emptyClass            = "EmptyType"
	frozenClass           = "FrozenType"
	reversedClass         = "ReversedType"
)

// legacyType contains the properties of a Custom type of a known class. It is immutable.
type legacyType struct {
	kind       legacyKind
	components []component        // components of a composite
	aliases    map[byte]component // aliases of a dynamic composite
}

// component is the type of a component of a composite. Its order may be reversed, its wire form never is.
type component struct {
	t *Type
	// reversed means ReversedType. It only affects the ordered form.
	reversed bool
}

// class returns the component's class, with ReversedType if its order is reversed. The names have their package.
func (c component) class() string {
	if c.reversed {
		return marshalPackage + reversedClass + "(" + c.t.MarshalClass() + ")"
	}
	return c.t.MarshalClass()
}

// newLegacy returns a Custom type. class has no package.
func newLegacy(class string, l *legacyType) *Type {
	t := NewCustom(marshalPackage + class)
	t.legacy = l
	return t
}

// newComposite returns a CompositeType. Its name is built from the components, so that equal types have equal names.
func newComposite(components []component) *Type {
	classes := make([]string, len(components))
	// With packages, however the class was written.
	for i, c := range components {
		classes[i] = c.class()
	}
	return newLegacy(compositeClass+"("+strings.Join(classes, ",")+")",
		&legacyType{kind: composite, components: components})
}

// newDynamicComposite returns a DynamicCompositeType. Aliases are sorted for the same reason.
func newDynamicComposite(aliases map[byte]component) *Type {
	var names []byte
	// The order of a map is random, and the name must not be.
	for name := range aliases {
		names = append(names, name)
	}
	slices.Sort(names)
	classes := make([]string, len(names))
	for i, name := range names {
		classes[i] = string(name) + "=>" + aliases[name].class()
	}
	return newLegacy(dynamicCompositeClass+"("+strings.Join(classes, ",")+")",
		&legacyType{kind: dynamicComposite, aliases: aliases})
}

// legacyKindOf returns the kind of a Custom type; notLegacy for classes that are not known.
func legacyKindOf(t *Type) legacyKind {
	if t.legacy == nil {
		return notLegacy
	}
	return t.legacy.kind
}

// hasDuration reports whether a component contains a duration. l may be nil. Aliases of a dynamic composite do not
// count.
func (l *legacyType) hasDuration() bool {
	return l != nil && slices.ContainsFunc(l.components, func(c component) bool { return c.t.HasDuration() })
}

// A dynamic composite's component begins with two bytes. With aliasFlag, the lower byte is an alias; otherwise they are
// the length of the name of a class. Names are therefore shorter than 32 KiB.
const aliasFlag = 0x8000

// comparator consumes the beginning of a component of a dynamic composite. form is how the type is written: the alias,
// formShort or formLong. ok is false for a class that is not known, or not written in one of these forms: the ordered
// form could not restore it.
//
//	80 61                  the alias a
//	00 08 "UTF8Type"       the class, without its package
func (l *legacyType) comparator(c *wire.Cursor) (of component, form byte, ok bool) {
	head := c.Uint16()
	if c.Err() != nil {
		return component{}, 0, false
	}
	if head&aliasFlag != 0 {
		of, ok = l.aliases[byte(head)]
		// Aliases up to formLong would be taken for the other forms.
		return of, byte(head), ok && byte(head) > formLong
	}
	name := string(c.Take(int(head)))
	if c.Err() != nil {
		return component{}, 0, false
	}
	of, ok = componentOf(name)
	// Other spellings of the class, such as additional spaces, could not be restored from the ordered form.
	switch {
	case !ok:
		return component{}, 0, false
	case name == of.class():
		return of, formLong, true
	case name == strings.TrimPrefix(of.class(), marshalPackage):
		return of, formShort, true
	}
	return component{}, 0, false
}

// componentOf parses the class of a component, which must be known. The whole text must be the class.
func componentOf(class string) (component, bool) {
	// The type of a component is parsed as in a statement, with frozen types in vectors.
	p := &classParser{text: class, freeze: true}
	c := p.component(0)
	p.space()
	if p.err != nil || p.at < len(p.text) || c.t.Unknown() {
		return component{}, false
	}
	return c, true
}

// Unknown reports whether t, or a part of it, is a class that is neither a CQL type nor one of Cassandra's legacy
// types. Values of such a type are not checked, and sort as bytes.
func (t *Type) Unknown() bool {
	// Empty has no legacyType, and is known.
	if t.kind == Custom && t.legacy == nil && !t.IsEmpty() {
		return true
	}
	if t.legacy != nil && slices.ContainsFunc(t.legacy.components, func(c component) bool { return c.t.Unknown() }) {
		return true
	}
	if t.legacy != nil {
		for _, c := range t.legacy.aliases {
			if c.t.Unknown() {
				return true
			}
		}
	}
	return slices.ContainsFunc(t.elems, (*Type).Unknown)
}

// validateLegacy checks the length of values as Cassandra does. It does not check components, because Cassandra also
// stores values that are not composites. The caller has accepted null and, where it is allowed, the empty value.
func validateLegacy(t *Type, b []byte) error {
	const uuidBytes = 16
	switch {
	case t.IsEmpty() && len(b) > 0:
		return malformed(t, "EmptyType only accept empty values; received %x", b)
	case legacyKindOf(t) == lexicalUUID && len(b) != uuidBytes:
		return malformed(t, "LexicalUUID should be 16 or 0 bytes (%d)", len(b))
	}
	return nil
}

// legacyFromHex returns the value that a constant such as 0x00 contains. The error is a *ValueError.
func legacyFromHex(t *Type, text string) ([]byte, error) {
	b, err := Native(Blob).FromText(text)
	// No bytes are the empty value, which all Custom types allow.
	if err == nil && len(b) > 0 {
		err = validateLegacy(t, b)
	}
	if err != nil {
		return nil, &ValueError{Type: t, Reason: err.Error()}
	}
	return b, nil
}

// legacyFromText parses a constant as Cassandra's classes do, with their error messages. Types without a text form
// reject all texts but the empty one.
func legacyFromText(t *Type, text string) ([]byte, error) {
	if text == "" {
		return []byte{}, nil
	}
	// Empty and unknown classes match no case.
	switch legacyKindOf(t) {
	case lexicalUUID:
		b, err := Native(UUID).FromText(text)
		if err != nil {
			return nil, &ValueError{Type: t, Reason: fmt.Sprintf("unable to make UUID from '%s'", text)}
		}
		return b, nil
	case composite:
		return compositeFromText(t, splitFields(text))
	case dynamicComposite:
		return dynamicFromText(t, splitFields(text))
	}
	return nil, &ValueError{Type: t, Reason: fmt.Sprintf("Unable to make %s from '%s'", t, text)}
}

// compositeFromText builds a composite from its components in text form. Fewer components than the type has are valid.
func compositeFromText(t *Type, fields []string) (b []byte, err error) {
	if len(fields) > len(t.legacy.components) {
		return nil, &ValueError{Type: t, Reason: fmt.Sprintf("Invalid composite: %s has %d components, not %d", t,
			len(t.legacy.components), len(fields))}
	}
	for i, f := range fields {
		if b, err = t.legacy.components[i].fromText(t, b, f); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// dynamicFromText builds a dynamic composite. Each field is alias@value or class@value.
//
//	a@1:UTF8Type@x   is the alias a with 1, then the class UTF8Type with x
func dynamicFromText(t *Type, fields []string) (b []byte, err error) {
	for _, f := range fields {
		name, value, _ := strings.Cut(f, "@")
		var of component
		ok := false
		// A name of one character is an alias if the type has it; otherwise it can only be a class.
		if len(name) == 1 {
			of, ok = t.legacy.aliases[name[0]]
		}
		if ok {
			b = wire.AppendUint16(b, aliasFlag|uint16(name[0]))
		} else if of, ok = componentOf(name); ok && len(name) < aliasFlag {
			b = append(wire.AppendUint16(b, uint16(len(name))), name...)
		} else {
			return nil, &ValueError{Type: t, Reason: fmt.Sprintf("Unable to find abstract-type class '%s'",
				marshalPackage+name)}
		}
		if b, err = of.fromText(t, b, value); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// fromText parses a field and appends it as a component of t. The length has two bytes.
func (c component) fromText(t *Type, b []byte, field string) ([]byte, error) {
	v, err := c.t.FromText(unescapeField(field))
	if err != nil {
		return nil, err
	}
	if len(v) > math.MaxUint16 {
		return nil, invalid(t, "Length %d > max length %d", len(v), math.MaxUint16)
	}
	// Each component ends with the byte 0: the value is not a bound of a slice.
	return appendComponent(b, v), nil
}

// unescapeField returns a field of a composite's text without its backslashes. Only colons and at signs are escaped.
func unescapeField(f string) string { return strings.NewReplacer(`\:`, ":", `\@`, "@").Replace(f) }

// appendComponent appends a component's value, and the byte that ends it.
func appendComponent(b, v []byte) []byte {
	return append(append(wire.AppendUint16(b, uint16(len(v))), v...), 0)
}

// compareLegacy compares values by their ordered forms. It allocates them: these types are rare.
func compareLegacy(t *Type, a, b []byte) int {
	return bytes.Compare(appendOrdered(t, nil, a), appendOrdered(t, nil, b))
}

// legacyFromJSON accepts the text of a constant, and, for composites, the form of a blob, in which AppendJSON writes
// them. A UUID that begins with 0x does not exist.
func legacyFromJSON(t *Type, v *JSONValue) ([]byte, error) {
	switch {
	case v.kind != jsonString:
		return nil, expected(t, "a string", v)
	// Values that FromText cannot express are written as blobs.
	case legacyKindOf(t) != lexicalUUID && strings.HasPrefix(v.text, "0x"):
		return legacyFromHex(t, v.text)
	case t.IsEmpty() && v.text == "":
		return []byte{}, nil
	}
	return legacyFromText(t, v.text)
}
