package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"cqld/tlsconfig"
)

// logins collects the attempts of clients to log in.
func (c *Collector) logins(m sink) {
	s := c.o.Access.Logins()
	m.counter("login_success", "Clients that were authenticated.", s.Successes)
	m.counter("login_failure", "Clients that were not authenticated: wrong or malformed credentials, back-off or "+
		"overload.", s.Failures)
	m.counter("login_unauthorized", "Clients with correct credentials of a role that may not log in, or that has no "+
		"access from their address or in this data center.", s.Unauthorized)
	for reason, count := range s.Reasons {
		m.send(prometheus.CounterValue, "login_refusals_total", "Clients that were refused, by reason.",
			float64(count), []string{"reason"}, []string{reason})
	}
	m.counter("login_remembered", "Clients that were authenticated by remembered credentials, without a "+
		"verification of the password.", s.Remembered)
	m.counter("login_verifications", "Verifications of passwords by bcrypt.", s.Verified)
	m.gauge("login_waiting", "Verifications of passwords that wait for others.", s.Waiting)
}

// encryption collects certificates and TLS handshakes.
func (c *Collector) encryption(m sink) {
	for use, source := range c.o.Certificates.Sources() {
		s := source.Stats()
		labels, values := []string{"use"}, []string{use}
		m.send(prometheus.GaugeValue, "certificate_expiry_seconds",
			"Seconds until the certificate, or an authority above it, expires; negative after that.",
			s.Expiry.Sub(c.o.Clock.Now()).Seconds(), labels, values)
		if !s.RevocationsDue.IsZero() {
			m.send(prometheus.GaugeValue, "certificate_revocations_due_seconds",
				"Seconds until a revocation list must be replaced; negative after that.",
				s.RevocationsDue.Sub(c.o.Clock.Now()).Seconds(), labels, values)
		}
		m.send(prometheus.CounterValue, "certificate_reloads_total", "Changes of certificate files that are in use.",
			float64(s.Reloads), labels, values)
		m.send(prometheus.CounterValue, "certificate_reload_failures_total",
			"Changes of certificate files that cannot be used.", float64(s.Failures), labels, values)
	}
	c.internode(m)
	var cql, tables tlsconfig.HandshakeStats // zero without TLS, and while a server is closed
	if s := c.o.Servers.CQL(); s != nil && c.o.Certificates.Clients != nil {
		cql = s.Encryption()
	}
	if s := c.o.Servers.Tables(); s != nil && c.o.Certificates.Clients != nil {
		tables = s.Encryption()
	}
	m.handshakes("cql", cql)
	m.handshakes("tables", tables)
}

func (m sink) handshakes(protocol string, s tlsconfig.HandshakeStats) {
	m.send(prometheus.CounterValue, "tls_handshakes_total", "TLS handshakes of clients.",
		float64(s.Completed-s.Resumed),
		[]string{"protocol", "resumed"}, []string{protocol, "false"})
	m.send(prometheus.CounterValue, "tls_handshakes_total", "TLS handshakes of clients.", float64(s.Resumed),
		[]string{"protocol", "resumed"}, []string{protocol, "true"})
	for _, reason := range tlsconfig.Reasons() {
		m.send(prometheus.CounterValue, "tls_handshake_failures_total", "TLS handshakes of clients that failed.",
			float64(s.Failures[reason]),
			[]string{"protocol", "reason"}, []string{protocol, string(reason)})
	}
}

// audit collects the counts of the audit log.
func (c *Collector) audit(m sink) {
	s := c.o.Audit.Stats()
	enabled := int64(0)
	if c.o.Audit.Enabled() {
		enabled = 1
	}
	m.gauge("audit_enabled", "Whether the audit log is enabled.", enabled)
	m.gauge("audit_queue_bytes", "Bytes of entries that wait to be written.", s.Queued)
	m.counter("audit_entries", "Entries recorded.", s.Recorded)
	m.counter("audit_entries_dropped", "Entries dropped because the queue was full (block: false), or the log was "+
		"closing.", s.Dropped)
	m.counter("audit_entries_lost", "Entries that could not be written.", s.Lost)
	m.counter("audit_waits", "Requests that waited because the queue was full (block: true).", s.Waits)
	m.counter("audit_write_failures", "Failed writes.", s.Failures)
	m.counter("audit_bytes", "Bytes written.", s.Bytes)
}
