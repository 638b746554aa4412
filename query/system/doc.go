// Package system generates the rows of the tables that no replica stores, in the keyspaces system, system_schema,
// system_virtual_schema, system_views and system_auth.
//
// It does not define these tables (package schema does) and does not interpret CQL: package query filters and pages the
// rows as for any table. The tables of system_traces and system_distributed are stored like user tables and are not
// generated here. The tables of system_auth show the roles, which are part of the cluster's metadata.
//
//	SELECT … FROM system.peers_v2 ─▶ query ─ Partitions(table) ─▶ Source ─▶ Topology
//	                                                                │ └───▶ Schema
//	                                                                └─────▶ Roles, Clients, Settings
//
// # Generation
//
// Rows are generated from the current state: a builder collects the rows of one table, and passes them on as partitions
// in the order of their tokens. Nothing is stored between the pages of a result, so a row may be missing or repeated if
// the state changes meanwhile, like a row of a stored table.
//
// Most tables are small and generated as a whole for each page. Two kinds are not. Tables of system_schema and the
// roles can be long: their partition order is cached for one snapshot (keyOrder), the first element of a page is found
// by binary search, and the builder stops at the page limit. Estimates read from storage, so they are made for the
// requested tables only.
//
// # Drivers
//
// Drivers read system.local, system.peers and peers_v2 when they connect and after each change of the ring, and
// system_schema after each change of the schema. The columns and the form of their values are Cassandra's, including
// values that have no meaning here. The versions in source.go decide what drivers and cqlsh expect of the server.
package system
