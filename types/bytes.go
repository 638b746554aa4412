package types

import "encoding/binary"

// Reads at a known offset. Callers have checked the length. Code that consumes values one by one uses wire.Cursor
// instead.

func be16(b []byte) uint16 { return binary.BigEndian.Uint16(b) }
func be32(b []byte) uint32 { return binary.BigEndian.Uint32(b) }
func be64(b []byte) uint64 { return binary.BigEndian.Uint64(b) }

func putBE32(b []byte, v uint32) { binary.BigEndian.PutUint32(b, v) }

func appendBE16(dst []byte, v uint16) []byte { return binary.BigEndian.AppendUint16(dst, v) }
func appendBE32(dst []byte, v uint32) []byte { return binary.BigEndian.AppendUint32(dst, v) }
func appendBE64(dst []byte, v uint64) []byte { return binary.BigEndian.AppendUint64(dst, v) }

// fixedSize returns the length in bytes of the values of kind k if all have the same length, otherwise 0. The empty
// value, which some of these kinds allow, does not count. FixedLength is Cassandra's notion, which differs for some
// kinds.
func fixedSize(k Kind) int {
	switch k {
	case Boolean, Tinyint:
		return 1
	case Smallint:
		return 2
	case Int, Float, Date:
		return 4
	case Bigint, Counter, Double, Time, Timestamp:
		return 8
	case UUID, Timeuuid:
		return 16
	}
	return 0
}
