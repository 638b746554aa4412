package node

import (
	"fmt"
	"time"

	"cqld/query/invalid"
	"cqld/request"
	"cqld/view"
)

// clockRefusal returns why this node must not serve requests because of its clock, or nil if it may. It is called for
// each request. The offset is measured by heartbeats and compared with a bound by cluster; here, it is read without a
// lock. Only a clock that is ahead is refused: its timestamps would win over later writes of other nodes.
func (n *Node) clockRefusal() error {
	ahead, tooFar := n.cluster.ClockOffset()
	if !tooFar {
		return nil
	}
	return &invalid.NotServing{Msg: fmt.Sprintf("this node's clock is %v ahead of the other nodes",
		ahead.Round(time.Millisecond))}
}

// openExecutors opens the request executor of each protocol. While the node must not serve, each of them refuses
// requests with an error of its own protocol. CQL writes also update materialized views, so they pass through Views;
// Azure Tables have none. Both executors share Room, the bound on writes that wait for the disk, and the counts by
// table, but each counts its own requests, because the metrics distinguish the protocols.
func (n *Node) openExecutors() {
	var proposer request.Proposer = n.parts.Proposer
	if f := n.faults.proposer; f != nil {
		proposer = f(proposer)
	}
	// Conditional changes of CQL may also change views.
	proposer = view.Serial{Proposer: proposer, Reader: n.parts.Views}
	n.executors.cql = request.New(request.Options{Coordinator: n.parts.Views, Lister: n.parts.Lister,
		Searcher: n.parts.Searcher, Batches: n.parts.Batches, Counters: n.parts.Counters, Proposer: proposer,
		Clock: n.clock, Room: n.room,
		Authorizer: n.clientAuthorizer(), Refuse: n.clockRefusal, Tables: n.measured.Coordinated})
	n.executors.tables = request.New(request.Options{Coordinator: n.parts.Coordinator, Lister: n.parts.Lister,
		Searcher: n.parts.Searcher, Batches: n.parts.Batches, Counters: n.parts.Counters, Proposer: n.parts.Proposer,
		Clock: n.clock, Room: n.room,
		Authorizer: n.clientAuthorizer(), Refuse: tablesRefusal(n.clockRefusal), Tables: n.measured.Coordinated})
}
