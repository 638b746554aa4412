package coordinator

import (
	"errors"
	"time"
)

// arrivalPause is how long a request waits for a node that was let into the ring and is not heard yet: its stream and
// its first heartbeat take some of these.
const arrivalPause = 20 * time.Millisecond

// arrives says whether a node was let into the ring moments ago, and is not heard yet. From that moment on writes and
// votes must meet their level among the replicas with it, too, and where another replica is dead, none can.
func (c *Coordinator) arrives() bool { return c.arriving != nil && c.arriving() }

// waits says whether a request that could not be planned may wait, because it lacks replicas only for as long as one
// arrives.
func (c *Coordinator) waits(err error, deadline time.Duration) bool {
	var short *Unavailable
	return c.arrives() && errors.As(err, &short) && c.clock.Monotonic()+arrivalPause < deadline
}
