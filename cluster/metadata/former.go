package metadata

import (
	"fmt"
	"slices"

	"cqld/ring"
	"cqld/schema"
)

// noteFormer records the replications that keyspaces had in m and no longer have in next, and removes the records of
// keyspaces that next does not contain. It refuses a change by which a node would gain a range while it is dropping
// data of ranges that it lost.
func (m *Metadata) noteFormer(next *schema.Schema, at int64, index uint64) error {
	// Each ALTER KEYSPACE is evaluated in the current ring. applySchema refuses changes of replication during
	// operations, so the placement of a keyspace changes for one reason at a time.
	former := slices.DeleteFunc(slices.Clone(m.Former),
		func(f Former) bool { return next.StoredKeyspace(f.Keyspace) == nil })
	for _, name := range m.Schema.StoredKeyspaceNames() {
		old, now := m.Schema.StoredKeyspace(name), next.StoredKeyspace(name)
		if now == nil || old.Replication.Class == ring.Local || now.Replication.Class == ring.Local ||
			old.Replication.Equal(now.Replication) {
			continue
		}
		// Data that a node is dropping can be older than tombstones that other replicas have purged. If the node gained
		// the range before it has dropped this data, deleted data would reappear.
		change := m.compareReplications(old.Replication, now.Replication)
		for _, u := range m.PendingCleanup {
			if slices.Contains(change.gain, u.Node) {
				return &Refused{Busy: true, Reason: fmt.Sprintf("node %s is still dropping data of ranges that it "+
					"lost; if it is down, it continues when "+
					"it is up again", m.Topology.Node(u.Node).Internode.Addr())}
			}
		}
		// The loop below sets Since, Overlaps, Gained and Changed, for this entry as for earlier ones.
		former = append(former, Former{Keyspace: name, Replication: old.Replication, Epoch: index, Nodes: change.lose})
		// Data placed by earlier replications may not have been copied to the replicas of later ones. The new
		// replication must therefore overlap with each of them, and only a repair that starts after this change is a
		// repair of its replicas.
		overlaps, since := true, at
		for i := range former {
			f := &former[i]
			if f.Keyspace != name {
				continue
			}
			c := m.compareReplications(f.Replication, now.Replication)
			if f.Gained = c.gain; schema.IsReplicatedSystem(name) {
				f.Gained = nil // system data are not repaired
			}
			// The new replication contains all replicas of f, so no node has to drop data.
			if len(c.lose) == 0 {
				f.Nodes = nil
			}
			overlaps, since = overlaps && c.overlaps, max(since, f.Since)
			// An entry overlaps only if the keyspace's earlier entries do, because data may still be only where those
			// placed it. Since never decreases, even if this proposer's clock is behind an earlier proposer's.
			f.Overlaps, f.Since, f.Changed = overlaps, since, index
		}
		former = slices.DeleteFunc(former, func(f Former) bool { return f.Keyspace == name && f.over() })
	}
	// Dropping the oldest entry instead could forget a node with the only copy of a write.
	if len(former) > formerMax {
		return &Refused{Reason: "too many changes of replication: repair the keyspaces, and run 'cqld ctl cleanup' " +
			"on the nodes"}
	}
	if m.Former = former; len(former) == 0 {
		m.Former = nil
	}
	return nil
}

// renamedFormer returns the former replications. If a keyspace is dropped and retained, or restored (undropped is not
// nil), its entries are renamed, because its data stay in place.
func renamedFormer(m *Metadata, next *schema.Schema, undropped *schema.UndropKeyspace) []Former {
	names := map[string]string{}
	if undropped != nil {
		names[undropped.Keyspace] = undropped.As
	}
	for _, k := range next.DroppedKeyspaces() {
		if m.Schema.StoredKeyspace(k.Name) == nil {
			names[k.Dropped.Name] = k.Name
		}
	}
	// Clone, because readers share the list of the previous metadata.
	former := slices.Clone(m.Former)
	for i := range former {
		if name, ok := names[former[i].Keyspace]; ok {
			former[i].Keyspace = name
		}
	}
	return former
}

