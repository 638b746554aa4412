package cluster

import "time"

// stallMin is the delay of a tick that is logged: the other nodes are about to consider this node dead, and requests
// that wait for it are about to time out.
const stallMin = time.Second

// noteStall logs that the process was not scheduled, or that the loop waited for the disk. It is called with every
// tick event, and with the number of ticks of the event.
func (c *Cluster) noteStall(ticks uint64) {
	now, ticked := c.opts.Clock.Monotonic(), time.Duration(c.ticked.Load())
	if late := now - ticked - time.Duration(ticks)*tickEvery; ticked > 0 && late >= stallMin {
		c.opts.Logger.Warn("process stalled: it was not scheduled, or its disk was slow", "for",
			late.Round(time.Millisecond))
	}
	c.ticked.Store(int64(now))
}

// Idle returns the time since the loop handled the last tick, or zero if it has not handled any. It is safe for
// concurrent use.
func (c *Cluster) Idle() time.Duration {
	ticked := time.Duration(c.ticked.Load())
	if ticked == 0 {
		return 0
	}
	return max(c.opts.Clock.Monotonic()-ticked, 0)
}
