package simulation

import (
	"time"

	"cqld/simulation/kernel"
)

// order numbers the events that clients observe, and issues the timestamps of their writes. It is a perfect observer:
// nodes see nothing of it but the timestamps.
type order struct {
	kernel *kernel.Kernel
	// ticks is the latest number issued by tick.
	ticks int64
	// last is the latest timestamp issued by stamp, in microseconds since 1970.
	last int64
}

// tick returns the next time in the order in which clients observe events: real time for the checkers. Two events with
// ticks a < b happened in that order, whatever the clocks of the nodes said.
func (o *order) tick() int64 {
	o.ticks++
	return o.ticks
}

// stamp returns a timestamp after all earlier ones, as from a perfect clock. Workloads that do not test which of two
// writes wins use it; others use the node's own clock (process.hlc).
func (o *order) stamp() int64 {
	// In microseconds, as all timestamps of CQL writes.
	o.last = max(o.last+1, int64(o.kernel.Now()/time.Microsecond)+epoch*1_000_000)
	return o.last
}
