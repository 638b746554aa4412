package frame

import (
	"encoding/binary"
	"errors"

	"cqld/internal/wire"
)

// Sizes of a v5 segment. All are in bytes.
const (
	// SegmentPayloadMax is the maximum size of a payload before compression.
	SegmentPayloadMax = 1<<17 - 1
	// SegmentTrailerSize is the size of the CRC32 after the payload.
	SegmentTrailerSize = 4
	// SegmentHeaderMax is the size of the larger of the two headers.
	SegmentHeaderMax = segmentFieldsLZ4 + segmentCRC

	segmentFieldsPlain = 3
	segmentFieldsLZ4   = 5
	segmentCRC         = 3
)

// For fewer bytes LZ4 does not make rows smaller: the segment is then sent uncompressed inside the compressed
// framing.
const segmentCompressMin = 512

// The errors of a segment. After a bad header, the following segments cannot be found; after a bad payload they can.
var (
	ErrSegmentHeader  = errors.New("frame: segment header checksum mismatch")
	ErrSegmentPayload = errors.New("frame: segment payload checksum mismatch")
	ErrSegmentLZ4     = errors.New("frame: segment payload cannot be decompressed")
)

// SegmentHeader is the decoded header of a v5 segment. A segment that is not self-contained has a part of one envelope,
// and the parts follow each other.
//
//	without LZ4   payload length 17 bits | self-contained 1 bit | zeros 6 bits
//	with LZ4      compressed length 17 bits | uncompressed length 17 bits | self-contained 1 bit | zeros 5 bits
//
// The CRC24 follows. All is little-endian, unlike everything inside the payload.
type SegmentHeader struct {
	PayloadLength      int  // bytes on the wire, without the trailer
	UncompressedLength int  // 0 if the payload is not compressed
	SelfContained      bool // the payload consists of whole envelopes
}

// SegmentHeaderSize returns the size of a segment header. It depends on whether LZ4 was negotiated, not on whether
// this segment uses it.
func SegmentHeaderSize(lz4 bool) int {
	if lz4 {
		return segmentFieldsLZ4 + segmentCRC
	}
	return segmentFieldsPlain + segmentCRC
}

// DecodeSegmentHeader decodes and verifies the header at the start of b. It fails with wire.ErrShort or
// ErrSegmentHeader. The lengths are bounded by their 17 bits, so no further check is needed before a buffer is
// allocated.
func DecodeSegmentHeader(b []byte, lz4 bool) (SegmentHeader, error) {
	size := SegmentHeaderSize(lz4)
	if len(b) < size {
		return SegmentHeader{}, wire.ErrShort
	}
	fields := size - segmentCRC
	// Both headers fit eight bytes, little-endian: fields low, CRC24 above.
	var all [8]byte
	copy(all[:], b[:size])
	word := binary.LittleEndian.Uint64(all[:])
	value := word & (1<<(8*fields) - 1)
	// Checked before any field is used: a wrong length would be read as the beginning of another segment.
	if uint32(word>>(8*fields)) != crc24(value, fields) {
		return SegmentHeader{}, ErrSegmentHeader
	}
	// SegmentPayloadMax is also the mask of the 17 bits of a length.
	h := SegmentHeader{PayloadLength: int(value & SegmentPayloadMax)}
	if lz4 {
		h.UncompressedLength = int(value >> 17 & SegmentPayloadMax)
		h.SelfContained = value>>34&1 != 0
	} else {
		h.SelfContained = value>>17&1 != 0
	}
	return h, nil
}

// AppendSegmentPayload verifies the payload and trailer of a segment, which b must consist of, and appends the
// payload's envelopes to dst.
func AppendSegmentPayload(dst, b []byte, h SegmentHeader) ([]byte, error) {
	payload, err := SegmentPayload(b, h)
	if err != nil {
		return dst, err
	}
	// Zero means that the payload is stored as it is. §2.3.2 of the specification says otherwise; §2.2 and Cassandra's
	// code agree on it.
	if h.UncompressedLength == 0 {
		return append(dst, payload...), nil
	}
	return appendLZ4Decompressed(dst, payload, h.UncompressedLength)
}

