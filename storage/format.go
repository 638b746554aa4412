package storage

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// FormatVersion is the version of what stands on disk: keys, rows, and Pebble's own format. It grows
// by one with every change that an older cqld could not read.
//
//	1  rows
//	2  entries of maintainers: a cqld of version 1 would write rows without their entries
//	3  which disk it is (node's note), and what a Paxos proposal came after: without them, a directory would be
//	   taken for one that lost its rows, and an older state of Paxos be misread
//	4  the history of decided changes in the state of Paxos: an older state would be misread
//
// Older directories are refused: none of them was of a release.
const FormatVersion = 4

const formatFile = "CQLD_FORMAT"

// checkFormat compares the format file of a directory with FormatVersion, and creates it in a new directory.
func checkFormat(disk vfs.FS, dir string) error {
	path := disk.PathJoin(dir, formatFile)
	f, err := disk.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return newFormat(disk, dir)
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
		return &CorruptError{Path: path, Err: fmt.Errorf("not a format file: %q", content)}
	}
	if version != FormatVersion {
		return fmt.Errorf("storage: %s was written in format %d, this cqld reads format %d", dir, version, FormatVersion)
	}
	return nil
}

// newFormat writes the format file into a directory that holds no database yet.
func newFormat(disk vfs.FS, dir string) error {
	if err := disk.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("storage: %w", err)
	}
	names, err := disk.List(dir)
	if err != nil {
		return fmt.Errorf("storage: %w", err)
	}
	for _, name := range names {
		if bytes.HasPrefix([]byte(name), []byte("MANIFEST-")) {
			return fmt.Errorf("storage: %s contains a database but no %s: it was not created by cqld", dir, formatFile)
		}
	}
	return writeFormat(disk, dir)
}

// writeFormat writes the format file of a directory.
func writeFormat(disk vfs.FS, dir string) error {
	path := disk.PathJoin(dir, formatFile)
	f, err := disk.Create(path+".new", vfs.WriteCategoryUnspecified)
	if err != nil {
		return fmt.Errorf("storage: %w", err)
	}
	_, err = fmt.Fprintf(f, "cqld storage format %d\n", FormatVersion)
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

func syncDir(disk vfs.FS, dir string) error {
	d, err := disk.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
