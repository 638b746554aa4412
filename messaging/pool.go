package messaging

import "sync"

// pool runs work that may block in a bounded number of goroutines. Work that waits for one is bounded by count and by
// bytes; what exceeds the bounds is refused at once.
type pool struct {
	workers, waiting, bytes int // bounds
	mu                      struct {
		sync.Mutex
		wake    *sync.Cond
		queue   []work // in the order in which it came, from next on
		next    int
		running int // goroutines, parked ones among them
		parked  int
		tasks   int // that wait or run
		bytes   int // of these
		closed  bool
	}
	owned sync.WaitGroup // the goroutines
}

// work is one task and the memory that it holds.
type work struct {
	do    func()
	bytes int
}

// parkedMax is how many idle goroutines are kept: they have grown stacks, which new ones must grow first.
const parkedMax = 16

func newPool(l Limits) *pool {
	p := &pool{workers: l.Workers, waiting: l.WorkWaiting, bytes: l.WorkBytes}
	p.mu.wake = sync.NewCond(&p.mu.Mutex)
	return p
}

// run lets a worker do f, which holds so many bytes. It returns ErrOverloaded when too much waits, and ErrClosed when
// the transport closes; f is not called then.
func (p *pool) run(bytes int, f func()) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.mu.closed:
		return ErrClosed
	case p.mu.tasks >= p.workers+p.waiting, p.mu.bytes > 0 && p.mu.bytes+bytes > p.bytes:
		return ErrOverloaded
	}
	p.mu.tasks++
	p.mu.bytes += bytes
	p.push(work{f, bytes})
	switch {
	case p.mu.parked > 0:
		p.mu.parked--
		p.mu.wake.Signal()
	case p.mu.running < p.workers:
		p.mu.running++
		p.owned.Go(p.work)
	}
	return nil
}

// push appends to the queue and reuses the memory of what was taken. p.mu is held.
func (p *pool) push(w work) {
	if p.mu.next > 0 && len(p.mu.queue) == cap(p.mu.queue) {
		n := copy(p.mu.queue, p.mu.queue[p.mu.next:])
		clear(p.mu.queue[n:])
		p.mu.queue, p.mu.next = p.mu.queue[:n], 0
	}
	p.mu.queue = append(p.mu.queue, w)
}

// work is a worker.
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
			p.mu.wake.Wait() // who wakes a worker has counted it out of parked
		}
		w := p.mu.queue[p.mu.next]
		p.mu.queue[p.mu.next] = work{}
		p.mu.next++
		p.mu.Unlock()
		w.do()
		p.mu.Lock()
		p.mu.tasks--
		p.mu.bytes -= w.bytes
	}
}

// close refuses further work and waits until what was taken is done.
func (p *pool) close() {
	p.mu.Lock()
	p.mu.closed = true
	p.mu.parked = 0
	p.mu.wake.Broadcast()
	p.mu.Unlock()
	p.owned.Wait()
}
