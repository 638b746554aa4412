package cluster

import (
	"cmp"
	"time"

	"cqld/cluster/metadata"
	"cqld/ring"
)

// How long a node must be dead before an operation no longer waits for it. If the node gains ranges of user keyspaces,
// it lacks their data until a repair, so this is longer than a restart takes. Ranges of system keyspaces never block an
// operation.
const (
	deadAfter         = 30 * time.Second // the default of Options.DeadAfter
	excuseSystemTicks = uint64(2 * time.Second / tickEvery)
	// excuseEvery is the number of ticks between two checks, which compute the gained ranges.
	excuseEvery = uint64(time.Second / tickEvery)
)

// excusable returns the nodes for which an operation should no longer wait. The leader's loop calls it.
func (p *Operations) excusable(m *metadata.Metadata, o *ring.Operation) (out []ring.NodeID) {
	for _, id := range o.Awaits() {
		dead := p.dead.For(id, p.loop.ticks)
		// A node that was declared lost never returns.
		if m.IsLost(id) && !o.Needs(id) {
			out = append(out, id)
			continue
		}
		// The nodes that get tokens are never excused.
		if o.Needs(id) || dead < excuseSystemTicks || !m.MayExcuse(o, id) {
			continue
		}
		// A node that gains only ranges of system keyspaces misses no user data.
		if dead >= uint64(cmp.Or(p.opts.DeadAfter, deadAfter)/tickEvery) || len(m.GainedBy(o, id)) == 0 {
			out = append(out, id)
		}
	}
	return out
}
