// Package fence lets a truncation wait for all requests that were sent to replicas before it: a request calls Enter
// when it begins, and Leave when no replica's answer is outstanding.
package fence

import (
	"sync"
	"sync/atomic"
)

// Fence counts requests by generation. Enter and Leave cost one atomic addition each. The zero value is ready for use.
//
//	generation n: enter, enter, leave … │ wait: generation n+1 begins │ leave of the last of n ──▶ done
type Fence struct {
	// generation is the generation that requests enter. The previous one may still have requests while closing is
	// true.
	generation atomic.Uint64
	open       [2]atomic.Int64 // by generation, modulo 2
	closing    atomic.Bool     // a Wait for the previous generation is running

	mu sync.Mutex
	// mu guards the callbacks, and is held while the generation changes. Callbacks run without it.
	called []func() // callbacks for the end of the previous generation
	next   []func() // callbacks of the following Wait
}

// Enter begins a request. Leave is called with the returned generation.
func (f *Fence) Enter() uint64 {
	for {
		g := f.generation.Load()
		f.open[g&1].Add(1)
		if f.generation.Load() == g {
			return g
		}
		f.Leave(g) // a Wait began concurrently
	}
}

// Leave ends a request that entered in generation g.
//
// The last request of a generation calls the callbacks of the Wait in its own goroutine.
func (f *Fence) Leave(g uint64) {
	if f.open[g&1].Add(-1) == 0 && f.closing.Load() {
		f.advance()
	}
}

// Wait calls done when all requests that entered before have left.
//
// It never blocks. done may run in the caller's goroutine if no request is open.
func (f *Fence) Wait(done func()) {
	f.mu.Lock()
	f.next = append(f.next, done)
	f.mu.Unlock()
	f.advance()
}

// advance ends a Wait whose requests have left, and begins the next.
func (f *Fence) advance() {
	// When a Wait ends, the next one can begin, and may end at once.
	for {
		f.mu.Lock()
		var ended []func()
		switch closing := f.closing.Load(); {
		// Requests of the previous generation are open, or there is nothing to do.
		case closing && f.open[(f.generation.Load()-1)&1].Load() > 0, !closing && len(f.next) == 0:
			f.mu.Unlock()
			return
		case closing:
			ended, f.called = f.called, nil
			f.closing.Store(false)
		default:
			f.called, f.next = f.next, nil
			// set before the generation changes, so that a request that leaves the previous generation sees it and
			// calls advance
			f.closing.Store(true)
			f.generation.Add(1)
		}
		f.mu.Unlock()
		for _, done := range ended {
			done()
		}
	}
}
