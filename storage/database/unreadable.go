package database

import (
	"bytes"
	"context"
	"errors"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Unreadable reads a corrupt file and returns info with narrower bounds: the keys that cannot be read lie between Start
// and End. Keys outside them were read with their checksums. Several corrupt blocks have one interval. ok is false if
// the file does not show which keys cannot be read: its index is corrupt, or a part that this reading does not need.
func (db *DB) Unreadable(info CorruptionInfo) (narrow CorruptionInfo, ok bool) {
	r, err := db.openFile(info.Path)
	if err != nil {
		return info, false
	}
	defer func() { _ = r.Close() }()
	// A range deletion that cannot be read may have covered any key of the file.
	deletions, err := r.NewRawRangeDelIter(context.Background(), sstable.NoFragmentTransforms, sstable.NoReadEnv)
	if err != nil {
		return info, false
	}
	if deletions != nil {
		deletions.Close()
	}
	// If the first or the last key cannot be read, that bound stays as it is.
	narrow = info
	before, failed := readableKey(r, &info, false)
	if !failed {
		return info, false
	}
	if before != nil {
		narrow.Start = before
	}
	after, failed := readableKey(r, &info, true)
	if after != nil {
		narrow.End = after
	}
	// If the second reading finds no corruption, the bounds cannot be narrowed.
	return narrow, failed && bytes.Compare(narrow.Start, narrow.End) <= 0
}

// openFile opens an sstable without the block cache, because the bytes on disk must be verified.
func (db *DB) openFile(path string) (*sstable.Reader, error) {
	f, err := db.opts.FS.Open(path)
	if err != nil {
		return nil, err
	}
	return newReader(db.Format, f)
}

// newReader returns a reader of an sstable of a database with these options. The reader closes the file.
func newReader(format *pebble.Options, f vfs.File) (*sstable.Reader, error) {
	readable, err := sstable.NewSimpleReadable(f)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	// NewReader closes the file if it fails.
	return sstable.NewReader(context.Background(), readable, format.MakeReaderOptions())
}

// readableKey reads the keys in the bounds of info from the first on, or from the last on backwards, until one cannot
// be read, and returns the key before it; nil if there is none. failed is false if all keys can be read.
func readableKey(r *sstable.Reader, info *CorruptionInfo, backwards bool) (last []byte, failed bool) {
	iter, err := r.NewIter(sstable.NoTransforms, nil, nil, sstable.AssertNoBlobHandles)
	if err != nil {
		return nil, true
	}
	defer func() { _ = iter.Close() }()
	kv := iter.SeekGE(info.Start, 0)
	next := iter.Next
	if backwards {
		// The end is inclusive.
		kv, next = iter.SeekLT(append(bytes.Clone(info.End), 0), 0), iter.Prev
	}
	for ; kv != nil; kv = next() {
		key := kv.K.UserKey
		if bytes.Compare(key, info.Start) < 0 || bytes.Compare(key, info.End) > 0 {
			return last, false
		}
		if _, _, err := kv.Value(nil); err != nil {
			return last, true
		}
		last = append(last[:0], key...)
	}
	return last, iter.Error() != nil
}
