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
	c := &Counters{
		c:        o.Coordinator,
		view:     o.View,
		replicas: o.Replicas,
		clock:    o.Clock,
		leaders:  o.Leaders,
		stamps:   o.Stamps,
		localDC:  o.LocalDatacenter,
		limits:   o.Limits.withDefaults(),
		guard:    o.Guard,
	}
	if c.stamps == nil {
		// Production code shares the clock of the node's other writes (Options.Stamps), so that deletions are ordered
		// with the sums.
		c.stamps = env.NewHLC(o.Clock, time.Minute)
	}
	c.leader = newLeader(c)
	return c
}

// self returns this node's replica for a request whose trace is t, which may be nil.
func (c *Counters) self(t coordinator.Trace) coordinator.Replica {
	// The replica is looked up each time, because a traced request has its own.
	return coordinator.TracedReplica(c.replicas, c.view.Self(), t)
}

// Leaders leads updates on other nodes. Lead returns at once and calls done exactly once, possibly before it returns.
// done receives the errors of Counters.Lead, or of the messages.
type Leaders interface {
	Lead(node ring.NodeID, update *Update, timeout time.Duration, done func(error))
}
