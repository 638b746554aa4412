// Package schema represents keyspaces, tables, columns and types as immutable snapshots, and the changes between
// snapshots as values.
//
// It does not agree on changes with other nodes (package cluster does, through Raft), and does not parse CQL (package
// query converts a statement to a Change). A *Schema never changes, so it can be read without a lock.
//
//	Schema ─▶ Keyspace ─▶ Table ─▶ Column ─▶ types.Type
//	   │          └─────▶ UserType
//	   └─ Apply(Change) ─▶ the next Schema
//
// # Sharing
//
// A change copies the maps and lists on the way to what it changes, and shares everything else with the previous
// schema. Equal pointers therefore mean equal elements, which Diff and rebuilt rely on. Functions whose receiver "must
// be a clone" modify it; all others only read.
//
// # Life of a change
//
//	statement ─▶ Change ─▶ EncodeChange ─▶ log ─▶ DecodeChange ─▶ Apply(s, c) ─▶ the next Schema ─▶ Diff ─▶ events
//
// Apply finds the keyspace, clones the elements that the change affects, modifies the clone and validates it.
// Keyspace.link then completes the keyspace, and Schema.with builds the schema with it. ALTER TABLE, for example, takes
// these steps:
//
//  1. copyForChange copies the lists of the table; columns are replaced in them, never modified.
//  2. Table.Seal sorts the lists and computes the indexes of columns and the digest.
//  3. Table.validate checks the rules that hold for every table.
//  4. Keyspace.withTable or withBase puts the table, and its views, into a clone of the keyspace.
//  5. Schema.with links the clone and computes the version.
//
// # Identity
//
// Names change, ids do not. A table has a UUID, which clients see, and a number in storage (StorageID), which is short
// and in every key. Columns have ids within their table. None of these is reused, except by a column that is added
// again under its old name.
//
// # Names of files
//
// Files named apply_… contain what Apply does with one kind of element, encode_… how it is stored, and options… the
// options of tables. link.go and diff.go work on whole keyspaces.
//
// # Encoding
//
// Encode and EncodeChange write JSON with a format version. All nodes must compute the same schema from the same log,
// also during an upgrade: Apply must not become stricter, and the meaning of a Change must not change.
package schema
