package liveness

import (
	"testing"

	"cqld/internal/invariant/invarianttest"
	"cqld/ring"
)

// TestDeadMembersCountFromTheirDeath follows a member that is alive, dead, alive and dead again, and one that leaves.
func TestDeadMembersCountFromTheirDeath(t *testing.T) {
	both := ring.NewTopology(1, []*ring.Node{{ID: 1}, {ID: 2}})
	var d Dead
	alive := map[ring.NodeID]bool{1: true, 2: true}
	at := func(topology *ring.Topology, tick uint64) uint64 {
		d.Note(topology, func(id ring.NodeID) bool { return alive[id] }, tick)
		return d.For(2, tick)
	}
	if got := at(both, 5); got != 0 {
		t.Errorf("a live member is dead for %d ticks", got)
	}
	alive[2] = false
	if a, b := at(both, 10), at(both, 17); a != 1 || b != 7 {
		t.Errorf("a dead member is dead for %d, then %d ticks", a, b)
	}
	alive[2] = true
	at(both, 18)
	alive[2] = false
	if a, b := at(both, 20), at(both, 21); a != 1 || b != 1 {
		t.Errorf("a member that returned in between is dead for %d, then %d ticks", a, b)
	}
	if got := at(ring.NewTopology(2, []*ring.Node{{ID: 1}}), 30); got != 0 {
		t.Errorf("a node that has left is dead for %d ticks", got)
	}
}

// TestInvariantsFire requests the time of death at a tick before it.
func TestInvariantsFire(t *testing.T) {
	d := Dead{since: map[ring.NodeID]uint64{2: 9}}
	invarianttest.Fires(t, func() { d.For(2, 8) }, "")
}
