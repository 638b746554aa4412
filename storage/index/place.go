package index

import (
	"encoding/binary"

	"cqld/ring"
	"cqld/row"
	"cqld/schema"
)

// The key of an entry of Values is
//
//	index 4 │ term, escaped │ place
//	place := token 8 │ length 2 │ partition key │ kind 1 │ clustering
//
// A place has the layout of the keys of rows, so places are in the order of the ring. Terms are escaped: 00 is 00 FF,
// and the end is 00 01. So a bound of terms, escaped without an end, is the same bound of escaped terms.

// Position is a place in the order of a search, after an entry: in ByToken a place, in ByTerm a term and a
// place, in ByScore a score and a place. Positions
// compare as bytes. nil is the beginning, in either direction.
type Position []byte

const (
	indexSize  = 4
	tokenSize  = 8
	placeFixed = tokenSize + 2
	// kindEnd is the kind that follows all others: the end of a partition.
	kindEnd = 0xFF
)

// AppendPlace appends the place of a row, or of a partition if kind is row.KindHeader.
func AppendPlace(dst []byte, key row.PartitionKey, kind row.EntryKind, clustering []byte) []byte {
	return append(append(appendPartition(dst, key), byte(kind)), clustering...)
}

// AppendPlaceEnd appends the place after all rows of a partition. It is no place of a row, because no kind is kindEnd.
func AppendPlaceEnd(dst []byte, key row.PartitionKey) []byte {
	return append(appendPartition(dst, key), kindEnd)
}

func appendPartition(dst []byte, key row.PartitionKey) []byte {
	dst = appendToken(dst, key.Token)
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(key.Bytes)))
	return append(dst, key.Bytes...)
}

// The sign bit is flipped, so that bytes compare as signed tokens do.
func appendToken(dst []byte, t ring.Token) []byte {
	return binary.BigEndian.AppendUint64(dst, uint64(t)^(1<<63))
}

// ParsePlace is the inverse of AppendPlace. The results point into place.
func ParsePlace(place []byte) (key row.PartitionKey, kind row.EntryKind, clustering []byte, ok bool) {
	if len(place) < placeFixed+1 {
		return key, 0, nil, false
	}
	n := int(binary.BigEndian.Uint16(place[tokenSize:]))
	if len(place) < placeFixed+n+1 {
		return key, 0, nil, false
	}
	key.Token = ring.Token(binary.BigEndian.Uint64(place) ^ (1 << 63))
	// The capacity ends with the key, so that an append cannot overwrite the rest of the place.
	key.Bytes = place[placeFixed : placeFixed+n : placeFixed+n]
	return key, row.EntryKind(place[placeFixed+n]), place[placeFixed+n+1:], true
}

// appendIndex appends the prefix of the entries of an index.
func appendIndex(dst []byte, id schema.StorageID) []byte {
	return binary.BigEndian.AppendUint32(dst, uint32(id))
}

// appendTerm appends a term, escaped and with its end.
func appendTerm(dst, term []byte) []byte { return append(appendTermBound(dst, term), 0, 1) }

// appendTermBound appends a term, escaped and without its end: the lower bound of all escaped terms that are not less
// than it.
func appendTermBound(dst, term []byte) []byte {
	for _, c := range term {
		// The FF sorts after the 01 of an end: a term that is a prefix of another one comes first, as it does
		// unescaped.
		if dst = append(dst, c); c == 0 {
			dst = append(dst, 0xFF)
		}
	}
	return dst
}

// splitTerm returns the length of the escaped term at the beginning of b, with its end; false if it has no end. For
// example, it is 5 for 61 00 FF 00 01, the term 61 00.
func splitTerm(b []byte) (n int, ok bool) {
	for i := 0; i+1 < len(b); i++ {
		if b[i] == 0 {
			// 0x00 0x01 ends the term; any other byte after a zero belongs to an escaped zero.
			if b[i+1] == 1 {
				return i + 2, true
			}
			i++
		}
	}
	return 0, false
}

// consumeTerm appends the term that is escaped in b, with its end, to dst. b must have been accepted by splitTerm.
func consumeTerm(dst, b []byte) []byte {
	for i := 0; i < len(b)-2; i++ {
		if dst = append(dst, b[i]); b[i] == 0 {
			i++
		}
	}
	return dst
}

// PlaceOf returns the place in a position; nil if it has none. It points into p.
func PlaceOf(order Order, p Position) []byte {
	switch {
	case order == ByToken || len(p) == 0:
		return p
	case order == ByScore:
		return p[min(codeSize, len(p)):]
	}
	// ByTerm: the place follows the term.
	n, ok := splitTerm(p)
	if !ok {
		return nil
	}
	return p[n:]
}
