package metadata

import (
	"fmt"
	"slices"

	"cqld/ring"
	"cqld/schema"
)

// replications returns the distinct replications of all keyspaces whose data is on nodes.
func replications(s *schema.Schema) []ring.Replication {
	return replicationsOf(s, s.StoredKeyspaceNames())
}

// UserReplications returns the distinct replications of user keyspaces.
func UserReplications(s *schema.Schema) []ring.Replication {
	return replicationsOf(s, userKeyspaces(s))
}

// replicationsOf returns distinct replications without Local, whose data never moves. Keyspaces often share a
// replication, so placements are computed once for each.
func replicationsOf(s *schema.Schema, keyspaces []string) (out []ring.Replication) {
	for _, name := range keyspaces {
		r := s.StoredKeyspace(name).Replication
		if r.Class != ring.Local && !slices.ContainsFunc(out, r.Equal) {
			out = append(out, r)
		}
	}
	return out
}

// describe describes an operation in messages to users who must wait for it.
func (m *Metadata) describe(o *ring.Operation) string {
	n := m.Topology.Node(o.Node)
	host := ""
	if n != nil {
		host = n.Host.String()
	}
	return fmt.Sprintf("operation %d (%s of node %s, %s) is in progress; if it cannot finish because a node is dead, "+
		"abort it: cqld ctl abort %d", o.ID, o.Kind, host, o.Phase, o.ID)
}

// begin adds an operation to the topology. It refuses if another operation, or data that was not dropped yet,
// conflicts. nodes are the members from now on.
func (m *Metadata) begin(o *ring.Operation, nodes []*ring.Node, index uint64) error {
	// The operation is added to t, from which its ranges can be computed. m.Topology changes only if it is not refused.
	operations := append(slices.Clone(m.Topology.Operations()), o)
	t := ring.NewMovingTopology(index, index, nodes, operations)
	for _, other := range m.Topology.Operations() {
		if !m.independent(t, o, other) {
			return &Refused{Busy: true, Reason: m.describe(other)}
		}
	}
	// Gaining includes nodes that gain only ranges of system keyspaces; MayExcuse lets an operation continue without
	// them.
	o.Gaining = t.GainingOf(o, replications(m.Schema))
	if !o.Force { // permanent obstacles first: a node cannot drop a range whose only replica is dead
		if err := m.checkSources(t, o); err != nil {
			return err
		}
	}
	for _, u := range m.PendingCleanup {
		// A forced operation does not wait: the node keeps its data of ranges that it gains (rebalance.Drops).
		if !u.System && !o.Force && slices.Contains(t.GainingOf(o, UserReplications(m.Schema)), u.Node) {
			return &Refused{Busy: true, Reason: fmt.Sprintf("node %s is still dropping data of ranges that it lost, "+
				"which needs confirmation by half of the "+
				"replicas of each range; if it is down, it continues when it is up again",
				t.Node(u.Node).Internode.Addr())}
		}
	}
	// Without data to stream, the operation switches immediately. t was built for the first phase, so it is rebuilt.
	if len(o.Gaining) == 0 {
		o.Phase, o.Switched = ring.Switching, index
		t = ring.NewMovingTopology(index, index, nodes, operations)
	}
	m.Topology = t
	// A Reassign that changes no replica set, such as the split of a range, has no step left.
	if o.Kind == ring.Reassign && o.Phase == ring.Switching {
		return applyEnd(m, &End{Operation: o.ID}, index)
	}
	return nil
}

// independent reports whether two operations affect no common range of a keyspace: they are in different data centers,
// and no user keyspace has SimpleStrategy or EverywhereStrategy.
func (m *Metadata) independent(t *ring.Topology, a, b *ring.Operation) bool {
	// Unlike m.Topology, t contains a node that joins by one of them.
	if a.Node == b.Node || t.Node(a.Node).Datacenter == t.Node(b.Node).Datacenter {
		return false
	}
	// These strategies ignore data centers, so any two operations can affect the same range. System keyspaces never
	// block an operation.
	for _, name := range userKeyspaces(m.Schema) {
		switch m.Schema.StoredKeyspace(name).Replication.Class {
		case ring.Simple, ring.Everywhere:
			return false
		}
	}
	return true
}

