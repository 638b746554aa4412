package node

import (
	crand "crypto/rand"

	"github.com/prometheus/client_golang/prometheus"

	"cqld/cluster"
	"cqld/login"
	"cqld/login/certificate"
	"cqld/node/config"
	"cqld/server"
)

// openLogin prepares the authentication of CQL clients, if the options require it.
func (n *Node) openLogin() (err error) {
	a := &n.opts.Access
	if !a.Authenticates() {
		return nil
	}
	n.login, err = login.New(login.Options{
		Lookup: func(role string) (login.Role, bool) {
			r, ok := n.roles().Role(role)
			if !ok {
				return login.Role{}, false
			}
			return login.Role{Hash: r.Hash, Login: r.Login}, true
		},
		Access: n.restrictions().Access, Clock: n.clock, Random: crand.Reader, Logger: n.log,
		OnEvent: n.auditLogin,
		Limits:  login.Limits{RememberFor: a.CredentialsValidity, RememberedMax: a.CredentialsMax},
	})
	if err == nil && a.Mutual() {
		n.validator, err = certificate.NewValidator(a.CertificateValidator)
	}
	return err
}

// restrictions returns what refuses roles by data centers and addresses.
func (n *Node) restrictions() *login.Restrictions {
	a := &n.opts.Access
	return &login.Restrictions{Directory: n.roles, Network: a.RestrictsDatacenters(), Datacenter: n.opts.Datacenter,
		CIDR:       a.RestrictsAddresses(),
		Superusers: a.CIDRForSuperusers, Monitor: a.CIDRMonitor, Clock: n.clock, Logger: n.log}
}

// authenticator returns the authenticator of CQL clients, or nil if they need not log in.
func (n *Node) authenticator() server.Authenticator {
	if n.login == nil {
		return nil
	}
	a := &n.opts.Access
	if !a.Mutual() {
		return n.login
	}
	return certificate.New(certificate.Options{
		Validator: n.validator, Password: n.login, Fallback: a.Authenticator == config.FallbackAuthenticator,
		Role:     func(identity string) (string, bool) { return n.roles().Identity(identity) },
		CanLogin: func(role string) bool { return n.roles().CanLogin(role) },
	})
}

// rolesChanged ends or restricts the connections of roles that were dropped or changed.
func (n *Node) rolesChanged(clients *server.Server, old, now *cluster.Metadata) {
	if old.Roles != now.Roles {
		clients.RecheckClients()
	}
}

// logins collects the attempts of clients to log in.
func (c figuresCollector) logins(m metricSink) {
	if c.n.login == nil {
		return
	}
	s := c.n.login.Stats()
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
