package logcheck

import (
	"encoding/binary"
	"hash/crc32"
	"math/bits"
)

// The format of Pebble's logs, as described in its package record:
//
//	chunk:  checksum 4, length 2, type 1, [log number 4, [synced length 8]], payload
//
// Integers are little endian. The checksum covers all that follows the length. Blocks have 32 KiB, and chunks do not
// cross them. A record is one chunk, or a first, middle and last ones.
const (
	blockSize    = 32 << 10
	legacyHeader = 7
	logHeader    = legacyHeader + 4
	syncHeader   = logHeader + 8
)

// format describes a chunk by its type.
type format struct {
	header int
	log    bool // it has the number of its log
	synced bool // it has the synced length
	first  bool // it begins a record
	last   bool // it ends a record
}

// formatOf returns the format of a type: four types of each format, for whole records, and first, middle and last
// chunks of records.
func formatOf(kind byte) (f format, ok bool) {
	if kind == 0 || kind > 12 {
		return f, false
	}
	f = format{header: legacyHeader, log: kind > 4, synced: kind > 8, first: (kind-1)%4 < 2, last: (kind-1)%4%3 == 0}
	switch {
	case f.synced:
		f.header = syncHeader
	case f.log:
		f.header = logHeader
	}
	return f, true
}

// castagnoli returns the polynomial's table, which the package crc32 computes once.
func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// checksum returns Pebble's checksum: a CRC-32C that is rotated, and to which a constant is added.
func checksum(b []byte) uint32 { return mask(crc32.Checksum(b, castagnoli())) }

const maskDelta = 0xa282ead8

func mask(crc uint32) uint32 { return bits.RotateLeft32(crc, 17) + maskDelta }

func unmask(sum uint32) uint32 { return bits.RotateLeft32(sum-maskDelta, -17) }

// repaired reports whether a chunk of a log can be read after the change of one bit, and where it then ends.
func repaired(b []byte, number uint32) (end int, ok bool) {
	if len(b) < legacyHeader {
		return 0, false
	}
	sum, length := binary.LittleEndian.Uint32(b), int(binary.LittleEndian.Uint16(b[4:]))
	// First, a bit of the length may have changed, or of the type, which determines where the payload begins.
	for bit := range 16 {
		if end, ok = readable(b, b[6], length^1<<bit, sum, number); ok {
			return end, true
		}
	}
	for bit := range 8 {
		if end, ok = readable(b, b[6]^1<<bit, length, sum, number); ok {
			return end, true
		}
	}
	f, ok := formatOf(b[6])
	if !ok || !f.log || f.header+length > len(b) {
		return 0, false
	}
	end = f.header + length
	have := crc32.Checksum(b[6:end], castagnoli())
	if bits.OnesCount32(mask(have)^sum) == 1 {
		return end, binary.LittleEndian.Uint32(b[7:]) == number
	}
	at, bit, ok := changedBit(end-6, have^unmask(sum))
	if !ok {
		return 0, false
	}
	header := [4]byte(b[7:])
	if at >= 1 && at < 5 { // of the number
		header[at-1] ^= 1 << bit
	}
	return end, binary.LittleEndian.Uint32(header[:]) == number
}

// readable reports whether a chunk of a log could be read if its type and length were these, and where it then ends.
func readable(b []byte, kind byte, length int, sum, number uint32) (end int, ok bool) {
	f, ok := formatOf(kind)
	if end = f.header + length; !ok || !f.log || end > len(b) || binary.LittleEndian.Uint32(b[7:]) != number {
		return 0, false
	}
	crc := crc32.Update(crc32.Checksum([]byte{kind}, castagnoli()), castagnoli(), b[7:end])
	return end, mask(crc) == sum
}

// changedBit returns the bit of n bytes whose change makes the difference of two checksums.
func changedBit(n int, difference uint32) (at int, bit int, ok bool) {
	table := castagnoli()
	// A checksum is linear: the difference depends on the place of the bit only, and follows from the difference for
	// the same bit in the next byte.
	var last [8]uint32
	for bit := range last {
		last[bit] = table[1<<bit]
	}
	for at := n - 1; at >= 0; at-- {
		for bit, d := range last {
			if d == difference {
				return at, bit, true
			}
			last[bit] = table[byte(d)] ^ d>>8
		}
	}
	return 0, 0, false
}
