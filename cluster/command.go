package cluster

import (
	"encoding/json"
	"fmt"
	"net/netip"

	"cqld/ring"
	"cqld/schema"
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
	// Replace names the dead member whose place this node takes, by host id or address; empty: none.
	Replace string `json:",omitempty"`
}

// command is one entry of the log. Exactly one of the pointers is set.
type command struct {
	ID     CommandID
	Found  *foundCommand  `json:",omitempty"`
	Admit  *admitCommand  `json:",omitempty"`
	Update *updateCommand `json:",omitempty"`
	Schema *schemaCommand `json:",omitempty"`

	Begin    *beginCommand    `json:",omitempty"`
	Streamed *streamedCommand `json:",omitempty"`
	Known    *knownCommand    `json:",omitempty"`
	Compared *comparedCommand `json:",omitempty"`
	Handed   *handedCommand   `json:",omitempty"`
	End      *endCommand      `json:",omitempty"`
	Abort    *abortCommand    `json:",omitempty"`
	Cleaned  *cleanedCommand  `json:",omitempty"`

	PaxosFloor *paxosFloorCommand `json:",omitempty"`
	Settled    *settledCommand    `json:",omitempty"`
	Regained   *regainedCommand   `json:",omitempty"`
}

// foundCommand begins a cluster; it is the first. The system keyspaces that nodes hold data of are in it: a cqld of
// another version would begin with others, and all must come to the same.
type foundCommand struct {
	Cluster string
	Secret  []byte
	Schema  []byte `json:",omitempty"` // schema.Encode; none, as in the first clusters: those of this version
}

// admitCommand makes a node a member that owns Tokens. They were chosen for the topology of Epoch;
// in another one the command is refused, and the node asks again.
type admitCommand struct {
	Node   NodeSpec
	Tokens []ring.Token
	Epoch  uint64
	// Replaced is the dead member whose tokens Node takes instead; zero: none.
	Replaced ring.NodeID `json:",omitempty"`
}

// updateCommand changes the addresses of a member.
type updateCommand struct{ Node NodeSpec }

// schemaCommand changes the schema.
type schemaCommand struct {
	Change []byte
	At     int64 `json:",omitempty"` // seconds, by the clock of the node that proposes it
}

// beginCommand begins an operation of a member: all but Join and Replace, which an admission begins.
type beginCommand struct {
	Kind   ring.OperationKind
	Node   ring.NodeID
	Tokens []ring.Token `json:",omitempty"` // Move only; chosen for the topology of Epoch
	Epoch  uint64
	Force  bool `json:",omitempty"`
	Hands  bool `json:",omitempty"` // Leave only; see ring.Operation
}

// streamedCommand says that Node has fetched all that it gains.
type streamedCommand struct {
	Operation uint64
	Node      ring.NodeID
}

// knownCommand says that no quorum of readers is left that does not know an operation to be Switching.
type knownCommand struct{ Operation uint64 }

// comparedCommand says that Node has compared all that it gained since the operation was Known.
type comparedCommand struct {
	Operation uint64
	Node      ring.NodeID
}

// handedCommand says that the node that leaves has handed over what it kept for others.
type handedCommand struct{ Operation uint64 }

// endCommand ends an operation of which all that is gained has been compared, and all that was kept handed over.
type endCommand struct{ Operation uint64 }

// abortCommand undoes an operation that has not ended.
type abortCommand struct{ Operation uint64 }

// cleanedCommand says that Node has dropped what it did not hold any more at Epoch.
type cleanedCommand struct {
	Node  ring.NodeID
	Epoch uint64
}

// settledCommand says that Node has dropped what it held by the replications that a keyspace had up to Epoch, and holds by
// the present one no more.
type settledCommand struct {
	Node     ring.NodeID
	Keyspace string
	Epoch    uint64
}

// regainedCommand says that all that Node holds of a keyspace was repaired after the change at the epoch Changed.
type regainedCommand struct {
	Node     ring.NodeID
	Keyspace string
	Changed  uint64
}

// paxosFloorCommand raises a table's floor.
type paxosFloorCommand struct {
	Table  schema.StorageID
	Micros int64
}

func (c *command) encode() ([]byte, error) { return json.Marshal(c) }

func decodeCommand(b []byte) (*command, error) {
	c := new(command)
	if err := json.Unmarshal(b, c); err != nil {
		return nil, fmt.Errorf("cluster: decode command: %w", err)
	}
	return c, nil
}

// Refused says why the cluster did not do what was proposed.
type Refused struct {
	Reason string
	Busy   bool // only for as long as something else is under way
}

// Error is the reason.
func (e *Refused) Error() string { return e.Reason }

// errStaleTopology refuses tokens that were chosen for another topology.
var errStaleTopology = &Refused{Reason: "the topology changed concurrently"}
