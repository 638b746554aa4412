// Package guardrail bounds what ordinary users may define, write and read, with the names, the defaults and the
// messages of Cassandra's guardrails.
//
//	cassandra.yaml ─▶ Guardrails ─▶ Guard of one request ─▶ warnings, or *invalid.Error
//
// It only decides: query/read and query/write call it for statements, query/definition for definitions. Callers pass
// no Guard for superusers, who are not bound.
//
// There are three kinds of guardrails: a Flag disables a feature, a Threshold bounds a number, and Values restrict
// words. Most are disabled by default (Defaults). A nil Guard permits everything, so callers need not test whether
// one applies.
package guardrail
