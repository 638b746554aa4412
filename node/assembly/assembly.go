// Package assembly puts together the parts of a node that speak with other nodes: in package node around a real
// engine and real connections, in simulation around simulated ones. So what is simulated is wired as what runs.
//
// It does not open storage, the transport or the cluster, and knows no clients.
//
//	cluster ──▶ View ──▶ Coordinator ──▶ Directory ──▶ Local ──▶ engine
//	  ▲                     │ hints lost      └─ messaging ──▶ other nodes
//	  └── Moves ◀─ Streams  └──▶ AutoRepair ──▶ Repairer ──▶ Peers (hashes)
//	        └── compares by ───────────────────────────────────┘
package assembly

import (
	"log/slog"
	"slices"
	"time"

	"cqld/cluster"
	"cqld/coordinator"
	"cqld/internal/env"
	"cqld/messaging"
	"cqld/repair"
	"cqld/replica"
	"cqld/ring"
	"cqld/schema"
)

// Store is storage as the parts use it, but for requests of clients.
type Store interface {
	replica.StreamEngine
	replica.RepairEngine
	replica.RangeDropper
	repair.LocalStore
}

// Options are what the parts are made of. Those without a comment are required.
type Options struct {
	Cluster   *cluster.Cluster
	Requests  replica.Engine // storage as requests see it
	Store     Store
	Repaired  *replica.Repaired
	Transport messaging.Transport
	Clock     env.Clock
	Run       func(func()) // as replica.StreamOptions.Run

	// Coordinator has what is not made here: random numbers, stamps, limits, the data center.
	Coordinator coordinator.Options
	Streams     replica.StreamLimits
	Repair      repair.Limits
	AutoRepair  repair.AutoOptions // without Repairer and Store
	Note        func(string)       // tells the operator of moves; nil: nobody
	Log         *slog.Logger       // of what is dropped; nil: nothing is logged
	// Confirmed says whether this node's metadata have been confirmed since it started: before, neither hints nor logged
	// batches are replayed.
	Confirmed func() bool
	// Unconfirmed, of tests, is replica.DropsOptions.Unconfirmed.
	Unconfirmed bool
	// ForgetFormer, of tests, drops data of former replications without asking whether the present replicas were repaired.
	ForgetFormer bool

	PageMemory           int64         // see replica.Local.SetPageMemory
	StepBytes, LeafBytes int64         // hashed at a time, compared at a time; zero: the defaults
	NoCompare            bool          // of tests; see replica.MovesOptions
	NoPaxosStreams       bool          // of tests; see replica.MovesOptions
	PaxosLook            time.Duration // see replica.RepairOptions
}

// Parts are what Assemble has made.
type Parts struct {
	View        View
	Local       *replica.Local
	Streams     *replica.Streams
	Peers       *replica.Repairs
	Moves       *replica.Moves
	Drops       *replica.Drops
	Coordinator *coordinator.Coordinator
	Repairer    *repair.Repairer
	AutoRepair  *repair.Auto

	forgetFormer bool // Options.ForgetFormer
}

// View is the cluster as the parts see it.
type View struct{ Cluster *cluster.Cluster }

// Self implements coordinator.View.
func (v View) Self() ring.NodeID { return v.Cluster.Self() }

// Schema implements coordinator.View.
func (v View) Schema() *schema.Schema { return v.Cluster.Metadata().Schema }

// Topology implements coordinator.View.
func (v View) Topology() *ring.Topology { return v.Cluster.Metadata().Topology }

// Alive implements coordinator.View.
func (v View) Alive(id ring.NodeID) bool { return v.Cluster.Alive(id) }

// PaxosFloor implements coordinator.View.
func (v View) PaxosFloor(id schema.StorageID) int64 { return v.Cluster.Metadata().PaxosFloors[id] }

