package env

import (
	"errors"
	"sync/atomic"
	"time"
)

// ErrClockAhead says that another clock is further ahead than the bound allows.
var ErrClockAhead = errors.New("env: clock too far ahead")

// HLC is a hybrid logical clock: microseconds since 1970 that never go back, are never given
// twice, and follow what was seen from other nodes up to a bound. Safe for concurrent use.
type HLC struct {
	clock Clock
	ahead time.Duration
	last  atomic.Int64
}

// NewHLC is a clock over c that follows others by at most ahead.
func NewHLC(c Clock, ahead time.Duration) *HLC { return &HLC{clock: c, ahead: ahead} }

// Next is a stamp greater than any given or observed before.
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

// Last is the greatest stamp so far, and not before the present.
func (h *HLC) Last() int64 { return max(h.last.Load(), h.clock.Now().UnixMicro()) }

// Observe takes notice of another node's stamp. One beyond the bound is refused.
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
