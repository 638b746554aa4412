package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"cqld/cluster"
	"cqld/cluster/metadata"
	"cqld/node/clients"
	"cqld/node/control"
	"cqld/ring"
)

// Topology changes the ring, and follows the operations that do. A change of the ring is a command of the metadata; it
// continues if this node is restarted. Each command returns when the operation has ended. If the client disconnects
// before, the operation continues, and `cqld ctl jobs` shows it as ring-N.
type Topology struct {
	cluster *cluster.Cluster
	members members
	servers *clients.Servers
	run     func(func()) // runs a function in a goroutine that the node waits for
}

// Operations returns the ring operations in progress, as far as this node has applied the metadata.
func (c *Topology) Operations(context.Context, control.None, control.Report) (control.Changes, error) {
	t := c.cluster.Metadata().Topology
	out := control.Changes{Operations: []control.Change{}}
	for _, o := range t.Operations() {
		change := control.Change{ID: o.ID, Kind: o.Kind.String(), Phase: o.Phase.String(), Gaining: len(o.Gaining),
			// An operation of a node that waits says for what, for example for a replica that is down.
			Streamed: len(o.Streamed), Waits: c.cluster.Operations().Waits(o.ID)}
		// The node of an operation may have left already.
		if m := t.Node(o.Node); m != nil {
			change.Node = c.members.one(m)
		}
		out.Operations = append(out.Operations, change)
	}
	return out, nil
}

// Decommission streams this node's data to the other nodes and leaves the ring. When it returns without an error, the
// node serves no clients and may be stopped.
func (c *Topology) Decommission(ctx context.Context, a control.ForceArgs, report control.Report) (out control.Departure,
	err error) {
	id, err := c.cluster.Operations().Decommission(ctx, a.Force)
	// The operation has ended, but not necessarily by completing.
	if err := c.follow(ctx, id, err, report); err != nil {
		return out, err
	}
	// The metadata says whether this node has left; the operation may have been aborted.
	if c.isMember() && !c.servers.Left() {
		return out, aborted(id)
	}
	report(control.Progress{What: "the node has left the ring; moving its clients to other nodes", Committed: true})
	c.servers.AwaitRetired(ctx)
	return control.Departure{Left: true}, nil
}

// RemoveNode removes a dead node. The data of the dead node is streamed from its other replicas. Force continues
// without ranges whose only replica is lost (metadata.Begin).
func (c *Topology) RemoveNode(ctx context.Context, a control.NodeArgs, report control.Report) (out control.Removal,
	err error) {
	m := c.members.find(a.Node)
	if m == nil {
		return out, &control.Error{Code: control.Invalid, Message: fmt.Sprintf("node %s does not exist", a.Node)}
	}
	id, err := c.cluster.Operations().RemoveNode(ctx, m.ID, a.Force)
	if err := c.follow(ctx, id, err, report); err != nil {
		return out, err
	}
	now := c.cluster.Metadata()
	// A node that is still a member was not removed.
	if now.Topology.Node(m.ID) != nil {
		return out, aborted(id)
	}
	// The keyspaces that were not completely moved are shown, so that an operator repairs them.
	for _, s := range now.MissingFrom(id) {
		if at := now.Topology.Node(s.Node); at != nil {
			out.Missing = append(out.Missing, control.Missing{Node: at.Internode.String(), Keyspace: s.Keyspace,
				Ranges: s.Ranges})
		}
	}
	return out, nil
}

// Move gives this node new tokens. Without tokens, the cluster chooses them for an even share.
func (c *Topology) Move(ctx context.Context, a control.MoveArgs, report control.Report) (none control.None, err error) {
	self := c.cluster.Metadata().Topology.Node(c.cluster.Self())
	// The check is here, because only the operator can say whether it is intended.
	if self != nil && len(a.Tokens) > 0 && len(a.Tokens) < len(self.Tokens) && !a.Force {
		return none, &control.Error{Code: control.Refused, Message: fmt.Sprintf(
			"the node has %d tokens and would have %d, which shrinks its share of the ring. Use --force if this is "+
				"intended, or omit the tokens for an even share",
			len(self.Tokens), len(a.Tokens))}
	}
	var tokens []ring.Token
	for _, t := range a.Tokens {
		tokens = append(tokens, ring.Token(t))
	}
	id, err := c.cluster.Operations().Move(ctx, tokens)
	if err := c.follow(ctx, id, err, report); err != nil {
		return none, err
	}
	// Without tokens in the arguments, the allocated tokens may be the current ones of the node.
	if now := c.cluster.Metadata().Topology.Node(c.cluster.Self()); now != nil && len(tokens) > 0 &&
		!sameTokens(now.Tokens, tokens) {
		return none, aborted(id)
	}
	return none, nil
}

