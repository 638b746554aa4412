package memory

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"cqld/internal/env"
)

// ErrExhausted means that the node had no memory for a request in time. Nothing was changed by the attempt. A server
// answers it with OVERLOADED or, over HTTP, with 503.
var ErrExhausted = errors.New("the node has no memory for the request at present")

// TooLarge means that a request needs more memory than any request may use. Waiting would not help, so the client gets
// another error than for ErrExhausted.
type TooLarge struct{ Bytes, Max int64 }

// Error contains both figures. The text is shown to clients.
func (e *TooLarge) Error() string {
	return fmt.Sprintf("The request needs %d bytes of memory, but a request may use at most %d", e.Bytes, e.Max)
}

// Flow is a connection whose requests are executed concurrently. A nil Flow is never stopped. It has no lock: each
// field is read by the connection's reader and writer, and by the requests.
type Flow struct {
	waiting atomic.Int32
	stalled atomic.Int32 // of waiting, those in pools with Options.Stalls
	stop    atomic.Bool
}

// Waiting reports whether a request of the connection waits for memory. The connection is then not read further, if its
// pool has Options.Stalls.
func (f *Flow) Waiting() bool { return f.waiting.Load() > 0 }

// Stalled reports whether a request of the connection waits in a pool with Options.Stalls.
func (f *Flow) Stalled() bool { return f.stalled.Load() > 0 }

// Stop makes requests of the connection wait for further memory, or no longer wait: its client does not read the
// replies that it has. Call Pool.Wake after Stop(false). Memory that the requests already have stays theirs.
func (f *Flow) Stop(stop bool) { f.stop.Store(stop) }

// stopped reports whether requests of the connection must wait; a nil Flow has no connection that could stop.
func (f *Flow) stopped() bool { return f != nil && f.stop.Load() }

// Account is the memory of one request. One goroutine at a time uses it. It is reused after Close. A nil Account, and
// one that was not opened, have no bound. The usual life of an account:
//
//	Open ── Grow, Shrink, Spare … ── Close            the reply is written by the request's goroutine
//	Open ── Grow, Shrink, Spare … ── Detach ── Close  the reply waits for the client; Pool.Return follows
//
// Invariant: held is part of Pool.small or, if big, of Pool.large, and of the figures of both owners.
type Account struct {
	pool   *Pool
	origin Origin
	flow   *Flow
	// held is in bytes. It is written by the request's goroutine, or by the goroutine that grants memory while the
	// request waits.
	held  atomic.Int64
	spare int64 // of held: what Spare has kept for the next Grow
	big   bool  // held belongs to the large part
	turn  Turn  // of its computations

	// The following fields belong to Pool.mu. A timer or another account's goroutine changes them.
	waiter  env.Waiter
	waiting bool
	// size is the total after the wait, not the difference.
	size  int64 // that it waits for
	since time.Duration
	// Without round, a timer that fires late would end the next wait.
	round int // number of waits, to recognize the timers of earlier ones
	timer env.Timer
	err   error
}

// Open begins the account of a request. flow may be nil. The account must be closed, or never opened: Open does not
// check that it holds nothing.
func (p *Pool) Open(a *Account, origin Origin, flow *Flow) {
	if p != nil {
		a.pool, a.origin, a.flow = p, origin, flow
		a.turn.open(p, a.Owner())
	}
}

// SetRole sets the role of a request that was read before its role was known.
func (a *Account) SetRole(role *Owner) {
	if a == nil || a.pool == nil || a.origin.Role == role {
		return
	}
	n := a.held.Load()
	// The memory moves from one role to the other. The address stays.
	a.origin.Role.Hold(-n)
	a.origin.Role = role
	role.Hold(n)
	a.turn.owner = a.Owner()
}

// Close returns the memory. It may be called twice, and on an account that was never opened.
func (a *Account) Close() {
	if a == nil || a.pool == nil {
		return
	}
	p := a.pool
	h := a.Detach()
	a.origin.Address.Hold(-h.Bytes())
	a.pool, a.origin, a.flow = nil, Origin{}, nil
	a.turn.turns = nil
	p.Return(h)
}

// Flow returns the connection of the request; nil if it has none.
func (a *Account) Flow() *Flow {
	if a == nil {
		return nil
	}
	return a.flow
}

// Detach removes the memory from the account and its role, and returns it: Pool.Return returns it later, and Owner.Hold
// removes it from the address. The reply of a request outlives its account: the bytes count for the address until the
// client has read them.
func (a *Account) Detach() Held { return a.DetachOnly(math.MaxInt64) }

