package metadata

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"

	"cqld/auth"
	"cqld/clusterversion"
	"cqld/ring"
	"cqld/schema"
)

// Metadata is the replicated state of the cluster at one epoch. It is immutable.
//
// Apply copies the struct and replaces the fields that it changes, with everything that they point to. Readers share
// the value without a lock, and must not modify its slices or maps.
type Metadata struct {
	Epoch    uint64 // Raft index of the last command that changed the metadata
	Schema   *schema.Schema
	Topology *ring.Topology
	Roles    *auth.Directory // never nil
	// ClusterVersion determines which formats and features may be used. It never decreases.
	ClusterVersion clusterversion.Version
	// Secret authenticates data that clients carry between nodes, such as paging states.
	Secret []byte

	// PendingCleanup are the nodes that still have data of ranges that they no longer hold, ascending by node.
	PendingCleanup []PendingCleanup
	// Removed are former members, which must not return. At most removedMax are kept, oldest first. A host that is no
	// longer in the list could be admitted again, with a new id.
	Removed []Removed
	// PaxosFloors are the low bounds of tables: acceptors refuse ballots up to them (µs), because they may have purged
	// their state. A bound never decreases, and is removed with its table.
	PaxosFloors map[schema.StorageID]int64

	// RetainedGrants are the permissions on tables that were dropped and can be restored.
	RetainedGrants []RetainedGrant
	// RetainedKeyspaceGrants are the permissions on keyspaces that were dropped and can be restored, and on their
	// contents, in the order of the drops.
	RetainedKeyspaceGrants []RetainedKeyspaceGrant

	// Former are earlier replications of keyspaces. An entry exists while some node may have the only copy of data
	// placed by it, or some replica may lack such data. Ordered by epoch.
	Former []Former

	// Incomplete are the last operations that ended although nodes lack data of ranges that they gained, oldest first.
	Incomplete []Incomplete

	// Recoveries are the last recoveries of the metadata, oldest first. At most recoveriesMax are kept.
	Recoveries []Recovery

	// BackupSchedules are at most schedulesMax, in the order in which they were created.
	BackupSchedules []BackupSchedule

	// nextNode is the id of the next member. Ids are never reused, because plans and Paxos state contain them.
	nextNode ring.NodeID
	recent   []CommandID // the last applied commands, so that a repeated one is not applied twice
}

// PendingCleanup records the epoch since which a node has data of ranges that it lost.
type PendingCleanup struct {
	Node  ring.NodeID
	Epoch uint64
	// System means that the ranges are of system keyspaces only, which never block an operation.
	System bool `json:",omitempty"`
}

// Former is the replication of a keyspace before an ALTER KEYSPACE, which moves no data.
//
// An entry is removed when Nodes and Gained are empty: no node has data to drop, and every current replica has been
// repaired.
type Former struct {
	Keyspace    string
	Replication ring.Replication
	// Epoch is the Raft index of the ALTER KEYSPACE that replaced this replication.
	Epoch uint64
	// Since is the time of the last change of the keyspace's replication, in seconds by the clock of the proposing
	// node. If Overlaps is set, a repair that began later has copied the data of a majority of the former replicas to
	// all current ones.
	Since int64
	// Overlaps means that enough of each range's former replicas are still replicas after the last change: every write
	// that a majority acknowledged is on at least one of them.
	Overlaps bool
	// Nodes lost ranges by the change and have not dropped the data yet, ascending.
	Nodes []ring.NodeID
	// Gained are the nodes that hold ranges under the current replication but not under this one, and have not been
	// repaired since the last change, ascending. Until then, a write that only former replicas have may be lost with
	// them, so a later change must overlap with this replication, too.
	Gained []ring.NodeID `json:",omitempty"`
	// Changed is the epoch of the last change of the keyspace's replication or of the ring, to which Gained refers.
	Changed uint64 `json:",omitempty"`
}

// formerMax bounds Metadata.Former.
const formerMax = 256

// Removed is a former member.
type Removed struct {
	Node  ring.NodeID
	Host  ring.HostID
	Epoch uint64
	Addr  netip.AddrPort // its last internode address
	// Reason is the message to a process that starts with this host id.
	Reason string
}

// removedMax bounds the recorded former members.
const removedMax = 1024