// SegmentPayload verifies the payload and trailer of a segment, which b must consist of, and returns the payload
// without decompressing it. The payload points into b.
func SegmentPayload(b []byte, h SegmentHeader) ([]byte, error) {
	if len(b) != h.PayloadLength+SegmentTrailerSize {
		return nil, wire.ErrShort
	}
	payload := b[:h.PayloadLength]
	// The checksum covers the bytes on the wire, so it is verified before they are decompressed.
	if payloadCRC(payload) != binary.LittleEndian.Uint32(b[h.PayloadLength:]) {
		return nil, ErrSegmentPayload
	}
	return payload, nil
}

// AppendSegments appends the segments for envelopes, a concatenation of whole ones: as many per segment as fit, and a
// larger one in slices. lz4 is the compressor if LZ4 was negotiated, otherwise nil. The envelopes must be complete,
// because their headers say where each ends. It copies the envelopes once. An envelope of more than SegmentPayloadMax
// bytes has segments of its own.
func AppendSegments(dst, envelopes []byte, lz4 *Compressor) []byte {
	for len(envelopes) > 0 {
		// Small envelopes share a segment, which saves checksums and headers.
		n := wholeEnvelopes(envelopes)
		if n > 0 {
			dst = appendSegment(dst, envelopes[:n], true, lz4)
			envelopes = envelopes[n:]
			continue
		}
		// A receiver collects slices until the length in the header of the envelope is reached.
		large := envelopes[:envelopeSize(envelopes)]
		envelopes = envelopes[len(large):]
		for len(large) > 0 {
			n := min(len(large), SegmentPayloadMax)
			dst = appendSegment(dst, large[:n], false, lz4)
			large = large[n:]
		}
	}
	return dst
}

// AppendSegmentSlice appends one segment with a part of an envelope that is larger than SegmentPayloadMax. The part has
// at most that size.
func AppendSegmentSlice(dst, part []byte, lz4 *Compressor) []byte {
	return appendSegment(dst, part, false, lz4)
}

// wholeEnvelopes returns the size of the leading envelopes that fit into one segment, or 0 if the first one does not.
// Usually everything fits, and no header is read. b begins with an envelope.
func wholeEnvelopes(b []byte) int {
	if len(b) <= SegmentPayloadMax {
		return len(b)
	}
	// An envelope is never split if it fits into a segment of its own, because self-contained segments hold whole
	// envelopes only.
	total := 0
	for {
		n := envelopeSize(b[total:])
		if total+n > SegmentPayloadMax {
			return total
		}
		total += n
	}
}

// appendSegment appends one segment.
func appendSegment(dst, payload []byte, selfContained bool, lz4 *Compressor) []byte {
	if lz4 == nil {
		// 17 bits of length, and one that says that the payload is self-contained; the rest of the three bytes is zero.
		value := uint64(len(payload))
		if selfContained {
			value |= 1 << 17
		}
		dst = appendSegmentHeader(dst, value, segmentFieldsPlain)
		dst = append(dst, payload...)
		return binary.LittleEndian.AppendUint32(dst, payloadCRC(payload))
	}
	start := len(dst)
	// Room for the header, which depends on the size after compression.
	dst = append(dst, make([]byte, segmentFieldsLZ4+segmentCRC)...)
	body := len(dst)
	uncompressed, smaller := 0, false
	if len(payload) >= segmentCompressMin {
		dst, smaller = lz4.appendLZ4Block(dst, payload)
	}
	// A length of 0 says that the payload is not compressed.
	if smaller {
		uncompressed = len(payload)
	} else {
		dst = append(dst, payload...)
	}
	// Two lengths of 17 bits each, then the flag, in five bytes.
	value := uint64(len(dst)-body) | uint64(uncompressed)<<17
	if selfContained {
		value |= 1 << 34
	}
	// Overwrites the room; the result is not needed, because the capacity suffices.
	appendSegmentHeader(dst[:start], value, segmentFieldsLZ4)
	return binary.LittleEndian.AppendUint32(dst, payloadCRC(dst[body:]))
}

// appendSegmentHeader appends the fields and their CRC24, little-endian.
func appendSegmentHeader(dst []byte, value uint64, fields int) []byte {
	word := value | uint64(crc24(value, fields))<<(8*fields)
	for range fields + segmentCRC {
		dst = append(dst, byte(word))
		word >>= 8
	}
	return dst
}
