package node

import (
	"github.com/prometheus/client_golang/prometheus"

	"cqld/node/config"
	"cqld/server"
	"cqld/server/frame"
)

// serverLimits returns the limits of the CQL server.
func serverLimits(o *config.Options) server.Limits {
	l := &o.ClientLimits
	s := server.Limits{FrameBytesMax: o.MaxFrameBytes, ConnectionsMax: o.MaxClients, ConnectionsPerAddressMax: l.ConnectionsPerAddress,
		IdleTimeout: l.IdleTimeout, InFlightBytesMax: l.BytesInFlight, ReceivingBytesMax: o.Memory.Receiving(), AddressBytesMax: l.BytesPerAddress,
		VersionMax: frame.Version(l.ProtocolVersion), OlderVersionsRefused: !l.OlderProtocols, HandshakeTimeout: l.Authentication}
	if l.RateLimited {
		s.RequestsPerSecond = l.RequestsPerSecond
	}
	return s
}

// limits collects how often clients have reached bounds.
func (c figuresCollector) limits(m metricSink) {
	send := func(protocol, name string, n int64) {
		m.send(prometheus.CounterValue, "client_limits_total", "How often clients have reached a bound: connections refused or closed, and requests refused or delayed.",
			float64(n), []string{"protocol", "bound"}, []string{protocol, name})
	}
	if s := c.n.server.Load(); s != nil {
		for b := range server.Bounds {
			send("cql", b.String(), s.Limited(b))
		}
	}
	if t := c.n.tables.Load(); t != nil {
		for name, n := range t.Limited() {
			send("tables", name, n)
		}
	}
}
