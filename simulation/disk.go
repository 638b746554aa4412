package simulation

import (
	"errors"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"cqld/storage/faultfs"
)

// errDisk is the error of a failing disk.
var errDisk = errors.New("sim: input/output error")

// diskFaults contains the faults of a machine's disk. Pebble's own goroutines use it, so its behaviour must not depend
// on their timing: a fault is on or off, and no random numbers are drawn here. Only the nemesis writes the fields;
// storage and Raft read them from any goroutine.
type diskFaults struct {
	// syncs and writes fail operations of storage's log, and reads operations of its tables.
	syncs, writes atomic.Bool
	reads         atomic.Bool // of tables
	// full makes the disk report no free space.
	full atomic.Bool
	// raft is the fault of the Raft log's disk; 0 means none. The metadata log has a file system of its own, so its
	// faults do not stop storage, and the other way around.
	raft atomic.Int32
	// slow is the delay of a write's completion. The write itself is on the disk at once. Only events use it.
	slow time.Duration
}

// The faults of the Raft log's disk.
const (
	raftSyncs int32 = iota + 1
	raftWrites
	raftNoSpace
)

// any reports whether an operation of the disk may fail. A full or slow disk is not among these faults: storage must
// continue with both.
func (f *diskFaults) any() bool {
	return f.syncs.Load() || f.writes.Load() || f.reads.Load() || f.raft.Load() != 0
}

// heal ends all faults; the data stay.
func (f *diskFaults) heal() {
	f.syncs.Store(false)
	f.writes.Store(false)
	f.reads.Store(false)
	f.full.Store(false)
	f.raft.Store(0)
	f.slow = 0
}

// decideRaft is decide for the Raft log.
func (f *diskFaults) decideRaft(op faultfs.Op, name string) error {
	log := strings.HasSuffix(name, ".log")
	switch what := f.raft.Load(); {
	case what == raftSyncs && op == faultfs.OpSync && log, what == raftWrites && op == faultfs.OpWrite && log:
		return errDisk
	// Only this log meets ENOSPC itself. Storage's full disk is reported by space, before a write could fail.
	case what == raftNoSpace && log && (op == faultfs.OpWrite || op == faultfs.OpCreate):
		return syscall.ENOSPC
	}
	return nil
}

// decide implements the decision function of faultfs. It returns the error that the operation then reports; nil lets it
// happen. Data of a write that failed are not on the disk.
func (f *diskFaults) decide(op faultfs.Op, name string) error {
	// Only logs and tables fail. Pebble also writes manifests in the background, at times that do not depend on the
	// seed.
	log, table := strings.HasSuffix(name, ".log"), strings.HasSuffix(name, ".sst")
	switch {
	case op == faultfs.OpSync && log && f.syncs.Load(),
		op == faultfs.OpWrite && log && f.writes.Load(),
		op == faultfs.OpRead && table && f.reads.Load():
		return errDisk
	}
	return nil
}

// space returns the disk's free space, as reported to storage.
func (f *diskFaults) space() (free, total int64) {
	// Total and free bytes need only be on either side of storage's threshold.
	if f.full.Load() {
		return 0, 1 << 30
	}
	return 1 << 29, 1 << 30
}

// steady returns the text without the words that Pebble adds to a disk's error: they depend on which of its files are
// open. Traces and failures contain such text, and must be equal for equal seeds.
func steady(what string) string {
	if i := strings.Index(what, errDisk.Error()); i >= 0 {
		// The text before Pebble's addition, and the error itself, remain.
		if k := strings.Index(what[:i], "pebble: "); k >= 0 {
			i = k
		}
		return what[:i] + errDisk.Error()
	}
	return what
}
