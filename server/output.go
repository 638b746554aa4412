package server

import (
	"runtime"
	"sync"
	"time"

	"cqld/server/frame"
)

// output collects the envelopes of one connection and has them written, as
// many at once as are ready. A flusher goroutine runs only while there is
// something to write, so a quiet connection costs none.
type output struct {
	mu       sync.Mutex
	pending  []byte // whole envelopes
	unframed int    // of pending, the bytes that go without v5 segments
	charge   int64  // bytes to release when pending is written
	flushing bool   // a flusher runs and will see pending
	framed   bool   // v5, behind READY or AUTHENTICATE
	closed   bool   // nothing is appended any more
	broken   bool   // the socket failed: nothing is written any more

	flushers sync.WaitGroup
}

// send appends whole envelopes to the output and has them written. charge is
// what their requests have reserved, released once they are written.
func (c *conn) send(envelopes []byte, charge int64) { c.enqueue(envelopes, charge, false) }

// give is send for a slice the caller owns: it may be taken over instead of
// copied, and then give reports true and the caller must not use it again.
func (c *conn) give(envelopes []byte, charge int64) bool { return c.enqueue(envelopes, charge, true) }

func (c *conn) enqueue(envelopes []byte, charge int64, owned bool) (taken bool) {
	o := &c.out
	o.mu.Lock()
	if o.closed || o.broken {
		o.mu.Unlock()
		c.release(charge)
		return false
	}
	switch {
	case len(o.pending) > 0:
		o.pending = append(o.pending, envelopes...)
	case owned && len(envelopes) > readBufferLarge:
		o.pending, taken = envelopes, true
	default:
		o.pending = append(c.server.buffers.get()[:0], envelopes...)
	}
	if !o.framed {
		o.unframed = len(o.pending)
	}
	c.charge(int64(len(envelopes)))
	o.charge += charge + int64(len(envelopes))
	start := !o.flushing
	if start {
		o.flushing = true
		o.flushers.Add(1) // under mu, so that closeOutput cannot miss it
	}
	o.mu.Unlock()
	if start {
		go c.flush()
	}
	return taken
}

// flush writes until nothing is pending.
func (c *conn) flush() {
	o := &c.out
	defer o.flushers.Done()
	defer c.server.guard.Recover("CQL connection writer", c.fail)
	// Workers that are ready to run finish first, so that their replies go
	// out in the same write.
	runtime.Gosched()
	var segments []byte
	o.mu.Lock()
	for len(o.pending) > 0 && !o.broken {
		batch, unframed, charge := o.pending, o.unframed, o.charge
		o.pending, o.unframed, o.charge = nil, 0, 0
		o.mu.Unlock()
		err := c.write(batch[:unframed])
		if rest := batch[unframed:]; len(rest) > 0 && err == nil {
			// Bytes that are not unframed are v5: only then does framed exist.
			if segments == nil {
				segments = c.server.buffers.get()
			}
			segments = frame.AppendSegments(segments[:0], rest, c.segmentCompressor())
			err = c.write(segments)
		}
		c.server.buffers.put(batch)
		c.release(charge)
		if err != nil {
			c.fail(err)
		}
		o.mu.Lock()
	}
	o.flushing = false
	o.mu.Unlock()
	c.server.buffers.put(segments)
}

func (c *conn) write(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	if err := c.net.SetWriteDeadline(time.Now().Add(c.server.limits.WriteTimeout)); err != nil {
		return err
	}
	_, err := c.net.Write(b)
	return err
}

// breakOutput drops what is pending and everything that follows.
func (c *conn) breakOutput() {
	o := &c.out
	o.mu.Lock()
	charge := o.charge
	o.broken, o.pending, o.unframed, o.charge = true, nil, 0, 0
	o.mu.Unlock()
	c.release(charge)
}

// closeOutput accepts no more envelopes and returns when those pending are
// written or the socket failed.
func (c *conn) closeOutput() {
	c.out.mu.Lock()
	c.out.closed = true
	c.out.mu.Unlock()
	c.out.flushers.Wait()
}