// recentMax bounds the recorded commands: far more than other nodes can propose while one proposal is retried.
const recentMax = 512

// metadataFormat is the version of the encoding.
const metadataFormat = 1

// metadataJSON is the encoding of Metadata. A node refuses a snapshot with an unknown field, so a new field needs a new
// cluster version, and is empty until the cluster has that version. An absent field has its zero value. Format only
// changes when that does not suffice.
type metadataJSON struct {
	Format   int
	Epoch    uint64
	Topology uint64 // epoch of the topology; plans and admissions compare it
	Schema   []byte
	Secret   []byte
	NextNode ring.NodeID
	Nodes    []nodeJSON
	Recent   []CommandID
	// Added with changes of the ring:
	Moved          uint64            `json:",omitempty"`
	Operations     []*ring.Operation `json:",omitempty"`
	PendingCleanup []PendingCleanup  `json:"Unclean,omitempty"`
	Removed        []Removed         `json:",omitempty"`
	// Added with the purge of Paxos state:
	PaxosFloors map[schema.StorageID]int64 `json:",omitempty"`
	// Added with former replications:
	Former []Former `json:",omitempty"`
	// Added with operations that do not wait for dead nodes:
	Incomplete []Incomplete `json:",omitempty"`
	// Added with roles:
	Roles []byte `json:",omitempty"` // auth.Encode; empty means none
	// Added with recoveries:
	Recoveries []Recovery `json:",omitempty"`
	// Added with cluster versions; absent means the first one:
	ClusterVersion clusterversion.Version `json:",omitempty"`
	// Added with UNDROP TABLE:
	RetainedGrants []RetainedGrant `json:",omitempty"`
	// Added with UNDROP KEYSPACE:
	RetainedKeyspaceGrants []RetainedKeyspaceGrant `json:",omitempty"`
	// Added with schedules of backups:
	BackupSchedules []BackupSchedule `json:",omitempty"`
}

// nodeJSON is the encoding of ring.Node without its derived fields.
type nodeJSON struct {
	ID         ring.NodeID
	Host       ring.HostID
	Datacenter string
	Rack       string
	Internode  netip.AddrPort
	Native     netip.AddrPort
	State      ring.NodeState
	Tokens     []ring.Token
	Disk       [16]byte
	Versions   clusterversion.Range `json:",omitzero"`
	Reassigned bool                 `json:",omitempty"`
}

// Empty returns the metadata of a node that has applied nothing.
func Empty() *Metadata {
	return &Metadata{Schema: schema.Own(), Roles: auth.NewDirectory(), Topology: ring.NewTopology(0, nil), nextNode: 1,
		ClusterVersion: clusterversion.V1}
}

// Encode returns the contents of a Raft snapshot.
func (m *Metadata) Encode() ([]byte, error) {
	// j shares memory with m, which json.Marshal only reads.
	j := metadataJSON{Format: metadataFormat, Epoch: m.Epoch, Topology: m.Topology.Epoch(),
		Schema: schema.Encode(m.Schema),
		Secret: m.Secret, NextNode: m.nextNode, Recent: m.recent, Moved: m.Topology.Moved(),
		Operations:     m.Topology.Operations(),
		PendingCleanup: m.PendingCleanup, Removed: m.Removed, PaxosFloors: m.PaxosFloors, Former: m.Former,
		Incomplete: m.Incomplete, Recoveries: m.Recoveries, ClusterVersion: m.ClusterVersion,
		RetainedGrants: m.RetainedGrants, RetainedKeyspaceGrants: m.RetainedKeyspaceGrants,
		BackupSchedules: m.BackupSchedules}
	for _, n := range m.Topology.Nodes() {
		j.Nodes = append(j.Nodes, nodeJSON{n.ID, n.Host, n.Datacenter, n.Rack, n.Internode, n.Native, n.State,
			n.Tokens, n.DiskID, n.Versions, n.Reassigned})
	}
	// Without roles, the snapshot is the same as before roles existed.
	if !m.Roles.Empty() {
		roles, err := auth.Encode(m.Roles)
		if err != nil {
			return nil, fmt.Errorf("metadata: encode: %w", err)
		}
		j.Roles = roles
	}
	return json.Marshal(j)
}

