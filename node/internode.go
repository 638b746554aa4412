package node

import (
	"fmt"
	"net/netip"

	"cqld/cluster/metadata"
	"cqld/messaging"
	"cqld/messaging/internodetls"
	"cqld/node/config"
	"cqld/ring"
	"cqld/tlsconfig"
)

// internodeSecurity returns how the transport uses TLS. It returns nil if the node does not use TLS with other nodes.
// nodes are the certificates of this node, which are watched and may change. metadata returns the newest metadata and
// is called for each connection; it must not be called before the cluster exists, which the order of node.open
// guarantees.
func internodeSecurity(o *config.Options, nodes *tlsconfig.Source,
	metadata func() *metadata.Metadata) (messaging.Security, error) {
	e := &o.Encryption.Internode
	if !e.Used() {
		return nil, nil
	}
	s, err := internodetls.New(internodetls.Options{Cluster: o.ClusterName, Encryption: e.Peers,
		Optional:       e.Optional,
		VerifyEndpoint: !e.AnyEndpoint, Source: nodes, Policy: e.Policy(),
		// The place decides whether a connection to an address must be encrypted (internode_encryption: rack, dc).
		Place: func(a netip.Addr) (internodetls.Place, bool) { return placeOf(a, o, metadata().Topology) }})
	if err != nil {
		return nil, fmt.Errorf("server_encryption_options: %w", err)
	}
	return s, nil
}

// placeOf returns the place of the member at an address. ok is false if no member has the address. Racks of different
// data centers are different, even with one name. a is unmapped: internodetls converts ::ffff:a.b.c.d, which a listener
// of both families reports for IPv4 peers. Ports are not compared, so of several nodes at one address (tests on one
// machine) the first counts.
func placeOf(a netip.Addr, o *config.Options, t *ring.Topology) (p internodetls.Place, ok bool) {
	for _, m := range t.Nodes() {
		if m.Internode.Addr().Unmap() == a {
			same := m.Datacenter == o.Datacenter
			return internodetls.Place{SameDatacenter: same, SameRack: same && m.Rack == o.Rack}, true
		}
	}
	return p, false
}
