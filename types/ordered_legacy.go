package types

import (
	"strings"

	"cqld/internal/wire"
)

// The ordered form of a composite is, for each component, its ordered form, inverted if its order is reversed, and the
// byte that ends it, as a signed number; then bodyEnd. The components of a dynamic composite begin with the name of
// their class. After bodyEnd, it has a byte for each component: how the class is written. These bytes decide last, so
// that two forms of the same class sort by value.
const (
	formShort = 1 // the class without its package
	formLong  = 2 // the class; larger numbers are aliases

	signBit = 0x80 // maps signed bytes to the order of unsigned ones
)

// appendOrderedLegacy appends the body of a Custom type, or returns false for bytes that are not a value of the type.
// Values of unknown classes sort as bytes.
func appendOrderedLegacy(t *Type, dst, b []byte) ([]byte, bool) {
	switch legacyKindOf(t) {
	case lexicalUUID:
		const uuidBytes = 16
		if len(b) != uuidBytes {
			return dst, false
		}
		// Java compares the halves as signed numbers.
		return appendBE64(appendBE64(dst, be64(b)^1<<63), be64(b[8:])^1<<63), true
	case composite:
		return t.legacy.appendComposite(dst, b)
	case dynamicComposite:
		return t.legacy.appendDynamic(dst, b)
	}
	return appendEscaped(dst, b), true
}

// appendComposite appends the components of a composite. Missing components at the end are valid.
func (l *legacyType) appendComposite(dst, b []byte) ([]byte, bool) {
	c := wire.NewCursor(b)
	// Every component has at least three bytes, so the loop ends.
	for i := 0; c.Len() > 0; i++ {
		if i == len(l.components) {
			return dst, false
		}
		var ok bool
		if dst, ok = l.components[i].appendOrdered(dst, &c); !ok {
			return dst, false
		}
	}
	// Shorter composites sort first: bodyEnd is less than every tag, inverted or not.
	return append(dst, bodyEnd), true
}

// appendDynamic appends the components of a dynamic composite, and then the forms of their classes.
func (l *legacyType) appendDynamic(dst, b []byte) ([]byte, bool) {
	c := wire.NewCursor(b)
	var forms []byte
	for c.Len() > 0 {
		of, form, ok := l.comparator(&c)
		if !ok {
			return dst, false
		}
		// Append the forms at the end, so that values determine the order first.
		forms = append(forms, form)
		// Without the package, so that both forms of a class sort together.
		dst = appendEscaped(dst, []byte(strings.TrimPrefix(of.class(), marshalPackage)))
		if dst, ok = of.appendOrdered(dst, &c); !ok {
			return dst, false
		}
	}
	return append(append(dst, bodyEnd), forms...), true
}

// appendOrdered appends the next component of c: a length of 2 bytes, the value, and the byte that ends it.
func (of component) appendOrdered(dst []byte, c *wire.Cursor) ([]byte, bool) {
	// The value points into the composite; AppendOrdered copies it.
	v := c.Take(int(c.Uint16()))
	end := c.Uint8()
	if c.Err() != nil {
		return dst, false
	}
	// An empty component is the empty value, not null.
	if v == nil {
		v = []byte{}
	}
	return append(of.t.AppendOrdered(dst, v, of.reversed), end^signBit), true
}

// consumeLegacy appends the wire form of a body. It is the inverse of appendOrderedLegacy.
func consumeLegacy(t *Type, dst []byte, r *orderedReader) []byte {
	switch legacyKindOf(t) {
	case lexicalUUID:
		dst = appendBE64(dst, r.uint64()^1<<63)
		return appendBE64(dst, r.uint64()^1<<63)
	// Missing components at the end have no bytes in the wire form either.
	case composite:
		for i := 0; !r.end() && !r.bad; i++ {
			if i == len(t.legacy.components) {
				r.fail()
				return dst
			}
			dst = t.legacy.components[i].consume(dst, r)
		}
		return dst
	case dynamicComposite:
		return t.legacy.consumeDynamic(dst, r)
	}
	return r.escaped(dst)
}

// consumeDynamic appends a dynamic composite. The classes' forms come last, so that the values wait in memory.
func (l *legacyType) consumeDynamic(dst []byte, r *orderedReader) []byte {
	var classes []string
	var values [][]byte
	for !r.end() && !r.bad {
		// A class that the writer knew and this program does not is an error: its values cannot be decoded.
		class := string(r.escaped(nil))
		of, ok := componentOf(class)
		if !ok {
			r.fail()
			return dst
		}
		classes, values = append(classes, class), append(values, of.consume(nil, r))
	}
	// One form for each component.
	for i, class := range classes {
		switch form := r.byte(); form {
		case formLong:
			class = marshalPackage + class
			fallthrough
		case formShort:
			dst = append(wire.AppendUint16(dst, uint16(len(class))), class...)
		// Every other byte is an alias. Whether the type still has it does not matter for the wire form.
		default:
			dst = wire.AppendUint16(dst, aliasFlag|uint16(form))
		}
		dst = append(dst, values[i]...)
	}
	return dst
}

// consume appends the wire form of the next component. A component is never null, and shorter than 64 KiB.
func (of component) consume(dst []byte, r *orderedReader) []byte {
	start := len(dst)
	// A reversed component within a descending column is ascending again.
	if of.reversed {
		r.mask ^= 0xFF
	}
	// Space for the length, which is known afterwards.
	dst, null := consumeOrdered(of.t, append(dst, 0, 0), r)
	if of.reversed {
		r.mask ^= 0xFF
	}
	size := len(dst) - start - 2
	if null || size > 0xFFFF {
		r.fail()
		return dst
	}
	dst[start], dst[start+1] = byte(size>>8), byte(size)
	return append(dst, r.byte()^signBit)
}
