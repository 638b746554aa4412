// Package assembly connects the parts of a node that communicate with other nodes. Package node runs them with a real
// engine and real connections, package simulation with simulated ones. Production and simulation therefore share the
// same wiring.
//
// It does not open storage, the transport or the cluster, and does not serve clients.
//
//	cluster ──▶ View ──▶ Coordinator ──▶ Directory ──▶ Local ──▶ engine
//	  ▲                     Hints │ lost      └─ messaging ──▶ other nodes
//	  └── Movements ◀─ Streams  └──▶ AutoRepair ──▶ Repairer ──▶ Peers (hashes)
//	        └── compares by ───────────────────────────────────┘
package assembly

import (
	"log/slog"
	"slices"
	"time"

	"cqld/batchlog"
	"cqld/cluster"
	"cqld/cluster/metadata"
	"cqld/coordinator"
	"cqld/counters"
	"cqld/hints"
	"cqld/internal/env"
	"cqld/internal/memory"
	"cqld/listing"
	"cqld/messaging"
	"cqld/paxos"
	"cqld/paxos/acceptor"
	"cqld/paxos/contention"
	"cqld/rebalance"
	"cqld/repair"
	"cqld/replica"
	"cqld/ring"
	"cqld/ring/load"
	"cqld/schema"
	"cqld/search"
	"cqld/storage/index"
	"cqld/view"
)

// Store is the interface of storage for everything except client requests. *storage.Engine implements it and
// RequestEngine. They are two interfaces so that tests can fail or delay requests without touching background work.
type Store interface {
	rebalance.StreamEngine
	rebalance.DropEngine
	repair.Engine
	repair.LocalStore
}

// RequestEngine is the interface of storage for requests.
type RequestEngine interface {
	replica.Engine
	listing.Engine
}

// Options configure the parts. Fields without a comment are required.
type Options struct {
	Cluster   *cluster.Cluster
	Requests  RequestEngine
	Store     Store
	Repaired  *repair.History
	Searches  search.Engine  // of Requests
	Indexes   search.Keeper  // of Requests
	Catalog   *index.Catalog // of Cluster
	Transport messaging.Transport
	// Clock measures timeouts and retries of all parts.
	Clock env.Clock
	Run   func(func()) // see rebalance.StreamOptions.Run

	// Coordinator has the options that Assemble does not set: random numbers, timestamps, limits, the data center.
	Coordinator coordinator.Options
	// Paxos contains the limits of the proposer and the acceptor.
	Paxos      PaxosOptions
	Hints      hints.Options    // limits
	Batches    batchlog.Options // limits
	Counters   counters.Options // limits
	Listing    listing.Options  // limits
	Search     search.Options   // limits
	Builder    search.BuilderLimits
	Worked     func(index.Work, error) // see search.BuilderOptions
	Streams    rebalance.Limits
	Repair     repair.Limits
	AutoRepair repair.AutoOptions // without Repairer and Store
	Note       func(string)       // reports range movements to the operator; nil discards
	Log        *slog.Logger       // records dropped ranges; nil discards
	// HintLost is called for each partition whose hint was lost, or whose logged batch was dropped, after the partition
	// is marked for repair. It may be nil, and must not block.
	HintLost func(table schema.StorageID, token ring.Token)
	// Confirmed reports whether this node's metadata have been confirmed since it started. Before that, neither hints
	// nor logged batches are replayed.
	Confirmed            func() bool
	Memory               *memory.Pool  // of requests; nil means no bound
	Load                 *load.Meter   // counts the requests of this node's ranges; nil means that nothing does
	StepBytes, LeafBytes int64         // bytes hashed and compared at a time; zero means the defaults
	DeadAfter            time.Duration // see rebalance.MovementOptions
	PaxosLook            time.Duration // see acceptor.PurgeOptions.Look
}

// Parts are the parts that Assemble creates. They share View, so they all see the newest metadata that this node has
// applied. They are created together and never replaced. Closing them is the Instance's task, in the order of
// Instance.Stop.
type Parts struct {
	View        View
	Local       *replica.Local
	Streams     *rebalance.Streams
	Movements   *rebalance.Movements
	Drops       *rebalance.Drops
	Repairs     *repair.Service
	Coordinator *coordinator.Coordinator
	Acceptor    *acceptor.Acceptor
	Purge       *acceptor.Purge
	Proposer    *paxos.Proposer
	Hints       *hints.Hints
	Batches     *batchlog.Log
	Counters    *counters.Counters
	Lister      *listing.Lister
	Searcher    *search.Searcher
	Builder     *search.Builder
	Repairer    *repair.Repairer
	AutoRepair  *repair.Auto
	Views       *view.Reader // the coordinator of requests, which also reads materialized views
}

