package memory

import (
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"cqld/internal/env"
)

// Limits bound a Pool. A zero field means its default. Bytes must be set.
type Limits struct {
	// Bytes bounds all accounts together.
	Bytes int64
	// Reserve bounds each account. One account at a time may exceed Bytes. The default is half of Bytes. In bytes.
	Reserve int64
	// Waiters is the maximum number of accounts that wait. 256 by default.
	Waiters int
	// WaitMax is how long an account waits at most. 4 s by default.
	WaitMax time.Duration
	// Turns is the maximum number of long computations at a time (Turn). The default is two for each processor.
	Turns int
}

// Of returns the limits of a pool that uses at most total bytes: two thirds for all requests, and a third in reserve.
func Of(total int64) Limits { return Limits{Bytes: total / 3 * 2, Reserve: total / 3} }

// Options configure a Pool.
type Options struct {
	Limits
	// Stalls means that the connection of a request that waits is read no further.
	Stalls bool
	// Clock measures waits; nil means the system's. Timers of waits run on it as well.
	Clock env.Clock
	// NewWaiter creates the waiters of accounts; nil means channels.
	NewWaiter func() env.Waiter
}

// Pool is memory that requests share: they reserve it before they allocate, and return it when the client has the reply
// or has gone. Each request has an Account. It may hold memory and wait for more, so the account that has waited
// longest may exceed the bound, from a reserve that suffices for any account. It proceeds and ends, and the next one
// follows. At all times:
//
//  1. Accounts without the privilege, and what was reserved without an account, use at most Limits.Bytes. A part of it
//     is for small accounts only, so that others do not keep them waiting.
//  2. At most one account has the privilege, none exceeds Limits.Reserve, and the privilege is given only while at most
//     Limits.Bytes are used. So the pool uses at most Bytes + Reserve.
//  3. Roles and addresses share what is free, and take turns at the privilege: a role or an address with many requests
//     that wait delays others by the requests that run, not by those that wait.
//  4. If accounts wait, another account has the privilege and does not wait, or replies that clients have not read
//     exceed the bound. Clients that do not read are disconnected (OnShortage), so each wait ends.
//
// A Pool is safe for concurrent use. A nil Pool has no bound. The two parts and the reserve:
//
//	│◀──────────────── Bytes ───────────────▶│◀─── Reserve ───▶│
//	│ small: 1/8 │ large: 7/8                │ one account     │
type Pool struct {
	o     Options
	small atomic.Int64 // bytes in use by small accounts
	large atomic.Int64 // and by others
	peak  atomic.Int64
	// queued is readable without mu, because the usual question is whether any account waits.
	queued     atomic.Int32            // length of queue
	privileged atomic.Pointer[Account] // set with mu
	// If pauses is not 0, Return must check calm.
	pauses atomic.Int32 // goroutines in Calm

	// Counters of Stats.
	waits, refused, oversized atomic.Int64

	// mu is held for short steps only; functions of OnShortage are called without it.
	mu      sync.Mutex
	queue   []*Account           // those that wait, in the order in which they began
	turn    int64                // number of accounts that no longer wait because they were given memory
	reclaim map[*func()]struct{} // of OnShortage
	calm    map[*Pause]struct{}  // in Calm
	watch   env.Timer            // while goroutines are in Calm

	owners owners
	turns  turns
}

// Stats are the figures of a Pool. The figures are read one by one, so they need not fit together exactly.
type Stats struct {
	Used, Peak     int64 // bytes now, and at most since the start
	Bytes, Reserve int64 // the limits
	Waiting        int   // accounts that wait now
	Waits          int64 // how often accounts had to wait
	Refused        int64 // accounts that got no memory in time
	Oversized      int64 // accounts that asked for more than Reserve
}

