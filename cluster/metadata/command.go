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
	// Host is the identity that the node keeps permanently, even if its addresses change.
	Host ring.HostID
	// Disk identifies the data directory. A host that returns with another disk has lost its data and must be replaced.
	Disk       [16]byte
	Datacenter string
	Rack       string
	// Internode is the address for other nodes, and Native the address for clients.
	Internode netip.AddrPort
	Native    netip.AddrPort
	NumTokens int
	// Tokens are the tokens that the node requests. If empty, NumTokens tokens are allocated.
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
// ignored the field, its metadata would permanently differ from those of other nodes. A new command or field therefore
// needs a new cluster version, and is proposed only once the cluster has that version. A field that the proposer does
// not know is absent.
type Command struct {
	ID CommandID
	// Version is the cluster version that introduced the command or its newest field. Zero means the first version.
	Version clusterversion.Version `json:",omitempty"`
	// Commands of members, the schema and roles.
	Found  *Found        `json:",omitempty"`
	Admit  *Admit        `json:",omitempty"`
	Update *Update       `json:",omitempty"`
	Schema *SchemaChange `json:",omitempty"`
	Roles  *RolesChange  `json:",omitempty"`

	// Commands of ring operations: Begin, Streamed, Known, Compared and End, in this order. Excuse, Handed and Abort
	// may occur at any time before the end; Cleaned follows it.
	Begin    *Begin    `json:",omitempty"`
	Streamed *Streamed `json:",omitempty"`
	Excuse   *Excuse   `json:",omitempty"`
	Known    *Known    `json:",omitempty"`
	Compared *Compared `json:",omitempty"`
	Handed   *Handed   `json:",omitempty"`
	End      *End      `json:",omitempty"`
	Abort    *Abort    `json:",omitempty"`
	Cleaned  *Cleaned  `json:",omitempty"`

	// PaxosFloor raises the bound up to which Paxos state is purged. Settled reports the progress of nodes after a
	// change of replication.
	PaxosFloor *PaxosFloor `json:",omitempty"`
	Settled    *Settled    `json:",omitempty"`
	Regained   *Regained   `json:",omitempty"`

	Finalize *Finalize `json:",omitempty"`

	BackupSchedule *ScheduleChange `json:",omitempty"`
}

// Found creates a cluster. It is the first command, and contains the system keyspaces whose data is on nodes: another
// version of cqld would define them differently, and all nodes must have the same.
type Found struct {
	Cluster string
	// Secret becomes Metadata.Secret. It must not be empty: its presence shows that the cluster exists.
	Secret []byte
	// Schema is the output of schema.Encode. In the first clusters it is empty, which means the keyspaces of this
	// version.
	Schema []byte `json:",omitempty"`
	// Version is the first cluster version of the cluster. Zero means V1.
	Version clusterversion.Version `json:",omitempty"`
}

// Admit makes a node a member that owns Tokens. They were allocated for the topology of Epoch; for any other topology
// the command is refused, and the node asks again.
type Admit struct {
	Node   NodeSpec
	Tokens []ring.Token
	Epoch  uint64
	// Replaced is the dead member whose tokens Node takes over. Zero means none.
	Replaced ring.NodeID `json:",omitempty"`
}

// Update changes the addresses of the member that Node.Host identifies. Its data center, rack and tokens stay.
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
	// Transfers are for Reassign only, ascending by token. They are checked against the ring to which the command is
	// applied, so they need no Epoch. Node is ring.NodeOf of them.
	Transfers []ring.Transfer `json:",omitempty"`
	// Epoch is the epoch of the topology for which Tokens were allocated. Only Move uses it.
	Epoch uint64
	// Force continues although the only replica of a range is lost, and without waiting for nodes that still drop data.
	Force bool `json:",omitempty"`
	Hands bool `json:",omitempty"` // Leave only; see ring.Operation
}

// Streamed reports that Node has streamed all ranges that it gains, except the ranges in Short, for which it had too
// few sources.
//
// A repeated report has no effect.
type Streamed struct {
	Operation uint64
	Node      ring.NodeID
	Short     []ring.Shortfall `json:",omitempty"`
}

// Excuse makes an operation stop waiting for dead nodes that gain ranges.
type Excuse struct {
	Operation uint64
	Nodes     []ring.NodeID
}

// Known reports that the nodes that may not have applied the switch of an operation can no longer form a quorum of
// readers.
//
// The leader proposes it (package cluster). From then on no read uses only the previous replicas, and the comparison of
// the gained ranges can start.
type Known struct{ Operation uint64 }

// Compared reports that Node has compared all ranges that it gained, after Known.
type Compared struct {
	Operation uint64
	Node      ring.NodeID
	Short     []ring.Shortfall `json:",omitempty"`
}

// Handed reports that the leaving node has handed over its batches and hints.
type Handed struct{ Operation uint64 }

// End ends an operation after all gained ranges have been compared, and batches and hints have been handed over.
type End struct{ Operation uint64 }

// Abort undoes an operation that has not ended.
type Abort struct{ Operation uint64 }

// Cleaned reports that Node has dropped the ranges that it no longer held at Epoch.
//
// If the ring has changed since then, the node may have lost further ranges: an entry with a later epoch stays.
type Cleaned struct {
	Node  ring.NodeID
	Epoch uint64
}

// Settled reports that Node has dropped the data that it held under the replications of a keyspace up to Epoch and does
// not hold under the current one.
type Settled struct {
	Node     ring.NodeID
	Keyspace string
	Epoch    uint64
}

// Regained reports that all ranges of a keyspace that Node holds have been repaired after the change at the epoch
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

// DecodeCommand decodes the data of a log entry. It refuses fields and commands that a newer version of cqld added.
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
		// The versions are decoded leniently, only to explain the error.
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
// All nodes compute the same refusal when they apply the command. The metadata do not change, and the proposer does not
// retry.
type Refused struct {
	Reason string
	Busy   bool // the refusal is temporary: another operation is in progress
}

// Error returns the reason.
func (e *Refused) Error() string { return e.Reason }

// ErrStaleTopology refuses tokens that were allocated for another topology.
var ErrStaleTopology = &Refused{Reason: "the topology changed concurrently"}
