package coordinator

import (
	"sync/atomic"
	"time"

	"cqld/coordinator/latency"
	"cqld/coordinator/quorum"
	"cqld/internal/wire"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
)

// RequestID identifies a request by coordinator, process incarnation and sequence number. A node that has executed the
// request does not execute a duplicate. Node zero means that the request did not leave its node.
type RequestID struct {
	Node        ring.NodeID
	Incarnation uint64
	Sequence    uint64
}

// NextRequestID returns an ID that no other request has.
func (c *Coordinator) NextRequestID() RequestID {
	// The incarnation distinguishes processes of this node, whose sequences begin at one.
	return RequestID{Node: c.view.Self(), Incarnation: c.incarnation, Sequence: c.sequence.Add(1)}
}

// AppendRequestID appends node, incarnation (8 bytes) and sequence.
func AppendRequestID(dst []byte, id RequestID) []byte {
	dst = wire.AppendUvarint(dst, uint64(id.Node))
	dst = wire.AppendUint64(dst, id.Incarnation)
	return wire.AppendUvarint(dst, id.Sequence)
}

// RequestIDSizeMin is the minimum number of bytes that AppendRequestID appends.
const RequestIDSizeMin = 1 + 8 + 1

// ConsumeRequestID is the inverse of AppendRequestID.
func ConsumeRequestID(c *wire.Cursor) RequestID {
	return RequestID{Node: ring.NodeID(c.Uvarint()), Incarnation: c.Uint64(), Sequence: c.Uvarint()}
}

// Event is an event that packages above this one count in Stats together with ordinary requests.
type Event uint8

// The events.
const (
	EventWriteTimeout Event = iota
	EventReadTimeout
	EventUnavailable
	EventOverloaded
	EventSpeculated
	EventReplan
)

// Note counts an event.
func (c *Coordinator) Note(e Event) {
	n := &c.counts
	// In the order of the constants.
	[...]*atomic.Uint64{&n.writeTimeouts, &n.readTimeouts, &n.unavailable, &n.overloaded, &n.speculated,
		&n.replans}[e].Add(1)
}

// WriteSize returns the bytes that a write of the mutations reserves.
func WriteSize(mutations ...*row.Mutation) int64 { return sized(mutations) + writeOpBytes }

// Reserve admits one more write of size bytes, or refuses it with Overloaded. Release releases the reservation.
func (c *Coordinator) Reserve(size int64) error {
	// The counter is incremented before the comparison and decremented on refusal, so that concurrent writes cannot
	// exceed the bound together.
	if n := c.writing.Add(1); n > c.limits.WritesInFlight {
		c.writing.Add(-1)
		c.counts.overloaded.Add(1)
		return &Overloaded{What: "too many writes in flight"}
	}
	// A single write may exceed the bound: otherwise it could never be executed.
	if n := c.writeBytes.Add(size); n > c.limits.WriteBytesInFlight && n > size {
		c.Release(size)
		c.counts.overloaded.Add(1)
		return &Overloaded{What: "too many bytes of writes in flight"}
	}
	return nil
}

// Release releases a write that Reserve admitted.
func (c *Coordinator) Release(size int64) {
	c.writing.Add(-1)
	c.writeBytes.Add(-size)
}

// ReserveRead admits one more read, or refuses it with Overloaded. Each admitted read must be followed by one
// ReleaseRead.
func (c *Coordinator) ReserveRead() error {
	if n := c.reading.Add(1); n > c.limits.ReadsInFlight {
		c.reading.Add(-1)
		c.counts.overloaded.Add(1)
		return &Overloaded{What: "too many reads in flight"}
	}
	return nil
}

// ReleaseRead releases the reservation of a read that ReserveRead admitted.
func (c *Coordinator) ReleaseRead() { c.reading.Add(-1) }

// Available returns Unavailable if this node considers too few replicas alive for a write of m at level, and
// UnknownTable if its table was dropped.
func (c *Coordinator) Available(m *row.Mutation, level ring.Consistency) error {
	table := c.view.Schema().TableByStorage(m.Table)
	if table == nil {
		return &UnknownTable{Table: m.Table}
	}
	t := c.view.Topology()
	var y quorum.Tally
	y.Reset(level, table.Replication, t, c.view.Self(), c.localDC)
	set := c.replicasOf(t, table, m.Key.Token)
	// While the ring changes, both sides must meet the level.
	y.Join(set)
	open := func(n ring.NodeID) {
		if c.believes(n) {
			y.Opened(n)
		}
	}
	for _, n := range set.Natural {
		open(n)
	}
	for _, n := range set.Pending {
		open(n)
	}
	// At ANY, a hint is enough, if this node keeps hints.
	if q := y.Short(); q != nil && (level != ring.Any || c.hints == nil || len(set.Natural) == 0) {
		c.counts.unavailable.Add(1)
		return &Unavailable{Consistency: level, Required: q.Need, Alive: q.Open}
	}
	return nil
}

// MayReplan reports whether a request may be planned again after the given number of plans.
func (c *Coordinator) MayReplan(plans int) bool {
	return plans < c.limits.PlansMax
}

// LatencyRank returns the latency of a node's answers in steps, to choose between nodes: lower is faster.
func (c *Coordinator) LatencyRank(node ring.NodeID) int64 {
	// Rounding to steps keeps small differences from sending all coordinators to the same replica.
	return int64(c.peers.Of(node, c.clock.Monotonic()) / latency.Step)
}

// RecordLatency notes that a node has answered a request after the time took.
func (c *Coordinator) RecordLatency(node ring.NodeID, took time.Duration) {
	c.peers.Record(node, took, c.clock.Monotonic())
}

// SpeculateAfter returns how long a request that asked only the necessary replicas of the table waits before it asks
// further ones. ok is false if the table's speculative_retry forbids speculation.
func (c *Coordinator) SpeculateAfter(table *schema.Table) (after time.Duration, ok bool) {
	return c.tables.AskOthersAfter(table)
}

// TracedReplica returns a node's replica for a request whose trace is t, which may be nil, and notes the contact.
func TracedReplica(replicas Replicas, node ring.NodeID, t Trace) Replica {
	r := replicas.Replica(node)
	contact(t, node)
	if t != nil && t.Detailed() {
		// Only a detailed trace needs the events of the other node, and they cost memory there.
		if traceable, ok := r.(TraceableReplica); ok {
			return traceable.Traced(t)
		}
	}
	return r
}
