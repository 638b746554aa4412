package node

import "cqld/auth"

// clientAuthorizer returns the authorizer of clients. In tests, faults.authorizer replaces it.
func (n *Node) clientAuthorizer() auth.Authorizer {
	if a := n.faults.authorizer; a != nil {
		return a
	}
	return n.access.Authorizer()
}

// operatorAuthorizer returns the authorizer of control operations. Their clients are no roles: an operator may do
// everything.
func (n *Node) operatorAuthorizer() auth.Authorizer {
	if a := n.faults.authorizer; a != nil {
		return a
	}
	return auth.AllowAll{}
}
