// Package replica executes a node's part of reads and writes. Coordinators use Local on their own node and Remote for
// other nodes; Serve answers the requests of other nodes' Remotes with a Local. The package also truncates tables, and
// refuses requests for ranges that are being dropped.
//
// It does not know which other nodes are replicas of a partition, nor how many must answer. It refuses requests for
// ranges that this node does not hold at its own epoch of the topology.
//
//	coordinator ─▶ Local ─────────────────────────────▶ storage
//	coordinator ─▶ Remote ─ messaging ─▶ Serve ─▶ Local ─▶ storage
//
// Rows are passed in storage's encoding, without decoding. Package repair compares replicas, and package
// rebalance moves ranges between them; both use Local.
package replica
