package rebalance

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"cqld/coordinator"
	"cqld/internal/env"
	"cqld/internal/invariant"
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

// DropsOptions are the dependencies of Drops. All are required except Gained, Log and Unconfirmed.
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
	// Unconfirmed, set by tests only, drops by the topology that this node currently knows, without asking other nodes.
	Unconfirmed bool
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
type Drops struct {
	o             DropsOptions
	ranges, bytes atomic.Int64
	mu            struct {
		sync.Mutex
		running bool // a decision is under way, or will be retried
		closed  bool
		// asked are calls of Cleanup that wait for a decision that starts after the call; current wait for the present
		// one.
		asked, current []*cleanup
		failures       int  // consecutive decisions that failed
		checking       bool // a check of gained ranges is scheduled
	}
}

// NewDrops registers the handler of VerbHolds. Call it before the transport starts.
func NewDrops(o DropsOptions) *Drops {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	d := &Drops{o: o}
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
		d.begin(nil)
	}
}

// Close stops the decision under way before its next step.
func (d *Drops) Close() {
	d.mu.Lock()
	d.mu.closed = true
	waiting := slices.Concat(d.mu.current, d.mu.asked)
	d.mu.current, d.mu.asked = nil, nil
	d.mu.Unlock()
	for _, c := range waiting {
		c.done(errDropsClosed)
	}
}

var errDropsClosed = errors.New("rebalance: the node is stopping")

// begin starts a decision; c is nil when no operator requested it.
func (d *Drops) begin(c *cleanup) {
	d.mu.Lock()
	if d.mu.closed {
		d.mu.Unlock()
		if c != nil {
			c.done(errDropsClosed)
		}
		return
	}
	if c != nil {
		d.mu.asked = append(d.mu.asked, c)
	}
	// The end of the decision under way starts another one for requests that came after its confirmation.
	if d.mu.running {
		d.mu.Unlock()
		return
	}
	d.mu.running = true
	d.mu.Unlock()
	d.confirm()
}

// confirm is the first step of a decision.
func (d *Drops) confirm() {
	d.mu.Lock()
	// Requests from before the confirmation are answered by this decision; later ones need a new confirmation.
	d.mu.current, d.mu.asked = append(d.mu.current, d.mu.asked...), nil
	d.mu.Unlock()
	if d.o.Unconfirmed {
		d.o.Run(func() {
			x := &dropDecision{d: d, unclean: d.o.Unclean(), items: d.list()}
			if err := x.withData(); err != nil {
				d.end(err, true)
				return
			}
			x.drop()
		})
		return
	}
	d.o.Metadata.StartConfirm(d.confirmed)
}

// confirmed is the event of the confirmation. Until it returns, View is what was confirmed.
func (d *Drops) confirmed() {
	decision := &dropDecision{d: d, unclean: d.o.Unclean(), epoch: d.o.Epoch()}
	switch operations := d.o.View.Topology().Operations(); {
	case d.o.View.Topology().Node(d.o.View.Self()) == nil:
		d.end(nil, false) // data of a former member are not dropped
		return
	// Another decision has dropped everything, or all requests were cancelled.
	case decision.unclean == 0 && len(d.wanted()) == 0:
		d.end(nil, false)
		return
	case len(operations) > 1: // the outcome of one may change the ranges that the other assigns to this node
		d.end(fmt.Errorf("rebalance: %d operations change the ring", len(operations)), true)
		return
	}
	decision.items = d.list()
	// Read now, before the disk is waited for: settle must report what was confirmed, not a later change.
	decision.former, decision.leftover = map[string]*FormerData{}, map[string]bool{}
	for _, name := range d.o.View.Schema().KeyspaceNames() {
		if f := d.o.Former(name); f != nil {
			decision.former[name] = f
		}
	}
	decision.limit(d.wanted())
	d.o.Run(func() {
		if err := decision.withData(); err != nil {
			d.end(err, true)
			return
		}
		decision.ask()
	})
}

// wanted returns the requests of operators that wait for the present decision.
func (d *Drops) wanted() []*cleanup {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.mu.current)
}

// end ends a decision. After a failure it is retried while this node is unclean.
func (d *Drops) end(err error, again bool) {
	waiting, again, report := d.countEnd(err, again)
	if report {
		d.o.Log.Warn("data of ranges that this node no longer holds was not dropped yet", "err", err)
	}
	// Without mu: done may request the next cleanup.
	for _, c := range waiting {
		c.done(err)
	}
	if again {
		d.o.Clock.After(dropRetry, d.confirm)
		return
	}
	if err == nil {
		d.Reconcile() // the node may have become unclean again meanwhile
	}
}

