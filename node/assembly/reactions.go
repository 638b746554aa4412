package assembly

import (
	"log/slog"
	"slices"
	"sync"
	"time"

	"cqld/cluster"
	"cqld/cluster/metadata"
	"cqld/internal/env"
	"cqld/ring"
	"cqld/schema"
)

// ReactionStore is the interface of storage for Reactions.
type ReactionStore interface {
	// Tables returns the tables that have data in storage.
	Tables() ([]schema.StorageID, error)
	DropTable(id schema.StorageID) error
}

// Reactions apply changes of the cluster metadata to this node: they drop the data of dropped tables, fetch the ranges
// that the node gains, drop those that it has lost, and end its service when it is no longer a member. They also
// react to the liveness of other nodes, by replaying hints and by repairs.
//
//	metadata changed ──▶ pending ──▶ reconcile (in Run, one at a time): compare the current metadata with this node
//	                        ▲ nothing is done until they are confirmed and this node has joined
//
// They compare states, not changes. The outcome is therefore the same whether the entries of the log were applied one
// by one, in a replay or by a snapshot. Failed reactions are retried.
type Reactions struct {
	o  reactionOptions
	mu struct {
		sync.Mutex
		// Both conditions hold until Close.
		confirmed, joined bool
		closed            bool
		// running is set while reconcile runs; pending is set by a change and cleared by the pass that reads it.
		running, pending bool
		member           bool // this node has been a member
		// retired is set once Retired was called, or would have been.
		retired bool
		// described has the last schema with each of the tables that were dropped and not reconciled yet, in the order
		// of the drops, and at most the newest describedMax. It includes tables that were created and dropped between
		// two passes, and in a replay.
		described []description
	}
	// Only the running reconcile uses these fields. At most one runs at a time.
	catalog  *schema.Schema // last reconciled; nil before the first
	topology *ring.Topology // last compared with the repaired ranges; nil: the comparison failed
}

// description is the last schema with a table that was dropped.
type description struct {
	table  schema.StorageID
	schema *schema.Schema
}

// reactionOptions are set once. run starts goroutines that the owner waits for.
type reactionOptions struct {
	cluster *cluster.Cluster
	parts   *Parts
	opening *Opening
	store   ReactionStore
	clock   env.Clock
	run     func(func())
	log     *slog.Logger
}

// reactionRetry is the delay before a failed reaction is retried. The usual cause is a failing or full disk, which an
// operator has to repair first.
const reactionRetry = 5 * time.Second

// describedMax bounds the schemas that dropped tables keep in memory, in a replay or while reactions fail. A node keeps
// no more automatic snapshots, so an earlier one would be removed at once.
const describedMax = 256

func newReactions(o reactionOptions) *Reactions { return &Reactions{o: o} }

// confirm is called when the metadata are confirmed for the first time. A second call has no effect.
func (r *Reactions) confirm() { r.enable(func() { r.mu.confirmed = true }) }

// join is called when this node has become a member.
func (r *Reactions) join() { r.enable(func() { r.mu.joined, r.mu.member = true, true }) }

// enable sets a condition, and starts the reactions when both conditions hold. The liveness of other nodes is replayed
// then, because notifications before were ignored.
func (r *Reactions) enable(set func()) {
	r.mu.Lock()
	before := r.mu.confirmed && r.mu.joined
	set()
	// Only the call that completes the conditions starts anything.
	enabled := r.mu.confirmed && r.mu.joined && !before
	r.mu.Unlock()
	if !enabled {
		return
	}
	for _, n := range r.o.cluster.Metadata().Topology.Nodes() {
		r.alive(n.ID, r.o.cluster.Alive(n.ID))
	}
	if r.o.opening.AutoRepair {
		r.o.parts.AutoRepair.Start()
	}
	r.onMetadata()
}

// enabled reports whether this node reacts. The caller holds mu.
func (r *Reactions) enabled() bool {
	return r.mu.confirmed && r.mu.joined && !r.mu.closed
}

// Close ends all reactions. It does not wait for a running one. A retry whose timer fires later starts nothing.
func (r *Reactions) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.closed = true
}

// alive is called when a node came up or went down. Hints for the node are replayed, and repairs that waited for
// replicas are tried again.
func (r *Reactions) alive(id ring.NodeID, up bool) {
	r.mu.Lock()
	enabled := r.enabled()
	r.mu.Unlock()
	if enabled && up && id != r.o.cluster.Self() {
		r.o.run(func() {
			r.o.parts.Hints.NodeUp(id)
			r.o.parts.AutoRepair.RetryWaiting()
		})
	}
}

// onMetadata is called when the metadata have changed. Changes during a pass lead to one further pass, however many
// they are.
func (r *Reactions) onMetadata() {
	// A node that has left must be noticed even while reactions are disabled.
	r.membership()
	r.mu.Lock()
	r.mu.pending = true
	begin := r.enabled() && !r.mu.running
	if begin {
		r.mu.running = true
	}
	r.mu.Unlock()
	if begin {
		r.o.run(r.reconcile)
	}
}

