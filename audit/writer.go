package audit

import (
	"bytes"
	"io"
	"log/slog"
	"sync"
	"time"
)

// output is where entries are written. Each Write contains complete lines. Its methods are called by one goroutine.
type output interface {
	io.Writer
	Close() error
}

// writer owns the queue and the goroutine that writes it. Requests append encoded entries to pending; the goroutine
// exchanges pending for an empty buffer and writes it. The queue consists of two buffers, so entries are not
// allocated. A closed writer cannot be reused.
type writer struct {
	out    output
	filter *filter
	// block makes add wait while the queue is full.
	block bool
	// weight bounds the queue in bytes.
	weight int
	stats  *counters
	log    *slog.Logger
	// closing is closed by close. It interrupts the pause after a failed write.
	closing chan struct{}
	// done is closed when the goroutine has ended.
	done chan struct{}

	mu struct {
		sync.Mutex
		work    sync.Cond // signaled when pending is not empty, or closed is true
		room    sync.Cond // signaled when the queue has become smaller, or closed is true
		pending []byte
		// queued is the number of bytes in pending and in the buffer that is being written.
		queued int
		// entries is the number of entries in queued bytes.
		entries int
		closed  bool
	}
}

// newWriter returns a writer whose run the caller starts.
func newWriter(out output, s *Settings, f *filter, stats *counters, log *slog.Logger) *writer {
	w := &writer{out: out, filter: f, block: s.Block, weight: int(s.MaxQueueWeight), stats: stats, log: log,
		closing: make(chan struct{}), done: make(chan struct{})}
	w.mu.work.L, w.mu.room.L = &w.mu.Mutex, &w.mu.Mutex
	return w
}

// add appends an entry to the queue. An entry larger than the bound is accepted when the queue is empty. It blocks as
// long as the queue is full, if the settings say so, and drops the entry otherwise. entry is copied.
func (w *writer) add(entry []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for waited := false; !w.mu.closed && w.mu.queued > 0 &&
		(w.mu.queued+len(entry) > w.weight || w.mu.entries >= queueEntriesMax); waited = true {
		if !w.block {
			w.stats.dropped.Add(1)
			return
		}
		// Count a waiting entry once, even if it wakes up several times.
		if !waited {
			w.stats.waits.Add(1)
		}
		w.mu.room.Wait()
	}
	w.appendLocked(entry)
}

// force appends an entry even if the queue is full. Disable uses it for the last entry, which must not be dropped.
func (w *writer) force(entry []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.appendLocked(entry)
}

// appendLocked appends an entry, or drops it if the writer is closed. w.mu is held.
func (w *writer) appendLocked(entry []byte) {
	if w.mu.closed {
		w.stats.dropped.Add(1)
		return
	}
	// The buffer grows up to the bound of the queue, and is exchanged by take.
	w.mu.pending = append(w.mu.pending, entry...)
	w.mu.queued += len(entry)
	w.mu.entries++
	w.stats.recorded.Add(1)
	w.mu.work.Signal()
}

// queuedBytes returns the size of the queue.
func (w *writer) queuedBytes() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return int64(w.mu.queued)
}

// run writes entries until close. When it ends, even by a panic, waiting requests continue.
func (w *writer) run() {
	defer close(w.done)
	// Deferred calls run in reverse order: requests are released before close returns.
	defer w.abandon()
	var spare []byte
	for {
		batch := w.take(spare)
		if batch == nil {
			break
		}
		w.write(batch)
		// The buffer has grown while the disk was slow.
		if cap(batch) > batchKeep {
			batch = nil
		}
		spare = batch
	}
	if err := w.out.Close(); err != nil {
		w.log.Error("cannot close the audit log", "err", err)
	}
}

// take waits for entries and returns them. It returns nil when the writer is closed and all entries were taken. spare
// becomes the next pending buffer. The bytes that are returned count as queued until written.
func (w *writer) take(spare []byte) []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.mu.pending) == 0 {
		if w.mu.closed {
			return nil
		}
		w.mu.work.Wait()
	}
	batch := w.mu.pending
	// spare may be nil, and is then allocated by the next entry.
	w.mu.pending = spare[:0]
	return batch
}

// written removes lines from the queue. It wakes all waiting requests, because the space may suffice for several.
func (w *writer) written(lines []byte) (entries int) {
	entries = bytes.Count(lines, []byte{'\n'})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.queued -= len(lines)
	w.mu.entries -= entries
	w.mu.room.Broadcast()
	return entries
}

// write writes lines in parts that end with a line.
func (w *writer) write(lines []byte) {
	// Each part leaves the queue when it has been written, so that requests need not wait for all lines.
	for len(lines) > 0 {
		n := len(lines)
		if n > writeBytesMax {
			// The part ends at the last end of a line within the bound.
			if n = bytes.LastIndexByte(lines[:writeBytesMax], '\n') + 1; n == 0 {
				n = bytes.IndexByte(lines, '\n') + 1 // a line longer than that
			}
		}
		// Remove the part from the queue even if the write failed, so that with block: false a failing disk does not
		// fill the queue permanently.
		complete := w.writePart(lines[:n])
		entries := w.written(lines[:n])
		if !complete {
			w.stats.lost.Add(int64(entries))
		}
		lines = lines[n:]
	}
}

// writePart writes one part, and returns false if that failed. With block: true it repeats failed writes, from where
// they ended, until the log is closed: no request continues without its entry while the queue is full.
func (w *writer) writePart(part []byte) bool {
	for warned := false; ; {
		// Requests are not blocked by the write itself: the lock is not held.
		n, err := w.out.Write(part)
		w.stats.bytes.Add(int64(n))
		if err == nil {
			return true
		}
		// A part of the bytes may be in the file already. Writing them again would duplicate or corrupt lines.
		part = part[n:]
		w.stats.failures.Add(1)
		// Log only once; a full disk would otherwise add a line each second.
		if !warned {
			warned = true
			w.log.Error("cannot write the audit log", "err", err, "requests_wait", w.block)
		}
		if !w.block {
			return false
		}
		select {
		case <-w.closing:
			return false
		case <-time.After(retryWait):
		}
	}
}

// abandon makes add drop entries.
func (w *writer) abandon() {
	w.mu.Lock()
	defer w.mu.Unlock()
	// The goroutine has ended, so requests must not wait.
	w.mu.closed = true
	w.mu.room.Broadcast()
}

// close writes the remaining entries and waits for the goroutine. Requests that wait in add continue, and their entries
// are dropped. It must be called once.
func (w *writer) close() {
	w.mu.Lock()
	w.mu.closed = true
	w.mu.work.Signal()
	w.mu.room.Broadcast()
	w.mu.Unlock()
	close(w.closing)
	<-w.done
}
