package snapshot

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Seal completes the snapshot in dir, whose directory of data the storage engine has made, with synced files: it lists
// the files in the manifest, and writes it. When it returns, everything in dir is on disk; the name of dir is not.
// checksums means that the content of all files is read.
func Seal(ctx context.Context, disk vfs.FS, dir string, m *Manifest, checksums bool) error {
	data := disk.PathJoin(dir, DataDir)
	names, err := disk.List(data)
	if err != nil {
		return err
	}
	slices.Sort(names)
	m.Files = make([]File, 0, len(names))
	for _, name := range names {
		// A rotation of keys creates and renames hidden files. The storage engine ignores them.
		if strings.HasPrefix(name, ".") {
			continue
		}
		f, err := sealFile(ctx, disk, disk.PathJoin(data, name), checksums)
		if err != nil {
			return err
		}
		f.Name = name
		m.Files = append(m.Files, f)
	}
	content, err := m.Encode()
	if err != nil {
		return err
	}
	// Last, because the manifest makes the snapshot valid.
	path := disk.PathJoin(dir, FileName)
	if err := writeFile(disk, path, content); err != nil {
		return err
	}
	if err := vfs.LinkOrCopy(disk, path, disk.PathJoin(data, FileName)); err != nil {
		return err
	}
	return errors.Join(SyncDir(disk, data), SyncDir(disk, dir))
}

// sealFile returns the size and the checksum of a file.
func sealFile(ctx context.Context, disk vfs.FS, path string, checksum bool) (file File, err error) {
	f, err := disk.Open(path)
	if err != nil {
		return file, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return file, err
	}
	if info.IsDir() {
		return file, fmt.Errorf("%s is a directory", path)
	}
	file.Size = info.Size()
	if checksum {
		sum, _, err := sumOf(ctx, f)
		if err != nil {
			return file, fmt.Errorf("read %s: %w", path, err)
		}
		file.CRC32C = &sum
	}
	return file, nil
}

// contextReader ends the reading of a large file when its context ends.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

// Read implements io.Reader.
func (c contextReader) Read(b []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(b)
}

// sumOf returns the checksum of what r contains, and its size.
func sumOf(ctx context.Context, r io.Reader) (sum uint32, size int64, err error) {
	h := crc32.New(castagnoli())
	size, err = io.CopyBuffer(h, contextReader{ctx, r}, make([]byte, 256<<10))
	return h.Sum32(), size, err
}

// writeFile writes and syncs a file.
func writeFile(disk vfs.FS, path string, content []byte) error {
	f, err := disk.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Sync(), f.Close())
}

// SyncDir makes the names in a directory durable.
func SyncDir(disk vfs.FS, dir string) error {
	d, err := disk.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Verify compares the files of the snapshot in dir with its manifest, and returns what is wrong, in the order of the
// files. unchecked is the number of files whose checksums the manifest does not have. An error means that the
// comparison could not be completed.
func Verify(ctx context.Context, disk vfs.FS, dir string, m *Manifest) (problems []string, unchecked int, err error) {
	for _, f := range m.Files {
		if f.CRC32C == nil {
			unchecked++
		}
	}
	problems, err = compare(ctx, disk, disk.PathJoin(dir, DataDir), m.Files)
	return problems, unchecked, err
}

// compare returns the differences between the files of a directory and a list of files. It ignores a manifest in the
// directory, and names that the storage engine ignores as well: hidden files, and the directory that some file systems
// have at their top.
func compare(ctx context.Context, disk vfs.FS, data string, files []File) (problems []string, err error) {
	listed := map[string]bool{FileName: true}
	for _, f := range files {
		listed[f.Name] = true
		problem, err := verifyFile(ctx, disk, disk.PathJoin(data, f.Name), f)
		if err != nil {
			return problems, err
		}
		if problem != "" {
			problems = append(problems, f.Name+": "+problem)
		}
	}
	names, err := disk.List(data)
	if err != nil {
		return problems, err
	}
	slices.Sort(names)
	// The storage engine would read a file that the snapshot did not have.
	for _, name := range names {
		if !listed[name] && name != "lost+found" && !strings.HasPrefix(name, ".") {
			problems = append(problems, name+": the manifest does not list this file")
		}
	}
	return problems, nil
}

// verifyFile returns what is wrong with a file, or an empty text.
func verifyFile(ctx context.Context, disk vfs.FS, path string, want File) (problem string, err error) {
	f, err := disk.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "the file is missing", nil
	}
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	// The size is known without reading.
	if info.Size() != want.Size {
		return fmt.Sprintf("it has %d bytes, the manifest says %d", info.Size(), want.Size), nil
	}
	if want.CRC32C == nil {
		return "", nil
	}
	sum, _, err := sumOf(ctx, f)
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	// A block that the disk cannot read is a problem of this file; the other files are verified nevertheless.
	if err != nil {
		return "it cannot be read: " + err.Error(), nil
	}
	if sum != *want.CRC32C {
		return fmt.Sprintf("its checksum is %08x, the manifest says %08x", sum, *want.CRC32C), nil
	}
	return "", nil
}
