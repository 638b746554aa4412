// Package function is CQL's native functions on values: what they are called, which signature a
// call means, and what they compute.
//
// It does not know columns, rows or statements: arguments and results are values in wire form, nil
// being null. writetime, ttl and the like are syntax, not functions, and stand in query.
//
//	name, args ── Resolve ──▶ *Function ── Eval(env, args) ──▶ value
//	                              └────── New() ─ Add(args)… ─ Result() ──▶ value (aggregates)
package function
