// Package definition is what definitions mean and how they are shown: it turns CREATE, ALTER and DROP
// into a schema.Change, and answers DESCRIBE with text that makes the same again. Rules, messages
// and text are Cassandra's.
//
// It does not make changes (schema.Apply does, on every node, and checks again), and it does not
// know sessions, pages or who may do what.
//
//	CREATE … ─▶ Definer ─▶ Change, Event, Warnings       DESCRIBE … ─▶ Describer ─▶ rows
//	               └── one snapshot: Schema, Topology ──────┘
package definition
