package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"cqld/cluster"
	"cqld/node/control"
	"cqld/ring"
	"cqld/schema"
)

// opChanges are the operations that change the ring at this moment.
func (n *Node) opChanges(context.Context, control.None, control.Report) (control.Changes, error) {
	t := n.cluster.Metadata().Topology
	out := control.Changes{Operations: []control.Change{}}
	for _, o := range t.Operations() {
		c := control.Change{ID: o.ID, Kind: o.Kind.String(), Phase: o.Phase.String(), Gaining: len(o.Gaining), Streamed: len(o.Streamed)}
		if m := t.Node(o.Node); m != nil {
			c.Node = n.member(m)
		}
		out.Operations = append(out.Operations, c)
	}
	return out, nil
}

// opDecommission hands this node's data over. When it returns the node may be stopped.
func (n *Node) opDecommission(ctx context.Context, a control.ForceArgs, report control.Report) (none control.None, err error) {
	id, err := n.cluster.Decommission(ctx, a.Force)
	err = n.follow(ctx, id, err, report)
	if err == nil && !n.isMember() {
		n.awaitRetired(ctx)
	}
	return none, err
}

// opRemoveNode removes a dead node.
func (n *Node) opRemoveNode(ctx context.Context, a control.NodeArgs, report control.Report) (none control.None, err error) {
	m := n.findMember(a.Node)
	if m == nil {
		return none, &control.Error{Code: control.Invalid, Message: fmt.Sprintf("there is no node %s", a.Node)}
	}
	id, err := n.cluster.RemoveNode(ctx, m.ID, a.Force)
	return none, n.follow(ctx, id, err, report)
}

// findMember finds a node by its host id, its number or its address, with or without the port.
func (n *Node) findMember(name string) *ring.Node {
	for _, m := range n.cluster.Metadata().Topology.Nodes() {
		switch name {
		case m.Host.String(), strconv.FormatUint(uint64(m.ID), 10), m.Internode.String(), m.Internode.Addr().String():
			return m
		}
	}
	return nil
}

// opMove gives this node other tokens.
func (n *Node) opMove(ctx context.Context, a control.MoveArgs, report control.Report) (none control.None, err error) {
	self := n.cluster.Metadata().Topology.Node(n.cluster.Self())
	if self != nil && len(a.Tokens) > 0 && len(a.Tokens) < len(self.Tokens) && !a.Force {
		return none, &control.Error{Code: control.Refused, Message: fmt.Sprintf(
			"the node has %d tokens, and would have %d: its share of the ring shrinks. Use --force if that is meant, or no tokens at all for an even share",
			len(self.Tokens), len(a.Tokens))}
	}
	var tokens []ring.Token
	for _, t := range a.Tokens {
		tokens = append(tokens, ring.Token(t))
	}
	id, err := n.cluster.Move(ctx, tokens)
	return none, n.follow(ctx, id, err, report)
}

// opAbort takes an operation back.
func (n *Node) opAbort(ctx context.Context, a control.AbortArgs, _ control.Report) (none control.None, err error) {
	if a.Operation == 0 {
		all := n.cluster.Metadata().Topology.Operations()
		if len(all) != 1 {
			return none, &control.Error{Code: control.Invalid, Message: fmt.Sprintf("%d operations are under way: name one by its ID", len(all))}
		}
		a.Operation = all[0].ID
	}
	return none, refusal(n.cluster.Abort(ctx, a.Operation))
}

// opCleanup drops what this node does not hold any more, by the decision that is made by itself after changes of the ring.
func (n *Node) opCleanup(ctx context.Context, a control.TablesArgs, _ control.Report) (none control.None, err error) {
	tables, err := n.tablesOf(a)
	if err != nil {
		return none, err
	}
	var ids []schema.StorageID
	if len(a.Tables) > 0 {
		for _, t := range tables {
			ids = append(ids, t.StorageID)
		}
	}
	done := make(chan error, 1)
	n.parts.Drops.Cleanup(a.Keyspace, ids, func(err error) { done <- err })
	select {
	case err = <-done:
	case <-ctx.Done():
		err = ctx.Err()
	case <-n.stopping:
		err = context.Canceled
	}
	return none, err
}

// opRebuild fetches this node's data from the others.
func (n *Node) opRebuild(ctx context.Context, a control.RebuildArgs, report control.Report) (none control.None, err error) {
	m := n.cluster.Metadata()
	if _, err := n.tablesOf(control.TablesArgs{Keyspace: a.Keyspace}); err != nil {
		return none, err
	}
	if a.Datacenter != "" && !slices.Contains(m.Topology.Datacenters(), a.Datacenter) {
		return none, &control.Error{Code: control.Invalid, Message: fmt.Sprintf("there is no data center %s; there are %s",
			a.Datacenter, strings.Join(m.Topology.Datacenters(), ", "))}
	}
	done := make(chan error, 1)
	n.moves.Rebuild(a.Keyspace, a.Datacenter, func(ended, all int) {
		report(control.Progress{Done: int64(ended), Total: int64(all), What: "ranges"})
	}, func(err error) { done <- err })
	select {
	case err = <-done:
		return none, err
	case <-ctx.Done():
		return none, ctx.Err()
	}
}

// follow waits for the end of an operation and tells how far it is: in nodes that have their data, and
// the ranges that this one fetches.
func (n *Node) follow(ctx context.Context, operation uint64, err error, report control.Report) error {
	if err != nil {
		return refusal(err)
	}
	ended := make(chan error, 1)
	n.running.Go(func() { ended <- n.cluster.AwaitOperation(ctx, operation) })
	for {
		select {
		case err := <-ended:
			if err != nil {
				return fmt.Errorf("operation %d goes on: %w", operation, err)
			}
			return nil
		case <-time.After(progressEvery):
			if o := n.cluster.Metadata().Topology.Operation(operation); o != nil {
				report(control.Progress{Done: int64(len(o.Streamed)), Total: int64(len(o.Gaining)), What: "nodes have their data"})
			}
		}
	}
}

// progressEvery is how often an operator hears of an operation's progress.
const progressEvery = 200 * time.Millisecond

// refusal makes what the cluster refuses an answer for the operator.
func refusal(err error) error {
	var refused *cluster.Refused
	if errors.As(err, &refused) {
		return &control.Error{Code: control.Refused, Message: refused.Reason}
	}
	return err
}
