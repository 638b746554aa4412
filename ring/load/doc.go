// Package load measures the physical partitions of a node: the token ranges between two neighboring tokens of the ring
// for which the node is a replica (docs/adr/0055).
//
//	replica ─▶ Meter.Read, Meter.Write ─▶ counters of the range ─▶ Beat: averages over 10 s and 2 min ─▶ Snapshot
//	                  │ one request in 32                            │ every few seconds
//	                  └─▶ sketch of the busiest partition keys       └─▶ report ─ heartbeats ─▶ Reports of other nodes
//	                                                                                              └─▶ Combine
//
// The path of a request takes no lock and allocates nothing: it finds its range in an immutable layout of the ring and
// adds to two atomic counters. A change of the ring replaces the layout. A range that both layouts have keeps its
// counters, and a range that is new inherits the averages and bytes of the ranges that it overlaps, in proportion to
// their tokens.
//
// The package is pure: the owner passes the time, the ring, the bytes on disk and the reports of other nodes. It
// decides nothing: a planner of movements, the operators' commands and the metrics read Snapshot and Combine.
package load
