package access

import (
	crand "crypto/rand"
	"log/slog"

	"cqld/auth"
	"cqld/cluster"
	"cqld/internal/env"
	"cqld/login"
	"cqld/login/certificate"
	"cqld/node/config"
	"cqld/query/roles"
	"cqld/ring"
	"cqld/schema"
	"cqld/server"
)

// Options configure New. All fields are required, except OnLogin.
type Options struct {
	Settings   *config.Access
	Datacenter string
	DataDir    string
	Local      bool // DataDir is a directory of this machine
	Cluster    *cluster.Cluster
	Clock      env.Clock
	Log        *slog.Logger
	OnLogin    func(login.Event) // is called for each attempt to log in
}

// Access determines who may log in to a node and what they may do, from its configuration and the roles in the
// metadata. It has no copy of the roles: every method reads the newest directory that this node has applied, so a
// change of a role has an effect at the next request without a restart. It is safe for concurrent use.
type Access struct {
	o         Options
	passwords *Passwords
	login     *login.Authenticator  // nil: CQL clients need not log in
	validator certificate.Validator // of clients' certificates, if they log in by them
}

// New returns the access to a node. It is used while the cluster of o is open. An unknown certificate validator is an
// error. Nothing is started, so there is no Close.
func New(o Options) (a *Access, err error) {
	a = &Access{o: o, passwords: NewPasswords()}
	// AllowAllAuthenticator: CQL clients get no challenge, and login stays nil.
	if !o.Settings.Authenticates() {
		return a, nil
	}
	a.login, err = login.New(login.Options{
		Lookup: a.lookUp, Access: a.Restrictions().Access, Clock: o.Clock, Random: crand.Reader, Logger: o.Log,
		OnEvent: o.OnLogin,
		Limits:  login.Limits{RememberFor: o.Settings.CredentialsValidity, RememberedMax: o.Settings.CredentialsMax},
	})
	if err == nil && o.Settings.Mutual() {
		a.validator, err = certificate.NewValidator(o.Settings.CertificateValidator)
	}
	return a, err
}

// lookUp implements login.Options.Lookup. ok is false for a role that does not exist; package login then compares with
// a dummy hash, so that the time of the answer does not show which roles exist.
func (a *Access) lookUp(role string) (login.Role, bool) {
	r, ok := a.Roles().Role(role)
	if !ok {
		return login.Role{}, false
	}
	return login.Role{Hash: r.Hash, Login: r.Login}, true
}

// Roles returns the current directory of roles. A directory is immutable: two reads from one directory fit together,
// two calls of Roles may not.
func (a *Access) Roles() *auth.Directory { return a.o.Cluster.Metadata().Roles }

// Passwords returns what hashes the passwords of statements and operators. All callers share one Passwords, because the
// bound on concurrent hashes is the node's.
func (a *Access) Passwords() *Passwords { return a.passwords }

// Authorizer returns the authorizer of clients. It depends only on the configuration, which differs between nodes only
// by mistake: permissions are stored even while a node does not check them.
func (a *Access) Authorizer() auth.Authorizer {
	if a.o.Settings.Authorizes() {
		return auth.CassandraAuthorizer{Directory: a.Roles}
	}
	return auth.AllowAll{}
}

// Statements returns what executes statements about roles. Without authentication or authorization, the corresponding
// statements are refused with Cassandra's messages.
func (a *Access) Statements() *roles.Statements {
	s := a.o.Settings
	return roles.New(roles.Options{
		Directory: a.Roles, Changer: a.o.Cluster, Hash: a.passwords.Hash, NewKey: NewTablesKey,
		NewPassword: GeneratePassword,
		Schema:      func() *schema.Schema { return a.o.Cluster.Metadata().Schema },
		Topology:    func() *ring.Topology { return a.o.Cluster.Metadata().Topology },
		Config: roles.Config{Authentication: s.Authenticates(), Authorization: s.Authorizes(),
			Network: s.RestrictsDatacenters(),
			CIDR:    s.RestrictsAddresses()},
	})
}

// Restrictions returns what refuses roles by data centers and addresses. It is made for each call, which is once for
// each server, and reads the roles at each use.
func (a *Access) Restrictions() *login.Restrictions {
	s := a.o.Settings
	return &login.Restrictions{Directory: a.Roles, Network: s.RestrictsDatacenters(), Datacenter: a.o.Datacenter,
		CIDR:       s.RestrictsAddresses(),
		Superusers: s.CIDRForSuperusers, Monitor: s.CIDRMonitor, Clock: a.o.Clock, Logger: a.o.Log}
}

// Authenticator returns the authenticator of CQL clients, or nil if they need not log in. With MutualTlsAuthenticator,
// a client without a valid certificate is refused. With the fallback, it may log in by a password.
func (a *Access) Authenticator() server.Authenticator {
	if a.login == nil {
		return nil
	}
	if !a.o.Settings.Mutual() {
		return a.login
	}
	// The identity of a certificate (for example a SPIFFE URI) leads to a role by ADD IDENTITY, never by the role's
	// name.
	return certificate.New(certificate.Options{
		Validator: a.validator, Password: a.login,
		Fallback: a.o.Settings.Authenticator == config.FallbackAuthenticator,
		Role:     func(identity string) (string, bool) { return a.Roles().Identity(identity) },
		CanLogin: func(role string) bool { return a.Roles().CanLogin(role) },
	})
}

// Logins returns the counts of attempts to log in. They are zero if CQL clients need not log in.
func (a *Access) Logins() login.Stats {
	if a.login == nil {
		return login.NoStats()
	}
	return a.login.Stats()
}
