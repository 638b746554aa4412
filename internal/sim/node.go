package sim

import (
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/coordinator"
	"cqld/internal/env"
	"cqld/messaging"
	"cqld/replica"
	"cqld/ring"
	"cqld/schema"
	"cqld/storage"
)

// Node is one machine: its disk outlives the processes on it, its clock is its own.
type Node struct {
	cluster *Cluster
	id      ring.NodeID
	skew    time.Duration
	disk    *vfs.MemFS
	life    *life // nil while no process runs
	lives   int
}

// life is one process, from its start to its crash. What it has scheduled dies with it.
type life struct {
	node      *Node
	hlc       *env.HLC
	engine    *storage.Engine
	transport *Transport
	coord     *coordinator.Coordinator
	heard     map[ring.NodeID]time.Duration // when each node was heard of last
}

func (l *life) alive() bool { return l.node.life == l }

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

// clock is a process's clock.
type clock struct{ life *life }

// stampAhead is how far a stamp may be ahead of a node's clock: the default of
// maximum_timestamp_fail_threshold.
const stampAhead = time.Minute

// epoch is when simulated time begins.
const epoch = 1_700_000_000

// Now implements env.Clock.
func (c clock) Now() time.Time {
	return time.Unix(epoch, 0).Add(c.life.node.cluster.kernel.Now() + c.life.node.skew)
}

// Monotonic implements env.Clock.
func (c clock) Monotonic() time.Duration { return c.life.node.cluster.kernel.Now() + time.Hour }

// After implements env.Clock.
func (c clock) After(d time.Duration, f func()) env.Timer {
	return c.life.node.cluster.kernel.After(d, "timer", func() {
		if c.life.alive() {
			f()
		}
	})
}

// start runs a process on what the disk holds.
func (n *Node) start() {
	if n.life != nil {
		return
	}
	c := n.cluster
	n.lives++
	l := &life{node: n, heard: map[ring.NodeID]time.Duration{}}
	n.life = l
	l.hlc = env.NewHLC(clock{l}, stampAhead)
	var err error
	l.engine, err = storage.Open(storage.Options{
		Dir: "data", FS: n.disk, Clock: clock{l}, Inline: true, Sync: c.options.Sync,
		MemTableBytes: 256 << 10, CacheBytes: 1 << 20, PageBytes: c.options.PageBytes,
	})
	if err != nil {
		c.fail("node %d does not start: %v", n.id, err)
		n.life = nil
		return
	}
	l.transport = &Transport{net: c.net, life: l, handlers: map[messaging.Verb]messaging.Handler{}}
	local := replica.NewLocal(l.engine, l, func(id schema.StorageID) error { return l.coord.DropHints(id) })
	replica.Serve(l.transport, local)
	l.transport.Handle(messaging.VerbHeartbeat, func(from ring.NodeID, _ []byte, _ messaging.Respond) { l.hear(from) })
	l.coord = coordinator.New(coordinator.Options{
		View: l, Replicas: replica.NewDirectory(local, l.transport, l), Clock: clock{l},
		Rand: NewStream(c.options.Seed, fmt.Sprint("coordinator ", n.id, n.lives)), LocalDatacenter: "dc1",
		Hints: l.engine, Unsafe: c.options.Unsafe, Limits: c.options.Limits,
	})
	for _, other := range c.nodes { // a new process takes all for alive until it knows better
		l.heard[other.id] = c.kernel.Now()
	}
	l.beat()
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

// crash ends the process as a power cut does: what was not synced is gone.
func (n *Node) crash() {
	l := n.life
	if l == nil {
		return
	}
	n.disk = n.disk.CrashClone(vfs.CrashCloneCfg{})
	n.life = nil
	if err := l.engine.Close(); err != nil { // it still writes to the disk that was; nobody looks there
		n.cluster.kernel.Trace("close failed")
	}
}
