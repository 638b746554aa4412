package output

import (
	"runtime"
	"time"

	"cqld/server/frame"
)

// flush writes until nothing is pending. At most one flush runs at a time (flushing), in a separate goroutine or in
// the caller of Close.
func (q *Queue) flush() {
	defer q.flushers.Done()
	defer q.config.Guard.Recover("CQL connection writer", q.connection.Fail)
	// Workers that are ready to run finish first, so that their replies are part of the same write. Yielding lets
	// every other goroutine run first, too, so it happens only if the connection has running requests.
	if q.connection.Executing() > 0 {
		runtime.Gosched()
	}
	var segments []byte
	q.mu.Lock()
	for len(q.mu.pending) > 0 && !q.mu.broken && (!q.mu.held || q.mu.due) {
		// due covers the envelopes of this write only.
		q.mu.due = false
		// The flusher takes all pending chunks, and writes without the lock, so that workers can append meanwhile.
		batch, compressor := q.mu.pending, q.mu.compressor
		q.mu.pending, q.mu.spare = q.mu.spare, nil
		q.mu.Unlock()
		var err error
		for i := range batch {
			// After an error, the rest of the batch is released without being written.
			if err == nil {
				segments, err = q.writeChunk(&batch[i], segments, compressor)
			}
			q.written(&batch[i])
		}
		if err != nil {
			// Fail calls Break, which ends the loop.
			q.connection.Fail(err)
		}
		q.mu.Lock()
		// A larger slice is left to the garbage collector: many connections are idle most of the time.
		if cap(batch) <= spareChunks {
			clear(batch)
			q.mu.spare = batch[:0]
		}
	}
	// flushing is cleared under the lock under which pending was empty, so that a later envelope starts another
	// flusher.
	q.mu.flushing = false
	q.mu.Unlock()
	q.config.Buffers.Put(segments)
	q.connection.Written()
}

// written releases the memory of a chunk that was written or dropped.
func (q *Queue) written(b *chunk) {
	q.bytes.Add(-int64(len(b.envelopes)))
	q.config.Buffers.Put(b.envelopes)
	b.envelopes = nil
	q.account.Release(b.charge)
	q.connection.Written()
}

// writeChunk writes a chunk. segments is memory for v5 segments, or nil. It returns segments, which may have grown, for
// the next chunk.
func (q *Queue) writeChunk(b *chunk, segments []byte, compressor *frame.Compressor) ([]byte, error) {
	if !b.plain && segments == nil {
		segments = q.config.Buffers.Get()
	}
	switch rest := b.envelopes; {
	case b.plain:
		for len(rest) > 0 { // in parts, so that progress shows
			n := min(len(rest), q.writeSize())
			if err := q.write(rest[:n]); err != nil {
				return segments, err
			}
			rest = rest[n:]
		}
		return segments, nil
	// Slices of a large envelope are written one by one, so that its segments do not need its whole size again.
	case b.large && len(rest) > frame.SegmentPayloadMax:
		for len(rest) > 0 {
			n := min(len(rest), frame.SegmentPayloadMax)
			segments = frame.AppendSegmentSlice(segments[:0], rest[:n], compressor)
			if err := q.write(segments); err != nil {
				return segments, err
			}
			rest = rest[n:]
		}
		return segments, nil
	default:
		segments = frame.AppendSegments(segments[:0], rest, compressor)
		return segments, q.write(segments)
	}
}

// writeSize returns the size of a part of a reply. While requests wait for memory, a client that reads none of a part
// for a while is disconnected.
func (q *Queue) writeSize() int {
	if q.config.Memory.Scarce() {
		return frame.SegmentPayloadMax
	}
	return writeLarge
}

// write writes b with a deadline. Other goroutines read lastWrite and stuck, to find idle and stuck clients. It blocks
// for at most WriteTimeout. A time-out fails the connection: a part of an envelope may have been written.
func (q *Queue) write(b []byte) error {
	// An empty write would count as activity of the client.
	if len(b) == 0 {
		return nil
	}
	now := time.Now()
	q.lastWrite.Store(now.UnixNano())
	if err := q.socket.SetWriteDeadline(now.Add(q.config.WriteTimeout)); err != nil {
		return err
	}
	q.stuck.Store(now.UnixNano())
	_, err := q.socket.Write(b)
	q.stuck.Store(0)
	return err
}
