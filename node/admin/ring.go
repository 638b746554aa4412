package admin

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"cqld/cluster"
	"cqld/node/config"
	"cqld/node/control"
	"cqld/ring"
	"cqld/schema"
)

// Ring shows the ring from the view of this node. It shows what this node has applied, which may be older than another
// node's view.
type Ring struct {
	options *config.Options
	cluster *cluster.Cluster
	members members
	peers   *Peers
}

// Status shows all members with their load and what they own. The load is of the members that answer; the others have
// none.
func (v *Ring) Status(_ context.Context, a control.KeyspaceArgs, _ control.Report) (control.Status, error) {
	m := v.cluster.Metadata()
	all := v.peers.all()
	s := control.Status{Members: v.members.list(m.Topology, all)}
	for _, f := range all {
		s.Overdue = append(s.Overdue, f.Overdue...)
	}
	// Two nodes may execute the schedules for a while.
	slices.SortFunc(s.Overdue, func(a, b control.OverdueSchedule) int { return cmp.Compare(a.Name, b.Name) })
	s.Overdue = slices.CompactFunc(s.Overdue, func(a, b control.OverdueSchedule) bool { return a.Name == b.Name })
	return s, ownership(&s, m.Schema, m.Topology, a.Keyspace)
}

// Tokens shows all tokens and their owners. It is nodetool ring.
func (v *Ring) Tokens(_ context.Context, a control.KeyspaceArgs, _ control.Report) (control.Tokens, error) {
	m := v.cluster.Metadata()
	r := control.Tokens{Status: control.Status{Members: v.members.list(m.Topology, v.peers.all())}}
	if err := ownership(&r.Status, m.Schema, m.Topology, a.Keyspace); err != nil {
		return r, err
	}
	for i, tok := range m.Topology.Tokens() {
		id := m.Topology.Owner(i).ID
		r.Tokens = append(r.Tokens, control.Token{Token: int64(tok),
			// The member is named by its position in the list, so that a client need not repeat it.
			Member: slices.IndexFunc(r.Members, func(c control.Member) bool { return c.ID == uint64(id) })})
	}
	return r, nil
}

// ownership sets what each member owns: with the replication of the named keyspace, or with the replication that all
// user keyspaces share, or as first replica. Uneven reports that the replications differ; the shares are then computed
// without replication. Shares are parts of one. With a replication factor of n, they add up to n. Owns of all members
// add up to 1 without replication; a node of a data center without the keyspace owns 0.
func ownership(s *control.Status, all *schema.Schema, t *ring.Topology, keyspace string) error {
	replication, uneven, err := replicationFor(all, keyspace)
	if err != nil {
		return err
	}
	s.Uneven, s.Effective = uneven, replication != nil
	owned := map[ring.NodeID]float64{}
	// Without a replication, a node owns the ranges up to its tokens.
	if replication == nil {
		for i, tok := range t.Tokens() {
			// The range of a token ends at it and begins at the token before.
			before := t.Tokens()[(i+len(t.Tokens())-1)%len(t.Tokens())]
			owned[t.Owner(i).ID] += ring.Range{Start: before, End: tok}.Share()
		}
	} else {
		// With a replication, every replica owns the whole range: the shares add up to the replication factor.
		for _, r := range t.Placement(*replication).Ranges(ring.FullRange()) {
			for _, id := range r.Replicas.Natural {
				owned[id] += r.Range.Share()
			}
		}
	}
	// Members without tokens own nothing.
	for i := range s.Members {
		s.Members[i].Owns = owned[ring.NodeID(s.Members[i].ID)]
	}
	return nil
}

// replicationFor returns the replication to compute ownership with. It returns nil if there are no user keyspaces, or
// if their replications differ; uneven then is true. A named keyspace must exist and be replicated.
func replicationFor(all *schema.Schema, keyspace string) (r *ring.Replication, uneven bool, err error) {
	if keyspace != "" {
		k, err := replicated(all, keyspace)
		if err != nil {
			return nil, false, err
		}
		return &k.Replication, false, nil
	}
	// System keyspaces have a replication of their own, and would make every cluster uneven.
	for _, name := range all.KeyspaceNames() {
		k := all.Keyspace(name)
		if schema.IsSystem(name) || schema.IsReplicatedSystem(name) || schema.IsVirtualSystem(name) ||
			k.Replication.Class == ring.Local {
			continue
		}
		// The first replication that differs makes the result uneven.
		if r != nil && !r.Equal(k.Replication) {
			return nil, true, nil
		}
		r = &k.Replication
	}
	return r, false, nil
}

// partitioner is the only one supported. Every ring has this partitioner. Drivers and tools compare the full name of
// the class.
const partitioner = "org.apache.cassandra.dht.Murmur3Partitioner"

