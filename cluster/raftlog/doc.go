// Package raftlog keeps the metadata log of a node on disk: Raft's entries, hard state and snapshot, and the identity
// of the node.
//
// Everything is durable before Save returns, so Raft may promise saved state to other nodes. After a failed write or
// sync nothing more is saved, because the state on disk is then unknown.
//
// It does not interpret the entries; package metadata does.
package raftlog
