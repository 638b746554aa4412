package rebalance

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"cqld/coordinator"
	"cqld/internal/env"
	"cqld/messaging"
	"cqld/repair"
	"cqld/replica"
	"cqld/ring"
	"cqld/schema"
	"cqld/storage"
)

// DropEngine is storage as Drops uses it.
type DropEngine interface {
	DropRange(table schema.StorageID, tokens ring.Range) error
	EmptyRange(table schema.StorageID, tokens ring.Range) (bool, error)
	SizeOf(table schema.StorageID, tokens ring.Range) (int64, error)
	Drain() error
	Lost() []storage.LostRange
}

// MetadataLog is the metadata log as Drops uses it. done is called once; that of StartConfirm only when a majority
// answers.
type MetadataLog interface {
	// StartConfirm calls done when View shows every change that was committed before the call.
	StartConfirm(done func())
	StartCleaned(epoch uint64, done func(error))
	// StartSettled says that this node has nothing left of a keyspace's replications up to epoch.
	StartSettled(keyspace string, epoch uint64, done func(error))
	// StartRegained says that all that this node holds of a keyspace was repaired after the change at the epoch changed.
	StartRegained(keyspace string, changed uint64, done func(error))
}

// DropsOptions are what Drops are made of. All are required but Gained, Log and Unconfirmed.
type DropsOptions struct {
	View      coordinator.View
	Metadata  MetadataLog
	Local     *replica.Local
	Engine    DropEngine
	Transport messaging.Transport
	Clock     env.Clock
	// Epoch is that of the metadata that View shows.
	Epoch func() uint64
	// Unclean is the epoch since which this node has data of ranges that it lost; zero: it has none.
	Unclean func() uint64
	// Former says whether this node may have the only copies of data of a keyspace whose replication was changed; nil: no.
	Former func(keyspace string) *FormerData
	// Gained are the keyspaces of which this node gained ranges by changes of replication, unless it has said that they were
	// repaired; nil: there are none.
	Gained func() []GainedData
	// Repaired knows until when this node's ranges were repaired.
	Repaired *repair.History
	// Run does work that takes the time of a disk, as StreamOptions.Run.
	Run func(func())
	// Changed is called after rows of a table were removed other than by mutations.
	Changed func(table schema.StorageID)
	Log     *slog.Logger // nil: nothing is logged
	// Unconfirmed, of tests, drops by the topology that this node happens to know, and asks no other node.
	Unconfirmed bool
}

// FormerData is what a node may have of a keyspace by an earlier replication. A change of replication moves no data, so the
// present replicas lack it until they are repaired.
type FormerData struct {
	Epoch uint64 // of the last change
	// Since is when (seconds) that was; a repair of the present replicas that began later has it all, if Reachable.
	Since int64
	// Reachable says that the present replicas could get it all from each other.
	Reachable bool
}

// Drops removes the data of ranges that this node does not hold any more. Each removal is a decision of its own:
//
//	unclean ──▶ confirm: this node's metadata is what a majority has committed
//	        ──▶ list the ranges that no operation, and no replication of a keyspace, present or kept, gives to this node,
//	            and of which there is data
//	        ──▶ ask their replicas: at that epoch or later, do you hold the range, and can you read it?
//	            half of them, at least, must say so
//	        ──▶ fence: no write, vote or pull is let in for the ranges from here on, if they are still not this node's
//	        ──▶ storage.DropRange, logged and counted; then the fence goes
//	        ──▶ StartCleaned: from then on this node may gain ranges again
//
// Whatever fails is tried again from the beginning; a crash at any point leaves data that the next decision finds.
type Drops struct {
	o             DropsOptions
	ranges, bytes atomic.Int64
	mu            struct {
		sync.Mutex
		running bool // a decision is under way, or is to be tried again
		closed  bool
		// asked are callers of Cleanup that wait for a decision that begins after their call; current wait for the
		// present one.
		asked, current []*cleanup
		failures       int // decisions that failed, one after the other
		// looking is set while a look at what this node gained is to come.
		looking bool
	}
}

// How long a replica may take to answer what it holds, and the pause before a decision is tried again.
const (
	holdsTimeout = 2 * time.Second
	dropRetry    = time.Second
	// dropFailuresReported is how many failures there are for one that is logged.
	dropFailuresReported = 60
)

