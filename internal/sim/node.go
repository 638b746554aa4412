package sim

import (
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/coordinator"
	"cqld/internal/env"
	"cqld/messaging"
	"cqld/replica"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/storage"
	"cqld/storage/faultfs"
)

// Node is one machine: its disk and its clock outlive the processes on it.
type Node struct {
	cluster *Cluster
	id      ring.NodeID
	disk    *vfs.MemFS
	faults  diskFaults
	wall    wallClock
	life    *life // nil while no process runs
	lives   int
	// damaged says that tables on the disk are corrupt, lost that the disk is another: a lost node
	// stays away until it is replaced.
	damaged, lost bool
}

// life is one process, from its start to its crash. What it has scheduled dies with it.
type life struct {
	node      *Node
	hlc       *env.HLC
	disk      *faultfs.FS
	engine    *storage.Engine
	transport *Transport
	coord     *coordinator.Coordinator
	heard     map[ring.NodeID]time.Duration // when each node was heard of last

	paused bool
	held   []func()    // what happens when it goes on
	fatal  atomic.Bool // storage has said that the node must stop
	ending bool        // it will
}

func (l *life) alive() bool { return l.node.life == l }

// do lets the process do f: at once, or when it goes on after a pause.
func (l *life) do(f func()) {
	if l.paused {
		l.held = append(l.held, f)
		return
	}
	f()
}

// resume ends a pause: all that was to happen in it happens now.
func (l *life) resume() {
	if !l.paused {
		return
	}
	l.paused = false
	for _, f := range l.held {
		l.node.cluster.kernel.After(0, "held", func() {
			if l.alive() {
				l.do(f)
			}
		})
	}
	l.held = nil
}

// The coordinator's and the replica's view.

// Self implements coordinator.View.
func (l *life) Self() ring.NodeID { return l.node.id }

// Schema implements coordinator.View.
func (l *life) Schema() *schema.Schema { return l.node.cluster.schema }

// Topology implements coordinator.View.
func (l *life) Topology() *ring.Topology { return l.node.cluster.topology }

// Alive implements coordinator.View: heard of in the last second and a half.
func (l *life) Alive(id ring.NodeID) bool {
	at, ok := l.heard[id]
	return id == l.node.id || ok && l.node.cluster.kernel.Now()-at < aliveFor
}

const (
	heartbeatEvery = 300 * time.Millisecond
	aliveFor       = 1500 * time.Millisecond
)

// sweepEvery is how often storage looks for what can be purged, and sweepBudget how far.
const (
	sweepEvery  = time.Second
	sweepBudget = 1000
)

// start runs a process on what the disk holds. One whose disk fails is tried again later.
func (n *Node) start() {
	c := n.cluster
	if n.life != nil || n.lost && !c.options.BlankDisksServe {
		return
	}
	n.lives++
	l := &life{node: n, heard: map[ring.NodeID]time.Duration{}, disk: faultfs.Wrap(n.disk)}
	n.life = l
	l.hlc = env.NewHLC(clock{l}, stampAhead)
	l.disk.Fail(n.faults.decide)
	var err error
	l.engine, err = storage.Open(storage.Options{
		Dir: "data", FS: l.disk, Clock: clock{l}, Inline: true, Sync: c.options.Sync,
		MemTableBytes: 1 << 20, CacheBytes: 1 << 20, PageBytes: c.options.PageBytes,
		OnFatal: func(error) { l.fatal.Store(true) }, FreeSpace: n.faults.space,
	})
	if err != nil {
		n.life = nil
		if !n.faults.any() && !n.damaged {
			c.fail("node %d does not start: %v", n.id, err)
			return
		}
		c.kernel.Trace(fmt.Sprint("no start ", n.id))
		c.kernel.After(100*time.Millisecond, "restart", n.start)
		return
	}
	l.assemble()
	for _, other := range c.nodes { // a new process takes all for alive until it knows better
		l.heard[other.id] = c.kernel.Now()
	}
	l.beat()
	l.sweep()
}

