// Package liveness maintains a node's own view of the other nodes: which are alive, since when others have been dead,
// how far they have applied the metadata log, and whether their clocks agree with this node's.
//
// The view is not replicated. If it is wrong, requests and ring operations are delayed, but no data is lost.
//
//	heartbeats, streams opened or ended ─▶ Detector ─▶ Alive ─▶ Dead: since when
//	times in heartbeats ─▶ Clocks ─▶ Offset
//	indices and schema versions in heartbeats ─▶ Reports
package liveness
