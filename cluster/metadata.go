package cluster

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"

	"cqld/ring"
	"cqld/schema"
)

// Metadata is what the cluster has agreed on at one epoch. It is immutable.
type Metadata struct {
	Epoch    uint64 // Raft index of the last command that changed anything
	Schema   *schema.Schema
	Topology *ring.Topology
	// Secret authenticates what clients carry between nodes, such as paging states.
	Secret []byte

	nextNode ring.NodeID
	recent   []CommandID // the last commands applied, so that a repeated one is not applied twice
}

// recentMax is how many commands are remembered: far more than can be proposed while one proposal
// is being repeated.
const recentMax = 512

// metadataFormat is the version of the encoded form.
const metadataFormat = 1

type metadataJSON struct {
	Format   int
	Epoch    uint64
	Topology uint64 // its epoch: plans and admissions compare it
	Schema   []byte
	Secret   []byte
	NextNode ring.NodeID
	Nodes    []nodeJSON
	Recent   []CommandID
}

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
}

func emptyMetadata() *Metadata {
	return &Metadata{Schema: schema.Empty(), Topology: ring.NewTopology(0, nil), nextNode: 1}
}

// encode is the form of a Raft snapshot.
func (m *Metadata) encode() ([]byte, error) {
	j := metadataJSON{Format: metadataFormat, Epoch: m.Epoch, Topology: m.Topology.Epoch(), Schema: schema.Encode(m.Schema),
		Secret: m.Secret, NextNode: m.nextNode, Recent: m.recent}
	for _, n := range m.Topology.Nodes() {
		j.Nodes = append(j.Nodes, nodeJSON{n.ID, n.Host, n.Datacenter, n.Rack, n.Internode, n.Native, n.State, n.Tokens, n.DiskID})
	}
	return json.Marshal(j)
}

func decodeMetadata(b []byte) (*Metadata, error) {
	var j metadataJSON
	if err := json.Unmarshal(b, &j); err != nil {
		return nil, fmt.Errorf("cluster: decode metadata: %w", err)
	}
	if j.Format != metadataFormat {
		return nil, fmt.Errorf("cluster: metadata has format %d, this build reads %d", j.Format, metadataFormat)
	}
	s, err := schema.Decode(j.Schema)
	if err != nil {
		return nil, fmt.Errorf("cluster: decode metadata: %w", err)
	}
	var nodes []*ring.Node
	for _, n := range j.Nodes {
		nodes = append(nodes, &ring.Node{ID: n.ID, Host: n.Host, Datacenter: n.Datacenter, Rack: n.Rack,
			Internode: n.Internode, Native: n.Native, State: n.State, Tokens: n.Tokens, DiskID: n.Disk})
	}
	return &Metadata{Epoch: j.Epoch, Schema: s, Topology: ring.NewTopology(j.Topology, nodes), Secret: j.Secret,
		nextNode: j.NextNode, recent: j.Recent}, nil
}

// NodeByHost finds a member by its host id; nil when there is none.
func (m *Metadata) NodeByHost(h ring.HostID) *ring.Node {
	for _, n := range m.Topology.Nodes() {
		if n.Host == h {
			return n
		}
	}
	return nil
}

// peers are the addresses of all members.
func (m *Metadata) peers() map[ring.NodeID]netip.AddrPort {
	out := map[ring.NodeID]netip.AddrPort{}
	for _, n := range m.Topology.Nodes() {
		out[n.ID] = n.Internode
	}
	return out
}

func (m *Metadata) seen(id CommandID) bool { return slices.Contains(m.recent, id) }
