// Package auth defines access control: principals, permissions, the resources that permissions apply to, and the
// Authorizer, which decides. It is pure: it uses no metadata, clock or network.
//
// It does not know which permissions a statement needs. Package query computes them from CQL statements,
// azuretables/entity from operations of Azure Tables, and node/control from control operations; package request calls
// the Authorizer.
//
// Resources form the hierarchies of Cassandra. A permission on a resource includes everything below it:
//
//	ALL KEYSPACES ── KEYSPACE ks ── ALL TABLES IN KEYSPACE ks ── TABLE ks.t
//	ALL ROLES ────── ROLE r
//	ALL FUNCTIONS ── ALL FUNCTIONS IN KEYSPACE ks ── FUNCTION ks.f(int, text)
//	ALL MBEANS ───── MBEAN name
//
// cqld has no JMX: an MBean resource represents the control operation with that name, as in `cqld ctl`.
//
// A Directory contains all roles, grants, identities, CIDR groups and accounts of Azure Tables. It is a value that
// Changes transform: the metadata log contains the Changes, and each node applies them in the same order.
//
//	statement ─▶ Change ─▶ metadata log ─▶ Apply(Directory, Change) ─▶ next Directory ─▶ CassandraAuthorizer
package auth
