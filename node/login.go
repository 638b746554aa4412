package node

import (
	"github.com/prometheus/client_golang/prometheus"
)

// logins collects the attempts of clients to log in.
func (c figuresCollector) logins(m metricSink) {
	s := c.n.access.Logins()
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
