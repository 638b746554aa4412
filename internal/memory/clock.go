package memory

import (
	"time"

	"cqld/internal/env"
)

// wallClock is the clock of a Pool that is given none. Simulations pass a clock of their own.
type wallClock struct{ began time.Time }

func (wallClock) Now() time.Time { return time.Now() }

func (c wallClock) Monotonic() time.Duration { return time.Since(c.began) }

func (wallClock) After(d time.Duration, f func()) env.Timer { return time.AfterFunc(d, f) }
