package node

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"cqld/internal/wire"
	"cqld/node/control"
	"cqld/ring"
	"cqld/schema"
	"cqld/types"
)

// partitioner is the only one supported.
const partitioner = "org.apache.cassandra.dht.Murmur3Partitioner"

func (n *Node) opDescribeCluster(context.Context, control.None, control.Report) (control.Cluster, error) {
	m := n.cluster.Metadata()
	of := n.allFacts()
	c := control.Cluster{Name: n.opts.ClusterName, Partitioner: partitioner, Epoch: m.Epoch,
		Members:        n.members(m.Topology, of),
		SchemaVersions: map[string][]string{}, Versions: map[string][]string{}}
	for _, node := range m.Topology.Nodes() {
		f, ok := of[node.ID]
		if !ok {
			c.SchemaVersions["UNREACHABLE"] = append(c.SchemaVersions["UNREACHABLE"], node.Internode.Addr().String())
			continue
		}
		c.SchemaVersions[f.Schema] = append(c.SchemaVersions[f.Schema], node.Internode.Addr().String())
		c.Versions[f.Build] = append(c.Versions[f.Build], node.Internode.String())
	}
	for _, name := range m.Schema.KeyspaceNames() {
		if k := m.Schema.Keyspace(name); !k.Virtual {
			c.Keyspaces = append(c.Keyspaces, control.Keyspace{Name: name,
				Replication: describeReplication(k.Replication)})
		}
	}
	return c, nil
}

// describeReplication returns a replication as nodetool shows it.
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
	return fmt.Sprintf("%s {%s}", r.Class.ShortName(), strings.Join(factors, ", "))
}

func (n *Node) opDescribeRing(_ context.Context, a control.KeyspaceArgs, _ control.Report) (control.Ranges, error) {
	m := n.cluster.Metadata()
	out := control.Ranges{SchemaVersion: m.Schema.Version().String()}
	k, err := replicated(m.Schema, a.Keyspace)
	if err != nil {
		return out, err
	}
	pieces := m.Topology.Placement(k.Replication).Ranges(ring.FullRange())
	if last := len(pieces) - 1; last > 0 && equalReplicas(pieces[0].Replicas, pieces[last].Replicas) {
		pieces[0].Range.Start = pieces[last].Range.Start // join the two ends of the range that wraps around
		pieces = pieces[:last]
	}
	for _, p := range pieces {
		out.Ranges = append(out.Ranges, control.Range{Start: int64(p.Range.Start), End: int64(p.Range.End),
			Endpoints: n.named(m.Topology, p.Replicas.Natural), Pending: n.named(m.Topology, p.Replicas.Pending)})
	}
	return out, nil
}

func equalReplicas(a, b ring.ReplicaSet) bool {
	return slices.Equal(a.Natural, b.Natural) && slices.Equal(a.Pending, b.Pending)
}

// named returns the members with these ids.
func (n *Node) named(t *ring.Topology, ids []ring.NodeID) (out []control.Member) {
	for _, id := range ids {
		if m := t.Node(id); m != nil {
			out = append(out, n.member(m))
		}
	}
	return out
}

func (n *Node) opEndpoints(_ context.Context, a control.EndpointsArgs, _ control.Report) (control.Endpoints, error) {
	m := n.cluster.Metadata()
	k, err := replicated(m.Schema, a.Keyspace)
	if err != nil {
		return control.Endpoints{}, err
	}
	t := k.Table(a.Table)
	if t == nil {
		return control.Endpoints{}, noTable(a.Keyspace, a.Table)
	}
	key, err := parseKey(t, a.Key)
	if err != nil {
		return control.Endpoints{}, &control.Error{Code: control.Invalid, Message: err.Error()}
	}
	token := ring.Murmur3(key)
	set := m.Topology.Placement(k.Replication).Replicas(token)
	return control.Endpoints{Token: int64(token), Endpoints: n.named(m.Topology, set.Natural),
		Pending: n.named(m.Topology, set.Pending)}, nil
}

func noTable(keyspace, table string) error {
	return &control.Error{Code: control.Invalid, Message: fmt.Sprintf("table %s.%s does not exist", keyspace, table)}
}

// parseKey reads a partition key in the format of nodetool: the values of its columns joined by colons, with \: for a
// colon within a value.
func parseKey(t *schema.Table, text string) ([]byte, error) {
	if len(t.PartitionKey) == 1 {
		return parseValue(t.PartitionKey[0].Type, text)
	}
	parts := splitKey(text)
	if len(parts) != len(t.PartitionKey) {
		return nil, fmt.Errorf("the partition key of %s.%s has %d columns, %q has %d: join them by colons, and "+
			"write \\: for a colon in one",
			t.Keyspace, t.Name, len(t.PartitionKey), text, len(parts))
	}
	var key []byte
	for i, p := range parts {
		v, err := parseValue(t.PartitionKey[i].Type, p)
		if err != nil {
			return nil, err
		}
		if len(v) > 0xFFFF {
			return nil, fmt.Errorf("a value of %d bytes is too long for a key", len(v))
		}
		key = append(append(wire.AppendUint16(key, uint16(len(v))), v...), 0)
	}
	return key, nil
}

func splitKey(text string) (parts []string) {
	var part strings.Builder
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '\\' && i+1 < len(text) && (text[i+1] == ':' || text[i+1] == '\\'):
			i++
			part.WriteByte(text[i])
		case text[i] == ':':
			parts = append(parts, part.String())
			part.Reset()
		default:
			part.WriteByte(text[i])
		}
	}
	return append(parts, part.String())
}

// parseValue reads a value as CQL writes its constants, but a string without quotes.
func parseValue(t *types.Type, text string) ([]byte, error) {
	var last error
	for _, kind := range []types.LiteralKind{types.StringLiteral, types.IntegerLiteral, types.FloatLiteral,
		types.UUIDLiteral,
		types.BooleanLiteral, types.HexLiteral, types.DurationLiteral} {
		if !kind.Assigns(t) {
			continue
		}
		v, err := t.FromLiteral(kind, text)
		if err == nil {
			return v, nil
		}
		last = err
	}
	if last == nil {
		last = fmt.Errorf("a key of type %s cannot be written as text", t)
	}
	return nil, last
}
