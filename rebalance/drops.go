package rebalance

import (
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"

	"cqld/coordinator"
	"cqld/internal/env"
	"cqld/messaging"
	"cqld/repair"
	"cqld/replica"
	"cqld/ring"
	"cqld/schema"
	"cqld/storage/lost"
)

// DropEngine is the part of storage that Drops needs.
type DropEngine interface {
	// DropRange removes all data of a range of a table, and EmptyRange reports whether there is none.
	DropRange(table schema.StorageID, tokens ring.Range) error
	EmptyRange(table schema.StorageID, tokens ring.Range) (bool, error)
	// DropRows removes the rows of a range for which of returns true; HasRows reports whether there is one.
	DropRows(table schema.StorageID, tokens ring.Range, of func(clustering []byte) bool) error
	HasRows(table schema.StorageID, tokens ring.Range, of func(clustering []byte) bool) (bool, error)
	SizeOf(table schema.StorageID, tokens ring.Range) (int64, error)
	// Drain waits until everything that was applied before is committed.
	Drain() error
	// Lost returns the ranges that may lack rows because a file was corrupt.
	Lost() []lost.Range
}

// MetadataLog is the part of the metadata log that Drops needs. done is called once; in StartConfirm only when a
// majority responds.
type MetadataLog interface {
	// StartConfirm calls done when View includes every change that was committed before the call.
	StartConfirm(done func())
	// StartCleaned reports that this node has dropped its data of ranges lost up to epoch.
	StartCleaned(epoch uint64, done func(error))
	// StartSettled reports that this node has no data left of a keyspace's replications up to epoch.
	StartSettled(keyspace string, epoch uint64, done func(error))
	// StartRegained reports that all ranges of a keyspace that this node holds were repaired after the change at epoch
	// changed.
	StartRegained(keyspace string, changed uint64, done func(error))
}

// DropsOptions are the dependencies of Drops. All are required except Gained and Log.
type DropsOptions struct {
	View      coordinator.View
	Metadata  MetadataLog
	Local     *replica.Local
	Engine    DropEngine
	Transport messaging.Transport
	Clock     env.Clock
	// Epoch returns the epoch of the metadata in View.
	Epoch func() uint64
	// Unclean returns the epoch since which this node has data of ranges that it lost; zero means that it has none.
	Unclean func() uint64
	// Former describes data of a keyspace that only this node may have, because the replication was changed. Nil means
	// none.
	Former func(keyspace string) *FormerData
	// Gained returns the keyspaces of which this node gained ranges by changes of replication that it has not reported
	// as repaired. Nil means none.
	Gained func() []GainedData
	// History contains the times up to which this node's ranges are repaired.
	History *repair.History
	// Run runs work that waits for the disk; see StreamOptions.Run.
	Run func(func())
	// Changed is called after rows of a table were removed other than by mutations.
	Changed func(table schema.StorageID)
	Log     *slog.Logger // nil discards
}

// FormerData describes data of a keyspace that a node may have by an earlier replication. A change of replication moves
// no data, so the present replicas lack it until they are repaired.
type FormerData struct {
	Epoch uint64 // of the last change
	// Since is the time of that change, in seconds. A repair of the present replicas that began later has copied all
	// data, if Reachable.
	Since int64
	// Reachable reports that the present replicas could get all data from each other.
	Reachable bool
}

// Drops removes the data of ranges that this node no longer holds. It decides about each removal in these steps:
//
//	unclean ──▶ confirm that this node has applied all metadata that a majority has committed
//	        ──▶ list the ranges with data that no operation, and no replication of a keyspace, present or
//	            kept, assigns to this node
//	        ──▶ ask their replicas whether, at that epoch or later, they hold the range and can read it;
//	            at least half of them must confirm
//	        ──▶ fence the ranges that this node still does not hold: writes, votes and streams are refused
//	        ──▶ storage.DropRange, logged and counted, and DropRows for Paxos states; then remove the fence
//	        ──▶ StartCleaned: from now on this node may gain ranges again
//
// A decision that fails is repeated from the beginning. A crash at any point leaves data that the next decision finds.
// Drops is safe for concurrent use.
//
// Drops is the shell of a dropMachine: it serializes the events, checks the invariants and performs the effects.
type Drops struct {
	o             DropsOptions
	ranges, bytes atomic.Int64
	mu            struct {
		sync.Mutex
		machine dropMachine
	}
}

// NewDrops registers the handler of VerbHolds. Call it before the transport starts.
func NewDrops(o DropsOptions) *Drops {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	d := &Drops{o: o}
	d.mu.machine = dropMachine{view: o.View}
	if o.History != nil {
		o.History.OnAdd(d.scheduleGainedCheck)
	}
	d.serve()
	return d
}

// Reconcile starts a decision when this node has data of ranges that it lost, and schedules a check of the ranges that
// it gained.
func (d *Drops) Reconcile() {
	d.scheduleGainedCheck()
	if d.o.Unclean() != 0 {
		d.deliver(&dropEvent{kind: dropRequested})
	}
}

// Close stops the running decision before its next step, and answers the requests of operators. The removal of a
// range that has begun continues.
func (d *Drops) Close() { d.deliver(&dropEvent{kind: dropStopped}) }

var errDropsClosed = errors.New("rebalance: the node is stopping")

// deliver takes an event. An effect that waits for the disk is performed in a goroutine of DropsOptions.Run, the others
// in the caller's.
func (d *Drops) deliver(ev *dropEvent) {
	if e := d.react(ev); e != nil {
		d.o.Run(func() { d.work(e) })
	}
}

// work performs effects that wait for the disk, one after the other, until an event leads to none.
func (d *Drops) work(e *dropEffect) {
	for e != nil {
		e = d.react(d.execute(e))
	}
}

// react executes a step and performs its effects, except the one that waits for the disk, which it returns.
func (d *Drops) react(ev *dropEvent) (waits *dropEffect) {
	out := d.step(ev)
	for i := range out {
		e := &out[i]
		if e.kind.waits() {
			waits = e
			continue
		}
		d.perform(e)
	}
	return waits
}

// step is the critical section of an event.
func (d *Drops) step(ev *dropEvent) []dropEffect {
	d.mu.Lock()
	defer d.mu.Unlock()
	m := &d.mu.machine
	out := m.step(ev, nil)
	m.check()
	return out
}
