package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// The frames of protocol v4, encoded here: nine bytes of header, then the body.

// Segments of v5 would add two checksums to each request, for client and server alike.
const (
	// Version, flags, stream (2), opcode, length (4).
	headerSize = 9
	opExecute  = 0x0A
	opResult   = 0x08
	// The kind of a RESULT without content.
	kindVoid = 1
	kindRows = 2
	// Flags of the query parameters of v4, one byte.
	flagValues   = 0x01
	flagSkipMeta = 0x02
	// A flag of the metadata of rows, unlike the two flags of the request above.
	metaMorePages = 0x02
)

// appendHeader starts an EXECUTE; endFrame sets its length. The frame has no flags: neither compression nor tracing.
func appendHeader(b []byte, stream uint16) []byte {
	return append(b, 4, 0, byte(stream>>8), byte(stream), opExecute, 0, 0, 0, 0)
}

// endFrame sets the length of the frame that begins at start and ends with b. The length does not include the header.
func endFrame(b []byte, start int) {
	binary.BigEndian.PutUint32(b[start+5:], uint32(len(b)-start-headerSize))
}

// appendExecute appends the part of an EXECUTE before its values. The prefix is the same for all requests of an
// operation, so it is encoded once:
//
//	id, as [short bytes] │ consistency (2) │ flags (1) │ number of values (2)
func appendExecute(b, id []byte, consistency uint16, values int) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(len(id)))
	b = append(b, id...)
	b = binary.BigEndian.AppendUint16(b, consistency)
	// Without metadata an answer is smaller, and need not be decoded to find the number of rows.
	b = append(b, flagValues|flagSkipMeta)
	return binary.BigEndian.AppendUint16(b, uint16(values))
}

// appendValue appends a value with its length of four bytes. It cannot encode null, which no workload writes.
func appendValue(b, v []byte) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(v))), v...)
}

// appendInt64 appends a value of a bigint. The value is big-endian, like all numbers of the protocol.
func appendInt64(b []byte, v int64) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(b, 8), uint64(v))
}

// appendInt32 appends a value of an int. A bigint column must not get it: the server refuses a value of the wrong size.
func appendInt32(b []byte, v int32) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(b, 4), uint32(v))
}

// frameReader reads answers from a connection through one buffer. It is used by one goroutine.
type frameReader struct {
	src io.Reader
	// Unread bytes are buf[start:end]. The buffer grows to the largest answer.
	buf        []byte
	start, end int
}

// buffered reports whether a whole answer is in the buffer, so that reading it does not block. It also decides when to
// write: see connection.
func (r *frameReader) buffered() bool {
	have := r.end - r.start
	return have >= headerSize && have-headerSize >= int(binary.BigEndian.Uint32(r.buf[r.start+5:]))
}

// next returns the header and body of the next answer; both are valid until the next call. The body points into the
// buffer.
func (r *frameReader) next() (header, body []byte, err error) {
	// After a Read that returned several answers, the next calls do not enter this loop, and make no system call.
	for !r.buffered() {
		if err := r.fill(); err != nil {
			return nil, nil, err
		}
	}
	header = r.buf[r.start : r.start+headerSize]
	n := int(binary.BigEndian.Uint32(header[5:]))
	body = r.buf[r.start+headerSize : r.start+headerSize+n]
	r.start += headerSize + n
	return header, body, nil
}

// fill reads once, after it has moved the unread bytes to the front. Moving is cheap: with whole answers in the buffer,
// hardly any bytes are unread when fill is called.
func (r *frameReader) fill() error {
	if r.start > 0 {
		r.end = copy(r.buf, r.buf[r.start:r.end])
		r.start = 0
	}
	if r.end == len(r.buf) {
		if len(r.buf) > 64<<20 {
			return errors.New("bench: an answer of more than 64 MiB")
		}
		// Twice the size and 64 KiB more.
		r.buf = append(r.buf, make([]byte, len(r.buf)+64<<10)...)
	}
	n, err := r.src.Read(r.buf[r.end:])
	r.end += n
	// An error that comes with bytes is returned by the next Read.
	if n > 0 {
		return nil
	}
	return err
}

// checkAnswer returns an error for an answer that does not have the given number of rows (0 for a write). It decodes as
// little as it can: the rows themselves are not looked at. An answer without metadata begins with numbers of four
// bytes:
//
//	kind │ flags of the metadata │ columns │ rows │ …
func checkAnswer(header, body []byte, rows int) error {
	// An ERROR has a code of four bytes, and a message with its length of two.
	if header[4] != opResult {
		if len(body) > 6 {
			return fmt.Errorf("bench: error %#04x: %s", binary.BigEndian.Uint32(body), body[6:])
		}
		return fmt.Errorf("bench: opcode %#x", header[4])
	}
	kind := binary.BigEndian.Uint32(body)
	if rows == 0 {
		if kind != kindVoid {
			return fmt.Errorf("bench: a write answered with kind %d", kind)
		}
		return nil
	}
	if kind != kindRows || len(body) < 16 {
		return fmt.Errorf("bench: a read answered with kind %d", kind)
	}
	// The answer has metadata, so the number of rows is at an unknown place.
	if rows == anyRows {
		return nil
	}
	// Kind, metadata flags and column count come first; the metadata itself was not requested. 4 is no_metadata, which
	// flagSkipMeta has requested. A page that ended early would make the server look fast.
	if flags := binary.BigEndian.Uint32(body[4:]); flags&metaMorePages != 0 || flags&4 == 0 {
		return fmt.Errorf("bench: metadata flags %#x", flags)
	}
	if n := int(binary.BigEndian.Uint32(body[12:])); n != rows {
		return fmt.Errorf("bench: %d rows instead of %d", n, rows)
	}
	return nil
}
