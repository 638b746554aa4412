package cluster

import (
	"time"

	"cqld/cluster/liveness"
	"cqld/clusterversion"
	"cqld/internal/wire"
	"cqld/messaging"
	"cqld/ring"
	"cqld/schema"
)

// What clients read of the schema at different nodes. Drivers learn of a change from the answer to it or from an event,
// wait until system.local and system.peers of one node show one version, and then read system_schema at any node:
//
// 1. A node publishes metadata before it reports their index and version, and before clients get the event. It reads
//    the version and the tables from the same metadata.
// 2. A definition is answered after every live node has applied it. So is one that finds its effect made by another:
//    IF NOT EXISTS without effect, and the refusal of what exists.
// 3. The version of a peer is the last one that the peer has reported. A node that is alive for clients although this
//    node considers it dead, and that has therefore not been waited for, is then seen to lack the change.

// progress tracks up to which index each member has applied the log, and reports this node's index to the others: in
// every heartbeat, and immediately when it changes.
type progress struct {
	opts    *Options
	loop    *loop
	view    *view
	driver  *driver
	reports liveness.Reports
	clocks  liveness.Clocks
	changed func() // a member has applied more entries; called by the loop

	applied map[ring.NodeID]uint64 // only the loop uses it
}

// of returns the index up to which a member has applied the log, as far as this node knows.
func (p *progress) of(id ring.NodeID) uint64 { return p.applied[id] }

// everywhere reports whether all live members have applied the log up to index.
func (p *progress) everywhere(index uint64) bool {
	for _, n := range p.view.metadata().Topology.Nodes() {
		// A dead node applies the log before it serves again.
		if p.view.alive(n.ID) && p.applied[n.ID] < index {
			return false
		}
	}
	return true
}

// byMembers reports whether all members have applied the log up to index, also the ones that are dead.
func (p *progress) byMembers(index uint64) bool {
	for _, n := range p.view.metadata().Topology.Nodes() {
		// The last report of a dead node counts: it has not lost what it has applied.
		if p.applied[n.ID] < index {
			return false
		}
	}
	return true
}

// note reports to the peers that this node has applied the log up to index.
func (p *progress) note(index uint64) {
	p.applied[p.view.self()] = index
	// Sent immediately and not with the next heartbeat, because clients wait for it.
	p.broadcast(messaging.VerbApplied, p.appendVersions(wire.AppendUint64(nil, index)))
	p.changed()
}

// sendHeartbeats sends every peer a heartbeat with the index up to which this node has applied the log.
func (p *progress) sendHeartbeats() {
	if p.driver.started() && p.view.admitted() {
		var report []byte
		if p.opts.Load != nil {
			report = p.opts.Load.Beat()
		}
		p.broadcast(messaging.VerbHeartbeat, p.appendHeartbeat(nil, report))
	}
}

// sendHeartbeat sends a heartbeat to one peer. The loop calls it.
func (p *progress) sendHeartbeat(id ring.NodeID) {
	if p.driver.started() && p.view.admitted() {
		var report []byte
		if p.opts.Load != nil {
			report = p.opts.Load.Last()
		}
		p.opts.Network.Send(id, messaging.VerbHeartbeat, p.appendHeartbeat(nil, report))
	}
}

// appendHeartbeat appends the payload of a heartbeat with the current time, and with a report of this node's load
// unless it is nil.
func (p *progress) appendHeartbeat(b, report []byte) []byte {
	// Every heartbeat contains the index, because a report may be lost.
	b = wire.AppendUint64(b, p.driver.applied)
	b = p.appendVersions(wire.AppendInt64(b, p.opts.Clock.Now().UnixMicro()))
	if report == nil {
		return b
	}
	return wire.AppendBytes(b, report)
}

// appendVersions appends the version of the schema that this node has applied, and the cluster versions that it
// supports. liveness.TakeVersion and TakeVersions read them.
func (p *progress) appendVersions(b []byte) []byte {
	v := p.view.metadata().Schema.Version()
	return liveness.AppendVersions(append(b, v[:]...), p.opts.Versions)
}

