package types

import (
	"slices"

	"cqld/internal/wire"
)

// Parts iterates over the parts of a value without allocating: the elements of a list, set or vector, the keys and
// values of a map alternately, or the fields present in a tuple or UDT.
//
//	for p := t.Parts(v); p.Next(); {
//		use(p.Index(), p.Type(), p.Bytes())
//	}
//
// It stops at bytes that are not a value of the type; Err then returns an error. It checks neither the parts nor bytes
// after the last one: Validate does. The collections of the native protocol v3 and later begin with a count of 4 bytes,
// and each element has a length of 4 bytes. Vectors have neither.
type Parts struct {
	t *Type
	c wire.Cursor
	// n is the number of parts; twice the number of entries for a map.
	n int
	// i is the index of the current part; -1 before the first Next.
	i int
	// bytes is the current part, which points into the value.
	bytes []byte
}

// Parts starts an iteration over b. The returned slices point into b. Null and empty have no parts. Values of types
// without parts have none.
func (t *Type) Parts(b []byte) Parts {
	p := Parts{t: t, c: wire.NewCursor(b), n: len(t.elems), i: -1}
	// n is the number of fields of a tuple or UDT here, and the factor 1 or 2 for the count of a collection.
	switch {
	case len(b) == 0:
		p.n = 0
	case t.kind.IsCollection():
		// IntCount bounds the count by the remaining bytes, since each element has at least its length.
		p.n *= p.c.IntCount(4 * p.n)
	case t.kind == Vector:
		p.n = t.dims
	}
	return p
}

// Next advances to the next part and reports whether there is one.
func (p *Parts) Next() bool {
	// A failure of the cursor is sticky, so a malformed value ends the iteration.
	if p.i+1 >= p.n || p.c.Err() != nil {
		return false
	}
	switch p.t.kind {
	case Vector:
		p.bytes = vectorElement(p.t, &p.c)
	case Tuple, UDT:
		// Fields may be missing at the end: the value was written before they were added.
		if p.c.Len() == 0 {
			return false
		}
		p.bytes = p.c.Bytes()
	default:
		p.bytes = p.c.Bytes()
	}
	p.i++
	return p.c.Err() == nil
}

// Len returns the number of parts; for a tuple or UDT, the maximum number. It is the count in the value, which may
// exceed the parts that Next returns if the bytes are malformed.
func (p *Parts) Len() int { return p.n }

// Index returns the index of the current part, from 0.
func (p *Parts) Index() int { return p.i }

// Bytes returns the part's wire form. nil is null, which is possible only for fields. The slice points into the value.
func (p *Parts) Bytes() []byte { return p.bytes }

// Type returns the part's type.
func (p *Parts) Type() *Type { return partType(p.t, p.i) }

// Err returns an error if the value ended before its last part. The error is a *MalformedError. It is nil for missing
// fields.
func (p *Parts) Err() error {
	if p.c.Err() != nil {
		return malformed(p.t, "Not enough bytes to read a %s", p.t)
	}
	return nil
}

// partType returns the type of the i-th part. i must be in range.
func partType(t *Type, i int) *Type {
	switch t.kind {
	case Map:
		return t.elems[i%2]
	case Tuple, UDT:
		return t.elems[i]
	}
	return t.elems[0]
}

// Len returns the number of elements, entries or fields of a value. For a tuple or UDT it is the number of fields of
// the type.
func (t *Type) Len(b []byte) int {
	p := t.Parts(b)
	if t.kind == Map {
		return p.n / 2
	}
	return p.n
}

// At returns the i-th element of a list or vector, or field of a tuple or UDT. ok is false if there is none. A null
// field is nil with ok true, and so is a field that is missing at the end. It takes time in proportion to i.
func (t *Type) At(b []byte, i int) (part []byte, ok bool) {
	// A negative index is out of range; it is not counted from the end.
	if i < 0 {
		return nil, false
	}
	for p := t.Parts(b); p.Next(); {
		if p.Index() == i {
			return p.Bytes(), true
		}
	}
	return nil, (t.kind == Tuple || t.kind == UDT) && i < len(t.elems)
}