// assemble connects the parts of a process.
func (l *life) assemble() {
	c := l.node.cluster
	l.transport = &Transport{net: c.net, life: l, handlers: map[messaging.Verb]messaging.Handler{}}
	local := replica.NewLocal(slowEngine{l.engine, l}, l, func(id schema.StorageID) error { return l.coord.DropHints(id) })
	local.SetUnsafe(c.options.Unsafe)
	replica.Serve(l.transport, local)
	l.transport.Handle(messaging.VerbHeartbeat, func(from ring.NodeID, _ []byte, _ messaging.Respond) { l.hear(from) })
	l.coord = coordinator.New(coordinator.Options{
		View: l, Replicas: replica.NewDirectory(local, l.transport, l), Clock: clock{l},
		Rand:            NewStream(c.options.Seed, fmt.Sprint("coordinator ", l.node.id, l.node.lives)),
		LocalDatacenter: "dc1", Hints: l.engine, Unsafe: c.options.Unsafe, Limits: c.options.Limits,
		Stamps: l.hlc,
	})
	replica.ServeCounters(l.transport, l.coord)
	replica.ServeBatches(l.transport, l.coord)
}

// slowEngine is storage on a disk whose completions may come late.
type slowEngine struct {
	*storage.Engine
	life *life
}

// Apply implements replica.Engine.
func (e slowEngine) Apply(mutations []*row.Mutation, durable bool, done func(error)) {
	n := e.life.node
	e.Engine.Apply(mutations, durable, func(err error) {
		if n.faults.slow == 0 {
			done(err)
			return
		}
		clock{e.life}.After(n.faults.slow, func() { done(err) })
	})
}

// hear takes a sign of life of another node.
func (l *life) hear(from ring.NodeID) {
	was := l.Alive(from)
	l.heard[from] = l.node.cluster.kernel.Now()
	if !was {
		l.coord.NodeUp(from)
	}
}

// beat gives signs of life to all others, for as long as the process runs.
func (l *life) beat() {
	for _, other := range l.node.cluster.nodes {
		if other != l.node {
			l.transport.Send(other.id, messaging.VerbHeartbeat, nil)
		}
	}
	clock{l}.After(heartbeatEvery, l.beat)
}

// sweep lets storage purge, and look at its free space, for as long as the process runs.
func (l *life) sweep() {
	if _, err := l.engine.Sweep(sweepBudget); err != nil {
		l.node.cluster.kernel.Trace("sweep failed")
	}
	clock{l}.After(sweepEvery, l.sweep)
}

// crash ends the process. After a power cut, what was not synced is gone; a killed process leaves the
// kernel's cache behind.
func (n *Node) crash(powerCut bool) {
	l := n.life
	if l == nil {
		return
	}
	cfg := vfs.CrashCloneCfg{}
	if !powerCut {
		cfg = vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: newPebbleRand()}
	}
	n.disk = n.disk.CrashClone(cfg)
	n.life = nil
	l.disk.Fail(nil)
	if err := l.engine.Close(); err != nil { // it still writes to the disk that was; nobody looks there
		n.cluster.kernel.Trace("close failed")
	}
}

// wipe gives the machine an empty disk.
func (n *Node) wipe() { n.disk, n.lost = vfs.NewCrashableMem(), true }

// stopFatal stops the processes whose storage has failed, a moment later: what they acknowledge until
// then must be true all the same.
func (c *Cluster) stopFatal() {
	for _, n := range c.nodes {
		l := n.life
		if l == nil || l.ending || !l.fatal.Load() {
			continue
		}
		l.ending = true
		c.count("storage stopped a node")
		c.kernel.After(c.nemesis.Between(0, 500*time.Millisecond), "fatal", func() {
			if l.alive() {
				n.crash(true)
				c.kernel.After(c.nemesis.Between(20*time.Millisecond, time.Second), "restart", n.start)
			}
		})
	}
}

// holders are the nodes that have a replica of the token and can be asked for it.
func (c *Cluster) holders(token ring.Token) (nodes []*Node) {
	set := c.topology.Placement(c.replication()).Replicas(token)
	for _, n := range c.nodes {
		if n.life != nil && slices.Contains(set.Natural, n.id) {
			nodes = append(nodes, n)
		}
	}
	return nodes
}
