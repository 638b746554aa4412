package liveness

import (
	"maps"

	"cqld/internal/invariant"
	"cqld/ring"
)

// Dead records since when members have been dead in this node's view. It is used by one goroutine.
type Dead struct{ since map[ring.NodeID]uint64 }

// Note compares the members of t with the current view at a tick. A member that this process never saw alive counts as
// dead from the first call.
func (d *Dead) Note(t *ring.Topology, alive func(ring.NodeID) bool, tick uint64) {
	// The zero value is ready for use.
	if d.since == nil {
		d.since = map[ring.NodeID]uint64{}
	}
	// A member that was alive in between starts again from zero.
	maps.DeleteFunc(d.since, func(id ring.NodeID, _ uint64) bool { return t.Node(id) == nil || alive(id) })
	for _, n := range t.Nodes() {
		if _, known := d.since[n.ID]; !known && !alive(n.ID) {
			d.since[n.ID] = tick
		}
	}
}

// For returns for how many ticks a member has been dead; zero means that it is alive.
func (d *Dead) For(id ring.NodeID, tick uint64) uint64 {
	since, dead := d.since[id]
	if !dead {
		return 0
	}
	// At least one tick, because zero means alive.
	invariant.Check(tick >= since, "liveness: a member is dead since tick %d at tick %d", since, tick)
	return max(1, tick-since)
}
