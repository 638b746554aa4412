package cqldtest

import (
	"sync"
	"sync/atomic"
)

// gate blocks operations while it is shut. The zero value is open. It is safe for concurrent use. An open gate costs
// one atomic load, because every read and write of a connection passes it. A shut gate is opened once for all that
// wait.
type gate struct {
	mu sync.Mutex
	// opening is closed when the gate opens; it is nil while the gate is open.
	opening atomic.Pointer[chan struct{}]
}

// shut makes wait block. Shutting a shut gate does nothing.
func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.opening.Load() == nil {
		c := make(chan struct{})
		g.opening.Store(&c)
	}
}

// open releases all waiting goroutines. Opening an open gate does nothing.
func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c := g.opening.Swap(nil); c != nil {
		close(*c)
	}
}

// isShut reports whether the gate is shut.
func (g *gate) isShut() bool { return g.opening.Load() != nil }

// wait returns true once the gate is open, or false if done is closed before. A nil done is never closed. The gate may
// be shut again before the caller continues. Without a pause it costs one atomic load.
func (g *gate) wait(done <-chan struct{}) bool {
	for {
		c := g.opening.Load()
		if c == nil {
			return true
		}
		select {
		case <-*c:
		case <-done:
			return false
		}
	}
}
