package coordinator

import (
	"errors"
	"time"
)

// ReplanPause is how long the first new plan of a request waits for newer metadata; it doubles with each plan.
const ReplanPause = 10 * time.Millisecond

// ArrivalPause is how long a request waits for a node that has been admitted to the ring and has not sent its first
// heartbeat: connecting its stream and the heartbeat take several of these pauses.
const ArrivalPause = 20 * time.Millisecond

// MayArrive reports whether a request that could not be planned because of err may be planned again after
// ArrivalPause: it lacks replicas only until a node that has just been admitted to the ring sends its first
// heartbeat. Once the node is admitted, writes and Paxos rounds must meet their level among replicas that include it;
// if another replica is down, none of them can. deadline is monotonic.
func (c *Coordinator) MayArrive(err error, deadline time.Duration) bool {
	var short *Unavailable
	// The last condition leaves time to execute the request after the pause.
	return c.awaitingFirstHeartbeat != nil && c.awaitingFirstHeartbeat() && errors.As(err, &short) &&
		c.clock.Monotonic()+ArrivalPause < deadline
}
