package datadir

import (
	"errors"
	"fmt"
	iofs "io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// privateMode is the mode of directories that contain data: only root and the user that runs the node can enter them.
const privateMode = 0o700

// MakeDurable makes sure that dir exists, also after a power failure: it syncs the directories that hold dir and its
// new ancestors. Without that, a power failure could remove dir with all files in it, although the files were synced.
// fs is the file system of the node; a simulated one loses what was not synced. It is idempotent, and costs one sync
// for each ancestor up to the first that existed.
func MakeDurable(fs vfs.FS, dir string) error {
	var parents []string
	// The first ancestor that exists is synced, too: it contains the entry of the topmost new directory.
	for d := dir; ; {
		parent := fs.PathDir(d)
		parents = append(parents, parent)
		// The root, or the current directory of a relative path, is its own parent.
		if parent == d {
			break
		}
		if _, err := fs.Stat(parent); err == nil {
			break
		} else if !errors.Is(err, iofs.ErrNotExist) {
			return err
		}
		d = parent
	}
	if err := fs.MkdirAll(dir, privateMode); err != nil {
		return err
	}
	for _, parent := range parents {
		if err := syncDir(fs, parent); err != nil {
			return err
		}
	}
	return nil
}

// syncDir syncs a directory, unless this user may not read it: such a directory existed before and needs no sync.
func syncDir(fs vfs.FS, dir string) error {
	d, err := fs.OpenDir(dir)
	if errors.Is(err, iofs.ErrPermission) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// MakePrivate ensures that dir exists and that other users of this machine cannot enter it. If an earlier version
// created the directory with access for all users, MakePrivate removes their access, which protects everything below
// it.
func MakePrivate(dir string, log *slog.Logger) error {
	if err := MakeDurable(vfs.Default, dir); err != nil {
		return fmt.Errorf("node: make data directory: %w", err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("node: data directory: %w", err)
	}
	// Windows has access control lists, and reports the same mode for all directories.
	if runtime.GOOS == "windows" || info.Mode().Perm()&0o077 == 0 {
		return nil
	}
	// The owner may be another user, for example root of a mounted volume. The node starts and warns, as it cannot do
	// more.
	if err := os.Chmod(dir, privateMode); err != nil {
		log.Warn("data directory is accessible to other users", "directory", dir, "mode", info.Mode().Perm().String(),
			"err", err)
		return nil
	}
	log.Warn("removed other users' access to the data directory", "directory", dir, "mode before",
		info.Mode().Perm().String())
	return nil
}

// WriteDurable writes a file that only this user can read. A crash leaves the file as it was before, or the new one.
func WriteDurable(name string, content []byte) error {
	return WriteDurableOn(vfs.Default, name, content)
}

// WriteDurableOn is WriteDurable on a file system of this machine that may encrypt.
func WriteDurableOn(disk vfs.FS, name string, content []byte) error {
	// In the same directory, because a file is renamed within a file system only.
	temporary := name + ".tmp"
	err := createPrivate(temporary)
	if err == nil {
		err = writeTo(disk, temporary, content)
	}
	if err == nil {
		err = disk.Rename(temporary, name)
	}
	if err != nil {
		_ = os.Remove(temporary) // it may contain secrets; the first error is reported
		return err
	}
	return syncDir(disk, filepath.Dir(name))
}

// createPrivate creates an empty file that only this user can read: a file system of Pebble has no modes.
func createPrivate(name string) error {
	// A file that a crash left, or that another user made, keeps its mode when it is written again.
	if err := os.Remove(name); err != nil && !errors.Is(err, iofs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// writeTo writes the content of an empty file, and syncs it.
func writeTo(disk vfs.FS, name string, content []byte) error {
	f, err := disk.OpenReadWrite(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Sync(), f.Close())
}