// New returns a Pool. It starts no goroutine. Bytes must be positive.
func New(o Options) *Pool {
	if o.Reserve == 0 {
		o.Reserve = o.Bytes / 2
	}
	if o.Waiters == 0 {
		o.Waiters = waitersDefault
	}
	if o.WaitMax == 0 {
		o.WaitMax = waitMaxDefault
	}
	if o.Turns == 0 {
		o.Turns = turnsEach * runtime.GOMAXPROCS(0)
	}
	if o.Clock == nil {
		o.Clock = wallClock{time.Now()}
	}
	if o.NewWaiter == nil {
		o.NewWaiter = env.NewChannelWaiter
	}
	p := &Pool{o: o, reclaim: map[*func()]struct{}{}, calm: map[*Pause]struct{}{}}
	p.turns.free, p.turns.newWaiter = o.Turns, o.NewWaiter
	return p
}

// Limits returns the limits. Defaults are filled in.
func (p *Pool) Limits() Limits { return p.o.Limits }

// OnShortage registers f, which is called regularly while accounts wait or Calm does, in a goroutine that must not
// block. It disconnects clients that do not read their replies. remove unregisters it. Functions are called
// concurrently with requests, possibly several times at once.
func (p *Pool) OnShortage(f func()) (remove func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reclaim[&f] = struct{}{}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.reclaim, &f)
	}
}

// Stats returns the current figures. p must not be nil.
func (p *Pool) Stats() Stats {
	return Stats{Used: p.Used(), Peak: p.peak.Load(), Bytes: p.o.Bytes, Reserve: p.o.Reserve,
		Waiting: int(p.queued.Load()),
		Waits:   p.waits.Load(), Refused: p.refused.Load(), Oversized: p.oversized.Load()}
}

// Used returns the bytes in use. It may exceed Bytes by Reserve, and by what Charge has counted.
func (p *Pool) Used() int64 { return p.small.Load() + p.large.Load() }

// Scarce reports whether more than half of the memory is used. A nil Pool has no bound.
func (p *Pool) Scarce() bool { return p != nil && p.Used() > p.o.Bytes/2 }

// take takes n bytes of a part of the pool if no more than limit of it are then used. It is lock-free; it fails rather
// than wait for another goroutine.
func (p *Pool) take(part *atomic.Int64, n, limit int64) bool {
	for {
		used := part.Load()
		// The swap checks the bound and reserves the bytes in one step, without the lock.
		if used+n > limit {
			return false
		}
		if part.CompareAndSwap(used, used+n) {
			p.raise()
			return true
		}
	}
}

// takeSmall takes n bytes of the part for small accounts. 1/8 of Bytes.
func (p *Pool) takeSmall(n int64) bool { return p.take(&p.small, n, p.o.Bytes/smallShare) }

// takeLarge takes n bytes of the part for all others. 7/8 of Bytes.
func (p *Pool) takeLarge(n int64) bool { return p.take(&p.large, n, p.largeMax()) }

// largeMax returns the bound of the large part.
func (p *Pool) largeMax() int64 { return p.o.Bytes - p.o.Bytes/smallShare }

// raise records the greatest use. The maximum is of the sum, so it is not exact while two goroutines raise it.
func (p *Pool) raise() {
	used := p.Used()
	for {
		peak := p.peak.Load()
		if used <= peak || p.peak.CompareAndSwap(peak, used) {
			return
		}
	}
}

// Held is memory that belongs to no account, by the part of the pool from which it comes. The two parts must be
// returned as they were taken.
type Held struct{ Small, Large int64 }

// Bytes returns the sum.
func (h Held) Bytes() int64 { return h.Small + h.Large }

// Plus returns the sum of h and o.
func (h Held) Plus(o Held) Held { return Held{h.Small + o.Small, h.Large + o.Large} }

// Reserve reserves n bytes for a request that has no account yet, or fails without waiting. If it fails, the returned
// Held must be ignored: nothing was reserved.
func (p *Pool) Reserve(n int64) (Held, bool) {
	if n <= smallMax && p.takeSmall(n) {
		return Held{Small: n}, true
	}
	return Held{Large: n}, p.takeLarge(n)
}

