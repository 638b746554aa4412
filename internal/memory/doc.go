// Package memory divides the memory of a node. Detect finds the figure: the smallest of the limits of the process'
// cgroups and the machine's memory. Divide gives each use of memory its part, and a Pacer sets the pace of Go's
// collector by the same figure.
//
// Requests share a Pool, in which each has an Account; long computations of requests take turns (Turn).
//
//	memory_limit or Detect ─▶ Divide ─▶ Division ─▶ Pool of requests, block cache, memtables, workers …
//	                                             └▶ Pacer: GOGC after each collection
//
// It does not measure the memory of the parts: each enforces its own bound. A part that exceeded its bound would take
// the memory of others, because the sum of all bounds is the figure, and the kernel would end the process.
package memory
