package sim

import (
	"errors"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/storage/faultfs"
)

// errDisk is what a failing disk says.
var errDisk = errors.New("sim: input/output error")

// diskFaults is what is wrong with a machine's disk. Pebble's own goroutines ask too, so what they
// are told may not depend on when they do: a fault is on or off, nothing is drawn here.
type diskFaults struct {
	syncs, writes atomic.Bool // of the log
	reads         atomic.Bool // of tables
	full          atomic.Bool
	slow          time.Duration // until a write is known to be done
}

func (f *diskFaults) any() bool { return f.syncs.Load() || f.writes.Load() || f.reads.Load() }

// mend is a new disk with the old data.
func (f *diskFaults) mend() {
	f.syncs.Store(false)
	f.writes.Store(false)
	f.reads.Store(false)
	f.full.Store(false)
	f.slow = 0
}

// decide implements what faultfs asks.
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

// space is what storage is told of the disk's free space.
func (f *diskFaults) space() (free, total int64) {
	if f.full.Load() {
		return 0, 1 << 30
	}
	return 1 << 29, 1 << 30
}

// newPebbleRand is for the places where the whole of what it decides is certain.
func newPebbleRand() *rand.Rand { return rand.New(rand.NewPCG(1, 2)) }

// flipBits changes one bit of every table file of a disk that no process uses, and says of how many.
// Which obsolete files are still there is up to Pebble's goroutines: what happens to one file must not
// depend on another.
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
