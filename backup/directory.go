package backup

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// directory contains the files of a store, below one directory. Names have slashes. A file appears under its name as a
// whole and durably, or not at all: it is written as partial/RANDOM and renamed.
//
// Names are chosen by this package, or were checked (CheckName, Object.check, Share.check): none leads out of root. The
// methods may be called concurrently, also by other processes.
type directory struct {
	disk vfs.FS
	root string
}

// partialDir contains files that are being written, or were abandoned by a process that has ended.
const partialDir = "partial"

// at returns the path of a name.
func (d directory) at(name string) string { return d.disk.PathJoin(d.root, name) }

// missing reports whether an error means that a name does not exist.
func missing(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// stat returns the properties of a file.
func (d directory) stat(name string) (vfs.FileInfo, error) { return d.disk.Stat(d.at(name)) }

// exists reports whether there is a file or directory with a name. An error means that this is unknown: a directory
// that is no longer mounted must not look like one without backups.
func (d directory) exists(name string) (bool, error) {
	_, err := d.stat(name)
	if missing(err) {
		return false, nil
	}
	return err == nil, err
}

// list returns the names in a directory, in any order; none if it does not exist. A store that has no backups yet has
// no directories either.
func (d directory) list(name string) ([]string, error) {
	names, err := d.disk.List(d.at(name))
	if missing(err) {
		return nil, nil
	}
	return names, err
}

// remove removes a file durably, if it exists.
func (d directory) remove(name string) error {
	err := d.disk.Remove(d.at(name))
	if missing(err) {
		return nil
	}
	if err != nil {
		return err
	}
	return d.sync(path.Dir(name))
}

// removeAll removes a directory with its files, if it exists. Its files may remain in part after a failure.
func (d directory) removeAll(name string) error {
	err := d.disk.RemoveAll(d.at(name))
	if missing(err) {
		return nil
	}
	if err != nil {
		return err
	}
	return d.sync(path.Dir(name))
}

// sync makes the names in a directory durable: additions, renames and removals before the call.
func (d directory) sync(name string) error {
	f, err := d.disk.OpenDir(d.at(name))
	if err != nil {
		return err
	}
	err = f.Sync()
	// Some file systems on a network cannot sync directories.
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		err = nil
	}
	return errors.Join(err, f.Close())
}

// makeDir creates a directory durably, unless it exists. Only the user of the process may read it.
func (d directory) makeDir(name string) error {
	if name == "." {
		return nil
	}
	// Names were made durable when they were created.
	if found, err := d.exists(name); found || err != nil {
		return err
	}
	if err := d.makeDir(path.Dir(name)); err != nil {
		return err
	}
	if err := d.disk.MkdirAll(d.at(name), 0o700); err != nil {
		return err
	}
	return d.sync(path.Dir(name))
}

// write writes what the function writes to a file. If it fails, the name stays as it is. When it returns nil, name and
// content survive a power failure. Of two writers of one name, the last one wins, and readers see either content.
func (d directory) write(name string, content func(io.Writer) error) (err error) {
	for _, dir := range []string{partialDir, path.Dir(name)} {
		if err := d.makeDir(dir); err != nil {
			return err
		}
	}
	// Other processes may write the same name at the same time.
	partial := d.at(partialDir + "/" + rand.Text())
	f, err := d.disk.Create(partial, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	err = content(f)
	// The content is durable before the name: after a power failure, a name has its whole content.
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = d.disk.Rename(partial, d.at(name))
	}
	if err != nil {
		// A sweep removes a file that remains.
		_ = d.disk.Remove(partial)
		return err
	}
	return d.sync(path.Dir(name))
}

// open opens a file for reading. The caller closes it. A file that is replaced or removed meanwhile keeps its content
// until it is closed.
func (d directory) open(name string) (f vfs.File, size int64, err error) {
	if f, err = d.disk.Open(d.at(name)); err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, info.Size(), nil
}

// read returns a file of at most sizeMax bytes.
func (d directory) read(ctx context.Context, name string, sizeMax int64) (b []byte, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	f, size, err := d.open(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	// A file that was exchanged for a huge one must not fill the memory.
	if size > sizeMax {
		return nil, fmt.Errorf("it has %d bytes, more than %d", size, sizeMax)
	}
	return io.ReadAll(io.LimitReader(f, sizeMax))
}