// checkSources refuses an operation that would lose the data of a range.
func (m *Metadata) checkSources(t *ring.Topology, o *ring.Operation) error {
	for _, name := range m.Schema.StoredKeyspaceNames() {
		if schema.IsSystem(name) {
			continue // system data, for example traces, never blocks an operation
		}
		r := m.Schema.StoredKeyspace(name).Replication
		for _, g := range t.Gains(o, r, 0) {
			if g.From == 0 && len(g.Sources) == 0 {
				return &Refused{Reason: fmt.Sprintf("keyspace %s: no other node has range %s; its data would be "+
					"lost. Use --force if it is lost anyway", name, g.Range)}
			}
		}
		// If no other node can become a replica, no node gains the range, so the loop above does not find it.
		if at, lost := m.onlyOn(r, o.Node); o.Kind == ring.Remove && lost {
			return &Refused{Reason: fmt.Sprintf("keyspace %s: no other node has range %s; its data would be lost. "+
				"Use --force if it is lost anyway", name, at)}
		}
		if o.Kind == ring.Leave { // removing a dead node removes no live replica
			if dc, left, want := m.shortOf(r, t.Node(o.Node)); left < want {
				return &Refused{Reason: fmt.Sprintf("Not enough live nodes to maintain replication factor in "+
					"keyspace %s "+
					"(%s: replication factor %d, %d nodes would be left). Perform a forceful decommission to ignore.",
					name, dc, want, left)}
			}
		}
	}
	return nil
}

// onlyOn returns a range whose only replica is the given node.
func (m *Metadata) onlyOn(r ring.Replication, id ring.NodeID) (at ring.Range, only bool) {
	for _, x := range m.Topology.Placement(r).Ranges(ring.FullRange()) {
		if len(x.Replicas.Natural) == 1 && x.Replicas.Natural[0] == id {
			return x.Range, true
		}
	}
	return ring.Range{}, false
}

// shortOf returns the number of nodes that remain for r in the leaving node's data center, and the number that r
// requires.
func (m *Metadata) shortOf(r ring.Replication, leaver *ring.Node) (where string, left, want int) {
	// With EverywhereStrategy, a leaving node is one replica less, and not a missing one.
	if r.Class == ring.Local || r.Class == ring.Everywhere {
		return "", 0, 0
	}
	where, want = "ring", r.Total()
	if r.Class == ring.NetworkTopology {
		where, want = leaver.Datacenter, r.In(leaver.Datacenter)
	}
	// had includes the leaving node. Joining nodes own no tokens yet.
	had := 0
	for _, n := range m.Topology.Nodes() {
		if n.State == ring.Joining || r.Class == ring.NetworkTopology && n.Datacenter != leaver.Datacenter {
			continue
		}
		had++
		if n.ID != leaver.ID {
			left++
		}
	}
	return where, left, min(want, had) // a keyspace that already has too few nodes does not block the operation
}

// applyBegin starts an operation of a member in state Normal. A member has at most one operation at a time, so an abort
// can return it to Normal.
func applyBegin(m *Metadata, c *Begin, index uint64) error {
	if c.Kind == ring.Reassign {
		return beginReassign(m, c, index)
	}
	n := m.Topology.Node(c.Node)
	if n == nil {
		return &Refused{Reason: "the node is no longer a member"}
	}
	if n.State != ring.Normal {
		reason := fmt.Sprintf("node %s is %s", n.Host, n.State)
		for _, o := range m.Topology.Operations() {
			if o.Node == n.ID {
				reason += ": " + m.describe(o)
			}
		}
		return &Refused{Reason: reason, Busy: true}
	}
	// The log index identifies the operation, and is its epoch.
	o := &ring.Operation{ID: index, Kind: c.Kind, Node: c.Node, Phase: ring.Streaming, Force: c.Force,
		Hands: c.Hands && c.Kind == ring.Leave}
	state := ring.Leaving
	switch c.Kind {
	case ring.Leave, ring.Remove:
		if len(m.Topology.Nodes()) == 1 {
			return &Refused{Reason: "this is the only node of the cluster"}
		}
	// Leave and Remove work in any ring, but tokens were allocated for one topology: in another, they could be taken or
	// unbalanced.
	case ring.Move:
		if c.Epoch != m.Topology.Epoch() {
			return ErrStaleTopology
		}
		if len(c.Tokens) == 0 {
			return &Refused{Reason: "a move needs at least one token"}
		}
		if err := CheckTokens(m.Topology, c.Tokens, c.Node); err != nil {
			return err
		}
		o.Tokens, state = slices.Sorted(slices.Values(c.Tokens)), ring.Moving
	default:
		return &Refused{Reason: fmt.Sprintf("operation of kind %d", c.Kind)}
	}
	return m.begin(o, m.withNode(c.Node, func(n *ring.Node) { n.State = state }), index)
}

