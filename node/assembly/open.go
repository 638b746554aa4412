package assembly

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"cqld/cluster"
	"cqld/cluster/metadata"
	"cqld/messaging"
	"cqld/repair"
	"cqld/ring"
	"cqld/schema"
	"cqld/search"
	"cqld/storage"
	"cqld/storage/index"
	"cqld/storage/tableinfo"
	"cqld/view"
)

// Opening configures Open. Fields without a comment are required. It must not be changed after Open.
type Opening struct {
	Storage storage.Options // without Table, Maintainers and Lister
	Cluster cluster.Options // without Changed and AliveChanged
	Parts   Options         // without Cluster, Requests, Store, Repaired, Transport and Confirmed
	// Transport is used by the parts and by Cluster.Network.
	Transport messaging.Transport
	// Requests, Searches and Store wrap the storage that the parts use. nil means no wrapper.
	Requests func(*storage.Engine) RequestEngine
	Searches func(*index.Values) SearchEngine
	Store    func(*storage.Engine) Store
	// TableInfo may change the information that storage gets about a table; nil means no change.
	TableInfo func(tableinfo.Info) tableinfo.Info
	// Stored is called when storage is open, Assembled when the parts are. Either may be nil. An error ends the
	// opening.
	Stored, Assembled func(*Instance) error
	// Listen starts to accept connections of other nodes, and Begin starts the loop of the cluster. They are called
	// after the replay.
	Listen func() error
	Begin  func()

	// Changed and AliveChanged notify clients. The loop of the cluster calls them; they must not block. Either may be
	// nil.
	Changed      func(old, now *metadata.Metadata)
	AliveChanged func(id ring.NodeID, up bool)
	// TableDropped is called before the data of a dropped table are removed, which an error postpones. before is the
	// last schema with the table, or nil if this process has not seen one. Retired is called when this node is no
	// longer a member. Either may be nil.
	TableDropped func(before *schema.Schema, id schema.StorageID) error
	Retired      func()
	AutoRepair   bool // repairs run in the background
	// CPU returns the processor time of the process so far, without blocking, and Disk the free and all bytes of the
	// file system with the data. They are for the load of the node; nil means unknown.
	CPU  func() time.Duration
	Disk func() (free, total int64)

	// GraphBytes bounds the memory of the graph of each index of vectors, and AllGraphBytes of all graphs. nil means
	// GraphBytes, and no bound of all.
	GraphBytes    *int64
	AllGraphBytes int64
	// BuildRows is how many rows a step of the build of an index reads. Zero means the default. It is for tests.
	BuildRows int
	// RangeEntries is how many entries and rows a search of a range examines alternately. Zero means the default. It is
	// for tests.
	RangeEntries int

	repaired *repair.History
}

// GraphBytes is the default of Opening.GraphBytes.
const GraphBytes = index.GraphBytes

// SearchEngine is the interface of the indexes of storage.
type SearchEngine interface {
	search.Engine
	search.Keeper
}

// Instance is an open node. Fields are nil until Open has reached them, which matters only after an error.
type Instance struct {
	*Parts
	Engine    *storage.Engine
	Values    *index.Values
	Cluster   *cluster.Cluster
	Repaired  *repair.History
	Reactions *Reactions
	Loads     *Loads

	opening *Opening
	catalog *index.Catalog
	// Storage uses these fields from the beginning: Cluster, and whether the metadata were confirmed. The storage
	// engine calls tableInfo from its own goroutines before Open has set Cluster, so the pointer is atomic.
	cluster   atomic.Pointer[cluster.Cluster]
	confirmed atomic.Bool
}

// Open opens a node in this order, and returns before it is a member:
//
//	storage ─▶ cluster (the log on disk) ─▶ parts ─▶ replay ─▶ transport ─▶ loop ─▶ Join ─▶ member ──┐
//	                                                                        └─▶ confirmation ────────┴─▶ reactions
//
// Requests of other nodes are accepted after the entries that this node has acted on before are applied. Reactions
// begin after all entries that a majority has committed are applied. If Open fails, the instance contains what was
// opened, and the caller must close it.
func Open(o Opening) (*Instance, error) {
	i := &Instance{opening: &o}
	// Indexes are maintained by the engine, so they are registered before it opens.
	o.Storage.Table = i.tableInfo
	index.Maintain(&o.Storage, index.NewPartitions(i.ordered))
	i.catalog = index.NewCatalog(i.table, view.Definitions)
	i.Values = index.NewValues(i.catalog.Of)
	i.Values.SetSteps(o.BuildRows, o.RangeEntries)
	if o.GraphBytes != nil {
		i.Values.SetGraphBytes(*o.GraphBytes, o.AllGraphBytes)
	}
	index.MaintainValues(&o.Storage, i.Values)
	engine, err := storage.Open(o.Storage)
	if err != nil {
		return i, err
	}
	i.Engine = engine
	if err := call(o.Stored, i); err != nil {
		return i, err
	}
	// The history is needed by the first purge, which asks for it through tableInfo.
	if o.repaired, err = repair.OpenHistory(engine, o.Storage.Clock, o.Parts.Repair.SettlingTime()); err != nil {
		return i, err
	}
	i.Repaired = o.repaired
	// Heartbeats carry the load as soon as the cluster sends them.
	i.Loads = newLoads(&o)
	o.Cluster.Load = i.Loads
	o.Cluster.Changed, o.Cluster.AliveChanged = i.changed, i.aliveChanged
	c, err := cluster.Open(o.Cluster)
	if err != nil {
		return i, err
	}
	i.Cluster = c
	// From here on, storage sees the metadata of the last snapshot, which is not confirmed.
	i.cluster.Store(c)
	i.assemble()
	if err := call(o.Assembled, i); err != nil {
		return i, err
	}
	// Entries that this node has applied before are applied again, before any request can depend on them.
	if err := c.Replay(); err != nil {
		return i, err
	}
	if err := o.Listen(); err != nil {
		return i, err
	}
	o.Begin()
	// A majority has to confirm that no newer entries exist: reactions delete data, and must not follow an old catalog
	// or ring.
	c.StartConfirm(func(*metadata.Metadata) {
		i.confirmed.Store(true)
		i.Reactions.confirm()
	})
	return i, nil
}

