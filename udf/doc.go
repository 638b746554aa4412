// Package udf compiles and executes functions that users define.
//
// A function is executed in a sandbox: it has no access to the host, and the operations, the memory and the time of a
// call are bounded. Whatever a function does, its call returns a value or an error. The package knows the languages; it
// does not know statements, which package query resolves, and does not store functions, which are part of the schema.
//
//	*schema.Function ── compile, once ──▶ program ── Call(arguments) ──▶ result, or Failure
//
// The bounds protect the node in three ways: a call by steps, bytes and time (value.Meter); all calls, programs and
// instances together by a pool of memory; and the compiler by its own limits and turns.
//
// Functions are pure by contract only: nothing keeps a function in Java from reading the clock.
package udf
