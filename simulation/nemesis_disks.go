package simulation

import (
	"time"

	"cqld/simulation/damage"
	"cqld/simulation/kernel"
)

// storageFaults make disks slow, full, wrong or empty. Each fault ends by itself within seconds, except damage, after
// which the node is replaced.
type storageFaults struct{ c *Cluster }

// strikes returns the faults by kind.
func (f storageFaults) strikes() map[faultKind]func(*kernel.Stream) {
	return map[faultKind]func(*kernel.Stream){
		"slow-disk":        f.slowDisk,
		"fsync-error":      f.fsyncError,
		"write-error":      f.writeError,
		"read-error":       f.readError,
		"disk-full":        f.diskFull,
		"flush":            f.flush,
		"bit-flip":         f.bitFlip,
		"wiped-disk":       f.wipedDisk,
		"raft-fsync-error": f.raftFsyncError,
		"raft-write-error": f.raftWriteError,
		"raft-full":        f.raftFull,
	}
}

// slowDisk delays the completions of a disk. Writes are on the disk at once and only reported late, so a crash in
// between loses no acknowledged write and keeps some unacknowledged ones.
func (f storageFaults) slowDisk(r *kernel.Stream) {
	n := f.c.any(r)
	// The upper bound is below operationTimeout: one late write alone does not make a request time out.
	n.faults.Slow = r.Between(time.Millisecond, 600*time.Millisecond)
	f.c.later(r.Between(100*time.Millisecond, 3*time.Second), "quick disk", func() { n.faults.Slow = 0 })
}

// fsyncError makes the log's fsync fail: the node must stop, and must not acknowledge unsynced writes. After a failed
// fsync, the kernel may have dropped the pages (the fsyncgate behaviour of Linux), so retrying would acknowledge writes
// that are not on the disk.
func (f storageFaults) fsyncError(r *kernel.Stream) {
	n := f.c.any(r)
	// The process ends when its next sync fails; its successor starts after the fault, or retries until then
	// (Node.start).
	n.faults.Syncs.Store(true)
	f.c.later(r.Between(20*time.Millisecond, time.Second), "good disk", func() { n.faults.Syncs.Store(false) })
}

// writeError makes writes to the log fail.
func (f storageFaults) writeError(r *kernel.Stream) {
	n := f.c.any(r)
	n.faults.Writes.Store(true)
	f.c.later(r.Between(20*time.Millisecond, time.Second), "good disk", func() { n.faults.Writes.Store(false) })
}

// raftFsyncError makes the fsync of the Raft log fail: the node must stop, and must not have sent messages based on
// unsynced entries.
func (f storageFaults) raftFsyncError(r *kernel.Stream) { f.raftFault(r, damage.RaftSyncs) }

// raftWriteError makes writes to the Raft log fail.
func (f storageFaults) raftWriteError(r *kernel.Stream) { f.raftFault(r, damage.RaftWrites) }

// raftFull makes the disk of the Raft log full: the node stops, and starts again when there is space.
func (f storageFaults) raftFull(r *kernel.Stream) { f.raftFault(r, damage.RaftNoSpace) }

// raftFault lets the disk of a Raft log fail in one way. A later fault of the same disk replaces an earlier one.
func (f storageFaults) raftFault(r *kernel.Stream, what int32) {
	n := f.c.any(r)
	n.faults.Raft.Store(what)
	f.c.later(r.Between(20*time.Millisecond, 2*time.Second), "good disk", func() { n.faults.Raft.Store(0) })
}

// readError makes reads of tables fail, and flushes so that there are tables to read.
func (f storageFaults) readError(r *kernel.Stream) {
	n := f.c.any(r)
	n.flush()
	n.faults.Reads.Store(true)
	f.c.later(r.Between(20*time.Millisecond, time.Second), "good disk", func() { n.faults.Reads.Store(false) })
}

// diskFull makes a disk full: storage must refuse writes, and recover without a restart. Only the reported space
// changes; writes that were accepted before succeed.
func (f storageFaults) diskFull(r *kernel.Stream) {
	n := f.c.any(r)
	n.faults.Full.Store(true)
	f.c.later(r.Between(200*time.Millisecond, 4*time.Second), "space", func() { n.faults.Full.Store(false) })
}

// flush flushes memtables, on all nodes or on one, and sometimes compacts. It is not a fault but moves data from
// memtables to tables, so that reads and purges meet both.
func (f storageFaults) flush(r *kernel.Stream) {
	nodes := f.c.nodes
	if r.Chance(700) {
		nodes = []*Node{f.c.any(r)}
	}
	// A compaction drops purgeable tombstones and shadowed versions.
	compact := r.Chance(400)
	for _, n := range nodes {
		n.flush()
		if compact {
			n.compact()
		}
	}
}

// bitFlip changes bits of a machine's tables while it is off. Storage must detect it: a read returns the correct result
// or an error. A damaged node is replaced when the cluster is healed.
func (f storageFaults) bitFlip(r *kernel.Stream) {
	c := f.c
	n := c.any(r)
	// A node that has not joined has no data that must be detected as corrupt.
	if !c.mayLose(n) || !n.process.serves() || n.faults.Any() {
		return
	}
	n.flush()
	n.crash(true)
	// One draw for all files: which bits flip in a table depends on its name, not on the other tables.
	seed := r.Uint64()
	flipped, err := damage.FlipBits(n.disk, dataDir, func(name string) damage.Rand {
		return kernel.NewStream(seed, name)
	})
	if err != nil {
		c.fail("no bit could be flipped: %v", err)
	}
	n.damaged = flipped > 0
	c.losing = n.damaged
	c.later(r.Between(20*time.Millisecond, time.Second), "restart", n.start)
}

// wipedDisk removes a machine's disk: another node takes its place. The machine returns under another address and asks
// to replace its former self.
func (f storageFaults) wipedDisk(r *kernel.Stream) {
	c := f.c
	n := c.any(r)
	if !c.options.Unsafe.BlankDisksServe && !c.mayLose(n) || !n.member || n.departed {
		return
	}
	c.losing = true
	n.crash(true)
	n.wipe()
	c.later(r.Between(20*time.Millisecond, time.Second), "restart", n.start)
}
