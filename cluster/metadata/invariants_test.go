package metadata

import (
	"testing"

	"cqld/internal/invariant"
	"cqld/internal/invariant/invarianttest"
	"cqld/ring"
	"cqld/schema"
)

// TestInvariantsFire violates each invariant that commands preserve, as a bug in an apply function would.
func TestInvariantsFire(t *testing.T) {
	refused := &Refused{Reason: "refused"}
	base := func() *Metadata {
		m := *Empty()
		m.Epoch, m.nextNode = 9, 3
		m.Topology = ring.NewTopology(7, nil)
		return &m
	}
	for name, c := range map[string]struct {
		breaks    func(after *Metadata)
		err       error
		expensive bool
	}{
		"epoch goes back":     {func(m *Metadata) { m.Epoch = 8 }, nil, false},
		"topology goes back":  {func(m *Metadata) { m.Topology = ring.NewTopology(6, nil) }, nil, false},
		"topology ahead":      {func(m *Metadata) { m.Topology = ring.NewTopology(10, nil) }, nil, false},
		"node id given again": {func(m *Metadata) { m.nextNode = 2 }, nil, false},
		"recent commands":     {func(m *Metadata) { m.recent = make([]CommandID, recentMax+1) }, nil, false},
		"former members":      {func(m *Metadata) { m.Removed = make([]Removed, removedMax+1) }, nil, false},
		"former replications": {func(m *Metadata) { m.Former = make([]Former, formerMax+1) }, nil, false},
		"incomplete operations": {func(m *Metadata) { m.Incomplete = make([]Incomplete, incompleteMax+1) }, nil,
			false},
		"refusal with an epoch":    {func(m *Metadata) { m.Epoch = 10 }, refused, false},
		"refusal with a schema":    {func(m *Metadata) { m.Schema = schema.Initial() }, refused, false},
		"low bound falls":          {func(m *Metadata) { m.PaxosFloors = map[schema.StorageID]int64{1: 4} }, nil, true},
		"cleanup of a stranger":    {func(m *Metadata) { m.PendingCleanup = []PendingCleanup{{Node: 5}} }, nil, true},
		"operation of a stranger":  {func(m *Metadata) { m.Topology = operating(5, 0) }, nil, true},
		"streamed without a range": {func(m *Metadata) { m.Topology = operating(1, 2) }, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			if c.expensive && !invariant.Enabled {
				t.Skip("this build does not check expensive invariants")
			}
			before, after := base(), base()
			before.Schema = after.Schema
			before.PaxosFloors = map[schema.StorageID]int64{1: 5}
			after.PaxosFloors = before.PaxosFloors
			c.breaks(after)
			invarianttest.Fires(t, func() { checkStep(before, after, c.err) }, "")
		})
	}
	t.Run("command of the past", func(t *testing.T) {
		invarianttest.Fires(t, func() { _, _ = Apply(base(), &Command{ID: CommandID{1}}, 9) }, "")
	})
}

// operating returns a topology of node 1 with an operation of a node, which more nodes have streamed than gain ranges.
func operating(node ring.NodeID, streamed int) *ring.Topology {
	o := &ring.Operation{ID: 7, Kind: ring.Leave, Node: node, Phase: ring.Streaming,
		Streamed: make([]ring.NodeID, streamed)}
	n := &ring.Node{ID: 1, Datacenter: "a", Rack: "r", State: ring.Normal, Tokens: []ring.Token{1}}
	return ring.NewMovingTopology(7, 7, []*ring.Node{n}, []*ring.Operation{o})
}
