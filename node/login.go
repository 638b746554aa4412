package node

import (
	crand "crypto/rand"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"cqld/cluster"
	"cqld/login"
	"cqld/login/certificate"
	"cqld/server"
	"cqld/tlsconfig"
)

// openLogin prepares the authentication of CQL clients, if the options require it.
func (n *Node) openLogin() (err error) {
	a := &n.opts.Access
	if !a.authenticates() {
		return nil
	}
	restrictions := &login.Restrictions{Directory: n.roles, Network: a.network(), Datacenter: n.opts.Datacenter, CIDR: a.cidr(),
		Superusers: a.CIDRForSuperusers, Monitor: a.CIDRMonitor, Clock: n.clock, Logger: n.log}
	n.login, err = login.New(login.Options{
		Lookup: func(role string) (login.Role, bool) {
			r, ok := n.roles().Role(role)
			if !ok {
				return login.Role{}, false
			}
			return login.Role{Hash: r.Hash, Login: r.Login}, true
		},
		Access: restrictions.Access, Clock: n.clock, Random: crand.Reader, Logger: n.log,
		Limits: login.Limits{RememberFor: a.CredentialsValidity, RememberedMax: a.CredentialsMax},
	})
	if err == nil && a.mutual() {
		n.validator, err = certificate.NewValidator(a.CertificateValidator)
	}
	return err
}

// authenticator returns the authenticator of CQL clients, or nil if they need not log in.
func (n *Node) authenticator() server.Authenticator {
	if a := n.opts.faults.authenticator; a != nil {
		return a
	}
	if n.login == nil {
		return nil
	}
	a := &n.opts.Access
	if !a.mutual() {
		return n.login
	}
	return certificate.New(certificate.Options{
		Validator: n.validator, Password: n.login, Fallback: a.Authenticator == fallbackAuthenticator,
		Role:     func(identity string) (string, bool) { return n.roles().Identity(identity) },
		CanLogin: func(role string) bool { return n.roles().CanLogin(role) },
	})
}

// mutual reports whether clients log in by certificates.
func (o *AccessOptions) mutual() bool {
	return o.Authenticator == mutualAuthenticator || o.Authenticator == fallbackAuthenticator
}

// validateMutual requires certificates of clients if they log in by them.
func (o *Options) validateMutual(bad func(name, format string, args ...any)) {
	a, e := &o.Access, &o.ClientEncryption
	if !a.mutual() {
		return
	}
	if _, err := certificate.NewValidator(a.CertificateValidator); err != nil {
		bad("authenticator", "%v", err)
	}
	// Clients that fall back to passwords may have no certificates.
	asked := e.ClientAuth == tlsconfig.ClientAuthRequired || e.ClientAuth == tlsconfig.ClientAuthOptional && a.Authenticator == fallbackAuthenticator
	if !e.Enabled || !asked {
		bad("authenticator", "MutualTlsAuthenticator requires client_encryption_options.enabled to be true & "+
			"client_encryption_options.require_client_auth to be true") // the text of Cassandra
	}
}

// setCertificateValidator reads a parameter of the authenticators that use certificates.
func setCertificateValidator(o *Options, name, value string) error {
	if name != "validator_class_name" {
		return fmt.Errorf("unknown parameter %s; it is validator_class_name", name)
	}
	_, err := certificate.NewValidator(value)
	o.Access.CertificateValidator = value
	return err
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
	m.counter("login_failure", "Clients that were not authenticated: wrong or malformed credentials, back-off or overload.", s.Failures)
	m.counter("login_unauthorized", "Clients with correct credentials of a role that may not log in, or that has no access from their address or in this data center.", s.Unauthorized)
	for reason, count := range s.Reasons {
		m.send(prometheus.CounterValue, "login_refusals_total", "Clients that were refused, by reason.", float64(count), []string{"reason"}, []string{reason})
	}
	m.counter("login_remembered", "Clients that were authenticated by remembered credentials, without a verification of the password.", s.Remembered)
	m.counter("login_verifications", "Verifications of passwords by bcrypt.", s.Verified)
	m.gauge("login_waiting", "Verifications of passwords that wait for others.", s.Waiting)
}
