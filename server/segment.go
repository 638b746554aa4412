package server

import (
	"errors"
	"fmt"
	"time"

	"cqld/internal/intake"
	"cqld/internal/memory"
	"cqld/server/frame"
)

// partial is a v5 envelope that spans several segments.
type partial struct {
	header header
	body   []byte
	held   *intake.Body // its memory; nil if there is no such envelope
	until  time.Time    // when it must be complete
	skip   int          // bytes still to skip, if the envelope was refused
}

// segmentCompressor returns the compressor for AppendSegments on this connection.
func (c *conn) segmentCompressor() *frame.Compressor {
	if c.compression == frame.LZ4 {
		return c.server.compressor
	}
	return nil
}

// readSegment reads one v5 segment and handles the envelopes in it.
func (c *conn) readSegment() error {
	lz4 := c.compression == frame.LZ4
	raw, err := c.in.next(frame.SegmentHeaderSize(lz4))
	if err != nil {
		return err
	}
	sh, err := frame.DecodeSegmentHeader(raw, lz4)
	if err != nil {
		return c.corrupt("unrecoverable CRC mismatch detected in frame header")
	}
	if stage(c.stage.Load()) != stageReady && max(sh.PayloadLength, sh.UncompressedLength) > handshakeFrameMax {
		return c.corrupt("frame is too big before authentication")
	}
	n := sh.PayloadLength + frame.SegmentTrailerSize
	arriving := n > readBufferLarge && n > c.in.buffered()
	var held *intake.Body
	if n := segmentMemory(sh, arriving); n > 0 && c.large.held == nil { // otherwise the envelope's memory is used
		held, err = c.server.small.Admit(n, c.served.Load(), c.tooSlow, c.halt)
		if err != nil {
			c.refuse(header{Version: c.version}, errOverloaded, memory.Held{})
			return errHangUp // the requests in the segment are unknown
		}
		defer held.End()
	}
	if arriving || c.large.held != nil {
		c.expectSegment()
	}
	raw, err = c.in.next(n)
	if err != nil {
		return err
	}
	held.Complete() // what it may wait for from here is memory, not its client
	payload, err := frame.SegmentPayload(raw, sh)
	if err != nil {
		return c.corrupt("unrecoverable CRC mismatch detected in frame body")
	}
	if sh.UncompressedLength > 0 {
		payload, err = frame.AppendSegmentPayload(c.inflated[:0], raw, sh)
		if err != nil {
			return c.corrupt("frame body cannot be decompressed")
		}
		c.inflated = payload
	}
	if sh.SelfContained {
		err = c.handleWhole(payload)
	} else {
		err = c.handleSlice(payload)
	}
	if cap(c.inflated) > readBufferLarge {
		c.inflated = nil // a quiet connection keeps no large buffer
	}
	if c.large.held == nil {
		c.expectNothing()
	} else {
		c.expectSegment()
	}
	return err
}

// segmentMemory returns the memory that a segment needs for reception and decompression, beyond the memory that every
// connection may use.
func segmentMemory(h frame.SegmentHeader, arriving bool) (n int64) {
	if arriving {
		n = int64(h.PayloadLength)
	}
	if h.UncompressedLength > readBufferLarge {
		n += int64(h.UncompressedLength)
	}
	return n
}

// expectSegment allows the client ReceiveTimeout for a segment, and for an envelope of several segments in total.
func (c *conn) expectSegment() {
	if c.large.held == nil {
		c.expectMore()
		return
	}
	c.waiting = true
	c.setReadDeadline(c.large.until)
}

// corrupt answers, on stream 0, input after which no further envelope can be found.
func (c *conn) corrupt(message string) error {
	c.refuse(header{Version: c.version}, &frame.ProtocolError{Message: message}, memory.Held{})
	return errHangUp
}

