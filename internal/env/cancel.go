package env

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// ErrCanceled is the error of work that ended early because its result is no longer needed.
var ErrCanceled = errors.New("canceled: no client waits for the result")

// Cancel reports when the result of some work is no longer needed: when Cancel was called, the deadline has passed, or the
// context or the parent has ended. Long work checks Err regularly; an operation that waits for other nodes registers a
// callback with OnCancel. A nil *Cancel never ends. It is safe for concurrent use.
type Cancel struct {
	parent   *Cancel
	ctx      context.Context // nil: none
	clock    Clock           // of deadline
	deadline time.Duration   // on the monotonic clock; zero: none
	canceled atomic.Bool

	mu    sync.Mutex
	hooks map[*hook]struct{}
}

// hook is a callback of OnCancel.
type hook struct{ f func() }

// NewCancel returns a Cancel that ends with ctx.
func NewCancel(ctx context.Context) *Cancel { return &Cancel{ctx: ctx} }

// Child returns a Cancel that ends with c, which may be nil, and at the deadline, unless that is zero.
func (c *Cancel) Child(clock Clock, deadline time.Duration) *Cancel {
	return &Cancel{parent: c, clock: clock, deadline: deadline}
}

// Err returns nil while the result is needed, context.DeadlineExceeded if only the deadline has passed, and otherwise
// ErrCanceled.
func (c *Cancel) Err() error {
	if c == nil {
		return nil
	}
	switch {
	case c.canceled.Load(), c.ctx != nil && c.ctx.Err() != nil:
		return ErrCanceled
	case c.deadline > 0 && c.clock.Monotonic() >= c.deadline:
		return context.DeadlineExceeded
	}
	return c.parent.Err()
}

// OnCancel registers f to be called by Cancel, or calls it immediately if Cancel was called before. Neither the end of the
// context nor the deadline calls it. remove unregisters f; it returns false if f was called or is about to be.
func (c *Cancel) OnCancel(f func()) (remove func() bool) {
	h := &hook{f}
	c.mu.Lock()
	canceled := c.canceled.Load()
	if !canceled {
		if c.hooks == nil {
			c.hooks = map[*hook]struct{}{}
		}
		c.hooks[h] = struct{}{}
	}
	c.mu.Unlock()
	if canceled {
		f()
	}
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		_, there := c.hooks[h]
		delete(c.hooks, h)
		return there
	}
}

// Cancel marks the result as no longer needed. It calls each registered callback once, without holding a lock. A nil Cancel
// does nothing.
func (c *Cancel) Cancel() {
	if c == nil {
		return
	}
	c.mu.Lock()
	c.canceled.Store(true)
	hooks := c.hooks
	c.hooks = nil
	c.mu.Unlock()
	for h := range hooks {
		h.f()
	}
}
