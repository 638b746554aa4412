package cluster

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"go.etcd.io/raft/v3"

	"cqld/ring"
)

// How often the loop determines what operations wait for, how long an operation may wait for the same before that is
// logged, and the interval of the log messages, in ticks.
const (
	waitsEvery    = uint64(time.Second / tickEvery)
	waitsLogTicks = uint64(10 * time.Second / tickEvery)
	waitsLogEvery = uint64(time.Minute / tickEvery)
)

// operationStep is what an operation waits for, and the ticks since which it does, and of the last log message.
type operationStep struct {
	waits         string
	since, logged uint64
}

// Waits describes what an operation in progress waits for; it is empty if this node does not know. It is safe for
// concurrent use.
func (c *Cluster) Waits(operation uint64) string {
	if all := c.waits.Load(); all != nil {
		return (*all)[operation]
	}
	return ""
}

// noteWaits determines what the operations wait for, and logs that on the leader and on the node of the operation.
func (c *Cluster) noteWaits() {
	m := c.Metadata()
	if len(m.Topology.Operations()) == 0 {
		if len(c.steps) > 0 {
			clear(c.steps)
			c.waits.Store(nil)
		}
		return
	}
	if c.driver == nil || c.ticks%waitsEvery != 0 {
		return
	}
	maps.DeleteFunc(c.steps, func(id uint64, _ operationStep) bool { return m.Topology.Operation(id) == nil })
	all := map[uint64]string{}
	for _, o := range m.Topology.Operations() {
		s := c.steps[o.ID]
		if now := c.waitsFor(m, o); now != s.waits || s.since == 0 {
			s = operationStep{waits: now, since: c.ticks}
		}
		mine := o.Node == c.Self() || c.driver.node.BasicStatus().RaftState == raft.StateLeader
		if mine && c.ticks-s.since >= waitsLogTicks && (s.logged == 0 || c.ticks-s.logged >= waitsLogEvery) {
			s.logged = c.ticks
			c.opts.Logger.Warn("operation of the ring waits", "operation", o.ID, "kind", o.Kind, "node",
				m.Topology.NameOf(o.Node),
				"phase", o.Phase, "for", s.waits)
		}
		c.steps[o.ID] = s
		all[o.ID] = s.waits
	}
	c.waits.Store(&all)
}

// waitsFor describes the next step of an operation.
func (c *Cluster) waitsFor(m *Metadata, o *ring.Operation) string {
	if err := c.MajorityError(); err != nil {
		return err.Error()
	}
	if o.Phase == ring.Switching && !o.Known {
		live, dead := c.unaware(m, o)
		switch {
		case len(live) > 0:
			return "live nodes to apply it: " + c.describeNodes(live)
		case len(dead) > 0:
			return "one of these dead nodes, which form a quorum of replicas that does not know of it, to start: " +
				c.describeNodes(dead)
		}
		return "the leader of the metadata"
	}
	if nodes := o.Awaits(); len(nodes) > 0 {
		verb := "stream"
		if o.Phase == ring.Switching {
			verb = "compare"
		}
		return fmt.Sprintf("nodes to %s the ranges that they gain: %s", verb, c.describeNodes(nodes))
	}
	if o.Hands && !o.Handed {
		return m.Topology.NameOf(o.Node) + " to hand over its batches and hints"
	}
	return "the leader of the metadata"
}

// describeNodes lists members, and which of them are down.
func (c *Cluster) describeNodes(ids []ring.NodeID) string {
	t := c.Metadata().Topology
	var parts []string
	for _, id := range slices.Sorted(slices.Values(ids)) {
		name := t.NameOf(id)
		if !c.Alive(id) {
			name += " (down)"
		}
		parts = append(parts, name)
	}
	return strings.Join(parts, ", ")
}
