package request

import (
	"sync/atomic"
	"time"

	"cqld/internal/env"
)

// Call is one piece of work of the coordinator that a request waits for. It is reused, and its callbacks are made once, so
// that a request allocates none.
type Call struct {
	e      *Executor
	waiter env.Waiter
	cancel *env.Cancel // ends the work; nil if it is waited for in any case

	kind     Kind
	measured bool
	began    time.Duration

	// Written by the callback, and read after the wait.
	err     error
	page    []byte // a copy: the coordinator's page is valid during the callback only
	applied bool

	answered atomic.Bool

	onDone    func(error)
	onPage    func([]byte, error)
	onApplied func(bool, []byte, error)
}

// pageKeepMax bounds the memory that an idle Call keeps, in bytes, until the second garbage collection: a page of 1000 rows of
// 1 KB fits.
const pageKeepMax = 2 << 20

func newCall(e *Executor) *Call {
	c := &Call{e: e, waiter: e.o.NewWaiter()}
	c.onDone = func(err error) {
		c.err = err
		c.end()
	}
	c.onPage = func(page []byte, err error) {
		c.err = err
		c.page = append(c.page[:0], page...)
		c.end()
	}
	c.onApplied = func(applied bool, page []byte, err error) {
		c.err, c.applied = err, applied
		if c.page = c.page[:0]; !applied {
			c.page = append(c.page, page...)
		}
		c.e.stats.decided(applied, err)
		c.end()
	}
	return c
}

func (e *Executor) call() *Call { return e.calls.Get().(*Call) }

// begin counts the work, and notes the time if it is to be measured.
func (c *Call) begin(k Kind) {
	c.kind = k
	if c.measured = c.e.stats.begin(k); c.measured {
		c.began = c.e.o.Clock.Monotonic()
	}
}

// end is the event that the coordinator has answered. The Call belongs to its waiter as soon as it is signaled.
func (c *Call) end() {
	if c.measured {
		c.e.stats.end(c.kind, c.e.o.Clock.Monotonic()-c.began)
	}
	c.answered.Store(true)
	c.waiter.Signal()
}

// Answered reports whether Wait would return at once.
func (c *Call) Answered() bool { return c.answered.Load() }

// Wait blocks until the coordinator has answered, and returns the page that it answered with. It is called once for each
// Call. The page is valid until Release.
func (c *Call) Wait(r *Request) (page []byte, err error) {
	err = c.wait(r)
	r.Cost.Bytes += len(c.page)
	return c.page, err
}

// wait is Wait without the page.
func (c *Call) wait(r *Request) error {
	env.WaitOrCancel(r.Context, c.waiter, c.cancel)
	return clientGone(c.err)
}

// Page returns the page that the coordinator answered with. It is valid until Release.
func (c *Call) Page() []byte { return c.page }

// Keep leaves the page to the caller: Release doesn't reuse its memory.
func (c *Call) Keep() { c.page = nil }

// Release gives the Call back. The caller must have waited for it, and must not use it afterwards.
func (c *Call) Release() {
	if cap(c.page) > pageKeepMax {
		c.page = nil
	}
	c.page = c.page[:0]
	c.err, c.cancel, c.applied, c.measured = nil, nil, false, false
	c.e.calls.Put(c)
}
