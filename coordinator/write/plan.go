package write

import (
	"time"

	"cqld/ring"
	"cqld/row"
)

// plan determines the replicas of every mutation in the present topology and reports whether enough are alive. If not,
// the returned Outcome says why.
func (w *Machine) plan() (failed Outcome, ok bool) {
	c := w.config
	w.plans++
	w.refused = false
	w.Topology = c.View.Topology()
	catalog := c.View.Schema()
	w.targets = w.targets[:0]
	// The tallies keep their memory: a write of one mutation allocates none.
	if cap(w.parts) < len(w.Mutations) {
		w.parts = make([]part, len(w.Mutations))
	}
	w.parts = w.parts[:len(w.Mutations)]
	w.unmet = len(w.parts)
	// Each mutation has its own replicas and counts its own acknowledgements; a node that is a replica of several gets
	// them in one request.
	for i, m := range w.Mutations {
		table := catalog.TableByStorage(m.Table)
		if table == nil {
			return Outcome{Kind: UnknownTable, Table: m.Table}, false
		}
		p := &w.parts[i]
		p.met = false
		p.tally.Reset(w.Level, table.Replication, w.Topology, w.Self, c.LocalDatacenter)
		set := c.Replicas(w.Topology, table, m.Key.Token)
		p.tally.Join(set)
		// Pending replicas receive the write, too: they have no other source of it once they own the range.
		for _, node := range set.Natural {
			w.assign(i, m, node)
		}
		for _, node := range set.Pending {
			w.assign(i, m, node)
		}
		// Checked before anything is sent, so that Unavailable certainly means that nothing was applied.
		if q := p.tally.Short(); q != nil && !w.hintsSuffice(len(set.Natural)) {
			return Outcome{Kind: Unavailable, Required: q.Need, Received: q.Open}, false
		}
	}
	return Outcome{}, true
}

// hintsSuffice reports whether hints alone satisfy the level.
func (w *Machine) hintsSuffice(replicas int) bool {
	return w.Level == ring.Any && w.config.HintsKept && replicas > 0 && w.config.SatisfyAny()
}

// assign adds mutation i to the target of node.
func (w *Machine) assign(i int, m *row.Mutation, node ring.NodeID) {
	t := w.target(node)
	t.Mutations, t.parts = append(t.Mutations, m), append(t.parts, i)
	if t.alive {
		w.parts[i].tally.Opened(node)
	}
}

// target returns the target of node in the present plan, and adds it if necessary.
func (w *Machine) target(node ring.NodeID) *Target {
	// Writes have few targets, so a search is faster than a map.
	for _, t := range w.targets {
		if t.Node == node {
			return t
		}
	}
	var t *Target
	if n := len(w.spare); n > 0 {
		t, w.spare = w.spare[n-1], w.spare[:n-1]
	} else {
		t = new(Target)
	}
	t.Node, t.plan, t.State, t.hinted, t.kept, t.answer = node, w.plans, Open, false, false, Silent
	// Liveness is read once for each node, so that all decisions about a plan agree.
	t.alive = node == w.Self || w.config.View.Alive(node)
	t.Mutations, t.parts = t.Mutations[:0], t.parts[:0]
	w.targets = append(w.targets, t)
	return t
}

// Only returns the target of this node, which is the only replica of the write. The caller sends it the mutations
// without a plan and without steps, and answers the client with its answer.
func (w *Machine) Only() *Target {
	w.targets = w.targets[:0]
	t := w.target(w.Self)
	t.Mutations = append(t.Mutations, w.Mutations...)
	return t
}

// arrives reports whether a write that could not be planned may wait: it lacks replicas only until a new node's first
// heartbeat. From its admission on, writes must meet their level among the replicas that include the node.
func (w *Machine) arrives(failed *Outcome, now time.Duration) bool {
	return w.config.AwaitingFirstHeartbeat != nil && failed.Kind == Unavailable &&
		now+w.config.ArrivalPause < w.Deadline && w.config.AwaitingFirstHeartbeat()
}

// mayReplan reports whether another plan may follow.
func (w *Machine) mayReplan() bool { return !w.ended && w.plans < w.config.PlansMax }

// outdated reports whether this node knows of a later ring change than the plan: its replicas may have left the ring.
func (w *Machine) outdated() bool { return w.config.View.Topology().Moved() > w.Topology.Epoch() }
