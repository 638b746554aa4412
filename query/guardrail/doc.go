// Package guardrail bounds what ordinary users may define, write and read, with the names, the defaults and the
// messages of Cassandra's guardrails.
//
//	cassandra.yaml ─▶ Guardrails ─▶ Guard of one request ─▶ warnings, or *invalid.Error
//
// It decides only. query/read and query/write ask it about statements, and query/definition about definitions.
// Superusers are not bound.
package guardrail
