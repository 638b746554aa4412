package node

import (
	"fmt"
	"time"

	"cqld/auth"
	"cqld/query"
	"cqld/request"
)

// clockRefusal says why this node must not serve for its clock; nil: it may.
func (n *Node) clockRefusal() error {
	ahead, tooFar := n.cluster.ClockOffset()
	if !tooFar {
		return nil
	}
	return &query.NotServing{Msg: fmt.Sprintf("this node's clock is %v ahead of the other nodes", ahead.Round(time.Millisecond))}
}

// openExecutors makes what the requests of each protocol read and write with. While the node must not serve, each of them
// refuses requests with an error of its own protocol.
func (n *Node) openExecutors() {
	var coordinator request.Coordinator = n.coordinator
	if f := n.opts.faults.coordinator; f != nil {
		coordinator = f(coordinator)
	}
	n.executors.cql = request.New(request.Options{Coordinator: coordinator, Clock: n.clock, Authorizer: n.authorizer(), Refuse: n.clockRefusal})
	n.executors.tables = request.New(request.Options{Coordinator: n.coordinator, Clock: n.clock, Authorizer: n.authorizer(),
		Refuse: n.tablesRefusal})
}

// authorizer decides what clients and operators may do.
func (n *Node) authorizer() auth.Authorizer {
	if a := n.opts.faults.authorizer; a != nil {
		return a
	}
	return auth.AllowAll{}
}
