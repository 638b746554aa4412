package sim

import (
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"cqld/cluster"
	"cqld/coordinator"
	"cqld/coordinator/repair"
	"cqld/internal/env"
	"cqld/node/assembly"
	"cqld/replica"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/storage"
	"cqld/storage/faultfs"
	"cqld/table/entity"
)

// life is one process, from its start to its crash. What it has scheduled dies with it. Its parts are
// those of package node, put together in the same order, but for the door for clients.
type life struct {
	node      *Node
	hlc       *env.HLC
	disk      *faultfs.FS
	raftDisk  *faultfs.FS
	engine    *storage.Engine
	transport *Transport
	cluster   *cluster.Cluster
	parts     *assembly.Parts
	moves     *replica.Moves
	coord     *coordinator.Coordinator
	repairs   repairs
	entities  *entity.Store // the Tables door's, once somebody asks

	place   place   // what runs this event's code in production
	tasks   []*task // that wait, in the order of their beginnings
	running *task   // within this event

	joined bool // the cluster has this node
	paused bool
	held   []func()              // what happens when it goes on
	fatal  atomic.Pointer[error] // why a part has said that the node must stop
	ending bool                  // it will
}

func (l *life) alive() bool { return l.node.life == l }

// fail makes the node stop; storage's goroutines call it, too.
func (l *life) fail(err error) { l.fatal.CompareAndSwap(nil, &err) }

// do lets the process do f: at once, or when it goes on after a pause.
func (l *life) do(f func()) {
	if l.paused {
		l.held = append(l.held, f)
		return
	}
	f()
}

// soon makes the process do f next, as a goroutine of its own would.
func (l *life) soon(f func()) {
	l.node.cluster.kernel.After(0, "soon", func() {
		if l.alive() {
			l.do(func() { l.at(mayBlock, f) })
		}
	})
}

// resume ends a pause: all that was to happen in it happens now.
func (l *life) resume() {
	if !l.paused {
		return
	}
	l.paused = false
	held := l.held
	l.held = nil
	for _, f := range held {
		l.soon(f)
	}
}

// The coordinator's and the replica's view.

// Self implements coordinator.View.
func (l *life) Self() ring.NodeID { return l.cluster.Self() }

// Schema implements coordinator.View.
func (l *life) Schema() *schema.Schema { return l.cluster.Metadata().Schema }

// Topology implements coordinator.View.
func (l *life) Topology() *ring.Topology { return l.cluster.Metadata().Topology }

// Alive implements coordinator.View.
func (l *life) Alive(id ring.NodeID) bool { return l.cluster.Alive(id) }

// serves says whether clients may connect: the node is a member and has its data.
func (l *life) serves() bool {
	if l == nil || !l.joined || l.ending {
		return false
	}
	m := l.Topology().Node(l.Self())
	return m != nil && m.State != ring.Joining
}

// open assembles the process and begins to join.
func (l *life) open() error {
	n, c := l.node, l.node.cluster
	if n.faults.raft.Load() != 0 {
		return errDisk // Pebble v2.1.7 panics when it cannot make its log in Open: statistics of tables are still gathered
	}
	l.hlc = env.NewHLC(clock{l}, stampAhead)
	l.disk, l.raftDisk = faultfs.Wrap(n.disk), faultfs.Wrap(n.disk)
	if c.options.LyingDisks {
		l.disk = faultfs.Wrap(lyingFS{n.disk})
	}
	l.disk.Fail(n.faults.decide)
	l.raftDisk.Fail(n.faults.decideRaft)
	var err error
	l.engine, err = storage.Open(storage.Options{
		Dir: dataDir, FS: l.disk, Clock: clock{l}, Inline: true, Sync: c.options.Sync,
		MemTableBytes: c.options.memTableBytes(), CacheBytes: 1 << 20, PageBytes: c.options.PageBytes, Table: l.tableInfo,
		Ordered: l.ordered,
		OnFatal: l.fail, FreeSpace: n.faults.space,
	})
	if err != nil {
		return err
	}
	if err = l.openCluster(); err != nil {
		return closeAll(err, l.engine.Close)
	}
	if err = l.openCoordinator(); err != nil {
		return closeAll(err, l.cluster.Close, l.engine.Close)
	}
	if err := l.cluster.Replay(); err != nil {
		return closeAll(err, l.cluster.Close, l.engine.Close)
	}
	l.transport.open = true
	l.cluster.Begin()
	l.transport.connect()
	l.soon(func() { l.cluster.StartJoin(l.hasJoined) })
	l.sweep()
	return nil
}

func closeAll(err error, closers ...func() error) error {
	for _, f := range closers {
		_ = f() // the reason is known
	}
	return err
}

func (l *life) openCluster() (err error) {
	n, c := l.node, l.node.cluster
	l.transport = newTransport(c.net, l)
	if err := n.disk.MkdirAll(raftDir, 0o755); err != nil {
		return err
	}
	l.cluster, err = cluster.Open(cluster.Options{
		Name: "sim", Dir: raftDir, FS: l.raftDisk, Network: l.transport, Clock: pacedClock{clock{l}},
		Rand:   NewStream(c.options.Seed, fmt.Sprint("cluster ", n.id, n.lives)),
		Logger: slog.New(slog.DiscardHandler), Seeds: c.seeds(n), ReplicationFactor: c.options.Factor, Base: schema.Initial(),
		Self: cluster.NodeSpec{
			Datacenter: datacenter, Rack: "r1", Internode: n.addr, Native: n.addr, NumTokens: c.options.Tokens, Replace: n.replace,
		},
		Changed: l.changed,
		AliveChanged: func(id ring.NodeID, up bool) {
			if up && l.coord != nil {
				l.coord.NodeUp(id)
				l.repairs.auto.Look()
			}
		},
		Fatal: l.fail, Post: l.soon,
	})
	return err
}

