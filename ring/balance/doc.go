// Package balance plans how tokens move so that the nodes of a ring have equal parts of the work
// (docs/PARTITIONING.md).
//
//	Topology, replications, loads of ranges ─▶ Plan ─▶ steps: a token changes its owner, or a new one divides a range
//	                                                └▶ rejections: what was examined and why it is not done
//
// The planner is a pure function: it takes no lock, starts nothing, and two nodes with the same input plan the same
// steps. It walks the ring as package ring does to find the replica sets that a step changes. Only the ranges whose
// walks reach the token are computed again, so the cost of a candidate does not depend on the size of the ring.
package balance
