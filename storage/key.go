package storage

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"

	"cqld/ring"
	"cqld/row"
	"cqld/schema"
)

// Sizes of the fixed parts of a key.
const (
	tableSize  = 4
	tokenSize  = 8
	lengthSize = 2
	fixedSize  = tableSize + tokenSize + lengthSize
)

// kindEnd sorts after every kind: the end of a partition.
const kindEnd = 0xFF

// appendTable appends the prefix of every key of a table.
func appendTable(dst []byte, id schema.StorageID) []byte {
	return binary.BigEndian.AppendUint32(dst, uint32(id))
}

// appendTableEnd appends a key that follows every key of a table.
func appendTableEnd(dst []byte, id schema.StorageID) []byte {
	if id == math.MaxUint32 {
		// This follows the greatest token with the greatest length: no key is longer.
		return append(appendTable(dst, id), bytes.Repeat([]byte{0xFF}, tokenSize+lengthSize+1)...)
	}
	return appendTable(dst, id+1)
}

// appendToken appends the prefix of every key of a table with a token.
func appendToken(dst []byte, id schema.StorageID, t ring.Token) []byte {
	return binary.BigEndian.AppendUint64(appendTable(dst, id), uint64(t)^(1<<63))
}

// appendPartition appends the prefix of every key of a partition.
func appendPartition(dst []byte, id schema.StorageID, k row.PartitionKey) []byte {
	dst = appendToken(dst, id, k.Token)
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(k.Bytes)))
	return append(dst, k.Bytes...)
}

// escapedSize returns the size of appendEscaped's encoding of b, including the terminator.
func escapedSize(b []byte) int { return len(b) + bytes.Count(b, []byte{0}) + 2 }

// appendEscaped appends an encoding of b that is self-delimiting and sorts as b does: 00 becomes 00 FF, and the end
// is 00 01.
func appendEscaped(dst, b []byte) []byte {
	for _, c := range b {
		if dst = append(dst, c); c == 0 {
			dst = append(dst, 0xFF)
		}
	}
	return append(dst, 0, 1)
}

// consumeEscaped decodes an encoding of appendEscaped and appends it to dst. rest is the remaining input.
func consumeEscaped(dst, b []byte) (out, rest []byte, ok bool) {
	for i := 0; i < len(b); i++ {
		if b[i] != 0 {
			dst = append(dst, b[i])
			continue
		}
		if i++; i == len(b) {
			break
		}
		switch b[i] {
		case 0xFF:
			dst = append(dst, 0)
		case 1:
			return dst, b[i+1:], true
		default:
			return nil, nil, false
		}
	}
	return nil, nil, false
}

// suffixSize returns the number of bytes in an entry's key after the partition.
func suffixSize(e *row.Entry) int {
	switch e.Kind {
	case row.KindRow:
		return 1 + len(e.Start)
	case row.KindRangeTombstone:
		return 1 + escapedSize(e.Start) + len(e.End)
	}
	return 1
}

// appendSuffix appends the part of an entry's key after the partition.
func appendSuffix(dst []byte, kind row.EntryKind, start, end []byte) []byte {
	dst = append(dst, byte(kind))
	switch kind {
	case row.KindRow:
		dst = append(dst, start...)
	case row.KindRangeTombstone:
		dst = append(appendEscaped(dst, start), end...)
	}
	return dst
}

// parseKey splits a key into the partition and the suffix (the kind and the rest), which point into key.
func parseKey(key []byte) (table schema.StorageID, k row.PartitionKey, suffix []byte, err error) {
	if len(key) < fixedSize+1 {
		return 0, k, nil, badKey(key)
	}
	n := int(binary.BigEndian.Uint16(key[tableSize+tokenSize:]))
	if len(key) < fixedSize+n+1 {
		return 0, k, nil, badKey(key)
	}
	k.Token = ring.Token(binary.BigEndian.Uint64(key[tableSize:]) ^ (1 << 63))
	k.Bytes = key[fixedSize : fixedSize+n : fixedSize+n]
	return schema.StorageID(binary.BigEndian.Uint32(key)), k, key[fixedSize+n:], nil
}

// parseRangeTombstone decodes the bounds in a key's suffix. It appends start to arena.
func parseRangeTombstone(arena, suffix []byte) (out, start, end []byte, ok bool) {
	at := len(arena)
	out, rest, ok := consumeEscaped(arena, suffix[1:])
	if !ok {
		return arena, nil, nil, false
	}
	mid := len(out)
	out = append(out, rest...)
	return out, out[at:mid:mid], out[mid:len(out):len(out)], true
}

func badKey(key []byte) error {
	return &CorruptError{Err: fmt.Errorf("malformed key %x", key)}
}
