package node

import (
	"cqld/auth"
	"cqld/node/assembly"
	"cqld/query"
	"cqld/request"
)

// faults are wrappers that tests of this package put between the parts of a node. nil means none. Open uses none. A
// wrapper receives the part that the node would use and returns the one that it uses instead, usually with the first
// embedded. It is called once for each node.
type faults struct {
	engine     func(assembly.RequestEngine) assembly.RequestEngine // the engine of this node's replica
	proposer   func(request.Proposer) request.Proposer             // executes conditional updates of CQL statements
	authorizer auth.Authorizer                                     // of clients and operators
	virtual    func(query.VirtualSource) query.VirtualSource       // the virtual tables of this node
}
