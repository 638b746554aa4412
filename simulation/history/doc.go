// Package history checks what clients of a cluster observed: their requests, with the times of calls and answers in one
// order, and the values that they wrote and read. It executes nothing, so tests pass it histories that no correct
// cluster has.
//
//	workloads ── calls with times and results ──▶ history ──▶ violations, as texts
//
// Registers, conditional changes and entities of Azure Tables must be linearizable: one at a time, in an order that
// respects real time, they must be able to give the same answers. Reads of counters, and of rows at all consistency
// levels, must return a value within bounds.
//
// Times are positive. The time of an answer is 0 while the outcome of a request is unknown.
package history
