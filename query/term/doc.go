// Package term is what the values written in a statement mean: it compiles literals, bind markers,
// collections and function calls for the type they are to become, and evaluates them once the bind
// markers have values.
//
// It does not parse (cql does), does not know the functions themselves (function does), and not what
// becomes of a value: a key, a cell or a column of the result is package query's. It never sees rows.
//
//	cql.Term ── Compiler.Term(receiver) ──▶ Term ── Eval(Scope: values, time, identifiers) ──▶ wire.Value
//	                   │
//	                   └──▶ Marker: what each bind marker is for, as PREPARE answers
package term
