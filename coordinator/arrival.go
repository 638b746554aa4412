package coordinator

import (
	"errors"
	"time"
)

// arrivalPause is how long a request waits for a node that was let into the ring and is not heard yet: its stream and
// its first heartbeat take about as long.
const arrivalPause = 20 * time.Millisecond

// arrives says whether a node was let into the ring moments ago, and is not heard yet. From that moment on writes and
// votes must meet their level among the replicas with it, too, and where another replica is dead, none can.
func (c *Coordinator) arrives() bool { return c.arriving != nil && c.arriving() }

// awaitArrival sends a request that was refused because too few replicas live, of which nothing was sent, again for as
// long as a node arrives. send must not keep what it is given after it has told done.
func (c *Coordinator) awaitArrival(timeout time.Duration, send func(left time.Duration, done func(error)), done func(error)) {
	deadline := c.clock.Monotonic() + timeout
	var try func()
	try = func() {
		send(c.remaining(deadline), func(err error) {
			var short *Unavailable
			if errors.As(err, &short) && c.arrives() && c.clock.Monotonic() < deadline {
				c.clock.After(arrivalPause, try)
				return
			}
			done(err)
		})
	}
	try()
}

// writeWhenHeard is Write while a node arrives.
func (c *Coordinator) writeWhenHeard(req *WriteRequest, write func(*WriteRequest, func(error)), done func(error)) {
	again := *req
	c.awaitArrival(req.Timeout, func(left time.Duration, done func(error)) {
		again.Timeout = left
		write(&again, done)
	}, done)
}

// CAS makes a conditional change of one partition. applied says whether the condition held; page is
// what it was decided on, valid until done returns. Changes of one partition through one coordinator
// take effect one after the other; those that wait for one under way go together.
func (c *Coordinator) CAS(req *CASRequest, done func(applied bool, page []byte, err error)) {
	if c.arrives() {
		c.changeWhenHeard(req, done)
		return
	}
	c.change(req, done)
}

// changeWhenHeard is CAS while a node arrives.
func (c *Coordinator) changeWhenHeard(req *CASRequest, done func(applied bool, page []byte, err error)) {
	var applied bool
	var page []byte
	c.awaitArrival(req.Contention, func(_ time.Duration, done func(error)) {
		c.change(req, func(a bool, p []byte, err error) {
			applied, page = a, p
			done(err)
		})
	}, func(err error) { done(applied, page, err) })
}
