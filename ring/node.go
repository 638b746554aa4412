package ring

import (
	"encoding/hex"
	"net/netip"

	"cqld/clusterversion"
)

// NodeID identifies a node permanently: the number under which it was admitted. Zero means no node. It is also the
// node's Raft ID.
type NodeID uint64

// HostID identifies a node to drivers: a UUID.
//
// It is the identity in the metadata, too: a node that returns is recognized by it.
type HostID [16]byte

// String returns the usual 8-4-4-4-12 form.
func (h HostID) String() string {
	s := hex.EncodeToString(h[:])
	return s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:]
}

// NodeState is the state of a node's membership.
type NodeState uint8

// A node is Joining until its tokens count, and Normal after that. It is Leaving while it hands over its data or is
// being removed, and Moving while its tokens change.
const (
	Joining NodeState = iota + 1
	Normal
	Leaving
	Moving
)

// String returns the name that nodetool uses.
func (s NodeState) String() string {
	//exhaustive:enforce
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

// Node is one member in the cluster's metadata. Values are immutable.
type Node struct {
	ID         NodeID
	Host       HostID
	Datacenter string
	Rack       string
	Internode  netip.AddrPort // address for other nodes
	Native     netip.AddrPort // address for CQL clients
	State      NodeState
	Tokens     []Token // ascending
	// Reassigned means that tokens were added to the node or taken from it one by one, so their number is not the one
	// in its configuration.
	Reassigned bool
	// DiskID identifies the data directory: a host that returns with another one has lost its data.
	DiskID [16]byte
	// Versions are the cluster versions that the node's build supported at its last start.
	Versions clusterversion.Range
}
