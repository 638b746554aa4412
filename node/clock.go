package node

import (
	"math/rand/v2"
	"sync"
	"time"

	"cqld/internal/env"
	"cqld/internal/guard"
	"cqld/node/config"
)

// realClock is the clock of the machine, shifted by an offset in tests. Its timer callbacks recover from panics. Now is
// the time of the wall and may jump with the machine's clock; Monotonic never goes back. Durations and deadlines must
// be computed from Monotonic, and only timestamps of data from Now.
type realClock struct {
	start  time.Time
	offset time.Duration // added to Now, but not to Monotonic
	guard  *guard.Guard
}

// newRealClock returns a clock whose monotonic time begins at zero. g receives the panics of timer callbacks.
func newRealClock(offset time.Duration, g *guard.Guard) realClock {
	return realClock{time.Now(), offset, g}
}

// Now implements env.Clock.
func (c realClock) Now() time.Time { return time.Now().Add(c.offset) }

// Monotonic implements env.Clock. An offset has no effect on durations.
func (c realClock) Monotonic() time.Duration { return time.Since(c.start) }

// After implements env.Clock. A panic of f does not end the process.
func (c realClock) After(d time.Duration, f func()) env.Timer {
	return time.AfterFunc(d, func() {
		defer c.guard.Recover("timer", nil)
		f()
	})
}

// newClock returns the clock of a node: the one set in the options, or else the clock of the machine. The offset of the
// options applies only to the machine's clock. Timer callbacks of both are guarded, because a panic in one would end
// the process.
func newClock(o config.Options, g *guard.Guard) env.Clock {
	if o.Clock == nil {
		return newRealClock(o.ClockOffset, g)
	}
	return guardedClock{o.Clock, g}
}

// guardedClock recovers from panics in the timer callbacks of another clock.
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

// realRand is the runtime's source, safe for concurrent use. It needs no seed and no lock. It must not be used for
// secrets: secureRand exists for them.
type realRand struct{}

// Uint64 implements env.Rand.
func (realRand) Uint64() uint64 { return rand.Uint64() }

// secureRand draws unpredictable bytes for ids and secrets, from a generator seeded by the operating system. It is safe
// for concurrent use. ChaCha8 itself is not safe for concurrent use, which is why it has a lock; ids and secrets are
// rare enough for one.
type secureRand struct {
	mu  sync.Mutex
	src *rand.ChaCha8
}

// newSecureRand returns a generator; the seed must not be reused.
func newSecureRand(seed [32]byte) *secureRand { return &secureRand{src: rand.NewChaCha8(seed)} }

// Uint64 implements env.Rand.
func (r *secureRand) Uint64() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.src.Uint64()
}
