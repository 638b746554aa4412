package simulation

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/ring"
)

// Node is one machine: its disk and its clock outlive the processes on it.
type Node struct {
	cluster  *Cluster
	id       ring.NodeID // of the machine; what the ring calls it is life.Self
	dc       string      // data center
	addr     netip.AddrPort
	replace  string // the address whose node this one replaces, when it joins
	member   bool   // it has joined before
	disk     *vfs.MemFS
	faults   diskFaults
	wall     wallClock
	life     *life // nil while no process runs
	lives    int
	damaged  bool // tables on the disk are corrupt
	leaving  bool // it was asked to leave
	retiring bool // it has heard that it is no member any more
	stopped  bool // the last process ended in an orderly way
	gone     bool // it has left the ring
	dead     bool // it is off for good
}

// Where things are on a machine's disk, and in the world.
const (
	dataDir = "data"
	raftDir = "raft"
)

// sweepEvery is how often storage looks for what can be purged, and sweepBudget how far.
const (
	sweepEvery  = time.Second
	sweepBudget = 1000
)

// newNode is a machine that was never used.
func newNode(c *Cluster) *Node {
	c.machines++
	id := ring.NodeID(c.machines)
	n := &Node{cluster: c, id: id, dc: c.options.datacenterOf(c.machines), disk: vfs.NewCrashableMem()}
	n.setAddr(addrOf(id))
	c.net.nodes[id] = n
	return n
}

// addrOf is the address of a new machine.
func addrOf(id ring.NodeID) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, byte(id >> 8), 0, byte(id)}), 7000)
}

func (n *Node) setAddr(a netip.AddrPort) {
	n.addr = a
	n.cluster.net.byAddr[a] = n
}

// start runs a process on what the disk holds. One whose disk fails is tried again later.
func (n *Node) start() {
	c := n.cluster
	if n.life != nil || n.gone || n.dead {
		return
	}
	n.lives++
	l := &life{node: n, touched: map[tokenOf]time.Duration{}}
	n.life = l
	if err := l.open(); err != nil {
		n.life = nil
		if !n.faults.any() && !n.damaged {
			c.fail("node %d does not start: %v", n.id, err)
			return
		}
		c.kernel.Trace(fmt.Sprint("no start ", n.id))
		c.kernel.After(c.stretched(100*time.Millisecond), "restart", n.start)
	}
}

// sweep lets storage purge, and look at its free space, for as long as the process runs.
func (l *life) sweep() {
	if _, err := l.engine.Sweep(sweepBudget); err != nil {
		l.node.cluster.kernel.Trace("sweep failed")
	}
	clock{l}.After(sweepEvery*time.Duration(l.pace()), l.sweep)
}

// crash ends the process. After a power cut, what was not synced is gone; a killed process leaves the
// kernel's cache behind.
func (n *Node) crash(powerCut bool) {
	l := n.life
	if l == nil {
		return
	}
	n.disk, n.stopped = n.afterCrash(powerCut), false
	n.ended()
	l.endTasks()
	l.disk.Fail(nil)
	l.raftDisk.Fail(nil)
	l.transport.close()
	// It still writes to the disk that was; nobody looks there.
	if err := errors.Join(l.cluster.Close(), l.engine.Close()); err != nil {
		n.cluster.kernel.Trace("close failed")
	}
}

// afterCrash is what is left of the disk when the process ends.
func (n *Node) afterCrash(powerCut bool) *vfs.MemFS {
	switch {
	case !powerCut:
		return n.disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: newPebbleRand()})
	case !n.cluster.options.TornWrites:
		return n.disk.CrashClone(vfs.CrashCloneCfg{})
	}
	torn, files, err := tear(n.disk, NewStream(n.cluster.options.Seed, fmt.Sprint("torn ", n.id, n.lives)))
	if err != nil {
		n.cluster.fail("the disk of node %d cannot be torn: %v", n.id, err)
		return n.disk.CrashClone(vfs.CrashCloneCfg{})
	}
	n.cluster.counted["logs torn"] += files
	return torn
}

// ended notes that no process runs any more.
func (n *Node) ended() {
	c := n.cluster
	c.excused.processEnded(n.life, c.kernel.Now())
	n.life = nil
	if !n.gone {
		c.crashed = c.kernel.Now()
	}
}

// stopFatal stops the processes whose storage has failed, a moment later: what they acknowledge until
// then must be true all the same.
func (c *Cluster) stopFatal() {
	for _, n := range c.nodes {
		l := n.life
		if l == nil || l.ending || l.fatal.Load() == nil {
			continue
		}
		l.ending = true
		c.count("nodes stopped by themselves")
		if c.kernel.story != nil { // not in the hash: storage's words are its own
			fmt.Fprintln(c.kernel.story, "node", n.id, "stops:", *l.fatal.Load())
		}
		c.kernel.After(c.nemesis.Between(0, 500*time.Millisecond), "fatal", func() {
			if l.alive() {
				n.crash(true)
				c.kernel.After(c.stretched(c.nemesis.Between(20*time.Millisecond, time.Second)), "restart", n.start)
			}
		})
	}
}

// holders are the machines that have a replica of the token.
func (c *Cluster) holders(token ring.Token) (nodes []*Node) {
	set := c.metadata().Topology.Placement(c.replication()).Replicas(token)
	for _, n := range c.nodes {
		if n.life != nil && slices.Contains(set.Natural, n.life.Self()) {
			nodes = append(nodes, n)
		}
	}
	return nodes
}
