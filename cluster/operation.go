package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/raft/v3"

	"cqld/ring"
)

// Decommission starts to hand this node's ranges over to the other nodes. When the operation has ended, the node is
// no longer a member. Decommission returns the id of the operation.
func (c *Cluster) Decommission(ctx context.Context, force bool) (uint64, error) {
	return c.begin(ctx, c.leave(force))
}

// StartDecommission is Decommission without blocking. The loop calls done when the operation has begun.
func (c *Cluster) StartDecommission(force bool, done func(error)) {
	c.start(&command{Begin: c.leave(force)}, done)
}

func (c *Cluster) leave(force bool) *beginCommand {
	return &beginCommand{Kind: ring.Leave, Node: c.Self(), Force: force, Hands: true}
}

// RemoveNode starts to copy the ranges of a dead node to other nodes.
func (c *Cluster) RemoveNode(ctx context.Context, id ring.NodeID, force bool) (uint64, error) {
	if id == c.Self() {
		return 0, &Refused{Reason: "a node cannot remove itself: use 'cqld ctl decommission'"}
	}
	if c.Alive(id) {
		return 0, &Refused{Reason: fmt.Sprintf("%s is alive: run 'cqld ctl decommission' on it",
			c.Metadata().Topology.NameOf(id))}
	}
	return c.begin(ctx, &beginCommand{Kind: ring.Remove, Node: id, Force: force})
}

// Move starts to change this node's tokens: to the given ones or, if there are none, to as many tokens as it has,
// chosen for the most even ownership.
func (c *Cluster) Move(ctx context.Context, tokens []ring.Token) (uint64, error) {
	for {
		t := c.Metadata().Topology
		cmd := &beginCommand{Kind: ring.Move, Node: c.Self(), Tokens: tokens, Epoch: t.Epoch()}
		if len(tokens) == 0 {
			self := t.Node(c.Self())
			others := slices.DeleteFunc(slices.Clone(t.Nodes()), func(n *ring.Node) bool { return n.ID == self.ID })
			cmd.Tokens = ring.Allocate(ring.NewTopology(0, others), self.Datacenter, self.Rack, len(self.Tokens),
				c.opts.ReplicationFactor)
		}
		id, err := c.begin(ctx, cmd)
		var refused *Refused
		if errors.As(err, &refused) && refused.Reason == errStaleTopology.Reason {
			continue
		}
		return id, err
	}
}

// The number of attempts to begin an operation while a node is dropping data of ranges that it lost, and the pause
// between them.
const (
	cleanTries = 50
	cleanPause = 100 * time.Millisecond
)

// begin proposes an operation of a member and returns its id.
func (c *Cluster) begin(ctx context.Context, cmd *beginCommand) (uint64, error) {
	before := c.Metadata().Topology.Epoch()
	err := c.proposeNew(ctx, &command{Begin: cmd})
	for try := 0; err != nil; try++ {
		// Data that nodes lost by the previous operation is dropped within moments.
		var refused *Refused
		if !errors.As(err, &refused) || !refused.Busy || len(c.Metadata().Topology.Operations()) > 0 ||
			try == cleanTries {
			return 0, err
		}
		if err := c.pause(ctx, cleanPause); err != nil {
			return 0, err
		}
		err = c.proposeNew(ctx, &command{Begin: cmd})
	}
	for _, o := range c.Metadata().Topology.Operations() {
		if o.Node == cmd.Node && o.Kind == cmd.Kind && o.ID > before {
			return o.ID, nil
		}
	}
	return 0, nil // it has already ended
}

// Abort undoes an operation that has not ended. Writes that were acknowledged or read are preserved.
func (c *Cluster) Abort(ctx context.Context, operation uint64) error {
	return c.proposeNew(ctx, &command{Abort: &abortCommand{operation}})
}

// AwaitOperation returns when an operation has ended, completed or aborted.
func (c *Cluster) AwaitOperation(ctx context.Context, operation uint64) error {
	for c.Metadata().Topology.Operation(operation) != nil {
		if err := c.pause(ctx, joinPause); err != nil {
			return err
		}
	}
	return nil
}

// StartStreamed reports that this node has all ranges that it gains by an operation. The loop calls done.
func (c *Cluster) StartStreamed(operation uint64, short []ring.Shortfall, done func(error)) {
	c.start(&command{Streamed: &streamedCommand{operation, c.Self(), short}}, done)
}

// StartMove is Move without blocking, with tokens that were chosen for the current topology.
func (c *Cluster) StartMove(tokens []ring.Token, done func(error)) {
	c.start(&command{Begin: &beginCommand{Kind: ring.Move, Node: c.Self(), Tokens: tokens,
		Epoch: c.Metadata().Topology.Epoch()}}, done)
}

// StartRemoveNode is RemoveNode without blocking.
func (c *Cluster) StartRemoveNode(id ring.NodeID, force bool, done func(error)) {
	if c.Alive(id) {
		done(&Refused{Reason: fmt.Sprintf("%s is alive", c.Metadata().Topology.NameOf(id))})
		return
	}
	c.start(&command{Begin: &beginCommand{Kind: ring.Remove, Node: id, Force: force}}, done)
}

// StartAbort is Abort without blocking.
func (c *Cluster) StartAbort(operation uint64, done func(error)) {
	c.start(&command{Abort: &abortCommand{operation}}, done)
}

