package backup

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"path"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/backup/bucket"
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

// stat implements files.
func (d directory) stat(ctx context.Context, name string) (a bucket.Attributes, err error) {
	info, err := d.info(ctx, name)
	if err == nil {
		a = bucket.Attributes{Size: info.Size(), Modified: info.ModTime()}
	}
	return a, err
}

// info returns the properties of a file or directory.
func (d directory) info(ctx context.Context, name string) (vfs.FileInfo, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return d.disk.Stat(d.at(name))
}

// exists implements files. An error means that this is unknown: a directory that is no longer mounted must not look
// like one without backups.
func (d directory) exists(ctx context.Context, name string) (bool, error) {
	_, err := d.info(ctx, name)
	if missing(err) {
		return false, nil
	}
	return err == nil, err
}

// list implements files. A store that has no backups yet has no directories either.
func (d directory) list(ctx context.Context, name string) ([]string, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	names, err := d.disk.List(d.at(name))
	if missing(err) {
		return nil, nil
	}
	return names, err
}

// remove implements files.
func (d directory) remove(ctx context.Context, name string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return d.removed(name, d.disk.Remove(d.at(name)))
}

// removeAll implements files.
func (d directory) removeAll(ctx context.Context, name string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return d.removed(name, d.disk.RemoveAll(d.at(name)))
}

// removed makes a removal durable. err is its result.
func (d directory) removed(name string, err error) error {
	if missing(err) {
		return nil
	}
	if err != nil {
		return err
	}
	// The removal of a tree is no error if its directory does not exist either.
	if err := d.sync(path.Dir(name)); !missing(err) {
		return err
	}
	return nil
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
func (d directory) makeDir(ctx context.Context, name string) error {
	if name == "." {
		return nil
	}
	// Names were made durable when they were created.
	if found, err := d.exists(ctx, name); found || err != nil {
		return err
	}
	if err := d.makeDir(ctx, path.Dir(name)); err != nil {
		return err
	}
	if err := d.disk.MkdirAll(d.at(name), 0o700); err != nil {
		return err
	}
	return d.sync(path.Dir(name))
}

// write implements files. When it returns nil, name and content survive a power failure.
func (d directory) write(ctx context.Context, name string, c *bucket.Content) error {
	for _, dir := range []string{partialDir, path.Dir(name)} {
		if err := d.makeDir(ctx, dir); err != nil {
			return err
		}
	}
	// Other processes may write the same name at the same time.
	partial := d.at(partialDir + "/" + rand.Text())
	f, err := d.disk.Create(partial, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	err = copyContent(ctx, f, c)
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

// copyContent copies a content to a file.
func copyContent(ctx context.Context, w io.Writer, c *bucket.Content) (err error) {
	r, err := c.Open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	_, err = io.CopyBuffer(w, &paced{ctx, r, unpaced}, make([]byte, copyBytes))
	return err
}

// open implements files. A file that is replaced or removed meanwhile keeps its content until it is closed.
func (d directory) open(ctx context.Context, name string) (io.ReadCloser, int64, error) {
	f, err := d.file(ctx, name)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, info.Size(), nil
}

// file opens a file for reading.
func (d directory) file(ctx context.Context, name string) (vfs.File, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return d.disk.Open(d.at(name))
}

// readAt implements files.
func (d directory) readAt(ctx context.Context, name string, b []byte, at, _ int64) error {
	f, err := d.file(ctx, name)
	if err != nil {
		return err
	}
	n, err := f.ReadAt(b, at)
	// A reader may return io.EOF with the last bytes.
	if n == len(b) {
		err = nil
	}
	return errors.Join(err, f.Close())
}

// removePartial implements files.
func (d directory) removePartial(ctx context.Context, before time.Time) error {
	names, err := d.list(ctx, partialDir)
	for _, name := range names {
		a, failed := d.stat(ctx, partialDir+"/"+name)
		if failed == nil && !a.Modified.After(before) {
			failed = d.remove(ctx, partialDir+"/"+name)
		}
		// One that is missing has got its name.
		if !missing(failed) {
			err = errors.Join(err, failed)
		}
	}
	return err
}
