// Package system makes up the rows of the tables that no replica stores: those of the keyspaces
// system, system_schema, system_virtual_schema and system_views.
//
// It does not define these tables (schema does) and does not read CQL: query filters and pages the
// rows as it does those of any table. The tables of system_traces, system_auth and
// system_distributed are stored like a user's and are not made up here.
//
//	SELECT … FROM system.peers_v2 ─▶ query ─ Partitions(table) ─▶ Source ─▶ Topology
//	                                                                │ └───▶ Schema
//	                                                                └─────▶ Clients, Settings
package system