// Decode decodes the output of Encode. Check determines whether the result can be used.
func Decode(b []byte) (*Metadata, error) {
	var of struct{ Format int }
	// Checked first, because in another format the fields have other meanings.
	if err := json.Unmarshal(b, &of); err != nil {
		return nil, fmt.Errorf("metadata: decode: %w", err)
	}
	if of.Format != metadataFormat {
		return nil, fmt.Errorf("metadata: format %d, this build reads %d", of.Format, metadataFormat)
	}
	var j metadataJSON
	if err := decodeStrictly(b, &j); err != nil {
		return nil, fmt.Errorf("metadata: decode: %w", err)
	}
	s, err := schema.Decode(j.Schema)
	if err != nil {
		return nil, fmt.Errorf("metadata: decode: %w", err)
	}
	roles := auth.NewDirectory()
	if len(j.Roles) > 0 {
		if roles, err = auth.Decode(j.Roles); err != nil {
			return nil, fmt.Errorf("metadata: decode: %w", err)
		}
	}
	var nodes []*ring.Node
	for _, n := range j.Nodes {
		nodes = append(nodes, &ring.Node{ID: n.ID, Host: n.Host, Datacenter: n.Datacenter, Rack: n.Rack,
			Internode: n.Internode, Native: n.Native, State: n.State, Tokens: n.Tokens, DiskID: n.Disk,
			Versions: n.Versions.OrFirst(), Reassigned: n.Reassigned})
	}
	if j.Moved == 0 {
		j.Moved = j.Topology // written before changes of the ring were recorded
	}
	// Both epochs are restored instead of computed: request plans name the epoch, and replicas compare plans with the
	// epoch of the last movement.
	t, err := ring.RestoreTopology(j.Topology, j.Moved, nodes, j.Operations)
	if err != nil {
		return nil, fmt.Errorf("metadata: decode: %w", err)
	}
	s = s.WithEverywhere(ring.EverywhereOn(t.Nodes())) // the members are not part of a schema's encoding
	return &Metadata{Epoch: j.Epoch, Schema: s, Roles: roles, Topology: t, Secret: j.Secret,
		PendingCleanup: j.PendingCleanup, Removed: j.Removed, PaxosFloors: j.PaxosFloors, Former: j.Former,
		Incomplete: j.Incomplete, Recoveries: j.Recoveries, ClusterVersion: max(j.ClusterVersion, clusterversion.V1),
		RetainedGrants: j.RetainedGrants, RetainedKeyspaceGrants: j.RetainedKeyspaceGrants,
		BackupSchedules: j.BackupSchedules,
		nextNode:        j.NextNode, recent: j.Recent}, nil
}

// NodeByHost returns the member with a host ID, or nil.
func (m *Metadata) NodeByHost(h ring.HostID) *ring.Node {
	for _, n := range m.Topology.Nodes() {
		if n.Host == h {
			return n
		}
	}
	return nil
}

// Peers returns the addresses of all members except those that are being replaced, whose address their successor may
// use, and those that were declared lost.
func (m *Metadata) Peers() map[ring.NodeID]netip.AddrPort {
	out := map[ring.NodeID]netip.AddrPort{}
	for _, n := range m.Topology.Nodes() {
		if !m.IsLost(n.ID) {
			out[n.ID] = n.Internode
		}
	}
	// delete ignores id zero: only Replace sets Replaced.
	for _, o := range m.Topology.Operations() {
		delete(out, o.Replaced)
	}
	return out
}

// RemovalReason returns the reason why a host is no longer a member.
//
// A member that a recovery declared lost counts as removed, although its ranges have not moved yet.
func (m *Metadata) RemovalReason(h ring.HostID) (reason string, ok bool) {
	if reason, ok := m.lostReason(h); ok {
		return reason, true
	}
	for _, r := range m.Removed {
		if r.Host == h {
			return r.Reason, true
		}
	}
	return "", false
}

// RemovedAt returns the epoch at which a node ceased to be a member, or zero.
func (m *Metadata) RemovedAt(id ring.NodeID) uint64 {
	for _, r := range m.Removed {
		if r.Node == id {
			return r.Epoch
		}
	}
	return 0
}

func (m *Metadata) seen(id CommandID) bool { return slices.Contains(m.recent, id) }

// Recent returns the ids of the last commands that were applied or refused, oldest first.
func (m *Metadata) Recent() []CommandID { return m.recent }
