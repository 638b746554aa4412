// Package liveness is a node's own view of the other nodes: which are alive and since when others are dead, how far
// they have applied the metadata log, and whether their clocks agree with this node's.
//
// Nothing of it is replicated. A wrong view delays requests and operations of the ring, and never loses data.
//
//	heartbeats, streams opened or ended ─▶ Detector ─▶ Alive ─▶ Dead: since when
//	times in heartbeats ─▶ Clocks ─▶ Offset
//	indices and schema versions in heartbeats ─▶ Reports
package liveness