// View is the cluster as the parts see it. Each method reads the newest metadata: two calls may see different versions.
// A caller that needs one consistent version takes Topology once and asks it everything.
type View struct{ Cluster *cluster.Cluster }

// Self implements coordinator.View.
func (v View) Self() ring.NodeID { return v.Cluster.Self() }

// Schema implements coordinator.View.
func (v View) Schema() *schema.Schema { return v.Cluster.Metadata().Schema }

// SchemaVersion implements system.View.
func (v View) SchemaVersion(id ring.NodeID) schema.UUID { return v.Cluster.SchemaVersion(id) }

// Topology implements coordinator.View.
func (v View) Topology() *ring.Topology { return v.Cluster.Metadata().Topology }

// Alive implements coordinator.View.
func (v View) Alive(id ring.NodeID) bool { return v.Cluster.Alive(id) }

// PaxosFloor implements coordinator.View.
func (v View) PaxosFloor(id schema.StorageID) int64 { return v.Cluster.Metadata().PaxosFloors[id] }

// Assemble creates the parts. The transport must not deliver requests before it returns. The order follows the
// dependencies: what executes requests on this node comes first, then what coordinates them, and last the background
// work that uses both.
func Assemble(o Options) *Parts {
	p := &Parts{View: View{o.Cluster}}
	p.Local = replica.NewLocal(replica.GuardReads(o.Requests, o.Coordinator.Guard), p.View,
		// The coordinator does not exist yet; the function is called by requests only.
		func(t coordinator.Truncation, done func(error)) { p.Coordinator.FollowTruncation(t, done) })
	// Everything that a request needs is set before the transport knows the replica.
	p.Local.SetMemory(o.Memory)
	p.Local.SetLoad(o.Load)
	replica.Serve(o.Transport, p.Local)
	p.Streams = rebalance.NewStreams(rebalance.StreamOptions{
		View: p.View, Local: p.Local, Engine: o.Store, Transport: o.Transport, Clock: o.Clock, Run: o.Run,
		Limits:  o.Streams,
		Changed: p.Local.Changed,
	})
	p.Repairs = repair.NewService(repair.ServiceOptions{
		View: p.View, Local: p.Local, Engine: o.Store, Transport: o.Transport, Run: o.Run,
		History:   o.Repaired,
		StepBytes: o.StepBytes,
	})
	// The purger asks the streams which Paxos states are still arriving.
	p.assemblePaxos(o)
	// Replicas that a movement changes are compared by the service of repairs, so the two agree on what is equal.
	p.Movements = rebalance.NewMovements(rebalance.MovementOptions{
		View: p.View, Log: o.Cluster.Operations(), Streams: p.Streams, Local: p.Local, Hashes: p.Repairs,
		Clock:    o.Clock,
		HandOver: p.handOver,
		Run:      o.Run, Note: o.Note, LeafBytes: o.LeafBytes, DeadAfter: o.DeadAfter,
	})
	p.Drops = rebalance.NewDrops(rebalance.DropsOptions{
		View: p.View, Metadata: metadataLog{o.Cluster.Operations(), o.Cluster}, Local: p.Local,
		Engine: o.Store, Transport: o.Transport,
		Clock: o.Clock,
		Epoch: func() uint64 { return o.Cluster.Metadata().Epoch }, Unclean: p.pendingCleanup,
		Former: p.former, Gained: p.gained, History: o.Repaired, Run: o.Run, Changed: p.Local.Changed, Log: o.Log,
	})
	// A copy: the caller's options stay without the parts.
	c := o.Coordinator
	replicas := replica.NewDirectory(p.Local, o.Transport, p.View)
	h := o.Hints
	h.View, h.Replicas, h.Clock, h.Store, h.Run, h.Rand, h.OnError = p.View, replicas, o.Clock, o.Store, o.Run, c.Rand,
		c.OnError
	p.Hints = hints.New(h)
	c.View, c.Replicas, c.Clock, c.Store = p.View, replicas, o.Clock, o.Store
	c.AwaitingFirstHeartbeat, c.Confirmed, c.Hints = o.Cluster.AwaitingFirstHeartbeat, o.Confirmed, p.Hints
	p.Coordinator = coordinator.New(c)
	p.assembleProtocols(o, replicas)
	p.assembleProposer(o)
	p.assembleLister(o)
	p.assembleSearch(o)
	p.Views = view.New(view.Options{Coordinator: p.Coordinator, Searcher: p.Searcher, View: p.View, Clock: o.Clock,
		Guard: c.Guard})
	p.Repairer = repair.NewRepairer(repair.Options{
		Coordinator: p.Coordinator, View: p.View, Clock: o.Clock, Peers: p.Repairs, Paxos: p.Purge,
		Proposer: p.Proposer,
		Store:    o.Store, Run: o.Run, Limits: o.Repair,
		RaiseFloor: o.Cluster.StartPaxosFloor,
	})
	// Lost hints and dropped batches mark partitions for repair. Nothing is replayed before the metadata are confirmed,
	// so the repairer exists before any is reported.
	a := o.AutoRepair
	a.Repairer, a.Store = p.Repairer, o.Store
	p.AutoRepair = repair.NewAuto(a)
	lost := p.partitionLost(o.HintLost)
	p.Hints.OnLost(lost)
	p.Batches.OnLost(lost)
	return p
}

