package latency

import (
	"sync/atomic"
	"time"
)

// Average is a moving average of durations. The zero value is empty. Its methods may be called concurrently.
type Average struct{ nanoseconds atomic.Int64 }

// Record adds a duration, with a weight of one eighth.
func (a *Average) Record(d time.Duration) {
	// The first duration becomes the average.
	if old := a.nanoseconds.Load(); old != 0 {
		d = (7*time.Duration(old) + d) / 8 // a concurrent update may be lost, which is harmless
	}
	a.nanoseconds.Store(int64(max(d, 1)))
}

// Of returns the average; 0 means that nothing was recorded.
func (a *Average) Of() time.Duration { return time.Duration(a.nanoseconds.Load()) }
