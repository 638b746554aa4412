// Package counters updates counters: it finds the replica that leads an update, and leads updates as a replica.
//
//	client ─ Update ─▶ coordinator ─ VerbCounter ─▶ leader: Lead ─ read own shard, add, sync
//	                                                               └─▶ coordinator.Write of the new sum
//
// Invariants:
//
//  1. A leader counts an update once, even if it receives it several times (shard.Windows), and the coordinator does
//     not resend an update that may have been counted.
//  2. No other replica gets a new sum before it is on the leader's disk: after a crash, the next sums are computed from
//     it.
//  3. Only its leader writes a shard, each time with a later timestamp (package shard).
package counters

import (
	"time"

	"cqld/coordinator"
	"cqld/internal/env"
	"cqld/internal/guard"
	"cqld/ring"
)

// Options configures Counters. Coordinator, View, Replicas, Clock and Leaders are required.
type Options struct {
	Coordinator     *coordinator.Coordinator
	View            coordinator.View
	Replicas        coordinator.Replicas
	Clock           env.Clock
	Leaders         Leaders                // the other nodes
	Stamps          coordinator.Timestamps // for new sums; nil means an own clock
	LocalDatacenter string
	Limits          Limits
	Guard           *guard.Guard // ends operations that panic; nil means that a panic continues
}

// Counters updates counters. Its methods may be called from any goroutine.
type Counters struct {
	c        *coordinator.Coordinator
	view     coordinator.View
	replicas coordinator.Replicas
	clock    env.Clock
	leaders  Leaders
	stamps   coordinator.Timestamps
	localDC  string
	limits   Limits
	guard    *guard.Guard // may be nil
	leader   *leader
}

// New returns Counters.
func New(o Options) *Counters {
	c := &Counters{c: o.Coordinator, view: o.View, replicas: o.Replicas, clock: o.Clock, leaders: o.Leaders,
		stamps:  o.Stamps,
		localDC: o.LocalDatacenter, limits: o.Limits.withDefaults(), guard: o.Guard}
	if c.stamps == nil {
		c.stamps = env.NewHLC(o.Clock, time.Minute)
	}
	c.leader = newLeader(c)
	return c
}

// self returns this node's replica for a request whose trace is t, which may be nil.
func (c *Counters) self(t coordinator.Trace) coordinator.Replica {
	return coordinator.TracedReplica(c.replicas, c.view.Self(), t)
}

// Leaders leads updates on other nodes. Lead returns at once and calls done exactly once, possibly before it returns.
// done receives the errors of Counters.Lead, or of the messages.
type Leaders interface {
	Lead(node ring.NodeID, update *Update, timeout time.Duration, done func(error))
}
