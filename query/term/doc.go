// Package term implements the values in a statement: it compiles literals, bind markers, collections and function
// calls for the type of their receiver, and evaluates them when the bind markers have values.
//
// It does not parse (package cql does), does not implement the functions (package function does), and does not use
// the values: package query builds keys, cells and result columns from them. It never accesses rows.
//
//	cql.Term ── Compiler.Term(receiver) ──▶ Term ── Eval(Scope: values, time, identifiers) ──▶ wire.Value
//	                   │
//	                   └──▶ Marker: the receiver of each bind marker, for the result of PREPARE
//
// # Receivers
//
// Every term is compiled for a receiver: a column, a parameter of a function, an element of a collection, or a clause
// such as [limit]. The receiver determines the type of literals and bind markers, and its name is part of messages
// and of the metadata of markers. Terms in arguments are first matched with the types of all signatures (Arg), and
// then compiled with the types of the chosen one.
//
// # Constants
//
// A term without bind markers and without functions that depend on the execution is evaluated at compilation (fold),
// so that a prepared statement does not repeat the work, and errors in constants are errors of PREPARE.
//
// # Messages
//
// text.go shows terms, relations and selectors as Cassandra does, because messages and names of result columns
// contain them. Texts are truncated to the length of a [string] of the protocol, so a large term does not make them
// expensive.
package term
