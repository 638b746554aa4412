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
		return 0, &Refused{Reason: fmt.Sprintf("%s is alive: run 'cqld ctl decommission' on it", c.Metadata().Topology.NameOf(id))}
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
			cmd.Tokens = ring.Allocate(ring.NewTopology(0, others), self.Datacenter, self.Rack, len(self.Tokens), c.opts.ReplicationFactor)
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
		if !errors.As(err, &refused) || !refused.Busy || len(c.Metadata().Topology.Operations()) > 0 || try == cleanTries {
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
func (c *Cluster) StartStreamed(operation uint64, done func(error)) {
	c.start(&command{Streamed: &streamedCommand{operation, c.Self()}}, done)
}

// StartMove is Move without blocking, with tokens that were chosen for the current topology.
func (c *Cluster) StartMove(tokens []ring.Token, done func(error)) {
	c.start(&command{Begin: &beginCommand{Kind: ring.Move, Node: c.Self(), Tokens: tokens, Epoch: c.Metadata().Topology.Epoch()}}, done)
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
func (c *Cluster) StartCompared(operation uint64, done func(error)) {
	c.start(&command{Compared: &comparedCommand{operation, c.Self()}}, done)
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
		switch {
		case o.Phase != ring.Switching || c.driver.applied < o.Switched:
			continue
		case (o.Known || len(o.Gaining) == 0) && (len(o.Compared) < len(o.Gaining) || o.Hands && !o.Handed):
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

// known reports whether all live nodes have applied the switch of an operation, and also so many others that the
// remaining nodes form no quorum of the previous replicas of any range that changes hands. System keyspaces never
// block a topology change.
func (c *Cluster) known(m *Metadata, o *ring.Operation) bool {
	behind := func(id ring.NodeID) bool { return c.applied[id] < o.Switched }
	for _, n := range m.Topology.Nodes() {
		if behind(n.ID) && c.Alive(n.ID) {
			return false
		}
	}
	for _, name := range userKeyspaces(m.Schema) {
		r := m.Schema.Keyspace(name).Replication
		for _, x := range m.Topology.Placement(r).Ranges(ring.FullRange()) {
			if len(x.Replicas.Others) == 0 {
				continue // these readers need not know
			}
			if quorumIn(m.Topology, r, slices.Concat(x.Replicas.Natural, x.Replicas.Pending), behind) {
				return false
			}
		}
	}
	return true
}

// quorumIn reports whether the nodes for which some returns true are a quorum of all replicas, or of those of a data
// center.
func quorumIn(t *ring.Topology, r ring.Replication, nodes []ring.NodeID, some func(ring.NodeID) bool) bool {
	all, local := 0, map[string]int{}
	for _, id := range nodes {
		if n := t.Node(id); n != nil && some(id) {
			all++
			local[n.Datacenter]++
		}
	}
	if all >= ring.QuorumOf(r.Total()) {
		return true
	}
	for _, f := range r.Datacenters {
		if local[f.Datacenter] >= ring.QuorumOf(f.Factor) {
			return true
		}
	}
	return false
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
