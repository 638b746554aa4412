package cluster

import (
	"time"

	"cqld/cluster/metadata"
	"cqld/messaging"
	"cqld/ring"
)

// A recovery (package cluster/recovery) begins a new cluster with the metadata of the surviving nodes. The members that
// it declared lost remain in the topology until their ranges have moved, but not in any other role: they are not peers,
// they do not vote, and no operation waits for them. The leader removes them one after the other.

// lineage returns how a node identifies its cluster to other nodes.
func lineage(recoveries []metadata.Recovery) messaging.Lineage {
	l := messaging.Lineage{Notice: metadata.Notice(recoveries)}
	for _, r := range recoveries {
		l.Recoveries = append(l.Recoveries, r.ID)
	}
	return l
}

// Superseded stops this node, because a recovered cluster continues without it. The network calls it with the notice of
// a member of that cluster. It is safe for concurrent use.
func (c *Cluster) Superseded(notice string) {
	// If the queue is full, the next connection delivers the notice again.
	c.loop.post(func() {
		// Before this node is a member, the notice concerns another node that had its address.
		if c.Self() == 0 {
			return
		}
		refused := &metadata.Refused{Reason: notice}
		if c.joining != nil {
			c.joining.end(refused)
			return
		}
		// The previous cluster may still have a majority, but the recovered cluster does not have its decisions.
		c.opts.Fatal(refused)
	})
}

// removeLost starts the removal of the next member that was declared lost, unless the ring is already changing. The
// leader calls it.
func (p *Operations) removeLost(m *metadata.Metadata) {
	if !p.loop.due(removeLostEvery) || len(m.Topology.Operations()) > 0 {
		return
	}
	lost := m.Lost()
	if len(lost) == 0 {
		return
	}
	name := m.Topology.NameOf(lost[0])
	// Forced, because a range without another replica is lost anyway. If the command is refused, the next check repeats
	// it.
	begin := &metadata.Begin{Kind: ring.Remove, Node: lost[0], Force: true}
	p.proposals.start(&metadata.Command{Begin: begin}, func(err error) {
		if err != nil {
			p.opts.Logger.Warn("removal of a lost node did not begin", "node", name, "err", err)
			return
		}
		p.opts.Logger.Info("removing a node that was declared lost", "node", name, "remaining", len(lost))
	})
}

// removeLostEvery is the number of ticks between two checks for lost members.
const removeLostEvery = uint64(time.Second / tickEvery)
