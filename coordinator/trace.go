package coordinator

import (
	"time"

	"cqld/ring"
)

// Trace receives the events of a traced request. It is nil for a request that is not traced. It is safe for concurrent
// use, and no method blocks.
type Trace interface {
	// Add notes an event of a node at the present time.
	Add(source ring.NodeID, activity string)
	// AddNode is Add of an activity that names another node behind it.
	AddNode(source ring.NodeID, activity string, node ring.NodeID)
	// Asked notes that a request was sent to a node. answered is called once: with the events of that node when they
	// come with its answer, with none when it does not answer.
	Asked(node ring.NodeID) (answered func([]TraceEvent))
}

// TraceEvent is an event that another node has noted.
type TraceEvent struct {
	Elapsed  time.Duration // since that node received the request
	Activity string
}

// TraceableReplica is a Replica that can note what its node does for a traced request.
type TraceableReplica interface {
	// Traced is the replica for one request; it has all interfaces of the replica.
	Traced(Trace) Replica
}

// replica is the replica that a node is, for a request whose trace is t.
func (c *Coordinator) replica(node ring.NodeID, t Trace) Replica {
	return TracedReplica(c.replicas, node, t)
}

// trace adds an event to a request's trace; most requests have none.
func trace(t Trace, source ring.NodeID, activity string) {
	if t != nil {
		t.Add(source, activity)
	}
}

// traceNode is trace of an activity that concerns another node.
func traceNode(t Trace, source ring.NodeID, activity string, node ring.NodeID) {
	if t != nil {
		t.AddNode(source, activity, node)
	}
}

// traces passes events on to the traces of several requests that are executed together.
type traces []Trace

// tracesOf is the traces of requests; nil when none is traced.
func tracesOf[R any](requests []R, of func(R) Trace) Trace {
	var ts traces
	for _, r := range requests {
		if t := of(r); t != nil {
			ts = append(ts, t)
		}
	}
	if ts == nil {
		return nil
	}
	return ts
}

// Add implements Trace.
func (ts traces) Add(source ring.NodeID, activity string) {
	for _, t := range ts {
		t.Add(source, activity)
	}
}

// AddNode implements Trace.
func (ts traces) AddNode(source ring.NodeID, activity string, node ring.NodeID) {
	for _, t := range ts {
		t.AddNode(source, activity, node)
	}
}

// Asked implements Trace.
func (ts traces) Asked(node ring.NodeID) func([]TraceEvent) {
	answered := make([]func([]TraceEvent), len(ts))
	for i, t := range ts {
		answered[i] = t.Asked(node)
	}
	return func(events []TraceEvent) {
		for _, f := range answered {
			f(events)
		}
	}
}
