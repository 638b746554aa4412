package metadata

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"

	"cqld/clusterversion"
	"cqld/ring"
	"cqld/schema"
)

// CommandID identifies a command, so that a repeated proposal is not applied twice.
//
// It is random. The proposer sets it once, and repeats the proposal with the same id until its own node has applied it
// (ADR 5).
type CommandID [16]byte

// NodeSpec describes a node that joins or changes its address.
type NodeSpec struct {
	// Host is the identity that the node keeps for its whole life, also when its addresses change.
	Host ring.HostID
	// Disk identifies the data directory. A host that returns with another one has lost its data, and must be
	// replaced.
	Disk       [16]byte
	Datacenter string
	Rack       string
	// Internode is the address for the other nodes, and Native the address for clients.
	Internode netip.AddrPort
	Native    netip.AddrPort
	NumTokens int
	// Tokens are the tokens that the node asks for. If there are none, NumTokens are chosen.
	Tokens []ring.Token `json:",omitempty"`
	// Replace is the host ID or address of the dead member that this node replaces. Empty means none.
	Replace string `json:",omitempty"`
	// Versions are the cluster versions that the node's build supports. Zero means the first one.
	Versions clusterversion.Range `json:",omitzero"`
}

// NumTokensMax is the maximum number of tokens that a node may request; package node checks it, too.
const NumTokensMax = 1024

// Command is one entry of the log. Exactly one of the pointers is set.
//
// The encoding is JSON, in the log and in proposals. A node that does not know a field refuses the command: if it
// ignored the field, its metadata would differ from the others' for ever. A new command or field therefore has a new
// cluster version, and is proposed only when the cluster has it. One that a proposer does not know is absent.
type Command struct {
	ID CommandID
	// Version is the cluster version that introduced the command, or the newest one that introduced a field of it.
	// Zero means the first one.
	Version clusterversion.Version `json:",omitempty"`
	// Commands of members, the schema and roles.
	Found  *Found        `json:",omitempty"`
	Admit  *Admit        `json:",omitempty"`
	Update *Update       `json:",omitempty"`
	Schema *SchemaChange `json:",omitempty"`
	Roles  *RolesChange  `json:",omitempty"`

	// Commands of operations: Begin, Streamed, Known, Compared and End, in this order. Excuse, Handed and Abort may
	// come at any time before the end, and Cleaned follows it.
	Begin    *Begin    `json:",omitempty"`
	Streamed *Streamed `json:",omitempty"`
	Excuse   *Excuse   `json:",omitempty"`
	Known    *Known    `json:",omitempty"`
	Compared *Compared `json:",omitempty"`
	Handed   *Handed   `json:",omitempty"`
	End      *End      `json:",omitempty"`
	Abort    *Abort    `json:",omitempty"`
	Cleaned  *Cleaned  `json:",omitempty"`

	// The bound that the purge of Paxos state raises, and the reports of nodes after a change of replication.
	PaxosFloor *PaxosFloor `json:",omitempty"`
	Settled    *Settled    `json:",omitempty"`
	Regained   *Regained   `json:",omitempty"`

	Finalize *Finalize `json:",omitempty"`

	BackupSchedule *ScheduleChange `json:",omitempty"`
}

// Found creates a cluster; it is the first command. It contains the system keyspaces whose data is on nodes:
// another version of cqld would start with different ones, and all nodes must have the same.
type Found struct {
	Cluster string
	// Secret becomes Metadata.Secret. It must not be empty: its presence shows that the cluster exists.
	Secret []byte
	// schema.Encode; empty in the first clusters, which means the keyspaces of this version
	Schema []byte `json:",omitempty"`
	// Version is the first cluster version of the cluster. Zero means V1.
	Version clusterversion.Version `json:",omitempty"`
}

// Admit makes a node a member that owns Tokens. They were chosen for the topology of Epoch; in another
// topology the command is refused, and the node asks again.
type Admit struct {
	Node   NodeSpec
	Tokens []ring.Token
	Epoch  uint64
	// Replaced is the dead member whose tokens Node takes over. Zero means none.
	Replaced ring.NodeID `json:",omitempty"`
}

// Update changes the addresses of a member.
// The member is found by Node.Host. Its data center, rack and tokens stay as they are.
type Update struct{ Node NodeSpec }

// SchemaChange changes the schema.
type SchemaChange struct {
	// Change is the output of schema.EncodeChange.
	Change []byte
	At     int64 `json:",omitempty"` // seconds, by the clock of the proposing node
	// Creator is the role that gets all permissions on the keyspaces and tables that the change creates. Empty means
	// none.
	Creator string `json:",omitempty"`
}

