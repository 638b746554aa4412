package assembly

import (
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"cqld/cluster"
	"cqld/internal/env"
	"cqld/ring"
	"cqld/schema"
)

// ReactionStore is storage as Reactions use it.
type ReactionStore interface {
	// Tables are those of which anything is stored.
	Tables() ([]schema.StorageID, error)
	DropTable(id schema.StorageID) error
}

// Reactions make this node do what the metadata that the cluster has agreed on ask of it: drop the data of dropped tables,
// fetch ranges that it gains, drop those that it lost, end its service when it is no member any more; and what the
// liveness of other nodes asks of it: replay hints, repair.
//
//	metadata changed ──▶ pending ──▶ reconcile (in Run, one at a time): compare the present metadata with this node
//	                        ▲ until they are confirmed and this node has joined, nothing is done
//
// They compare states, not changes: whatever entries of the log were applied in between, one by one, in a replay or by a
// snapshot, the outcome is the same. What fails is tried again.
type Reactions struct {
	o  reactionOptions
	mu struct {
		sync.Mutex
		confirmed, joined bool
		closed            bool
		running, pending  bool
		member            bool // this node has been one
		retired           bool
	}
	// Only the one reconcile under way touches these.
	tables   map[schema.StorageID]bool // of the catalog that was last reconciled
	catalog  *schema.Schema            // what the tables of storage were last compared with; nil: the comparison failed
	topology *ring.Topology            // what the repaired ranges were last compared with; nil: the comparison failed
}

type reactionOptions struct {
	cluster *cluster.Cluster
	parts   *Parts
	opening *Opening
	store   ReactionStore
	clock   env.Clock
	run     func(func())
	log     *slog.Logger
}

// reactionRetry is the pause after a reaction that failed.
const reactionRetry = 5 * time.Second

func newReactions(o reactionOptions) *Reactions {
	return &Reactions{o: o, tables: map[schema.StorageID]bool{}}
}

// confirm is the event of the first confirmation.
func (r *Reactions) confirm() { r.enable(func() { r.mu.confirmed = true }) }

// join is the event of this node being a member.
func (r *Reactions) join() { r.enable(func() { r.mu.joined, r.mu.member = true, true }) }

// enable begins to react once both conditions hold.
func (r *Reactions) enable(set func()) {
	r.mu.Lock()
	before := r.mu.confirmed && r.mu.joined
	set()
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
	r.look()
}

// enabled says whether this node reacts. mu is held.
func (r *Reactions) enabled() bool {
	return (r.mu.confirmed && r.mu.joined || r.o.opening.ReactToReplay) && !r.mu.closed
}

// Close ends all reactions; one that is under way is not waited for.
func (r *Reactions) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.closed = true
}

// alive is the event that a node came up or went down.
func (r *Reactions) alive(id ring.NodeID, up bool) {
	r.mu.Lock()
	enabled := r.enabled()
	r.mu.Unlock()
	if enabled && up && id != r.o.cluster.Self() {
		r.o.run(func() {
			r.o.parts.Hints.NodeUp(id)
			r.o.parts.AutoRepair.Look()
		})
	}
}

// look is the event of a change of the metadata.
func (r *Reactions) look() {
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

// reconcile compares the newest metadata with this node until nothing is pending.
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
		failed := r.dropTables(m) != nil
		failed = r.ringMoved(m) != nil || failed
		if failed {
			r.o.clock.After(reactionRetry, r.look)
		}
	}
}

// dropTables drops the data of tables that were dropped: of those that storage has something of, and of those that it may
// be about to get something of, because they were known a moment ago.
func (r *Reactions) dropTables(m *cluster.Metadata) error {
	if r.catalog == m.Schema {
		return nil
	}
	stored, err := r.o.store.Tables()
	if err != nil {
		r.o.log.Error("the tables of storage cannot be listed", "err", err)
		return err
	}
	for _, id := range slices.Concat(stored, slices.Sorted(maps.Keys(r.tables))) {
		if !m.Schema.Dropped(id) {
			continue
		}
		if f := r.o.opening.TableDropped; f != nil {
			f(id)
		}
		if err = r.o.store.DropTable(id); err != nil {
			r.o.log.Error("the data of a dropped table stays on disk for now", "table", id, "err", err)
			return err
		}
		delete(r.tables, id)
	}
	for _, id := range m.Schema.StorageIDs() {
		r.tables[id] = true
	}
	r.catalog = m.Schema
	return nil
}

// ringMoved forgets what was repaired of ranges that this node gave away, before it may fetch them again; and then has
// the parts compare their work with the topology.
func (r *Reactions) ringMoved(m *cluster.Metadata) (err error) {
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

// membership tells the owner of the node, once, when it is no member any more. That never changes back, so no confirmation
// is needed.
func (r *Reactions) membership() {
	r.mu.Lock()
	retire := r.mu.member && !r.mu.retired && r.o.cluster.Metadata().Topology.Node(r.o.cluster.Self()) == nil
	r.mu.retired = r.mu.retired || retire
	r.mu.Unlock()
	if f := r.o.opening.Retired; retire && f != nil {
		f()
	}
}
