package assembly

import (
	"context"
	"log/slog"
	"sync/atomic"

	"cqld/cluster"
	"cqld/messaging"
	"cqld/repair"
	"cqld/ring"
	"cqld/schema"
	"cqld/storage"
	"cqld/storage/index"
)

// Opening is what a node is opened with. Fields without a comment are required.
type Opening struct {
	Storage storage.Options // without Table, Maintainers and Lister
	Cluster cluster.Options // without Changed and AliveChanged
	Parts   Options         // without Cluster, Requests, Store, Repaired, Transport and Confirmed
	// Transport is what the parts use, and what Cluster.Network is.
	Transport messaging.Transport
	// Requests and Store stand between the parts and storage; nil: nothing does.
	Requests func(*storage.Engine) RequestEngine
	Store    func(*storage.Engine) Store
	// TableInfo may change the information that storage gets about a table; nil means no change.
	TableInfo func(storage.TableInfo) storage.TableInfo
	// Stored is called when storage is open, Assembled when the parts are; either may be nil. An error ends the opening.
	Stored, Assembled func(*Instance) error
	// Listen lets other nodes connect, and Begin starts the loop of the cluster. They are called after the replay.
	Listen func() error
	Begin  func()

	// Changed and AliveChanged notify clients. The loop of the cluster calls them; they must not block. Either may be nil.
	Changed      func(old, now *cluster.Metadata)
	AliveChanged func(id ring.NodeID, up bool)
	// TableDropped is called before the data of a dropped table are removed, Retired when this node is no member any more.
	// Either may be nil.
	TableDropped func(schema.StorageID)
	Retired      func()
	AutoRepair   bool // repairs run in the background

	// ReactToReplay, of tests, reacts to metadata that no majority has confirmed.
	ReactToReplay bool

	repaired *repair.History
}

// Instance is an open node.
type Instance struct {
	*Parts
	Engine    *storage.Engine
	Cluster   *cluster.Cluster
	Repaired  *repair.History
	Reactions *Reactions

	opening *Opening
	// For storage, which asks from the first moment: Cluster, and whether the metadata were confirmed.
	cluster   atomic.Pointer[cluster.Cluster]
	confirmed atomic.Bool
}

// Open opens a node, in this order, and returns before it is a member:
//
//	storage ─▶ cluster (the log on disk) ─▶ parts ─▶ replay ─▶ transport ─▶ loop ─▶ Join ─▶ member ──┐
//	                                                                        └─▶ confirmation ────────┴─▶ reactions
//
// Requests of other nodes come in when everything that this node has acted on is applied; reactions begin when it has
// applied everything that a majority has committed. When Open fails, what it has opened is in the instance, for the caller
// to close.
func Open(o Opening) (*Instance, error) {
	i := &Instance{opening: &o}
	i.confirmed.Store(o.ReactToReplay)
	o.Storage.Table = i.tableInfo
	index.Maintain(&o.Storage, index.NewPartitions(i.ordered))
	engine, err := storage.Open(o.Storage)
	if err != nil {
		return i, err
	}
	i.Engine = engine
	if err := call(o.Stored, i); err != nil {
		return i, err
	}
	if o.repaired, err = repair.OpenHistory(engine); err != nil {
		return i, err
	}
	i.Repaired = o.repaired
	o.Cluster.Changed, o.Cluster.AliveChanged = i.changed, i.aliveChanged
	c, err := cluster.Open(o.Cluster)
	if err != nil {
		return i, err
	}
	i.Cluster = c
	i.cluster.Store(c)
	i.assemble()
	if err := call(o.Assembled, i); err != nil {
		return i, err
	}
	if err := c.Replay(); err != nil {
		return i, err
	}
	if err := o.Listen(); err != nil {
		return i, err
	}
	o.Begin()
	c.StartConfirm(func(*cluster.Metadata) {
		i.confirmed.Store(true)
		i.Reactions.confirm()
	})
	return i, nil
}

func call(f func(*Instance) error, i *Instance) error {
	if f == nil {
		return nil
	}
	return f(i)
}

// assemble makes the parts and what reacts.
func (i *Instance) assemble() {
	o := i.opening
	p := o.Parts
	p.Cluster, p.Repaired, p.Transport = i.Cluster, i.Repaired, o.Transport
	p.Requests, p.Store = i.Engine, i.Engine
	if o.Requests != nil {
		p.Requests = o.Requests(i.Engine)
	}
	if o.Store != nil {
		p.Store = o.Store(i.Engine)
	}
	p.Confirmed, p.Unconfirmed = i.confirmed.Load, o.ReactToReplay
	i.Parts = Assemble(p)
	log := p.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	i.Reactions = newReactions(reactionOptions{cluster: i.Cluster, parts: i.Parts, opening: o, store: i.Engine, clock: p.Clock,
		run: p.Run, log: log})
}

// Join returns when this node is a member; see cluster.Cluster.Join.
func (i *Instance) Join(ctx context.Context) error {
	err := i.Cluster.Join(ctx)
	if err == nil {
		i.Reactions.join()
	}
	return err
}

// StartJoin is Join for callers that do not wait. It is called by the loop of the cluster, and so is done.
func (i *Instance) StartJoin(done func(error)) {
	i.Cluster.StartJoin(func(err error) {
		if err == nil {
			i.Reactions.join()
		}
		done(err)
	})
}

// Stop ends what the parts do by themselves. Requests under way are not waited for; storage and the cluster stay open.
func (i *Instance) Stop() {
	if i.Reactions != nil {
		i.Reactions.Close()
	}
	if i.Parts != nil {
		i.Drops.Close()
		i.Movements.Close()
		i.Streams.Close()
		i.Parts.AutoRepair.Close()
		i.Hints.Close()
		i.Batches.Close()
	}
}

// changed is cluster.Options.Changed.
func (i *Instance) changed(old, now *cluster.Metadata) {
	if i.Reactions != nil { // nil: the snapshot that the log begins with
		i.Reactions.look()
	}
	if i.opening.Changed != nil {
		i.opening.Changed(old, now)
	}
}

// aliveChanged is cluster.Options.AliveChanged.
func (i *Instance) aliveChanged(id ring.NodeID, up bool) {
	if i.Reactions != nil {
		i.Reactions.alive(id, up)
	}
	if i.opening.AliveChanged != nil {
		i.opening.AliveChanged(id, up)
	}
}

// tableInfo is storage.Options.Table.
func (i *Instance) tableInfo(id schema.StorageID) storage.TableInfo {
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

// ordered says for which tables the partition index is kept.
func (i *Instance) ordered(id schema.StorageID) bool {
	if c := i.cluster.Load(); c != nil {
		return Ordered(c.Metadata(), id)
	}
	return false
}