// withNode returns the members with one of them changed by change.
//
// Nodes are immutable and shared with earlier topologies, so the changed one is a copy.
func (m *Metadata) withNode(id ring.NodeID, change func(*ring.Node)) []*ring.Node {
	nodes := slices.Clone(m.Topology.Nodes())
	for i, n := range nodes {
		if n.ID == id {
			changed := *n
			change(&changed)
			nodes[i] = &changed
		}
	}
	return nodes
}

// without returns the members without one of them, which it records in Removed.
func (m *Metadata) without(nodes []*ring.Node, id ring.NodeID, index uint64, reason string) []*ring.Node {
	n := m.Topology.Node(id)
	m.Removed = append(slices.Clone(m.Removed), Removed{id, n.Host, index, n.Internode,
		fmt.Sprintf("node %s %s", n.Host, reason)})
	m.Removed = m.Removed[max(0, len(m.Removed)-removedMax):]
	// A former member never reports that it has dropped data, so its entry would stay forever.
	m.PendingCleanup = slices.DeleteFunc(slices.Clone(m.PendingCleanup),
		func(u PendingCleanup) bool { return u.Node == id })
	m.settle(id, func(*Former) bool { return true })
	return slices.DeleteFunc(nodes, func(n *ring.Node) bool { return n.ID == id })
}

// operation returns an operation in progress, and the other operations.
func (m *Metadata) operation(id uint64) (o *ring.Operation, others []*ring.Operation, err error) {
	for _, x := range m.Topology.Operations() {
		if x.ID == id {
			o = x
		} else {
			others = append(others, x)
		}
	}
	if o == nil {
		return nil, nil, &Refused{Reason: fmt.Sprintf("there is no operation %d", id)}
	}
	return o, others, nil
}

// applyStreamed records that a node has streamed its ranges. The last report switches the operation.
func applyStreamed(m *Metadata, c *Streamed, index uint64) error {
	o, others, err := m.operation(c.Operation)
	if err != nil {
		return err
	}
	if o.Phase != ring.Streaming || slices.Contains(o.Streamed, c.Node) {
		return nil // a repeated report
	}
	if !slices.Contains(o.Gaining, c.Node) {
		return &Refused{Reason: fmt.Sprintf("%s gains no range by the %s of %s", m.Topology.NameOf(c.Node), o.Kind,
			m.Topology.NameOf(o.Node))}
	}
	next := *o
	next.Streamed = slices.Sorted(slices.Values(append(slices.Clone(o.Streamed), c.Node)))
	// The node was excused as dead but has streamed after all, so it must also compare.
	next.Absent = slices.DeleteFunc(slices.Clone(o.Absent), func(id ring.NodeID) bool { return id == c.Node })
	next.Short = withShort(o.Short, c.Node, c.Short)
	m.advance(&next, others, index)
	return nil
}

// advance replaces an operation with its next state. The operation switches if it waits for no more nodes.
func (m *Metadata) advance(o *ring.Operation, others []*ring.Operation, index uint64) {
	// Only the switch changes which nodes serve a range. Other reports must not invalidate request plans.
	moved := m.Topology.Moved()
	if o.Phase == ring.Streaming && len(o.Awaits()) == 0 {
		o.Phase, o.Switched, moved = ring.Switching, index, index
	}
	m.Topology = ring.NewMovingTopology(index, moved, m.Topology.Nodes(), sortOperations(append(others, o)))
}

func sortOperations(os []*ring.Operation) []*ring.Operation {
	slices.SortFunc(os, func(a, b *ring.Operation) int { return int(int64(a.ID) - int64(b.ID)) })
	return os
}

// proceedTo replaces one operation with its next state. No range moves.
func (m *Metadata) proceedTo(next *ring.Operation, others []*ring.Operation, index uint64) {
	m.Topology = ring.NewMovingTopology(index, m.Topology.Moved(), m.Topology.Nodes(),
		sortOperations(append(others, next)))
}

