package cqlclient

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
)

// Protocol v5 transports envelopes in segments: 3 bytes of header (17 bits length, 1 bit self-contained), CRC24 of
// them, the payload, CRC32 of the payload; little-endian, unlike the envelopes.

// maxSegment is the maximum size of a payload, and the mask of its length.
const maxSegment = 1<<17 - 1

// crc24 is the checksum of a segment's header, computed bit by bit: it shares no code with the server under test. The
// polynomial is 0x1974F0B and the initial value 0x875060, as in Cassandra's Crc.java; bytes enter from the high end.
func crc24(data []byte) uint32 {
	crc := uint32(0x875060)
	for _, b := range data {
		crc ^= uint32(b) << 16
		for range 8 {
			crc <<= 1
			if crc&0x1000000 != 0 {
				crc ^= 0x1974F0B
			}
		}
	}
	return crc
}

// payloadCRC is the CRC32 of a payload, which begins with four fixed bytes that are not sent, as in
// Cassandra's Crc.java.
func payloadCRC(data []byte) uint32 {
	return crc32.Update(crc32.ChecksumIEEE([]byte{0xFA, 0x2D, 0x55, 0xCA}), crc32.IEEETable, data)
}

// appendSegments encodes one envelope: as one self-contained segment, or in slices if it is larger than a segment. The
// layout of one segment:
//
//	0      3        6              6+n        10+n
//	│length│ CRC24  │ payload (n)  │ CRC32    │
//	│ +flag│ of 0..3│              │ of 6..6+n│
func appendSegments(dst, envelope []byte) []byte {
	// The bit after the 17 bits of the length.
	self := uint32(1)
	if len(envelope) > maxSegment {
		self = 0
	}
	for len(envelope) > 0 {
		n := min(len(envelope), maxSegment)
		// Bit 17, self-contained: the payload contains whole envelopes only.
		h := uint32(n) | self<<17
		head := []byte{byte(h), byte(h >> 8), byte(h >> 16)}
		c := crc24(head)
		dst = append(dst, head...)
		dst = append(dst, byte(c), byte(c>>8), byte(c>>16))
		dst = append(dst, envelope[:n]...)
		dst = binary.LittleEndian.AppendUint32(dst, payloadCRC(envelope[:n]))
		envelope = envelope[n:]
	}
	return dst
}

// segmentReader returns the verified payloads of segments. It does not look at the flag: payloads are a stream of bytes
// for the caller. An envelope may begin in one segment and end in another.
type segmentReader struct {
	src io.Reader
	// The unread part of the current payload.
	rest []byte
}

// Read implements io.Reader: the payloads one after the other, so that envelopes are read as without segments. A
// checksum that does not match is an error that ends the connection, as the specification requires.
func (s *segmentReader) Read(p []byte) (int, error) {
	for len(s.rest) == 0 {
		// Three bytes of length and flag, three of their CRC.
		var head [6]byte
		if _, err := io.ReadFull(s.src, head[:]); err != nil {
			return 0, err
		}
		// All numbers of a segment are little-endian.
		if crc24(head[:3]) != uint32(head[3])|uint32(head[4])<<8|uint32(head[5])<<16 {
			return 0, errors.New("cqlclient: wrong CRC24 in a segment header")
		}
		// The flag is cut off.
		n := (uint32(head[0]) | uint32(head[1])<<8 | uint32(head[2])<<16) & maxSegment
		body := make([]byte, n+4)
		if _, err := io.ReadFull(s.src, body); err != nil {
			return 0, err
		}
		if payloadCRC(body[:n]) != binary.LittleEndian.Uint32(body[n:]) {
			return 0, errors.New("cqlclient: wrong CRC32 in a segment")
		}
		s.rest = body[:n]
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}