// call calls f, which may be nil.
func call(f func(*Instance) error, i *Instance) error {
	if f == nil {
		return nil
	}
	return f(i)
}

// assemble creates the parts and the reactions. The wrappers of tests replace the engine of requests, of searches or of
// background work separately.
func (i *Instance) assemble() {
	o := i.opening
	p := o.Parts
	p.Cluster, p.Repaired, p.Transport = i.Cluster, i.Repaired, o.Transport
	// Without wrappers, the engine is used directly.
	p.Requests, p.Store, p.Searches, p.Indexes, p.Catalog = i.Engine, i.Engine, i.Values, i.Values, i.catalog
	if o.Searches != nil {
		e := o.Searches(i.Values)
		p.Searches, p.Indexes = e, e
	}
	if o.Requests != nil {
		p.Requests = o.Requests(i.Engine)
	}
	if o.Store != nil {
		p.Store = o.Store(i.Engine)
	}
	p.Confirmed = i.confirmed.Load
	p.Load = i.Loads.Meter
	i.Parts = Assemble(p)
	i.Loads.open(i.Cluster, p.Store)
	log := p.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	i.Reactions = newReactions(reactionOptions{cluster: i.Cluster, parts: i.Parts, opening: o, store: i.Engine,
		clock: p.Clock,
		run:   p.Run, log: log})
}

// Join returns when this node is a member; see cluster.Cluster.Join. Reactions begin when the node is a member and its
// metadata are confirmed.
func (i *Instance) Join(ctx context.Context) error {
	err := i.Cluster.Join(ctx)
	if err == nil {
		i.Loads.follow()
		i.Reactions.join()
	}
	return err
}

// StartJoin is the asynchronous form of Join. The loop of the cluster calls it and done.
func (i *Instance) StartJoin(done func(error)) {
	i.Cluster.StartJoin(func(err error) {
		if err == nil {
			i.Loads.follow()
			i.Reactions.join()
		}
		done(err)
	})
}

// Stop ends the background work of the parts. It does not wait for requests in flight; storage and the cluster stay
// open. It works after an error of Open: parts that do not exist are left out.
func (i *Instance) Stop() {
	if i.Loads != nil {
		i.Loads.Close()
	}
	if i.Reactions != nil {
		i.Reactions.Close()
	}
	if i.Parts != nil {
		i.Builder.Close()
		i.Drops.Close()
		i.Movements.Close()
		i.Streams.Close()
		i.Parts.AutoRepair.Close()
		i.Hints.Close()
		i.Batches.Close()
	}
}

// changed implements cluster.Options.Changed. It is called in the order of the changes. Reactions start before the
// owner is notified.
func (i *Instance) changed(old, now *metadata.Metadata) {
	if i.Reactions != nil { // nil while the first snapshot of the log is loaded
		i.Reactions.noteDrops(old.Schema, now.Schema)
		i.Reactions.onMetadata()
	}
	i.Loads.follow()
	if i.opening.Changed != nil {
		i.opening.Changed(old, now)
	}
}

// aliveChanged implements cluster.Options.AliveChanged. The same order as in changed.
func (i *Instance) aliveChanged(id ring.NodeID, up bool) {
	if i.Reactions != nil {
		i.Reactions.alive(id, up)
	}
	if i.opening.AliveChanged != nil {
		i.opening.AliveChanged(id, up)
	}
}

// tableInfo implements storage.Options.Table. Before the cluster is open, every table exists and nothing is purged.
func (i *Instance) tableInfo(id schema.StorageID) tableinfo.Info {
	c := i.cluster.Load()
	if c == nil {
		return TableInfo(nil, false, id, nil)
	}
	info := TableInfo(c.Metadata(), i.confirmed.Load(), id, i.Repaired)
	if i.opening.TableInfo != nil {
		info = i.opening.TableInfo(info)
	}
	return info
}

// table returns a table of the metadata; nil before the cluster is open.
func (i *Instance) table(id schema.StorageID) *schema.Table {
	if c := i.cluster.Load(); c != nil {
		return c.Metadata().Schema.TableByStorage(id)
	}
	return nil
}

// ordered reports whether storage keeps the partition index of a table. It is false before the cluster is open, and
// false for a table that does not exist.
func (i *Instance) ordered(id schema.StorageID) bool {
	if c := i.cluster.Load(); c != nil {
		return Ordered(c.Metadata(), id)
	}
	return false
}
