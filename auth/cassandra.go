package auth

import "context"

// CassandraAuthorizer is an Authorizer with the rules of Cassandra's authorizer of that name. It decides by the roles of
// the current directory, which contains each change as soon as its statement has returned.
//
//  1. Superusers have all permissions, except that no client changes system keyspaces; package query refuses that.
//  2. Every client, also an anonymous one, may read the tables that drivers need: see readable.
//  3. Permissions on ALL KEYSPACES exclude system keyspaces, also virtual ones. Those are granted for each keyspace or
//     table.
//  4. Other permissions hold on the resource and on everything below it, for the role and its members.
type CassandraAuthorizer struct {
	Directory func() *Directory // the current one; it must not allocate
}

// Authorize implements Authorizer. It does not allocate when it allows a request.
func (a CassandraAuthorizer) Authorize(_ context.Context, p Principal, need Requirement) error {
	if need.Permission == Select && readable(need.Resource) {
		return nil
	}
	e := a.Directory().effective[p.Name]
	if e == nil || !e.superuser && !e.has(need.Permission, need.Resource, belongsToSystem(need.Resource)) {
		return &Denied{Principal: p, Requirement: need}
	}
	return nil
}

// belongsToSystem reports whether a resource is a system keyspace or within one.
func belongsToSystem(r Resource) bool {
	return IsSystemKeyspace(r.Keyspace) || r.Keyspace == "system_views" || r.Keyspace == "system_virtual_schema"
}

// IsSystemKeyspace reports whether a keyspace is a stored system keyspace of Cassandra, where only ALTER and SELECT can be
// granted. The virtual keyspaces system_views and system_virtual_schema are not among them, as in Cassandra.
func IsSystemKeyspace(name string) bool {
	switch name {
	case "system", "system_schema", "system_auth", "system_distributed", "system_traces":
		return true
	}
	return false
}

// readable reports whether every client may read a table: drivers and tools need the topology, the schema and the sizes of
// tables, and a client reads its own traces.
func readable(r Resource) bool {
	if r.Kind != KindTable {
		return false
	}
	switch r.Keyspace {
	case "system":
		switch r.Name {
		case "local", "peers", "peers_v2", "size_estimates", "table_estimates":
			return true
		}
	case "system_schema", "system_virtual_schema":
		return true
	case "system_traces":
		return r.Name == "events" || r.Name == "sessions"
	}
	return false
}
