package cluster

import "time"

// stallMin is how late a tick is that the operator hears of: the others are about to take this node for dead, and
// requests that wait for it are about to time out.
const stallMin = time.Second

// noteStall tells of a node that stood still: its process did not run, or the loop waited for the disk. It is called with
// every tick, and with how many it stands for.
func (c *Cluster) noteStall(ticks uint64) {
	now := c.opts.Clock.Monotonic()
	if late := now - c.ticked - time.Duration(ticks)*tickEvery; c.ticked > 0 && late >= stallMin {
		c.opts.Logger.Warn("process stalled: it was not scheduled, or its disk was slow", "for", late.Round(time.Millisecond))
	}
	c.ticked = now
}
