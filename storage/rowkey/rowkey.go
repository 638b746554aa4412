// Package rowkey encodes the keys under which storage keeps headers, range tombstones and rows, and their bounds. The
// order of the keys as bytes is the order of the ring, and then of the rows:
//
//	table 4 │ token 8 │ length 2 │ partition key │ kind 1 │ suffix
//	                                                      header           (none)
//	                                                      range tombstone  start escaped, end
//	                                                      row              clustering
//
// Integers are big-endian; the sign bit of the token is inverted, so that negative tokens come first. Clusterings are
// in the ordered form of package types, which is why a row needs no decoding to be compared.
package rowkey

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"

	"cqld/internal/invariant"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
)

// Sizes of the fixed parts of a key.
const (
	TableSize  = 4
	TokenSize  = 8
	lengthSize = 2
	FixedSize  = TableSize + TokenSize + lengthSize
)

// PartitionBytesMax is the length of the longest partition key: the greatest value of the length field.
const PartitionBytesMax = 1<<16 - 1

// KindEnd sorts after every kind: the end of a partition. No entry has it: it occurs in bounds only.
const KindEnd = 0xFF

// AppendTable appends the prefix of every key of a table.
func AppendTable(dst []byte, id schema.StorageID) []byte {
	return binary.BigEndian.AppendUint32(dst, uint32(id))
}

// AppendTableEnd appends a key that follows every key of a table. It is the prefix of the next table, except for the
// last one.
func AppendTableEnd(dst []byte, id schema.StorageID) []byte {
	if id == math.MaxUint32 {
		// This follows the greatest token with the greatest length: no key is longer.
		return append(AppendTable(dst, id), bytes.Repeat([]byte{0xFF}, TokenSize+lengthSize+1)...)
	}
	return AppendTable(dst, id+1)
}

// AppendToken appends the prefix of every key of a table with a token.
func AppendToken(dst []byte, id schema.StorageID, t ring.Token) []byte {
	return binary.BigEndian.AppendUint64(AppendTable(dst, id), uint64(t)^(1<<63))
}

// AppendPartition appends the prefix of every key of a partition. The length keeps a key apart from a longer one that
// begins with it.
func AppendPartition(dst []byte, id schema.StorageID, k row.PartitionKey) []byte {
	// A longer key would wrap the length field, and name another partition. Callers refuse such keys with an error.
	invariant.Check(len(k.Bytes) <= PartitionBytesMax, "rowkey: a partition key is longer than its length field")
	dst = AppendToken(dst, id, k.Token)
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(k.Bytes)))
	return append(dst, k.Bytes...)
}

// escapedSize returns the size of AppendEscaped's encoding of b, including the terminator.
func escapedSize(b []byte) int { return len(b) + bytes.Count(b, []byte{0}) + 2 }

// AppendEscaped appends an encoding of b that is self-delimiting and sorts as b does: 00 becomes 00 FF, and the end is
// 00 01. For example, 61 00 becomes 61 00 FF 00 01.
func AppendEscaped(dst, b []byte) []byte {
	for _, c := range b {
		if dst = append(dst, c); c == 0 {
			dst = append(dst, 0xFF)
		}
	}
	return append(dst, 0, 1)
}

