package env

import (
	"errors"
	"sync/atomic"
	"time"
)

// ErrClockAhead means that another clock is further ahead than the bound allows.
var ErrClockAhead = errors.New("env: clock too far ahead")

// HLC is a hybrid logical clock. It returns microseconds since 1970 that are unique and never go back, and that follow
// the timestamps of other nodes up to a bound. It is safe for concurrent use.
type HLC struct {
	clock Clock
	ahead time.Duration
	last  atomic.Int64
}

// NewHLC returns a clock based on c that follows other clocks by at most ahead.
func NewHLC(c Clock, ahead time.Duration) *HLC { return &HLC{clock: c, ahead: ahead} }

// Next returns a timestamp greater than any returned or observed before.
func (h *HLC) Next() int64 {
	now := h.clock.Now().UnixMicro()
	for {
		last := h.last.Load()
		next := max(now, last+1)
		if h.last.CompareAndSwap(last, next) {
			return next
		}
	}
}

// Last returns the greatest timestamp so far, but at least the current time.
func (h *HLC) Last() int64 { return max(h.last.Load(), h.clock.Now().UnixMicro()) }

// Observe updates the clock with another node's timestamp. It returns ErrClockAhead for one beyond the bound.
func (h *HLC) Observe(stamp int64) error {
	if stamp > h.clock.Now().Add(h.ahead).UnixMicro() {
		return ErrClockAhead
	}
	for {
		last := h.last.Load()
		if stamp <= last || h.last.CompareAndSwap(last, stamp) {
			return nil
		}
	}
}
