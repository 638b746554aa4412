// Package function implements CQL's native functions on values: their names, the resolution of a call to a signature,
// and their computation.
//
// It does not handle columns, rows or statements: arguments and results are values in wire form, where nil is null.
// writetime, ttl and similar are syntax, not functions; package query implements them.
//
//	name, args ── Resolve ──▶ *Function ── Eval(env, args) ──▶ value
//	                              └────── New() ─ Add(args)… ─ Result() ──▶ value (aggregates)
package function
