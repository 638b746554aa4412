package types

import (
	"bytes"
	"cmp"

	"cqld/internal/wire"
	"cqld/types/number"
)

// Compare compares two wire forms in the type's ascending clustering order. The result is negative, zero or positive.
// Null sorts before the empty value, which sorts before every other value; bytes that are invalid for the type sort
// last. AppendOrdered has the same order.
//
// Equal does not mean the same bytes: see AppendOrdered for the values with several forms. Durations, which have no
// order in CQL, compare as bytes.
//
//	booleans, numbers    by value
//	floats               as Java: -0 before 0, NaN last
//	texts, blobs, inet   by bytes
//	dates, times         by time
//	uuid                 by version; version 1 by time
//	timeuuid             by time, then by signed bytes
//	lists, sets, maps    element by element; a beginning before the whole
//	tuples, UDTs         field by field; a missing field is null
//	vectors              element by element
func (t *Type) Compare(a, b []byte) int {
	// Before all kinds: null and the empty value may occur in values of every type.
	if len(a) == 0 || len(b) == 0 {
		return cmp.Compare(presence(a), presence(b))
	}
	if n := fixedSize(t.kind); n != 0 {
		if len(a) != n || len(b) != n {
			return compareMalformed(a, b, len(a) == n, len(b) == n)
		}
		return compareFixed(t.kind, a, b)
	}
	switch t.kind {
	case Varint:
		return number.CompareVarint(a, b)
	case Decimal:
		if len(a) < number.ScaleBytes || len(b) < number.ScaleBytes {
			return compareMalformed(a, b, len(a) >= number.ScaleBytes, len(b) >= number.ScaleBytes)
		}
		return number.CompareDecimal(a, b)
	case List, Set, Map:
		return compareCollection(t, a, b)
	case Tuple, UDT:
		return compareFields(t, a, b)
	case Vector:
		return compareVector(t, a, b)
	case Custom:
		return compareLegacy(t, a, b)
	}
	// Ascii, blob, inet and text have the order of their bytes.
	return bytes.Compare(a, b)
}

// presence ranks null, the empty value and other values.
func presence(b []byte) int {
	switch {
	case b == nil:
		return 0
	case len(b) == 0:
		return 1
	}
	return 2
}

// compareMalformed compares two values, at least one of them invalid: valid ones sort first, and invalid ones by their
// bytes.
func compareMalformed(a, b []byte, okA, okB bool) int {
	switch {
	case okA && !okB:
		return -1
	case okB && !okA:
		return 1
	}
	return bytes.Compare(a, b)
}

// compareFixed compares two values of a kind with a fixed size, both of that size.
func compareFixed(k Kind, a, b []byte) int {
	switch k {
	case Boolean:
		// Any non-zero byte is true.
		return cmp.Compare(min(a[0], 1), min(b[0], 1))
	case Tinyint:
		return cmp.Compare(int8(a[0]), int8(b[0]))
	case Smallint:
		return cmp.Compare(int16(be16(a)), int16(be16(b)))
	case Int:
		return cmp.Compare(int32(be32(a)), int32(be32(b)))
	case Bigint, Counter, Timestamp:
		return cmp.Compare(int64(be64(a)), int64(be64(b)))
	case Float:
		// Java's order: -0 before 0, NaN last.
		return cmp.Compare(orderedFloat32(be32(a)), orderedFloat32(be32(b)))
	case Double:
		return cmp.Compare(orderedFloat64(be64(a)), orderedFloat64(be64(b)))
	case UUID:
		return compareHalves(orderedUUID, a, b)
	case Timeuuid:
		return compareHalves(orderedTimeuuid, a, b)
	}
	return bytes.Compare(a, b) // dates and times: their unsigned order
}

// compareHalves compares UUIDs by the numbers to which order maps them.
func compareHalves(order func([]byte) (hi, lo uint64), a, b []byte) int {
	// order is orderedUUID or orderedTimeuuid, so both orders agree with AppendOrdered.
	hiA, loA := order(a)
	hiB, loB := order(b)
	if c := cmp.Compare(hiA, hiB); c != 0 {
		return c
	}
	return cmp.Compare(loA, loB)
}

// compareCollection compares element by element, then by length: a collection is after each of its beginnings.
func compareCollection(t *Type, a, b []byte) int {
	ca, cb := wire.NewCursor(a), wire.NewCursor(b)
	// Counts of malformed values are bounded by their length.
	na, nb := ca.IntCount(4*len(t.elems)), cb.IntCount(4*len(t.elems))
	for range min(na, nb) {
		for _, e := range t.elems {
			if c := compareNext(e, &ca, &cb); c != 0 {
				return c
			}
		}
	}
	return cmp.Compare(na, nb)
}

// compareNext compares the next [bytes] of both cursors.
func compareNext(t *Type, a, b *wire.Cursor) int { return t.Compare(a.Bytes(), b.Bytes()) }

// compareFields treats a missing trailing field as null. Equal values may have different numbers of fields.
func compareFields(t *Type, a, b []byte) int {
	ca, cb := wire.NewCursor(a), wire.NewCursor(b)
	for _, e := range t.elems {
		if ca.Len() == 0 && cb.Len() == 0 {
			return 0
		}
		// nil stands for a missing field, as for a null one.
		var va, vb []byte
		if ca.Len() > 0 {
			va = ca.Bytes()
		}
		if cb.Len() > 0 {
			vb = cb.Bytes()
		}
		if c := e.Compare(va, vb); c != 0 {
			return c
		}
	}
	return 0
}

// compareVector compares element by element. All vectors of a type have equally many.
func compareVector(t *Type, a, b []byte) int {
	ca, cb := wire.NewCursor(a), wire.NewCursor(b)
	for range t.dims {
		if c := t.elems[0].Compare(vectorElement(t, &ca), vectorElement(t, &cb)); c != 0 {
			return c
		}
	}
	return 0
}
