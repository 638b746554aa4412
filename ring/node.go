package ring

import (
	"encoding/hex"
	"net/netip"
)

// NodeID names a node for ever: the number it was admitted under. Zero is no node. It is also
// the node's Raft id.
type NodeID uint64

// HostID is what drivers know a node by: a UUID.
type HostID [16]byte

// String is the usual 8-4-4-4-12 form.
func (h HostID) String() string {
	s := hex.EncodeToString(h[:])
	return s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:]
}

// NodeState is where a node stands in its membership.
type NodeState uint8

// A node is Joining until its tokens count, then Normal; Leaving while it hands over or is removed,
// Moving while its tokens change.
const (
	Joining NodeState = iota + 1
	Normal
	Leaving
	Moving
)

// String is the word nodetool uses.
func (s NodeState) String() string {
	switch s {
	case Joining:
		return "JOINING"
	case Normal:
		return "NORMAL"
	case Leaving:
		return "LEAVING"
	case Moving:
		return "MOVING"
	}
	return "UNKNOWN"
}

// Node is one member as the cluster's metadata knows it. Values are immutable.
type Node struct {
	ID         NodeID
	Host       HostID
	Datacenter string
	Rack       string
	Internode  netip.AddrPort // where other nodes reach it
	Native     netip.AddrPort // where CQL clients reach it
	State      NodeState
	Tokens     []Token // ascending
	DiskID     [16]byte
}
