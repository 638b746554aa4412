package types

import "cqld/internal/wire"

// appendOrderedCollection appends the elements, or alternating keys and values, and the end. It returns false for bytes
// that are not a collection. Elements are encoded in the order of the value: Normalize has sorted sets and maps.
func appendOrderedCollection(t *Type, dst, b []byte) ([]byte, bool) {
	c := wire.NewCursor(b)
	// The count is bounded by the bytes that are there.
	n := c.IntCount(4 * len(t.elems))
	for range n {
		// One type for a list or set, two for a map.
		for _, e := range t.elems {
			v := c.Bytes()
			// The caller cuts off what was appended.
			if c.Err() != nil {
				return dst, false
			}
			dst = appendOrdered(e, dst, v)
		}
	}
	// Bytes after the last element make the value malformed.
	return append(dst, bodyEnd), c.Finish() == nil
}

// consumeOrderedCollection appends the wire form. The number of elements is only known at the end, so its place is
// filled afterwards.
func consumeOrderedCollection(t *Type, dst []byte, r *orderedReader) []byte {
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	n := uint32(0)
	// A damaged body has no end: r.bad stops the loop at the end of src.
	for !r.end() && !r.bad {
		for _, e := range t.elems {
			dst = consumeElement(e, dst, r)
		}
		n++
	}
	putBE32(dst[start:], n)
	return dst
}

// end consumes the end of a body if it is next. At the end of src it is not, and the next read fails.
func (r *orderedReader) end() bool {
	if len(r.src) == 0 || r.src[0]^r.mask != bodyEnd {
		return false
	}
	// Consumed, so that a second call would look at the next component.
	r.src = r.src[1:]
	return true
}

// consumeElement appends the next component as a [bytes]: -1 as its length means null.
func consumeElement(t *Type, dst []byte, r *orderedReader) []byte {
	start := len(dst)
	dst, null := consumeOrdered(t, append(dst, 0xFF, 0xFF, 0xFF, 0xFF), r)
	// The length of a null stays -1.
	if !null {
		putBE32(dst[start:], uint32(len(dst)-start-4))
	}
	return dst
}

// appendOrderedFields appends the fields of a tuple or UDT without its trailing nulls, which are equivalent to missing
// fields: a value written before ALTER TYPE added a field keeps its key.
//
//	(1, 2)         03 80000001   03 80000002   00
//	(1, null)      03 80000001   00
//	(null, 2)      01   03 80000002   00
//	(null, null)   00
func appendOrderedFields(t *Type, dst, b []byte) ([]byte, bool) {
	c := wire.NewCursor(b)
	set := len(dst) // the end of the last field that is not null
	// Null fields are appended, in case that a later one is not null.
	for _, e := range t.elems {
		if c.Len() == 0 {
			break
		}
		v := c.Bytes()
		if c.Err() != nil {
			return dst, false
		}
		dst = appendOrdered(e, dst, v)
		if v != nil {
			set = len(dst)
		}
	}
	// Bytes after the last field make the value malformed.
	return append(dst[:set], bodyEnd), c.Finish() == nil
}

// consumeOrderedFields appends all fields of the type. Missing ones are null.
func consumeOrderedFields(t *Type, dst []byte, r *orderedReader) []byte {
	i := 0
	for ; !r.end() && !r.bad; i++ {
		if i == len(t.elems) {
			r.fail()
			return dst
		}
		dst = consumeElement(t.elems[i], dst, r)
	}
	// The length -1, as in the wire form.
	for ; i < len(t.elems); i++ {
		dst = append(dst, 0xFF, 0xFF, 0xFF, 0xFF)
	}
	return dst
}

// appendOrderedVector appends the elements. The type determines their number, so there is no end. It returns false for
// bytes that are not a vector.
func appendOrderedVector(t *Type, dst, b []byte) ([]byte, bool) {
	c := wire.NewCursor(b)
	for range t.dims {
		v := vectorElement(t, &c)
		if c.Err() != nil {
			return dst, false
		}
		// Elements have their tags, although they are never null: the form of an element is the same everywhere.
		dst = appendOrdered(t.elems[0], dst, v)
	}
	return dst, c.Finish() == nil
}

// consumeOrderedVector appends the elements, with their lengths if these are not fixed.
func consumeOrderedVector(t *Type, dst []byte, r *orderedReader) []byte {
	e := t.elems[0]
	var scratch []byte
	for range t.dims {
		if n := e.FixedLength(); n != 0 {
			start := len(dst)
			dst, _ = consumeOrdered(e, dst, r)
			// A null or malformed element has no place in the fixed form.
			if len(dst)-start != n {
				r.fail()
			}
		} else {
			// The length precedes the element, so that it is decoded apart.
			scratch, _ = consumeOrdered(e, scratch[:0], r)
			dst = append(wire.AppendUnsignedVint(dst, uint64(len(scratch))), scratch...)
		}
		if r.bad {
			return dst
		}
	}
	return dst
}

// vectorElement consumes the next element of a vector's wire form. It returns nil after a failure of c. The element
// points into the value.
func vectorElement(t *Type, c *wire.Cursor) []byte {
	// No length before the element.
	if n := t.elems[0].FixedLength(); n != 0 {
		return c.Take(n)
	}
	n := c.UnsignedVint()
	// Compared before the conversion to int, which could overflow.
	if n > uint64(c.Len()) {
		c.Fail(wire.ErrShort)
		return nil
	}
	return c.Take(int(n))
}

// FixedLength returns the length of all values of a type for which Cassandra declares a fixed one, otherwise 0. Vectors
// store elements of such types without their lengths. Cassandra declares none for tinyint, smallint, date, time and
// counter. A vector of elements with a fixed length has one, too.
func (t *Type) FixedLength() int {
	switch t.kind {
	case Boolean, Int, Bigint, Float, Double, Timestamp, UUID, Timeuuid:
		return fixedSize(t.kind)
	case Vector:
		return t.dims * t.elems[0].FixedLength()
	}
	return 0
}
