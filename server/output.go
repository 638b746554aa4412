package server

import (
	"runtime"
	"sync"
	"time"

	"cqld/server/frame"
)

// output collects the envelopes of one connection and writes all that are ready together. A flusher goroutine runs
// only while there is something to write, so a quiet connection has none.
type output struct {
	mu       sync.Mutex
	pending  []byte    // whole envelopes
	unframed int       // bytes of pending that are sent without v5 segments
	charge   int64     // bytes to release when pending is written
	flushing bool      // a flusher is running and will write pending
	framed   bool      // v5, after READY or AUTHENTICATE
	held     bool      // pending waits for the end of the connection; see drain.go
	due      bool      // pending is written although it is held
	since    time.Time // when the oldest answer was held
	released time.Time // when held answers were last written
	closed   bool      // no more envelopes are accepted
	broken   bool      // the socket failed; nothing is written any more

	flushers sync.WaitGroup
}

// send appends whole envelopes to the output. charge is the number of bytes that their requests have reserved; they
// are released once the envelopes are written.
func (c *conn) send(envelopes []byte, charge int64) { c.enqueue(envelopes, charge, false) }

// enqueueOwned is send for a slice that the caller owns. It may keep the slice instead of copying it; then enqueueOwned
// returns true and the caller must not use it again.
func (c *conn) enqueueOwned(envelopes []byte, charge int64) bool {
	return c.enqueue(envelopes, charge, true)
}

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
	case o.held:
		o.pending, o.since = append(c.server.buffers.get()[:0], envelopes...), time.Now()
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
	if o.held && (len(o.pending) > holdBytesMax || c.server.budget.used.Load() > c.server.budget.limit/2) {
		o.held = false
	}
	start := o.startLocked()
	o.mu.Unlock()
	if start {
		go c.flush()
	}
	return taken
}

// startLocked reports whether the caller must call flush, because something is pending and no flusher runs.
func (o *output) startLocked() bool {
	if o.flushing || o.held && !o.due || len(o.pending) == 0 {
		return false
	}
	o.flushing = true
	o.flushers.Add(1) // under mu, so that closeOutput cannot miss it
	return true
}

// hold keeps pending and later envelopes until releaseHeld or closeOutput.
func (c *conn) hold() {
	o := &c.out
	o.mu.Lock()
	defer o.mu.Unlock()
	o.held, o.since = !o.closed && !o.broken, time.Now()
}

// releaseHeld writes the answers that have been held for age or longer. Later ones are held again.
func (c *conn) releaseHeld(age time.Duration) {
	o := &c.out
	o.mu.Lock()
	now := time.Now()
	o.due = o.held && len(o.pending) > 0 && now.Sub(o.since) >= age
	start := false
	if o.due {
		o.released = now
		start = o.startLocked()
	}
	o.mu.Unlock()
	if start {
		go c.flush()
	}
}

// holding returns whether answers are held, since when the oldest is held (zero if none is), and when some were last
// released.
func (c *conn) holding() (held bool, since, released time.Time) {
	o := &c.out
	o.mu.Lock()
	defer o.mu.Unlock()
	if since = o.since; len(o.pending) == 0 {
		since = time.Time{}
	}
	return o.held, since, o.released
}

// flush writes until nothing is pending.
func (c *conn) flush() {
	o := &c.out
	defer o.flushers.Done()
	defer c.server.guard.Recover("CQL connection writer", c.fail)
	// Workers that are ready to run finish first, so that their replies are part of the same write.
	runtime.Gosched()
	var segments []byte
	o.mu.Lock()
	for len(o.pending) > 0 && !o.broken && (!o.held || o.due) {
		o.due = false
		batch, unframed, charge := o.pending, o.unframed, o.charge
		o.pending, o.unframed, o.charge = nil, 0, 0
		o.mu.Unlock()
		err := c.write(batch[:unframed])
		if rest := batch[unframed:]; len(rest) > 0 && err == nil {
			// Bytes that are not unframed are v5; framed exists only then.
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
	now := time.Now()
	c.lastSent.Store(now.UnixNano())
	if err := c.net.SetWriteDeadline(now.Add(c.server.limits.WriteTimeout)); err != nil {
		return err
	}
	_, err := c.net.Write(b)
	return err
}

// breakOutput drops pending and all later envelopes.
func (c *conn) breakOutput() {
	o := &c.out
	o.mu.Lock()
	charge := o.charge
	o.broken, o.pending, o.unframed, o.charge = true, nil, 0, 0
	o.mu.Unlock()
	c.release(charge)
}

// closeOutput accepts no more envelopes, and returns when the pending ones are written or the socket has failed. It
// reports whether there were any.
func (c *conn) closeOutput() (pending bool) {
	c.out.mu.Lock()
	c.out.closed, c.out.held = true, false
	pending = len(c.out.pending) > 0
	start := c.out.startLocked()
	c.out.mu.Unlock()
	if start {
		c.flush()
	}
	c.out.flushers.Wait()
	return pending
}

// reopenOutput undoes closeOutput.
func (c *conn) reopenOutput() {
	c.out.mu.Lock()
	c.out.closed = false
	c.out.mu.Unlock()
}
