package database

import (
	"bytes"
	"errors"
	"io/fs"

	"github.com/cockroachdb/pebble/v2/sstable"
)

// CheckBorders returns an error and the file with it unless the keys next to the borders of [lower, upper) can be
// read in all files that have keys on both sides of one. Excise requires this: Pebble mistakes a failed seek for the
// end of the file, and drops that side of the file without an error.
func (db *DB) CheckBorders(lower, upper []byte) (CorruptionInfo, error) {
	for {
		info, replaced, err := db.checkFiles(lower, upper)
		if !replaced {
			return info, err
		}
		// The files that the compaction wrote must be checked as well. Each repetition needs another compaction, so
		// the loop ends.
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
			info = db.opts.whole(&files[i])
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
	// A file that crosses no border is not opened, because it may be the corrupt one.
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
	// These are the seeks of Excise, which reads no values either.
	if below && iter.SeekLT(lower, 0) == nil && iter.Error() != nil {
		return iter.Error()
	}
	if above && iter.SeekGE(upper, 0) == nil {
		return iter.Error()
	}
	return nil
}
