// Package schema is what tables exist: keyspaces, tables, columns and types as immutable
// snapshots, and the changes between them as values.
//
// It does not agree on changes with other nodes (cluster does, through Raft), and it does not read
// CQL (query turns a statement into a Change). A *Schema never changes once made: whoever holds one
// may read it without a lock for as long as it likes.
//
//	Schema ─▶ Keyspace ─▶ Table ─▶ Column ─▶ types.Type
//	   │          └─────▶ UserType
//	   └─ Apply(Change) ─▶ the next Schema
package schema
