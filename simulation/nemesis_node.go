package simulation

import (
	"context"
	"time"

	"cqld/simulation/damage"
)

// kill kills a process and restarts it.
func (c *Cluster) kill(r *Stream) {
	n := c.any(r)
	n.crash(false)
	c.later(r.Between(20*time.Millisecond, 3*time.Second), "restart", n.start)
}

// powerOne cuts one machine's power for a while.
func (c *Cluster) powerOne(r *Stream) {
	n := c.any(r)
	n.crash(true)
	c.later(r.Between(20*time.Millisecond, 3*time.Second), "restart", n.start)
}

// powerAll cuts all machines' power at once.
func (c *Cluster) powerAll(r *Stream) {
	for _, n := range c.nodes {
		n.crash(true)
		c.later(r.Between(20*time.Millisecond, time.Second), "restart", n.start)
	}
}

// restartStorm repeatedly ends and starts one process, or all.
func (c *Cluster) restartStorm(r *Stream) {
	nodes := c.nodes
	if r.Chance(500) {
		nodes = []*Node{c.any(r)}
	}
	at := time.Duration(0)
	for range 2 + r.Intn(6) {
		n := nodes[r.Intn(len(nodes))]
		c.later(at, "storm", func() { n.crash(true) })
		at += r.Between(time.Millisecond, 100*time.Millisecond)
		c.later(at, "restart", n.start)
		at += r.Between(time.Millisecond, 300*time.Millisecond)
	}
}

// pause stops a process as SIGSTOP does. Its timers and messages wait, and other nodes receive nothing from it.
func (c *Cluster) pause(r *Stream) {
	l, d := c.any(r).process, r.Between(10*time.Millisecond, 4*time.Second)
	if l == nil {
		return
	}
	l.paused = true
	c.later(d, "resume", l.resume)
}

// clockJump changes a clock.
func (c *Cluster) clockJump(r *Stream) {
	c.any(r).wall.offset += r.Between(-5*time.Second, 5*time.Second)
}

// clockDrift makes a clock too fast or too slow, by up to a fifth.
func (c *Cluster) clockDrift(r *Stream) {
	c.any(r).wall.setDrift(c.kernel.Now(), int64(r.Intn(400_000))-200_000)
}

// clockStrobe makes a clock jump repeatedly.
func (c *Cluster) clockStrobe(r *Stream) {
	n, by := c.any(r), r.Between(time.Millisecond, 500*time.Millisecond)
	at := time.Duration(0)
	for range 10 + r.Intn(20) {
		by = -by
		c.later(at, "strobe", func() { n.wall.offset += by })
		at += r.Between(time.Millisecond, 40*time.Millisecond)
	}
}

// slowDisk delays the completions of a disk.
func (c *Cluster) slowDisk(r *Stream) {
	n := c.any(r)
	n.faults.slow = r.Between(time.Millisecond, 600*time.Millisecond)
	c.later(r.Between(100*time.Millisecond, 3*time.Second), "quick disk", func() { n.faults.slow = 0 })
}

// fsyncError makes the log's fsync fail: the node must stop, and must not acknowledge unsynced writes.
func (c *Cluster) fsyncError(r *Stream) {
	n := c.any(r)
	n.faults.syncs.Store(true)
	c.later(r.Between(20*time.Millisecond, time.Second), "good disk", func() { n.faults.syncs.Store(false) })
}

// writeError makes writes to the log fail.
func (c *Cluster) writeError(r *Stream) {
	n := c.any(r)
	n.faults.writes.Store(true)
	c.later(r.Between(20*time.Millisecond, time.Second), "good disk", func() { n.faults.writes.Store(false) })
}

// raftFsyncError makes the fsync of the Raft log fail: the node must stop, and must not have sent messages based on
// unsynced entries.
func (c *Cluster) raftFsyncError(r *Stream) { c.raftFault(r, raftSyncs) }

// raftWriteError makes writes to the Raft log fail.
func (c *Cluster) raftWriteError(r *Stream) { c.raftFault(r, raftWrites) }

// raftFull makes the disk of the Raft log full: the node stops, and starts again when there is space.
func (c *Cluster) raftFull(r *Stream) { c.raftFault(r, raftNoSpace) }

func (c *Cluster) raftFault(r *Stream, what int32) {
	n := c.any(r)
	n.faults.raft.Store(what)
	c.later(r.Between(20*time.Millisecond, 2*time.Second), "good disk", func() { n.faults.raft.Store(0) })
}

// readError makes reads of tables fail, and flushes so that there are tables to read.
func (c *Cluster) readError(r *Stream) {
	n := c.any(r)
	n.flush()
	n.faults.reads.Store(true)
	c.later(r.Between(20*time.Millisecond, time.Second), "good disk", func() { n.faults.reads.Store(false) })
}

// diskFull makes a disk full: storage must refuse writes, and recover without a restart.
func (c *Cluster) diskFull(r *Stream) {
	n := c.any(r)
	n.faults.full.Store(true)
	c.later(r.Between(200*time.Millisecond, 4*time.Second), "space", func() { n.faults.full.Store(false) })
}

// flush flushes memtables, on all nodes or on one, and sometimes compacts.
func (c *Cluster) flush(r *Stream) {
	nodes := c.nodes
	if r.Chance(700) {
		nodes = []*Node{c.any(r)}
	}
	compact := r.Chance(400)
	for _, n := range nodes {
		n.flush()
		if compact {
			n.compact()
		}
	}
}

// flush flushes a running node's memtables.
func (n *Node) flush() {
	if n.process == nil || n.process.fatal.Load() != nil || n.faults.any() {
		return
	}
	if err := n.process.engine.Flush(); err != nil {
		n.cluster.fail("node %d cannot flush: %v", n.id, err)
	}
}

func (n *Node) compact() {
	if n.process == nil || n.process.fatal.Load() != nil || n.faults.any() || n.damaged {
		return
	}
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

// mayLose reports whether a node may lose its data permanently: one per run, and the quorums of the remaining nodes
// must overlap with the previous ones.
func (c *Cluster) mayLose(n *Node) bool {
	return !c.losing && c.options.Factor >= 4 && (len(c.options.Datacenters) == 0 || c.options.Meet) && n.member &&
		!n.departed && !n.dead && !n.leaving
}

// bitFlip changes bits of a machine's tables while it is off. Storage must detect it: a read returns the correct result
// or an error. A damaged node is replaced when the cluster is healed.
func (c *Cluster) bitFlip(r *Stream) {
	n := c.any(r)
	if !c.mayLose(n) || !n.process.serves() || n.faults.any() {
		return
	}
	n.flush()
	n.crash(true)
	seed := r.Uint64()
	flipped, err := damage.FlipBits(n.disk, dataDir, func(name string) damage.Rand { return NewStream(seed, name) })
	if err != nil {
		c.fail("no bit could be flipped: %v", err)
	}
	n.damaged = flipped > 0
	c.losing = n.damaged
	c.later(r.Between(20*time.Millisecond, time.Second), "restart", n.start)
}

// wipedDisk removes a machine's disk: another node takes its place.
func (c *Cluster) wipedDisk(r *Stream) {
	n := c.any(r)
	if !c.options.BlankDisksServe && !c.mayLose(n) || !n.member || n.departed {
		return
	}
	c.losing = true
	n.crash(true)
	n.wipe()
	c.later(r.Between(20*time.Millisecond, time.Second), "restart", n.start)
}
