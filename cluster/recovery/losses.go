package recovery

import (
	"fmt"
	"slices"

	"cqld/cluster/metadata"
	"cqld/ring"
	"cqld/schema"
)

// Loss describes the effect of a recovery on the data of a keyspace.
type Loss struct {
	Keyspace    string
	Replication ring.Replication
	// Without is the number of ranges, of Ranges in total, that have no surviving replica. Their data is lost.
	Without, Ranges int
	Levels          []LevelLoss
}

// LevelLoss describes a consistency level: Kept is how many surviving replicas have a write that was acknowledged at
// this level, the minimum over all ranges. Zero means that acknowledged writes may be lost.
type LevelLoss struct {
	Level string
	Kept  int
	// Served means that every range has enough surviving replicas for requests at this level.
	Served bool
}

// Losses returns the possible losses of each user keyspace, sorted by name. m is the newest metadata, and lost are the
// members that do not survive.
func Losses(m *metadata.Metadata, lost []ring.NodeID) (out []Loss) {
	for _, name := range m.Schema.KeyspaceNames() {
		r := m.Schema.Keyspace(name).Replication
		if schema.IsSystem(name) || r.Class == ring.Local {
			continue
		}
		l := Loss{Keyspace: name, Replication: r}
		for _, x := range m.Topology.Placement(r).Ranges(ring.FullRange()) {
			l.Ranges++
			survives := func(id ring.NodeID) bool { return !slices.Contains(lost, id) }
			if !slices.ContainsFunc(x.Replicas.Natural, survives) {
				l.Without++
			}
			l.Levels = least(l.Levels, levelsOf(m.Topology, r, x.Replicas.Natural, survives))
		}
		out = append(out, l)
	}
	return out
}

// levelsOf returns the levels of one range. Levels that refer to one data center are listed for each data center.
func levelsOf(t *ring.Topology, r ring.Replication, replicas []ring.NodeID,
	survives func(ring.NodeID) bool) (out []LevelLoss) {
	all := len(replicas)
	left := count(replicas, survives)
	// In the worst case, all lost replicas are among those that acknowledged.
	level := func(name string, acknowledged, lost, left int) {
		out = append(out, LevelLoss{Level: name, Kept: max(0, acknowledged-lost), Served: left >= acknowledged})
	}
	level("ONE", 1, all-left, left)
	level("QUORUM", ring.QuorumOf(r.Total()), all-left, left)
	for _, f := range r.Datacenters {
		local := slices.DeleteFunc(slices.Clone(replicas),
			func(id ring.NodeID) bool { return t.Node(id).Datacenter != f.Datacenter })
		left := count(local, survives)
		level(fmt.Sprintf("LOCAL_QUORUM in %s", f.Datacenter), ring.QuorumOf(f.Factor), len(local)-left, left)
	}
	level("ALL", r.Total(), all-left, left)
	return out
}

// count returns how many of ids satisfy f.
func count(ids []ring.NodeID, f func(ring.NodeID) bool) (n int) {
	for _, id := range ids {
		if f(id) {
			n++
		}
	}
	return n
}

// least combines the levels of two ranges: Kept is the minimum, and a level is served if it is served in both.
func least(a, b []LevelLoss) []LevelLoss {
	if a == nil {
		return b
	}
	for i := range a {
		a[i].Kept, a[i].Served = min(a[i].Kept, b[i].Kept), a[i].Served && b[i].Served
	}
	return a
}
