package search

import (
	"errors"
	"time"

	"cqld/coordinator"
	"cqld/internal/env"
	"cqld/internal/guard"
	"cqld/replica"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/storage/index"
)

// PageRequest asks one node for its next candidates. It must not be changed once it was passed to Replicas. It is the
// wire form's content; Serve has its layout.
type PageRequest struct {
	Table    schema.StorageID
	Index    schema.StorageID
	Terms    []row.Slice
	Union    []Branch
	Key      row.PartitionKey // Bytes are nil if the search is not for one partition
	Tokens   ring.Range       // does not wrap
	Slices   []row.Slice      // nil means all rows
	Filter   *row.Filter
	From     Position
	Reversed bool
	Order    Order
	Near     []byte // of ByScore
	Limit    int
	Now      int64       // seconds since 1970
	Moved    uint64      // ring.Topology.Moved of the topology that the search was planned with
	Cancel   *env.Cancel // is not sent; nil means that nothing ends the request early
}

// Page contains every row that matches by the versions of a node, from the beginning of the request up to and
// including Last.
type Page = index.Page

// Engine is storage as a Replica uses it.
type Engine interface {
	Search(q *index.Query) (index.Page, error)
}

// ReplicaOptions configures a Replica. Local, View and Engine are required.
type ReplicaOptions struct {
	Local  *replica.Local // admits requests and provides workers
	View   coordinator.View
	Engine Engine
	Guard  *guard.Guard // answers with an error when the engine panics; nil means that panics are not recovered
}

// Replica searches the rows that this node holds. Its methods may be called from any goroutine.
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

// Page searches in a worker, because the engine reads the disk. It calls done exactly once, possibly before it returns.
// q must not change before. A full queue of workers is the error of local.Block.
func (r *Replica) Page(epoch uint64, q *PageRequest, done func(*Page, error)) {
	r.local.Block(0, func() { done(r.page(epoch, q)) }, func(err error) { done(nil, err) })
}

// page searches in the caller's goroutine. It leaves out rows of ranges that this node no longer holds but has
// not dropped yet. For that it must know the ring at least as well as the coordinator does; otherwise it refuses.
func (r *Replica) page(epoch uint64, q *PageRequest) (*Page, error) {
	if err := r.local.CheckEpoch(epoch); err != nil {
		return nil, err
	}
	topology := r.view.Topology()
	// The coordinator has planned with a change of the ring that this node does not know: it could leave out tokens
	// that it has begun to hold.
	if q.Moved > topology.Moved() {
		return nil, &coordinator.NotReplica{Epoch: topology.Epoch()}
	}
	table := r.view.Schema().TableByStorage(q.Table)
	if table == nil {
		return nil, replica.UnknownTable(q.Table)
	}
	query := index.Query{
		Table: q.Table, Index: q.Index, Terms: q.Terms, Union: q.Union, Key: q.Key, Tokens: q.Tokens, Slices: q.Slices,
		Filter: q.Filter,
		From:   q.From, Reversed: q.Reversed, Order: q.Order, Near: q.Near, Limit: q.Limit, Now: q.Now,
		Cancel: q.Cancel,
	}
	if table.Replication.Class != ring.Local {
		placement, self := topology.Placement(table.Replication), r.view.Self()
		// A table of LocalStrategy is on this node as a whole.
		query.Holds = func(t ring.Token) bool { return placement.Replicas(t).Contains(self) }
	}
	page, err := r.read(&query)
	switch {
	// The coordinator may ask another replica, and reports NotBuilt if too few are left.
	case errors.Is(err, index.ErrNotBuilt):
		return nil, &coordinator.ReplicaFailure{Reason: coordinator.FailureIndexNotAvailable, Message: err.Error()}
	case err != nil:
		return nil, replica.FromStorage(err)
	}
	return &page, nil
}

// read calls the engine. A search only removes stale entries, so a panic only fails this request.
func (r *Replica) read(q *index.Query) (page index.Page, err error) {
	defer r.guard.Recover("replica search", func(failure error) { page, err = index.Page{}, failure })
	return r.engine.Search(q)
}

// remotePage is page for another node, which must not search tables of LocalStrategy: their data belong to this node
// alone. A Directory never sends such a request, so it comes from a node with a fault.
func (r *Replica) remotePage(epoch uint64, q *PageRequest) (*Page, error) {
	if table := r.view.Schema().TableByStorage(q.Table); table != nil && table.Replication.Class == ring.Local {
		return nil, &coordinator.NotReplica{Epoch: r.view.Topology().Epoch()}
	}
	return r.page(epoch, q)
}

// Replicas searches on nodes, this one included. Page returns at once and calls done exactly once, possibly before it
// returns. The caller owns the page, and must not change q, at all. trace may be nil. A node that knows of a later
// change of the ring than epoch, or of an earlier one than q.Moved, refuses with coordinator.NotReplica.
type Replicas interface {
	Page(to ring.NodeID, trace coordinator.Trace, epoch uint64, q *PageRequest, timeout time.Duration,
		done func(*Page, error))
}
