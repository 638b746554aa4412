package coordinator_test

import (
	"time"

	"cqld/batchlog"
	"cqld/coordinator"
	"cqld/counters"
	"cqld/hints"
	"cqld/messaging"
	"cqld/ring"
)

// parts contains a coordinator and the protocols on top of it.
type parts struct {
	*coordinator.Coordinator
	hints    *hints.Hints
	batches  *batchlog.Log
	counters *counters.Counters
}

// partsOptions configures parts. Shared options are those of the coordinator.
type partsOptions struct {
	coordinator.Options
	run      func(func())
	store    batchlog.Store // nil means that no batches are stored
	hints    hints.Options
	batches  batchlog.Options
	counters counters.Options
}

// newParts creates a coordinator and the protocols on top of it, as package assembly does.
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
	return p
}

// serve registers the handlers of a node's parts.
func (p *parts) serve(transport messaging.Transport) {
	batchlog.Serve(transport, p.batches)
	counters.Serve(transport, p.counters)
}

// close ends the background work of the parts.
func (p *parts) close() {
	p.hints.Close()
	p.batches.Close()
}

// batchHolder is a test replica that stores batches.
type batchHolder interface {
	KeepBatch(id coordinator.RequestID, encoded []byte, timeout time.Duration, done func(error))
	ForgetBatches(ids []coordinator.RequestID, timeout time.Duration, done func(error))
}

// holders implements batchlog.Holders with test replicas.
type holders struct{ replicas coordinator.Replicas }

func (h holders) Keep(node ring.NodeID, _ coordinator.Trace, id coordinator.RequestID, encoded []byte, timeout time.Duration, done func(error)) {
	h.replicas.Replica(node).(batchHolder).KeepBatch(id, encoded, timeout, done)
}

func (h holders) Forget(node ring.NodeID, ids []coordinator.RequestID, timeout time.Duration, done func(error)) {
	h.replicas.Replica(node).(batchHolder).ForgetBatches(ids, timeout, done)
}
