package system

import (
	"net/netip"
	"slices"

	"cqld/ring"
)

// localRow adds the row of system.local: this node. There is none before the node is a member. Drivers read it for the
// data center and the tokens of the node to which they are connected.
func (s *Source) localRow(b *builder) {
	self := s.o.View.Topology().Node(s.o.View.Self())
	if self == nil {
		return
	}
	b.add(values{
		"key":                     text("local"),
		"bootstrapped":            text(bootstrapped(self)),
		"broadcast_address":       inet(self.Internode.Addr()),
		"broadcast_port":          integer(int32(self.Internode.Port())),
		"cluster_name":            text(s.o.ClusterName),
		"cql_version":             text(CQLVersion),
		"data_center":             text(self.Datacenter),
		"gossip_generation":       integer(s.o.Generation),
		"host_id":                 uuid(self.Host),
		"listen_address":          inet(self.Internode.Addr()),
		"listen_port":             integer(int32(self.Internode.Port())),
		"native_protocol_version": text(ProtocolVersion),
		"partitioner":             text(Partitioner),
		"rack":                    text(self.Rack),
		"release_version":         text(ReleaseVersion),
		"rpc_address":             inet(self.Native.Addr()),
		"rpc_port":                integer(int32(self.Native.Port())),
		"schema_version":          uuid(s.o.View.Schema().Version()),
		"tokens":                  tokens(self),
	})
}

// bootstrapped returns Cassandra's name of a node's state.
func bootstrapped(n *ring.Node) string {
	switch n.State {
	case ring.Joining:
		return "IN_PROGRESS"
	case ring.Leaving:
		return "DECOMMISSIONED"
	}
	return "COMPLETED"
}

// peerRows adds the rows of system.peers or peers_v2: all other nodes that own tokens. A driver ignores a peer that is
// not complete, or that is the node to which it is connected. A driver waits until all show the schema version of this
// node, before it reads the schema at any of them (package cluster). The key of peers is an address only, so of several
// nodes with one address it shows the first.
func (s *Source) peerRows(b *builder, v2 bool) {
	addresses := map[netip.Addr]bool{}
	for _, n := range s.o.View.Topology().Nodes() {
		// A joining node owns no data yet, and drivers must not connect to it.
		if n.ID == s.o.View.Self() || n.State == ring.Joining || len(n.Tokens) == 0 || !n.Native.IsValid() {
			continue
		}
		// Nodes on one address differ by port, which the old table does not have.
		if !v2 && addresses[n.Internode.Addr()] {
			continue
		}
		addresses[n.Internode.Addr()] = true
		// schema_version is the version that the peer has confirmed; drivers compare it with the version in
		// system.local.
		v := values{
			"peer":            inet(n.Internode.Addr()),
			"data_center":     text(n.Datacenter),
			"host_id":         uuid(n.Host),
			"rack":            text(n.Rack),
			"release_version": text(ReleaseVersion),
			"schema_version":  uuid(s.o.View.SchemaVersion(n.ID)),
			"tokens":          tokens(n),
		}
		if v2 {
			v["peer_port"] = integer(int32(n.Internode.Port()))
			v["native_address"] = inet(n.Native.Addr())
			v["native_port"] = integer(int32(n.Native.Port()))
		} else {
			v["rpc_address"] = inet(n.Native.Addr())
		}
		b.add(v)
	}
}

// tokens returns the decimal tokens of a node, sorted as text. They are a set of texts, so their order is not numeric.
func tokens(n *ring.Node) []byte {
	list := make([]string, len(n.Tokens))
	for i, t := range n.Tokens {
		list[i] = t.String()
	}
	slices.Sort(list)
	return texts(list)
}
