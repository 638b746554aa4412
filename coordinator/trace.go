package coordinator

import (
	"slices"
	"sync"
	"time"

	"cqld/ring"
)

// Trace observes the execution of one request. It is nil for a request that is not observed. It is safe for concurrent
// use, and no method blocks.
type Trace interface {
	// Contact notes that a request is sent to a replica of the data, on this node or another one.
	Contact(node ring.NodeID)
	// Detailed reports whether events are recorded. If not, the other methods have no effect, and replicas record no events.
	Detailed() bool
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

// Contacts is the set of replicas that a request was sent to. The zero value is empty. Its methods are safe for concurrent use.
type Contacts struct {
	mu    sync.Mutex
	nodes []ring.NodeID
}

func (c *Contacts) add(node ring.NodeID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.Contains(c.nodes, node) {
		c.nodes = append(c.nodes, node)
	}
}

// Nodes returns the replicas, in ascending order.
func (c *Contacts) Nodes() []ring.NodeID {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(slices.Values(c.nodes))
}

// Observe returns a Trace that adds contacts to c and passes events on to events, which may be nil.
func (c *Contacts) Observe(events Trace) Trace { return &contactTrace{c, events} }

// contactTrace implements Trace for Contacts.Observe.
type contactTrace struct {
	contacts *Contacts
	events   Trace // nil means that no events are recorded
}

// Contact implements Trace.
func (t *contactTrace) Contact(node ring.NodeID) { t.contacts.add(node) }

// Detailed implements Trace.
func (t *contactTrace) Detailed() bool { return t.events != nil && t.events.Detailed() }

// Add implements Trace.
func (t *contactTrace) Add(source ring.NodeID, activity string) { trace(t.events, source, activity) }

// AddNode implements Trace.
func (t *contactTrace) AddNode(source ring.NodeID, activity string, node ring.NodeID) {
	traceNode(t.events, source, activity, node)
}

// Asked implements Trace.
func (t *contactTrace) Asked(node ring.NodeID) func([]TraceEvent) {
	if t.events == nil {
		return func([]TraceEvent) {}
	}
	return t.events.Asked(node)
}

// contact adds a replica to a request's trace, which may be nil.
func contact(t Trace, node ring.NodeID) {
	if t != nil {
		t.Contact(node)
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

// Contact implements Trace.
func (ts traces) Contact(node ring.NodeID) {
	for _, t := range ts {
		t.Contact(node)
	}
}

// Detailed implements Trace.
func (ts traces) Detailed() bool { return slices.ContainsFunc(ts, Trace.Detailed) }

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
