package server

import (
	"sync"
	"sync/atomic"
)

// budget counts the bytes in flight against a bound. Reserving beyond the bound fails, and above 80 % of it readers
// wait. All methods are safe for concurrent use.
type budget struct {
	used    atomic.Int64
	limit   int64
	pause   int64 // readers wait while used is at least this
	waiters atomic.Int32

	mu   sync.Mutex // guards only the wait, not used
	cond *sync.Cond
}

func newBudget(limit int64) *budget {
	b := &budget{limit: limit, pause: limit / 100 * pausePercent}
	if limit < 100 {
		b.pause = limit * pausePercent / 100
	}
	b.cond = sync.NewCond(&b.mu)
	return b
}

// reserve reserves n bytes, or none if that would exceed the bound.
func (b *budget) reserve(n int64) bool {
	if b.used.Add(n) <= b.limit {
		return true
	}
	b.release(n)
	return false
}

// charge adds n bytes that already exist, such as a reply.
func (b *budget) charge(n int64) { b.used.Add(n) }

// release releases n bytes.
func (b *budget) release(n int64) {
	if b.used.Add(-n) < b.pause && b.waiters.Load() > 0 {
		b.wake()
	}
}

// wake makes every waiting goroutine check again.
func (b *budget) wake() {
	b.mu.Lock()
	b.cond.Broadcast()
	b.mu.Unlock()
}

// wakeAny is wake if a goroutine waits.
func (b *budget) wakeAny() {
	if b.waiters.Load() > 0 {
		b.wake()
	}
}

// await returns once ready returns true. The goroutine that makes it true must call wake or wakeAny.
func (b *budget) await(ready func() bool) {
	b.mu.Lock()
	b.waiters.Add(1)
	for !ready() {
		b.cond.Wait()
	}
	b.waiters.Add(-1)
	b.mu.Unlock()
}

// wait returns once less than 80 % are in use or stop returns true. The goroutine that makes stop true must call
// wake.
func (b *budget) wait(stop func() bool) {
	if b.used.Load() < b.pause {
		return
	}
	// A release between the check and the wait sees waiters > 0 and blocks on
	// mu until Wait has given it up: no wake-up is lost.
	b.mu.Lock()
	b.waiters.Add(1)
	for b.used.Load() >= b.pause && !stop() {
		b.cond.Wait()
	}
	b.waiters.Add(-1)
	b.mu.Unlock()
}
