package messaging

import (
	"sync"

	"cqld/internal/invariant"
)

// pool runs blocking work on a bounded number of goroutines. Waiting work is bounded in number and bytes; work beyond
// these bounds is refused immediately.
type pool struct {
	workers, waiting, bytes int // bounds
	mu                      struct {
		sync.Mutex
		wake    *sync.Cond
		queue   []work // in order of arrival, starting at next
		next    int
		running int // goroutines, including idle ones
		// parked workers are idle and wait for wake.
		parked int
		tasks  int // waiting or running
		bytes  int // of waiting and running tasks
		closed bool
	}
	owned sync.WaitGroup // tracks the goroutines
}

// work is one task and the memory that it occupies.
type work struct {
	do    func()
	bytes int
}

// parkedMax is the number of idle goroutines that are kept, because new goroutines would have to grow their stacks
// first.
const parkedMax = 16

// newPool returns a pool without goroutines.
func newPool(l Limits) *pool {
	p := &pool{workers: l.Workers, waiting: l.WorkWaiting, bytes: l.WorkBytes}
	p.mu.wake = sync.NewCond(&p.mu.Mutex)
	return p
}

// run queues f, which occupies the given number of bytes, for a worker. It returns ErrOverloaded if too much work is
// waiting, and ErrClosed if the transport is closing; then f is not called.
func (p *pool) run(bytes int, f func()) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.mu.closed:
		return ErrClosed
	// A task that is larger than the bound runs alone.
	case p.mu.tasks >= p.workers+p.waiting, p.mu.bytes > 0 && p.mu.bytes+bytes > p.bytes:
		return ErrOverloaded
	}
	// A task counts until it ends, because running tasks occupy their memory, too.
	p.mu.tasks++
	p.mu.bytes += bytes
	p.push(work{f, bytes})
	switch {
	// parked is decremented here and not by the worker, so that the next task does not rely on the same worker.
	case p.mu.parked > 0:
		p.mu.parked--
		p.mu.wake.Signal()
	case p.mu.running < p.workers:
		p.mu.running++
		p.owned.Go(p.work)
	}
	return nil
}

// push appends to the queue, and reuses the memory of tasks already taken. p.mu is held.
func (p *pool) push(w work) {
	// Tasks are moved to the front: otherwise append would allocate although the beginning of the queue is free.
	if p.mu.next > 0 && len(p.mu.queue) == cap(p.mu.queue) {
		n := copy(p.mu.queue, p.mu.queue[p.mu.next:])
		clear(p.mu.queue[n:])
		p.mu.queue, p.mu.next = p.mu.queue[:n], 0
	}
	p.mu.queue = append(p.mu.queue, w)
}

// work is the loop of a worker.
func (p *pool) work() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		for p.mu.next == len(p.mu.queue) {
			p.mu.queue, p.mu.next = p.mu.queue[:0], 0
			if p.mu.closed || p.mu.parked >= parkedMax {
				p.mu.running--
				return
			}
			p.mu.parked++
			p.mu.wake.Wait() // the goroutine that wakes a worker has already subtracted it from parked
		}
		w := p.mu.queue[p.mu.next]
		// The queue must not keep the memory of a task that was taken.
		p.mu.queue[p.mu.next] = work{}
		p.mu.next++
		p.mu.Unlock()
		// A task must not panic: inbound.call recovers its handlers.
		w.do()
		p.mu.Lock()
		p.giveBackLocked(w)
	}
}

// giveBackLocked subtracts a task that has ended. Subtracting more than was added would silently raise the bounds of
// the pool.
func (p *pool) giveBackLocked(w work) {
	p.mu.tasks--
	p.mu.bytes -= w.bytes
	invariant.Check(p.mu.tasks >= 0, "messaging: more tasks end than began")
	invariant.Check(p.mu.bytes >= 0, "messaging: more bytes are given back than tasks took")
	invariant.Check(p.mu.tasks > 0 || p.mu.bytes == 0, "messaging: ended tasks keep bytes")
}

// held returns the bytes of tasks that wait or run.
func (p *pool) held() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return int64(p.mu.bytes)
}

// close refuses further work and waits until the accepted work is done.
func (p *pool) close() {
	p.mu.Lock()
	p.mu.closed = true
	// All parked workers wake up, see closed, and end when the queue is empty.
	p.mu.parked = 0
	p.mu.wake.Broadcast()
	p.mu.Unlock()
	p.owned.Wait()
}
