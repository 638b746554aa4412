package cluster

import (
	"fmt"
	"slices"

	"cqld/ring"
	"cqld/schema"
)

// noteFormer remembers the replications that keyspaces have in m and not in next, and forgets those of keyspaces that next
// does not have. It refuses a change by which a node would gain a range while it drops what it lost.
func (m *Metadata) noteFormer(next *schema.Schema, at int64, index uint64) error {
	former := slices.DeleteFunc(slices.Clone(m.Former), func(f Former) bool { return next.Keyspace(f.Keyspace) == nil })
	for _, name := range m.Schema.KeyspaceNames() {
		old, now := m.Schema.Keyspace(name), next.Keyspace(name)
		if now == nil || old.Replication.Class == ring.Local || now.Replication.Class == ring.Local || old.Replication.Equal(now.Replication) {
			continue
		}
		change := m.compareReplications(old.Replication, now.Replication)
		for _, u := range m.Unclean {
			if slices.Contains(change.gain, u.Node) {
				return &Refused{Busy: true, Reason: fmt.Sprintf("node %s still drops data of the ranges it lost; one that is down does so when "+
					"it is up again", m.Topology.Node(u.Node).Internode.Addr())}
			}
		}
		former = slices.DeleteFunc(former, func(f Former) bool {
			return f.Keyspace == name && len(m.compareReplications(f.Replication, now.Replication).lose) == 0
		})
		for i := range former {
			// Data of earlier replications may be where the old one has put it, or not yet, so the new one must overlap with
			// each of them; and only a repair that begins now is one of its replicas.
			if f := &former[i]; f.Keyspace == name {
				f.Overlaps, f.Since = m.compareReplications(f.Replication, now.Replication).overlaps, max(f.Since, at)
				change.overlaps = change.overlaps && f.Overlaps
			}
		}
		if len(change.lose) > 0 {
			former = append(former, Former{name, old.Replication, index, at, change.overlaps, change.lose})
		}
	}
	if len(former) > formerMax {
		return &Refused{Reason: "too many changes of replication: repair the keyspaces, and have the nodes clean up (cqld ctl cleanup)"}
	}
	if m.Former = former; len(former) == 0 {
		m.Former = nil
	}
	return nil
}

// replicationChange is what a change of a keyspace's replication does.
type replicationChange struct {
	gain, lose []ring.NodeID // nodes that gain ranges, and that lose some; ascending
	overlaps   bool          // Former.Overlaps
}

func (m *Metadata) compareReplications(before, after ring.Replication) (c replicationChange) {
	c.overlaps = true
	now := m.Topology.Placement(after)
	for _, x := range m.Topology.Placement(before).Ranges(ring.FullRange()) {
		had := x.Replicas.Natural
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
			c.overlaps = c.overlaps && stay >= len(had)-ring.QuorumOf(len(had))+1
		}
	}
	slices.Sort(c.gain)
	slices.Sort(c.lose)
	return c
}

// settle removes a node from the former replications that choose names.
func (m *Metadata) settle(id ring.NodeID, choose func(*Former) bool) {
	var left []Former
	for _, f := range m.Former {
		if choose(&f) {
			f.Nodes = slices.DeleteFunc(slices.Clone(f.Nodes), func(n ring.NodeID) bool { return n == id })
		}
		if len(f.Nodes) > 0 {
			left = append(left, f)
		}
	}
	m.Former = left
}

func applySettled(m *Metadata, c *settledCommand) {
	m.settle(c.Node, func(f *Former) bool { return f.Keyspace == c.Keyspace && f.Epoch <= c.Epoch })
}

// StartSettled says that this node has dropped what it held by the replications that a keyspace had up to epoch. done is
// called by the loop.
func (c *Cluster) StartSettled(keyspace string, epoch uint64, done func(error)) {
	c.start(&command{Settled: &settledCommand{c.Self(), keyspace, epoch}}, done)
}
