package types

import (
	"bytes"
	"cmp"

	"cqld/internal/wire"
)

// Compare compares two wire forms in the type's ascending clustering order. The result is negative, zero or positive.
// Null sorts before the empty value, which sorts before every other value; bytes that are invalid for the type sort
// last. AppendOrdered has the same order.
func (t *Type) Compare(a, b []byte) int {
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
		return compareVarint(a, b)
	case Decimal:
		return compareDecimal(a, b)
	case List, Set, Map:
		return compareCollection(t, a, b)
	case Tuple, UDT:
		return compareFields(t, a, b)
	case Vector:
		return compareVector(t, a, b)
	case Custom:
		return compareLegacy(t, a, b)
	}
	return bytes.Compare(a, b)
}

func presence(b []byte) int {
	switch {
	case b == nil:
		return 0
	case len(b) == 0:
		return 1
	}
	return 2
}

func compareMalformed(a, b []byte, okA, okB bool) int {
	switch {
	case okA && !okB:
		return -1
	case okB && !okA:
		return 1
	}
	return bytes.Compare(a, b)
}

func compareFixed(k Kind, a, b []byte) int {
	switch k {
	case Boolean:
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
		return cmp.Compare(orderedFloat32(be32(a)), orderedFloat32(be32(b)))
	case Double:
		return cmp.Compare(orderedFloat64(be64(a)), orderedFloat64(be64(b)))
	case UUID:
		return compareHalves(orderedUUID, a, b)
	case Timeuuid:
		return compareHalves(orderedTimeuuid, a, b)
	}
	return bytes.Compare(a, b) // date, time
}

func compareHalves(order func([]byte) (hi, lo uint64), a, b []byte) int {
	hiA, loA := order(a)
	hiB, loB := order(b)
	if c := cmp.Compare(hiA, hiB); c != 0 {
		return c
	}
	return cmp.Compare(loA, loB)
}

func compareVarint(a, b []byte) int {
	a, b = minimalInt(a), minimalInt(b)
	negative := a[0] >= 0x80
	if c := cmp.Compare(int8(a[0]>>7), int8(b[0]>>7)); c != 0 {
		return -c
	}
	if c := cmp.Compare(len(a), len(b)); c != 0 {
		if negative {
			return -c
		}
		return c
	}
	return bytes.Compare(a, b)
}

func compareDecimal(a, b []byte) int {
	var bufA, bufB [40]byte
	signA, eA, digitsA, okA := decimalDigits(bufA[:], a)
	signB, eB, digitsB, okB := decimalDigits(bufB[:], b)
	if !okA || !okB {
		return compareMalformed(a, b, okA, okB)
	}
	if signA != signB || signA == 0 {
		return cmp.Compare(signA, signB)
	}
	c := cmp.Compare(eA, eB)
	if c == 0 {
		c = bytes.Compare(digitsA, digitsB)
	}
	return signA * c
}

func compareCollection(t *Type, a, b []byte) int {
	ca, cb := wire.NewCursor(a), wire.NewCursor(b)
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

// compareFields treats a missing trailing field as null.
func compareFields(t *Type, a, b []byte) int {
	ca, cb := wire.NewCursor(a), wire.NewCursor(b)
	for _, e := range t.elems {
		if ca.Len() == 0 && cb.Len() == 0 {
			return 0
		}
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

func compareVector(t *Type, a, b []byte) int {
	ca, cb := wire.NewCursor(a), wire.NewCursor(b)
	for range t.dims {
		if c := t.elems[0].Compare(vectorElement(t, &ca), vectorElement(t, &cb)); c != 0 {
			return c
		}
	}
	return 0
}
