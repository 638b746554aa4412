package messaging

import (
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"sync"
	"sync/atomic"

	"cqld/internal/invariant"
	"cqld/internal/wire"
)

// link sends and receives the envelopes of one connection. Senders append to a buffer under a lock. One goroutine
// writes all that was appended since its last write with one call, so that a burst costs one system call. The goroutine
// that reads the connection parses and handles envelopes in its receive buffer.
type link struct {
	t    *StreamTransport
	conn net.Conn
	// bound reports whether the peer is a member: the clock does not follow unknown peers. nil means that this node
	// opened the connection.
	bound *atomic.Bool
	ready chan struct{} // capacity 1: there is something to write, or the link is closed

	received, written atomic.Int64 // bytes
	keepalive         keepalive

	mu struct {
		sync.Mutex
		// buf grows as senders append, and is exchanged as a whole with the writer's empty one.
		buf     []byte // complete frames without stamps and checksums
		frame   int    // offset of the last frame in buf
		writing int    // bytes that the writer has taken and not written yet
		idle    bool   // the writer waits for ready
		closed  bool
	}
}

// newLink returns a link that does not write yet.
func newLink(t *StreamTransport, conn net.Conn, bound *atomic.Bool) *link {
	return &link{t: t, conn: conn, bound: bound, ready: make(chan struct{}, 1)}
}

// errQueueFull means that too many bytes wait to be written to the peer.
var errQueueFull = errors.New("messaging: queue to peer is full")

// errTooLarge means that an envelope exceeds Limits.FrameBytes or Limits.QueuedBytes.
var errTooLarge = errors.New("messaging: the message is too large")

// send queues e and copies its payload. It never waits.
func (l *link) send(e *envelope) error {
	size := envelopeHeader + len(e.payload)
	// The envelope would never fit, so the error differs from the one for a full queue.
	if size+frameStamp > l.t.limits.FrameBytes || size+frameHeader > l.t.limits.QueuedBytes {
		return fmt.Errorf("%w: %d bytes", errTooLarge, len(e.payload))
	}
	l.mu.Lock()
	// Nothing is queued after close, so that after dropQueued no bytes are counted.
	if l.mu.closed {
		l.mu.Unlock()
		return ErrUnreachable
	}
	// The header is counted although the envelope may share a frame: the bound must hold in every case.
	if len(l.mu.buf)+l.mu.writing+size+frameHeader > l.t.limits.QueuedBytes {
		l.mu.Unlock()
		return errQueueFull
	}
	// The first frame of each peer is always admitted: a slow peer must not silence the others.
	if n := len(l.mu.buf) + l.mu.writing; n+size > frameTarget && !l.t.admits(int64(size)) {
		l.mu.Unlock()
		return errQueueFull
	}
	before := len(l.mu.buf)
	// Small envelopes share a frame, and with it a checksum.
	if len(l.mu.buf) == 0 || len(l.mu.buf)-l.mu.frame+size > frameTarget {
		l.mu.frame = len(l.mu.buf)
		l.mu.buf = beginFrame(l.mu.buf)
	}
	l.mu.buf = appendEnvelope(l.mu.buf, e)
	setFrameLength(l.mu.buf[l.mu.frame:])
	l.t.queued.Add(int64(len(l.mu.buf) - before))
	// Only the first sender after the writer became idle wakes it.
	wake := l.mu.idle
	l.mu.idle = false
	l.mu.Unlock()
	if wake {
		l.wake()
	}
	return nil
}

// wake makes the writer check the buffer. One value in the channel suffices for any number of senders.
func (l *link) wake() {
	select {
	case l.ready <- struct{}{}:
	default:
	}
}

// run starts the writer and the keepalive. stop ends them and the connection, and waits for the writer.
func (l *link) run() (stop func()) {
	var writer sync.WaitGroup
	writer.Go(func() {
		if l.write() != nil {
			l.close() // the reader ends, too
		}
	})
	l.keepalive.start(l)
	return func() {
		l.close()
		writer.Wait()
		// The writer has ended, so nothing else changes the counts.
		l.dropQueued()
	}
}

// unqueue subtracts bytes that are no longer queued.
func (l *link) unqueue(n int64) {
	left := l.t.queued.Add(-n)
	invariant.Check(left >= 0, "messaging: more bytes leave the queues than entered")
}

