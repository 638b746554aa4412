// Package function implements CQL's native functions on values: their names, the resolution of a call to a signature,
// and their computation.
//
// It does not handle columns, rows or statements: arguments and results are values in wire form, where nil is null.
// writetime, ttl and similar are syntax, not functions; package query implements them.
//
//	name, args ── Resolve ──▶ *Function ── Eval(env, args) ──▶ value
//	                              └────── New() ─ Add(args)… ─ Result() ──▶ value (aggregates)
//
// # Resolution
//
// A name has either fixed signatures or a factory, which makes the one signature for the types of a call. The
// candidates of a call are the user-defined functions with its name and these. Each argument reports how well it
// matches the type of a parameter:
//
//	ExactMatch   a value of the type, or a literal whose preferred type it is
//	WeakMatch    convertible without loss of form, or of an unknown type: a bind marker, null
//	NoMatch      the signature does not apply
//
// The first signature whose arguments all match exactly is called, or else the only one that matches at all. Several
// weak matches are an error, except for operators, where the required type of the result may decide (ambiguous).
//
// # Null and empty values
//
// Most functions are strict: null gives null. An empty value of a type other than text and blob is valid in CQL and has
// no content; functions that compute with the content return null for it. Functions of masks and JSON treat null as a
// value.
//
// # Numbers
//
// Arithmetic is Java's, because results must equal Cassandra's:
//
//	tinyint, smallint, int, bigint, counter   two's complement; an overflow wraps, / truncates toward zero
//	float, double                             IEEE 754; a float is rounded after each operation
//	varint                                    exact
//	decimal                                   exact, except for / and functions, within bounds (number.go)
//
// The result of an operation on two types has the wider one (types.WidestNumber). The result of an aggregate or a
// function of one number has the type of its argument.
package function
