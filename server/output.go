package server

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"cqld/internal/memory"
	"cqld/server/frame"
)

// output collects the envelopes of one connection and writes all that are ready together. A flusher goroutine runs
// only while there is something to write, so a quiet connection has none.
type output struct {
	mu       sync.Mutex
	pending  []chunk
	spare    []chunk   // memory for pending after the flusher has taken it; its elements are empty
	bytes    int       // of pending, and of what the flusher is writing: the replies that the client has not read
	flushing bool      // a flusher is running and will write pending
	framed   bool      // v5, after READY or AUTHENTICATE
	held     bool      // pending waits for the end of the connection; see drain.go
	due      bool      // pending is written although it is held
	since    time.Time // when the oldest answer was held
	released time.Time // when held answers were last written
	closed   bool      // no more envelopes are accepted
	broken   bool      // the socket failed; nothing further is written
	parked   []job     // requests that are executed when the client has read more; see park.go

	flushers sync.WaitGroup
	flush    func()       // conn.flush, so that no reply allocates it
	stuck    atomic.Int64 // ns since 1970: when the present write began; 0 if none is in progress
}

// chunk is a buffer of whole envelopes: several small ones, or a large one.
type chunk struct {
	envelopes []byte
	charge    memory.Held // bytes to release when it is written
	plain     bool        // it is sent without v5 segments
	large     bool        // a single envelope, in memory of its own
}

// send appends whole envelopes to the output. charge is the number of bytes that their requests have reserved; they
// are released once the envelopes are written.
func (c *conn) send(envelopes []byte, charge memory.Held) {
	c.enqueue(envelopes, charge.Plus(c.charge(int64(len(envelopes)))), false)
}

// enqueue is send for envelopes that charge includes. If owned, the caller owns the slice, and enqueue may keep it
// instead of copying it; then it returns true and the caller must not use it again. It must then be a single envelope.
func (c *conn) enqueue(envelopes []byte, charge memory.Held, owned bool) (taken bool) {
	o := &c.out
	o.mu.Lock()
	if o.closed || o.broken {
		o.mu.Unlock()
		c.release(charge)
		return false
	}
	if len(o.pending) == 0 && o.held {
		o.since = time.Now()
	}
	o.bytes += len(envelopes)
	switch last := o.lastLocked(len(envelopes)); {
	case owned && len(envelopes) > readBufferLarge:
		taken = true
		o.pending = append(o.pending, chunk{envelopes: envelopes, charge: charge, plain: !o.framed, large: true})
	case last != nil:
		last.envelopes, last.charge = append(last.envelopes, envelopes...), last.charge.Plus(charge)
	default:
		o.pending = append(o.pending, chunk{envelopes: append(c.server.buffers.get()[:0], envelopes...),
			charge: charge, plain: !o.framed})
	}
	if o.held && (o.bytes > holdBytesMax || c.server.memory.Scarce()) {
		o.held = false
	}
	start := o.startLocked()
	o.mu.Unlock()
	if start {
		go c.out.flush()
	}
	return taken
}

// lastLocked returns the last chunk if n bytes can be appended to it.
func (o *output) lastLocked(n int) *chunk {
	if len(o.pending) == 0 {
		return nil
	}
	last := &o.pending[len(o.pending)-1]
	if last.large || last.plain == o.framed || len(last.envelopes)+n > readBufferLarge {
		return nil
	}
	return last
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
		go c.out.flush()
	}
}

// serveHeld undoes hold, and writes the answers that are held.
func (c *conn) serveHeld() {
	o := &c.out
	o.mu.Lock()
	o.held = false
	start := o.startLocked()
	o.mu.Unlock()
	if start {
		go c.out.flush()
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
	// Workers that are ready to run finish first, so that their replies are part of the same write. The scheduler then
	// lets every other goroutine run first, too, which a reply must not wait for without a reason.
	if c.executing.Load() > 0 {
		runtime.Gosched()
	}
	var segments []byte
	o.mu.Lock()
	for len(o.pending) > 0 && !o.broken && (!o.held || o.due) {
		o.due = false
		batch := o.pending
		o.pending, o.spare = o.spare, nil
		o.mu.Unlock()
		var err error
		for i := range batch {
			if err == nil {
				segments, err = c.writeChunk(&batch[i], segments)
			}
			c.written(&batch[i])
		}
		if err != nil {
			c.fail(err)
		}
		o.mu.Lock()
		if cap(batch) <= spareChunks {
			clear(batch)
			o.spare = batch[:0]
		}
	}
	o.flushing = false
	o.mu.Unlock()
	c.server.buffers.put(segments)
	c.unpark()
}

// written releases a chunk that was written, or that cannot be.
func (c *conn) written(b *chunk) {
	c.out.mu.Lock()
	c.out.bytes -= len(b.envelopes)
	c.out.mu.Unlock()
	c.server.buffers.put(b.envelopes)
	b.envelopes = nil
	c.release(b.charge)
	c.unpark()
}

// writeChunk writes a chunk. segments is memory for v5 segments, or nil.
func (c *conn) writeChunk(b *chunk, segments []byte) ([]byte, error) {
	if !b.plain && segments == nil {
		segments = c.server.buffers.get()
	}
	switch rest := b.envelopes; {
	case b.plain:
		for len(rest) > 0 { // in parts, so that progress shows
			n := min(len(rest), c.writeSize())
			if err := c.write(rest[:n]); err != nil {
				return segments, err
			}
			rest = rest[n:]
		}
		return segments, nil
	case b.large && len(rest) > frame.SegmentPayloadMax:
		for len(rest) > 0 {
			n := min(len(rest), frame.SegmentPayloadMax)
			segments = frame.AppendSegmentSlice(segments[:0], rest[:n], c.segmentCompressor())
			if err := c.write(segments); err != nil {
				return segments, err
			}
			rest = rest[n:]
		}
		return segments, nil
	default:
		segments = frame.AppendSegments(segments[:0], rest, c.segmentCompressor())
		return segments, c.write(segments)
	}
}

// writeSize returns the size of a part of a reply. A client that reads nothing of it for a while is disconnected, if
// requests wait for memory.
func (c *conn) writeSize() int {
	if c.server.memory.Scarce() {
		return frame.SegmentPayloadMax
	}
	return writeLarge
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
	c.out.stuck.Store(now.UnixNano())
	_, err := c.net.Write(b)
	c.out.stuck.Store(0)
	return err
}

// breakOutput drops pending and all later envelopes, and requests that wait for the client to read.
func (c *conn) breakOutput() {
	o := &c.out
	o.mu.Lock()
	pending := o.pending
	o.broken, o.pending = true, nil
	for _, b := range pending {
		o.bytes -= len(b.envelopes)
	}
	o.mu.Unlock()
	for _, b := range pending {
		c.release(b.charge)
	}
	c.dropParked()
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