// dropQueued drops the queued bytes of a closed link whose writer has ended.
func (l *link) dropQueued() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unqueue(int64(len(l.mu.buf) + l.mu.writing))
	l.mu.buf, l.mu.writing = nil, 0
}

// admits reports whether n more bytes may be queued for all peers together.
func (t *StreamTransport) admits(n int64) bool {
	return t.limits.QueuedTotal == 0 || t.queued.Load()+n <= int64(t.limits.QueuedTotal)
}

// Memory returns the sum of three sizes in bytes: data that waits to be written to all peers, large frames that are
// being received or handled, and requests that wait for a worker or run.
func (t *StreamTransport) Memory() int64 {
	received, _ := t.memory.Used()
	return t.queued.Load() + received + t.pool.held()
}

// close makes the writer return, and ends the connection. Queued bytes are dropped. The reader returns as well.
func (l *link) close() {
	l.mu.Lock()
	l.mu.closed = true
	l.mu.Unlock()
	l.wake()
	l.keepalive.stop()
	_ = l.conn.Close() // it is closed even after an error
}

// write sends queued frames until the link is closed or the connection breaks.
func (l *link) write() error {
	var buf []byte
	for {
		runtime.Gosched() // other senders that are about to run share the write
		var closed bool
		if buf, closed = l.take(buf); closed {
			return nil
		}
		if len(buf) == 0 {
			<-l.ready
			continue
		}
		// No lock is needed, because nothing else uses buf now.
		sealFrames(buf, l.t.opts.stamp())
		// The buffer is written in pieces, so that the keepalive sees the progress of a large one.
		for rest := buf; len(rest) > 0; {
			n, err := l.conn.Write(rest[:min(len(rest), writeMax)])
			if err != nil {
				return err
			}
			l.written.Add(int64(n))
			rest = rest[n:]
		}
	}
}

// take returns the queued frames, and leaves an empty buffer for later ones: it reuses written, which the writer has
// just written.
func (l *link) take(written []byte) (buf []byte, closed bool) {
	// A burst must not leave every link with a large buffer.
	if cap(written) > sendBufferKept {
		written = nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unqueue(int64(l.mu.writing))
	buf = l.mu.buf
	l.mu.buf, l.mu.frame, l.mu.writing = written[:0], 0, len(buf)
	l.mu.idle = len(buf) == 0
	return buf, l.mu.closed
}

// Read implements io.Reader for the frameReader of the link.
func (l *link) Read(b []byte) (int, error) {
	n, err := l.conn.Read(b)
	l.received.Add(int64(n))
	return n, err
}

// lengthMax returns the greatest length of a frame that the peer may currently send.
func (l *link) lengthMax() int {
	if l.bound != nil && !l.bound.Load() {
		return min(l.t.limits.UnknownPeerBytes, l.t.limits.FrameBytes)
	}
	return l.t.limits.FrameBytes
}

// read calls f for every envelope until the connection ends. A payload is valid until f returns. read returns nil when
// the connection ended between two frames.
func (l *link) read(f func(envelope)) error {
	frames := frameReader{src: l, lengthMax: l.lengthMax, memory: l.t.memory, abort: l.close, stop: l.t.stop}
	defer frames.release()
	for {
		frame, err := frames.next()
		if err != nil {
			if err == io.EOF { //nolint:errorlint // an error that wraps it is within a frame
				return nil
			}
			return err
		}
		c := wire.NewCursor(frame)
		// An unknown peer could move the clock of this node forward.
		if stamp := c.Int64(); l.bound == nil || l.bound.Load() {
			l.t.opts.observe(stamp)
		}
		for c.Len() > 0 {
			e := consumeEnvelope(&c)
			// The checksum was correct, so the peer itself violates the protocol, and the connection ends.
			if err := c.Err(); err != nil {
				return err
			}
			switch e.kind {
			case ping:
				_ = l.send(&envelope{kind: pong}) // a peer whose queue is full does not read, and its ping may fail
			case pong: // its bytes are counted
			default:
				f(e)
			}
		}
	}
}

// waiting reports whether bytes wait to be written.
func (l *link) waiting() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.mu.buf)+l.mu.writing > 0
}
