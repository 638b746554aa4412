package auth

import "context"

// CassandraAuthorizer is an Authorizer with the rules of Cassandra's authorizer of that name. It decides by the roles
// of the current directory, which contains each change as soon as its statement has returned.
//
//  1. Superusers have all permissions, except that no client changes system keyspaces; package query refuses that.
//  2. Every client, also an anonymous one, may read the tables that drivers need: see readable. Package query shows a
//     client its own traces without a permission.
//  3. Permissions on ALL KEYSPACES exclude system keyspaces. Those are granted for each keyspace or table.
//  4. Other permissions hold on the resource and on everything below it, for the role and its members.
type CassandraAuthorizer struct {
	Directory func() *Directory // the current one; it must not allocate
}

// Authorize implements Authorizer. It does not allocate when it allows a request.
func (a CassandraAuthorizer) Authorize(_ context.Context, p Principal, need Requirement) error {
	// Rule 2 comes first: it holds for anonymous clients and for roles that no longer exist.
	if need.Permission == Select && readable(need.Resource) {
		return nil
	}
	// The third argument of has implements rule 3: the search ends before the root.
	e := a.Directory().effective[p.Name]
	// A role that does not exist, such as one that was dropped during the session, has no permission.
	if e == nil || !e.superuser && !e.has(need.Permission, need.Resource, IsSystemKeyspace(need.Resource.Keyspace)) {
		return &Denied{Principal: p, Requirement: need}
	}
	return nil
}

// IsSystemKeyspace reports whether a keyspace belongs to the system: permissions on ALL KEYSPACES do not include it.
// CVE-2025-23015 shows why: a role with MODIFY on ALL KEYSPACES could make itself a superuser.
func IsSystemKeyspace(name string) bool {
	switch name {
	case "system", "system_schema", "system_auth", "system_distributed", "system_traces",
		"system_views", "system_virtual_schema":
		return true
	}
	return false
}

// readable reports whether every client may read a table: drivers and tools need the topology, the schema and the sizes
// of tables.
func readable(r Resource) bool {
	if r.Kind != KindTable {
		return false
	}
	switch r.Keyspace {
	// The other tables of keyspace system need SELECT.
	case "system":
		switch r.Name {
		case "local", "peers", "peers_v2", "size_estimates", "table_estimates":
			return true
		}
	// All tables of these keyspaces describe the schema.
	case "system_schema", "system_virtual_schema":
		return true
	}
	return false
}
