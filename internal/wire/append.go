package wire

import (
	"encoding/binary"
	"math"
	"math/bits"
	"net/netip"
	"unicode/utf8"
)

// AppendUint16 appends v in two bytes, a CQL [short].
func AppendUint16(dst []byte, v uint16) []byte { return binary.BigEndian.AppendUint16(dst, v) }

// AppendUint32 appends v in four bytes.
func AppendUint32(dst []byte, v uint32) []byte { return binary.BigEndian.AppendUint32(dst, v) }

// AppendUint64 appends v in eight bytes.
func AppendUint64(dst []byte, v uint64) []byte { return binary.BigEndian.AppendUint64(dst, v) }

// AppendInt32 appends v in four bytes, two's complement: a CQL [int].
func AppendInt32(dst []byte, v int32) []byte {
	return binary.BigEndian.AppendUint32(dst, uint32(v))
}

// AppendInt64 appends v in eight bytes, two's complement: a CQL [long].
func AppendInt64(dst []byte, v int64) []byte {
	return binary.BigEndian.AppendUint64(dst, uint64(v))
}

// AppendUvarint appends v as a base-128 varint, least significant group first.
func AppendUvarint(dst []byte, v uint64) []byte { return binary.AppendUvarint(dst, v) }

// AppendVarint appends v zig-zag encoded as a base-128 varint.
func AppendVarint(dst []byte, v int64) []byte { return binary.AppendVarint(dst, v) }

// AppendString appends a CQL [string]: a two-byte length and the bytes. A string beyond 65535 bytes does not fit the
// notation and is truncated before a character, so that the message stays well formed: drivers close a connection with
// a string that is not UTF-8. Only messages for people (errors and warnings) can be that long; names are limited to far
// less.
func AppendString[S ~string | ~[]byte](dst []byte, s S) []byte {
	if len(s) > math.MaxUint16 {
		end := math.MaxUint16
		// At most three bytes of a character precede the end.
		for end > math.MaxUint16-utf8.UTFMax && !utf8.RuneStart(s[end]) {
			end--
		}
		s = s[:end]
	}
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(s)))
	return append(dst, s...)
}

// AppendLongString appends a CQL [long string]: a four-byte length and the bytes.
func AppendLongString[S ~string | ~[]byte](dst []byte, s S) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(s)))
	return append(dst, s...)
}

// AppendBytes appends a CQL [bytes]: a four-byte length and the bytes.
// A nil slice is null (length -1); an empty one has length 0.
func AppendBytes(dst, b []byte) []byte {
	if b == nil {
		return append(dst, 0xFF, 0xFF, 0xFF, 0xFF)
	}
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(b)))
	return append(dst, b...)
}

// AppendShortBytes appends a CQL [short bytes]. It is for ids, which are short; beyond 65535 bytes it truncates like
// AppendString.
func AppendShortBytes(dst, b []byte) []byte { return AppendString(dst, b) }

// AppendStringList appends a CQL [string list].
func AppendStringList(dst []byte, list []string) []byte {
	if len(list) > math.MaxUint16 {
		list = list[:math.MaxUint16]
	}
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(list)))
	for _, s := range list {
		dst = AppendString(dst, s)
	}
	return dst
}

// AppendUUID appends the 16 bytes of a UUID.
func AppendUUID(dst []byte, id [16]byte) []byte { return append(dst, id[:]...) }

// AppendInetAddr appends a CQL [inetaddr]: the size (4 or 16) and the address. An IPv4 address mapped into IPv6 is sent
// as IPv4, as Java does.
func AppendInetAddr(dst []byte, a netip.Addr) []byte {
	a = a.Unmap()
	if a.Is4() {
		b := a.As4()
		return append(append(dst, 4), b[:]...)
	}
	b := a.As16()
	return append(append(dst, 16), b[:]...)
}

// AppendInet appends a CQL [inet]: an [inetaddr] and the port as [int].
func AppendInet(dst []byte, a netip.AddrPort) []byte {
	dst = AppendInetAddr(dst, a.Addr())
	return AppendInt32(dst, int32(a.Port()))
}

// AppendUnsignedVint appends Cassandra's [unsigned vint]: as many leading 1
// bits in the first byte as bytes follow, the value big-endian after them.
func AppendUnsignedVint(dst []byte, v uint64) []byte {
	size := UnsignedVintSize(v)
	if size == 1 {
		return append(dst, byte(v))
	}
	if size == 9 {
		dst = append(dst, 0xFF)
		return binary.BigEndian.AppendUint64(dst, v)
	}
	extra := size - 1
	first := byte(v>>(8*extra)) | ^byte(0xFF>>extra)
	dst = append(dst, first)
	for i := extra - 1; i >= 0; i-- {
		dst = append(dst, byte(v>>(8*i)))
	}
	return dst
}

// AppendVint appends Cassandra's [vint]: zig-zag, then an [unsigned vint].
func AppendVint(dst []byte, v int64) []byte {
	return AppendUnsignedVint(dst, uint64(v<<1)^uint64(v>>63))
}

// UnsignedVintSize returns the number of bytes that AppendUnsignedVint appends for v.
func UnsignedVintSize(v uint64) int {
	// Seven value bits per byte up to eight bytes (56 bits), then a ninth byte.
	n := (bits.Len64(v|1) + 6) / 7
	return min(n, 9)
}

// AppendValue appends a CQL [value].
func AppendValue(dst []byte, v Value) []byte {
	switch v.Kind {
	case ValueSet:
		dst = binary.BigEndian.AppendUint32(dst, uint32(len(v.Bytes)))
		return append(dst, v.Bytes...)
	case ValueUnset:
		return append(dst, 0xFF, 0xFF, 0xFF, 0xFE)
	default:
		return append(dst, 0xFF, 0xFF, 0xFF, 0xFF)
	}
}
