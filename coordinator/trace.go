package coordinator

import (
	"slices"
	"sync"
	"time"

	"cqld/ring"
	"cqld/row"
)

// Trace observes the execution of one request. It is nil for a request that is not observed. It is safe for concurrent
// use, and no method blocks.
type Trace interface {
	// Contact notes that a request is sent to a replica of the data, on this node or another one.
	Contact(node ring.NodeID)
	// Read notes what a replica has read before it applied a write.
	Read(Reads)
	// Detailed reports whether events are recorded. If not, the methods below have no effect, and replicas record no
	// events.
	Detailed() bool
	// Add notes an event of a node at the present time.
	Add(source ring.NodeID, activity string)
	// AddNode is Add for an activity to whose text the name of node is appended.
	AddNode(source ring.NodeID, activity string, node ring.NodeID)
	// Asked records that a request was sent to a node. answered is called once: with the events of that node if they
	// arrive with its answer, with none if it does not answer.
	Asked(node ring.NodeID) (answered func([]TraceEvent))
}

// TraceEvent is an event that another node has recorded.
type TraceEvent struct {
	Elapsed  time.Duration // since that node received the request
	Activity string
}

// TraceableReplica is a Replica that can record the events of a traced request at its node.
type TraceableReplica interface {
	// Traced returns the replica for one request; it implements all interfaces of the replica.
	Traced(Trace) Replica
}

// replica returns a node's replica for a request whose trace is t.
func (c *Coordinator) replica(node ring.NodeID, t Trace) Replica {
	return TracedReplica(c.replicas, node, t)
}

// trace adds an event to a request's trace, which is nil for most requests.
func trace(t Trace, source ring.NodeID, activity string) {
	if t != nil {
		t.Add(source, activity)
	}
}

// traceNode is trace for an activity that concerns another node.
func traceNode(t Trace, source ring.NodeID, activity string, node ring.NodeID) {
	if t != nil {
		t.AddNode(source, activity, node)
	}
}

// Reads counts what was read for a write: live rows; deleted and expired rows, and bounds of range tombstones;
// partitions; read commands; and the bytes of the pages that answered these.
type Reads struct{ Rows, Tombstones, Partitions, Commands, Bytes int }

// ReadsOf counts a page that answers one command, as of now, in seconds.
func ReadsOf(page []byte, now int64) Reads {
	// Counted from the encoded page, which costs a pass over it.
	rows, tombstones, partitions := row.CountPage(page, now)
	return Reads{Rows: rows, Tombstones: tombstones, Partitions: partitions, Commands: 1, Bytes: len(page)}
}

// Plus returns the sum of r and x.
func (r Reads) Plus(x Reads) Reads {
	return Reads{r.Rows + x.Rows, r.Tombstones + x.Tombstones, r.Partitions + x.Partitions, r.Commands + x.Commands,
		r.Bytes + x.Bytes}
}

// Observation records which replicas a request was sent to, and what its writes read. The zero value is empty. Its
// methods are safe for concurrent use.
type Observation struct {
	mu    sync.Mutex
	nodes []ring.NodeID
	reads Reads
}

// contact adds a replica, once.
func (o *Observation) contact(node ring.NodeID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !slices.Contains(o.nodes, node) {
		o.nodes = append(o.nodes, node)
	}
}

// AddReads adds what a write has read.
func (o *Observation) AddReads(r Reads) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.reads = o.reads.Plus(r)
}

// TakeReads returns what writes have read since the last call.
func (o *Observation) TakeReads() Reads {
	o.mu.Lock()
	defer o.mu.Unlock()
	r := o.reads
	// Each count is taken once.
	o.reads = Reads{}
	return r
}

// Nodes returns the replicas, in ascending order.
func (o *Observation) Nodes() []ring.NodeID {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Sorted(slices.Values(o.nodes))
}

// Observe returns a Trace that records in o, and passes events on to events, which may be nil.
func (o *Observation) Observe(events Trace) Trace { return &observer{o, events} }

// observer implements Trace for Observation.Observe.
type observer struct {
	observation *Observation
	events      Trace // nil means that no events are recorded
}

// Contact implements Trace.
func (t *observer) Contact(node ring.NodeID) { t.observation.contact(node) }

// Read implements Trace.
func (t *observer) Read(r Reads) { t.observation.AddReads(r) }

// Detailed implements Trace.
func (t *observer) Detailed() bool { return t.events != nil && t.events.Detailed() }

// Add implements Trace.
func (t *observer) Add(source ring.NodeID, activity string) { trace(t.events, source, activity) }

// AddNode implements Trace.
func (t *observer) AddNode(source ring.NodeID, activity string, node ring.NodeID) {
	traceNode(t.events, source, activity, node)
}

// Asked implements Trace.
func (t *observer) Asked(node ring.NodeID) func([]TraceEvent) {
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

// tracesOf returns the combined traces of requests; nil means that none is traced.
func tracesOf[R any](requests []R, of func(R) Trace) Trace {
	var ts traces
	for _, r := range requests {
		if t := of(r); t != nil {
			ts = append(ts, t)
		}
	}
	// Not an empty list: a nil Trace is what the callers compare with.
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

// Read implements Trace.
func (ts traces) Read(r Reads) {
	for _, t := range ts {
		t.Read(r)
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
