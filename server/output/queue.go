// Package output sends the replies and events of a connection: a Queue collects envelopes, and a goroutine that runs
// only while there is something to write sends all that are ready in one write. A draining connection holds its answers
// back, so that they reach the client together with the end (package drain).
//
//	workers, reader, events ── Send, Enqueue ──▶ pending chunks ── flush (one goroutine) ──▶ segments (v5) ──▶ socket
//	                                                   └── Hold: nothing is written until Serve, Release or Close
//
// Envelopes are written in the order in which they were queued. Replies of different requests have no order, so
// workers queue them when they are ready. The package does not decode envelopes, except for their lengths when it
// divides them into segments.
package output

import (
	"net"
	"sync"
	"sync/atomic"
	"time"

	"cqld/internal/guard"
	"cqld/internal/memory"
	"cqld/server/account"
	"cqld/server/buffer"
	"cqld/server/frame"
)

const (
	// heldBytesMax is how many bytes of answers a draining connection holds.
	heldBytesMax = 256 << 10

	// writeLarge is the size of the parts in which large replies are written while memory is not scarce. Each part
	// costs a system call and wakes the client.
	writeLarge = 1 << 20

	// spareChunks is the number of chunks for which an idle connection keeps memory: 0.5 KiB.
	spareChunks = 8
)

// Config contains the dependencies shared by the queues of a server.
type Config struct {
	Buffers *buffer.Pool
	Memory  *memory.Pool
	Guard   *guard.Guard
	// WriteTimeout is how long one write may take.
	WriteTimeout time.Duration
}

// Connection is the interface through which a Queue uses its connection.
type Connection interface {
	// Fail ends the connection: it cannot be written.
	Fail(err error)
	// Executing returns how many requests of the connection are being executed.
	Executing() int
	// Written is called when the client has read more, without a lock.
	Written()
}

// Queue collects the envelopes of one connection and writes all that are ready together. It is safe for concurrent use.
// Its lock is held for moments only: never during a write, a compression or a call of the connection.
type Queue struct {
	config     *Config
	socket     net.Conn
	account    *account.Account
	connection Connection
	run        func() // flush, so that no reply allocates it

	lastWrite atomic.Int64 // ns since 1970: when something was sent to the client
	stuck     atomic.Int64 // ns since 1970: when the current write began; 0 if none is in progress
	bytes     atomic.Int64 // pending and being written: the replies that the client has not read
	flushers  sync.WaitGroup

	mu struct {
		sync.Mutex
		pending    []chunk
		spare      []chunk           // memory for pending after the flusher has taken it; its elements are empty
		flushing   bool              // a flusher is running and will write pending
		framed     bool              // envelopes are sent in v5 segments
		compressor *frame.Compressor // of segments; nil means that they are not compressed
		held       bool              // pending waits for the end of the connection
		due        bool              // pending is written although it is held
		since      time.Time         // when the oldest answer was held
		released   time.Time         // when held answers were last written
		closed     bool              // no more envelopes are accepted
		broken     bool              // the socket failed; nothing further is written
	}
}

// chunk is a buffer of whole envelopes: several small ones, or a large one. Appending to a chunk saves a write for each
// small reply; a large one is not copied.
type chunk struct {
	envelopes []byte
	charge    memory.Held // bytes to release when it is written
	plain     bool        // it is sent without v5 segments
	large     bool        // a single envelope, in memory of its own
}

// Init prepares a queue that writes to socket, and releases the memory of written envelopes in a.
func (q *Queue) Init(config *Config, socket net.Conn, a *account.Account, connection Connection) {
	q.config, q.socket, q.account, q.connection = config, socket, a, connection
	q.run = q.flush
}

// Frame sends later envelopes in v5 segments, which compressor compresses unless it is nil.
func (q *Queue) Frame(compressor *frame.Compressor) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.mu.framed, q.mu.compressor = true, compressor
}

// Bytes returns the size of the envelopes that the client has not read.
func (q *Queue) Bytes() int64 { return q.bytes.Load() }

// Stuck returns when the current write began, in ns since 1970, or 0 if none is in progress.
func (q *Queue) Stuck() int64 { return q.stuck.Load() }

