// Package replica is one node's share of the data as coordinators see it: Local on this node,
// Remote on another, and Serve, which answers the other nodes' Remotes from a Local.
//
// It does not know who else holds a partition's data, nor how many must answer; it only refuses
// what, at its own epoch of the topology, this node does not hold.
//
//	coordinator ─▶ Local ─────────────────────────────▶ storage
//	coordinator ─▶ Remote ─ messaging ─▶ Serve ─▶ Local ─▶ storage
//
// Rows go through in storage's encoding; nothing is decoded on the way.
package replica