// broadcast sends a message to all other members. Messages may be lost.
func (p *progress) broadcast(verb messaging.Verb, payload []byte) {
	self := p.view.self()
	for _, n := range p.view.metadata().Topology.Nodes() {
		if n.ID != self {
			p.opts.Network.Send(n.ID, verb, payload)
		}
	}
}

// handleHeartbeat is called on goroutines of the network.
func (p *progress) handleHeartbeat(from ring.NodeID, payload []byte, _ messaging.Respond) {
	if from == 0 {
		return // not a member yet
	}
	// A malformed heartbeat shows that the peer is alive, too.
	p.view.detector.Heartbeat(from)
	cur := wire.NewCursor(payload)
	index := cur.Uint64()
	// A heartbeat without a time does not affect the clock estimate.
	if theirs := cur.Int64(); cur.Err() == nil {
		p.clocks.Note(from, theirs, p.opts.Clock.Now().UnixMicro())
	}
	p.receive(from, index, &cur)
	// Most heartbeats end here.
	if p.opts.Load == nil || cur.Err() != nil || cur.Len() == 0 {
		return
	}
	if report := cur.Bytes(); cur.Err() == nil {
		p.opts.Load.Receive(from, report)
	}
}

// handleApplied is called on goroutines of the network.
func (p *progress) handleApplied(from ring.NodeID, payload []byte, _ messaging.Respond) {
	cur := wire.NewCursor(payload)
	p.receive(from, cur.Uint64(), &cur)
}

// receive records up to which index a peer has applied the log. rest contains its schema version, if it reports one.
func (p *progress) receive(from ring.NodeID, index uint64, rest *wire.Cursor) {
	// Most heartbeats report nothing new, and need no event in the loop.
	if rest.Err() != nil || !p.reports.Note(from, index, liveness.TakeVersion(rest), liveness.TakeVersions(rest)) {
		return
	}
	if !p.loop.post(func() {
		// Reports may arrive out of order.
		if index > p.applied[from] {
			p.applied[from] = index
			p.changed()
		}
	}) {
		p.reports.Forget(from) // the next heartbeat repeats it
	}
}

// schemaVersion returns the schema version that a member last reported. If the member has not reported one, or its
// connection has ended, it returns this node's version. It is safe for concurrent use.
func (p *progress) schemaVersion(id ring.NodeID) schema.UUID {
	if v := p.reports.Version(id); id != p.view.self() && v != (schema.UUID{}) && !p.view.detector.Lost(id) {
		return v
	}
	// Drivers wait until all versions agree, so a member that is down reports this node's version.
	return p.view.metadata().Schema.Version()
}

// versions returns the cluster versions that the running process of a member has reported. ok is false if it has not
// reported any, or is down.
func (p *progress) versions(id ring.NodeID) (r clusterversion.Range, ok bool) {
	if id == p.view.self() {
		return p.opts.Versions, true
	}
	r = p.reports.Versions(id)
	return r, r.Valid() && p.view.alive(id)
}

// clockAlarmEvery is the number of ticks between two warnings: a minute.
const clockAlarmEvery = uint64(time.Minute / tickEvery)

// checkClocks compares this node's clock with its peers' clocks. The loop calls it on every tick.
func (p *progress) checkClocks() {
	_, was := p.clocks.Offset()
	alarm := p.clocks.Evaluate(p.view.alive)
	ahead, out := p.clocks.Offset()
	switch {
	case out && !was:
		p.opts.Logger.Error("clock differs too much from the other nodes; not serving clients", "ahead", ahead)
	case was && !out:
		p.opts.Logger.Info("clock is in sync with the other nodes again", "ahead", ahead)
	case alarm && p.loop.due(clockAlarmEvery):
		p.opts.Logger.Warn("clock differs from the other nodes", "ahead", ahead)
	}
}
