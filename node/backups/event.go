package backups

import (
	"context"
	"sync"
	"time"
)

// event is something that happens once. The zero value has not happened.
type event struct {
	mu struct {
		sync.Mutex
		happened bool
		waiting  []func()
	}
}

// then calls f when the event has happened: at once, or in the goroutine of happen.
func (e *event) then(f func()) {
	// A function that is added while the event happens is called by one of the two, and once.
	e.mu.Lock()
	happened := e.mu.happened
	if !happened {
		e.mu.waiting = append(e.mu.waiting, f)
	}
	e.mu.Unlock()
	if happened {
		f()
	}
}

// happen makes the event happen. It is called once.
func (e *event) happen() {
	e.mu.Lock()
	e.mu.happened = true
	waiting := e.mu.waiting
	e.mu.waiting = nil
	e.mu.Unlock()
	// Without the lock: f may ask for the event again.
	for _, f := range waiting {
		f()
	}
}

// sleep waits for d, or until the context ends, whose error it returns.
func (n *Node) sleep(ctx context.Context, d time.Duration) error {
	return n.o.Await.Sleep(ctx, n.o.Clock, d)
}

// bound returns a context that ends after d of the node's clock.
func (n *Node) bound(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	timer := n.o.Clock.After(d, func() { cancel(context.DeadlineExceeded) })
	return ctx, func() {
		timer.Stop()
		cancel(nil)
	}
}

// awaitFor waits until done was called, for d, or until the context ends, whose error it returns.
func (n *Node) awaitFor(ctx context.Context, d time.Duration, begin func(done func())) error {
	// Either may come first, and the later one has no effect. The caller looks at what it has got.
	return n.o.Await(ctx, func(done func()) {
		timer := n.o.Clock.After(d, done)
		begin(func() {
			timer.Stop()
			done()
		})
	})
}
