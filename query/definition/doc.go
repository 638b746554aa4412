// Package definition implements definitions and DESCRIBE: it converts CREATE, ALTER and DROP to a schema.Change, and
// answers DESCRIBE with statements that create the same schema. Rules, error messages and the output of DESCRIBE match
// Cassandra's.
//
// It does not apply changes (schema.Apply does, on every node, and checks again), and it does not handle sessions,
// paging or permissions.
//
//	CREATE … ─▶ Definer ─▶ Change, Event, Warnings       DESCRIBE … ─▶ Describer ─▶ rows
//	               └── one snapshot: Schema, Topology ──────┘
//
// A definition is checked in three places. First, the form of the statement, which needs no schema; then its names and
// types, against the snapshot; last, the guardrails, against the finished change. Apply repeats the checks that depend
// on the schema at the time of the change, and never calls this package: a change contains everything that a node
// needs, for example evaluated values and new ids.
//
// # Errors
//
// Messages and codes are Cassandra's. Errors in WITH are syntax errors (syntaxf) or configuration errors
// (invalid.Configf), most others are INVALID (invalid.Errorf), and changes of system keyspaces are UNAUTHORIZED
// (mayChange). Messages differ from Cassandra's only for features that cqld does not have, for example triggers.
//
// # Time of evaluation
//
// Terms in INITCOND, in masks and in WHERE of a view are evaluated here, and their values are stored. A DEFAULT is
// stored as CQL, because each INSERT evaluates it.
package definition
