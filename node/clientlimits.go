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
	s := server.Limits{FrameBytesMax: o.MaxFrameBytes, ConnectionsMax: o.MaxClients,
		ConnectionsPerAddressMax: l.ConnectionsPerAddress,
		IdleTimeout:              l.IdleTimeout, InFlightBytesMax: l.BytesInFlight,
		ReceivingBytesMax: o.Memory.Receiving(),
		AddressBytesMax:   l.BytesPerAddress,
		VersionMax:        frame.Version(l.ProtocolVersion), OlderVersionsRefused: !l.OlderProtocols,
		HandshakeTimeout: l.Authentication}
	if l.RateLimited {
		s.RequestsPerSecond = l.RequestsPerSecond
	}
	return s
}

// limits collects how often clients have reached bounds.
func (c figuresCollector) limits(m metricSink) {
	send := func(protocol, name string, n int64) {
		m.send(prometheus.CounterValue, "client_limits_total",
			"How often clients have reached a bound: connections refused or closed, and requests refused or delayed.",
			float64(n), []string{"protocol", "bound"}, []string{protocol, name})
	}
	if s := c.n.servers.CQL(); s != nil {
		for b := range server.Bounds {
			send("cql", b.String(), s.Limited(b))
		}
	}
	c.requestMemory(m)
	if t := c.n.servers.Tables(); t != nil {
		for name, n := range t.Limited() {
			send("tables", name, n)
		}
	}
}

// requestMemory collects the memory of requests.
func (c figuresCollector) requestMemory(m metricSink) {
	s := c.n.memory.Stats()
	for _, x := range []struct {
		kind  string
		bytes int64
	}{{"used", s.Used}, {"peak", s.Peak}, {"bound", s.Bytes}, {"reserve", s.Reserve}} {
		m.send(prometheus.GaugeValue, "request_memory_bytes",
			"Memory of requests: in use, at most since the start, its bound, and the reserve for one request.",
			float64(x.bytes), []string{"kind"}, []string{x.kind})
	}
	m.send(prometheus.GaugeValue, "request_memory_waiting", "Requests that wait for memory now.", float64(s.Waiting),
		nil, nil)
	m.send(prometheus.CounterValue, "request_memory_waits_total", "How often requests had to wait for memory.",
		float64(s.Waits), nil, nil)
	for reason, n := range map[string]int64{"exhausted": s.Refused, "size": s.Oversized} {
		m.send(prometheus.CounterValue, "request_memory_refusals_total",
			"Requests that got no memory in time, or needed more than a request may use.",
			float64(n), []string{"reason"}, []string{reason})
	}
}