// Charge counts n bytes that exist already, without a bound. They are few: a reply to a write that was applied. They
// count as small, whose part they may exceed.
func (p *Pool) Charge(n int64) Held {
	p.small.Add(n)
	p.raise()
	return Held{Small: n}
}

// Return returns memory. h must have been taken before; the pool does not check it.
func (p *Pool) Return(h Held) {
	if h == (Held{}) {
		return
	}
	if h.Small != 0 {
		p.small.Add(-h.Small)
	}
	if h.Large != 0 {
		p.large.Add(-h.Large)
	}
	// Usually no goroutine waits, and the lock is not acquired. Both are read after the subtraction: see Calm for why
	// no wake-up is lost.
	calm := p.pauses.Load() > 0 && p.IsCalm()
	if !calm && p.queued.Load() == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if calm {
		p.wakeOneLocked()
	}
	p.grantLocked()
}

// wakeOneLocked wakes one goroutine in Calm. If it returns from there, it wakes the next one: all at a time would find
// the memory taken by the first ones, and the requests that run would wait for each of them. mu is held. The order of a
// map is random, so no connection is preferred.
func (p *Pool) wakeOneLocked() {
	for at := range p.calm {
		at.cond.Signal()
		return
	}
}

// pauseAt returns the use from which Calm waits. At least 1, or a pool of a few bytes would never be calm.
func (p *Pool) pauseAt() int64 { return max(1, p.o.Bytes*calmPercent/100) }

// Pause is the place of one goroutine in Calm. The zero Pause is ready for use. Its condition uses Pool.mu, so it
// belongs to one Pool.
type Pause struct{ cond *sync.Cond }

// IsCalm reports whether less than 80 % of the bound are in use. It is a hint: another goroutine may take memory at
// once.
func (p *Pool) IsCalm() bool { return p.Used() < p.pauseAt() }

// Calm returns once less than 80 % of the bound are in use or stop returns true. The goroutine that makes stop true
// must call Resume or Wake. One goroutine at a time uses at. Readers call it before they read a request, so that no new
// request begins while memory is short.
func (p *Pool) Calm(at *Pause, stop func() bool) {
	if p.IsCalm() {
		return
	}
	// Return sees pauses > 0, and blocks on mu until Wait has released it: no wake-up is lost.
	p.mu.Lock()
	if at.cond == nil {
		at.cond = sync.NewCond(&p.mu)
	}
	p.calm[at] = struct{}{}
	if p.pauses.Add(1) == 1 {
		p.watchLocked()
	}
	for p.Used() >= p.pauseAt() && !stop() {
		at.cond.Wait()
	}
	delete(p.calm, at)
	if p.pauses.Add(-1) == 0 {
		p.watch.Stop()
	} else if p.IsCalm() {
		p.wakeOneLocked()
	}
	p.mu.Unlock()
}

// watchLocked reclaims memory of clients that do not read, as long as goroutines are in Calm. mu is held. Accounts that
// wait have timers of their own.
func (p *Pool) watchLocked() {
	p.watch = p.o.Clock.After(lookEvery, func() {
		p.shortage()
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.pauses.Load() > 0 {
			p.watchLocked()
		}
	})
}

// Resume makes the goroutine in Calm that uses at call stop. It does nothing if no goroutine is there.
func (p *Pool) Resume(at *Pause) {
	p.mu.Lock()
	if at.cond != nil {
		at.cond.Signal()
	}
	p.mu.Unlock()
}

// Wake makes each goroutine in Calm call stop, and looks at the accounts that wait: a Flow may have been resumed. All
// are woken, since each has a stop of its own.
func (p *Pool) Wake() {
	p.mu.Lock()
	for at := range p.calm {
		at.cond.Signal()
	}
	p.grantLocked()
	p.mu.Unlock()
}

// shortage calls the functions that disconnect clients which do not read. mu is not held.
func (p *Pool) shortage() {
	p.mu.Lock()
	// Called without the lock, because disconnecting a client returns memory.
	all := slices.Collect(maps.Keys(p.reclaim))
	p.mu.Unlock()
	for _, f := range all {
		(*f)()
	}
}
