package cluster

import (
	"context"
	"errors"
	"time"

	"cqld/ring"
	"cqld/schema"
)

// majorityWait is how long a change waits until this node sees a majority of the voters alive: longer than an election, and
// than a voter that restarts needs to connect.
const majorityWait = 2 * time.Second

// awaitMajority returns when a majority of the voters is alive. After majorityWait it returns a *schema.Unavailable: a
// proposal would not be decided, and its outcome would be unknown to the client.
func (c *Cluster) awaitMajority(ctx context.Context) error {
	for waited := time.Duration(0); ; waited += joinPause {
		short, err := c.missingMajority(ctx)
		switch {
		case err != nil:
			return err
		case short == nil:
			return nil
		case waited >= majorityWait:
			return short
		}
		switch err := c.pause(ctx, joinPause); {
		case errors.Is(err, context.DeadlineExceeded):
			return short // nothing was proposed
		case err != nil:
			return err
		}
	}
}

// missingMajority has the loop compare the voters with the live members. It returns nil when a majority lives.
func (c *Cluster) missingMajority(ctx context.Context) (*schema.Unavailable, error) {
	result := make(chan *schema.Unavailable, 1)
	if !c.post(func() { result <- c.shortOfMajority() }) {
		return nil, errQueueFull
	}
	select {
	case short := <-result:
		return short, nil
	case <-c.stopped:
		return nil, errStopped
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// shortOfMajority returns nil when a majority of the voters lives, and while they change, of both sets of voters. It is
// called by the loop.
func (c *Cluster) shortOfMajority() *schema.Unavailable {
	if c.driver == nil {
		return nil // not a member yet: the change waits
	}
	for _, voters := range [][]uint64{c.driver.conf.GetVoters(), c.driver.conf.GetVotersOutgoing()} {
		alive := 0
		for _, id := range voters {
			if c.Alive(ring.NodeID(id)) {
				alive++
			}
		}
		if need := len(voters)/2 + 1; len(voters) > 0 && alive < need {
			return &schema.Unavailable{Required: need, Alive: alive}
		}
	}
	return nil
}