// NewDrops makes the drops of a node, and answers other nodes' questions about what this one holds. It is called before
// the transport starts.
func NewDrops(o DropsOptions) *Drops {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	d := &Drops{o: o}
	if o.Repaired != nil {
		o.Repaired.OnAdd(d.scheduleGainedCheck)
	}
	d.serve()
	return d
}

// Dropped counts the ranges of tables that were dropped since the start, and their bytes on disk, by estimate.
func (d *Drops) Dropped() (ranges, bytes int64) { return d.ranges.Load(), d.bytes.Load() }

// Reconcile begins a decision when this node has data of ranges that it lost, and looks at what it gained.
func (d *Drops) Reconcile() {
	d.scheduleGainedCheck()
	if d.o.Unclean() != 0 {
		d.begin(nil)
	}
}

// Close ends the decision under way before its next step.
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

var errDropsClosed = errors.New("rebalance: the node stops")

// begin begins a decision; c is nil when no operator asked for it.
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
	if d.mu.running {
		d.mu.Unlock()
		return
	}
	d.mu.running = true
	d.mu.Unlock()
	d.confirm()
}

// confirm begins a decision.
func (d *Drops) confirm() {
	d.mu.Lock()
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

// confirmed is the event of the confirmation; View is what was confirmed until it returns.
func (d *Drops) confirmed() {
	decision := &dropDecision{d: d, unclean: d.o.Unclean(), epoch: d.o.Epoch()}
	switch operations := d.o.View.Topology().Operations(); {
	case d.o.View.Topology().Node(d.o.View.Self()) == nil:
		d.end(nil, false) // what a former member has is not touched any more
		return
	case decision.unclean == 0 && len(d.wanted()) == 0:
		d.end(nil, false)
		return
	case len(operations) > 1: // how one of them ends may change what the other one gives to this node
		d.end(fmt.Errorf("rebalance: %d operations change the ring", len(operations)), true)
		return
	}
	decision.items = d.list()
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

// wanted are the requests of operators that wait for the present decision.
func (d *Drops) wanted() []*cleanup {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.mu.current)
}

// end ends a decision. One that failed is tried again while this node is unclean.
func (d *Drops) end(err error, again bool) {
	d.mu.Lock()
	waiting := d.mu.current
	d.mu.current = nil
	again = (again || len(d.mu.asked) > 0) && !d.mu.closed
	d.mu.running = again
	if d.mu.failures++; err == nil {
		d.mu.failures = 0
	}
	tell := again && d.mu.failures%dropFailuresReported == 1
	d.mu.Unlock()
	if tell {
		d.o.Log.Warn("data of ranges that this node does not hold any more stays for now", "err", err)
	}
	for _, c := range waiting {
		c.done(err)
	}
	if again {
		d.o.Clock.After(dropRetry, d.confirm)
		return
	}
	if err == nil {
		d.Reconcile() // it may have become unclean again meanwhile
	}
}

// dropItem is a range of tokens of one keyspace's tables that this node does not hold; or of the state of lightweight
// transactions of all keyspaces, when keyspace is empty.
type dropItem struct {
	keyspace string
	tables   []schema.StorageID
	tokens   ring.Range  // does not wrap
	former   *FormerData // not nil: the replicas must have been repaired since
}

// list are the ranges that neither an operation nor a replication gives to this node in the topology of View.
func (d *Drops) list() (items []dropItem) {
	t, self, catalog := d.o.View.Topology(), d.o.View.Self(), d.o.View.Schema()
	if t.Node(self) == nil || len(t.Tokens()) == 0 {
		return nil
	}
	var all []ring.Range
	changed := false // of some keyspace this node may have the only copies, and the only votes
	for _, name := range catalog.KeyspaceNames() {
		k := catalog.Keyspace(name)
		if k.Replication.Class == ring.Local {
			continue
		}
		held := heldBy(t.Placement(k.Replication), self)
		former := d.o.Former(name)
		changed = changed || former != nil
		all = append(all, held...)
		for _, gap := range gaps(held) {
			items = append(items, dropItem{name, tablesOf(k), gap, former})
		}
	}
	for _, gap := range gaps(all) {
		if !changed {
			items = append(items, dropItem{"", paxosTables(catalog), gap, nil})
		}
	}
	return items
}

// dropDecision is one decision under way.
type dropDecision struct {
	d       *Drops
	unclean uint64 // the epoch since when this node is unclean; zero: an operator asks
	epoch   uint64 // of the confirmed metadata
	items   []dropItem
	former  map[string]*FormerData // by keyspace, as confirmed
	// left is why data of former replications stay; nil: none do.
	left     error
	leftover map[string]bool // the keyspaces of such data
}

// withData removes from the decision what has no data.
func (x *dropDecision) withData() error {
	x.d.o.Local.Settle() // what was admitted when this node held the ranges is with the engine
	if err := x.d.o.Engine.Drain(); err != nil {
		return err
	}
	var kept []dropItem
	for _, item := range x.items {
		var tables []schema.StorageID
		for _, id := range item.tables {
			empty, err := x.d.o.Engine.EmptyRange(id, item.tokens)
			if err != nil {
				return fmt.Errorf("rebalance: look for data of table %s in %s: %w", x.d.o.View.Schema().NameOf(id), item.tokens, err)
			}
			if !empty {
				tables = append(tables, id)
			}
		}
		if len(tables) > 0 {
			kept = append(kept, dropItem{item.keyspace, tables, item.tokens, item.former})
		}
	}
	x.items = kept
	return nil
}

// drop removes the data, and says so in the metadata log.
func (x *dropDecision) drop() {
	d := x.d
	d.o.Local.Fence(fenced(x.items))
	items := still(x.items, d.list())
	d.o.Local.Fence(fenced(items))
	whole := len(items) == len(x.items)
	err := d.dropItems(items)
	d.o.Local.Unfence()
	switch {
	case err != nil:
		d.end(err, true)
	case !whole: // this node has gained some of it meanwhile
		d.end(errors.New("rebalance: the ring or a keyspace changed meanwhile"), true)
	default:
		x.settle()
		if x.unclean == 0 {
			d.end(x.left, false)
			return
		}
		d.o.Metadata.StartCleaned(x.unclean, func(err error) {
			if err != nil {
				d.end(err, true)
				return
			}
			d.end(x.left, false)
		})
	}
}

// settle says of which keyspaces nothing is left that was placed by a former replication. What gets lost on the way is said
// again after the next decision.
func (x *dropDecision) settle() {
	for _, name := range slices.Sorted(maps.Keys(x.former)) {
		if !x.leftover[name] {
			x.d.o.Metadata.StartSettled(name, x.former[name].Epoch, func(error) {})
		}
	}
}

// leave removes an item from the decision, because its replicas may lack data of a former replication.
func (x *dropDecision) leave(item dropItem, reason string) {
	x.leftover[item.keyspace] = true
	x.left = fmt.Errorf("rebalance: range %s of keyspace %s stays, because its replication was changed: %s", item.tokens, item.keyspace, reason)
}

// still are the items all of whose tokens lie in one of listed, of the same keyspace.
func still(items, listed []dropItem) (out []dropItem) {
	for _, item := range items {
		if slices.ContainsFunc(listed, func(l dropItem) bool { return l.keyspace == item.keyspace && l.tokens.Covers(item.tokens) }) {
			out = append(out, item)
		}
	}
	return out
}

// fenced returns the ranges of items as replica.Local knows them.
func fenced(items []dropItem) (out []replica.FencedRange) {
	for _, item := range items {
		out = append(out, replica.FencedRange{Tables: item.tables, Tokens: item.tokens})
	}
	return out
}

func (d *Drops) dropItems(items []dropItem) error {
	for _, item := range items {
		for _, id := range item.tables {
			size, err := d.o.Engine.SizeOf(id, item.tokens)
			if err == nil {
				err = d.o.Engine.DropRange(id, item.tokens)
			}
			if err != nil {
				return fmt.Errorf("rebalance: drop %s of table %s: %w", item.tokens, d.o.View.Schema().NameOf(id), err)
			}
			d.o.Changed(id)
			d.ranges.Add(1)
			d.bytes.Add(size)
			keyspace, table := "", "(dropped)"
			if t := d.o.View.Schema().TableByStorage(id); t != nil {
				keyspace, table = t.Keyspace, t.Name
			}
			d.o.Log.Info("dropped a range that this node does not hold any more", "keyspace", keyspace, "table", table,
				"range", item.tokens.String(), "epoch", d.o.Epoch(), "bytes", size)
		}
	}
	return nil
}