// FieldIndex returns the index of the UDT field with this name, or -1. Its time does not depend on the number of
// fields.
func (t *Type) FieldIndex(name string) int {
	if t.fieldAt == nil {
		return slices.Index(t.fields, name)
	}
	if i, ok := t.fieldAt[name]; ok {
		return i
	}
	return -1
}

// fieldsScanned is the number of fields up to which FieldIndex searches linearly.
const fieldsScanned = 16

// newFieldIndex returns the positions of field names, of the first of equal ones, or nil for few fields.
func newFieldIndex(fields []string) map[string]int {
	if len(fields) <= fieldsScanned {
		return nil
	}
	at := make(map[string]int, len(fields))
	for i, name := range slices.Backward(fields) {
		at[name] = i
	}
	return at
}

// Lookup finds key in a map and returns its value, or in a set and returns the element. Keys are compared as values of
// their type, not as bytes. It reads all entries: values from clients need not be sorted.
func (t *Type) Lookup(b, key []byte) (value []byte, ok bool) {
	// The first element with the key is returned. Values that passed Normalize have one at most.
	for p := t.Parts(b); p.Next(); {
		if t.elems[0].Compare(p.Bytes(), key) != 0 {
			// The value of a key that does not match.
			if t.kind == Map {
				p.Next()
			}
			continue
		}
		if t.kind == Map {
			p.Next()
		}
		return p.Bytes(), p.Err() == nil
	}
	return nil, false
}

// Contains reports whether a list or set contains the element, or a map contains the value. Elements are compared as
// values of their type.
func (t *Type) Contains(b, element []byte) bool {
	for p := t.Parts(b); p.Next(); {
		// After p.Next the part is the value of the entry.
		if t.kind == Map && !p.Next() {
			break
		}
		if p.Type().Compare(p.Bytes(), element) == 0 {
			return true
		}
	}
	return false
}

// AppendParts builds a value from parts, in the form that Parts returns them, and appends it. It sorts the elements
// of a set and the entries of a map in the type's order; of equal ones, it keeps the last of a map and the first of a
// set. It sorts parts in place. Parts themselves are copied, and not validated. The error is a *MalformedError: a
// null in a collection or vector, or a number of parts that the type does not allow.
func (t *Type) AppendParts(dst []byte, parts [][]byte) ([]byte, error) {
	// Parts of a tuple or UDT keep their order and may be null; a nil part becomes the length -1.
	switch t.kind {
	// Fewer parts than fields are valid.
	case Tuple, UDT:
		if len(parts) > len(t.elems) {
			return nil, malformed(t, "Expected %d elements for %s but got %d", len(t.elems), t, len(parts))
		}
		// Only fields may be null: the wire form of a collection has no element without a length.
		for _, p := range parts {
			dst = wire.AppendBytes(dst, p)
		}
		return dst, nil
	case Vector:
		return appendVector(t, dst, parts)
	case Map:
		if len(parts)%2 != 0 {
			return nil, malformed(t, "A map has a value for each key")
		}
	}
	for _, p := range parts {
		if p == nil {
			return nil, malformed(t, "null is not supported inside collections")
		}
	}
	return appendCollection(t, dst, parts), nil
}

// AppendSelected is AppendParts for a value that is only returned to a client: the elements of a list, and the values
// of a map, may be null. Other code does not accept such a value.
func AppendSelected(t *Type, dst []byte, parts [][]byte) ([]byte, error) {
	switch {
	case t.kind == List:
		return appendCollection(t, dst, parts), nil
	case t.kind != Map || len(parts)%2 != 0:
		return t.AppendParts(dst, parts)
	}
	for i := 0; i < len(parts); i += 2 {
		if parts[i] == nil {
			return nil, malformed(t, "null is not supported inside collections")
		}
	}
	return appendCollection(t, dst, parts), nil
}

// appendCollection appends a list, set or map, after it has sorted its parts. A nil part becomes the length -1.
func appendCollection(t *Type, dst []byte, parts [][]byte) []byte {
	switch t.kind {
	case Set:
		parts = sortSet(t, parts)
	case Map:
		parts = sortMap(t, parts)
	}
	// A map has two parts for each entry.
	dst = appendBE32(dst, uint32(len(parts)/len(t.elems)))
	for _, p := range parts {
		dst = wire.AppendBytes(dst, p)
	}
	return dst
}