// countEnd counts the end of a decision. It returns the requests that waited for it, whether another decision follows,
// and whether the failure is reported.
func (d *Drops) countEnd(err error, repeat bool) (waiting []*cleanup, again, report bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	invariant.Check(d.mu.running, "rebalance: a decision ends twice")
	// Requests in asked wait for the next decision.
	waiting = d.mu.current
	d.mu.current = nil
	again = (repeat || len(d.mu.asked) > 0) && !d.mu.closed
	d.mu.running = again
	// Failures are usual while replicas are down, so only some are logged.
	if d.mu.failures++; err == nil {
		d.mu.failures = 0
	}
	return waiting, again, again && d.mu.failures%dropFailuresReported == 1
}

// dropItem is a range of tokens of one keyspace's tables, and of the Paxos states of their partitions, that this node
// does not hold. When keyspace is empty, it is a range of Paxos state that this node holds of no keyspace.
type dropItem struct {
	keyspace string
	tables   []schema.StorageID
	tokens   ring.Range  // does not wrap
	former   *FormerData // unless nil, the replicas must have been repaired since
	// states reports that the Paxos states are dropped, too. A state that stayed could list a change as decided that
	// this node's rows lack when it gains the range again, or bring the change back after the other replicas have
	// purged it.
	states bool
	// fence includes tables without data: a write to one of them must not come between the list and the end.
	fence []schema.StorageID // the tables whose requests are refused meanwhile
}

// list returns the ranges that neither an operation nor a replication assigns to this node in the topology of View.
func (d *Drops) list() (items []dropItem) {
	t, self, catalog := d.o.View.Topology(), d.o.View.Self(), d.o.View.Schema()
	if t.Node(self) == nil || len(t.Tokens()) == 0 {
		return nil
	}
	var all []ring.Range
	changed := false // this node may have the only copies, and the only votes, of some keyspace
	for _, name := range catalog.KeyspaceNames() {
		k := catalog.Keyspace(name)
		if k.Replication.Class == ring.Local {
			continue
		}
		// Pending replicas count as holding a range: an operation may still be aborted or completed.
		held := heldBy(t.Placement(k.Replication), self)
		former := d.o.Former(name)
		changed = changed || former != nil
		all = append(all, held...)
		for _, gap := range gaps(held) {
			items = append(items, dropItem{name, tablesOf(k), gap, former, former == nil, tablesOf(k)})
		}
	}
	// States in ranges that this node holds of no keyspace, for example of dropped keyspaces.
	for _, gap := range gaps(all) {
		if !changed {
			paxos := []schema.StorageID{schema.PaxosTable}
			items = append(items, dropItem{tables: paxos, tokens: gap, fence: paxos})
		}
	}
	return items
}

// dropDecision is one decision under way.
//
// One goroutine at a time uses it: each step ends before the next one begins.
type dropDecision struct {
	d       *Drops
	unclean uint64 // the epoch since which this node is unclean; zero means that an operator requested the decision
	// Replicas must have applied epoch before they answer.
	epoch  uint64 // of the confirmed metadata
	items  []dropItem
	former map[string]*FormerData // by keyspace, as confirmed
	// left is the reason why data of former replications stay; nil means that none do.
	left     error
	leftover map[string]bool // the keyspaces of such data
}

// withData removes ranges without data from the decision.
func (x *dropDecision) withData() error {
	x.d.o.Local.Settle() // mutations that were admitted while this node held the ranges are with the engine
	if err := x.d.o.Engine.Drain(); err != nil {
		return err
	}
	var kept []dropItem
	for _, item := range x.items {
		var tables []schema.StorageID
		for _, id := range item.tables {
			// Only tables with data are kept in the item, so that the log and the statistics name what was dropped.
			empty, err := x.d.o.Engine.EmptyRange(id, item.tokens)
			if err != nil {
				return fmt.Errorf("rebalance: look for data of table %s in %s: %w", x.d.o.View.Schema().NameOf(id),
					item.tokens, err)
			}
			// Replicas are not asked about ranges without data.
			if !empty {
				tables = append(tables, id)
			}
		}
		if item.states {
			var err error
			if item.states, err = x.d.o.Engine.HasRows(schema.PaxosTable, item.tokens,
				x.d.o.Local.StatesOf(item.keyspace)); err != nil {
				return fmt.Errorf("rebalance: look for Paxos states of keyspace %s in %s: %w", item.keyspace,
					item.tokens, err)
			}
		}
		// Items without data need neither a confirmation nor a fence.
		if item.tables = tables; len(tables) > 0 || item.states {
			kept = append(kept, item)
		}
	}
	x.items = kept
	return nil
}

