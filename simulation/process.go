package simulation

import (
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/azuretables/entity"
	"cqld/cluster"
	"cqld/cluster/metadata"
	"cqld/coordinator"
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
	"cqld/search"
	"cqld/simulation/damage"
	"cqld/simulation/engine"
	"cqld/simulation/goroutine"
	"cqld/simulation/kernel"
	"cqld/simulation/network"
	"cqld/storage"
	"cqld/storage/faultfs"
	"cqld/storage/index"
	"cqld/storage/tableinfo"
)

// process is one process, from its start to its crash. Its scheduled events are discarded with it. Its parts are the
// same as in package node, assembled in the same order, without the protocol servers. It is used by the events of the
// simulation only, except fatal, which goroutines of storage set.
type process struct {
	// Scheduler executes all code of the process.
	*goroutine.Scheduler
	node *Node
	// hlc issues the timestamps of writes and ballots, and follows the timestamps of received messages.
	hlc      *env.HLC
	disk     *faultfs.FS
	raftDisk *faultfs.FS
	data     vfs.FS // disk as storage sees it
	instance *assembly.Instance
	// The following fields are set by assembled, and nil before, except transport.
	engine    *storage.Engine
	transport *network.Transport
	cluster   *cluster.Cluster
	parts     *assembly.Parts
	moves     *rebalance.Movements
	coord     *coordinator.Coordinator
	proposer  *paxos.Proposer
	repairer  *repair.Repairer
	// entities is the data of Azure Tables, created on demand.
	entities *entity.Store
	observe  func(*metadata.Metadata) // is called with metadata that the process has applied
	// requests is the number of operations of the ring that this process has been asked for and has not answered.
	requests int

	// touched is when this process, or a replica for it, last applied a mutation of each place.
	touched map[tokenOf]time.Duration
	// serving is the process whose message is handled, or nil. It attributes the mutations that a replica applies to
	// the coordinator's process (touch).
	serving *process

	// joined means that the node is a member. It is set once for each process.
	joined bool
	// fatal is the reason why the node must stop. Storage's goroutines set it, too. Only its first value counts.
	fatal atomic.Pointer[error]
	// ending means that the process will stop because of a fatal error.
	ending bool
}

// fail makes the node stop; storage's goroutines call it, too.
func (l *process) fail(err error) { l.fatal.CompareAndSwap(nil, &err) }

// The process as the network sees it, with Do, OnStream and OnWorker of the scheduler.

// Clock implements network.Process.
func (l *process) Clock() env.Clock { return clock{l} }

// Stamp implements network.Process.
func (l *process) Stamp() int64 { return l.hlc.Last() }

// Receive implements network.Process.
func (l *process) Receive(from network.Process, stamp int64, f func()) {
	// A timestamp too far ahead is ignored, as in package node.
	_ = l.hlc.Observe(stamp)
	// This covers the synchronous part of the handler only: work that it queues for a worker has no sender. serving is
	// nil if from is.
	l.serving, _ = from.(*process)
	f()
	l.serving = nil
}

// StreamChanged implements network.Process.
func (l *process) StreamChanged(peer ring.NodeID, connected bool) {
	l.cluster.StreamChanged(peer, connected)
}

// Superseded implements network.Process.
func (l *process) Superseded(notice string) { l.Soon(func() { l.cluster.Superseded(notice) }) }

// The view of the coordinator and the replica.

// Self implements coordinator.View.
func (l *process) Self() ring.NodeID { return l.cluster.Self() }

// Schema implements coordinator.View.
func (l *process) Schema() *schema.Schema { return l.cluster.Metadata().Schema }

// Topology implements coordinator.View.
func (l *process) Topology() *ring.Topology { return l.cluster.Metadata().Topology }

// Alive implements coordinator.View.
func (l *process) Alive(id ring.NodeID) bool { return l.cluster.Alive(id) }

// serves reports whether clients may connect: the node is a member and has its data. It may be called with nil, for a
// node without a process. The clock of the node is not considered.
func (l *process) serves() bool {
	if l == nil || !l.joined || l.ending {
		return false
	}
	// A joining node is a member, but has not received its ranges yet.
	m := l.Topology().Node(l.Self())
	return m != nil && m.State != ring.Joining
}

// open starts the process, which begins to join. An error is legitimate only while the node's disk has a fault
// (Node.start).
func (l *process) open() error {
	n := l.node
	if n.faults.Raft.Load() != 0 {
		// Pebble v2.1.7 panics if it cannot create its log in Open while it still collects statistics of tables
		return damage.ErrDisk
	}
	if err := n.disk.MkdirAll(raftDir, 0o755); err != nil {
		return err
	}
	l.hlc = env.NewHLC(clock{l}, stampAhead)
	// Two wrappers around one disk, because the faults of the Raft log are switched separately.
	l.disk, l.raftDisk = faultfs.Wrap(n.disk), faultfs.Wrap(n.disk)
	if n.cluster.options.Unsafe.LyingDisks {
		l.disk = faultfs.Wrap(faultfs.Unsynced{FS: n.disk})
	}
	l.data = n.encrypted(l.disk)
	l.disk.Fail(n.faults.Decide)
	l.raftDisk.Fail(n.faults.DecideRaft)
	l.transport = network.NewTransport(n.cluster.net, n, l)
	var err error
	// Open may have created some parts before it failed; close closes these.
	if l.instance, err = assembly.Open(l.opening()); err != nil {
		l.close()
		return err
	}
	// Both repeat themselves with timers of this process, which end with it.
	l.transport.Connect()
	l.Soon(func() { l.instance.StartJoin(l.hasJoined) })
	l.sweep()
	return nil
}

