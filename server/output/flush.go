package output

import (
	"runtime"
	"time"

	"cqld/server/frame"
)

// flush writes until nothing is pending. There is at most one at a time (flushing). It runs in a goroutine of its own,
// or in Close's caller.
func (q *Queue) flush() {
	defer q.flushers.Done()
	defer q.config.Guard.Recover("CQL connection writer", q.connection.Fail)
	// Workers that are ready to run finish first, so that their replies are part of the same write. The scheduler then
	// lets every other goroutine run first, too, which a reply must not wait for without a reason.
	if q.connection.Executing() > 0 {
		runtime.Gosched()
	}
	var segments []byte
	q.mu.Lock()
	for len(q.mu.pending) > 0 && !q.mu.broken && (!q.mu.held || q.mu.due) {
		// One write is due, not all later ones.
		q.mu.due = false
		// The flusher takes all that is pending, and writes without the lock, so that workers can append meanwhile.
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
	// Under the same lock as the look at pending: an envelope that comes later starts another flusher.
	q.mu.flushing = false
	q.mu.Unlock()
	q.config.Buffers.Put(segments)
	q.connection.Written()
}

// written releases a chunk that was written, or that cannot be.
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
	// Each slice is written by itself, so that one reply does not need its size again in segments.
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

// writeSize returns the size of a part of a reply. A client that reads nothing of it for a while is disconnected, if
// requests wait for memory.
func (q *Queue) writeSize() int {
	if q.config.Memory.Scarce() {
		return frame.SegmentPayloadMax
	}
	return writeLarge
}

// write writes b with a deadline. Other goroutines read lastWrite and stuck, to find idle and stuck clients. It blocks
// for at most WriteTimeout. A time-out fails the connection: a part of an envelope may have been written.
func (q *Queue) write(b []byte) error {
	// An empty write would count as a sign of life.
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
