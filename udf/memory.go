package udf

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"cqld/internal/memory"
	"cqld/udf/value"
)

// newMemory returns the memory that calls, compilations, programs and idle instances share, or nil if it has no
// bound. All of them share half of it. The other half is a reserve for one call or compilation at a time, and the
// maximum that a single one may use.
//
// Half and half means that a node with 64 MiB for functions executes a call of at most 32 MiB.
func newMemory(bytes int64) *memory.Pool {
	if bytes == 0 {
		return nil
	}
	return memory.New(memory.Options{Limits: memory.Limits{Bytes: bytes / 2, Reserve: bytes / 2}})
}

// calls contains the accounts of calls that have ended. It is a sync.Pool, so idle accounts are collected.
type calls struct{ pool sync.Pool }

// call is the account of a call. It is the value.Memory of one meter.
type call struct{ account memory.Account }

// open returns the account of a call, or nil if memory has no bound. The caller must close it.
func (c *calls) open(m *memory.Pool) *call {
	if m == nil {
		return nil
	}
	in, ok := c.pool.Get().(*call)
	if !ok {
		in = new(call)
	}
	// No origin and no flow: a call's memory belongs to functions, not to a client.
	m.Open(&in.account, memory.Origin{}, nil)
	return in
}

// close returns what the call has reserved, and keeps the account for another call. in may be nil.
func (c *calls) close(in *call) {
	if in != nil {
		in.account.Close()
		c.pool.Put(in)
	}
}

// Grow implements value.Memory. It waits at most as long as the pool lets accounts wait, and is not cancelled with the
// request.
func (c *call) Grow(n int64) error {
	err := c.account.Grow(context.Background(), n)
	var large *memory.TooLarge
	switch {
	case err == nil:
		return nil
	case errors.As(err, &large):
		const reason = "it needs %d bytes of memory, and a call may use at most %d of this node's"
		return &value.Exceeded{Reason: fmt.Sprintf(reason, large.Bytes, large.Max)}
	}
	// The node has too little now. Another time the same call may succeed.
	return &value.Unavailable{Err: err}
}

// Shrink implements value.Memory. It never waits.
func (c *call) Shrink(n int64) { c.account.Shrink(n) }

// keep returns the memory of an account to the pool except for n bytes, and returns these as Held. The account is
// empty afterwards. n is the size of the program. If the account holds less, all of it is kept.
func keep(m *memory.Pool, a *memory.Account, n int64) memory.Held {
	h := a.Detach()
	// The pool counts its two parts separately. Keep memory of the small part first.
	kept := memory.Held{Small: min(h.Small, n)}
	kept.Large = min(h.Large, n-kept.Small)
	m.Return(memory.Held{Small: h.Small - kept.Small, Large: h.Large - kept.Large})
	return kept
}
