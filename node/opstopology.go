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
	"cqld/jobs"
	"cqld/node/control"
	"cqld/rebalance"
	"cqld/ring"
	"cqld/schema"
)

// opChanges returns the ring operations in progress.
func (n *Node) opChanges(context.Context, control.None, control.Report) (control.Changes, error) {
	t := n.cluster.Metadata().Topology
	out := control.Changes{Operations: []control.Change{}}
	for _, o := range t.Operations() {
		c := control.Change{ID: o.ID, Kind: o.Kind.String(), Phase: o.Phase.String(), Gaining: len(o.Gaining),
			Streamed: len(o.Streamed), Waits: n.cluster.Waits(o.ID)}
		if m := t.Node(o.Node); m != nil {
			c.Node = n.member(m)
		}
		out.Operations = append(out.Operations, c)
	}
	return out, nil
}

// opDecommission streams this node's data to the other nodes and leaves the ring. When it returns without an error, the
// node serves no clients and may be stopped.
func (n *Node) opDecommission(ctx context.Context, a control.ForceArgs, report control.Report) (out control.Departure,
	err error) {
	id, err := n.cluster.Decommission(ctx, a.Force)
	if err := n.follow(ctx, id, err, report); err != nil {
		return out, err
	}
	if n.isMember() && !n.servers.Left() {
		return out, aborted(id)
	}
	report(control.Progress{What: "the node has left the ring; moving its clients to other nodes", Committed: true})
	n.servers.AwaitRetired(ctx)
	return control.Departure{Left: true}, nil
}

