// Package identity stores what identifies a node, from the first use of its disk: its host ID, the ID of its disk, its
// node ID once it is a member, and the recoveries in which it took part.
//
// It encodes and stores the identity in the metadata log (package cluster/raftlog), and makes no decisions.
package identity
