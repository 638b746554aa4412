package node

import (
	"context"
	crand "crypto/rand"
	"fmt"

	"golang.org/x/crypto/bcrypt"

	"cqld/auth"
	"cqld/coordinator"
	"cqld/query/roles"
	"cqld/ring"
	"cqld/schema"
)

// roles returns the current directory of roles.
func (n *Node) roles() *auth.Directory { return n.cluster.Metadata().Roles }

// clientAuthorizer returns the authorizer of CQL clients.
func (n *Node) clientAuthorizer() auth.Authorizer {
	if a := n.faults.authorizer; a != nil {
		return a
	}
	if n.opts.Access.Authorizes() {
		return auth.CassandraAuthorizer{Directory: n.roles}
	}
	return auth.AllowAll{}
}

// operatorAuthorizer returns the authorizer of control operations. Their clients are no roles: an operator may do
// everything.
func (n *Node) operatorAuthorizer() auth.Authorizer {
	if a := n.faults.authorizer; a != nil {
		return a
	}
	return auth.AllowAll{}
}

// roleStatements returns what executes statements about roles.
func (n *Node) roleStatements() *roles.Statements {
	a := &n.opts.Access
	return roles.New(roles.Options{
		Directory: n.roles, Changer: n.cluster, Hash: n.hashPassword, NewKey: newTablesKey,
		NewPassword: generatePassword,
		Schema:      func() *schema.Schema { return n.cluster.Metadata().Schema },
		Topology:    func() *ring.Topology { return n.cluster.Metadata().Topology },
		Config: roles.Config{Authentication: a.Authenticates(), Authorization: a.Authorizes(),
			Network: a.RestrictsDatacenters(),
			CIDR:    a.RestrictsAddresses()},
	})
}

// hashing bounds the passwords that are hashed for statements. Each takes tens of milliseconds of CPU time, and every
// role may change its own password as often as it likes.
type hashing struct {
	admitted chan struct{} // a slot for each that is hashed or waits
	running  chan struct{} // a slot for each that is hashed
}

func newHashing() hashing {
	return hashing{admitted: make(chan struct{}, hashesMax+hashesWaitingMax), running: make(chan struct{}, hashesMax)}
}

// hashPassword returns the bcrypt hash of a password, or a coordinator.Overloaded if too many wait to be hashed. bcrypt
// refuses passwords of more than 72 bytes, of which it would ignore the rest.
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
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.DefaultCost)
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
