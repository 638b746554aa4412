package latency

import (
	"sync/atomic"
	"time"
)

// Average is a moving average of durations. The zero value has none; its methods may be called concurrently.
type Average struct{ nanoseconds atomic.Int64 }

// Record takes one duration: it is an eighth of the average from then on.
func (a *Average) Record(d time.Duration) {
	if old := a.nanoseconds.Load(); old != 0 {
		d = (7*time.Duration(old) + d) / 8 // two at once may lose one: no harm
	}
	a.nanoseconds.Store(int64(max(d, 1)))
}

// Of is the average; 0 when nothing was recorded.
func (a *Average) Of() time.Duration { return time.Duration(a.nanoseconds.Load()) }
