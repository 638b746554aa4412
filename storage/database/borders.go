package database

import (
	"bytes"
	"errors"
	"io/fs"

	"github.com/cockroachdb/pebble/v2/sstable"
)

// CheckBorders returns an error and the file with it unless the keys next to the borders of [lower, upper) can be read
// in all files that have keys on both sides of one. Excise needs that: Pebble takes a seek that fails for the end of
// the file, and drops that side of the file without an error.
func (db *DB) CheckBorders(lower, upper []byte) (CorruptionInfo, error) {
	for {
		info, replaced, err := db.checkFiles(lower, upper)
		if !replaced {
			return info, err
		}
		// Again, because the new files have not been read. Each repetition needs another compaction.
	}
}

// checkFiles is CheckBorders for the files that are in use when it is called. It stops and returns true if a compaction
// has replaced one before it was read.
func (db *DB) checkFiles(lower, upper []byte) (info CorruptionInfo, replaced bool, err error) {
	levels, err := db.SSTables()
	if err != nil {
		return info, false, err
	}
	for _, files := range levels {
		for i := range files {
			info = db.whole(&files[i])
			if info.Err = db.checkBorders(&info, lower, upper); info.Err != nil {
				replaced = errors.Is(info.Err, fs.ErrNotExist) && !db.uses(uint64(files[i].BackingSSTNum))
				return info, replaced, info.Err
			}
		}
	}
	return CorruptionInfo{}, false, nil
}

// checkBorders is CheckBorders for one file.
func (db *DB) checkBorders(info *CorruptionInfo, lower, upper []byte) error {
	below := bytes.Compare(info.Start, lower) < 0 && bytes.Compare(info.End, lower) >= 0
	above := bytes.Compare(info.Start, upper) < 0 && bytes.Compare(info.End, upper) >= 0
	// A file without a rest is not opened: it may be one that cannot be.
	if !below && !above {
		return nil
	}
	r, err := db.openFile(info.Path)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }() // read only
	iter, err := r.NewIter(sstable.NoTransforms, nil, nil, sstable.AssertNoBlobHandles)
	if err != nil {
		return err
	}
	defer func() { _ = iter.Close() }()
	// The same seeks as those of Excise, which reads no values.
	if below && iter.SeekLT(lower, 0) == nil && iter.Error() != nil {
		return iter.Error()
	}
	if above && iter.SeekGE(upper, 0) == nil {
		return iter.Error()
	}
	return nil
}