// partitionLost returns the handler of lost hints and dropped batches. It calls then last, which may be nil. The mark
// precedes the call, so that then can rely on it.
func (p *Parts) partitionLost(then func(schema.StorageID, ring.Token)) func(schema.StorageID, ring.Token) {
	if then == nil {
		return p.AutoRepair.Dirty
	}
	return func(table schema.StorageID, token ring.Token) {
		p.AutoRepair.Dirty(table, token)
		then(table, token)
	}
}

// assembleProtocols creates counters and logged batches, and starts hints, which are handed over as logged batches when
// this node leaves the ring.
func (p *Parts) assembleProtocols(o Options, replicas coordinator.Replicas) {
	c, n, b := o.Coordinator, o.Counters, o.Batches
	n.Coordinator, n.View, n.Replicas, n.Clock, n.Leaders = p.Coordinator, p.View, replicas, o.Clock,
		counters.NewClient(o.Transport)
	n.Stamps, n.LocalDatacenter, n.Guard = c.Stamps, c.LocalDatacenter, c.Guard
	p.Counters = counters.New(n)
	counters.Serve(o.Transport, p.Counters)
	b.Coordinator, b.View, b.Clock, b.Holders, b.Store, b.Run = p.Coordinator, p.View, o.Clock,
		batchlog.NewClient(o.Transport), o.Store, o.Run
	b.LocalDatacenter, b.OnError, b.Guard = c.LocalDatacenter, c.OnError, c.Guard
	p.Batches = batchlog.New(b)
	batchlog.Serve(o.Transport, p.Batches)
	// Hints are started last, because they are replayed through both.
	p.Hints.Start(p.Coordinator, p.Batches)
}

// assembleLister creates the lister, and the replica that lists this node's keys for all nodes. The replica answers
// requests of other nodes as soon as the transport delivers them.
func (p *Parts) assembleLister(o Options) {
	c, l := o.Coordinator, o.Listing
	r := listing.NewReplica(listing.ReplicaOptions{Local: p.Local, View: p.View, Engine: o.Requests, Guard: c.Guard})
	listing.Serve(o.Transport, r)
	l.Coordinator, l.View, l.Clock, l.Replicas = p.Coordinator, p.View, o.Clock,
		listing.NewDirectory(r, o.Transport, p.View)
	l.LocalDatacenter, l.Guard = c.LocalDatacenter, c.Guard
	p.Lister = listing.New(l)
}

// assembleSearch creates the searcher, the replica that searches this node's rows for all nodes, and the builder of its
// indexes. The builder runs only after Reactions has started it.
func (p *Parts) assembleSearch(o Options) {
	c, s := o.Coordinator, o.Search
	r := search.NewReplica(search.ReplicaOptions{Local: p.Local, View: p.View, Engine: o.Searches, Guard: c.Guard})
	search.Serve(o.Transport, r)
	s.Coordinator, s.View, s.Clock, s.Replicas = p.Coordinator, p.View, o.Clock,
		search.NewDirectory(r, o.Transport, p.View)
	s.LocalDatacenter, s.Guard, s.Definitions = c.LocalDatacenter, c.Guard, o.Catalog.Of
	p.Searcher = search.New(s)
	p.Builder = search.NewBuilder(search.BuilderOptions{
		Keeper: o.Indexes, Tables: func() []schema.StorageID { return p.View.Schema().IndexedIDs() }, Clock: o.Clock,
		Run: o.Run, Log: o.Log,
		Limits: o.Builder, Worked: o.Worked,
	})
}

// PaxosOptions configure the proposer and the acceptor of a node, in addition to Options. The zero value has the
// defaults.
type PaxosOptions struct {
	Limits paxos.Limits
}