// handleWhole handles the payload of a self-contained segment.
func (c *conn) handleWhole(payload []byte) error {
	if c.large.held != nil || c.large.skip > 0 {
		return c.corrupt("self-contained frame received within a message that spans several")
	}
	for len(payload) > 0 {
		h, err := c.segmentHeader(payload)
		if err != nil {
			return err
		}
		payload = payload[frame.HeaderSize:]
		if h.Length > len(payload) {
			return c.corrupt("message is longer than the self-contained frame that carries it")
		}
		body := payload[:h.Length]
		payload = payload[h.Length:]
		if fatal, err := c.judge(h); err != nil {
			c.refuse(h, err, memory.Held{})
			if fatal {
				return errHangUp
			}
			continue
		}
		owned, charge, err := c.takeBody(body)
		if err != nil {
			c.refuse(h, err, memory.Held{})
			continue
		}
		if err := c.handle(h, owned, charge); err != nil {
			return err
		}
	}
	return nil
}

// segmentHeader decodes the envelope header at the beginning of a payload.
func (c *conn) segmentHeader(payload []byte) (header, error) {
	if len(payload) < frame.HeaderSize {
		return header{}, c.corrupt("frame is too short for a message header")
	}
	h, err := frame.DecodeHeader(payload)
	var unsupported *frame.UnsupportedVersion
	if errors.As(err, &unsupported) {
		err = versionMismatch(frame.Version(unsupported.Version), c.version)
	}
	if err != nil {
		c.refuse(header{Version: c.version, Stream: h.Stream}, err, memory.Held{})
		return header{}, errHangUp
	}
	return h, nil
}

// handleSlice handles the payload of a segment that contains a part of an envelope.
func (c *conn) handleSlice(payload []byte) error {
	l := &c.large
	if l.skip > 0 {
		l.skip -= min(l.skip, len(payload))
		return nil
	}
	if l.held == nil {
		return c.beginLarge(payload)
	}
	return c.appendLarge(payload)
}

// beginLarge handles the first slice, which contains the envelope's header.
func (c *conn) beginLarge(payload []byte) error {
	h, err := c.segmentHeader(payload)
	if err != nil {
		return err
	}
	payload = payload[frame.HeaderSize:]
	if fatal, err := c.judge(h); err != nil {
		c.refuse(h, err, memory.Held{})
		if fatal {
			return errHangUp
		}
		c.large = partial{skip: max(0, h.Length-len(payload))}
		return nil
	}
	c.large = partial{header: h}
	held, err := c.server.large.Admit(int64(max(h.Length, 1)), c.served.Load(), c.tooSlow, c.halt)
	if err != nil {
		return c.abandonLarge(h.Length - len(payload))
	}
	c.large.held, c.large.until = held, time.Now().Add(c.server.limits.ReceiveTimeout)
	c.large.body = make([]byte, 0, h.Length)
	return c.appendLarge(payload)
}

// appendLarge adds a slice and handles the envelope when it is complete.
func (c *conn) appendLarge(payload []byte) error {
	l := &c.large
	missing := l.header.Length - len(l.body)
	if len(payload) > missing {
		return c.corrupt(fmt.Sprintf("message of %d bytes is followed by others in its last frame", l.header.Length))
	}
	l.body = append(l.body, payload...)
	l.held.Received(len(payload))
	if len(payload) < missing {
		return nil
	}
	l.held.Complete()
	charge, ok := c.reserveRequest(requestOverhead + int64(len(l.body)))
	if !ok {
		return c.abandonLarge(0)
	}
	done := *l
	*l = partial{}
	done.held.End()
	return c.handle(done.header, done.body, charge)
}

// abandonLarge refuses an envelope for which there is no memory. The following rest bytes of it are skipped.
func (c *conn) abandonLarge(rest int) error {
	l := &c.large
	l.held.End()
	c.refuse(l.header, errOverloaded, memory.Held{})
	*l = partial{skip: max(0, rest)}
	return nil
}
