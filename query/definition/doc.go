// Package definition implements definitions and DESCRIBE: it converts CREATE, ALTER and DROP to a schema.Change, and
// answers DESCRIBE with statements that create the same schema. Rules, messages and text are Cassandra's.
//
// It does not apply changes (schema.Apply does, on every node, and checks again), and it does not handle sessions,
// paging or permissions.
//
//	CREATE … ─▶ Definer ─▶ Change, Event, Warnings       DESCRIBE … ─▶ Describer ─▶ rows
//	               └── one snapshot: Schema, Topology ──────┘
package definition
