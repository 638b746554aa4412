package simulation

import (
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"cqld/azuretables/entity"
	"cqld/batchlog"
	"cqld/cluster"
	"cqld/coordinator"
	"cqld/counters"
	"cqld/hints"
	"cqld/internal/env"
	"cqld/listing"
	"cqld/node/assembly"
	"cqld/paxos"
	"cqld/rebalance"
	"cqld/repair"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/storage"
	"cqld/storage/faultfs"
)

// life is one process, from its start to its crash. What it has scheduled dies with it. Its parts are
// those of package node, put together in the same order, but for the door for clients.
type life struct {
	node      *Node
	hlc       *env.HLC
	disk      *faultfs.FS
	raftDisk  *faultfs.FS
	instance  *assembly.Instance
	engine    *storage.Engine
	transport *Transport
	cluster   *cluster.Cluster
	parts     *assembly.Parts
	moves     *rebalance.Movements
	coord     *coordinator.Coordinator
	proposer  *paxos.Proposer
	repairer  *repair.Repairer
	entities  *entity.Store // the Tables door's, once somebody asks

	goroutines []*spawned // that have not run yet, in the order of their beginnings
	schedule   *Stream    // draws when they run; nil: none was started yet

	place   place                     // what runs this event's code in production
	touched map[tokenOf]time.Duration // when this process, or a replica for it, last applied a mutation
	serving *life                     // the process whose message is handled

	tasks   []*task // that wait, in the order of their beginnings
	running *task   // within this event

	joined bool // the cluster has this node
	paused bool
	held   []func()              // what happens when it goes on
	fatal  atomic.Pointer[error] // why a part has said that the node must stop
	ending bool                  // it will
	dying  bool                  // it is killed soon, and some of what it sends arrives late (Network.late)
	// cpuFree is the time at which the process has done all that it has to do (Network.onCPU).
	cpuFree time.Duration
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

// open opens the process and begins to join.
func (l *life) open() error {
	n := l.node
	if n.faults.raft.Load() != 0 {
		return errDisk // Pebble v2.1.7 panics when it cannot make its log in Open: statistics of tables are still gathered
	}
	if err := n.disk.MkdirAll(raftDir, 0o755); err != nil {
		return err
	}
	l.hlc = env.NewHLC(clock{l}, stampAhead)
	l.disk, l.raftDisk = faultfs.Wrap(n.disk), faultfs.Wrap(n.disk)
	if n.cluster.options.LyingDisks {
		l.disk = faultfs.Wrap(lyingFS{n.disk})
	}
	l.disk.Fail(n.faults.decide)
	l.raftDisk.Fail(n.faults.decideRaft)
	l.transport = newTransport(n.cluster.net, l)
	var err error
	if l.instance, err = assembly.Open(l.opening()); err != nil {
		l.close()
		return err
	}
	l.transport.connect()
	l.soon(func() { l.instance.StartJoin(l.hasJoined) })
	l.sweep()
	return nil
}

// close closes what is open of the process.
func (l *life) close() {
	if l.instance.Cluster != nil {
		_ = l.instance.Cluster.Close() // the disk may have failed
	}
	if l.instance.Engine != nil {
		_ = l.instance.Engine.Close()
	}
}

// opening is what a process is made of: as in package node, but on simulated disks and links.
func (l *life) opening() assembly.Opening {
	c := l.node.cluster
	store := func(e *storage.Engine) slowEngine { return slowEngine{e, l} }
	return assembly.Opening{
		Storage: storage.Options{
			Dir: dataDir, FS: l.disk, Clock: clock{l}, Inline: true, Sync: c.options.Sync,
			MemTableBytes: c.options.memTableBytes(), CacheBytes: 1 << 20, PageBytes: c.options.PageBytes, FilterRows: c.options.FilterRows,
			OnFatal: l.fail, FreeSpace: l.node.faults.space,
		},
		Cluster: l.clusterOptions(), Parts: l.partsOptions(), Transport: l.transport,
		Requests:  func(e *storage.Engine) assembly.RequestEngine { return store(e) },
		Store:     func(e *storage.Engine) assembly.Store { return store(e) },
		TableInfo: l.tableInfo, Assembled: l.assembled, Changed: func(_, _ *cluster.Metadata) { l.interleave() },
		Listen: func() error { l.transport.open = true; return nil }, Begin: func() { l.cluster.Begin() },
		Retired: func() { l.node.retire() }, AutoRepair: (c.options.has("graves") || c.options.has("overflow")) && !c.options.NoAutoRepair, // where rows depend on it
		ReactToReplay: c.options.ReactToReplay,
	}
}

// assembled is the event that the parts are there, before they are used.
func (l *life) assembled(i *assembly.Instance) error {
	l.engine, l.cluster, l.parts = i.Engine, i.Cluster, i.Parts
	l.coord, l.proposer, l.moves = i.Coordinator, i.Proposer, i.Movements
	l.repairer = i.Repairer
	return nil
}

func (l *life) clusterOptions() cluster.Options {
	n, c := l.node, l.node.cluster
	return cluster.Options{
		Name: "sim", Dir: raftDir, FS: l.raftDisk, Network: l.transport, Clock: pacedClock{clock{l}},
		Rand:   NewStream(c.options.Seed, fmt.Sprint("cluster ", n.id, n.lives)),
		Logger: slog.New(slog.DiscardHandler), Seeds: c.seeds(n), ReplicationFactor: c.options.Factor, Base: schema.Initial(),
		Self: cluster.NodeSpec{
			Datacenter: n.dc, Rack: "r1", Internode: n.addr, Native: n.addr, NumTokens: c.options.Tokens, Replace: n.replace,
		},
		Fatal: l.fail, Post: l.soon,
	}
}

func (l *life) partsOptions() assembly.Options {
	n, c := l.node, l.node.cluster
	limits := c.options.Limits
	limits.TruncationMost = truncationWait
	return assembly.Options{
		Clock: clock{l}, Run: l.spawn,
		Note: func(message string) {
			if c.kernel.story != nil { // not in the hash: it may name files
				fmt.Fprintln(c.kernel.story, c.kernel.Now(), "node", n.id, "notes:", message)
			}
		},
		Coordinator: coordinator.Options{
			Rand:            NewStream(c.options.Seed, fmt.Sprint("coordinator ", n.id, n.lives)),
			LocalDatacenter: n.dc, Unsafe: c.options.Unsafe, Limits: limits, Stamps: l.hlc,
		},
		Paxos:    assembly.PaxosOptions{Limits: paxos.Limits{PlansMax: limits.PlansMax}, Unsafe: c.options.UnsafePaxos},
		Hints:    hints.Options{Limits: c.options.HintLimits, Unsafe: c.options.HintUnsafe},
		Batches:  batchlog.Options{Unsafe: c.options.BatchUnsafe},
		Counters: counters.Options{Unsafe: c.options.CounterUnsafe},
		Listing:  listing.Options{Limits: listing.Limits{Bytes: limits.ResultBytes}, Unsafe: c.options.ListingUnsafe},
		Streams:  l.streamLimits(),
		HintLost: l.hintLost,
		Repair: repair.Limits{LeafBytes: 300, PageRows: 5, Timeout: operationTimeout, RetryPause: 100 * time.Millisecond,
			Margin: repairMargin, PaxosMargin: c.options.PaxosMargin, PaxosEvery: time.Millisecond},
		AutoRepair: repair.AutoOptions{
			Rand:  NewStream(c.options.Seed, fmt.Sprint("repair ", n.id, n.lives)),
			Delay: c.stretched(200 * time.Millisecond), RetryAfter: c.stretched(time.Second),
		},
		StepBytes: 500, LeafBytes: 300, ForgetFormer: c.options.ForgetFormer, PaxosLook: 100 * time.Millisecond, NoCompare: c.options.NoCompare,
		NoPaxosStreams: c.options.NoPaxosStreams,
	}
}

func (l *life) streamLimits() rebalance.Limits {
	limits := rebalance.Limits{TruncationWait: truncationWait}
	if l.node.cluster.options.SlowStreams {
		limits.BlockBytes, limits.BytesPerSecond = 150, 3000
	}
	return limits
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
}

// tableInfo is assembly.Opening.TableInfo.
func (l *life) tableInfo(info storage.TableInfo) storage.TableInfo {
	if info.GC == storage.GCRepair && l.node.cluster.options.PurgeUnrepaired {
		info.GC = storage.GCTimeout
	}
	return info
}

// slowEngine is storage on a disk whose completions may come late.
type slowEngine struct {
	*storage.Engine
	life *life
}

// SizeOf implements rebalance.StreamEngine and repair.Engine. What a range takes on disk depends on
// how far storage's own goroutines have come: here it is any size, the same in every run.
func (e slowEngine) SizeOf(table schema.StorageID, tokens ring.Range) (int64, error) {
	size := NewStream(uint64(table), fmt.Sprint("size ", tokens))
	return int64(size.Intn(1 << (6 + size.Intn(12)))), nil
}

// Apply implements replica.Engine.
func (e slowEngine) Apply(mutations []*row.Mutation, durable bool, done func(error)) error {
	n := e.life.node
	e.life.touch(mutations)
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
