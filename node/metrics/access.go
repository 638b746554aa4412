package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"cqld/tlsconfig"
)

// logins collects the attempts of clients to log in. The counts are of CQL clients. Remembered logins are successes as
// well, so the counts must not be added. A client is counted when its authentication ends, and not for each message of
// the exchange.
func (c *Collector) logins(m sink) {
	s := c.o.Access.Logins()
	m.counter("login_success", "Clients that were authenticated.", s.Successes)
	m.counter("login_failure", "Clients that were not authenticated: wrong or malformed credentials, back-off or "+
		"overload.", s.Failures)
	m.counter("login_unauthorized", "Clients with correct credentials of a role that may not log in, or that has no "+
		"access from their address or in this data center.", s.Unauthorized)
	// The reasons divide the failures and refusals further; a client is counted in both.
	for reason, count := range s.Reasons {
		m.send(prometheus.CounterValue, "login_refusals_total", "Clients that were refused, by reason.",
			float64(count), []string{"reason"}, []string{reason})
	}
	m.counter("login_remembered", "Clients that were authenticated by remembered credentials, without a "+
		"verification of the password.", s.Remembered)
	m.counter("login_verifications", "Verifications of passwords by bcrypt.", s.Verified)
	m.gauge("login_waiting", "Verifications of passwords that wait for others.", s.Waiting)
}

// encryption collects certificates and TLS handshakes. The uses are clients, nodes and control, as far as they have
// certificates. Expiry dates are shown as the remaining time, so that an alert compares one number. A series of a use
// is missing without certificates, so an alert on expiry has nothing to compare on a node without TLS.
func (c *Collector) encryption(m sink) {
	for use, source := range c.o.Certificates.Sources() {
		s := source.Stats()
		labels, values := []string{"use"}, []string{use}
		m.send(prometheus.GaugeValue, "certificate_expiry_seconds",
			"Seconds until the certificate, or an authority above it, expires; negative after that.",
			s.Expiry.Sub(c.o.Clock.Now()).Seconds(), labels, values)
		// Without revocation lists there is no date.
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
	// A server without certificates has no handshakes.
	if s := c.o.Servers.CQL(); s != nil && c.o.Certificates.Clients != nil {
		cql = s.Encryption()
	}
	if s := c.o.Servers.Tables(); s != nil && c.o.Certificates.Clients != nil {
		tables = s.Encryption()
	}
	m.handshakes("cql", cql)
	m.handshakes("tables", tables)
}

// handshakes emits the handshakes of a protocol. A resumed session needs no verification of certificates and is counted
// apart. The counts begin again at 0 when an operator closes and opens the server, as Prometheus expects of counters.
// The name has no unit as a suffix, because it counts things. The values of resumed are true and false.
func (m sink) handshakes(protocol string, s tlsconfig.HandshakeStats) {
	m.send(prometheus.CounterValue, "tls_handshakes_total", "TLS handshakes of clients.",
		float64(s.Completed-s.Resumed),
		[]string{"protocol", "resumed"}, []string{protocol, "false"})
	m.send(prometheus.CounterValue, "tls_handshakes_total", "TLS handshakes of clients.", float64(s.Resumed),
		[]string{"protocol", "resumed"}, []string{protocol, "true"})
	// Every reason has a series, with 0 if it did not occur.
	for _, reason := range tlsconfig.Reasons() {
		m.send(prometheus.CounterValue, "tls_handshake_failures_total", "TLS handshakes of clients that failed.",
			float64(s.Failures[reason]),
			[]string{"protocol", "reason"}, []string{protocol, string(reason)})
	}
}

// audit collects the counts of the audit log. A disabled log keeps its counts. Lost entries could not be written,
// dropped ones never reached the queue. The sum of dropped and lost entries is what the log lacks; a wait lacks
// nothing, but slows a client down.
func (c *Collector) audit(m sink) {
	s := c.o.Audit.Stats()
	// Prometheus has no truth values.
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
