// Package identity is what a node stores about itself from the first use of its disk: its host ID, the ID of its disk,
// its node ID once it is a member, and the recoveries of its cluster in which it took part.
//
// It encodes and stores the identity in the metadata log (package cluster/raftlog), and decides nothing.
package identity
