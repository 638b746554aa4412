package listing

import (
	"cqld/coordinator"
	"cqld/internal/env"
	"cqld/internal/guard"
	"cqld/replica"
	"cqld/ring"
	"cqld/schema"
	"cqld/storage"
)

// PageRequest asks one node for its next keys.
type PageRequest struct {
	Table    schema.StorageID
	Span     Span
	Reversed bool
	Limit    int
	Now      int64 // seconds since 1970
	Dead     bool  // include partitions without a live row
	// Moved makes a node refuse if it does not know that movement yet: it would leave out ranges that it has gained.
	Moved  uint64      // ring.Topology.Moved of the topology that the listing was planned with
	Cancel *env.Cancel // not sent; nil means that the request cannot be canceled
}

// Page contains every partition with a live row that a node holds, from the beginning of the span up to and including
// Last.
type Page struct {
	Keys [][]byte
	Last []byte // the last key examined; nil if there is none
	More bool   // there may be further keys after Last
	// Scanned includes keys that are not in the page.
	Scanned int // keys examined
}

// Engine is storage as a Replica uses it.
type Engine interface {
	Partitions(q *storage.PartitionsRead) (storage.PartitionsPage, error)
}

// ReplicaOptions configures a Replica. Local, View and Engine are required.
type ReplicaOptions struct {
	Local  *replica.Local // admits requests and provides workers
	View   coordinator.View
	Engine Engine
	Guard  *guard.Guard // answers with an error when the engine panics; nil means that panics are not recovered
}

// Replica lists the keys that this node holds. Its methods may be called from any goroutine.
type Replica struct {
	local  *replica.Local
	view   coordinator.View
	engine Engine
	guard  *guard.Guard // may be nil
}

// NewReplica returns a Replica.
func NewReplica(o ReplicaOptions) *Replica {
	return &Replica{local: o.Local, view: o.View, engine: o.Engine, guard: o.Guard}
}

// Page lists in a worker, because the engine reads the disk. It calls done exactly once, possibly before it returns.
// q must not change before.
func (r *Replica) Page(epoch uint64, q *PageRequest, done func(*Page, error)) {
	r.local.Block(0, func() { done(r.page(epoch, q)) }, func(err error) { done(nil, err) })
}

// page lists in the caller's goroutine. It leaves out keys of ranges that this node no longer holds but has not
// dropped yet. For that it must know the ring at least as well as the coordinator does; otherwise it refuses.
func (r *Replica) page(epoch uint64, q *PageRequest) (*Page, error) {
	if err := r.local.CheckEpoch(epoch); err != nil {
		return nil, err
	}
	topology := r.view.Topology()
	// The coordinator knows a later movement, in which this node may have gained ranges.
	if q.Moved > topology.Moved() {
		return nil, &coordinator.NotReplica{Epoch: topology.Epoch()}
	}
	table := r.view.Schema().TableByStorage(q.Table)
	if table == nil {
		return nil, replica.UnknownTable(q.Table)
	}
	read := storage.PartitionsRead{
		Table: q.Table, From: q.Span.From, To: q.Span.To, Reversed: q.Reversed, Limit: q.Limit, Now: q.Now,
		Dead: q.Dead, Cancel: q.Cancel,
	}
	if table.Replication.Class != ring.Local {
		placement, self := topology.Placement(table.Replication), r.view.Self()
		// Keys of local tables are not filtered: all of them are on this node.
		read.Holds = func(t ring.Token) bool { return placement.Replicas(t).Contains(self) }
	}
	page, err := r.read(&read)
	if err != nil {
		return nil, replica.FromStorage(err)
	}
	return (*Page)(&page), nil
}

// read calls the engine. A listing changes no data, so a panic only fails this request.
func (r *Replica) read(q *storage.PartitionsRead) (page storage.PartitionsPage, err error) {
	defer r.guard.Recover("replica read", func(failure error) { page, err = storage.PartitionsPage{}, failure })
	return r.engine.Partitions(q)
}

// remotePage is page for another node, which must not list tables of LocalStrategy: their data belong to this node
// alone.
func (r *Replica) remotePage(epoch uint64, q *PageRequest) (*Page, error) {
	if table := r.view.Schema().TableByStorage(q.Table); table != nil && table.Replication.Class == ring.Local {
		return nil, &coordinator.NotReplica{Epoch: r.view.Topology().Epoch()}
	}
	return r.page(epoch, q)
}
