// Package udf compiles and executes user-defined functions.
//
// A function is executed in a sandbox: it has no access to the host, and the operations, the memory and the time of a
// call are bounded. Every call returns a value or an error. The package knows the languages; it does not know
// statements, which package query resolves, and does not store functions, which are part of the schema.
//
//	*schema.Function ── compile, once ──▶ program ── Call(arguments) ──▶ result, or Failure
//
// Three kinds of bounds protect the node: steps, bytes and time bound a call (value.Meter); a memory pool bounds all
// calls, programs and instances together; and the compiler has its own limits and queue.
//
// Functions are pure only by convention: a Java function can read the clock.
package udf
