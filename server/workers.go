package server

import (
	"sync"
	"time"

	"cqld/internal/memory"
)

// job is a request whose body has been read but not decoded.
type job struct {
	conn    *conn
	request header
	body    []byte
	charge  memory.Held // released when the reply is written
	queued  time.Time   // when it began to wait for a worker; zero if it did not
}

// workers executes jobs on a bounded number of goroutines. It prefers goroutines that have worked before, the most
// recent first: their stacks have grown and are warm. Beyond the bound, jobs wait in a queue; beyond the queue's
// bound, they are refused.
type workers struct {
	max, idleMax, queueMax int
	goroutines             sync.WaitGroup
	slots                  slots

	mu struct {
		sync.Mutex
		idle    []*worker
		running int // including idle ones
		queue   []job
		head    int // of queue
		closed  bool

		submitted, refused int64 // jobs since the start
	}
}

// newWorkers returns workers without any goroutine yet.
func newWorkers(l Limits) *workers {
	return &workers{max: l.WorkersMax, idleMax: min(workersIdleMax, l.WorkersMax), queueMax: l.QueueMax}
}

// submit executes j now, or when a worker is free. It returns false, without doing anything, if the queue is full.
func (p *workers) submit(j job) bool {
	p.mu.Lock()
	p.mu.submitted++
	// The last worker in the list became idle most recently.
	if n := len(p.mu.idle); n > 0 {
		w := p.mu.idle[n-1]
		p.mu.idle = p.mu.idle[:n-1]
		p.mu.Unlock()
		w.next <- j // its channel is empty: an idle worker waits for one job
		return true
	}
	if p.mu.running < p.max {
		p.mu.running++
		p.goroutines.Add(1)
		p.mu.Unlock()
		w := &worker{next: make(chan job, 1), slot: new(slot)}
		go p.run(w, j)
		return true
	}
	if len(p.mu.queue)-p.mu.head >= p.queueMax {
		// Load counts only accepted jobs.
		p.mu.submitted--
		p.mu.refused++
		p.mu.Unlock()
		return false
	}
	j.queued = time.Now()
	p.mu.queue = append(p.mu.queue, j)
	p.mu.Unlock()
	return true
}

// run executes j and then queued or submitted jobs.
func (p *workers) run(w *worker, j job) {
	defer p.goroutines.Done()
	p.slots.add(w.slot)
	defer p.slots.remove(w.slot)
	for {
		w.run(j)
		p.mu.Lock()
		// Jobs wait only if all workers are busy, so a worker checks the queue before it becomes idle.
		if queued, ok := p.dequeueLocked(); ok {
			p.mu.Unlock()
			j = queued
			continue
		}
		if p.mu.closed || len(p.mu.idle) >= p.idleMax {
			p.mu.running--
			p.mu.Unlock()
			return
		}
		w.forget()
		p.mu.idle = append(p.mu.idle, w)
		p.mu.Unlock()
		j = job{} //nolint:ineffassign // an idle worker must not hold the last request
		var ok bool
		if j, ok = <-w.next; !ok {
			return
		}
	}
}

// dequeueLocked returns the job that has waited for the longest time.
func (p *workers) dequeueLocked() (job, bool) {
	if p.mu.head == len(p.mu.queue) {
		return job{}, false
	}
	j := p.mu.queue[p.mu.head]
	// The queue must not keep the body of a request that was taken.
	p.mu.queue[p.mu.head] = job{}
	p.mu.head++
	switch {
	case p.mu.head == len(p.mu.queue):
		p.mu.queue, p.mu.head = nil, 0
	// Jobs are moved when half of a large queue is empty, so that each job is moved once on average.
	case p.mu.head >= 1024 && p.mu.head*2 >= len(p.mu.queue):
		p.mu.queue = append([]job(nil), p.mu.queue[p.mu.head:]...)
		p.mu.head = 0
	}
	return j, true
}

// close ends the idle workers and waits for the others. submit must not be called again.
func (p *workers) close() {
	p.mu.Lock()
	// Busy workers check closed when their job is done and the queue is empty.
	p.mu.closed = true
	idle := p.mu.idle
	p.mu.idle = nil
	p.mu.running -= len(idle)
	p.mu.Unlock()
	// Only idle workers receive from their channel; a closed channel ends them.
	for _, w := range idle {
		close(w.next)
	}
	p.goroutines.Wait()
}
