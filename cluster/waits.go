package cluster

import (
	"fmt"
	"maps"
	"time"

	"cqld/cluster/metadata"
	"cqld/ring"
)

// How often the loop determines what operations wait for, how long a wait must last before it is logged, and the
// interval of the log messages, in ticks.
const (
	waitsEvery    = uint64(time.Second / tickEvery)
	waitsLogTicks = uint64(10 * time.Second / tickEvery)
	waitsLogEvery = uint64(time.Minute / tickEvery)
)

// operationStep is what an operation waits for, since which tick, and the tick of the last log message.
type operationStep struct {
	waits         string
	since, logged uint64
}

// Waits describes what an operation in progress waits for, or returns "" if this node does not know. It is safe for
// concurrent use.
func (p *Operations) Waits(operation uint64) string {
	if all := p.waits.Load(); all != nil {
		return (*all)[operation]
	}
	return ""
}

// noteWaits determines what the operations wait for. The leader, and the node of the operation, log long waits.
func (p *Operations) noteWaits() {
	m := p.view.metadata()
	if len(m.Topology.Operations()) == 0 {
		if len(p.steps) > 0 {
			// Nothing is in progress, which is the usual case.
			clear(p.steps)
			p.waits.Store(nil)
		}
		return
	}
	if !p.driver.started() || p.loop.ticks%waitsEvery != 0 {
		return
	}
	maps.DeleteFunc(p.steps, func(id uint64, _ operationStep) bool { return m.Topology.Operation(id) == nil })
	all := map[uint64]string{}
	for _, o := range m.Topology.Operations() {
		s := p.steps[o.ID]
		if now := p.waitsFor(m, o); now != s.waits || s.since == 0 {
			s = operationStep{waits: now, since: p.loop.ticks}
		}
		// The operator of an operation usually watches its node's log.
		mine := o.Node == p.view.self() || p.driver.leads()
		if mine && p.loop.ticks-s.since >= waitsLogTicks && (s.logged == 0 || p.loop.ticks-s.logged >= waitsLogEvery) {
			s.logged = p.loop.ticks
			p.opts.Logger.Warn("operation of the ring waits", "operation", o.ID, "kind", o.Kind, "node",
				m.Topology.NameOf(o.Node),
				"phase", o.Phase, "for", s.waits)
		}
		p.steps[o.ID] = s
		all[o.ID] = s.waits
	}
	// A new map, because readers share the previous one.
	p.waits.Store(&all)
}

// waitsFor describes the next step of an operation.
func (p *Operations) waitsFor(m *metadata.Metadata, o *ring.Operation) string {
	// Without a majority no operation continues, so this is reported first.
	if err := p.majority.describe(p.majority.shown.Load()); err != nil {
		return err.Error()
	}
	if o.Phase == ring.Switching && !o.Known {
		live, dead := p.unaware(m, o)
		switch {
		case len(live) > 0:
			return "live nodes to apply it: " + p.view.describeNodes(live)
		case len(dead) > 0:
			return "one of these dead nodes, which form a quorum of replicas that does not know of it, to start: " +
				p.view.describeNodes(dead)
		}
		return "the leader of the metadata"
	}
	if nodes := o.Awaits(); len(nodes) > 0 {
		verb := "stream"
		if o.Phase == ring.Switching {
			verb = "compare"
		}
		return fmt.Sprintf("nodes to %s the ranges that they gain: %s", verb, p.view.describeNodes(nodes))
	}
	if o.Hands && !o.Handed {
		return m.Topology.NameOf(o.Node) + " to hand over its batches and hints"
	}
	return "the leader of the metadata"
}
