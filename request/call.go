package request

import (
	"sync/atomic"
	"time"

	"cqld/internal/env"
	"cqld/internal/histogram"
	"cqld/internal/memory"
)

// Call is one operation of the coordinator or proposer that a request waits for. It is reused, and its callbacks are
// created once, so that requests do not allocate them. A Call has one owner at a time: the goroutine of the request
// until the operation is sent, the callback until it signals, and then the request again until Release.
type Call struct {
	e *Executor
	// waiter is signaled once for each operation, by end.
	waiter env.Waiter
	cancel *env.Cancel // cancels the operation; nil if it cannot be canceled

	kind Kind
	// measured means that the latency of this operation counts in Stats (Kind.sampled).
	measured bool
	// began is in monotonic time. It is set if measured, or if there are timers.
	began time.Duration
	// timers measure the operation for its tables.
	timers []*histogram.Timer

	// The callback writes err; the request reads it after the wait.
	err error
	// page is a copy, because the coordinator's page is valid only during the callback.
	page    []byte
	applied bool

	// answered means that the result is available, so that a Scan can consume it before it starts further Reads.
	answered atomic.Bool

	room   memory.Account // memory of a write in Options.Room
	owners memory.Origin  // owner of room, if the write had to wait

	onDone    func(error)
	onPage    func([]byte, error)
	onApplied func(bool, []byte, error)
}

// pageKeepMax limits the memory that an idle Call keeps, in bytes, until the second garbage collection: it suffices for
// a page of 1000 rows of 1 KB.
const pageKeepMax = 2 << 20

// newCall returns a Call with its three callbacks, one for each form of result.
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
		// Only a change that was not applied needs the page, to show the current values.
		if c.page = c.page[:0]; !applied {
			c.page = append(c.page, page...)
		}
		c.e.stats.decided(applied, err)
		c.end()
	}
	return c
}

// call returns a Call from the pool.
func (e *Executor) call() *Call { return e.calls.Get().(*Call) }

// begin counts the operation, and records the time if its latency is measured. The caller has called count for each
// table.
func (c *Call) begin(k Kind) {
	c.kind = k
	if c.measured = c.e.stats.begin(k); c.measured || len(c.timers) > 0 {
		c.began = c.e.o.Clock.Monotonic()
	}
}

// count counts the operation for a table.
func (c *Call) count(t *histogram.Timer) {
	if t.Begin(SampledReads) {
		c.timers = append(c.timers, t)
	}
}

// end completes the operation. After the signal, the Call belongs to the waiting goroutine. It runs in the goroutine of
// the callback.
func (c *Call) end() {
	if c.measured || len(c.timers) > 0 {
		now := c.e.o.Clock.Monotonic()
		if c.measured {
			c.e.stats.end(c.kind, now-c.began)
		}
		for _, t := range c.timers {
			t.End(now-c.began, now)
		}
	}
	c.answered.Store(true)
	c.waiter.Signal()
}

// Answered reports whether Wait would return immediately.
func (c *Call) Answered() bool { return c.answered.Load() }

// Wait blocks until the operation has completed, and returns its page. Call it once for each Call. The page is valid
// until Release.
func (c *Call) Wait(r *Request) (page []byte, err error) {
	err = c.wait(r)
	r.Cost.Bytes += len(c.page)
	return c.page, err
}

// wait is Wait without the page. If the context of the request ends first, it cancels the operation and still waits for
// its callback, which writes to c.
func (c *Call) wait(r *Request) error {
	env.WaitOrCancel(r.Context, c.waiter, c.cancel)
	return clientGone(c.err)
}

// Page returns the page of the completed operation. It is valid until Release.
func (c *Call) Page() []byte { return c.page }

// Keep transfers the page to the caller: Release does not reuse its memory. The caller may use it without a limit of
// time.
func (c *Call) Keep() { c.page = nil }

// Release returns the Call to the Executor. The caller must have waited for it, and must not use it afterwards.
func (c *Call) Release() {
	// The pool would otherwise keep the largest page that each Call has ever received.
	if cap(c.page) > pageKeepMax {
		c.page = nil
	}
	c.page = c.page[:0]
	c.err, c.cancel, c.applied, c.measured, c.timers = nil, nil, false, false, c.timers[:0]
	c.e.calls.Put(c)
}
