package server

import (
	"errors"
	"fmt"
	"time"

	"cqld/internal/intake"
	"cqld/internal/memory"
	"cqld/server/buffer"
	"cqld/server/frame"
)

// partial is a v5 envelope that spans several segments. There is at most one for each connection, because slices are
// not interleaved. skip and held are never set together.
type partial struct {
	header header
	body   []byte
	held   *intake.Body // its memory; nil if there is no such envelope
	until  time.Time    // when it must be complete
	skip   int          // bytes still to skip, if the envelope was refused
}

// readSegment reads one v5 segment and handles the envelopes in it.
//
//	header    3 bytes of length and flags (5 with LZ4), 3 bytes of CRC-24
//	payload   up to 128 KiB - 1 bytes: envelopes, or a slice of one
//	trailer   4 bytes of CRC-32 of the payload
//
// A wrong header checksum is fatal: the length cannot be trusted, so the next segment cannot be found.
func (r *reader) readSegment() error {
	lz4 := r.conn.compression == frame.LZ4
	raw, err := r.in.Next(frame.SegmentHeaderSize(lz4))
	if err != nil {
		return err
	}
	sh, err := frame.DecodeSegmentHeader(raw, lz4)
	if err != nil {
		return r.corrupt("unrecoverable CRC mismatch detected in frame header")
	}
	// The envelope's header is inside the segment, so judge would be called too late.
	if stage(r.conn.stage.Load()) != stageReady && max(sh.PayloadLength, sh.UncompressedLength) > handshakeFrameMax {
		return r.corrupt("frame is too big before authentication")
	}
	n := sh.PayloadLength + frame.SegmentTrailerSize
	// It needs a larger buffer while the rest arrives.
	arriving := n > buffer.Large && n > r.in.Buffered()
	var held *intake.Body
	if n := segmentMemory(sh, arriving); n > 0 && r.large.held == nil { // otherwise the envelope's memory is used
		held, err = r.conn.server.small.Admit(n, r.conn.served.Load(), r.tooSlow, r.conn.halt)
		if err != nil {
			r.conn.refuse(header{Version: r.conn.version}, errOverloaded, memory.Held{})
			return errHangUp // the requests in the segment are unknown
		}
		defer held.End()
	}
	if arriving || r.large.held != nil {
		r.expectSegment()
	}
	// raw is valid until the next read of the input; requests copy their bodies from it.
	raw, err = r.in.Next(n)
	if err != nil {
		return err
	}
	held.Complete() // from here it waits for memory, not for its client
	payload, err := frame.SegmentPayload(raw, sh)
	if err != nil {
		return r.corrupt("unrecoverable CRC mismatch detected in frame body")
	}
	if sh.UncompressedLength > 0 {
		payload, err = frame.AppendSegmentPayload(r.inflated[:0], raw, sh)
		if err != nil {
			return r.corrupt("frame body cannot be decompressed")
		}
		r.inflated = payload
	}
	if sh.SelfContained {
		err = r.handleWhole(payload)
	} else {
		err = r.handleSlice(payload)
	}
	if cap(r.inflated) > buffer.Large {
		r.inflated = nil // a quiet connection keeps no large buffer
	}
	if r.large.held == nil {
		r.expectNothing()
	} else {
		r.expectSegment()
	}
	return err
}

// segmentMemory returns the memory that a segment needs for reception and decompression, beyond the memory that every
// connection may use. A segment of a usual size needs none.
func segmentMemory(h frame.SegmentHeader, arriving bool) (n int64) {
	if arriving {
		n = int64(h.PayloadLength)
	}
	if h.UncompressedLength > buffer.Large {
		n += int64(h.UncompressedLength)
	}
	return n
}

// expectSegment allows the client ReceiveTimeout for a segment, and for an envelope of several segments in total.
func (r *reader) expectSegment() {
	if r.large.held == nil {
		r.expectMore()
		return
	}
	r.waiting = true
	r.setReadDeadline(r.large.until)
}

// corrupt answers, on stream 0, input after which no further envelope can be found. The client sees an error before the
// end of the connection.
func (r *reader) corrupt(message string) error {
	r.conn.refuse(header{Version: r.conn.version}, &frame.ProtocolError{Message: message}, memory.Held{})
	return errHangUp
}

