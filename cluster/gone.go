package cluster

import (
	"context"
	"errors"

	"cqld/ring"
)

// LastRing returns the newest topology of which this node is a member: for a former member the one before its
// departure, and before this node is a member the current one. After decommissioning, clients of this node therefore
// keep seeing the last topology that contained it.
func (c *Cluster) LastRing() *ring.Topology {
	t := c.Metadata().Topology
	if t.Node(c.Self()) == nil {
		if last := c.lastRing.Load(); last != nil {
			return last
		}
	}
	return t
}

// keepRing stores old if this node is a member of it but not of now. It is called before now becomes visible.
func (c *Cluster) keepRing(old, now *ring.Topology) {
	if self := c.Self(); old.Node(self) != nil && now.Node(self) == nil {
		c.lastRing.Store(old)
	}
}

// AwaitDeparture returns when every live node has applied that this node is no longer a member. Nodes that have applied
// it send this node no heartbeats, so nodes that do not respond are considered dead after the usual time.
func (c *Cluster) AwaitDeparture(ctx context.Context) error {
	for unaware := c.Metadata().peers(); ; {
		knows := make(chan ring.NodeID, len(unaware))
		for _, id := range sortedIDs(unaware) {
			addr := unaware[id]
			if id == c.Self() || !c.Alive(id) {
				delete(unaware, id)
				continue
			}
			c.requestMembership(addr, c.opts.Self, func(err error) {
				var refused *Refused
				if !errors.As(err, &refused) {
					id = 0
				}
				knows <- id
			})
		}
		for range len(unaware) {
			select {
			case id := <-knows:
				delete(unaware, id)
			case <-ctx.Done():
				return ctx.Err()
			case <-c.stopped:
				return errStopped
			}
		}
		if len(unaware) == 0 {
			return nil
		}
		if err := c.pause(ctx, joinPause); err != nil {
			return err
		}
	}
}