// applyKnown starts the comparison of the gained ranges: from now on no quorum of readers uses only the previous
// replicas.
func applyKnown(m *Metadata, c *Known, index uint64) error {
	o, others, err := m.operation(c.Operation)
	if err != nil {
		return err
	}
	if o.Phase != ring.Switching {
		return &Refused{Reason: fmt.Sprintf("operation %d is still streaming", o.ID)}
	}
	if o.Known {
		return nil // a repeated report
	}
	next := *o
	next.Known = true
	m.proceedTo(&next, others, index)
	return nil
}

// applyCompared records that a node has compared its gained ranges. Absent nodes that return may report as well; then
// they lack nothing.
func applyCompared(m *Metadata, c *Compared, index uint64) error {
	o, others, err := m.operation(c.Operation)
	if err != nil {
		return err
	}
	if slices.Contains(o.Compared, c.Node) {
		return nil // a repeated report
	}
	if !o.Known || !slices.Contains(o.Gaining, c.Node) {
		return &Refused{Reason: fmt.Sprintf("%s has no range to compare for the %s of %s", m.Topology.NameOf(c.Node),
			o.Kind, m.Topology.NameOf(o.Node))}
	}
	next := *o
	next.Compared = slices.Sorted(slices.Values(append(slices.Clone(o.Compared), c.Node)))
	next.Short = withShort(o.Short, c.Node, c.Short)
	m.proceedTo(&next, others, index)
	return nil
}

// applyHanded records that the leaving node has handed over its batches and hints. Operations of earlier versions do
// not set Hands, and need no report.
func applyHanded(m *Metadata, c *Handed, index uint64) error {
	o, others, err := m.operation(c.Operation)
	if err != nil {
		return err
	}
	if !o.Hands {
		return &Refused{Reason: fmt.Sprintf("operation %d has no hand-over", o.ID)}
	}
	if o.Handed {
		return nil // a repeated report
	}
	next := *o
	next.Handed = true
	m.proceedTo(&next, others, index)
	return nil
}

// applyEnd applies the operation to members and tokens. Until now only the topology's operations contained it.
func applyEnd(m *Metadata, c *End, index uint64) error {
	o, others, err := m.operation(c.Operation)
	if err != nil {
		return err
	}
	// The proposer's metadata may have been older than these.
	if o.Phase != ring.Switching || len(o.Gaining) > 0 && (!o.Known || len(o.Awaits()) > 0) || o.Hands && !o.Handed {
		return &Refused{Reason: fmt.Sprintf("operation %d is not ready for this step: %+v", o.ID, *o)}
	}
	before := m.Topology
	var nodes []*ring.Node
	//exhaustive:enforce
	switch o.Kind {
	case ring.Join, ring.Move:
		nodes = m.withNode(o.Node, func(n *ring.Node) { n.State, n.Tokens = ring.Normal, o.Tokens })
	case ring.Reassign:
		nodes = withTransfers(before.Nodes(), o)
	// The replaced node may have been about to gain ranges by an operation in another data center.
	case ring.Replace:
		others = withoutMember(others, o.Replaced, index)
		old := before.Node(o.Replaced)
		nodes = m.withNode(o.Node, func(n *ring.Node) {
			n.State, n.Tokens, n.Reassigned = ring.Normal, old.Tokens, old.Reassigned
		})
		nodes = m.without(nodes, o.Replaced, index, "was replaced")
	case ring.Leave:
		others = withoutMember(others, o.Node, index)
		nodes = m.without(slices.Clone(before.Nodes()), o.Node, index, "was decommissioned")
	case ring.Remove:
		others = withoutMember(others, o.Node, index)
		nodes = m.without(slices.Clone(before.Nodes()), o.Node, index, "was removed")
	}
	// Before the topology changes, because the ranges that absent nodes gain are computed from the operation in the
	// current topology.
	m.noteIncomplete(o)
	m.Topology = ring.NewMovingTopology(index, index, nodes, others)
	m.notePendingCleanup(before, index)
	// The former replications must be repaired in the new topology.
	m.regain(index)
	return nil
}