// close closes the parts of the process.
func (l *process) close() {
	if l.instance.Cluster != nil {
		// The disk may have failed.
		_ = l.instance.Cluster.Close()
	}
	if l.instance.Engine != nil {
		_ = l.instance.Engine.Close()
	}
}

// opening returns the configuration of a process: as in package node, but with simulated disks and links.
func (l *process) opening() assembly.Opening {
	c := l.node.cluster
	// Every part receives storage through the same wrapper, which delays completions and detects blocking calls.
	store := func(e *storage.Engine) engine.Engine { return engine.New(e, l) }
	return assembly.Opening{
		Storage: storage.Options{
			// An inline engine has no goroutines of its own: their progress would not depend on the seed.
			Dir: dataDir, FS: l.data, Clock: clock{l}, Inline: true, Sync: c.options.Unsafe.Sync, ShadowedRows: 2,
			MemTableBytes: c.options.memTableBytes(), CacheBytes: 1 << 20, RowCacheBytes: 64 << 10,
			PageBytes: c.options.PageBytes, FilterRows: c.options.FilterRows, FreeSpace: l.node.faults.Space,
			OnFatal: l.fail, Archive: c.options.LogArchive(l.hlc)},
		Cluster: l.clusterOptions(), Parts: l.partsOptions(), Transport: l.transport,
		Requests:  func(e *storage.Engine) assembly.RequestEngine { return store(e) },
		Searches:  func(x *index.Values) assembly.SearchEngine { return engine.NewIndexes(x, l) },
		Store:     func(e *storage.Engine) assembly.Store { return store(e) },
		TableInfo: l.tableInfo, Assembled: l.assembled, Changed: l.changed, Listen: l.listen,
		// A function and not the method value: l.cluster is nil until assembled was called.
		Begin:   func() { l.cluster.Begin() },
		Retired: func() { l.node.retire() }, AutoRepair: (c.options.has("graves") || c.options.has("overflow")) &&
			!c.options.Unsafe.NoAutoRepair, // for workloads that need it
		BuildRows:    c.options.BuildRows,
		RangeEntries: c.options.RangeEntries,
	}
}

// assembled is the event that the parts exist, before they are used.
func (l *process) assembled(i *assembly.Instance) error {
	// The callbacks of the parts, such as Alive and hintLost, use these fields.
	l.engine, l.cluster, l.parts = i.Engine, i.Cluster, i.Parts
	l.coord, l.proposer, l.moves = i.Coordinator, i.Proposer, i.Movements
	l.repairer = i.Repairer
	l.parts.Hints.SetAccepting(!l.node.cluster.options.NoHints)
	return nil
}

// changed is the event that the process has applied metadata.
func (l *process) changed(_, now *metadata.Metadata) {
	l.node.applied = max(l.node.applied, now.Epoch)
	l.observe(now)
	// In production, goroutines run between two entries of the log. This is the place where the simulation lets them.
	l.Interleave()
}

// listen lets requests in. They must see all metadata on which an earlier process with the same disk has acted.
func (l *process) listen() error {
	// A node that served by older metadata could accept writes for ranges that it has already given up.
	if epoch := l.cluster.Metadata().Epoch; epoch < l.node.applied {
		l.node.cluster.fail("node %d serves by entry %d of the log, had applied %d", l.node.id, epoch, l.node.applied)
	}
	l.transport.Listen()
	return nil
}

// clusterOptions returns the options of the Raft member and the failure detector of the process.
func (l *process) clusterOptions() cluster.Options {
	n, c := l.node, l.node.cluster
	return cluster.Options{
		Name: "sim", Dir: raftDir, FS: l.node.encrypted(l.raftDisk), Network: l.transport, Clock: pacedClock{clock{l}},
		// The incarnation of the process and, with an empty disk, its identity are drawn from this stream.
		Rand:   kernel.NewStream(c.options.Seed, fmt.Sprint("cluster ", n.id, n.incarnations)),
		Logger: slog.New(slog.DiscardHandler), Seeds: c.seeds(n), ReplicationFactor: c.options.Factor,
		Base: schema.Initial(),
		Self: metadata.NodeSpec{Datacenter: n.dc, Rack: "r1", Internode: n.addr, Native: n.addr,
			NumTokens: c.options.Tokens, Replace: n.replace},
		// Post makes the loop of the cluster an event of the queue instead of a goroutine.
		Fatal: l.refused, Post: l.Soon, Versions: c.releases.versions(n),
		DeadAfter: c.scaled(30 * time.Second), // longer than any fault
	}
}

