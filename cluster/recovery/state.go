package recovery

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	pb "go.etcd.io/raft/v3/raftpb"

	"cqld/cluster/identity"
	"cqld/cluster/metadata"
	"cqld/ring"
)

// State is the metadata log of a stopped node.
type State struct {
	Identity identity.Identity
	Hard     *pb.HardState // never nil
	Snapshot *pb.Snapshot  // never nil; empty if the log was never compacted
	Entries  []*pb.Entry   // those after the snapshot, in order
}

// Position is the end of a log. Of two logs, the one with the greater Position has all committed entries of the other.
type Position struct{ Term, Index uint64 }

// Compare returns -1, 0 or 1. It compares logs as Raft's elections do.
func (p Position) Compare(o Position) int {
	switch {
	case p == o:
		return 0
	case p.Term > o.Term || p.Term == o.Term && p.Index > o.Index:
		return 1
	}
	return -1
}

// String formats the position for operators.
func (p Position) String() string { return fmt.Sprintf("term %d, index %d", p.Term, p.Index) }

// last returns the position of the last entry.
func (s *State) last() Position {
	if n := len(s.Entries); n > 0 {
		return Position{s.Entries[n-1].GetTerm(), s.Entries[n-1].GetIndex()}
	}
	m := s.Snapshot.GetMetadata()
	return Position{m.GetTerm(), m.GetIndex()}
}

// commit returns the index up to which the node knows entries to be committed.
func (s *State) commit() uint64 { return max(s.Hard.GetCommit(), s.Snapshot.GetMetadata().GetIndex()) }

// errNoMember means that a node was never a member, and has no metadata.
var errNoMember = errors.New("the node was never a member of a cluster: it has no metadata")

// metadata returns the metadata after the entries up to an index.
func (s *State) metadata(upTo uint64) (*metadata.Metadata, error) {
	m := metadata.Empty()
	if data := s.Snapshot.GetData(); len(data) > 0 {
		var err error
		if m, err = metadata.Decode(data); err != nil {
			return nil, err
		}
	}
	for _, e := range s.Entries {
		// Changes of Raft's membership, and a leader's first entry, contain no command.
		if e.GetIndex() > upTo {
			break
		}
		if e.GetType() != pb.EntryNormal || len(e.GetData()) == 0 {
			continue
		}
		c, err := metadata.DecodeCommand(e.GetData())
		if err != nil {
			return nil, fmt.Errorf("recovery: entry %d: %w", e.GetIndex(), err)
		}
		// As on a running node, a refused command changes nothing.
		m, _ = metadata.Apply(m, c, e.GetIndex())
	}
	if len(m.Topology.Nodes()) == 0 || len(m.Secret) == 0 {
		return nil, errNoMember
	}
	return m, m.Check()
}

// Report describes a survivor, for the operator and for Prepare on another survivor. It contains no secrets.
type Report struct {
	Format int
	// Cluster identifies the cluster. It is derived from a secret, so clusters with the same name differ.
	Cluster    string
	Host       ring.HostID
	Node       ring.NodeID
	Address    string
	Datacenter string
	Rack       string
	Term       uint64 // highest term in which the node may have voted
	Last       Position
	Commit     uint64
	Epoch      uint64 // of the metadata after the last entry
	Schema     string // version of the schema after the last entry
	// Recoveries are the recoveries in which the node took part, oldest first.
	Recoveries []metadata.RecoveryID `json:",omitempty"`
}

// reportFormat is the version of the encoding of a Report, and fileFormat of a File.
const (
	reportFormat = 1
	fileFormat   = 1
)

// Inspect returns the report of a node.
func Inspect(s *State) (*Report, error) {
	m, err := s.member()
	if err != nil {
		return nil, err
	}
	n := m.Topology.Node(s.Identity.Node)
	r := &Report{Format: reportFormat, Cluster: clusterOf(m), Host: s.Identity.Host, Node: s.Identity.Node,
		Address: n.Internode.String(), Datacenter: n.Datacenter, Rack: n.Rack, Term: s.Hard.GetTerm(), Last: s.last(),
		Commit: s.commit(), Epoch: m.Epoch, Schema: ring.HostID(m.Schema.Version()).String()}
	for _, v := range s.Identity.Recoveries {
		r.Recoveries = append(r.Recoveries, v.ID)
	}
	return r, nil
}

// member returns the metadata after a node's last entry, or an error if the node is not a member in it.
func (s *State) member() (*metadata.Metadata, error) {
	if s.Identity.Node == 0 {
		return nil, errNoMember
	}
	m, err := s.metadata(s.last().Index)
	if err != nil {
		return nil, err
	}
	if reason, gone := m.RemovalReason(s.Identity.Host); gone {
		return nil, fmt.Errorf("recovery: %s", reason)
	}
	if n := m.Topology.Node(s.Identity.Node); n == nil || n.Host != s.Identity.Host {
		return nil, fmt.Errorf("recovery: the metadata of node %s end before its admission: let it join as a new node",
			s.Identity.Host)
	}
	return m, nil
}

// clusterOf returns the identifier of a cluster, derived from its secret.
func clusterOf(m *metadata.Metadata) string {
	sum := sha256.Sum256(append([]byte("cqld recovery of cluster\n"), m.Secret...))
	return hex.EncodeToString(sum[:8])
}

// Newest returns the index of the report whose log has all committed entries of the others; of equal ones, the first.
func Newest(reports []*Report) int {
	newest := 0
	for i, r := range reports {
		if r.Last.Compare(reports[newest].Last) > 0 {
			newest = i
		}
	}
	return newest
}
