package account

import (
	"sync"
	"sync/atomic"
)

// PausePercent is the percentage of a bound at which reading pauses. It resumes below it.
const PausePercent = 80

// Budget counts the bytes in flight against a bound. Reserving beyond the bound fails, and above 80 % of it readers
// wait. It is safe for concurrent use.
type Budget struct {
	used    atomic.Int64
	limit   int64
	pause   int64 // readers wait while used is at least this
	waiters atomic.Int32

	mu   sync.Mutex // guards only the wait, not used
	cond *sync.Cond
}

// NewBudget returns a Budget of limit bytes.
func NewBudget(limit int64) *Budget {
	b := &Budget{limit: limit, pause: limit / 100 * PausePercent}
	if limit < 100 {
		b.pause = limit * PausePercent / 100
	}
	b.cond = sync.NewCond(&b.mu)
	return b
}

// reserve reserves n bytes, or none if that would exceed the bound.
func (b *Budget) reserve(n int64) bool {
	if b.used.Add(n) <= b.limit {
		return true
	}
	b.release(n)
	return false
}

// charge adds n bytes that already exist, such as a reply.
func (b *Budget) charge(n int64) { b.used.Add(n) }

// release releases n bytes.
func (b *Budget) release(n int64) {
	if b.used.Add(-n) < b.pause && b.waiters.Load() > 0 {
		b.wake()
	}
}

// wake makes every waiting goroutine check again.
func (b *Budget) wake() {
	b.mu.Lock()
	b.cond.Broadcast()
	b.mu.Unlock()
}

// wakeAny is wake if a goroutine waits.
func (b *Budget) wakeAny() {
	if b.waiters.Load() > 0 {
		b.wake()
	}
}

// await returns once ready returns true. The goroutine that makes it true must call wake or wakeAny.
func (b *Budget) await(ready func() bool) {
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
func (b *Budget) wait(stop func() bool) {
	if b.used.Load() < b.pause {
		return
	}
	// A release between the check and the wait sees waiters > 0 and blocks on mu until Wait has unlocked it, so no
	// wake-up is lost.
	b.mu.Lock()
	b.waiters.Add(1)
	for b.used.Load() >= b.pause && !stop() {
		b.cond.Wait()
	}
	b.waiters.Add(-1)
	b.mu.Unlock()
}
