package database

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/schema"
	"cqld/storage/failure"
	"cqld/storage/rowkey"
)

// Verification selects the files that Verify reads.
type Verification struct {
	// Tables selects the files with rows of these tables; the files may contain other data as well. Nil means all
	// files, including those without rows of tables.
	Tables []schema.StorageID
	// After is the number of the last file that an interrupted verification read, or 0.
	After uint64
	// Wait is called before each read, with its number of bytes, and bounds the rate. Its error fails the read.
	Wait func(ctx context.Context, bytes int) error
	// Progress is called after each file, or part of one, with the bytes that were read, their total, and the number
	// from which an interrupted verification may continue (After).
	Progress func(done, total int64, after uint64)
}

// Verified is the result of Verify.
type Verified struct {
	Files   int
	Bytes   int64
	Corrupt []string // paths, in the order of their numbers
}

// tableFile is a file of the storage engine, or the part of one that is in use.
type tableFile struct {
	CorruptionInfo
	number uint64
	size   int64
	whole  bool
}

// Verify reads the files on disk, past the block cache, and compares the checksum of every block. If only a part of a
// file is in use, because the rest was removed, it reads that part. Verify reports corrupt files as reads do
// (OnCorruption, Corruptions). A file that a compaction removes meanwhile is not read: the compaction has read its
// rows.
//
// Memtables, and the log of their rows, are not verified: the log was read when the database was opened.
func (db *DB) Verify(ctx context.Context, o Verification) (v Verified, err error) {
	if err := db.Err(); err != nil {
		return v, err
	}
	files, total, err := db.filesOf(o.Tables)
	if err != nil {
		return v, err
	}
	var done int64
	read := o.After // all parts of the files up to this number were read
	var errs []error
	for i := range files {
		f := &files[i]
		done += f.size
		if f.number <= o.After {
			continue
		}
		err := db.verifyFile(ctx, f, o.Wait)
		switch {
		// The context is checked first, because an interrupted read fails like any other.
		case ctx.Err() != nil:
			return v, ctx.Err()
		case errors.Is(err, fs.ErrNotExist) && !db.uses(f.number):
			continue
		case errors.Is(failure.Of(err), failure.ErrCorrupt):
			f.Err = err
			db.Corrupted(f.CorruptionInfo)
			v.Corrupt = append(v.Corrupt, f.Path)
		case err != nil:
			// The other files may still be readable, so the verification continues.
			errs = append(errs, fmt.Errorf("storage: read %s: %w", f.Path, err))
		}
		v.Files++
		v.Bytes += f.size
		// A file may be in use in several parts.
		if i == len(files)-1 || files[i+1].number != f.number {
			read = f.number
		}
		o.Progress(done, total, read)
	}
	v.Corrupt = slices.Compact(v.Corrupt)
	return v, errors.Join(errs...)
}

// uses reports whether a file is part of the data. It is if that cannot be read.
func (db *DB) uses(number uint64) bool {
	levels, err := db.SSTables()
	return err != nil || slices.ContainsFunc(levels, func(files []pebble.SSTableInfo) bool {
		return slices.ContainsFunc(files, func(f pebble.SSTableInfo) bool { return uint64(f.BackingSSTNum) == number })
	})
}

// filesOf returns the files with rows of the tables, or all files, in the order of their numbers, and their size.
func (db *DB) filesOf(tables []schema.StorageID) (files []tableFile, total int64, err error) {
	levels, err := db.SSTables()
	if err != nil {
		return nil, 0, failure.Of(err)
	}
	for _, level := range levels {
		for i := range level {
			f := &level[i]
			if tables != nil && !slices.ContainsFunc(tables, func(id schema.StorageID) bool {
				return id >= rowkey.TableOf(f.Smallest.UserKey) && id <= rowkey.TableOf(f.Largest.UserKey)
			}) {
				continue
			}
			files = append(files, tableFile{
				CorruptionInfo: db.opts.whole(f),
				number:         uint64(f.BackingSSTNum),
				size:           int64(f.Size),
				whole:          !f.Virtual,
			})
			total += int64(f.Size)
		}
	}
	slices.SortFunc(files, func(a, b tableFile) int { return cmp.Compare(a.number, b.number) })
	return files, total, nil
}

// whole describes a file, or the part of it that is in use, as if none of its keys could be read.
func (o *Options) whole(f *pebble.SSTableInfo) CorruptionInfo {
	return CorruptionInfo{
		Path:  o.FS.PathJoin(o.Dir, fmt.Sprintf("%06d.sst", f.BackingSSTNum)),
		Start: f.Smallest.UserKey,
		End:   f.Largest.UserKey,
	}
}

// CheckFile reads an sstable, which may be of a checkpoint, and compares the checksums of its blocks. wait is called
// with the number of bytes that are read.
func (db *DB) CheckFile(ctx context.Context, path string, wait func(context.Context, int) error) error {
	r, err := db.openPaced(ctx, path, wait)
	if err == nil {
		err = errors.Join(r.ValidateBlockChecksums(), r.Close())
	}
	if err != nil {
		return fmt.Errorf("%w: run `cqld ctl verify` on this node, and repair it", failure.Of(err))
	}
	return nil
}

// verifyFile reads a file, or the part of it that is in use.
func (db *DB) verifyFile(ctx context.Context, f *tableFile, wait func(context.Context, int) error) error {
	r, err := db.openPaced(ctx, f.Path, wait)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }() // read only
	if f.whole {
		return r.ValidateBlockChecksums()
	}
	// Blocks outside the part that is in use may be corrupt. A range deletion may cover any key of the part, so all
	// range deletions are read.
	deletions, err := r.NewRawRangeDelIter(ctx, sstable.NoFragmentTransforms, sstable.NoReadEnv)
	if err != nil {
		return err
	}
	if deletions != nil {
		deletions.Close()
	}
	iter, err := r.NewIter(sstable.NoTransforms, nil, nil, sstable.AssertNoBlobHandles)
	if err != nil {
		return err
	}
	for kv := iter.SeekGE(f.Start, 0); kv != nil && bytes.Compare(kv.K.UserKey, f.End) <= 0; kv = iter.Next() {
		if _, _, err := kv.Value(nil); err != nil {
			return errors.Join(err, iter.Close())
		}
	}
	return errors.Join(iter.Error(), iter.Close())
}

// openPaced opens an sstable whose reads are paced by wait.
func (db *DB) openPaced(ctx context.Context, path string, wait func(context.Context, int) error) (*sstable.Reader,
	error) {
	f, err := db.opts.FS.Open(path, vfs.SequentialReadsOption)
	if err != nil {
		return nil, err
	}
	return newReader(db.Format, &pacedFile{File: f, ctx: ctx, wait: wait})
}

// pacedFile is a file that calls wait before each read, which bounds the rate.
type pacedFile struct {
	vfs.File
	ctx  context.Context
	wait func(context.Context, int) error
}

// ReadAt calls wait with the number of bytes, and then reads.
func (f *pacedFile) ReadAt(p []byte, off int64) (int, error) {
	if err := f.wait(f.ctx, len(p)); err != nil {
		return 0, err
	}
	return f.File.ReadAt(p, off)
}
