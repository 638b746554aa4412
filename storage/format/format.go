// Package format manages the file that records the format version of a directory of the storage engine. The file
// CQLD_FORMAT has one line:
//
//	cqld storage format 4
//
// It is written once, when the directory is new, and compared at each start, before Pebble opens the database.
package format

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Version is the version of all data on disk: keys, rows, records under local keys, and Pebble's own format. Every
// change that an older cqld cannot read increments it. A node writes the new version only after the cluster version
// has enabled it (CONTRIBUTING.md, "Change a format").
//
//	1  rows
//	2  entries of maintainers: a cqld of version 1 would write rows without their entries
//	3  which disk it is (node's note), and what a Paxos proposal came after: without them, a directory would be
//	   taken for one that lost its rows, and an older state of Paxos be misread
//	4  the history of decided changes in the state of Paxos: an older state would be misread
//
// Older directories are refused: no release has written them.
const Version = 4

// FileName is the name of the file.
const FileName = "CQLD_FORMAT"

// Malformed is the error for a format file with other content. A directory that was restored in part is a usual cause.
type Malformed struct {
	Path    string
	content []byte
}

// Error implements error.
func (m *Malformed) Error() string { return fmt.Sprintf("not a format file: %q", m.content) }

// Check compares the format file of a directory with Version, and creates it in a new directory. It returns *Malformed
// for another content, and an error that names both versions for another version.
func Check(disk vfs.FS, dir string) error {
	path := disk.PathJoin(dir, FileName)
	f, err := disk.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return create(disk, dir)
	}
	if err != nil {
		return fmt.Errorf("storage: %w", err)
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, 64))
	if err != nil {
		return fmt.Errorf("storage: read %s: %w", path, err)
	}
	var version int
	if _, err := fmt.Sscanf(string(bytes.TrimSpace(content)), "cqld storage format %d", &version); err != nil {
		return &Malformed{path, content}
	}
	switch {
	case version > Version:
		return fmt.Errorf("storage: %s has format %d, this build of cqld reads format %d: start the build that "+
			"wrote it, or a newer one", path, version, Version)
	case version < Version:
		return fmt.Errorf("storage: %s has format %d, which is of no release: this build of cqld reads format %d", path,
			version, Version)
	}
	return nil
}

// create writes the format file into a directory without a database.
func create(disk vfs.FS, dir string) error {
	if err := disk.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("storage: %w", err)
	}
	names, err := disk.List(dir)
	if err != nil {
		return fmt.Errorf("storage: %w", err)
	}
	for _, name := range names {
		if bytes.HasPrefix([]byte(name), []byte("MANIFEST-")) {
			return fmt.Errorf("storage: %s contains a database but no %s: it was not created by cqld", dir, FileName)
		}
	}
	return Write(disk, dir)
}

// Write writes the format file of a directory. The file appears as a whole, or not at all, also after a failure of
// power.
func Write(disk vfs.FS, dir string) error {
	path := disk.PathJoin(dir, FileName)
	f, err := disk.Create(path+".new", vfs.WriteCategoryUnspecified)
	if err != nil {
		return fmt.Errorf("storage: %w", err)
	}
	_, err = fmt.Fprintf(f, "cqld storage format %d\n", Version)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = disk.Rename(path+".new", path)
	}
	if err == nil {
		err = syncDir(disk, dir)
	}
	if err != nil {
		return fmt.Errorf("storage: write %s: %w", path, err)
	}
	return nil
}

// syncDir syncs the names in a directory.
func syncDir(disk vfs.FS, dir string) error {
	d, err := disk.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
