package cluster

import (
	"encoding/json"
	"fmt"
	"net/netip"

	"cqld/ring"
)

// CommandID tells a command that is proposed again from a new one.
type CommandID [16]byte

// NodeSpec is what a node says of itself.
type NodeSpec struct {
	Host       ring.HostID
	Disk       [16]byte
	Datacenter string
	Rack       string
	Internode  netip.AddrPort
	Native     netip.AddrPort
	NumTokens  int
}

// command is one entry of the log. Exactly one of the pointers is set.
type command struct {
	ID     CommandID
	Found  *foundCommand  `json:",omitempty"`
	Admit  *admitCommand  `json:",omitempty"`
	Update *updateCommand `json:",omitempty"`
	Schema *schemaCommand `json:",omitempty"`
}

// foundCommand begins a cluster; it is the first.
type foundCommand struct {
	Cluster string
	Secret  []byte
}

// admitCommand makes a node a member that owns Tokens. They were chosen for the topology of Epoch;
// in another one the command is refused, and the node asks again.
type admitCommand struct {
	Node   NodeSpec
	Tokens []ring.Token
	Epoch  uint64
}

// updateCommand changes the addresses of a member.
type updateCommand struct{ Node NodeSpec }

// schemaCommand changes the schema.
type schemaCommand struct{ Change []byte }

func (c *command) encode() ([]byte, error) { return json.Marshal(c) }

func decodeCommand(b []byte) (*command, error) {
	c := new(command)
	if err := json.Unmarshal(b, c); err != nil {
		return nil, fmt.Errorf("cluster: decode command: %w", err)
	}
	return c, nil
}

// Refused says why the cluster did not do what was proposed.
type Refused struct{ Reason string }

// Error is the reason.
func (e *Refused) Error() string { return e.Reason }

// errStaleTopology refuses tokens that were chosen for another topology.
var errStaleTopology = &Refused{"the topology changed meanwhile"}
