package simulation

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/cluster/metadata"
	"cqld/ring"
	"cqld/simulation/damage"
	"cqld/simulation/goroutine"
	"cqld/simulation/kernel"
	"cqld/simulation/network"
	"cqld/simulation/sealed"
)

// Node is one machine: its disk and its clock outlive its processes. A machine has at most one process at a time. Its
// number never changes; its address changes when its disk is wiped.
type Node struct {
	cluster *Cluster
	// id is the number of the machine. Its node ID is process.Self, which may differ.
	id   ring.NodeID
	dc   string // data center
	addr netip.AddrPort
	// replace is the address of the node that this one replaces when it joins; empty means none.
	replace string
	// member means that a process with this disk has joined before.
	member bool
	// disk is replaced at the end of each process, by what the end left of it.
	disk *vfs.MemFS
	// applied is the epoch of the latest metadata that a process with this disk has applied. It must never be later
	// than the metadata by which a new process with this disk serves (process.listen).
	applied uint64
	faults  damage.Faults
	// wall is an error of the machine: it outlives processes, and ends when the cluster is healed.
	wall wallClock
	// process is nil while no process runs.
	process *process
	// incarnations is the number of processes started so far. It is part of the names of their random number streams,
	// so a restarted process does not draw the numbers of its predecessor again.
	incarnations int
	// damaged means that tables on the disk are corrupt. The node may serve until it reads them.
	damaged bool
	// leaving means that the node is being decommissioned, and retiring that it knows that it is no longer a member.
	leaving  bool
	retiring bool
	// stopped means that the last process was stopped gracefully.
	stopped bool
	// departed means that it has left the ring, and dead that it is permanently off. No process starts in either
	// state.
	departed bool
	dead     bool
}

// Paths on a machine's disk, and addresses.
const (
	// Both directories are on one MemFS: a power cut hits storage and the Raft log at the same moment.
	dataDir = "data"
	raftDir = "raft"
)

// sweepEvery is the interval of storage's purges, and sweepBudget the work of one.
const (
	// sweepEvery is multiplied by Pace, as are the heartbeats.
	sweepEvery  = time.Second
	sweepBudget = 1000
)

// newNode returns a new machine. It is off and not in Cluster.nodes yet; the caller adds and starts it.
func newNode(c *Cluster) *Node {
	c.machines++
	id := ring.NodeID(c.machines)
	n := &Node{cluster: c, id: id, dc: c.options.datacenterOf(c.machines), disk: vfs.NewCrashableMem()}
	n.setAddr(addrOf(id))
	return n
}

// addrOf returns the address of a new machine.
func addrOf(id ring.NodeID) netip.AddrPort {
	// The third byte is 0 in the first life of a machine; wipe increments it.
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, byte(id >> 8), 0, byte(id)}), 7000)
}

// setAddr gives the machine an address.
func (n *Node) setAddr(a netip.AddrPort) {
	n.addr = a
	n.cluster.net.Attach(n)
}

// Number implements network.Machine.
func (n *Node) Number() ring.NodeID { return n.id }

// Datacenter implements network.Machine.
func (n *Node) Datacenter() string { return n.dc }

// Addr implements network.Machine.
func (n *Node) Addr() netip.AddrPort { return n.addr }

// Transport implements network.Machine.
func (n *Node) Transport() *network.Transport {
	if n.process == nil {
		return nil
	}
	return n.process.transport
}

// start starts a process with the contents of the disk. If the disk fails, it is retried later. Starting a node that
// runs, has left or is dead does nothing, so that faults need not check.
func (n *Node) start() {
	c := n.cluster
	if n.process != nil || n.departed || n.dead {
		return
	}
	// This comes before open: a start that fails counts, too, and the next attempt draws other numbers.
	n.incarnations++
	schedule := kernel.NewStream(c.options.Seed, fmt.Sprint("goroutines ", n.id, n.incarnations))
	l := &process{Scheduler: goroutine.New(c.kernel, schedule), node: n, touched: map[tokenOf]time.Duration{},
		observe: func(*metadata.Metadata) {}}
	n.process = l
	if err := l.open(); err != nil {
		n.process = nil
		l.End()
		// Without a failing disk there is no excuse for a process that does not start, except for an old release.
		if !n.faults.Any() && !n.damaged && !c.releases.refused(n, err) {
			c.fail("node %d does not start: %v", n.id, err)
			return
		}
		c.kernel.Trace(fmt.Sprint("no start ", n.id))
		c.kernel.After(c.scaled(100*time.Millisecond), "restart", n.start)
	}
}

