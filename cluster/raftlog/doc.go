// Package raftlog keeps the metadata log of a node on disk: Raft's entries, hard state and snapshot, and the identity
// of the node.
//
// Everything is durable before Save returns, so that Raft may promise to other nodes what it has saved. After a failed
// write or sync nothing more is saved: Pebble does not say what is on disk then.
//
// Package raftlog does not know what the entries mean (package metadata does).
package raftlog
