package node

import (
	"github.com/prometheus/client_golang/prometheus"

	"cqld/tlsconfig"
)

// encryption collects certificates and TLS handshakes.
func (c figuresCollector) encryption(m metricSink) {
	for use, source := range c.n.certificates.Sources() {
		s := source.Stats()
		labels, values := []string{"use"}, []string{use}
		m.send(prometheus.GaugeValue, "certificate_expiry_seconds",
			"Seconds until the certificate, or an authority above it, expires; negative after that.",
			s.Expiry.Sub(c.n.clock.Now()).Seconds(), labels, values)
		if !s.RevocationsDue.IsZero() {
			m.send(prometheus.GaugeValue, "certificate_revocations_due_seconds",
				"Seconds until a revocation list must be replaced; negative after that.",
				s.RevocationsDue.Sub(c.n.clock.Now()).Seconds(), labels, values)
		}
		m.send(prometheus.CounterValue, "certificate_reloads_total", "Changes of certificate files that are in use.",
			float64(s.Reloads), labels, values)
		m.send(prometheus.CounterValue, "certificate_reload_failures_total",
			"Changes of certificate files that cannot be used.", float64(s.Failures), labels, values)
	}
	c.internode(m)
	if s := c.n.servers.CQL(); s != nil && c.n.certificates.Clients != nil {
		m.handshakes("cql", s.Encryption())
	}
	if s := c.n.servers.Tables(); s != nil && c.n.certificates.Clients != nil {
		m.handshakes("tables", s.Encryption())
	}
}

func (m metricSink) handshakes(protocol string, s tlsconfig.HandshakeStats) {
	m.send(prometheus.CounterValue, "tls_handshakes_total", "TLS handshakes of clients.",
		float64(s.Completed-s.Resumed),
		[]string{"protocol", "resumed"}, []string{protocol, "false"})
	m.send(prometheus.CounterValue, "tls_handshakes_total", "TLS handshakes of clients.", float64(s.Resumed),
		[]string{"protocol", "resumed"}, []string{protocol, "true"})
	for reason, count := range s.Failures {
		m.send(prometheus.CounterValue, "tls_handshake_failures_total", "TLS handshakes of clients that failed.",
			float64(count),
			[]string{"protocol", "reason"}, []string{protocol, string(reason)})
	}
}