// opRemoveNode removes a dead node.
func (n *Node) opRemoveNode(ctx context.Context, a control.NodeArgs, report control.Report) (out control.Removal,
	err error) {
	m := n.findMember(a.Node)
	if m == nil {
		return out, &control.Error{Code: control.Invalid, Message: fmt.Sprintf("node %s does not exist", a.Node)}
	}
	id, err := n.cluster.RemoveNode(ctx, m.ID, a.Force)
	if err := n.follow(ctx, id, err, report); err != nil {
		return out, err
	}
	now := n.cluster.Metadata()
	if now.Topology.Node(m.ID) != nil {
		return out, aborted(id)
	}
	for _, s := range now.MissingFrom(id) {
		if at := now.Topology.Node(s.Node); at != nil {
			out.Missing = append(out.Missing, control.Missing{Node: at.Internode.String(), Keyspace: s.Keyspace,
				Ranges: s.Ranges})
		}
	}
	return out, nil
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

// opMove gives this node new tokens.
func (n *Node) opMove(ctx context.Context, a control.MoveArgs, report control.Report) (none control.None, err error) {
	self := n.cluster.Metadata().Topology.Node(n.cluster.Self())
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
	id, err := n.cluster.Move(ctx, tokens)
	if err := n.follow(ctx, id, err, report); err != nil {
		return none, err
	}
	// Without tokens in the arguments, the allocated tokens may be the current ones of the node.
	if now := n.cluster.Metadata().Topology.Node(n.cluster.Self()); now != nil && len(tokens) > 0 &&
		!sameTokens(now.Tokens, tokens) {
		return none, aborted(id)
	}
	return none, nil
}

// sameTokens reports whether two lists have the same tokens, in any order.
func sameTokens(a, b []ring.Token) bool {
	sorted := func(list []ring.Token) []ring.Token { return slices.Compact(slices.Sorted(slices.Values(list))) }
	return slices.Equal(sorted(a), sorted(b))
}

// aborted returns the error of an operation that another command has aborted.
func aborted(operation uint64) error {
	return &control.Error{Code: control.Failed, Message: fmt.Sprintf("operation %d was aborted: the ring is unchanged",
		operation)}
}

// opAbort aborts an operation. If that ends the join of this node, the other nodes stop communicating with it, and it
// may not receive the decision. The node then answers after it has detected that it is not a member.
func (n *Node) opAbort(ctx context.Context, a control.AbortArgs, report control.Report) (out control.Departure,
	err error) {
	if a.Operation == 0 {
		all := n.cluster.Metadata().Topology.Operations()
		if len(all) != 1 {
			return out, &control.Error{Code: control.Invalid,
				Message: fmt.Sprintf("%d operations are in progress: specify the ID of one", len(all))}
		}
		a.Operation = all[0].ID
	}
	ended := make(chan error, 1)
	n.running.Go(func() { ended <- n.cluster.Abort(ctx, a.Operation) })
	select {
	case err = <-ended:
	case <-n.servers.Retired():
	}
	if err != nil {
		return out, refusal(err)
	}
	if out.Left = n.servers.Left() || !n.isMember(); out.Left {
		report(control.Progress{What: "the join of this node was aborted", Committed: true})
	}
	return out, nil
}

// opCleanup drops the data of ranges that this node does not replicate any more, as a job. It applies the same rule as
// the automatic cleanup after ring changes.
func (n *Node) opCleanup(ctx context.Context, a control.TablesArgs, report control.Report) (none control.None,
	err error) {
	if _, err := n.tablesOf(a); err != nil {
		return none, err
	}
	return none, n.startJob(ctx, jobs.Cleanup, targetOf(a), jobs.Ranges, a, n.cleanupWork(a), report)
}

// cleanupWork returns the work of a cleanup. A new attempt starts from the beginning.
func (n *Node) cleanupWork(a control.TablesArgs) jobWork {
	return func(ctx context.Context, j *jobs.Job) error {
		tables, err := n.tablesOf(a)
		if err != nil {
			return err
		}
		var ids []schema.StorageID
		if len(a.Tables) > 0 {
			for _, t := range tables {
				ids = append(ids, t.StorageID)
			}
		}
		done := make(chan error, 1)
		j.Progress(0, 0, "asking the replicas of the ranges")
		cancel := n.parts.Drops.Cleanup(a.Keyspace, ids,
			func(done, all int) { j.Progress(int64(done), int64(all), "dropping ranges") },
			func(err error) { done <- err })
		select {
		case err = <-done:
		case <-ctx.Done():
			cancel()
			err = <-done
		}
		return err
	}
}

// opRebuild streams this node's data from the other replicas, as a job.
func (n *Node) opRebuild(ctx context.Context, a control.RebuildArgs, report control.Report) (none control.None,
	err error) {
	m := n.cluster.Metadata()
	if _, err := n.tablesOf(control.TablesArgs{Keyspace: a.Keyspace}); err != nil {
		return none, err
	}
	target := targetOf(control.TablesArgs{Keyspace: a.Keyspace})
	if a.Datacenter != "" {
		target += " from " + a.Datacenter
		if err := knownDatacenter(m.Topology, a.Datacenter); err != nil {
			return none, err
		}
	}
	return none, n.startJob(ctx, jobs.Rebuild, target, jobs.Ranges, a, n.rebuildWork(a), report)
}

// knownDatacenter returns an error if no member is in the data center.
func knownDatacenter(t *ring.Topology, name string) error {
	if slices.Contains(t.Datacenters(), name) {
		return nil
	}
	return &control.Error{Code: control.Invalid, Message: fmt.Sprintf(
		"data center %s does not exist; the data centers are %s", name, strings.Join(t.Datacenters(), ", "))}
}

// rebuildWork returns the work of a rebuild.
func (n *Node) rebuildWork(a control.RebuildArgs) jobWork {
	return func(ctx context.Context, j *jobs.Job) error {
		done := make(chan error, 1)
		o := rebalance.RebuildOptions{Name: j.ID(), Keyspace: a.Keyspace, Datacenter: a.Datacenter,
			Progress: func(done, all int) { j.Progress(int64(done), int64(all), "streaming") }}
		cancel := n.moves.Rebuild(o, func(err error) { done <- err })
		select {
		case err := <-done:
			return err
		case <-ctx.Done():
			cancel()
			return <-done
		}
	}
}

// follow waits until an operation is completed or aborted, and reports its progress: the number of nodes that have
// received their data.
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
				return fmt.Errorf("operation %d continues: %w", operation, err)
			}
			return nil
		case <-n.servers.Retired(): // a node that was removed may not receive the end of the operation
			return nil
		case <-time.After(progressEvery):
			if o := n.cluster.Metadata().Topology.Operation(operation); o != nil {
				what := "nodes have their data"
				if w := n.cluster.Waits(operation); w != "" {
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

// refusal converts errors of the cluster to errors of the control protocol.
func refusal(err error) error {
	var refused *cluster.Refused
	if errors.As(err, &refused) {
		return &control.Error{Code: control.Refused, Message: refused.Reason}
	}
	return err
}