// sweep makes storage purge, and check its free space, while the process runs. An error is noted only, as a failing
// disk ends the process by itself.
func (l *process) sweep() {
	if _, err := l.engine.Sweep(sweepBudget); err != nil {
		l.node.cluster.kernel.Trace("sweep failed")
	}
	// As the job of an operator, while storage uses the files. A failing disk interrupts it.
	if err := sealed.Rewrite(l.data, dataDir); err != nil && !l.node.faults.Any() && !l.node.damaged {
		l.node.cluster.fail("node %d cannot rewrite its files: %v", l.node.id, err)
	}
	clock{l}.After(sweepEvery*time.Duration(l.pace()), l.sweep)
}

// crash ends the process. A power cut loses unsynced data; a kill does not, because the kernel's cache survives.
// Nothing of the process runs afterwards: its events check Ended, and its goroutines are events, too. It does nothing
// without a process.
func (n *Node) crash(powerCut bool) {
	l := n.process
	if l == nil {
		return
	}
	// The disk is copied first. What the closing process below still writes is then on the old copy only.
	n.disk, n.stopped = n.afterCrash(powerCut), false
	n.ended()
	l.End()
	// The injected errors end so that Close can finish; it has no effect on the new copy of the disk.
	l.disk.Fail(nil)
	l.raftDisk.Fail(nil)
	l.transport.Close()
	// It still writes to the previous disk, which no other code reads.
	if err := errors.Join(l.cluster.Close(), l.engine.Close()); err != nil {
		n.cluster.kernel.Trace("close failed")
	}
}

// afterCrash returns the disk as it is after the end of the process. A kill keeps everything that was written, since
// the page cache belongs to the kernel.
func (n *Node) afterCrash(powerCut bool) *vfs.MemFS {
	switch {
	case !powerCut:
		return damage.Whole(n.disk)
	case !n.cluster.options.TornWrites:
		return n.disk.CrashClone(vfs.CrashCloneCfg{})
	}
	// A stream per crash: which sectors survive does not depend on the other faults of the run.
	r := kernel.NewStream(n.cluster.options.Seed, fmt.Sprint("torn ", n.id, n.incarnations))
	torn, files, err := damage.Tear(n.disk, []string{dataDir, raftDir}, r)
	if err != nil {
		n.cluster.fail("the disk of node %d cannot be torn: %v", n.id, err)
		return n.disk.CrashClone(vfs.CrashCloneCfg{})
	}
	n.cluster.counted["logs torn"] += files
	return torn
}

// encrypted returns a disk of the machine as its process sees it.
func (n *Node) encrypted(disk vfs.FS) vfs.FS {
	o := &n.cluster.options
	return sealed.Disk(disk, o.Encrypted, n.incarnations, kernel.NewStream(o.Seed, fmt.Sprint("keys ", n.id)))
}

// ended records that the process has ended.
func (n *Node) ended() {
	c := n.cluster
	// This needs the process, so it comes before the field is cleared.
	c.verify.excused.processEnded(n.process, c.kernel.Now())
	n.process = nil
	// crashed is for workloads that expect failures shortly after a member has ended; a departed node serves no
	// request.
	if !n.departed {
		c.crashed = c.kernel.Now()
	}
}

