package node

import (
	"fmt"
	"net/netip"

	"cqld/messaging"
	"cqld/messaging/internodetls"
)

// internodeSecurity returns how the transport uses TLS. It returns nil if the node does not use TLS with other nodes.
func (n *Node) internodeSecurity() (messaging.Security, error) {
	e := &n.opts.InternodeEncryption
	if !e.Used() {
		return nil, nil
	}
	s, err := internodetls.New(internodetls.Options{Cluster: n.opts.ClusterName, Encryption: e.Peers,
		Optional:       e.Optional,
		VerifyEndpoint: !e.AnyEndpoint, Source: n.certificates.Nodes, Policy: e.Policy(), Place: n.placeOf})
	if err != nil {
		return nil, fmt.Errorf("server_encryption_options: %w", err)
	}
	return s, nil
}

// placeOf returns the place of the member at an address.
func (n *Node) placeOf(a netip.Addr) (p internodetls.Place, ok bool) {
	for _, m := range n.cluster.Metadata().Topology.Nodes() {
		if m.Internode.Addr().Unmap() == a {
			same := m.Datacenter == n.opts.Datacenter
			return internodetls.Place{SameDatacenter: same, SameRack: same && m.Rack == n.opts.Rack}, true
		}
	}
	return p, false
}
