package cluster

import (
	"context"
	"errors"

	"cqld/ring"
)

// LastRing is the newest topology of which this node is a member: of a former member that with which it left, and that
// of now before it is one. Clients of a node that has left are not to be told of a ring that has no place for whom they ask.
func (c *Cluster) LastRing() *ring.Topology {
	t := c.Metadata().Topology
	if t.Node(c.Self()) == nil {
		if last := c.lastRing.Load(); last != nil {
			return last
		}
	}
	return t
}

// keepRing remembers old when this node is a member of it and not of now. It is called before now is seen.
func (c *Cluster) keepRing(old, now *ring.Topology) {
	if self := c.Self(); old.Node(self) != nil && now.Node(self) == nil {
		c.lastRing.Store(old)
	}
}

// AwaitGone returns when every living node has applied that this one is no member any more. Who has applied it sends
// this node no heartbeats, so those that do not answer are waited for no longer than one that has died.
func (c *Cluster) AwaitGone(ctx context.Context) error {
	for unaware := c.Metadata().peers(); ; {
		knows := make(chan ring.NodeID, len(unaware))
		for _, id := range sortedIDs(unaware) {
			addr := unaware[id]
			if id == c.Self() || !c.Alive(id) {
				delete(unaware, id)
				continue
			}
			c.askMembership(addr, c.opts.Self, func(err error) {
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