// withoutMember returns the operations after a node has ceased to be a member: none waits for it. An operation in
// another data center may have begun while the node was a member. All nodes may gain ranges of system keyspaces by such
// an operation, because their placement ignores data centers.
func withoutMember(operations []*ring.Operation, id ring.NodeID, index uint64) []*ring.Operation {
	others := func(ids []ring.NodeID) []ring.NodeID {
		return slices.DeleteFunc(slices.Clone(ids), func(other ring.NodeID) bool { return other == id })
	}
	// Operations are shared with earlier topologies, so changed ones are copied.
	out := slices.Clone(operations)
	for i, o := range out {
		if !slices.Contains(o.Gaining, id) {
			continue
		}
		next := *o
		next.Gaining, next.Streamed, next.Compared = others(o.Gaining), others(o.Streamed), others(o.Compared)
		next.Absent = others(o.Absent)
		next.Short = slices.DeleteFunc(slices.Clone(o.Short), func(s ring.Shortfall) bool { return s.Node == id })
		if next.Phase == ring.Streaming && len(next.Awaits()) == 0 {
			next.Phase, next.Switched = ring.Switching, index
		}
		out[i] = &next
	}
	return out
}

// notePendingCleanup records the nodes that held ranges in before and no longer do.
func (m *Metadata) notePendingCleanup(before *ring.Topology, index uint64) {
	// A node that lost only ranges of system keyspaces must clean up as well, but no operation waits for it.
	all, users := m.losers(before, replications(m.Schema)), m.losers(before, UserReplications(m.Schema))
	// An entry with ranges of user keyspaces is not replaced by one with system ranges only.
	for _, u := range m.PendingCleanup {
		if !u.System && !slices.Contains(users, u.Node) {
			users = append(users, u.Node)
		}
	}
	// A node has one entry. The later epoch includes what it lost before.
	pending := slices.DeleteFunc(slices.Clone(m.PendingCleanup),
		func(u PendingCleanup) bool { return slices.Contains(all, u.Node) })
	for _, id := range all {
		pending = append(pending, PendingCleanup{Node: id, Epoch: index, System: !slices.Contains(users, id)})
	}
	slices.SortFunc(pending, func(a, b PendingCleanup) int { return int(int64(a.Node) - int64(b.Node)) })
	m.PendingCleanup = pending
}

// losers returns the members that held ranges in before and no longer hold them.
func (m *Metadata) losers(before *ring.Topology, rs []ring.Replication) (out []ring.NodeID) {
	for _, r := range rs {
		now := m.Topology.Placement(r)
		for _, x := range before.Placement(r).Ranges(ring.FullRange()) {
			for _, y := range now.Ranges(x.Range) {
				// Pending replicas count: they have received writes, and perhaps a stream. After an abort, they are the
				// losers.
				for _, id := range slices.Concat(x.Replicas.Natural, x.Replicas.Pending) {
					if !y.Replicas.Contains(id) && m.Topology.Node(id) != nil && !slices.Contains(out, id) {
						out = append(out, id)
					}
				}
			}
		}
	}
	return out
}

// applyAbort undoes an operation in either phase. Until an operation ends, a quorum of the previous replicas has every
// write that was acknowledged or read.
func applyAbort(m *Metadata, c *Abort, index uint64) error {
	o, others, err := m.operation(c.Operation)
	if err != nil {
		return err
	}
	before := m.Topology
	nodes := slices.Clone(before.Nodes())
	switch o.Kind {
	case ring.Join, ring.Replace:
		others = withoutMember(others, o.Node, index)
		nodes = m.without(nodes, o.Node, index, "did not join: the operation was aborted")
	case ring.Reassign: // its members have stayed Normal
	default:
		nodes = m.withNode(o.Node, func(n *ring.Node) { n.State = ring.Normal })
	}
	m.Topology = ring.NewMovingTopology(index, index, nodes, others)
	m.notePendingCleanup(before, index)
	m.regain(index)
	return nil
}

// applyCleaned records that a node has dropped the ranges that it lost up to an epoch. Ranges that it lost later stay
// pending.
func applyCleaned(m *Metadata, c *Cleaned) error {
	m.PendingCleanup = slices.DeleteFunc(slices.Clone(m.PendingCleanup),
		func(u PendingCleanup) bool { return u.Node == c.Node && u.Epoch <= c.Epoch })
	return nil
}
