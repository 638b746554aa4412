package metadata

import (
	"fmt"

	"cqld/internal/invariant"
	"cqld/ring"
)

// checkStep checks the invariants that every command preserves.
func checkStep(before, after *Metadata, err error) {
	// Request plans contain epochs, and replicas refuse plans that are older than the last range movement. If an epoch
	// decreased, they would admit a plan for an earlier ring.
	invariant.Check(after.Epoch >= before.Epoch, "metadata: the epoch goes back")
	invariant.Check(after.Topology.Epoch() >= before.Topology.Epoch(), "metadata: the epoch of the topology goes back")
	invariant.Check(after.Topology.Epoch() <= max(after.Epoch, before.Topology.Epoch()),
		"metadata: the topology is newer than the metadata")
	// Otherwise the id of a former member would be reused.
	invariant.Check(after.nextNode >= before.nextNode, "metadata: node ids are given again")
	invariant.Check(after.ClusterVersion >= before.ClusterVersion, "metadata: the cluster version goes back")
	// A snapshot from a version with larger bounds may contain longer lists, but they must not grow.
	invariant.Check(len(after.recent) <= max(recentMax, len(before.recent)), "metadata: too many recent commands")
	invariant.Check(len(after.Removed) <= max(removedMax, len(before.Removed)), "metadata: too many former members")
	invariant.Check(len(after.Former) <= max(formerMax, len(before.Former)), "metadata: too many former replications")
	invariant.Check(len(after.Incomplete) <= max(incompleteMax, len(before.Incomplete)),
		"metadata: too many incomplete operations")
	invariant.Check(len(after.BackupSchedules) <= max(schedulesMax, len(before.BackupSchedules)),
		"metadata: too many schedules of backups")
	invariant.Check(err == nil || after.Epoch == before.Epoch, "metadata: a refused command changed the epoch")
	invariant.Check(err == nil || after.Schema == before.Schema && after.Topology == before.Topology,
		"metadata: a refused command changed the metadata")
	// Both scan all low bounds or all tokens, which is too slow for every command in production.
	if invariant.Enabled {
		checkFloors(before, after)
		err := after.checkOwners()
		invariant.Check(err == nil, "metadata: %v", err)
	}
}

// checkFloors checks that Paxos low bounds never decrease. Otherwise acceptors would accept a ballot whose state they
// have purged.
func checkFloors(before, after *Metadata) {
	for id, micros := range before.PaxosFloors {
		now, ok := after.PaxosFloors[id]
		invariant.Check(!ok && after.Schema.TableByStorage(id) == nil || now >= micros,
			"metadata: the low bound of a table falls")
	}
}

// checkOwners returns an error if a token has two owners, or if an operation or cleanup belongs to no member. Apply
// preserves this; metadata from other nodes are refused otherwise.
func (m *Metadata) checkOwners() error {
	// Tokens are ascending, so duplicates are neighbors.
	tokens := m.Topology.Tokens()
	for i := 1; i < len(tokens); i++ {
		if tokens[i-1] >= tokens[i] {
			return fmt.Errorf("token %s has two owners", tokens[i])
		}
	}
	for i, o := range m.Topology.Operations() {
		switch {
		case m.Topology.Node(o.Node) == nil, o.Kind == ring.Replace && m.Topology.Node(o.Replaced) == nil:
			return fmt.Errorf("operation %d is of an unknown node", o.ID)
		case i > 0 && m.Topology.Operations()[i-1].ID >= o.ID:
			return fmt.Errorf("operation %d is not in order", o.ID)
		// Awaits would be empty, and the operation would switch too early.
		case len(o.Streamed) > len(o.Gaining), len(o.Compared) > len(o.Gaining):
			return fmt.Errorf("more nodes have streamed ranges of operation %d than gain some", o.ID)
		}
		if (o.Kind == ring.Reassign) != (len(o.Transfers) > 0) {
			return fmt.Errorf("operation %d (%s) has %d transfers", o.ID, o.Kind, len(o.Transfers))
		}
		for _, x := range o.Transfers {
			if x.From != 0 && m.Topology.Node(x.From) == nil || x.To != 0 && m.Topology.Node(x.To) == nil {
				return fmt.Errorf("operation %d reassigns token %s of or to an unknown node", o.ID, x.Token)
			}
		}
		for _, id := range o.Gaining {
			if m.Topology.Node(id) == nil {
				return fmt.Errorf("operation %d has an unknown gaining node", o.ID)
			}
		}
	}
	for _, u := range m.PendingCleanup {
		if m.Topology.Node(u.Node) == nil {
			return fmt.Errorf("node %d with pending cleanup is unknown", u.Node)
		}
	}
	return nil
}
