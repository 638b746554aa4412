package admin

import (
	"crypto/sha256"
	"encoding/hex"

	"cqld/cluster/metadata"
	"cqld/cql"
	"cqld/internal/release"
	"cqld/node/snapshot"
	"cqld/query/definition"
	"cqld/ring"
	"cqld/schema"
	"cqld/storage/format"
)

// manifest returns what describes tables of catalog, and this node and its cluster. The caller sets what describes the
// snapshot itself. catalog may be an earlier schema, which still had the tables.
func (v *Snapshots) manifest(catalog *schema.Schema, tables []*schema.Table) *snapshot.Manifest {
	now := v.catalog.cluster.Metadata()
	m := &snapshot.Manifest{HybridTime: v.stamp(), Build: release.Build(), StorageFormat: format.Version,
		Cluster: snapshot.Cluster{Name: v.name, ID: ClusterID(now)},
		Node:    snapshot.Node{ID: v.catalog.cluster.HostID().String()}, Epoch: now.Epoch}
	// A node that has left is in no topology; its snapshots have no place.
	if own := now.Topology.Node(v.catalog.cluster.Self()); own != nil {
		m.Node = nodeOf(own)
	}
	describe := describer{catalog}
	listed := map[string]bool{}
	for _, t := range tables {
		// Keyspaces are in the order of their tables, each once.
		if !listed[t.Keyspace] {
			listed[t.Keyspace] = true
			m.Keyspaces = append(m.Keyspaces, describe.keyspace(t.Keyspace))
		}
		m.Tables = append(m.Tables, describe.table(t))
	}
	return m
}

// nodeOf returns the description of a member.
func nodeOf(n *ring.Node) snapshot.Node {
	out := snapshot.Node{ID: n.Host.String(), Address: n.Internode.String(), Datacenter: n.Datacenter, Rack: n.Rack,
		Tokens: []string{}}
	for _, t := range n.Tokens {
		out.Tokens = append(out.Tokens, t.String())
	}
	return out
}

// ClusterID returns the identifier of a cluster, for snapshots. It is a hash of the cluster's secret, which is
// generated with the cluster and never changes.
func ClusterID(m *metadata.Metadata) string {
	sum := sha256.Sum256(append([]byte("cqld cluster identifier\n"), m.Secret...))
	return hex.EncodeToString(sum[:16])
}

// describer returns the statements that create the elements of a schema, as DESCRIBE … WITH INTERNALS shows them: a
// table is created with its identifier and its dropped columns.
type describer struct{ catalog *schema.Schema }

// rows returns the result of DESCRIBE: rows of keyspace, type, name and statement. It is empty if the element is
// missing in the schema.
func (d describer) rows(stmt *cql.Describe) [][][]byte {
	describe := definition.Describer{Schema: d.catalog, Internals: true}
	_, rows, _, err := describe.Describe(stmt)
	if err != nil {
		return nil
	}
	return rows
}

// keyspace returns a keyspace with the statements that its tables need.
func (d describer) keyspace(name string) snapshot.Keyspace {
	out := snapshot.Keyspace{Name: name}
	if schema.IsSystem(name) {
		return out
	}
	for _, row := range d.rows(&cql.Describe{Kind: cql.DescribeKeyspace, Name: cql.QualifiedName{Name: name}}) {
		switch string(row[1]) {
		case "keyspace", "type", "function", "aggregate":
			out.Statements = append(out.Statements, string(row[3]))
		}
	}
	return out
}

// table returns a table with its indexes and views.
func (d describer) table(t *schema.Table) snapshot.Table {
	out := snapshot.Table{Keyspace: t.Keyspace, Name: t.Name, ID: t.ID.String(), StorageID: t.StorageID,
		Columns: snapshot.ColumnsOf(t)}
	if schema.IsSystem(t.Keyspace) {
		return out
	}
	name := cql.QualifiedName{Keyspace: t.Keyspace, Name: t.Name}
	for _, row := range d.rows(&cql.Describe{Kind: cql.DescribeTable, Name: name}) {
		element := snapshot.Element{Name: string(row[2]), Create: string(row[3])}
		switch string(row[1]) {
		case "table":
			out.Create = element.Create
		case "index":
			out.Indexes = append(out.Indexes, element)
		case "materialized_view":
			out.Views = append(out.Views, element)
		}
	}
	return out
}
