package coordinator

import (
	"cqld/ring"
	"cqld/schema"
)

// Functions shared with the packages above this one: which replicas own a token, and the meaning of a replica's error.

// ReplicasOf returns the replicas of a token of a table in topology t. The only replica of a keyspace of LocalStrategy
// is this node, self.
func ReplicasOf(self ring.NodeID, t *ring.Topology, table *schema.Table, token ring.Token) ring.ReplicaSet {
	if table.Replication.Class == ring.Local {
		// Such keyspaces contain data of a node about itself.
		return ring.ReplicaSet{Natural: []ring.NodeID{self}}
	}
	return t.Placement(table.Replication).Replicas(token)
}

// OnlySelf reports whether this node, self, is the only replica of a token of a table.
func OnlySelf(self ring.NodeID, t *ring.Topology, table *schema.Table, token ring.Token) bool {
	if table.Replication.Class == ring.Local {
		return true
	}
	s := t.Placement(table.Replication).Replicas(token)
	// A pending replica must receive writes, too.
	return len(s.Natural) == 1 && len(s.Pending) == 0 && s.Natural[0] == self
}

// Silent reports whether err means that a replica did not answer, rather than that it failed.
func Silent(err error) bool { return silent(err) }

// ReasonOf returns the reason of a replica's failure for the client.
func ReasonOf(err error) FailureReason { return reasonOf(err) }

// TracesOf merges the traces of requests that are executed together; nil means that none is traced.
func TracesOf[R any](requests []R, of func(R) Trace) Trace { return tracesOf(requests, of) }

// AddTrace adds an event to a request's trace, which may be nil.
func AddTrace(t Trace, source ring.NodeID, activity string) { trace(t, source, activity) }

// AddContact adds a replica to a request's trace, which may be nil.
func AddContact(t Trace, node ring.NodeID) { contact(t, node) }

// AddNodeTrace adds an event that concerns another node to a request's trace, which may be nil.
func AddNodeTrace(t Trace, source ring.NodeID, activity string, node ring.NodeID) {
	traceNode(t, source, activity, node)
}