// StartCompared reports that this node has compared all ranges that it gains, after the operation was Known.
func (c *Cluster) StartCompared(operation uint64, short []ring.Shortfall, done func(error)) {
	c.start(&command{Compared: &comparedCommand{operation, c.Self(), short}}, done)
}

// StartHanded reports that this node, which is leaving, has handed over its batches and hints.
func (c *Cluster) StartHanded(operation uint64, done func(error)) {
	c.start(&command{Handed: &handedCommand{operation}}, done)
}

// StartCleaned reports that this node has dropped the ranges that it no longer held at epoch.
func (c *Cluster) StartCleaned(epoch uint64, done func(error)) {
	c.start(&command{Cleaned: &cleanedCommand{c.Self(), epoch}}, done)
}

// Gains returns the ranges of one replication that this node must stream by an operation.
func (c *Cluster) Gains(o *ring.Operation, r ring.Replication) []ring.Gain {
	return c.Metadata().Topology.Gains(o, r, c.Self())
}

// advanceOperations runs on the leader. It marks operations as Known when enough nodes have applied their second
// phase, and ends those whose gained ranges have been compared and whose batches and hints have been handed over.
func (c *Cluster) advanceOperations() {
	if c.driver == nil || !c.due(advanceEvery) || c.driver.node.BasicStatus().RaftState != raft.StateLeader {
		return
	}
	m := c.Metadata()
	for _, o := range m.Topology.Operations() {
		cmd := &command{End: &endCommand{o.ID}}
		var dead []ring.NodeID
		if c.ticks%excuseEvery == 0 {
			dead = c.excusable(m, o)
		}
		switch {
		case len(dead) > 0:
			c.opts.Logger.Warn("operation does not wait for dead nodes; repair them when they are up", "operation",
				o.ID, "kind", o.Kind,
				"nodes", c.names(dead))
			cmd = &command{Excuse: &excuseCommand{o.ID, dead}}
		case o.Phase != ring.Switching || c.driver.applied < o.Switched:
			continue
		case (o.Known || len(o.Gaining) == 0) && (len(o.Awaits()) > 0 || o.Hands && !o.Handed):
			continue
		case !o.Known && !c.known(m, o):
			continue
		case !o.Known && len(o.Gaining) > 0:
			cmd = &command{Known: &knownCommand{o.ID}}
		}
		c.start(cmd, func(err error) {
			if err != nil {
				c.opts.Logger.Debug("operation not advanced", "operation", o.ID, "err", err)
			}
		})
	}
}

// advanceEvery is the number of ticks between two checks of the operations.
const advanceEvery = 2

// known reports whether an operation is known to all live nodes, and to so many others that no quorum of readers in
// the first phase is left.
func (c *Cluster) known(m *Metadata, o *ring.Operation) bool {
	live, dead := c.unaware(m, o)
	return len(live) == 0 && len(dead) == 0
}

// unaware returns the live nodes that have not applied the switch of an operation, or else dead ones that have not and
// could still form a quorum of readers in the first phase: a quorum of the previous replicas of a range, in the whole
// ring or in a data center. Such a quorum matters only with a replica that loses the range, because otherwise it is a
// quorum of the next replicas, too. Nodes that an operation removes or replaces do not count, and system keyspaces
// never block a topology change.
func (c *Cluster) unaware(m *Metadata, o *ring.Operation) (live, dead []ring.NodeID) {
	for _, n := range m.Topology.Nodes() {
		if c.applied[n.ID] < o.Switched && c.Alive(n.ID) {
			live = append(live, n.ID)
		}
	}
	if len(live) > 0 {
		return live, nil
	}
	behind := func(id ring.NodeID) bool { return c.applied[id] < o.Switched && !m.Topology.Gone(id) }
	for _, r := range userReplications(m.Schema) {
		for _, x := range m.Topology.Placement(r).Ranges(ring.FullRange()) {
			before := slices.DeleteFunc(slices.Clone(x.Replicas.Before),
				func(id ring.NodeID) bool { return !behind(id) })
			if staleQuorum(m.Topology, r, before, x.Replicas.Natural) {
				return nil, before
			}
		}
	}
	return nil, nil
}

// staleQuorum reports whether nodes, which are previous replicas of a range, contain a quorum of which a member is not
// among the next replicas: a quorum of the ring, or of the data center of this member.
func staleQuorum(t *ring.Topology, r ring.Replication, nodes, next []ring.NodeID) bool {
	local, losers := map[string]int{}, map[string]bool{}
	for _, id := range nodes {
		if n := t.Node(id); n != nil {
			local[n.Datacenter]++
			if !slices.Contains(next, id) {
				losers[n.Datacenter] = true
			}
		}
	}
	if len(losers) > 0 && len(nodes) >= ring.QuorumOf(r.Total()) {
		return true
	}
	return slices.ContainsFunc(r.Datacenters, func(f ring.DatacenterFactor) bool {
		return losers[f.Datacenter] && local[f.Datacenter] >= ring.QuorumOf(f.Factor)
	})
}

func (c *Cluster) pause(ctx context.Context, d time.Duration) error {
	done := make(chan struct{})
	t := c.opts.Clock.After(d, func() { close(done) })
	defer t.Stop()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-c.stopped:
		return errStopped
	}
}
