// Package account accounts for the memory of one connection's requests and replies. Each byte counts against the bound
// of the connection, the bound of its address if there is one, and the pool that all connections share; the reader of a
// connection pauses while any of them is nearly exhausted.
package account

import (
	"context"
	"sync/atomic"
	"time"

	"cqld/internal/memory"
)

// A large request waits briefly, at most as long as a write may take, until its client has read replies. Then it is
// refused.
const (
	largeWait     = 2 * time.Second
	largeWaitStep = 2 * time.Millisecond
)

// Account is the memory of one connection. All methods but Calm and Await, which the reader calls, are safe for
// concurrent use.
type Account struct {
	own     *Budget
	shared  *Budget // of all connections of the address; nil without a bound
	refused *atomic.Int64
	pool    *memory.Pool
	address *memory.Owner
	role    atomic.Pointer[memory.Owner] // nil until the client is authenticated
	flow    memory.Flow
	pause   memory.Pause // of the reader
	paused  atomic.Bool  // the reader waits for memory of others
}

// Init prepares the account of a connection that may use bytesMax of pool.
func (a *Account) Init(pool *memory.Pool, bytesMax int64) {
	a.pool, a.own = pool, NewBudget(bytesMax)
}

// Join assigns the connection to a client address. shared bounds all connections of the address, and nil means no
// bound; refused counts the requests that are refused because of that bound. Join must be called before the first
// request.
func (a *Account) Join(address *memory.Owner, shared *Budget, refused *atomic.Int64) {
	a.address, a.shared, a.refused = address, shared, refused
}

// SetRole charges later requests to a role as well.
func (a *Account) SetRole(role *memory.Owner) { a.role.Store(role) }

// Leave releases the connection's owners in the pool, its address and its role. It is called when the connection has
// ended.
func (a *Account) Leave() {
	a.pool.Release(a.address)
	a.pool.Release(a.role.Load())
}

// Flow returns the flow whose memory the connection's requests wait for.
func (a *Account) Flow() *memory.Flow { return &a.flow }

// Open opens the account of one request of the connection.
func (a *Account) Open(r *memory.Account) { a.pool.Open(r, a.Origin(), &a.flow) }

// Origin returns the owners of the memory of requests.
func (a *Account) Origin() memory.Origin {
	return memory.Origin{Role: a.role.Load(), Address: a.address}
}

// Exceeded reports whether the connection uses more than its bound. Only replies and events can exceed it.
func (a *Account) Exceeded() bool { return a.own.used.Load() > a.own.limit }

// Calm waits while too many bytes are in flight, until stop returns true. A connection without requests may send one,
// so that clients which wait for each answer do not wait for the memory of others. A connection that prefers refusals
// to waiting (refuse) waits only until it is below its own bound. The goroutine that makes stop true must call Wake.
func (a *Account) Calm(refuse bool, stop *atomic.Bool) {
	a.own.wait(stop.Load)
	// A connection without requests holds no memory for which others could wait, and one that prefers refusals never
	// waits here.
	if refuse || a.own.used.Load() == 0 || a.shared == nil && a.pool.IsCalm() {
		return
	}
	a.paused.Store(true)
	defer a.paused.Store(false)
	// The pause also ends when the connection's own requests have ended, because it does not cause the shortage then.
	resume := func() bool { return stop.Load() || a.own.used.Load() == 0 }
	if a.shared != nil {
		a.shared.wait(resume)
	}
	a.pool.Calm(&a.pause, resume)
}

// Await returns once ready returns true. The goroutine that makes it true must call Wake or WakeReader.
func (a *Account) Await(ready func() bool) { a.own.await(ready) }

// Wake makes the reader check whether it must stop, if it waits for memory.
func (a *Account) Wake() {
	a.own.wake()
	if a.shared != nil {
		a.shared.wake()
	}
	a.pool.Wake()
}

// Waiting reports whether the reader waits for memory.
func (a *Account) Waiting() bool { return a.paused.Load() || a.own.waiters.Load() > 0 }

// WakeReader makes a reader in Await call ready again.
func (a *Account) WakeReader() { a.own.wakeAny() }

// Reserve reserves n bytes, or none if that would exceed a bound.
func (a *Account) Reserve(n int64) (h memory.Held, ok bool) {
	// The narrow budgets are checked first, so that a connection that exceeds its own does not touch the pool.
	if !a.reserveOwn(n) {
		return h, false
	}
	if h, ok = a.pool.Reserve(n); !ok {
		a.releaseOwn(n)
		return h, false
	}
	a.address.Hold(n)
	return h, true
}

// ReserveLarge reserves n bytes for a large request, which leaves a part of the memory to small ones. It waits briefly,
// unless refuse is true, and until ctx ends or stop is true.
func (a *Account) ReserveLarge(ctx context.Context, n int64, refuse bool, stop *atomic.Bool) (h memory.Held, ok bool) {
	for late := time.Now().Add(largeWait); !a.reserveOwn(n); time.Sleep(largeWaitStep) { // the client reads no replies
		if refuse || stop.Load() || time.Now().After(late) {
			return h, false
		}
	}
	var request memory.Account
	a.pool.Open(&request, a.Origin(), nil)
	defer request.Close()
	if !request.TryGrow(n) && (refuse || request.Grow(ctx, n) != nil) {
		a.releaseOwn(n)
		return h, false
	}
	return request.Detach(), true
}

// reserveOwn reserves n bytes in the budgets of the connection and its address.
func (a *Account) reserveOwn(n int64) bool {
	if !a.own.reserve(n) {
		return false
	}
	if a.shared != nil && !a.shared.reserve(n) {
		// The reservation is all or nothing: a part that stays reserved would never be released.
		a.own.release(n)
		a.refused.Add(1)
		return false
	}
	return true
}

// releaseOwn undoes reserveOwn.
func (a *Account) releaseOwn(n int64) {
	a.own.release(n)
	if a.shared != nil {
		a.shared.release(n)
	}
	// The reader sets paused before it reads used, so at least one of the two goroutines sees the other's change.
	if a.paused.Load() && a.own.used.Load() == 0 {
		if a.shared != nil {
			a.shared.wake()
		}
		a.pool.Resume(&a.pause)
	}
}

// Charge counts n bytes of a small reply that exists already.
func (a *Account) Charge(n int64) memory.Held {
	a.chargeOwn(n)
	a.address.Hold(n)
	return a.pool.Charge(n)
}

// Convert moves the memory that a request has in its own account to its reply of n bytes, which exists already.
func (a *Account) Convert(r *memory.Account, n int64) (h memory.Held) {
	if more := n - r.Bytes(); more > 0 && !r.TryGrow(more) {
		h = a.pool.Charge(more) // metadata and warnings
		a.address.Hold(more)
	}
	h = h.Plus(r.DetachOnly(n))
	a.chargeOwn(h.Bytes())
	return h
}

// chargeOwn counts n bytes in the budgets of the connection and its address.
func (a *Account) chargeOwn(n int64) {
	a.own.charge(n)
	if a.shared != nil {
		a.shared.charge(n)
	}
}

// Release gives back what Reserve, ReserveLarge, Charge and Convert returned.
func (a *Account) Release(h memory.Held) {
	if n := h.Bytes(); n > 0 {
		a.releaseOwn(n)
		a.address.Hold(-n)
		a.pool.Return(h)
	}
}
