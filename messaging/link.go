package messaging

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"

	"cqld/internal/wire"
)

// stream is the part of a gRPC client or server stream that a link uses.
type stream interface {
	SendMsg(any) error
	RecvMsg(any) error
}

// link writes envelopes to one stream. Callers append under a lock, and one goroutine writes everything that is ready
// as one frame, so that a burst costs one write.
type link struct {
	t     *GRPC
	ready chan struct{} // capacity 1: signals that envelopes are queued or the link is closed
	// bound reports whether the peer is a member: the clock does not follow strangers. Nil means that this node
	// opened the stream.
	bound *atomic.Bool
	mu    struct {
		sync.Mutex
		buf    *[]byte
		closed bool
	}
}

func newLink(t *GRPC, bound *atomic.Bool) *link {
	return &link{t: t, ready: make(chan struct{}, 1), bound: bound}
}

var errQueueFull = errors.New("messaging: queue to peer is full")

// send queues e; it never blocks.
func (l *link) send(e envelope) error {
	l.mu.Lock()
	if l.mu.closed {
		l.mu.Unlock()
		return ErrUnreachable
	}
	if l.mu.buf == nil {
		l.mu.buf = l.t.codec.pool.Get(0)
		*l.mu.buf = wire.AppendInt64((*l.mu.buf)[:0], 0) // space for the stamp
	}
	if len(*l.mu.buf)+len(e.payload) > l.t.limits.QueuedBytes {
		l.mu.Unlock()
		return errQueueFull
	}
	first := len(*l.mu.buf) == 8
	*l.mu.buf = appendEnvelope(*l.mu.buf, e)
	l.mu.Unlock()
	if first {
		l.wake()
	}
	return nil
}

func (l *link) wake() {
	select {
	case l.ready <- struct{}{}:
	default:
	}
}

// close makes the writer return and drops the queued envelopes.
func (l *link) close() {
	l.mu.Lock()
	l.mu.closed = true
	l.mu.Unlock()
	l.wake()
}

// write sends the queued envelopes until the link closes or the stream ends.
func (l *link) write(s stream) error {
	for range l.ready {
		l.mu.Lock()
		buf, closed := l.mu.buf, l.mu.closed
		l.mu.buf = nil
		l.mu.Unlock()
		if closed {
			return nil
		}
		if buf == nil {
			continue
		}
		wire.AppendInt64((*buf)[:0], l.t.stamp())
		if err := s.SendMsg(&frame{*buf}); err != nil {
			return err
		}
	}
	return nil
}

// read passes every envelope of the stream to f until the stream ends. A payload is valid until f returns.
func (l *link) read(s stream, f func(envelope)) error {
	var fr frame
	for {
		if err := s.RecvMsg(&fr); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		c := wire.NewCursor(fr.b)
		if stamp := c.Int64(); l.bound == nil || l.bound.Load() {
			l.t.observe(stamp)
		}
		for c.Len() > 0 {
			e := consumeEnvelope(&c)
			if c.Err() != nil {
				break
			}
			f(e)
		}
		if err := c.Err(); err != nil {
			return err
		}
	}
}