// DescribeCluster shows the state that the cluster has agreed on. Nodes that answer are grouped by their schema and
// their version.
func (v *Ring) DescribeCluster(context.Context, control.None, control.Report) (control.Cluster, error) {
	m := v.cluster.Metadata()
	of := v.peers.all()
	c := control.Cluster{Name: v.options.ClusterName, Partitioner: partitioner, Epoch: m.Epoch,
		Members:        v.members.list(m.Topology, of),
		SchemaVersions: map[string][]string{}, Versions: map[string][]string{}}
	for _, node := range m.Topology.Nodes() {
		// A node that does not answer is unreachable, in the word of nodetool.
		f, ok := of[node.ID]
		if !ok {
			c.SchemaVersions["UNREACHABLE"] = append(c.SchemaVersions["UNREACHABLE"], node.Internode.Addr().String())
			continue
		}
		c.SchemaVersions[f.Schema] = append(c.SchemaVersions[f.Schema], node.Internode.Addr().String())
		c.Versions[f.Build] = append(c.Versions[f.Build], node.Internode.String())
	}
	// A virtual keyspace has no replication.
	for _, name := range m.Schema.KeyspaceNames() {
		if k := m.Schema.Keyspace(name); !k.Virtual {
			c.Keyspaces = append(c.Keyspaces, control.Keyspace{Name: name,
				Replication: describeReplication(k.Replication)})
		}
	}
	return c, nil
}

// describeReplication returns a replication as nodetool shows it. A class without factors has an empty map.
func describeReplication(r ring.Replication) string {
	var factors []string
	switch r.Class {
	case ring.Simple:
		factors = append(factors, fmt.Sprintf("replication_factor=%d", r.Factor))
	case ring.NetworkTopology:
		for _, f := range r.Datacenters {
			factors = append(factors, fmt.Sprintf("%s=%d", f.Datacenter, f.Factor))
		}
	}
	// The class is shown without its package.
	return fmt.Sprintf("%s {%s}", r.Class.ShortName(), strings.Join(factors, ", "))
}

// DescribeRing shows the ranges of a keyspace and their replicas. Ranges are in the order of the ring.
func (v *Ring) DescribeRing(_ context.Context, a control.KeyspaceArgs, _ control.Report) (control.Ranges, error) {
	m := v.cluster.Metadata()
	out := control.Ranges{SchemaVersion: m.Schema.Version().String()}
	k, err := replicated(m.Schema, a.Keyspace)
	if err != nil {
		return out, err
	}
	pieces := m.Topology.Placement(k.Replication).Ranges(ring.FullRange())
	// The range that wraps around is one range with two pieces.
	if last := len(pieces) - 1; last > 0 && equalReplicas(pieces[0].Replicas, pieces[last].Replicas) {
		pieces[0].Range.Start = pieces[last].Range.Start // join the two ends of the range that wraps around
		pieces = pieces[:last]
	}
	for _, p := range pieces {
		out.Ranges = append(out.Ranges, control.Range{Start: int64(p.Range.Start), End: int64(p.Range.End),
			Endpoints: v.members.named(m.Topology, p.Replicas.Natural), Pending: v.members.named(m.Topology,
				p.Replicas.Pending)})
	}
	return out, nil
}

// equalReplicas reports whether two ranges have the same replicas, natural and pending.
func equalReplicas(a, b ring.ReplicaSet) bool {
	return slices.Equal(a.Natural, b.Natural) && slices.Equal(a.Pending, b.Pending)
}

// Endpoints shows the replicas of a partition. The replicas of a key need not be alive. The partition need not exist.
func (v *Ring) Endpoints(_ context.Context, a control.EndpointsArgs, _ control.Report) (control.Endpoints, error) {
	m := v.cluster.Metadata()
	k, err := replicated(m.Schema, a.Keyspace)
	if err != nil {
		return control.Endpoints{}, err
	}
	t := k.Table(a.Table)
	if t == nil {
		return control.Endpoints{}, noTable(a.Keyspace, a.Table)
	}
	// The key is written as in nodetool getendpoints.
	key, err := parseKey(t, a.Key)
	if err != nil {
		return control.Endpoints{}, &control.Error{Code: control.Invalid, Message: err.Error()}
	}
	token := ring.Murmur3(key)
	set := m.Topology.Placement(k.Replication).Replicas(token)
	// Pending replicas receive writes but answer no reads.
	return control.Endpoints{Token: int64(token), Endpoints: v.members.named(m.Topology, set.Natural),
		Pending: v.members.named(m.Topology, set.Pending)}, nil
}

// Seeds shows the configured seeds, without this node. The seeds are the configuration's, not the members'. Names are
// shown as they were configured.
func (v *Ring) Seeds(context.Context, control.None, control.Report) (control.Seeds, error) {
	out := control.Seeds{Seeds: []string{}}
	for _, s := range v.options.SeedTexts() {
		if s != v.options.Internode().String() {
			out.Seeds = append(out.Seeds, s)
		}
	}
	return out, nil
}