// partsOptions returns the options of the parts above storage. Sizes are tiny, so that few rows fill several pages,
// leaves and steps, and pauses fit into the seconds of a run.
func (l *process) partsOptions() assembly.Options {
	n, c := l.node, l.node.cluster
	limits := c.options.Limits
	// The default would exceed the time within which a healed cluster must settle.
	limits.TruncationMost = truncationWait
	return assembly.Options{
		Clock: clock{l}, Run: l.Spawn,
		Note: func(message string) {
			// Noted, not traced: the message may contain file names.
			c.kernel.Note("node", n.id, "notes:", message)
		},
		Coordinator: coordinator.Options{
			Rand:            kernel.NewStream(c.options.Seed, fmt.Sprint("coordinator ", n.id, n.incarnations)),
			LocalDatacenter: n.dc, Limits: limits, Stamps: l.hlc,
		},
		Paxos:   assembly.PaxosOptions{Limits: paxos.Limits{PlansMax: limits.PlansMax}},
		Hints:   hints.Options{Limits: c.options.HintLimits},
		Listing: listing.Options{Limits: listing.Limits{Bytes: limits.ResultBytes}},
		Search:  search.Options{Limits: search.Limits{Bytes: limits.ResultBytes}},
		Streams: l.streamLimits(), Builder: search.BuilderLimits{BuildPause: c.options.BuildPause},
		HintLost: l.hintLost,
		// Leaves of a few rows make trees with several levels even for the small tables of a run.
		Repair: repair.Limits{LeafBytes: 300, PageRows: 5, Timeout: operationTimeout,
			RetryPause: 100 * time.Millisecond, Margin: repairMargin, Settling: settlingTime,
			PaxosMargin: c.options.PaxosMargin, PaxosEvery: time.Millisecond},
		AutoRepair: repair.AutoOptions{
			Rand:  kernel.NewStream(c.options.Seed, fmt.Sprint("repair ", n.id, n.incarnations)),
			Delay: c.scaled(200 * time.Millisecond), RetryAfter: c.scaled(time.Second),
		},
		StepBytes: 500, LeafBytes: 300, PaxosLook: 100 * time.Millisecond,
		DeadAfter: c.scaled(30 * time.Second),
	}
}

// streamLimits returns the limits of streams. With SlowStreams, a stream of a few kilobytes takes seconds, so that
// faults strike while it is in progress.
func (l *process) streamLimits() rebalance.Limits {
	limits := rebalance.Limits{TruncationWait: truncationWait}
	if l.node.cluster.options.SlowStreams {
		limits.BlockBytes, limits.BytesPerSecond = 150, 3000
	}
	return limits
}

// hasJoined is the event that this node is a member, or was refused. It is called once for each attempt of the process
// to join.
func (l *process) hasJoined(err error) {
	if err != nil {
		l.node.cluster.kernel.Trace(fmt.Sprint("not joined ", l.node.id, err))
		// A refusal can mean that the join was aborted, or that the node was removed, while it was down.
		if !l.node.cluster.releases.refused(l.node, err) && l.node.left(err) {
			l.node.retire()
			return
		}
		// As package node does. The nemesis starts the process again.
		l.fail(err)
		return
	}
	l.joined, l.node.member = true, true
}

// refused is fail for the errors of the cluster.
func (l *process) refused(err error) {
	l.node.cluster.releases.refused(l.node, err)
	l.fail(err)
}

// tableInfo is assembly.Opening.TableInfo.
func (l *process) tableInfo(info tableinfo.Info) tableinfo.Info {
	// The removed safeguard: tombstones are purged after gc_grace even if no repair has covered them.
	if info.GC == tableinfo.GCRepair && l.node.cluster.options.Unsafe.PurgeUnrepaired {
		info.GC = tableinfo.GCTimeout
	}
	return info
}

// The process as storage sees it.

// Block implements engine.Process. It fails the run if code that blocks on the disk runs in a goroutine that must not
// block. The message contains the stack, because the call that blocks is usually many frames below the handler.
func (l *process) Block(what string) {
	// A process that is being closed may block anywhere.
	if l.Place() == goroutine.MayBlock || l.Ended() {
		return
	}
	l.node.cluster.fail("node %d: %s on %v\n%s", l.node.id, what, l.Place(), debug.Stack())
}

// Accept implements engine.Process.
func (l *process) Accept(e engine.Engine, mutations []*row.Mutation) []*row.Mutation {
	l.touch(mutations)
	if !l.node.cluster.options.Unsafe.TiesByArrival {
		return mutations
	}
	// The caller owns the slice.
	return slices.DeleteFunc(slices.Clone(mutations), func(m *row.Mutation) bool { return l.firstCame(e, m) })
}

// Complete implements engine.Process. The write may complete later by faults.Slow.
func (l *process) Complete(f func()) {
	// The fault is examined at completion: a disk that became slow meanwhile delays this write, too.
	if slow := l.node.faults.Slow; slow != 0 {
		clock{l}.After(slow, f)
		return
	}
	l.At(goroutine.InCommitter, f)
}