// handleWhole handles the payload of a self-contained segment. Each envelope is answered or refused individually; a
// malformed one ends the connection.
func (r *reader) handleWhole(payload []byte) error {
	// Slices of an envelope follow each other without other segments in between.
	if r.large.held != nil || r.large.skip > 0 {
		return r.corrupt("self-contained frame received within a message that spans several")
	}
	for len(payload) > 0 {
		h, err := r.segmentHeader(payload)
		if err != nil {
			return err
		}
		payload = payload[frame.HeaderSize:]
		if h.Length > len(payload) {
			return r.corrupt("message is longer than the self-contained frame that carries it")
		}
		body := payload[:h.Length]
		payload = payload[h.Length:]
		if fatal, err := r.conn.judge(h); err != nil {
			r.conn.refuse(h, err, memory.Held{})
			if fatal {
				return errHangUp
			}
			continue
		}
		owned, charge, err := r.takeBody(body)
		if err != nil {
			r.conn.refuse(h, err, memory.Held{})
			continue
		}
		if err := r.handle(h, owned, charge); err != nil {
			return err
		}
	}
	return nil
}

// segmentHeader decodes the envelope header at the beginning of a payload.
func (r *reader) segmentHeader(payload []byte) (header, error) {
	if len(payload) < frame.HeaderSize {
		return header{}, r.corrupt("frame is too short for a message header")
	}
	h, err := frame.DecodeHeader(payload)
	if err != nil {
		r.refuseHeader(h, err)
		return header{}, errHangUp
	}
	return h, nil
}

// refuseHeader answers a header that cannot be decoded. It is not in segmentHeader because errors.As would have each
// header allocate.
func (r *reader) refuseHeader(h header, err error) {
	var unsupported *frame.UnsupportedVersion
	// The version was negotiated, so another one is an error of this connection only.
	if errors.As(err, &unsupported) {
		err = versionMismatch(frame.Version(unsupported.Version), r.conn.version)
	}
	r.conn.refuse(header{Version: r.conn.version, Stream: h.Stream}, err, memory.Held{})
}

// handleSlice handles the payload of a segment that contains a part of an envelope. After the last slice of a refused
// envelope, skip is 0 and the next segment is read as usual.
func (r *reader) handleSlice(payload []byte) error {
	l := &r.large
	if l.skip > 0 {
		// A refused envelope still arrives, and its slices are dropped.
		l.skip -= min(l.skip, len(payload))
		return nil
	}
	if l.held == nil {
		return r.beginLarge(payload)
	}
	return r.appendLarge(payload)
}

// beginLarge handles the first slice, which contains the envelope's header. The header of the envelope must be in the
// first slice.
func (r *reader) beginLarge(payload []byte) error {
	h, err := r.segmentHeader(payload)
	if err != nil {
		return err
	}
	payload = payload[frame.HeaderSize:]
	if fatal, err := r.conn.judge(h); err != nil {
		r.conn.refuse(h, err, memory.Held{})
		if fatal {
			return errHangUp
		}
		r.large = partial{skip: max(0, h.Length-len(payload))}
		return nil
	}
	r.large = partial{header: h}
	held, err := r.conn.server.large.Admit(int64(max(h.Length, 1)), r.conn.served.Load(), r.tooSlow, r.conn.halt)
	if err != nil {
		return r.abandonLarge(h.Length - len(payload))
	}
	r.large.held, r.large.until = held, time.Now().Add(r.conn.server.limits.ReceiveTimeout)
	// The body is allocated at its whole length, which the intake has admitted.
	r.large.body = make([]byte, 0, h.Length)
	return r.appendLarge(payload)
}

// appendLarge adds a slice and handles the envelope when it is complete.
func (r *reader) appendLarge(payload []byte) error {
	l := &r.large
	missing := l.header.Length - len(l.body)
	if len(payload) > missing {
		return r.corrupt(fmt.Sprintf("message of %d bytes is followed by others in its last frame", l.header.Length))
	}
	l.body = append(l.body, payload...)
	l.held.Received(len(payload))
	if len(payload) < missing {
		return nil
	}
	l.held.Complete()
	charge, ok := r.reserveRequest(requestOverhead + int64(len(l.body)))
	if !ok {
		return r.abandonLarge(0)
	}
	// The state is reset before the request is handled, which may send replies and end the connection.
	done := *l
	*l = partial{}
	done.held.End()
	return r.handle(done.header, done.body, charge)
}

// abandonLarge refuses an envelope for which there is no memory. The following rest bytes of it are skipped.
func (r *reader) abandonLarge(rest int) error {
	l := &r.large
	l.held.End()
	r.conn.refuse(l.header, errOverloaded, memory.Held{})
	*l = partial{skip: max(0, rest)}
	return nil
}
