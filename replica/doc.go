// Package replica is one node's share of reads and writes as coordinators see it: Local on this node, Remote on another, and
// Serve, which answers the other nodes' Remotes from a Local. It truncates tables, and fences ranges that are being dropped.
//
// It does not know which other nodes are replicas of a partition, nor how many must answer. It refuses requests for ranges that
// this node does not hold at its own epoch of the topology.
//
//	coordinator ─▶ Local ─────────────────────────────▶ storage
//	coordinator ─▶ Remote ─ messaging ─▶ Serve ─▶ Local ─▶ storage
//
// Rows pass through in storage's encoding; nothing is decoded on the way. Package repair compares replicas, and package
// rebalance moves ranges between them; both use Local.
package replica