// consumeEscaped decodes an encoding of AppendEscaped and appends it to dst. rest is the remaining input. ok is false
// if the terminator is missing.
func consumeEscaped(dst, b []byte) (out, rest []byte, ok bool) {
	for i := 0; i < len(b); i++ {
		if b[i] != 0 {
			dst = append(dst, b[i])
			continue
		}
		if i++; i == len(b) {
			break
		}
		// 0x00 0xFF is a zero byte, and 0x00 0x01 the end. Nothing else follows a zero in an encoding.
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

// SuffixSize returns the number of bytes in an entry's key after the partition. It equals the length that AppendSuffix
// appends, so that a buffer is allocated once.
func SuffixSize(e *row.Entry) int {
	switch e.Kind {
	case row.KindRow:
		return 1 + len(e.Start)
	case row.KindRangeTombstone:
		// Only the start is escaped: the end is the last part of the key.
		return 1 + escapedSize(e.Start) + len(e.End)
	}
	return 1
}

// AppendSuffix appends the part of an entry's key after the partition. start and end are clusterings or bounds of them;
// a header has neither.
func AppendSuffix(dst []byte, kind row.EntryKind, start, end []byte) []byte {
	invariant.Check(byte(kind) < KindEnd, "rowkey: the kind of an entry sorts after the end of its partition")
	dst = append(dst, byte(kind))
	switch kind {
	case row.KindRow:
		dst = append(dst, start...)
	case row.KindRangeTombstone:
		dst = append(AppendEscaped(dst, start), end...)
	}
	return dst
}

// Parse splits a key into the partition and the suffix (the kind and the rest), which point into key. The error is
// *Malformed. The token is not compared with the hash of the key.
func Parse(key []byte) (table schema.StorageID, k row.PartitionKey, suffix []byte, err error) {
	if len(key) < FixedSize+1 {
		return 0, k, nil, &Malformed{key}
	}
	n := int(binary.BigEndian.Uint16(key[TableSize+TokenSize:]))
	if len(key) < FixedSize+n+1 {
		return 0, k, nil, &Malformed{key}
	}
	// The flipped sign bit makes negative tokens sort before the others.
	k.Token = ring.Token(binary.BigEndian.Uint64(key[TableSize:]) ^ (1 << 63))
	k.Bytes = key[FixedSize : FixedSize+n : FixedSize+n]
	return schema.StorageID(binary.BigEndian.Uint32(key)), k, key[FixedSize+n:], nil
}

// ParseRangeTombstone decodes the bounds in a key's suffix. It appends start to arena. The results point into out and
// are valid until it is changed.
func ParseRangeTombstone(arena, suffix []byte) (out, start, end []byte, ok bool) {
	at := len(arena)
	out, rest, ok := consumeEscaped(arena, suffix[1:])
	if !ok {
		return arena, nil, nil, false
	}
	mid := len(out)
	out = append(out, rest...)
	if invariant.Enabled {
		// Two encodings of the same bounds would be different keys, and a purge of one would leave the other.
		again := append(AppendEscaped(nil, out[at:mid]), out[mid:]...)
		invariant.Check(bytes.Equal(again, suffix[1:]), "rowkey: bounds %x are encoded in two ways", suffix[1:])
	}
	return out, out[at:mid:mid], out[mid:len(out):len(out)], true
}

// Malformed is the error of a key that does not have the form of this package.
type Malformed struct{ Key []byte }

func (e *Malformed) Error() string { return fmt.Sprintf("malformed key %x", e.Key) }

// Bounds appends the bounds of the keys of a table with tokens in a range that does not wrap. It returns false if the
// range is empty. For example, the range (5, 9] has the bounds of the tokens 6 and 10.
func Bounds(lower, upper []byte, id schema.StorageID, tokens ring.Range) (_, _ []byte, ok bool) {
	// The bounds of a range that wraps would be reversed, so the range would look empty.
	invariant.Check(!tokens.Wraps(), "rowkey: bounds of a range that wraps")
	switch tokens.Start {
	case ring.MaxToken:
		return lower, upper, false
	case ring.MinToken:
		lower = AppendTable(lower, id)
	default:
		lower = AppendToken(lower, id, tokens.Start+1)
	}
	if tokens.End == ring.MinToken || tokens.End == ring.MaxToken {
		upper = AppendTableEnd(upper, id)
	} else {
		upper = AppendToken(upper, id, tokens.End+1)
	}
	return lower, upper, bytes.Compare(lower, upper) < 0
}

// PrefixEnd returns the first key after all keys that begin with prefix. It is nil if there is none: for a prefix of
// 0xFF only. The end of 01 FF is 02.
func PrefixEnd(prefix []byte) []byte {
	end := bytes.Clone(prefix)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i]++; end[i] != 0 { // otherwise 0xFF overflowed, and the byte before it carries
			invariant.Check(!invariant.Enabled || bytes.Compare(prefix, end[:i+1]) < 0,
				"rowkey: the end of a prefix is not after it")
			return end[:i+1]
		}
	}
	return nil
}

// TableOf returns the table of a key, which has at least TableSize bytes.
func TableOf(key []byte) schema.StorageID { return schema.StorageID(binary.BigEndian.Uint32(key)) }

// TokenOf returns the token in a key, or in the beginning of one. otherwise is returned for a shorter key, such as the
// bound of a table.
func TokenOf(key []byte, otherwise ring.Token) ring.Token {
	if len(key) < TableSize+TokenSize {
		return otherwise
	}
	return ring.Token(binary.BigEndian.Uint64(key[TableSize:]) ^ (1 << 63))
}
