package rebalance

import (
	"testing"

	"cqld/ring"
)

// TestNoSourcesForANodeThatIsNoMember plans a range after the operation was aborted, when its node or a source of the
// range has left the ring: no stream starts, and nothing panics. The simulation found this bug (seed 61).
func TestNoSourcesForANodeThatIsNoMember(t *testing.T) {
	member := &ring.Node{ID: 2, Datacenter: "dc1", Rack: "r1", State: ring.Normal, Tokens: []ring.Token{7}}
	v := &view{self: 9, topology: ring.NewTopology(5, []*ring.Node{member})}
	m := &movement{m: &moveMachine{view: v}, operation: &ring.Operation{ID: 1}}
	gain := ring.Gain{Node: 9, Sources: []ring.NodeID{2}, Total: 1, Local: 1}
	if from, ok := m.sources(gain); ok || len(from) != 0 {
		t.Errorf("node 9, which is no member, fetches from %v, %v", from, ok)
	}
	v.self, gain = 2, ring.Gain{Node: 2, Sources: []ring.NodeID{9}, Total: 1}
	if from, ok := m.sources(gain); ok || len(from) != 0 {
		t.Errorf("from node 9, which is no member, %v are fetched, %v", from, ok)
	}
}
