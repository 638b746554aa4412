package node

import (
	"math/rand/v2"
	"sync"
	"time"

	"cqld/internal/env"
	"cqld/internal/guard"
)

// realClock is the machine's, or one that is wrong by an offset, for tests.
type realClock struct {
	start  time.Time
	offset time.Duration
	guard  *guard.Guard
}

func newRealClock(offset time.Duration, g *guard.Guard) realClock {
	return realClock{time.Now(), offset, g}
}

func (c realClock) Now() time.Time           { return time.Now().Add(c.offset) }
func (c realClock) Monotonic() time.Duration { return time.Since(c.start) }
func (c realClock) After(d time.Duration, f func()) env.Timer {
	return time.AfterFunc(d, func() {
		defer c.guard.Recover("timer", nil)
		f()
	})
}

// newClock returns the clock of a node: the one that the options set, or else the machine's.
func newClock(o Options, g *guard.Guard) env.Clock {
	if o.Clock == nil {
		return newRealClock(o.ClockOffset, g)
	}
	return guardedClock{o.Clock, g}
}

// guardedClock recovers from panics of the callbacks of another clock's timers.
type guardedClock struct {
	env.Clock
	guard *guard.Guard
}

// After implements env.Clock.
func (c guardedClock) After(d time.Duration, f func()) env.Timer {
	return c.Clock.After(d, func() {
		defer c.guard.Recover("timer", nil)
		f()
	})
}

// realRand is the runtime's source, safe for concurrent use.
type realRand struct{}

func (realRand) Uint64() uint64 { return rand.Uint64() }

// secureRand draws from a generator that was seeded by the system and cannot be foreseen: for ids
// and secrets.
type secureRand struct {
	mu  sync.Mutex
	src *rand.ChaCha8
}

func newSecureRand(seed [32]byte) *secureRand { return &secureRand{src: rand.NewChaCha8(seed)} }

func (r *secureRand) Uint64() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.src.Uint64()
}