// appendVector appends the elements without a count. Elements of variable length begin with their length as a vint.
func appendVector(t *Type, dst []byte, parts [][]byte) ([]byte, error) {
	if len(parts) != t.dims {
		return nil, malformed(t, "Invalid vector: expected %d elements, but given %d", t.dims, len(parts))
	}
	// Zero means that each element is preceded by its own length.
	size := t.elems[0].FixedLength()
	for _, p := range parts {
		switch {
		case p == nil:
			return nil, malformed(t, "null is not supported inside vectors")
		case size == 0:
			dst = wire.AppendUnsignedVint(dst, uint64(len(p)))
		case len(p) != size:
			return nil, malformed(t, "Not enough bytes to read a %s", t)
		}
		dst = append(dst, p...)
	}
	return dst, nil
}

// sortSet sorts and removes equal elements, in place.
func sortSet(t *Type, parts [][]byte) [][]byte {
	// Stable: the first one written of several equal elements with different bytes stays.
	slices.SortStableFunc(parts, t.elems[0].Compare)
	return slices.CompactFunc(parts, func(a, b []byte) bool { return t.elems[0].Compare(a, b) == 0 })
}

// sortMap sorts entries by key, in place; of equal keys it keeps the last, as a map literal does.
func sortMap(t *Type, parts [][]byte) [][]byte {
	entries := make([][2][]byte, 0, len(parts)/2)
	for i := 0; i < len(parts); i += 2 {
		entries = append(entries, [2][]byte{parts[i], parts[i+1]})
	}
	// Stable, so that the last of equal keys is the last one written.
	slices.SortStableFunc(entries, func(a, b [2][]byte) int { return t.elems[0].Compare(a[0], b[0]) })
	// entries contains copies of the slice headers, so parts may be overwritten.
	kept := parts[:0]
	for i, e := range entries {
		if i+1 < len(entries) && t.elems[0].Compare(e[0], entries[i+1][0]) == 0 {
			continue
		}
		kept = append(kept, e[0], e[1])
	}
	return kept
}

// Normalize returns a valid value in which the elements of all sets and the entries of all maps are sorted and unique,
// which values from clients need not be. It returns b itself if it is normalized, which is the usual case and allocates
// nothing.
//
//	set {2, 1, 2}       becomes {1, 2}
//	map {b: 1, a: 2}    becomes {a: 2, b: 1}
//	list [2, 1, 2]      stays, except for sets and maps in it
func (t *Type) Normalize(b []byte) []byte {
	if len(b) == 0 || !hasSorted(t) || isNormal(t, b) {
		return b
	}
	var parts [][]byte
	// Parts are normalized first: their order among each other is the order of their normal forms.
	for p := t.Parts(b); p.Next(); {
		parts = append(parts, p.Type().Normalize(p.Bytes()))
	}
	normal, err := t.AppendParts(make([]byte, 0, len(b)), parts)
	if err != nil {
		return b // not a valid value
	}
	return normal
}

// hasSorted reports whether t is or contains a set or map.
func hasSorted(t *Type) bool {
	if t.kind == Set || t.kind == Map {
		return true
	}
	return slices.ContainsFunc(t.elems, hasSorted)
}

// isNormal reports whether all sets and maps in b, a value of t, are sorted and unique.
func isNormal(t *Type, b []byte) bool {
	var last []byte
	for p := t.Parts(b); p.Next(); {
		v := p.Bytes()
		part := p.Type()
		// Only values with sorted parts are looked into.
		if len(part.elems) > 0 && len(v) > 0 && hasSorted(part) && !isNormal(part, v) {
			return false
		}
		// Strictly ascending means sorted and without equal elements.
		if t.kind == Set || t.kind == Map && p.Index()%2 == 0 {
			if last != nil && part.Compare(last, v) >= 0 {
				return false
			}
			last = v
		}
	}
	return true
}
