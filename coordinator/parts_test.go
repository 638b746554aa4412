package coordinator_test

import (
	"time"

	"cqld/batchlog"
	"cqld/coordinator"
	"cqld/counters"
	"cqld/hints"
	"cqld/listing"
	"cqld/messaging"
	"cqld/ring"
)

// parts are a coordinator and the protocols on top of it.
type parts struct {
	*coordinator.Coordinator
	hints    *hints.Hints
	batches  *batchlog.Log
	counters *counters.Counters
	lister   *listing.Lister
}

// partsOptions configure parts. What several of them need is taken from Options of the coordinator.
type partsOptions struct {
	coordinator.Options
	run      func(func())
	store    batchlog.Store // nil means that nothing is stored
	hints    hints.Options
	batches  batchlog.Options
	counters counters.Options
	listing  listing.Options
}

// newParts makes a coordinator and the protocols on top of it, as package assembly does.
func newParts(o partsOptions) *parts {
	p := &parts{}
	o.hints.View, o.hints.Replicas, o.hints.Clock, o.hints.Store, o.hints.Rand, o.hints.OnError = o.View, o.Replicas, o.Clock, o.store, o.Rand, o.OnError
	o.hints.Run = o.run
	p.hints = hints.New(o.hints)
	kept := o.store != nil && !o.hints.Unsafe.Disabled
	if o.store != nil {
		o.Store = o.store
	}
	if kept {
		o.Hints = p.hints
	}
	p.Coordinator = coordinator.New(o.Options)
	b := o.batches
	b.Coordinator, b.View, b.Clock, b.LocalDatacenter, b.Store, b.Run = p.Coordinator, o.View, o.Clock, o.LocalDatacenter, o.store, o.run
	b.OnError, b.Guard = o.OnError, o.Guard
	if b.Holders == nil {
		b.Holders = holders{o.Replicas}
	}
	p.batches = batchlog.New(b)
	if kept {
		p.hints.Start(p.Coordinator, p.batches)
	}
	n := o.counters
	n.Coordinator, n.View, n.Replicas, n.Clock, n.LocalDatacenter = p.Coordinator, o.View, o.Replicas, o.Clock, o.LocalDatacenter
	n.Stamps, n.Guard = o.Stamps, o.Guard
	p.counters = counters.New(n)
	l := o.listing
	l.Coordinator, l.View, l.Clock, l.LocalDatacenter, l.Guard = p.Coordinator, o.View, o.Clock, o.LocalDatacenter, o.Guard
	l.Unsafe.OneSide = o.Unsafe.ReadOneSide
	p.lister = listing.New(l)
	return p
}

// serve makes a node answer requests with its parts.
func (p *parts) serve(transport messaging.Transport) {
	batchlog.Serve(transport, p.batches)
	counters.Serve(transport, p.counters)
}

// close ends what the parts do by themselves.
func (p *parts) close() {
	p.hints.Close()
	p.batches.Close()
}

// batchHolder is a replica of a test that stores batches.
type batchHolder interface {
	KeepBatch(id coordinator.RequestID, encoded []byte, timeout time.Duration, done func(error))
	ForgetBatches(ids []coordinator.RequestID, timeout time.Duration, done func(error))
}

// holders are the replicas of a test as batchlog.Holders.
type holders struct{ replicas coordinator.Replicas }

func (h holders) Keep(node ring.NodeID, _ coordinator.Trace, id coordinator.RequestID, encoded []byte, timeout time.Duration, done func(error)) {
	h.replicas.Replica(node).(batchHolder).KeepBatch(id, encoded, timeout, done)
}

func (h holders) Forget(node ring.NodeID, ids []coordinator.RequestID, timeout time.Duration, done func(error)) {
	h.replicas.Replica(node).(batchHolder).ForgetBatches(ids, timeout, done)
}