// drop removes the data and reports it to the metadata log.
func (x *dropDecision) drop() {
	d := x.d
	if x.unclean == 0 && len(d.wanted()) == 0 { // all requests were cancelled
		d.end(nil, false)
		return
	}
	// First the fence, then the second list: what this node gains after the list, it cannot receive before Unfence.
	d.o.Local.Fence(fenced(x.items))
	items := still(x.items, d.list())
	d.o.Local.Fence(fenced(items))
	// Items that this node holds again are not dropped, and their fence is removed at once.
	whole := len(items) == len(x.items)
	err := d.dropItems(items)
	d.o.Local.Unfence()
	switch {
	case err != nil:
		d.end(err, true)
	case !whole: // this node gained some of the ranges meanwhile
		d.end(errors.New("rebalance: the ring or a keyspace has changed since the decision"), true)
	default:
		// Only after everything was dropped.
		x.settle()
		if x.unclean == 0 {
			d.end(x.left, false)
			return
		}
		// Until the log has this, the node may not gain ranges. A failure repeats the decision, which then finds no
		// data.
		d.o.Metadata.StartCleaned(x.unclean, func(err error) {
			if err != nil {
				d.end(err, true)
				return
			}
			d.end(x.left, false)
		})
	}
}

// settle reports the keyspaces without data of former replications. Lost reports are repeated after the next decision.
func (x *dropDecision) settle() {
	for _, name := range slices.Sorted(maps.Keys(x.former)) {
		if !x.leftover[name] {
			x.d.o.Metadata.StartSettled(name, x.former[name].Epoch, func(error) {})
		}
	}
}

// leave records that an item is not dropped, because its replicas may lack data of a former replication.
func (x *dropDecision) leave(item dropItem, reason string) {
	x.leftover[item.keyspace] = true
	x.left = fmt.Errorf("rebalance: range %s of keyspace %s was not dropped, because its replication was changed: %s",
		item.tokens, item.keyspace, reason)
}

// still returns the items that lie within one of listed, of the same keyspace.
func still(items, listed []dropItem) (out []dropItem) {
	for _, item := range items {
		// Covered, not equal: another range may have been lost meanwhile, which joins two gaps.
		if slices.ContainsFunc(listed, func(l dropItem) bool {
			return l.keyspace == item.keyspace &&
				l.tokens.Covers(item.tokens)
		}) {
			out = append(out, item)
		}
	}
	return out
}

// fenced converts items to the ranges of replica.Local.
func fenced(items []dropItem) (out []replica.FencedRange) {
	for _, item := range items {
		out = append(out, replica.FencedRange{Tables: item.fence, Tokens: item.tokens})
	}
	return out
}

// dropItems drops the data of items under the fence of the caller. After a failure, the rest stays for the next
// decision. Paxos states follow the rows of their keyspace.
func (d *Drops) dropItems(items []dropItem) error {
	done, all := 0, 0
	for _, item := range items {
		all += len(item.tables)
	}
	for _, item := range items {
		for _, id := range item.tables {
			// Read for each table, because requests may be cancelled meanwhile.
			for _, c := range d.wanted() {
				if c.progress != nil {
					c.progress(done, all)
				}
			}
			done++
			if err := d.dropTable(id, item.tokens); err != nil {
				return err
			}
		}
		if !item.states {
			continue
		}
		if err := d.o.Engine.DropRows(schema.PaxosTable, item.tokens, d.o.Local.StatesOf(item.keyspace)); err != nil {
			return fmt.Errorf("rebalance: drop Paxos states of keyspace %s in %s: %w", item.keyspace, item.tokens, err)
		}
		// The cache of Paxos states must not keep what is gone from the disk.
		d.o.Changed(schema.PaxosTable)
	}
	return nil
}

// dropTable drops a range of a table, counts it and logs it.
func (d *Drops) dropTable(id schema.StorageID, tokens ring.Range) error {
	// Before the drop, for the statistics.
	size, err := d.o.Engine.SizeOf(id, tokens)
	if err == nil {
		err = d.o.Engine.DropRange(id, tokens)
	}
	if err != nil {
		return fmt.Errorf("rebalance: drop %s of table %s: %w", tokens, d.o.View.Schema().NameOf(id), err)
	}
	d.o.Changed(id)
	d.ranges.Add(1)
	d.bytes.Add(size)
	// The names are for the log only; the table may have been dropped since the decision.
	keyspace, table := "", "(dropped)"
	if t := d.o.View.Schema().TableByStorage(id); t != nil {
		keyspace, table = t.Keyspace, t.Name
	}
	d.o.Log.Info("dropped a range that this node no longer holds", "keyspace", keyspace, "table", table,
		"range", tokens.String(), "epoch", d.o.Epoch(), "bytes", size)
	return nil
}