// RolesChange changes the directory of roles.
type RolesChange struct {
	Change []byte // auth.EncodeChange
}

// Begin starts an operation of a member. Join and Replace are started by an admission instead.
type Begin struct {
	Kind   ring.OperationKind
	Node   ring.NodeID
	Tokens []ring.Token `json:",omitempty"` // Move only; chosen for the topology of Epoch
	// Epoch is the epoch of the topology for which Tokens were chosen. Other kinds do not use it.
	Epoch uint64
	// Force continues without ranges whose only replica is lost, and without waiting for nodes that still drop data.
	Force bool `json:",omitempty"`
	Hands bool `json:",omitempty"` // Leave only; see ring.Operation
}

// Streamed reports that Node has streamed all ranges that it gains. It had too few sources for the ranges in Short.
//
// A second report of a node has no effect.
type Streamed struct {
	Operation uint64
	Node      ring.NodeID
	Short     []ring.Shortfall `json:",omitempty"`
}

// Excuse makes an operation not wait for nodes that gain ranges and are dead.
type Excuse struct {
	Operation uint64
	Nodes     []ring.NodeID
}

// Known reports that no quorum of readers is left that does not know that an operation is Switching.
//
// The leader proposes it (package cluster). From then on no reader uses the previous replicas alone, and the
// comparison of the gained ranges can start.
type Known struct{ Operation uint64 }

// Compared reports that Node has compared all ranges that it gained, after the operation was Known.
type Compared struct {
	Operation uint64
	Node      ring.NodeID
	Short     []ring.Shortfall `json:",omitempty"`
}

// Handed reports that the leaving node has handed over its batches and hints.
type Handed struct{ Operation uint64 }

// End ends an operation after all gained ranges were compared, and batches and hints handed over.
type End struct{ Operation uint64 }

// Abort undoes an operation that has not ended.
type Abort struct{ Operation uint64 }

// Cleaned reports that Node has dropped the ranges that it no longer held at Epoch.
//
// The ring may have changed since then. An entry with a later epoch stays, because the node may have lost further
// ranges.
type Cleaned struct {
	Node  ring.NodeID
	Epoch uint64
}

// Settled reports that Node has dropped the data that it held by the replications of a keyspace up to Epoch,
// and no longer holds by the present one.
type Settled struct {
	Node     ring.NodeID
	Keyspace string
	Epoch    uint64
}

// Regained reports that all ranges of a keyspace that Node holds were repaired after the change at the epoch
// Changed.
type Regained struct {
	Node     ring.NodeID
	Keyspace string
	Changed  uint64
}

// PaxosFloor raises the Paxos low bound of a table.
type PaxosFloor struct {
	Table  schema.StorageID
	Micros int64
}

// Finalize raises the cluster version.
type Finalize struct{ Version clusterversion.Version }

// Encode returns the data of an entry of the log.
func (c *Command) Encode() ([]byte, error) { return json.Marshal(c) }

// DecodeCommand decodes the data of an entry. It refuses what a newer version of cqld has added.
func DecodeCommand(b []byte) (*Command, error) {
	c := new(Command)
	if err := decodeStrictly(b, c); err != nil {
		return nil, fmt.Errorf("metadata: decode command: %w", err)
	}
	return c, nil
}

// decodeStrictly decodes JSON, and refuses unknown fields and trailing data.
func decodeStrictly(b []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		var of struct {
			Version        clusterversion.Version // of a Command
			ClusterVersion clusterversion.Version // of Metadata
		}
		// The version is read from as much as can be decoded, and only explains the error.
		if json.Unmarshal(b, &of) == nil && max(of.Version, of.ClusterVersion) != 0 {
			return fmt.Errorf("written at cluster version %d: %w", max(of.Version, of.ClusterVersion), err)
		}
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("data follows the encoding")
	}
	return nil
}

// Refused is the error of a proposal that the cluster refused.
//
// All nodes compute the same refusal when they apply the command. The metadata do not change, and the proposer does
// not repeat the command.
type Refused struct {
	Reason string
	Busy   bool // the refusal is temporary: another operation is in progress
}

// Error returns the reason.
func (e *Refused) Error() string { return e.Reason }

// ErrStaleTopology refuses tokens that were chosen for another topology.
var ErrStaleTopology = &Refused{Reason: "the topology changed concurrently"}