// holders returns the machines with a replica of the token. Machines without a process are left out; in a healed
// cluster, there are none.
func (c *Cluster) holders(token ring.Token) (nodes []*Node) {
	// Natural replicas only: in a settled ring there are no pending ones.
	set := c.metadata().Topology.Placement(c.replication()).Replicas(token)
	for _, n := range c.nodes {
		if n.process != nil && slices.Contains(set.Natural, n.process.Self()) {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// stop ends the process in the order of node.Close. A process that is paused, or whose disk fails, is killed. Hints in
// memory are flushed.
func (n *Node) stop() {
	l := n.process
	if l == nil {
		return
	}
	// An orderly stop needs a process that reacts and a disk that works. Otherwise an operator would send SIGKILL.
	if l.Paused() || l.fatal.Load() != nil || n.faults.Any() || n.damaged {
		n.crash(false)
		return
	}
	// meetings.watch distinguishes by this field between a restart and a kill.
	n.stopped = true
	// The process is alive during Stop: hints that it flushes and messages that it sends are still part of the run.
	l.instance.Stop()
	n.ended()
	l.End()
	l.transport.Close()
	if err := errors.Join(l.cluster.Close(), l.engine.Close()); err != nil {
		n.cluster.fail("node %d cannot stop: %v", n.id, err)
	}
}

// left reports whether a refusal means that the node was a member and no longer is.
func (n *Node) left(err error) bool {
	var refused *metadata.Refused
	// Busy means that another operation of the ring is in progress: the node may try again.
	if !errors.As(err, &refused) || n.process == nil || refused.Busy {
		return false
	}
	// The node was removed before it learned of its admission, and so of its node ID.
	if n.process.Self() == 0 {
		return true
	}
	return n.cluster.metadata().Topology.Node(n.process.Self()) == nil
}

// retire ends a machine that has left. If it was to replace a dead node, and was stopped, it tries again with an empty
// disk, because the dead node must be replaced.
func (n *Node) retire() {
	if n.departed || n.retiring {
		return
	}
	n.retiring = true
	// An operation to replace a node can be aborted. The dead node is still a member then.
	if !n.leaving && n.replace != "" && n.cluster.memberAt(n.replace) {
		n.cluster.kernel.After(time.Second, "retire", func() {
			n.retiring = false
			// wipe sets replace to the machine's own former address, but the dead node is still to be replaced.
			replace := n.replace
			n.crash(true)
			n.wipe()
			n.replace = replace
			n.start()
		})
		return
	}
	// From now on, nothing is required of this node. Its process ends a second later, if it is no voter then.
	n.departed = true
	n.cluster.verify.excused.left(n.process)
	n.cluster.count("nodes left")
	n.endRetired(20)
}

// endRetired ends the process of a node that has left, as an operator does when the decommission has returned: when it
// is no voter any longer, or after so many seconds.
func (n *Node) endRetired(most int) {
	n.cluster.kernel.After(time.Second, "retire", func() {
		if l := n.process; most > 0 && l != nil && l.cluster != nil && l.cluster.Voters().Has(l.Self()) {
			n.endRetired(most - 1)
			return
		}
		n.crash(true)
	})
}

// wipe gives the machine an empty disk and another address: it is now another node, which asks to replace the former
// one. The Paxos promises of the machine are lost with its disk.
func (n *Node) wipe() {
	// The removed safeguard: the Raft log and with it the identity of the node survive, and its data do not.
	if n.cluster.options.Unsafe.BlankDisksServe {
		if err := n.disk.RemoveAll(dataDir); err != nil {
			n.cluster.fail("node %d cannot be wiped: %v", n.id, err)
		}
		return
	}
	n.disk, n.applied, n.member, n.damaged = vfs.NewCrashableMem(), 0, false, false
	n.replace = n.addr.String()
	a := n.addr.Addr().As4()
	// With the old address, the others could not distinguish the new node from the one that it replaces.
	a[2]++
	n.setAddr(netip.AddrPortFrom(netip.AddrFrom4(a), n.addr.Port()))
	n.cluster.count("nodes replaced")
}

// flush flushes a running node's memtables.
func (n *Node) flush() {
	// A flush on a failing disk would end the process at a moment that depends on Pebble's goroutines.
	if n.process == nil || n.process.fatal.Load() != nil || n.faults.Any() {
		return
	}
	if err := n.process.engine.Flush(); err != nil {
		n.cluster.fail("node %d cannot flush: %v", n.id, err)
	}
}

// compact compacts the workloads' tables of a running node. The engine of the simulation compacts only on request.
// Compaction is synchronous here: it ends before the next event, so its timing does not depend on goroutines.
func (n *Node) compact() {
	if n.process == nil || n.process.fatal.Load() != nil || n.faults.Any() || n.damaged {
		return
	}
	// All workloads are asked, whether or not they run: a table that does not exist is skipped.
	for _, kind := range workloadKinds() {
		for _, t := range kind.tables {
			if table := n.cluster.table(t.Table); table != nil {
				if err := n.process.engine.CompactTable(context.Background(), table.StorageID, nil); err != nil {
					n.cluster.fail("node %d cannot compact: %v", n.id, err)
				}
			}
		}
	}
}