func (l *life) openCoordinator() (err error) {
	n, c := l.node, l.node.cluster
	if l.repairs.repaired, err = replica.OpenRepaired(l.engine); err != nil {
		return err
	}
	engine := slowEngine{l.engine, l}
	l.parts = assembly.Assemble(assembly.Options{
		Cluster: l.cluster, Requests: engine, Store: engine, Repaired: l.repairs.repaired, Transport: l.transport, Clock: clock{l}, Run: l.soon,
		Coordinator: coordinator.Options{
			Rand:            NewStream(c.options.Seed, fmt.Sprint("coordinator ", n.id, n.lives)),
			LocalDatacenter: datacenter, Unsafe: c.options.Unsafe, Limits: c.options.Limits, Stamps: l.hlc,
		},
		Repair: repair.Limits{LeafBytes: 300, PageRows: 5, Timeout: operationTimeout, RetryPause: 100 * time.Millisecond,
			Margin: repairMargin, PaxosMargin: c.options.PaxosMargin, PaxosEvery: time.Millisecond},
		AutoRepair: repair.AutoOptions{
			Rand:  NewStream(c.options.Seed, fmt.Sprint("repair ", n.id, n.lives)),
			Delay: c.stretched(200 * time.Millisecond), RetryAfter: c.stretched(time.Second),
		},
		StepBytes: 500, LeafBytes: 300, PaxosLook: 100 * time.Millisecond, NoCompare: c.options.NoCompare,
	})
	l.coord, l.moves = l.parts.Coordinator, l.parts.Moves
	l.repairs.repairer, l.repairs.auto = l.parts.Repairer, l.parts.AutoRepair
	return nil
}

// hasJoined is the event of this node being a member, or of its being refused.
func (l *life) hasJoined(err error) {
	if err != nil {
		l.node.cluster.kernel.Trace(fmt.Sprint("not joined ", l.node.id, err))
		if l.node.left(err) {
			l.node.retire()
			return
		}
		l.fail(err) // as node does: it is started again
		return
	}
	l.joined, l.node.member = true, true
	l.moves.Look()
	l.repairs.joined(l)
}

// changed hears what the cluster has agreed on.
func (l *life) changed(old, now *cluster.Metadata) {
	for _, id := range old.Schema.StorageIDs() {
		if now.Schema.TableByStorage(id) == nil {
			l.soon(func() {
				if err := l.engine.DropTable(id); err != nil {
					l.node.cluster.kernel.Trace("drop failed")
				}
			})
		}
	}
	if l.cluster != nil && old.Topology.Node(l.Self()) != nil && now.Topology.Node(l.Self()) == nil { // nil: what a snapshot says
		l.node.retire()
	}
	if l.moves != nil && (old.Topology != now.Topology || len(old.Unclean) != len(now.Unclean)) {
		l.soon(l.moves.Look)
		l.soon(func() { l.repairs.ringMoved(l) })
	}
}

// agreed is the metadata; nil before the cluster is open.
func (l *life) agreed() *cluster.Metadata {
	if l.cluster == nil {
		return nil
	}
	return l.cluster.Metadata()
}

// tableInfo is storage.Options.Table.
func (l *life) tableInfo(id schema.StorageID) storage.TableInfo {
	info := assembly.TableInfo(l.agreed(), id, l.repairs.repaired)
	if info.GC == storage.GCRepair && l.node.cluster.options.PurgeUnrepaired {
		info.GC = storage.GCTimeout
	}
	return info
}

// ordered is storage.Options.Ordered.
func (l *life) ordered(id schema.StorageID) bool { return assembly.Ordered(l.agreed(), id) }

// slowEngine is storage on a disk whose completions may come late.
type slowEngine struct {
	*storage.Engine
	life *life
}

// SizeOf implements replica.StreamEngine and replica.RepairEngine. What a range takes on disk depends on
// how far storage's own goroutines have come: here it is any size, the same in every run.
func (e slowEngine) SizeOf(table schema.StorageID, tokens ring.Range) (int64, error) {
	size := NewStream(uint64(table), fmt.Sprint("size ", tokens))
	return int64(size.Intn(1 << (6 + size.Intn(12)))), nil
}

// Apply implements replica.Engine.
func (e slowEngine) Apply(mutations []*row.Mutation, durable bool, done func(error)) error {
	n := e.life.node
	if n.cluster.options.TiesByArrival {
		mutations = slices.DeleteFunc(slices.Clone(mutations), e.firstCame)
	}
	return e.Engine.Apply(mutations, durable, func(err error) {
		if n.faults.slow == 0 {
			e.life.at(inCommitter, func() { done(err) })
			return
		}
		clock{e.life}.After(n.faults.slow, func() { done(err) })
	})
}

// Queue is Apply: there are no goroutines to be spared.
func (e slowEngine) Queue(mutations []*row.Mutation, durable bool, done func(error)) error {
	return e.Apply(mutations, durable, done)
}