// DetachOnly is Detach for at most n bytes, and returns the others to the pool.
func (a *Account) DetachOnly(n int64) (h Held) {
	if a == nil || a.pool == nil {
		return h
	}
	// The turn is given back, because the request computes nothing from here on.
	a.turn.Rest()
	p := a.pool
	if p.privileged.Load() == a { // only this account ends its privilege
		p.mu.Lock()
		p.privileged.Store(nil)
		p.grantLocked()
		p.mu.Unlock()
	}
	held, big := a.held.Load(), a.big
	// A reused account begins as a small one.
	if a.big, a.spare = false, 0; held == 0 {
		return h
	}
	a.held.Store(0)
	a.origin.Role.Hold(-held)
	// The address keeps the detached bytes.
	if n = min(n, held); n < held {
		a.origin.Address.Hold(n - held)
		p.Return(heldIn(held-n, big))
	}
	return heldIn(n, big)
}

// heldIn returns n bytes of the large part, or of the small one. Exactly one of the two fields is set.
func heldIn(n int64, large bool) Held {
	if large {
		return Held{Large: n}
	}
	return Held{Small: n}
}

// Bytes returns the memory that the request has, without what Spare has kept.
func (a *Account) Bytes() int64 {
	if a == nil {
		return 0
	}
	return a.held.Load() - a.spare
}

// Max returns the largest size of an account; zero means that there is no bound. It is Limits.Reserve. Larger requests
// fail with TooLarge at once.
func (a *Account) Max() int64 {
	if a == nil || a.pool == nil {
		return 0
	}
	return a.pool.o.Reserve
}

// fitsSmall reports whether the account may have a size of the small part. An account that became big stays big until
// Detach, so it does not alternate.
func (a *Account) fitsSmall(size int64) bool { return !a.big && size <= smallMax }

// needs returns the bytes that must be taken from the large part for a size: the whole size, if the account was
// small. A small account that grows beyond smallMax moves as a whole.
func (a *Account) needs(size int64) int64 {
	if a.big {
		return size - a.held.Load()
	}
	return size
}

// grow sets the size after memory for it was taken, of the large part or of the small one. The caller has taken
// needs(size), or size - held of the small part.
func (a *Account) grow(size int64, large bool) {
	was := a.held.Swap(size)
	a.origin.hold(size - was)
	if large && !a.big {
		a.big = true
		// The account leaves the small part, whose bytes needs has counted in the large one.
		a.pool.small.Add(-was)
	}
}

// exceed sets the size of the privileged account. mu is held, so there is no second account with the
// privilege.
func (a *Account) exceed(size int64) {
	a.pool.large.Add(a.needs(size))
	a.grow(size, true)
	a.pool.raise()
}

// TryGrow adds n bytes if there is memory now. It does not wait and needs no lock, so it is the usual way to grow.
// After false, call Grow or fail.
func (a *Account) TryGrow(n int64) bool {
	if a == nil || a.pool == nil || n <= 0 {
		return true
	}
	// Only the bytes that exceed the spare ones are taken from the pool.
	more := n - a.spare
	if more <= 0 {
		a.spare = -more
		return true
	}
	if !a.take(more) {
		return false
	}
	// The kept bytes are part of the requested ones.
	a.spare = 0
	return true
}

// take takes n bytes of the pool if there is memory now. Its cases are in the order of cost.
func (a *Account) take(n int64) bool {
	p, size := a.pool, a.held.Load()+n
	switch {
	// In these cases Grow is needed: it reports TooLarge, and a stopped connection waits in the queue.
	case size > p.o.Reserve || a.flow.stopped():
		return false
	case a.fitsSmall(size) && p.takeSmall(n):
		a.grow(size, false)
	// The account must not overtake accounts that wait for the large part. Small accounts need not wait for those.
	case p.queued.Load() == 0 && p.takeLarge(a.needs(size)):
		a.grow(size, true)
	default:
		return false
	}
	return true
}

// Grow adds n bytes. It waits until there is memory, and fails with TooLarge, ErrExhausted, or the error of ctx. After
// an error nothing was added. A nil ctx is not allowed when it must wait.
func (a *Account) Grow(ctx context.Context, n int64) error {
	if a.TryGrow(n) {
		return nil
	}
	// Its memory is needed by those that wait.
	a.ReturnSpare() // others must not wait for it
	if size := a.held.Load() + n; size > a.pool.o.Reserve {
		a.pool.oversized.Add(1)
		return &TooLarge{size, a.pool.o.Reserve}
	}
	return a.wait(ctx, a.held.Load()+n)
}

