package coordinator_test

import (
	"slices"
	"testing"

	"cqld/coordinator"
	"cqld/ring"
)

// events is a Trace that counts events.
type events struct{ activities, asked int }

func (e *events) Contact(ring.NodeID)                      {}
func (e *events) Read(coordinator.Reads)                   {}
func (e *events) Detailed() bool                           { return true }
func (e *events) Add(ring.NodeID, string)                  { e.activities++ }
func (e *events) AddNode(ring.NodeID, string, ring.NodeID) { e.activities++ }
func (e *events) Asked(ring.NodeID) func([]coordinator.TraceEvent) {
	return func([]coordinator.TraceEvent) { e.asked++ }
}

// traceable is a replica that counts for how many requests it records events.
type traceable struct {
	coordinator.Replica
	traced *int
}

func (r traceable) Traced(coordinator.Trace) coordinator.Replica {
	*r.traced++
	return r
}

// oneReplica implements Replicas with the same replica for each node.
type oneReplica struct{ traceable }

func (r oneReplica) Replica(ring.NodeID) coordinator.Replica { return r.traceable }

// TestObservationsRecordNoEvents: an observed request costs replicas nothing; one that is traced, too, gets events.
func TestObservationsRecordNoEvents(t *testing.T) {
	for _, traced := range []bool{false, true} {
		var o coordinator.Observation
		e, n := &events{}, 0
		observer := o.Observe(nil)
		if traced {
			observer = o.Observe(e)
		}
		// Requests that are executed together share a trace.
		joined := coordinator.TracesOf([]coordinator.Trace{nil, observer},
			func(t coordinator.Trace) coordinator.Trace { return t })
		for _, trace := range []coordinator.Trace{observer, joined} {
			coordinator.TracedReplica(oneReplica{traceable{traced: &n}}, 7, trace)
			coordinator.AddContact(trace, 3)
			coordinator.AddTrace(trace, 1, "activity")
			coordinator.AddNodeTrace(trace, 1, "activity of", 3)
			trace.Read(coordinator.Reads{Rows: 1, Bytes: 10})
			trace.Asked(3)(nil)
			if trace.Detailed() != traced {
				t.Errorf("traced %t: detailed is %t", traced, trace.Detailed())
			}
		}
		want, replicas := events{}, 0
		if traced {
			want, replicas = events{activities: 4, asked: 2}, 2
		}
		if *e != want || n != replicas {
			t.Errorf("traced %t: events %+v, %d replicas record some, want %+v, %d", traced, *e, n, want, replicas)
		}
		if nodes := o.Nodes(); !slices.Equal(nodes, []ring.NodeID{3, 7}) {
			t.Errorf("traced %t: contacts %v", traced, nodes)
		}
		if got, again := o.TakeReads(), o.TakeReads(); got != (coordinator.Reads{Rows: 2, Bytes: 20}) ||
			again != (coordinator.Reads{}) {
			t.Errorf("traced %t: reads %+v, and again %+v", traced, got, again)
		}
	}
	coordinator.AddContact(nil, 1) // most requests have no trace
}
