package server

import (
	"bytes"
	"errors"
	"os"
	"time"

	"cqld/internal/memory"
	"cqld/server/buffer"
	"cqld/server/frame"
)

// reader reads the requests of a connection. Only the connection's reading goroutine uses it, so it has no locks.
// Bodies that it passes on are copies, because its input buffer is reused.
type reader struct {
	conn     *conn
	in       buffer.Input
	framed   bool      // v5 segments are used from here on
	waiting  bool      // a read deadline is set for the rest of a large request
	idleAt   time.Time // the deadline of armIdle; zero if none is set
	large    partial   // an envelope that spans several segments
	inflated []byte    // memory for decompressed segments
}

// next reads one envelope, or one v5 segment, and handles the requests in it.
func (r *reader) next() error {
	if r.framed {
		return r.readSegment()
	}
	return r.readEnvelope()
}

// close releases the memory of a connection that has ended.
func (r *reader) close() {
	r.large.held.End()
	r.in.Close()
}

// expectMore allows the client ReceiveTimeout to send more of a large request. Before READY the deadline of the
// handshake applies.
func (r *reader) expectMore() {
	if stage(r.conn.stage.Load()) == stageReady {
		r.waiting = true
		r.setReadDeadline(time.Now().Add(r.conn.server.limits.ReceiveTimeout))
	}
}

// expectNothing removes the deadline of expectMore: a client may be idle forever.
func (r *reader) expectNothing() {
	if r.waiting {
		// This also removes the deadline of armIdle, which is set again before the next request.
		r.waiting, r.idleAt = false, time.Time{}
		r.setReadDeadline(time.Time{})
	}
}

// setReadDeadline sets the deadline of the reader, unless it must stop.
func (r *reader) setReadDeadline(t time.Time) {
	// An error means that the socket is closed, which the next Read reports.
	r.conn.net.SetReadDeadline(t)
	if r.conn.stopping.Load() {
		r.conn.stop() // the deadline of stop may just have been replaced
	}
}

// errIdle ends a connection whose client was idle for IdleTimeout.
var errIdle = errors.New("the client was idle for too long")

// peekRequest waits for the first byte of a request, for at most IdleTimeout. A connection with requests in progress,
// or to which a reply or an event was sent meanwhile, is not idle.
func (r *reader) peekRequest() error {
	for {
		r.armIdle()
		_, err := r.in.Peek(1)
		// A deadline of the drain or of stop is not the deadline of armIdle.
		if err == nil || r.idleAt.IsZero() || !errors.Is(err, os.ErrDeadlineExceeded) || r.conn.stopping.Load() ||
			r.conn.drain.active.Load() {
			return err
		}
		r.idleAt = time.Time{}
		idle := r.conn.server.limits.IdleTimeout
		// An expired deadline only means that no request arrived. Replies and events are activity as well.
		if r.conn.executing.Load() == 0 && time.Since(r.conn.out.LastWrite()) >= idle-idle/idleSlack {
			s := r.conn.server
			s.limited[BoundIdle].Add(1)
			s.late.log(s.log, "a client connection is closed", "client", r.conn.client.String(), "reason", errIdle)
			return errIdle
		}
	}
}

// armIdle sets the deadline of peekRequest. It may be early by a part of the time-out, so that it is not set for each
// request.
func (r *reader) armIdle() {
	idle := r.conn.server.limits.IdleTimeout
	if idle <= 0 || r.in.Buffered() > 0 || stage(r.conn.stage.Load()) != stageReady {
		return
	}
	now := time.Now()
	// The current deadline is late enough.
	if now.Before(r.idleAt.Add(idle/idleSlack - idle)) {
		return
	}
	r.idleAt = now.Add(idle)
	r.setReadDeadline(r.idleAt)
	if r.conn.drain.active.Load() {
		r.conn.net.SetReadDeadline(time.Unix(1, 0)) // the deadline of drain may just have been replaced
	}
}

// readEnvelope reads and handles one envelope of v3 or v4, or one of v5 before its segments begin.
//
//	byte 0     version, with bit 7 set in responses
//	byte 1     flags
//	bytes 2-3  stream
//	byte 4     opcode
//	bytes 5-8  length of the body
//
// The layout is in section 2 of the native protocol v4.
func (r *reader) readEnvelope() error {
	first, err := r.in.Peek(1)
	if err != nil {
		return err
	}
	// Only the first byte is read: headers of other versions may be shorter.
	if _, err := frame.VersionOf(first[0]); err != nil {
		return r.refuseVersion(err)
	}
	raw, err := r.in.Next(frame.HeaderSize)
	if err != nil {
		return err
	}
	h, err := frame.DecodeHeader(raw)
	if err != nil {
		r.conn.refuse(h, err, memory.Held{})
		return errHangUp
	}
	// The header is validated before memory is reserved for the body.
	if fatal, err := r.conn.judge(h); err != nil {
		if stage(r.conn.stage.Load()) == stageStartup && r.conn.server.refusesVersion(h.Version) {
			h.Version = r.conn.server.limits.VersionMax // which the client may understand
		}
		r.conn.refuse(h, err, memory.Held{})
		if fatal {
			return errHangUp
		}
		// The next header follows the body, so the connection can continue.
		return r.in.Skip(h.Length)
	}
	body, charge, err := r.readBody(h.Length)
	// readBody has skipped the body.
	if errors.Is(err, errOverloaded) {
		r.conn.refuse(h, err, memory.Held{})
		return nil
	}
	if err != nil {
		return err
	}
	return r.handle(h, body, charge)
}

// refuseVersion answers an envelope of an unsupported version. Versions 1 and 2 have one byte for the stream, so the
// answer has their layout.
func (r *reader) refuseVersion(err error) error {
	var unsupported *frame.UnsupportedVersion
	if !errors.As(err, &unsupported) {
		return err
	}
	unsupported.Newest = r.conn.server.newestVersion()
	size := frame.HeaderSize
	// In these versions, the stream is one signed byte at offset 2.
	if unsupported.Version == 1 || unsupported.Version == 2 {
		size = frame.LegacyHeaderSize
	}
	raw, err := r.in.Next(size)
	if err != nil {
		return err
	}
	if size == frame.LegacyHeaderSize {
		r.conn.out.Send(frame.AppendUnsupportedVersion(nil, unsupported, int16(int8(raw[2]))), memory.Held{})
		return errHangUp
	}
	// Future versions are likely to have the same header.
	raw = append([]byte{byte(frame.V5)}, raw[1:]...)
	h, err := frame.DecodeHeader(raw)
	r.conn.out.Send(frame.AppendUnsupportedVersion(nil, unsupported, h.Stream), memory.Held{})
	// The bytes may not be a header at all, so only a plausible length is skipped.
	if err != nil || h.Length > handshakeFrameMax {
		return errHangUp
	}
	return r.in.Skip(h.Length)
}

// takeBody is readBody for a body in memory that the reader reuses: it copies the body, and the request owns the
// copy.
func (r *reader) takeBody(b []byte) (body []byte, charge memory.Held, err error) {
	// Memory is reserved before the copy is made.
	charge, ok := r.reserveRequest(requestOverhead + int64(len(b)))
	if !ok {
		return nil, charge, errOverloaded
	}
	return bytes.Clone(b), charge, nil
}
