package node

import (
	"fmt"
	"net/netip"

	"github.com/prometheus/client_golang/prometheus"

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

// internode collects the connections with other nodes.
func (c figuresCollector) internode(m metricSink) {
	n := c.n.transport.Connections()
	for _, e := range []struct {
		direction, encrypted string
		count                int
	}{{"from", "true", n.FromEncrypted}, {"from", "false", n.FromPlain}, {"to", "true", n.ToEncrypted},
		{"to", "false", n.ToPlain}} {
		m.send(prometheus.GaugeValue, "internode_connections",
			"Connections with other nodes, by the direction in which they were opened.", float64(e.count),
			[]string{"direction", "encrypted"}, []string{e.direction, e.encrypted})
	}
	const help = "Connections with other nodes that failed because of TLS, or the lack of it, by the direction and " +
		"the reason."
	for direction, reasons := range map[string]map[string]uint64{"from": c.n.transport.Refusals(),
		"to": c.n.transport.Failures()} {
		for reason, count := range reasons {
			m.send(prometheus.CounterValue, "internode_handshake_failures_total", help, float64(count),
				[]string{"direction", "reason"}, []string{direction, reason})
		}
	}
}
