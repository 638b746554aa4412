package cluster

import (
	"context"
	"sync"
	"time"

	"cqld/internal/wire"
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

// versionBytes is the length of the schema version that follows the index in a report, and the time in a heartbeat.
const versionBytes = len(schema.UUID{})

// silenceMax is how long the last report of a silent peer counts, whose connection is open. Some drivers wait for the
// agreement of all peers, also those that are down.
const silenceMax = 10 * time.Second

// appendVersion appends the version of the schema that this node has applied.
func (c *Cluster) appendVersion(b []byte) []byte {
	v := c.Metadata().Schema.Version()
	return append(b, v[:]...)
}

// takeVersion reads what appendVersion has appended. Nodes of earlier versions do not append it: the result is then
// zero.
func takeVersion(cur *wire.Cursor) (v schema.UUID) {
	copy(v[:], cur.Take(versionBytes))
	return v
}

// reports are the last reports of the peers. Most heartbeats repeat an index, and need not wake the loop.
type reports struct {
	mu   sync.Mutex
	last map[ring.NodeID]peerReport
}

// peerReport is the index up to which a peer has applied the log, and the schema version there.
type peerReport struct {
	index   uint64
	version schema.UUID // zero means unknown
	stale   bool        // the loop has not received index
}

// note records a report, and reports whether the loop needs it: the last one of the peer had another index.
func (r *reports) note(peer ring.NodeID, index uint64, version schema.UUID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	last, ok := r.last[peer]
	if r.last == nil {
		r.last = map[ring.NodeID]peerReport{}
	}
	r.last[peer] = peerReport{index: index, version: version}
	return !ok || last.index != index || last.stale
}

// forget makes the next report of a peer count, whatever its index.
func (r *reports) forget(peer ring.NodeID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := r.last[peer]
	last.stale = true
	r.last[peer] = last
}

// version returns the schema version that a peer has reported; zero means unknown.
func (r *reports) version(peer ring.NodeID) schema.UUID {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last[peer].version
}

// SchemaVersion returns the schema version that a member has reported. For a member that has not yet reported one, or
// whose connection has ended, it is this node's. It is safe for concurrent use.
func (c *Cluster) SchemaVersion(id ring.NodeID) schema.UUID {
	if v := c.reports.version(id); id != c.Self() && v != (schema.UUID{}) && !c.detector.lost(id) {
		return v
	}
	return c.Metadata().Schema.Version()
}

// AwaitSchema returns when every live node has applied the schema that this node has.
func (c *Cluster) AwaitSchema(ctx context.Context) error {
	return c.wait(ctx, c.startAwait)
}

// startAwait calls done in the loop when every live node has applied what this node has. stop abandons it.
func (c *Cluster) startAwait(done func(error)) (stop func()) {
	p := &proposal{done: done}
	posted := c.post(func() {
		if c.driver == nil || c.everywhere(c.driver.applied) {
			done(nil)
			return
		}
		p.id, p.index = CommandID(c.randomUUID()), c.driver.applied
		c.proposals[p.id] = p
	})
	if !posted {
		done(errQueueFull)
	}
	return func() { p.abandoned.Store(true) }
}
