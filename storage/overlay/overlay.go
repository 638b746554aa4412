// Package overlay is a file system that shows the files of two directories as one, and changes only one of them. A
// database that is opened on it uses files that cannot be changed, such as the files of a backup.
//
//	Open, Stat, List ─▶ scratch directory, then base directory
//	everything else ──▶ scratch directory; a file of the base that is removed is hidden
package overlay

import (
	"fmt"
	"io/fs"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Options configure a file system. All fields are required.
type Options struct {
	Base    vfs.FS // is only read
	BaseDir string
	// Scratch is the file system below the overlay. Paths outside of ScratchDir are its own.
	Scratch    vfs.FS
	ScratchDir string // shows the files of BaseDir
	// Hide reports which files of the base are not shown.
	Hide func(name string) bool
}

// FS is an overlay. It is safe for concurrent use.
type FS struct {
	vfs.FS // Scratch
	opts   Options
	mu     struct {
		sync.Mutex
		hidden map[string]bool // names of files of the base that were removed
	}
}

// New returns an overlay. It shows the files directly in BaseDir, not the files of directories in it.
func New(o Options) *FS {
	f := &FS{FS: o.Scratch, opts: o}
	f.mu.hidden = map[string]bool{}
	return f
}

// Unwrap implements vfs.FS.
func (f *FS) Unwrap() vfs.FS { return f.FS }

// below returns the path in the base of a file that is there, is not hidden, and not in the scratch directory.
func (f *FS) below(name string) (path string, ok bool) {
	base := f.PathBase(name)
	// Paths outside of the directory, and in its subdirectories, belong to the scratch file system.
	if f.PathDir(name) != f.opts.ScratchDir || f.isHidden(base) {
		return "", false
	}
	// A file in the scratch directory hides the one of the base.
	if _, err := f.FS.Stat(name); err == nil {
		return "", false
	}
	path = f.opts.Base.PathJoin(f.opts.BaseDir, base)
	_, err := f.opts.Base.Stat(path)
	return path, err == nil
}

// isHidden reports whether a file of the base is not shown.
func (f *FS) isHidden(base string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.hidden[base] || f.opts.Hide(base)
}

// Open implements vfs.FS.
func (f *FS) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	if path, ok := f.below(name); ok {
		return f.opts.Base.Open(path, opts...)
	}
	return f.FS.Open(name, opts...)
}

// Stat implements vfs.FS.
func (f *FS) Stat(name string) (vfs.FileInfo, error) {
	if path, ok := f.below(name); ok {
		return f.opts.Base.Stat(path)
	}
	return f.FS.Stat(name)
}

// List implements vfs.FS.
func (f *FS) List(dir string) ([]string, error) {
	names, err := f.FS.List(dir)
	if err != nil || f.FS.PathJoin(dir) != f.FS.PathJoin(f.opts.ScratchDir) {
		return names, err
	}
	// Directories of the base are listed as files: Pebble ignores names that it does not know.
	below, err := f.opts.Base.List(f.opts.BaseDir)
	for _, name := range below {
		if !f.isHidden(name) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names, err
}

// Remove implements vfs.FS.
func (f *FS) Remove(name string) error {
	// below is called before the name is hidden: a file that exists in neither directory cannot be removed.
	_, below := f.below(name)
	// The name is hidden even if the file is in the scratch directory: the file of the base must not appear in its
	// place.
	if f.PathDir(name) == f.opts.ScratchDir {
		f.mu.Lock()
		f.mu.hidden[f.PathBase(name)] = true
		f.mu.Unlock()
	}
	if below {
		return nil
	}
	return f.FS.Remove(name)
}

// ReuseForWrite, Create and MkdirAll are the scratch file system's: a new file hides one of the base with its name.

// Rename implements vfs.FS. A file of the base cannot be renamed.
func (f *FS) Rename(oldname, newname string) error {
	return f.move("rename", f.FS.Rename, oldname, newname)
}

// Link implements vfs.FS. A file of the base cannot be linked.
func (f *FS) Link(oldname, newname string) error { return f.move("link", f.FS.Link, oldname, newname) }

// move renames or links a file of the scratch directory. Pebble renames only files that it has written, and links only
// files to ingest.
func (f *FS) move(what string, move func(oldname, newname string) error, oldname, newname string) error {
	if _, ok := f.below(oldname); ok {
		return fmt.Errorf("overlay: %s %s: %w", what, oldname, fs.ErrPermission)
	}
	return move(oldname, newname)
}

// OpenReadWrite implements vfs.FS. A file of the base cannot be written.
func (f *FS) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	if _, ok := f.below(name); ok {
		return nil, fmt.Errorf("overlay: write %s: %w", name, fs.ErrPermission)
	}
	return f.FS.OpenReadWrite(name, category, opts...)
}
