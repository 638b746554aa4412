package coordinator

import (
	"errors"
	"time"
)

// arrivalPause is how long a request waits for a node that has been admitted to the ring and has not sent its first
// heartbeat: connecting its stream and the heartbeat take several of these pauses.
const arrivalPause = 20 * time.Millisecond

// arrives reports whether a node has just been admitted to the ring and has not sent its first heartbeat. From its
// admission on, writes and votes must meet their level among the replicas that include it; if another replica is down,
// none can.
func (c *Coordinator) arrives() bool {
	return c.awaitingFirstHeartbeat != nil && c.awaitingFirstHeartbeat()
}

// waits reports whether a request that could not be planned may wait, because it lacks replicas only until the new
// node's first heartbeat.
func (c *Coordinator) waits(err error, deadline time.Duration) bool {
	var short *Unavailable
	return c.arrives() && errors.As(err, &short) && c.clock.Monotonic()+arrivalPause < deadline
}
