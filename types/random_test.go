package types

import (
	"math/rand/v2"

	"cqld/internal/wire"
	"cqld/types/number"
)

// orderedTypes returns one type of every kind that has an order, and some with parts.
func orderedTypes() []*Type {
	n := Native
	return []*Type{
		n(Ascii), n(Bigint), n(Blob), n(Boolean), n(Date), n(Decimal), n(Double), n(Float), n(Inet), n(Int),
		n(Smallint), n(Text), n(Time), n(Timestamp), n(Timeuuid), n(Tinyint), n(UUID), n(Varint),
		NewList(n(Int), true), NewSet(n(Text), true), NewMap(n(Varint), n(Blob), true),
		NewTuple(n(Int), n(Text), n(Decimal)), NewVector(n(Float), 3), NewVector(n(Text), 2),
		NewList(NewTuple(n(Text), NewList(n(Int), true)), true),
		NewUDT("ks", "u", []string{"a", "b"}, []*Type{n(Int), n(Text)}, true),
		NewMap(n(UUID), NewVector(n(Int), 2), true),
		NewVector(NewList(n(Smallint), true), 2),
	}
}

// randomWire returns a valid value of t, small and from a small alphabet so that equal, prefix and neighboring values
// are common.
func randomWire(r *rand.Rand, t *Type) []byte {
	switch t.kind {
	case Boolean:
		return []byte{byte(r.IntN(2))}
	case Time:
		return appendBE64(nil, uint64(r.Int64N(86400000000000)))
	case Timeuuid:
		b := randomBytes(r, 16, 16)
		b[6] = b[6]&0x0F | 0x10
		return b
	case Inet:
		if r.IntN(2) == 0 {
			return randomBytes(r, 4, 4)
		}
		return randomBytes(r, 16, 16)
	case Ascii, Text:
		b := randomBytes(r, 0, 5)
		for i := range b {
			b[i] &= 0x7F
		}
		return b
	case Blob, Custom:
		return randomBytes(r, 0, 5)
	case Varint:
		return randomVarint(r)
	case Decimal:
		scale := uint32(r.IntN(9) - 4)
		if r.IntN(8) == 0 {
			scale = uint32(r.Uint64())
		}
		return append(appendBE32(nil, scale), randomVarint(r)...)
	case Duration:
		return []byte{byte(r.IntN(60) * 2), byte(r.IntN(60) * 2), byte(r.IntN(60) * 2)}
	case List, Set, Map:
		n := r.IntN(4)
		b := appendBE32(nil, uint32(n))
		for range n {
			for _, e := range t.elems {
				b = wire.AppendBytes(b, randomWire(r, e))
			}
		}
		return b
	case Tuple, UDT:
		b := []byte{}
		for _, e := range t.elems {
			switch r.IntN(5) {
			case 0:
				b = wire.AppendBytes(b, nil)
			case 1:
				return b
			default:
				b = wire.AppendBytes(b, randomWire(r, e))
			}
		}
		return b
	case Vector:
		b := []byte{}
		for range t.dims {
			v := randomWire(r, t.elems[0])
			if t.elems[0].FixedLength() == 0 {
				b = wire.AppendUnsignedVint(b, uint64(len(v)))
			}
			b = append(b, v...)
		}
		return b
	}
	n := fixedSize(t.kind)
	return randomBytes(r, n, n)
}

func randomVarint(r *rand.Rand) []byte {
	if r.IntN(4) == 0 {
		return number.Minimal(randomBytes(r, 1, 200))
	}
	return number.AppendInt64(nil, r.Int64N(2001)-1000)
}

// edgeBytes are the bytes with a special meaning in encodings.
var edgeBytes = []byte{0x00, 0x00, 0x01, 0x02, 0x7F, 0x80, 0x81, 0xFE, 0xFF, 0xFF}

func randomBytes(r *rand.Rand, lower, upper int) []byte {
	b := make([]byte, lower+r.IntN(upper-lower+1))
	plain := r.IntN(3) == 0
	for i := range b {
		if plain {
			b[i] = byte(r.Uint32())
		} else {
			b[i] = edgeBytes[r.IntN(len(edgeBytes))]
		}
	}
	return b
}
