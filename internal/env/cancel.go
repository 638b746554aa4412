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

// Cancel reports when the result of some work is no longer needed: when Cancel was called, the deadline has passed, or
// the context or the parent has ended. Long work checks Err regularly; an operation that waits for other nodes
// registers a callback with OnCancel. A nil *Cancel never ends. It is safe for concurrent use.
type Cancel struct {
	parent   *Cancel
	ctx      context.Context // nil: none
	clock    Clock           // of deadline
	deadline time.Duration   // on the monotonic clock; zero: none
	canceled atomic.Bool

	mu    sync.Mutex
	hooks *Hook // the first of a list, in no particular order
}

// Hook is a callback of a Cancel. It can be part of an operation, which then registers it without an allocation. F is
// set before Watch and not changed while the Hook is registered. One Cancel at a time has it.
type Hook struct {
	F func()

	of         *Cancel // nil while it is not registered; guarded by the mu of that Cancel
	prev, next *Hook   // guarded by the mu of the Cancel
}

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

// OnCancel registers f as Watch does. remove is Remove of its Hook.
func (c *Cancel) OnCancel(f func()) (remove func() bool) {
	h := &Hook{F: f}
	c.Watch(h)
	return func() bool { return c.Remove(h) }
}

// Watch registers h.F to be called by Cancel, or calls it immediately if Cancel was called before. Neither the end of
// the context nor the deadline calls it.
func (c *Cancel) Watch(h *Hook) {
	c.mu.Lock()
	if c.canceled.Load() {
		c.mu.Unlock()
		h.F()
		return
	}
	h.of, h.prev, h.next = c, nil, c.hooks
	if c.hooks != nil {
		c.hooks.prev = h
	}
	c.hooks = h
	c.mu.Unlock()
}

// Remove unregisters h. It returns false if h.F was called or is about to be; the memory of h must then not be reused
// before the call.
func (c *Cancel) Remove(h *Hook) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if h.of != c {
		return false
	}
	if h.prev != nil {
		h.prev.next = h.next
	} else {
		c.hooks = h.next
	}
	if h.next != nil {
		h.next.prev = h.prev
	}
	h.of, h.prev, h.next = nil, nil, nil
	return true
}

// Cancel marks the result as no longer needed. It calls each registered callback once, without holding a lock. A nil
// Cancel does nothing.
func (c *Cancel) Cancel() {
	if c == nil {
		return
	}
	c.canceled.Store(true) // before the lock, so that no hook is registered after the last one is taken
	for h := c.takeHook(); h != nil; h = c.takeHook() {
		h.F()
	}
}

// takeHook removes and returns a registered Hook, or returns nil. Its operation may reuse it as soon as F is called.
func (c *Cancel) takeHook() *Hook {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.hooks
	if h == nil {
		return nil
	}
	if c.hooks = h.next; c.hooks != nil {
		c.hooks.prev = nil
	}
	h.of, h.prev, h.next = nil, nil, nil
	return h
}
