package simulation

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/ring"
	"cqld/simulation/damage"
)

// Node is one machine: its disk and its clock outlive its processes.
type Node struct {
	cluster      *Cluster
	id           ring.NodeID // of the machine; its node ID is process.Self
	dc           string      // data center
	addr         netip.AddrPort
	replace      string // the address of the node that this one replaces when it joins
	member       bool   // it has joined before
	disk         *vfs.MemFS
	faults       diskFaults
	wall         wallClock
	process      *process // nil while no process runs
	incarnations int
	damaged      bool // tables on the disk are corrupt
	leaving      bool // it is being decommissioned
	retiring     bool // it knows that it is no longer a member
	stopped      bool // the last process was stopped gracefully
	departed     bool // it has left the ring
	dead         bool // it is permanently off
}

// Paths on a machine's disk, and addresses.
const (
	dataDir = "data"
	raftDir = "raft"
)

// sweepEvery is the interval of storage's purges, and sweepBudget the work of one.
const (
	sweepEvery  = time.Second
	sweepBudget = 1000
)

// newNode returns a new machine.
func newNode(c *Cluster) *Node {
	c.machines++
	id := ring.NodeID(c.machines)
	n := &Node{cluster: c, id: id, dc: c.options.datacenterOf(c.machines), disk: vfs.NewCrashableMem()}
	n.setAddr(addrOf(id))
	c.net.nodes[id] = n
	return n
}

// addrOf returns the address of a new machine.
func addrOf(id ring.NodeID) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, byte(id >> 8), 0, byte(id)}), 7000)
}

func (n *Node) setAddr(a netip.AddrPort) {
	n.addr = a
	n.cluster.net.byAddr[a] = n
}

// start starts a process with the contents of the disk. If the disk fails, it is retried later.
func (n *Node) start() {
	c := n.cluster
	if n.process != nil || n.departed || n.dead {
		return
	}
	n.incarnations++
	l := &process{node: n, touched: map[tokenOf]time.Duration{}}
	n.process = l
	if err := l.open(); err != nil {
		n.process = nil
		if !n.faults.any() && !n.damaged {
			c.fail("node %d does not start: %v", n.id, err)
			return
		}
		c.kernel.Trace(fmt.Sprint("no start ", n.id))
		c.kernel.After(c.scaled(100*time.Millisecond), "restart", n.start)
	}
}

// sweep makes storage purge, and check its free space, while the process runs.
func (l *process) sweep() {
	if _, err := l.engine.Sweep(sweepBudget); err != nil {
		l.node.cluster.kernel.Trace("sweep failed")
	}
	clock{l}.After(sweepEvery*time.Duration(l.pace()), l.sweep)
}

// crash ends the process. A power cut loses unsynced data; a kill does not, because the kernel's cache survives.
func (n *Node) crash(powerCut bool) {
	l := n.process
	if l == nil {
		return
	}
	n.disk, n.stopped = n.afterCrash(powerCut), false
	n.ended()
	l.endTasks()
	l.disk.Fail(nil)
	l.raftDisk.Fail(nil)
	l.transport.close()
	// It still writes to the previous disk, which no other code reads.
	if err := errors.Join(l.cluster.Close(), l.engine.Close()); err != nil {
		n.cluster.kernel.Trace("close failed")
	}
}

// afterCrash returns the disk as it is after the end of the process.
func (n *Node) afterCrash(powerCut bool) *vfs.MemFS {
	switch {
	case !powerCut:
		return damage.Whole(n.disk)
	case !n.cluster.options.TornWrites:
		return n.disk.CrashClone(vfs.CrashCloneCfg{})
	}
	r := NewStream(n.cluster.options.Seed, fmt.Sprint("torn ", n.id, n.incarnations))
	torn, files, err := damage.Tear(n.disk, []string{dataDir, raftDir}, r)
	if err != nil {
		n.cluster.fail("the disk of node %d cannot be torn: %v", n.id, err)
		return n.disk.CrashClone(vfs.CrashCloneCfg{})
	}
	n.cluster.counted["logs torn"] += files
	return torn
}

// ended records that the process has ended.
func (n *Node) ended() {
	c := n.cluster
	c.excused.processEnded(n.process, c.kernel.Now())
	n.process = nil
	if !n.departed {
		c.crashed = c.kernel.Now()
	}
}

// stopFatal stops the processes whose storage has failed, after a moment: their acknowledgements until then must be
// valid nevertheless.
func (c *Cluster) stopFatal() {
	for _, n := range c.nodes {
		l := n.process
		if l == nil || l.ending || l.fatal.Load() == nil {
			continue
		}
		l.ending = true
		c.count("nodes stopped by themselves")
		if c.kernel.traceText != nil { // not in the hash: storage's messages vary
			fmt.Fprintln(c.kernel.traceText, "node", n.id, "stops:", *l.fatal.Load())
		}
		c.kernel.After(c.nemesis.Between(0, 500*time.Millisecond), "fatal", func() {
			if l.alive() {
				n.crash(true)
				c.kernel.After(c.scaled(c.nemesis.Between(20*time.Millisecond, time.Second)), "restart", n.start)
			}
		})
	}
}

// holders returns the machines with a replica of the token.
func (c *Cluster) holders(token ring.Token) (nodes []*Node) {
	set := c.metadata().Topology.Placement(c.replication()).Replicas(token)
	for _, n := range c.nodes {
		if n.process != nil && slices.Contains(set.Natural, n.process.Self()) {
			nodes = append(nodes, n)
		}
	}
	return nodes
}
