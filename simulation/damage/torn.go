package damage

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// sectorBytes is the unit that a disk writes atomically. Disks with sectors of 4 KiB write more atomically, so 512
// bytes are the harder case.
const sectorBytes = 512

// Whole returns the disk after the end of a process that keeps all unsynced writes. It is what remains after kill -9,
// where the kernel still writes its cache. The original is not changed.
func Whole(disk *vfs.MemFS) *vfs.MemFS {
	numbers := rand.New(rand.NewPCG(1, 2)) // they do not matter
	return disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: numbers})
}

// Tear returns the disk after a power cut that keeps some unsynced writes: each sector of every log in the directories
// has its old or its new content; torn is the number of logs with new content. Only logs are torn, because Pebble's
// other background writes do not depend on the seed alone.
func Tear(disk *vfs.MemFS, directories []string, r Rand) (after *vfs.MemFS, torn int, err error) {
	// The two extremes: the disk after a power cut that lost all unsynced writes, and after one that lost none.
	synced, written := disk.CrashClone(vfs.CrashCloneCfg{}), Whole(disk)
	for _, dir := range directories {
		names, err := synced.List(dir)
		if err != nil {
			continue // it did not exist yet
		}
		// The random numbers are drawn in the order of the files.
		slices.Sort(names)
		for _, name := range names {
			if !strings.HasSuffix(name, ".log") {
				continue
			}
			path := disk.PathJoin(dir, name)
			changed, err := tearFile(synced, written, path, r)
			if err != nil {
				return nil, torn, err
			}
			if changed {
				torn++
			}
		}
	}
	return synced, torn, nil
}

// tearFile writes the remaining content of one file to synced, and reports whether that is more than the synced
// content.
func tearFile(synced, written *vfs.MemFS, path string, r Rand) (changed bool, err error) {
	before, err := content(synced, path)
	if err != nil {
		return false, err
	}
	after, err := content(written, path)
	if err != nil || bytes.Equal(before, after) {
		return false, nil // it was removed, which is not synced; or it has no unsynced writes
	}
	torn := tornSectors(before, after, r)
	f, err := synced.OpenReadWrite(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return false, err
	}
	_, err = f.WriteAt(torn, 0)
	return !bytes.Equal(torn, before), errors.Join(err, f.Sync(), f.Close())
}

// tornSectors returns a file of which each sector is the old or the new one: a prefix of the new ones, or any of them.
// Sectors that were never written read as zeros, which is why a log must recognize zeros as its end.
func tornSectors(before, after []byte, r Rand) []byte {
	torn := bytes.Clone(before)
	sectors := (len(after) + sectorBytes - 1) / sectorBytes
	// keep is the chance of each sector in a thousand: from none to all. A prefix is what a disk with an ordered queue
	// leaves.
	keep, prefix := r.Intn(1001), r.Chance(500)
	first := len(before) / sectorBytes // the first sector that may be new
	cut := first + r.Intn(sectors-min(first, sectors)+1)
	for i := range sectors {
		from, to := i*sectorBytes, min((i+1)*sectorBytes, len(after))
		// Sectors before first are the same in both files, unless the last synced sector was extended.
		if prefix && i >= cut || !prefix && !r.Chance(keep) {
			continue
		}
		// A gap before a sector that was written reads as zeros.
		if grow := to - len(torn); grow > 0 {
			torn = append(torn, make([]byte, grow)...)
		}
		copy(torn[from:to], after[from:to])
	}
	return torn
}

// content returns the content of a file.
func content(fs *vfs.MemFS, path string) ([]byte, error) {
	f, err := fs.Open(path)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(f)
	return b, errors.Join(err, f.Close())
}
