package rebalance

import (
	"slices"

	"cqld/replica"
	"cqld/ring"
	"cqld/schema"
)

// dropItem is a range of tokens of one keyspace's tables, and of the Paxos states of their partitions, that this node
// does not hold. When keyspace is empty, it is a range of Paxos state that this node holds of no keyspace.
type dropItem struct {
	keyspace string
	tables   []schema.StorageID
	tokens   ring.Range  // does not wrap
	former   *FormerData // unless nil, the replicas must have been repaired since
	// states reports that the Paxos states are dropped, too. A state that stayed could list a change as decided that
	// this node's rows lack when it gains the range again, or bring the change back after the other replicas have
	// purged it.
	states bool
	// fence includes tables without data: a write to one of them must not come between the list and the end.
	fence []schema.StorageID // the tables whose requests are refused meanwhile
}

// list returns the ranges that neither an operation nor a replication assigns to this node in the topology of View.
func (d *Drops) list() (items []dropItem) {
	t, self, catalog := d.o.View.Topology(), d.o.View.Self(), d.o.View.Schema()
	if t.Node(self) == nil || len(t.Tokens()) == 0 {
		return nil
	}
	var all []ring.Range
	changed := false // this node may have the only copies, and the only votes, of some keyspace
	for _, name := range catalog.StoredKeyspaceNames() {
		k := catalog.StoredKeyspace(name)
		if k.Replication.Class == ring.Local {
			continue
		}
		// Former and pending replicas count as holding a range: an operation may still be aborted or completed.
		held := heldBy(t.Placement(k.Replication), self)
		former := d.o.Former(name)
		changed = changed || former != nil
		all = append(all, held...)
		for _, gap := range gaps(held) {
			items = append(items, dropItem{name, tablesOf(k), gap, former, former == nil, tablesOf(k)})
		}
	}
	// States in ranges that this node holds of no keyspace, for example of dropped keyspaces.
	for _, gap := range gaps(all) {
		if !changed {
			paxos := []schema.StorageID{schema.PaxosTable}
			items = append(items, dropItem{tables: paxos, tokens: gap, fence: paxos})
		}
	}
	return items
}

// still returns the items that lie within one of listed, of the same keyspace.
func still(items, listed []dropItem) (out []dropItem) {
	for _, item := range items {
		// Covered, not equal: another range may have been lost meanwhile, which joins two gaps.
		if slices.ContainsFunc(listed, func(l dropItem) bool {
			return l.keyspace == item.keyspace &&
				l.tokens.Covers(item.tokens)
		}) {
			out = append(out, item)
		}
	}
	return out
}

// fenced converts items to the ranges of replica.Local.
func fenced(items []dropItem) (out []replica.FencedRange) {
	for _, item := range items {
		out = append(out, replica.FencedRange{Tables: item.fence, Tokens: item.tokens})
	}
	return out
}
