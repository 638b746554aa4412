package scenario

import (
	"time"

	"cqld/batchlog"
	"cqld/coordinator"
	"cqld/counters"
	"cqld/hints"
	"cqld/listing"
	"cqld/messaging"
	"cqld/ring"
	"cqld/search"
)

// Parts are a coordinator and the protocols that use it. Searcher is nil without PartsOptions.Search.Replicas. Tests of
// single packages use Parts with replicas of their own.
type Parts struct {
	*coordinator.Coordinator
	Hints    *hints.Hints
	Batches  *batchlog.Log
	Counters *counters.Counters
	Lister   *listing.Lister
	Searcher *search.Searcher
}

// PartsOptions configures Parts. The protocols inherit unset options from Coordinator. Coordinator must have its View,
// Replicas and Clock.
type PartsOptions struct {
	Coordinator coordinator.Options
	// Run starts background work (hints.Options, batchlog.Options).
	Run func(func())
	// Store is where hints and batches are kept.
	// nil means that nothing is stored.
	Store batchlog.Store
	Hints hints.Options
	// NoHints makes the coordinator run without hints.
	NoHints bool
	// Without Holders, the replicas of Coordinator must store batches (batchHolder).
	Batches  batchlog.Options
	Counters counters.Options
	Listing  listing.Options
	// Without Replicas, there is no Searcher.
	Search search.Options
}

// NewParts returns Parts, connected like those of a node in package assembly. Options are copied; fields that
// Coordinator determines are overwritten.
func NewParts(o PartsOptions) *Parts {
	p, c := &Parts{}, o.Coordinator
	h := o.Hints
	// All parts share the view, the clock and the replicas of the coordinator: a test sets them once.
	h.View, h.Replicas, h.Clock, h.Store, h.Run, h.Rand, h.OnError = c.View, c.Replicas, c.Clock, o.Store, o.Run,
		c.Rand, c.OnError
	p.Hints = hints.New(h)
	// Without a store, the coordinator runs without hints.
	kept := o.Store != nil && !o.NoHints
	if o.Store != nil {
		c.Store = o.Store
	}
	if kept {
		c.Hints = p.Hints
	}
	// The coordinator writes hints, and their replay uses the coordinator: Start closes this circle.
	p.Coordinator = coordinator.New(c)
	b := o.Batches
	b.Coordinator, b.View, b.Clock, b.LocalDatacenter, b.Store, b.Run = p.Coordinator, c.View, c.Clock,
		c.LocalDatacenter, o.Store, o.Run
	b.OnError, b.Guard = c.OnError, c.Guard
	if b.Holders == nil {
		b.Holders = holders{c.Replicas}
	}
	p.Batches = batchlog.New(b)
	if kept {
		p.Hints.Start(p.Coordinator, p.Batches)
	}
	n := o.Counters
	n.Coordinator, n.View, n.Replicas, n.Clock, n.LocalDatacenter = p.Coordinator, c.View, c.Replicas, c.Clock,
		c.LocalDatacenter
	n.Stamps, n.Guard = c.Stamps, c.Guard
	p.Counters = counters.New(n)
	l := o.Listing
	l.Coordinator, l.View, l.Clock, l.LocalDatacenter, l.Guard = p.Coordinator, c.View, c.Clock, c.LocalDatacenter,
		c.Guard
	p.Lister = listing.New(l)
	if f := o.Search; f.Replicas != nil {
		f.Coordinator, f.View, f.Clock, f.LocalDatacenter, f.Guard = p.Coordinator, c.View, c.Clock, c.LocalDatacenter,
			c.Guard
		p.Searcher = search.New(f)
	}
	return p
}

// Serve makes transport answer the requests of other nodes to the batch log and the counters. Hints are replayed to
// replicas, which answer by replica.Serve.
func (p *Parts) Serve(transport messaging.Transport) {
	batchlog.Serve(transport, p.Batches)
	counters.Serve(transport, p.Counters)
}

// Close ends the background work of the parts.
func (p *Parts) Close() {
	p.Hints.Close()
	p.Batches.Close()
}

// HandOver hands over batches and then hints, like package assembly before a node leaves. done receives the first
// error, after which nothing more is handed over.
func (p *Parts) HandOver(done func(error)) {
	// In this order, because a batch that is replayed may become hints.
	p.Batches.HandOver(func(err error) {
		if err != nil {
			done(err)
			return
		}
		p.Hints.HandOver(done)
	})
}

// batchHolder is a replica of a test that stores batches. Tests without messages implement it, so that batches need no
// transport.
type batchHolder interface {
	KeepBatch(id coordinator.RequestID, encoded []byte, timeout time.Duration, done func(error))
	ForgetBatches(ids []coordinator.RequestID, timeout time.Duration, done func(error))
}

// holders adapts the replicas of a test to batchlog.Holders.
type holders struct{ replicas coordinator.Replicas }

// Keep implements batchlog.Holders.
func (h holders) Keep(node ring.NodeID, _ coordinator.Trace, id coordinator.RequestID, encoded []byte,
	timeout time.Duration, done func(error)) {
	// A replica of another type is an error of the test, and panics.
	h.replicas.Replica(node).(batchHolder).KeepBatch(id, encoded, timeout, done)
}

// Forget implements batchlog.Holders.
func (h holders) Forget(node ring.NodeID, ids []coordinator.RequestID, timeout time.Duration, done func(error)) {
	h.replicas.Replica(node).(batchHolder).ForgetBatches(ids, timeout, done)
}
