package cluster

import (
	"encoding/json"
	"fmt"
	"net/netip"

	"cqld/ring"
	"cqld/schema"
)

// CommandID identifies a command, so that a repeated proposal is not applied twice.
type CommandID [16]byte

// NodeSpec describes a node that joins or changes its address.
type NodeSpec struct {
	Host       ring.HostID
	Disk       [16]byte
	Datacenter string
	Rack       string
	Internode  netip.AddrPort
	Native     netip.AddrPort
	NumTokens  int
	// Tokens are the tokens that the node asks for. If there are none, NumTokens are chosen.
	Tokens []ring.Token `json:",omitempty"`
	// Replace is the host ID or address of the dead member that this node replaces. Empty means none.
	Replace string `json:",omitempty"`
}

// command is one entry of the log. Exactly one of the pointers is set.
type command struct {
	ID     CommandID
	Found  *foundCommand  `json:",omitempty"`
	Admit  *admitCommand  `json:",omitempty"`
	Update *updateCommand `json:",omitempty"`
	Schema *schemaCommand `json:",omitempty"`
	Roles  *rolesCommand  `json:",omitempty"`

	Begin    *beginCommand    `json:",omitempty"`
	Streamed *streamedCommand `json:",omitempty"`
	Excuse   *excuseCommand   `json:",omitempty"`
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

// foundCommand creates a cluster; it is the first command. It contains the system keyspaces whose data is on nodes:
// another version of cqld would start with different ones, and all nodes must have the same.
type foundCommand struct {
	Cluster string
	Secret  []byte
	// schema.Encode; empty in the first clusters, which means the keyspaces of this version
	Schema []byte `json:",omitempty"`
}

// admitCommand makes a node a member that owns Tokens. They were chosen for the topology of Epoch; in another
// topology the command is refused, and the node asks again.
type admitCommand struct {
	Node   NodeSpec
	Tokens []ring.Token
	Epoch  uint64
	// Replaced is the dead member whose tokens Node takes over. Zero means none.
	Replaced ring.NodeID `json:",omitempty"`
}

// updateCommand changes the addresses of a member.
type updateCommand struct{ Node NodeSpec }

// schemaCommand changes the schema.
type schemaCommand struct {
	Change []byte
	At     int64 `json:",omitempty"` // seconds, by the clock of the proposing node
	// Creator is the role that gets all permissions on the keyspaces and tables that the change creates. Empty means
	// none.
	Creator string `json:",omitempty"`
}

// rolesCommand changes the directory of roles.
type rolesCommand struct {
	Change []byte // auth.EncodeChange
}

// beginCommand starts an operation of a member. Join and Replace are started by an admission instead.
type beginCommand struct {
	Kind   ring.OperationKind
	Node   ring.NodeID
	Tokens []ring.Token `json:",omitempty"` // Move only; chosen for the topology of Epoch
	Epoch  uint64
	Force  bool `json:",omitempty"`
	Hands  bool `json:",omitempty"` // Leave only; see ring.Operation
}

// streamedCommand reports that Node has streamed all ranges that it gains, those of Short from too few sources.
type streamedCommand struct {
	Operation uint64
	Node      ring.NodeID
	Short     []ring.Shortfall `json:",omitempty"`
}

// excuseCommand makes an operation not wait for nodes that gain ranges and are dead.
type excuseCommand struct {
	Operation uint64
	Nodes     []ring.NodeID
}

// knownCommand reports that no quorum of readers is left that does not know that an operation is Switching.
type knownCommand struct{ Operation uint64 }

// comparedCommand reports that Node has compared all ranges that it gained, after the operation was Known.
type comparedCommand struct {
	Operation uint64
	Node      ring.NodeID
	Short     []ring.Shortfall `json:",omitempty"`
}

// handedCommand reports that the leaving node has handed over its batches and hints.
type handedCommand struct{ Operation uint64 }

// endCommand ends an operation after all gained ranges were compared, and batches and hints handed over.
type endCommand struct{ Operation uint64 }

// abortCommand undoes an operation that has not ended.
type abortCommand struct{ Operation uint64 }

// cleanedCommand reports that Node has dropped the ranges that it no longer held at Epoch.
type cleanedCommand struct {
	Node  ring.NodeID
	Epoch uint64
}

// settledCommand reports that Node has dropped the data that it held by the replications of a keyspace up to Epoch,
// and no longer holds by the present one.
type settledCommand struct {
	Node     ring.NodeID
	Keyspace string
	Epoch    uint64
}

// regainedCommand reports that all ranges of a keyspace that Node holds were repaired after the change at the epoch
// Changed.
type regainedCommand struct {
	Node     ring.NodeID
	Keyspace string
	Changed  uint64
}

// paxosFloorCommand raises the Paxos low bound of a table.
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

// Refused is the error of a proposal that the cluster refused.
type Refused struct {
	Reason string
	Busy   bool // the refusal is temporary: another operation is in progress
}

// Error returns the reason.
func (e *Refused) Error() string { return e.Reason }

// errStaleTopology refuses tokens that were chosen for another topology.
var errStaleTopology = &Refused{Reason: "the topology changed concurrently"}
