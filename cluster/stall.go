package cluster

import "time"

// stallMin is the delay of a tick that is logged: the other nodes are about to consider this node dead, and requests
// that wait for it are about to time out.
const stallMin = time.Second

// noteStall logs that the process was not scheduled, or that the loop waited for the disk. It is called with every
// tick event, and with the number of ticks of the event.
func (c *Cluster) noteStall(ticks uint64) {
	now := c.opts.Clock.Monotonic()
	if late := now - c.ticked - time.Duration(ticks)*tickEvery; c.ticked > 0 && late >= stallMin {
		c.opts.Logger.Warn("process stalled: it was not scheduled, or its disk was slow", "for", late.Round(time.Millisecond))
	}
	c.ticked = now
}
