package cluster

import (
	"cmp"
	"time"

	"cqld/cluster/metadata"
	"cqld/ring"
)

// How long a node is dead before an operation no longer waits for it. A node that gains ranges of users lacks their
// data afterwards until a repair, so this is longer than a restart takes; ranges of system keyspaces block nothing.
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
		// A node that was declared lost does not return.
		if m.IsLost(id) && id != o.Node {
			out = append(out, id)
			continue
		}
		// The node of the operation is never excused.
		if id == o.Node || dead < excuseSystemTicks || !m.MayExcuse(o, id) {
			continue
		}
		// Gaining only ranges of system keyspaces, a node loses nothing that a client stored.
		if dead >= uint64(cmp.Or(p.opts.DeadAfter, deadAfter)/tickEvery) || len(m.GainedBy(o, id)) == 0 {
			out = append(out, id)
		}
	}
	return out
}
