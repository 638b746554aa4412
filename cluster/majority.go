package cluster

import (
	"context"
	"errors"
	"time"

	"cqld/schema"
)

// majorityWait is how long a change waits until this node considers a majority of the voters alive: longer than an
// election, and than a restarting voter needs to connect.
const majorityWait = 2 * time.Second

// awaitMajority returns when a majority of the voters is alive. After majorityWait it returns a *schema.Unavailable,
// because a proposal would not be committed and its outcome would be unknown to the client.
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

// missingMajority makes the loop compare the voters with the live members. It returns nil if a majority is alive.
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

// shortOfMajority returns nil if a majority of the voters is alive; while the voters change, a majority of both sets.
// The loop calls it.
func (c *Cluster) shortOfMajority() *schema.Unavailable {
	if c.driver == nil || len(c.driver.conf.GetVoters()) == 0 {
		return nil // not a member yet; the change waits
	}
	if v := c.driver.voters(); !v.Majority() {
		return &schema.Unavailable{Required: v.Required, Alive: v.Alive}
	}
	return nil
}
