package compaction

import (
	"runtime"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"cqld/internal/env"
)

// turn is how long a flush or a compaction keeps a processor while other goroutines may be waiting for it. Go's
// scheduler itself takes the processor away after 10 ms at the earliest.
const turn = 2 * time.Millisecond

// The clock is read after clockBytes of keys and values, a few microseconds of work: to read it for each small key was
// a twentieth of a flush. keyCost stands for the work on a key whatever its size.
const (
	clockBytes = 4 << 10
	keyCost    = 256
)

// Yielding returns a constructor of block property collectors that also yield: the goroutine of a flush or compaction
// lets others run each time that it has written keys for two milliseconds. A node has few processors, and one request
// needs several goroutines one after the other, so each of them would otherwise wait for a whole time slice.
//
// Pebble has no hook for this. A collector sees every key that a flush or compaction writes, in its goroutine, and
// without Pebble's locks. Keys that are only dropped are not seen.
func Yielding(clock env.Clock, create func() pebble.BlockPropertyCollector) func() pebble.BlockPropertyCollector {
	return yielding(clock, create, runtime.Gosched)
}

func yielding(clock env.Clock, create func() pebble.BlockPropertyCollector,
	yield func()) func() pebble.BlockPropertyCollector {
	return func() pebble.BlockPropertyCollector {
		// The first key yields, because the previous file of the same compaction ended within a turn.
		return &yielder{BlockPropertyCollector: create(), clock: clock, yield: yield,
			began: clock.Monotonic() - turn, bytes: clockBytes}
	}
}

// yielder is a collector of one file that yields between keys.
type yielder struct {
	pebble.BlockPropertyCollector
	clock env.Clock
	yield func()
	began time.Duration // of the turn, on the monotonic clock
	bytes int           // of keys and values since the clock was read
}

// AddPointKey implements pebble.BlockPropertyCollector.
func (y *yielder) AddPointKey(key pebble.InternalKey, value []byte) error {
	if y.bytes += keyCost + len(key.UserKey) + len(value); y.bytes >= clockBytes {
		y.bytes = 0
		if y.clock.Monotonic()-y.began >= turn {
			y.yield()
			y.began = y.clock.Monotonic() // the wait is not part of the next turn
		}
	}
	return y.BlockPropertyCollector.AddPointKey(key, value)
}
