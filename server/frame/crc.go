package frame

import "hash/crc32"

// The CRC24 of segment headers: Cassandra's net/Crc, a Koopman polynomial
// good for the few bytes it covers.
const (
	crc24Initial = 0x875060
	crc24Poly    = 0x1974F0B
)

// crc24Table contains the effect of each byte that enters at the top of the register. It is computed once, when the
// program starts, and only read later.
var crc24Table = makeCRC24Table()

// makeCRC24Table computes the table bit by bit, as the specification defines the checksum.
func makeCRC24Table() (table [256]uint32) {
	for i := range table {
		// The byte enters at the top of the 24 bits, and the most significant bit is processed first.
		crc := uint32(i) << 16
		for range 8 {
			crc <<= 1
			if crc&0x1000000 != 0 {
				crc ^= crc24Poly
			}
		}
		table[i] = crc
	}
	return table
}

// crc24 returns the checksum of the n low bytes of v, least significant first. n is 3 or 5: the fields of a segment
// header without the checksum.
func crc24(v uint64, n int) uint32 {
	crc := uint32(crc24Initial)
	for range n {
		// A byte at a time. Cassandra's loop over eight bits gives the same result.
		crc = crc<<8&0xFFFFFF ^ crc24Table[byte(crc>>16)^byte(v)]
		v >>= 8
	}
	return crc
}

// crc32Initial is the state after the four bytes FA 2D 55 CA. Every payload checksum begins with them, so that a run
// of zeros does not have the checksum zero.
const crc32Initial = 0x44777ED3

// payloadCRC returns the checksum that follows a segment's payload. It is the CRC-32 of Ethernet and zip (polynomial
// 04C11DB7), which hash/crc32 computes with the processor's instructions.
func payloadCRC(payload []byte) uint32 {
	return crc32.Update(crc32Initial, crc32.IEEETable, payload)
}
