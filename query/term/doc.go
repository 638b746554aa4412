// Package term implements the values in a statement: it compiles literals, bind markers, collections and function calls
// for the type of their receiver, and evaluates them when the bind markers have values.
//
// It does not parse (package cql does), does not implement the functions (package function does), and does not use the
// values: package query makes keys, cells and result columns of them. It never accesses rows.
//
//	cql.Term ── Compiler.Term(receiver) ──▶ Term ── Eval(Scope: values, time, identifiers) ──▶ wire.Value
//	                   │
//	                   └──▶ Marker: the receiver of each bind marker, for the result of PREPARE
package term