// assemblePaxos creates the acceptor and the purger of its state.
func (p *Parts) assemblePaxos(o Options) {
	p.Acceptor = acceptor.New(p.Local, p.View)
	acceptor.Serve(o.Transport, p.Acceptor)
	p.Purge = acceptor.NewPurge(acceptor.PurgeOptions{
		Acceptor: p.Acceptor, Engine: o.Store, Transport: o.Transport, Clock: o.Clock, Run: o.Run,
		Streaming: p.Streams.Receiving,
		Look:      o.PaxosLook, Confirm: metadataLog{o.Cluster.Operations(), o.Cluster}.StartConfirm,
	})
}

// assembleProposer creates the proposer. It uses the timestamps and the random numbers of the coordinator.
func (p *Parts) assembleProposer(o Options) {
	c := o.Coordinator
	p.Proposer = paxos.NewProposer(paxos.Options{
		View: p.View, Acceptors: acceptor.NewDirectory(p.Acceptor, o.Transport, p.View),
		Arbiters: contention.NewClient(o.Transport), Coordinator: p.Coordinator,
		Clock:  o.Clock,
		Stamps: c.Stamps, Rand: c.Rand, LocalDatacenter: c.LocalDatacenter, Limits: o.Paxos.Limits,
		Guard: c.Guard,
	})
	contention.Serve(o.Transport, p.Proposer.Arbiter())
}

// handOver hands over what this node stores for other nodes before it leaves the ring: logged batches, then hints. An
// error of the batches ends the movement, and the hints stay for the next attempt.
func (p *Parts) handOver(done func(error)) {
	p.Batches.HandOver(func(err error) {
		if err != nil {
			done(err)
			return
		}
		p.Hints.HandOver(done)
	})
}

// pendingCleanup returns the epoch since which this node has stored data of ranges that it lost; zero means that it has
// no such data.
func (p *Parts) pendingCleanup() uint64 {
	for _, u := range p.View.Cluster.Metadata().PendingCleanup {
		// The metadata has at most one entry for each node.
		if u.Node == p.View.Self() {
			return u.Epoch
		}
	}
	return 0
}

// former implements rebalance.DropsOptions.Former. It returns nil if this node has no former data of the keyspace.
// Entries of several changes are merged: the last epoch, the latest time, and reachable only if all of them overlap.
func (p *Parts) former(keyspace string) *rebalance.FormerData {
	var data *rebalance.FormerData
	// Entries of other keyspaces, and entries in which this node holds no former data, do not concern it.
	for _, f := range p.View.Cluster.Metadata().Former {
		if f.Keyspace != keyspace || !slices.Contains(f.Nodes, p.View.Self()) {
			continue
		}
		if data == nil {
			data = &rebalance.FormerData{Reachable: true}
		}
		data.Epoch, data.Since, data.Reachable = f.Epoch, max(data.Since, f.Since), data.Reachable && f.Overlaps
	}
	return data
}

// gained implements rebalance.DropsOptions.Gained. Ranges that the current replicas could not stream from each other
// wait for the next change. A change of a keyspace is listed once, even if several entries of the metadata have it.
func (p *Parts) gained() (out []rebalance.GainedData) {
	for _, f := range p.View.Cluster.Metadata().Former {
		if !f.Overlaps || !slices.Contains(f.Gained, p.View.Self()) ||
			slices.ContainsFunc(out, func(g rebalance.GainedData) bool {
				return g.Keyspace == f.Keyspace &&
					g.Changed == f.Changed
			}) {
			continue
		}
		out = append(out, rebalance.GainedData{Keyspace: f.Keyspace, Changed: f.Changed, Since: f.Since})
	}
	return out
}

// metadataLog adapts the cluster to the metadata log of rebalance.Drops. The embedded Operations implement the other
// methods.
type metadataLog struct {
	*cluster.Operations
	cluster *cluster.Cluster
}

// StartConfirm implements rebalance.MetadataLog.
func (a metadataLog) StartConfirm(done func()) {
	a.cluster.StartConfirm(func(*metadata.Metadata) { done() })
}

// retain removes ranges that this node no longer replicates from the repair history: if it gains such a range again, it
// has to be repaired again. An entry for a table that is neither known nor dropped is kept: the metadata of this node
// may be older.
func (p *Parts) retain(m *metadata.Metadata, repaired *repair.History) error {
	self := p.View.Self()
	for _, id := range repaired.Tables() {
		var held []ring.Range
		t := m.Schema.TableByStorage(id)
		if t == nil && !m.Schema.Dropped(id) {
			continue
		}
		// A dropped table or a local one keeps no ranges, which removes its history.
		if t != nil && t.Replication.Class != ring.Local {
			for _, piece := range m.Topology.Placement(t.Replication).Ranges(ring.FullRange()) {
				if slices.Contains(piece.Replicas.Natural, self) {
					held = append(held, piece.Range)
				}
			}
		}
		if err := repaired.Retain(id, held); err != nil {
			return err
		}
	}
	return nil
}
