package damage

import (
	"errors"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// FlipBits changes one bit of every table file in a directory of a disk that no process uses, and returns the number of
// files. Obsolete files may or may not exist, depending on Pebble's goroutines, so the change of one file must not
// depend on the others: draw returns the random numbers for a file. An error leaves the files that were changed before
// it changed.
func FlipBits(disk *vfs.MemFS, directory string, draw func(name string) Rand) (flipped int, err error) {
	names, err := disk.List(directory)
	for _, name := range names {
		if strings.HasSuffix(name, ".sst") && err == nil {
			flipped++
			err = flipBit(disk, disk.PathJoin(directory, name), draw(name))
		}
	}
	return flipped, err
}

// flipBit changes one bit of a file. An empty file remains as it is.
func flipBit(disk *vfs.MemFS, path string, r Rand) error {
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