// LastWrite returns when something was last sent to the client.
func (q *Queue) LastWrite() time.Time { return time.Unix(0, q.lastWrite.Load()) }

// Send appends whole envelopes. charge is what their requests have reserved; it is released once they are written.
func (q *Queue) Send(envelopes []byte, charge memory.Held) {
	q.Enqueue(envelopes, charge.Plus(q.account.Charge(int64(len(envelopes)))), false)
}

// Enqueue is Send for envelopes that charge includes. If owned, the caller owns the slice, and Enqueue may keep it
// instead of copying it; then it returns true and the caller must not use it again. It must then be a single envelope.
// After Close or Break, the envelopes are dropped and the charge is released.
func (q *Queue) Enqueue(envelopes []byte, charge memory.Held, owned bool) (taken bool) {
	q.mu.Lock()
	if q.mu.closed || q.mu.broken {
		q.mu.Unlock()
		// No client reads the reply, so its memory is free at once.
		q.account.Release(charge)
		return false
	}
	if len(q.mu.pending) == 0 && q.mu.held {
		q.mu.since = time.Now()
	}
	// The size includes envelopes that a flusher is writing.
	bytes := q.bytes.Add(int64(len(envelopes)))
	switch last := q.lastLocked(len(envelopes)); {
	case owned && len(envelopes) > buffer.Large:
		taken = true
		q.mu.pending = append(q.mu.pending, chunk{
			envelopes: envelopes,
			charge:    charge,
			plain:     !q.mu.framed,
			large:     true,
		})
	case last != nil:
		last.envelopes, last.charge = append(last.envelopes, envelopes...), last.charge.Plus(charge)
	default:
		q.mu.pending = append(q.mu.pending, chunk{
			envelopes: append(q.config.Buffers.Get()[:0], envelopes...),
			charge:    charge,
			plain:     !q.mu.framed,
		})
	}
	if q.mu.held && (bytes > heldBytesMax || q.config.Memory.Scarce()) {
		q.mu.held = false // held answers must not take memory that others wait for
	}
	start := q.startLocked()
	q.mu.Unlock()
	if start {
		go q.run()
	}
	return taken
}

// lastLocked returns the last chunk if n bytes can be appended to it.
func (q *Queue) lastLocked(n int) *chunk {
	if len(q.mu.pending) == 0 {
		return nil
	}
	// A chunk is written with one call, so that small replies share a segment. Chunks from before the handshake's
	// change to segments stay plain.
	last := &q.mu.pending[len(q.mu.pending)-1]
	if last.large || last.plain == q.mu.framed || len(last.envelopes)+n > buffer.Large {
		return nil
	}
	return last
}

// startLocked reports whether the caller must call flush, because something is pending and no flusher runs.
func (q *Queue) startLocked() bool {
	if q.mu.flushing || q.mu.held && !q.mu.due || len(q.mu.pending) == 0 {
		return false
	}
	q.mu.flushing = true
	q.flushers.Add(1) // under mu, so that Close cannot miss it
	return true
}

// Break drops pending and all later envelopes. A write in progress ends with the socket, which the caller closes.
func (q *Queue) Break() {
	q.mu.Lock()
	pending := q.mu.pending
	q.mu.broken, q.mu.pending = true, nil
	q.mu.Unlock()
	// No lock is held, because Release may wake other connections.
	for _, b := range pending {
		q.bytes.Add(-int64(len(b.envelopes)))
		q.account.Release(b.charge)
	}
}

// Close accepts no more envelopes, and returns when the pending ones are written or the socket has failed. It reports
// whether there were any.
func (q *Queue) Close() (pending bool) {
	q.mu.Lock()
	// Held answers must be written before the end as well.
	q.mu.closed, q.mu.held = true, false
	pending = len(q.mu.pending) > 0
	start := q.startLocked()
	q.mu.Unlock()
	// The flush runs in this goroutine, which waits for the write anyway.
	if start {
		q.flush()
	}
	q.flushers.Wait()
	return pending
}

// Reopen undoes Close. It must be called by the goroutine that called Close.
func (q *Queue) Reopen() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.mu.closed = false
}
