// Package system generates the rows of the tables that no replica stores, in the keyspaces system, system_schema,
// system_virtual_schema, system_views and system_auth.
//
// It does not define these tables (package schema does) and does not interpret CQL: package query filters and pages the
// rows as for any table. The tables of system_traces and system_distributed are stored like user tables and are not
// generated here. Those of system_auth show the roles, which are part of the cluster's metadata.
//
//	SELECT … FROM system.peers_v2 ─▶ query ─ Partitions(table) ─▶ Source ─▶ Topology
//	                                                                │ └───▶ Schema
//	                                                                └─────▶ Roles, Clients, Settings
package system
