// Package lua executes user-defined functions in Lua.
//
// The syntax is Lua 5.1's, parsed by a library; the package compiles it to closures and executes them itself.
// Every operation and every allocation is counted, so that a call ends after a bounded number of steps and with a
// bounded amount of memory, at the same point on every machine. Integers have 64 bits as in Lua 5.4. There is no access
// to the host: no files, no modules, no clock, no random numbers, no coroutines, and no loading of code.
//
//	body ── Compile ──▶ *Program ── Run(meter, arguments) ──▶ value
//
// The parts:
//
//	compile.go, control.go, expression.go    statements and expressions as closures
//	nesting.go                               a bound on nesting, before the parser
//	run.go                                   calls, frames and values
//	library.go, lib*.go, pattern.go          the functions that scripts can call
//
// Differences from Lua 5.1 that a script can notice: there are no global variables, metatables, environments,
// coroutines or goto; % and // of integers follow 5.4; exact numbers (integer, decimal) exist; and the iteration of
// tables has a fixed order.
//
// A call ends by one of three panics of package value, which Run converts to errors: Fault for an error of the script,
// Exceeded for a bound, Unavailable for a node without memory. Only Fault can be caught by pcall.
package lua
