package node

import (
	"context"
	crand "crypto/rand"
	"fmt"
	"time"

	"golang.org/x/crypto/bcrypt"

	"cqld/auth"
	"cqld/coordinator"
	"cqld/query/roles"
	"cqld/ring"
	"cqld/schema"
)

// The classes of access control, by the last part of their names in Cassandra.
const (
	allowAllAuthenticator = "AllowAllAuthenticator"
	passwordAuthenticator = "PasswordAuthenticator"
	mutualAuthenticator   = "MutualTlsAuthenticator"
	fallbackAuthenticator = "MutualTlsWithPasswordFallbackAuthenticator"

	allowAllAuthorizer  = "AllowAllAuthorizer"
	cassandraAuthorizer = "CassandraAuthorizer"

	allowAllNetworkAuthorizer  = "AllowAllNetworkAuthorizer"
	cassandraNetworkAuthorizer = "CassandraNetworkAuthorizer"

	allowAllCIDRAuthorizer  = "AllowAllCIDRAuthorizer"
	cassandraCIDRAuthorizer = "CassandraCIDRAuthorizer"
)

// AccessOptions are the options of access control. Classes have the last part of their names in Cassandra; empty means
// the one that allows everything.
type AccessOptions struct {
	Authenticator string
	// CertificateValidator is validator_class_name of authenticators that use certificates.
	CertificateValidator string
	Authorizer           string
	NetworkAuthorizer    string
	CIDRAuthorizer       string
	// CIDRMonitor makes the CIDR authorizer count and log what it would refuse: cidr_authorizer_mode MONITOR.
	CIDRMonitor bool
	// CIDRForSuperusers subjects superusers to the CIDR authorizer: cidr_checks_for_superusers.
	CIDRForSuperusers bool

	// CredentialsValidity is how long correct credentials are remembered, and CredentialsMax of how many roles; 0 means the
	// defaults of package login.
	CredentialsValidity time.Duration
	CredentialsMax      int

	// Superuser and SuperuserPassword are the first superuser of a new cluster with authentication. An empty name means
	// DefaultSuperuser. An empty password means that the node generates one.
	Superuser, SuperuserPassword string
}

// authenticates reports whether clients must log in.
func (o *AccessOptions) authenticates() bool {
	return o.Authenticator != "" && o.Authenticator != allowAllAuthenticator
}

func (o *AccessOptions) authorizes() bool { return o.Authorizer == cassandraAuthorizer }

func (o *AccessOptions) network() bool { return o.NetworkAuthorizer == cassandraNetworkAuthorizer }

func (o *AccessOptions) cidr() bool { return o.CIDRAuthorizer == cassandraCIDRAuthorizer }

// validateAccess refuses combinations of classes in which one has no effect.
func (o *Options) validateAccess(bad func(name, format string, args ...any)) {
	a := &o.Access
	o.validateMutual(bad)
	if a.authenticates() {
		return
	}
	if a.authorizes() {
		bad("authorizer", "%s has no effect on clients that do not log in: set authenticator to %s", a.Authorizer, passwordAuthenticator)
	}
	for name, on := range map[string]bool{"network_authorizer": a.network(), "cidr_authorizer": a.cidr()} {
		if on {
			bad(name, "clients must log in to be restricted: set authenticator to %s", passwordAuthenticator)
		}
	}
	if a.SuperuserPassword != "" {
		bad("superuser", "the password of a superuser has no use without authentication: set authenticator to %s", passwordAuthenticator)
	}
}

// roles returns the current directory of roles.
func (n *Node) roles() *auth.Directory { return n.cluster.Metadata().Roles }

// clientAuthorizer returns the authorizer of CQL clients.
func (n *Node) clientAuthorizer() auth.Authorizer {
	if a := n.opts.faults.authorizer; a != nil {
		return a
	}
	if n.opts.Access.authorizes() {
		return auth.CassandraAuthorizer{Directory: n.roles}
	}
	return auth.AllowAll{}
}

// operatorAuthorizer returns the authorizer of control operations. Their clients are no roles: an operator may do
// everything.
func (n *Node) operatorAuthorizer() auth.Authorizer {
	if a := n.opts.faults.authorizer; a != nil {
		return a
	}
	return auth.AllowAll{}
}

// roleStatements returns what executes statements about roles.
func (n *Node) roleStatements() *roles.Statements {
	a := &n.opts.Access
	return roles.New(roles.Options{
		Directory: n.roles, Changer: n.cluster, Hash: n.hashPassword, NewKey: newTablesKey, NewPassword: generatePassword,
		Schema:   func() *schema.Schema { return n.cluster.Metadata().Schema },
		Topology: func() *ring.Topology { return n.cluster.Metadata().Topology },
		Config: roles.Config{Authentication: a.authenticates(), Authorization: a.authorizes(), Network: a.network(),
			CIDR: a.cidr()},
	})
}

// passwordBytesMax is the number of bytes of a password that bcrypt uses. As in Cassandra, the rest is ignored.
const passwordBytesMax = 72

// hashing bounds the passwords that are hashed for statements. Each takes tens of milliseconds of CPU time, and every role may
// change its own password as often as it likes.
type hashing struct {
	admitted chan struct{} // a slot for each that is hashed or waits
	running  chan struct{} // a slot for each that is hashed
}

func newHashing() hashing {
	return hashing{admitted: make(chan struct{}, hashesMax+hashesWaitingMax), running: make(chan struct{}, hashesMax)}
}

// hashPassword returns the bcrypt hash of a password, or a coordinator.Overloaded if too many wait to be hashed.
func (n *Node) hashPassword(ctx context.Context, password string) (string, error) {
	h := &n.hashing
	select {
	case h.admitted <- struct{}{}:
		defer func() { <-h.admitted }()
	default:
		return "", &coordinator.Overloaded{What: "too many passwords wait to be hashed"}
	}
	select {
	case h.running <- struct{}{}:
		defer func() { <-h.running }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	b := []byte(password)
	hash, err := bcrypt.GenerateFromPassword(b[:min(len(b), passwordBytesMax)], bcrypt.DefaultCost)
	if err != nil {
		return "", fmt.Errorf("node: hash password: %w", err)
	}
	return string(hash), nil
}

const (
	hashesMax        = 1  // passwords that are hashed at once for statements
	hashesWaitingMax = 32 // further ones that wait
)

// generatedPasswordBytes is the randomness of a generated password: 128 bits.
const generatedPasswordBytes = 16

// generatePassword returns a random password of letters and digits.
func generatePassword() string {
	const letters = "ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz23456789" // without those that look alike
	b := make([]byte, 2*generatedPasswordBytes)
	crand.Read(b) // never fails (crypto/rand)
	for i := range b {
		b[i] = letters[int(b[i])%len(letters)]
	}
	return string(b)
}