// sameTokens reports whether two lists have the same tokens, in any order. Duplicates do not matter.
func sameTokens(a, b []ring.Token) bool {
	sorted := func(list []ring.Token) []ring.Token { return slices.Compact(slices.Sorted(slices.Values(list))) }
	return slices.Equal(sorted(a), sorted(b))
}

// aborted returns the error of an operation that another command has aborted.
func aborted(operation uint64) error {
	return &control.Error{Code: control.Failed, Message: fmt.Sprintf("operation %d was aborted: the ring is unchanged",
		operation)}
}

// Abort aborts an operation. If that ends the join of this node, the other nodes stop communicating with it, and it
// may not receive the decision. The node then answers after it has detected that it is not a member.
func (c *Topology) Abort(ctx context.Context, a control.AbortArgs, report control.Report) (out control.Departure,
	err error) {
	// With one operation in progress, its number need not be given.
	if a.Operation == 0 {
		all := c.cluster.Metadata().Topology.Operations()
		if len(all) != 1 {
			return out, &control.Error{Code: control.Invalid,
				Message: fmt.Sprintf("%d operations are in progress: specify the ID of one", len(all))}
		}
		a.Operation = all[0].ID
	}
	// A buffer of one, so that the operation can end after this node has left.
	ended := make(chan error, 1)
	c.run(func() { ended <- c.cluster.Operations().Abort(ctx, a.Operation) })
	// A node whose join was aborted stops at once. It does not wait, as after a decommission, until the other nodes
	// know, and then ctx ends.
	select {
	case err = <-ended:
	case <-c.servers.Departed():
	}
	// An operation that could not be aborted is refused. If the node has left, an error says only that the wait ended.
	if err != nil && !c.servers.Left() {
		return out, refusal(err)
	}
	// The node may have left before or after the abort, so both are checked.
	if out.Left = c.servers.Left() || !c.isMember(); out.Left {
		report(control.Progress{What: "the join of this node was aborted", Committed: true})
	}
	return out, nil
}

// follow waits until an operation is completed or aborted, and reports its progress: the number of nodes that have
// received their data. The operation continues when the caller's context ends.
func (c *Topology) follow(ctx context.Context, operation uint64, err error, report control.Report) error {
	// An operation that was not started is refused, and not awaited.
	if err != nil {
		return refusal(err)
	}
	ended := make(chan error, 1)
	// The wait is on its own goroutine, because the operation also ends by the node's departure.
	c.run(func() { ended <- c.cluster.Operations().Await(ctx, operation) })
	for {
		select {
		case err := <-ended:
			if err != nil {
				// The operation is not ended by the wait, so the error says that it continues.
				return fmt.Errorf("operation %d continues: %w", operation, err)
			}
			return nil
		case <-c.servers.Retired(): // a node that was removed may not receive the end of the operation
			return nil
		case <-time.After(progressEvery):
			if o := c.cluster.Metadata().Topology.Operation(operation); o != nil {
				what := "nodes have their data"
				if w := c.cluster.Operations().Waits(operation); w != "" {
					what += "; waiting for " + w
				}
				report(control.Progress{Done: int64(len(o.Streamed)), Total: int64(len(o.Gaining)), What: what,
					Job: ringJobID(operation)})
			}
		}
	}
}

// progressEvery is the interval at which progress is reported to an operator.
const progressEvery = 200 * time.Millisecond

// refusal converts errors of the cluster to errors of the control protocol. Refused is the operator's mistake; any
// other error is the cluster's.
func refusal(err error) error {
	var refused *metadata.Refused
	if errors.As(err, &refused) {
		return &control.Error{Code: control.Refused, Message: refused.Reason}
	}
	return err
}

// isMember reports whether this node is a member.
func (c *Topology) isMember() bool {
	return c.cluster.Metadata().Topology.Node(c.cluster.Self()) != nil
}
