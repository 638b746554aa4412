package query

import (
	"cqld/auth"
	"cqld/coordinator"
	"cqld/query/virtual"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
)

// isVirtual reports whether this node generates the rows of t.
func (p *Processor) isVirtual(t *schema.Table) bool {
	return p.o.Virtual != nil && p.o.Virtual.Serves(t)
}

// checkLocalLevel refuses levels of more than one replica for the system keyspaces that are local to every node.
// (Cassandra's virtual keyspaces, such as system_views, accept every level.)
func checkLocalLevel(t *schema.Table, level ring.Consistency) error {
	if t.Keyspace != "system" && t.Keyspace != "system_schema" {
		return nil
	}
	if need := level.BlockFor(ring.Replication{Class: ring.Simple, Factor: 1}, ""); need > 1 {
		return &coordinator.Unavailable{Consistency: level, Required: need, Alive: 1}
	}
	return nil
}

// traceLevel returns the level at which a table is read. A ring of one node answers for both replicas of system_traces, so that a
// client that reads its traces at the level of its statements, as cqlsh does, finds them.
func (p *Processor) traceLevel(t *schema.Table, level ring.Consistency) ring.Consistency {
	if t.Keyspace == "system_traces" && !level.IsSerial() && len(p.o.View.Topology().Nodes()) == 1 {
		return ring.One
	}
	return level
}

// hidden returns the column of a virtual table that a client may not read although it may read the others, or nil: only
// superusers see hashes of passwords. The rows do not contain it, so that no restriction, function or order depends on it.
func (p *Processor) hidden(t *schema.Table, client auth.Principal) *schema.Column {
	if t.Keyspace != "system_auth" || t.Name != "roles" || p.o.Roles != nil && p.o.Roles.IsSuperuser(client) {
		return nil
	}
	return t.Column("salted_hash")
}

// virtualPage executes a command on a virtual table and returns all matching rows that the client may see.
func (p *Processor) virtualPage(t *schema.Table, cmd *row.ReadCommand, client auth.Principal) ([]byte, error) {
	return virtual.Page(p.o.Virtual, t, cmd, p.hidden(t, client))
}