// over reports whether the entry can be removed.
func (f *Former) over() bool { return len(f.Nodes) == 0 && len(f.Gained) == 0 }

// regain updates the former replications that some nodes still have to repair: the ring has changed, so every node may
// hold unrepaired ranges.
//
// It runs when an operation ends or is aborted. Changed rises with it, so applyRegained does not accept a repair that
// ran in the previous ring.
func (m *Metadata) regain(index uint64) {
	var left []Former
	for _, f := range m.Former {
		if k := m.Schema.StoredKeyspace(f.Keyspace); k != nil && len(f.Gained) > 0 {
			f.Gained, f.Changed = m.compareReplications(f.Replication, k.Replication).gain, index
		}
		if !f.over() {
			left = append(left, f)
		}
	}
	m.Former = left
}

// replicationChange is the effect of a change of a keyspace's replication.
type replicationChange struct {
	gain, lose []ring.NodeID // nodes that gain ranges, and that lose some; ascending
	overlaps   bool          // Former.Overlaps
}

// compareReplications compares the placement of all ranges under two replications in the current topology. It compares
// range by range, because one change can make a node lose one range and gain another.
func (m *Metadata) compareReplications(before, after ring.Replication) (c replicationChange) {
	c.overlaps = true
	now := m.Topology.Placement(after)
	for _, x := range m.Topology.Placement(before).Ranges(ring.FullRange()) {
		had := x.Replicas.Natural
		// The ranges of the two placements have different bounds, so x is split at the bounds of the next placement.
		for _, y := range now.Ranges(x.Range) {
			stay := 0
			for _, id := range had {
				switch {
				case slices.Contains(y.Replicas.Natural, id):
					stay++
				case !slices.Contains(c.lose, id):
					c.lose = append(c.lose, id)
				}
			}
			for _, id := range y.Replicas.Natural {
				if !slices.Contains(had, id) && !slices.Contains(c.gain, id) {
					c.gain = append(c.gain, id)
				}
			}
			// A majority of the n former replicas acknowledged a write, so any n-quorum+1 of them contain a replica
			// that has it: as many must stay.
			c.overlaps = c.overlaps && stay >= len(had)-ring.QuorumOf(len(had))+1
		}
	}
	slices.Sort(c.gain)
	slices.Sort(c.lose)
	return c
}

// settle removes a node from Nodes of the former replications that choose selects.
func (m *Metadata) settle(id ring.NodeID, choose func(*Former) bool) {
	var left []Former
	for _, f := range m.Former {
		if choose(&f) {
			f.Nodes = slices.DeleteFunc(slices.Clone(f.Nodes), func(n ring.NodeID) bool { return n == id })
		}
		if !f.over() {
			left = append(left, f)
		}
	}
	m.Former = left
}

// applySettled records that a node has dropped the data that it lost. The node used the schema at c.Epoch, so
// replications that were replaced later are not included.
func applySettled(m *Metadata, c *Settled) {
	m.settle(c.Node, func(f *Former) bool { return f.Keyspace == c.Keyspace && f.Epoch <= c.Epoch })
}

// applyRegained records that a node has the data of the former replicas. A report is ignored if the replication or the
// ring changed later, because the repair may have covered other replicas.
func applyRegained(m *Metadata, c *Regained) {
	var left []Former
	for _, f := range m.Former {
		// Without an overlap, the repair may have read only replicas that never had the data. The entry then stays
		// until a later change of replication overlaps with it.
		if f.Keyspace == c.Keyspace && f.Changed == c.Changed && f.Overlaps {
			f.Gained = slices.DeleteFunc(slices.Clone(f.Gained), func(n ring.NodeID) bool { return n == c.Node })
		}
		if !f.over() {
			left = append(left, f)
		}
	}
	m.Former = left
}