// Assemble makes the parts; the transport must not let requests in before it returns.
func Assemble(o Options) *Parts {
	p := &Parts{View: View{o.Cluster}, forgetFormer: o.ForgetFormer}
	p.Local = replica.NewLocal(o.Requests, p.View, func(t coordinator.Truncation, done func(error)) { p.Coordinator.FollowTruncation(t, done) })
	p.Local.SetUnsafe(o.Coordinator.Unsafe)
	p.Local.SetPageMemory(o.PageMemory)
	replica.Serve(o.Transport, p.Local)
	p.Streams = replica.NewStreams(replica.StreamOptions{
		Local: p.Local, Engine: o.Store, Transport: o.Transport, Clock: o.Clock, Run: o.Run, Limits: o.Streams,
	})
	p.Peers = replica.NewRepairs(replica.RepairOptions{
		Local: p.Local, Engine: o.Store, Transport: o.Transport, Clock: o.Clock, Run: o.Run, Repaired: o.Repaired, StepBytes: o.StepBytes,
		Streams: p.Streams, PaxosLook: o.PaxosLook, Confirm: agreement{o.Cluster}.StartConfirm,
	})
	p.Moves = replica.NewMoves(replica.MovesOptions{
		View: p.View, Agreement: o.Cluster, Streams: p.Streams, Local: p.Local, Hashes: p.Peers, Clock: o.Clock,
		HandOver: func(done func(error)) { p.Coordinator.HandOver(done) },
		Run:      o.Run, Note: o.Note, LeafBytes: o.LeafBytes, NoCompare: o.NoCompare,
		NoPaxosStreams: o.NoPaxosStreams,
	})
	p.Drops = replica.NewDrops(replica.DropsOptions{
		View: p.View, Agreement: agreement{o.Cluster}, Local: p.Local, Engine: o.Store, Transport: o.Transport, Clock: o.Clock,
		Epoch: func() uint64 { return o.Cluster.Metadata().Epoch }, Unclean: p.unclean,
		Former: p.former, Gained: p.gained, Repaired: o.Repaired, Run: o.Run, Log: o.Log, Unconfirmed: o.Unconfirmed,
	})
	c := o.Coordinator
	c.View, c.Replicas, c.Clock, c.Hints = p.View, replica.NewDirectory(p.Local, o.Transport, p.View), o.Clock, o.Store
	c.Arriving, c.Confirmed, c.Run = o.Cluster.Arriving, o.Confirmed, o.Run
	p.Coordinator = coordinator.New(c)
	replica.ServeCounters(o.Transport, p.Coordinator)
	replica.ServeBatches(o.Transport, p.Coordinator)
	replica.ServeTurns(o.Transport, p.Coordinator)
	p.Repairer = repair.NewRepairer(repair.Options{
		Coordinator: p.Coordinator, View: p.View, Clock: o.Clock, Peers: p.Peers, Store: o.Store, Run: o.Run, Limits: o.Repair,
		RaiseFloor: o.Cluster.StartPaxosFloor,
	})
	a := o.AutoRepair
	a.Repairer, a.Store = p.Repairer, o.Store
	p.AutoRepair = repair.NewAuto(a)
	p.Coordinator.OnHintLost(p.AutoRepair.Dirty)
	return p
}

// unclean is the epoch since which this node has data that it lost; zero: it has none.
func (p *Parts) unclean() uint64 {
	for _, u := range p.View.Cluster.Metadata().Unclean {
		if u.Node == p.View.Self() {
			return u.Epoch
		}
	}
	return 0
}

// former is replica.DropsOptions.Former.
func (p *Parts) former(keyspace string) *replica.FormerData {
	if p.forgetFormer {
		return nil
	}
	var data *replica.FormerData
	for _, f := range p.View.Cluster.Metadata().Former {
		if f.Keyspace != keyspace || !slices.Contains(f.Nodes, p.View.Self()) {
			continue
		}
		if data == nil {
			data = &replica.FormerData{Reachable: true}
		}
		data.Epoch, data.Since, data.Reachable = f.Epoch, max(data.Since, f.Since), data.Reachable && f.Overlaps
	}
	return data
}

// gained is replica.DropsOptions.Gained. What the present replicas could not get from each other waits for another change.
func (p *Parts) gained() (out []replica.GainedData) {
	for _, f := range p.View.Cluster.Metadata().Former {
		if !f.Overlaps || !slices.Contains(f.Gained, p.View.Self()) ||
			slices.ContainsFunc(out, func(g replica.GainedData) bool { return g.Keyspace == f.Keyspace && g.Changed == f.Changed }) {
			continue
		}
		out = append(out, replica.GainedData{Keyspace: f.Keyspace, Changed: f.Changed, Since: f.Since})
	}
	return out
}

// agreement is the metadata log as replica.Drops use it.
type agreement struct{ *cluster.Cluster }

// StartConfirm implements replica.DropAgreement.
func (a agreement) StartConfirm(done func()) {
	a.Cluster.StartConfirm(func(*cluster.Metadata) { done() })
}

// retain forgets that ranges were repaired which this node does not hold any more: when it gets one of them back, it is
// not what it had.
func (p *Parts) retain(m *cluster.Metadata, repaired *replica.Repaired) error {
	self := p.View.Self()
	for _, id := range repaired.Tables() {
		var held []ring.Range
		t := m.Schema.TableByStorage(id)
		if t == nil && !m.Schema.Dropped(id) {
			continue
		}
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
