package simulation

import (
	"errors"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/storage/faultfs"
)

// errDisk is the error of a failing disk.
var errDisk = errors.New("sim: input/output error")

// diskFaults contains the faults of a machine's disk. Pebble's own goroutines use it, so its behaviour must not depend on their
// timing: a fault is on or off, and no random numbers are drawn here.
type diskFaults struct {
	syncs, writes atomic.Bool // of the log
	reads         atomic.Bool // of tables
	full          atomic.Bool
	raft          atomic.Int32  // the fault of the Raft log's disk
	slow          time.Duration // delay of a write's completion
}

// The faults of the Raft log's disk.
const (
	raftSyncs int32 = iota + 1
	raftWrites
	raftNoSpace
)

func (f *diskFaults) any() bool {
	return f.syncs.Load() || f.writes.Load() || f.reads.Load() || f.raft.Load() != 0
}

// mend ends all faults; the data stay.
func (f *diskFaults) mend() {
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
	case what == raftNoSpace && log && (op == faultfs.OpWrite || op == faultfs.OpCreate):
		return syscall.ENOSPC
	}
	return nil
}

// decide implements the decision function of faultfs.
func (f *diskFaults) decide(op faultfs.Op, name string) error {
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
	if f.full.Load() {
		return 0, 1 << 30
	}
	return 1 << 29, 1 << 30
}

// newPebbleRand returns random numbers for decisions that do not depend on them (all or nothing).
func newPebbleRand() *rand.Rand { return rand.New(rand.NewPCG(1, 2)) }

// flipBits changes one bit of every table file of a disk that no process uses, and returns the number of files. Obsolete files
// may or may not exist, depending on Pebble's goroutines, so the change of one file must not depend on the others.
func flipBits(disk *vfs.MemFS, r *Stream) (flipped int, err error) {
	names, err := disk.List(dataDir)
	seed := r.Uint64()
	for _, name := range names {
		if strings.HasSuffix(name, ".sst") && err == nil {
			flipped++
			err = flipBit(disk, disk.PathJoin(dataDir, name), NewStream(seed, name))
		}
	}
	return flipped, err
}

func flipBit(disk *vfs.MemFS, path string, r *Stream) error {
	f, err := disk.OpenReadWrite(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return errors.Join(err, f.Close())
	}
	at, b := int64(r.Intn(int(info.Size()))), make([]byte, 1)
	if _, err = f.ReadAt(b, at); err == nil {
		b[0] ^= 1 << r.Intn(8)
		_, err = f.WriteAt(b, at)
	}
	return errors.Join(err, f.Close())
}
