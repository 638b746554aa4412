// Package schema represents keyspaces, tables, columns and types as immutable snapshots, and the changes between
// snapshots as values.
//
// It does not agree on changes with other nodes (package cluster does, through Raft), and does not parse CQL (package
// query converts a statement to a Change). A *Schema never changes, so it can be read without a lock.
//
//	Schema ─▶ Keyspace ─▶ Table ─▶ Column ─▶ types.Type
//	   │          └─────▶ UserType
//	   └─ Apply(Change) ─▶ the next Schema
package schema