// Resize grows or shrinks the account by the difference between two sizes of a part of it. Shrinking never waits.
func (a *Account) Resize(ctx context.Context, from, to int64) error {
	if to > from {
		return a.Grow(ctx, to-from)
	}
	a.Spare(from - to)
	return nil
}

// Spare is Shrink for a request that needs memory again, or ends, without waiting for anything else. A small account
// keeps the n bytes for the next Grow, because each change of the pool costs as much as a tenth of a short computation:
// most requests read one page and answer. The kept bytes count as used.
func (a *Account) Spare(n int64) {
	if a == nil || a.pool == nil || n <= 0 {
		return
	}
	if a.big {
		a.Shrink(n)
		return
	}
	a.spare += n
}

// ReturnSpare returns the bytes that Spare has kept. It is called before the request waits for something else.
// Otherwise memory that is not used would be reserved while the request waits for replicas.
func (a *Account) ReturnSpare() {
	if a == nil || a.spare == 0 {
		return
	}
	n := a.spare
	a.spare = 0
	a.Shrink(n)
}

// Shrink returns n bytes. n must not exceed Bytes. It wakes accounts that wait, if any.
func (a *Account) Shrink(n int64) {
	if a == nil || a.pool == nil || n <= 0 {
		return
	}
	a.held.Add(-n)
	a.origin.hold(-n)
	a.pool.Return(heldIn(n, a.big))
}

// wait waits for memory of a size. The steps: enqueue, grant what is free, wait for a signal from the goroutine that
// grants, refuses or gives up.
func (a *Account) wait(ctx context.Context, size int64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	p := a.pool
	p.mu.Lock()
	// The privilege stays until Detach, so this account never waits again.
	if p.privileged.Load() == a {
		a.exceed(size)
		p.mu.Unlock()
		return nil
	}
	// A full queue refuses at once, which bounds the waiting goroutines.
	if !p.enqueueLocked(a, size) {
		p.mu.Unlock()
		p.refused.Add(1)
		return ErrExhausted
	}
	// Memory may have become free between take and the lock.
	p.grantLocked()
	round := a.round
	if a.waiting {
		a.armLocked(p, round)
	}
	p.mu.Unlock()
	if a.flow != nil {
		a.flow.waiting.Add(1)
		defer a.flow.waiting.Add(-1)
		if p.o.Stalls {
			a.flow.stalled.Add(1)
			defer a.flow.stalled.Add(-1)
		}
	}
	// stop of AfterFunc is deferred: the end of the wait unregisters it.
	if ctx.Done() != nil {
		defer context.AfterFunc(ctx, func() { a.giveUp(p, round, ctx.Err()) })()
	}
	if a.turn.held { // those that have memory may wait for a turn
		a.turn.Rest()
		defer a.turn.take()
	}
	// Exactly one Signal follows each successful enqueueLocked.
	a.waiter.Wait()
	p.mu.Lock()
	// err was set before the signal, under mu.
	err := a.err
	if a.timer != nil {
		a.timer.Stop()
		a.timer = nil
	}
	p.mu.Unlock()
	if err != nil {
		p.refused.Add(1)
	}
	return err
}

// armLocked sets the timer of the next call of look.
func (a *Account) armLocked(p *Pool, round int) {
	a.timer = p.o.Clock.After(lookEvery, func() { a.look(p, round) })
}

// look ends the wait after WaitMax, or reclaims memory of clients that do not read. It runs in the goroutine of the
// clock, with no lock held at first: functions of OnShortage return memory.
func (a *Account) look(p *Pool, round int) {
	if p.o.Clock.Monotonic()-a.began(p, round) >= p.o.WaitMax {
		a.giveUp(p, round, ErrExhausted)
		return
	}
	p.shortage()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.grantLocked()
	if a.waiting && a.round == round {
		a.armLocked(p, round)
	}
}

// began returns when a wait began, or zero if it has ended, in which case look and giveUp do nothing.
func (a *Account) began(p *Pool, round int) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !a.waiting || a.round != round {
		return 0
	}
	return a.since
}

// giveUp ends a wait, unless it has ended. It is called by timers and by contexts, at any time.
func (a *Account) giveUp(p *Pool, round int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if a.waiting && a.round == round {
		p.endLocked(a, err)
		p.grantLocked() // the next one may be smaller
	}
}
