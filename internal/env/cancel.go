package env

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// ErrCanceled is the error of work that ended early because its result is not wanted any more.
var ErrCanceled = errors.New("canceled: no client waits for the result")

// Cancel says whether the result of some work is wanted still: until Cancel is called, the deadline has passed, or the
// context, or the parent, has ended. Work that takes long looks at Err regularly; an operation that waits for others
// registers what is to be done by OnCancel. A nil *Cancel never ends. It is safe for concurrent use.
type Cancel struct {
	parent   *Cancel
	ctx      context.Context // nil: none
	clock    Clock           // of deadline
	deadline time.Duration   // by the monotonic clock; zero: none
	canceled atomic.Bool

	mu    sync.Mutex
	hooks map[*hook]struct{}
}

// hook is what is to be called by Cancel.
type hook struct{ f func() }

// NewCancel makes a Cancel that ends with ctx.
func NewCancel(ctx context.Context) *Cancel { return &Cancel{ctx: ctx} }

// Child makes a Cancel that ends with c, which may be nil, and at the deadline, unless that is zero.
func (c *Cancel) Child(clock Clock, deadline time.Duration) *Cancel {
	return &Cancel{parent: c, clock: clock, deadline: deadline}
}

// Err is nil while the result is wanted, and then ErrCanceled, or context.DeadlineExceeded when only the time is over.
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

// OnCancel has f called by Cancel, or at once when that was called already. Neither the end of the context nor the
// deadline calls it. remove takes it back; false: f was called, or is about to be.
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

// Cancel says that the result is not wanted any more. It calls what was registered, without a lock held, once. A nil
// Cancel does nothing.
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
