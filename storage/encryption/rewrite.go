package encryption

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// rewriteSuffix is the suffix of the temporary file of a rewrite in progress. The name begins with a dot: Pebble and
// snapshots ignore hidden files.
const rewriteSuffix = ".rewriting"

// rewriting returns the name of the file that will replace path.
func (f *FS) rewriting(path string) string {
	return f.FS.PathJoin(f.FS.PathDir(path), "."+f.FS.PathBase(path)+rewriteSuffix)
}

// copyBytes is how much of a file is copied between two checks of the context.
const copyBytes = 256 << 10

// Stale is a file that the newest key does not encrypt, with all its names: snapshots are hard links.
type Stale struct {
	Paths []string
	Bytes int64 // on disk
	id    identity
}

// identity distinguishes a file from others that have had its name.
type identity struct {
	header      header // random bytes of an encrypted file
	size, mtime int64
	inode       inode // zero where the file system has none
}

// identify returns the identity of a file.
func identify(f found) identity {
	return identity{header: f.header, size: f.info.Size(), mtime: f.info.ModTime().UnixNano(), inode: inodeOf(f.info)}
}

// Stale returns the files in directories, and single files, that the newest key does not encrypt, and that are not open
// for writing. If new files are written in clear, it returns the encrypted files.
func (f *FS) Stale(paths ...string) (stale []Stale, err error) {
	newest, known := f.keys.Newest(), map[identity]int{}
	err = walk(f.FS, paths, func(file found) error {
		if file.header.key() == newest || f.isWritten(file.path) || strings.HasSuffix(file.path, rewriteSuffix) {
			return nil
		}
		id := identify(file)
		// Without inodes, two files in clear may look equal.
		i, linked := known[id]
		if !linked || id.inode == (inode{}) && !file.header.encrypted() {
			i, known[id] = len(stale), len(stale)
			stale = append(stale, Stale{Bytes: file.info.Size(), id: id})
		}
		stale[i].Paths = append(stale[i].Paths, file.path)
		return nil
	})
	return stale, err
}

// Rewrite writes a file with the newest key, and reports how many names have it then. Readers that have the old file
// open keep it. Names that now belong to another file, and names that were removed, are left as they are. A power
// failure leaves the old or the new file. copied, which may be nil, is called before each part is written, with its
// bytes; its error ends the rewrite. Files are rewritten one after the other: a second caller waits.
func (f *FS) Rewrite(ctx context.Context, s Stale, copied func(bytes int) error) (names int, err error) {
	f.rewrites.Lock()
	defer f.rewrites.Unlock()
	for i, path := range s.Paths {
		// A file that a compaction has removed needs no key, and a file that was rewritten meanwhile has the new one.
		// The links of either file in snapshots must still be rewritten.
		same, err := f.isSame(path, s.id)
		if err != nil {
			return 0, err
		}
		if !same {
			continue
		}
		names, err := f.rewrite(ctx, s.Paths[i:], s.id, copied)
		if !errors.Is(err, fs.ErrNotExist) {
			return names, err
		}
	}
	return 0, nil
}

// rewrite rewrites the file with an identity and one or more names. The error is fs.ErrNotExist if the first name is no
// longer one of this file.
func (f *FS) rewrite(ctx context.Context, paths []string, id identity, copied func(int) error) (names int, err error) {
	first := f.rewriting(paths[0])
	err = f.copyTo(ctx, paths[0], first, copied)
	if err == nil {
		// The identity is compared after the copy, because the name may have been given to another file before it was
		// opened.
		var same bool
		if same, err = f.isSame(paths[0], id); err == nil && !same {
			err = fs.ErrNotExist
		}
	}
	if err != nil {
		return 0, errors.Join(err, removeIfExists(f.FS, first))
	}
	// The other names are links of the new file, as they were of the old one.
	for _, path := range paths[1:] {
		temp := f.rewriting(path)
		if err := errors.Join(removeIfExists(f.FS, temp), vfs.LinkOrCopy(f.FS, first, temp)); err != nil {
			// A removed snapshot has no directory.
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			return names, errors.Join(err, removeIfExists(f.FS, temp), removeIfExists(f.FS, first))
		}
		done, err := f.replace(temp, path, id)
		if err != nil {
			return names, errors.Join(err, removeIfExists(f.FS, first))
		}
		names += done
	}
	done, err := f.replace(first, paths[0], id)
	return names + done, err
}

// copyTo copies a file to a new one with the newest key, and syncs it.
func (f *FS) copyTo(ctx context.Context, from, to string, copied func(int) error) error {
	source, err := f.Open(from, vfs.SequentialReadsOption)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := f.Create(to, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	b := make([]byte, copyBytes)
	for err == nil {
		if err = ctx.Err(); err != nil {
			break
		}
		var n int
		n, err = io.ReadFull(source, b)
		// The bytes are written before the error is examined, because the last part of a file comes with io.EOF.
		var werr error
		if copied != nil {
			werr = copied(n)
		}
		if werr == nil {
			_, werr = target.Write(b[:n])
		}
		if werr != nil {
			err = werr
		}
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = target.Sync()
	}
	return errors.Join(err, target.Close())
}

// replace renames temp to path if path still is the file with an identity, and removes temp otherwise. It returns the
// number of names that it replaced.
func (f *FS) replace(temp, path string, id identity) (int, error) {
	replaced, err := f.renameIfSame(temp, path, id)
	if err != nil || !replaced {
		return 0, errors.Join(err, removeIfExists(f.FS, temp))
	}
	// The directory is synced, so that the old key is no longer needed once Rewrite has returned, even after a power
	// failure.
	dir, err := f.FS.OpenDir(f.FS.PathDir(path))
	if err != nil {
		return 1, err
	}
	return 1, errors.Join(dir.Sync(), dir.Close())
}

// renameIfSame renames temp to path if path still is the file with an identity, and nothing writes to it.
func (f *FS) renameIfSame(temp, path string, id identity) (same bool, err error) {
	f.names.Lock()
	defer f.names.Unlock()
	if same, err = f.isSame(path, id); err != nil || !same {
		return false, err
	}
	return true, f.FS.Rename(temp, path)
}

// isSame reports whether path is the file with an identity, and nothing writes to it.
func (f *FS) isSame(path string, id identity) (same bool, err error) {
	err = walk(f.FS, []string{path}, func(now found) error {
		same = identify(now) == id && !f.isWritten(path)
		return nil
	})
	return same, err
}

// removeIfExists removes a file if it exists.
func removeIfExists(base vfs.FS, path string) error {
	if err := base.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// RemoveInterrupted removes temporary files that a crash during a rewrite left in directories. No rewrite may be in
// progress.
func (f *FS) RemoveInterrupted(dirs ...string) error {
	// All files are visited, including temporary ones whose header a power failure has torn.
	return eachFile(f.FS, dirs, func(path string, _ vfs.FileInfo) error {
		if strings.HasSuffix(path, rewriteSuffix) {
			return removeIfExists(f.FS, path)
		}
		return nil
	})
}