// reconcile compares the newest metadata with this node until nothing is pending. There is at most one at a time, so
// its own fields need no lock.
func (r *Reactions) reconcile() {
	for {
		r.mu.Lock()
		if !r.mu.pending || r.mu.closed {
			r.mu.running = false
			r.mu.Unlock()
			return
		}
		r.mu.pending = false
		r.mu.Unlock()
		m := r.o.cluster.Metadata()
		// Both are tried, so that a table that cannot be dropped does not stop movements.
		failed := r.dropTables(m) != nil
		failed = r.ringMoved(m) != nil || failed
		if failed {
			r.o.clock.After(reactionRetry, r.onMetadata)
		}
	}
}

// dropTables drops the data of dropped tables: of those in the previously reconciled catalog, to which a write may
// still be in flight, and of those that have data in storage. It stops at the first failure. The catalog counts as
// reconciled only if all tables were dropped, so a retry sees the same tables again.
func (r *Reactions) dropTables(m *metadata.Metadata) error {
	if r.catalog == m.Schema {
		return nil
	}
	dropped, err := r.dropped(m.Schema)
	if err != nil {
		r.o.log.Error("the tables of storage cannot be listed", "err", err)
		return err
	}
	for _, id := range dropped {
		if err = r.dropTable(id); err != nil {
			r.o.log.Error("the data of a dropped table stays on disk for now", "table", id, "err", err)
			return err
		}
	}
	r.catalog = m.Schema
	r.forgetDrops(m.Schema)
	// New indexes may be in the catalog. Their builds start after the old data is gone.
	r.o.parts.Builder.Start()
	return nil
}

// dropTable removes the data of a dropped table. The owner of the node is notified first, and may postpone it.
func (r *Reactions) dropTable(id schema.StorageID) error {
	if f := r.o.opening.TableDropped; f != nil {
		if err := f(r.describing(id), id); err != nil {
			return err
		}
	}
	return r.o.store.DropTable(id)
}

// describing returns the last schema with a dropped table, or an earlier one, or nil if none is known.
func (r *Reactions) describing(id schema.StorageID) *schema.Schema {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, d := range r.mu.described {
		if d.table == id {
			return d.schema
		}
	}
	// A pass may read metadata before noteDrops has seen them.
	if r.catalog != nil && r.catalog.TableByStorage(id) != nil {
		return r.catalog
	}
	return nil
}

// noteDrops keeps the schema of tables that a change has dropped. It is called for each change, in their order.
func (r *Reactions) noteDrops(old, now *schema.Schema) {
	if old == now {
		return
	}
	// The list is incomplete if a snapshot of the log has replaced several changes. No schema of this node describes a
	// table that was created and dropped among them.
	ids, _ := now.DroppedSince(old)
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range ids {
		r.mu.described = append(r.mu.described, description{id, old})
	}
	// A copy, so that the array does not keep the schemas that are forgotten.
	if beyond := len(r.mu.described) - describedMax; beyond > 0 {
		r.mu.described = slices.Clone(r.mu.described[beyond:])
	}
}

// forgetDrops forgets the tables that are dropped in a schema, which is reconciled.
func (r *Reactions) forgetDrops(now *schema.Schema) {
	r.mu.Lock()
	defer r.mu.Unlock()
	// A table that was dropped later still exists in now.
	r.mu.described = slices.DeleteFunc(r.mu.described, func(d description) bool { return now.Dropped(d.table) })
}

// dropped returns the tables whose data must be dropped. After the first successful reconciliation, storage refuses
// writes to the tables that were dropped before. It is therefore listed, at the cost of a seek for each table, only if
// a table may have come and gone between two reconciliations.
func (r *Reactions) dropped(now *schema.Schema) ([]schema.StorageID, error) {
	var ids []schema.StorageID
	if r.catalog != nil {
		var complete bool
		// The catalogs themselves show all drops, so storage need not be listed.
		if ids, complete = now.DroppedSince(r.catalog); complete {
			return ids, nil
		}
	}
	stored, err := r.o.store.Tables()
	for _, id := range stored {
		if now.Dropped(id) && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids, err
}

// ringMoved removes ranges that this node gave away from the repair history, before it may gain them again. Then the
// parts compare their work with the topology. It is called for every change of the metadata; the history is compared
// only if the topology is another one.
func (r *Reactions) ringMoved(m *metadata.Metadata) (err error) {
	if r.topology != m.Topology {
		r.o.parts.AutoRepair.Moved()
		if err = r.o.parts.retain(m, r.o.opening.repaired); err != nil {
			r.o.log.Error("what was repaired could not be noted", "err", err)
			return err
		}
		r.topology = m.Topology
	}
	r.o.parts.Movements.Reconcile(m.Topology)
	r.o.parts.Drops.Reconcile()
	return nil
}

// membership notifies the owner of the node once, when it is no longer a member. A departure is final, so no
// confirmation is needed.
func (r *Reactions) membership() {
	r.mu.Lock()
	retire := r.mu.member && !r.mu.retired && r.o.cluster.Metadata().Topology.Node(r.o.cluster.Self()) == nil
	r.mu.retired = r.mu.retired || retire
	r.mu.Unlock()
	if f := r.o.opening.Retired; retire && f != nil {
		f()
	}
}
