package damage

import (
	"errors"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"cqld/storage/faultfs"
)

// ErrDisk is the error of a failing disk.
var ErrDisk = errors.New("sim: input/output error")

// Faults contains the faults of a machine's disk; the zero value is a sound disk. Pebble's own goroutines use it, so
// its behaviour must not depend on their timing: a fault is on or off, and no random numbers are drawn here. Only
// events of the simulation set the fields; storage and Raft read them from any goroutine.
type Faults struct {
	// Syncs and Writes fail operations of storage's log, and Reads operations of its tables.
	Syncs, Writes, Reads atomic.Bool
	// Full makes the disk report no free space.
	Full atomic.Bool
	// Raft is the fault of the Raft log's disk; 0 means none. The metadata log has a file system of its own, so its
	// faults do not stop storage, and the other way around.
	Raft atomic.Int32
	// Slow is the delay of a write's completion. The write itself is on the disk at once. Only events use it.
	Slow time.Duration
}

// The faults of the Raft log's disk.
const (
	RaftSyncs int32 = iota + 1
	RaftWrites
	RaftNoSpace
)

// Any reports whether an operation of the disk may fail. A full or slow disk is not among these faults: storage must
// continue with both.
func (f *Faults) Any() bool {
	return f.Syncs.Load() || f.Writes.Load() || f.Reads.Load() || f.Raft.Load() != 0
}

// Heal ends all faults; the data stay.
func (f *Faults) Heal() {
	f.Syncs.Store(false)
	f.Writes.Store(false)
	f.Reads.Store(false)
	f.Full.Store(false)
	f.Raft.Store(0)
	f.Slow = 0
}

// DecideRaft is Decide for the Raft log.
func (f *Faults) DecideRaft(op faultfs.Op, name string) error {
	log := strings.HasSuffix(name, ".log")
	switch what := f.Raft.Load(); {
	case what == RaftSyncs && op == faultfs.OpSync && log, what == RaftWrites && op == faultfs.OpWrite && log:
		return ErrDisk
	// Only this log meets ENOSPC itself. Storage's full disk is reported by Space, before a write could fail.
	case what == RaftNoSpace && log && (op == faultfs.OpWrite || op == faultfs.OpCreate):
		return syscall.ENOSPC
	}
	return nil
}

// Decide implements the decision function of faultfs. It returns the error that the operation then reports; nil lets it
// happen. Data of a write that failed are not on the disk.
func (f *Faults) Decide(op faultfs.Op, name string) error {
	// Only logs and tables fail. Pebble also writes manifests in the background, at times that do not depend on the
	// seed.
	log, table := strings.HasSuffix(name, ".log"), strings.HasSuffix(name, ".sst")
	switch {
	case op == faultfs.OpSync && log && f.Syncs.Load(),
		op == faultfs.OpWrite && log && f.Writes.Load(),
		op == faultfs.OpRead && table && f.Reads.Load():
		return ErrDisk
	}
	return nil
}

// Space returns the disk's free space, as reported to storage.
func (f *Faults) Space() (free, total int64) {
	// Total and free bytes need only be on either side of storage's threshold.
	if f.Full.Load() {
		return 0, 1 << 30
	}
	return 1 << 29, 1 << 30
}

// Steady returns the text without the words that Pebble adds to a disk's error: they depend on which of its files are
// open. Traces and failures contain such text, and must be equal for equal seeds.
func Steady(what string) string {
	if i := strings.Index(what, ErrDisk.Error()); i >= 0 {
		// The text before Pebble's addition, and the error itself, remain.
		if k := strings.Index(what[:i], "pebble: "); k >= 0 {
			i = k
		}
		return what[:i] + ErrDisk.Error()
	}
	return what
}
