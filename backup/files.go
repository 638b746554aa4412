package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// FilesDir is the directory of Files.
const FilesDir = "data"

// Files is a file system that contains the files of a share, in the directory FilesDir, for reading. Parts of files are
// read from the store when they are needed, and the last ones are kept in memory. It does not compare hashes: the
// storage engine compares the checksums of what it reads. It is safe for concurrent use, until its context ends. Close
// frees its memory.
type Files struct {
	ctx   context.Context
	store *Store
	files map[string]File
	names []string // sorted
	pace  func(int) error
	mu    struct {
		sync.Mutex
		chunks map[chunkKey]chunk
		recent []chunkKey // the keys of chunks, the least recently used first
		closed bool
	}
}

// chunkKey identifies a part of an object. Files with equal contents share their parts.
type chunkKey struct {
	hash string
	at   int64 // a multiple of chunkBytes
}

// chunk is a part of an object in memory.
type chunk struct {
	b        []byte
	uncharge func()
}

// NewFiles returns the files of a share. It reads nothing yet. The caller calls Close at the end. pace is called with
// the bytes that were read, and may wait.
func NewFiles(ctx context.Context, s *Store, share *Share, pace func(int) error) *Files {
	f := &Files{ctx: ctx, store: s, files: map[string]File{}, pace: pace}
	f.mu.chunks = map[chunkKey]chunk{}
	for _, file := range share.Files {
		f.files[file.Name] = file
		f.names = append(f.names, file.Name)
	}
	slices.Sort(f.names)
	return f
}

// errReadOnly is the error of everything that would change a file.
var errReadOnly = errors.New("backup: the files of a backup cannot be changed")

// find returns the file with a path in FilesDir. The error for other paths is the one that the storage engine expects
// for files that do not exist.
func (f *Files) find(name string) (File, error) {
	if file, ok := f.files[path.Base(name)]; ok && path.Dir(path.Clean(name)) == FilesDir {
		return file, nil
	}
	return File{}, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}

// Open implements vfs.FS.
func (f *Files) Open(name string, _ ...vfs.OpenOption) (vfs.File, error) {
	if path.Clean(name) == FilesDir {
		return f.OpenDir(name)
	}
	file, err := f.find(name)
	if err != nil {
		return nil, err
	}
	return &object{files: f, file: file}, nil
}

// OpenDir implements vfs.FS.
func (f *Files) OpenDir(name string) (vfs.File, error) {
	return &object{files: f, file: File{Name: path.Base(name)}, dir: true}, nil
}

// List implements vfs.FS.
func (f *Files) List(dir string) ([]string, error) {
	if path.Clean(dir) != FilesDir {
		return nil, &fs.PathError{Op: "list", Path: dir, Err: fs.ErrNotExist}
	}
	return slices.Clone(f.names), nil
}

// Stat implements vfs.FS.
func (f *Files) Stat(name string) (vfs.FileInfo, error) {
	if path.Clean(name) == FilesDir {
		return info{name: FilesDir, dir: true}, nil
	}
	file, err := f.find(name)
	if err != nil {
		return nil, err
	}
	return info{name: file.Name, size: file.Size}, nil
}

// PathBase implements vfs.FS.
func (f *Files) PathBase(name string) string { return path.Base(name) }

// PathJoin implements vfs.FS.
func (f *Files) PathJoin(elem ...string) string { return path.Join(elem...) }

// PathDir implements vfs.FS.
func (f *Files) PathDir(name string) string { return path.Dir(name) }

// GetDiskUsage implements vfs.FS.
func (f *Files) GetDiskUsage(string) (vfs.DiskUsage, error) {
	return vfs.DiskUsage{}, vfs.ErrUnsupported
}

// Unwrap implements vfs.FS.
func (f *Files) Unwrap() vfs.FS { return nil }

// Lock implements vfs.FS. Nothing changes the files, so readers need no lock.
func (f *Files) Lock(string) (io.Closer, error) { return io.NopCloser(nil), nil }

// MkdirAll implements vfs.FS.
func (f *Files) MkdirAll(dir string, _ os.FileMode) error {
	if path.Clean(dir) == FilesDir {
		return nil
	}
	return errReadOnly
}

// Create implements vfs.FS.
func (f *Files) Create(string, vfs.DiskWriteCategory) (vfs.File, error) { return nil, errReadOnly }

// Link implements vfs.FS.
func (f *Files) Link(string, string) error { return errReadOnly }

// OpenReadWrite implements vfs.FS.
func (f *Files) OpenReadWrite(string, vfs.DiskWriteCategory, ...vfs.OpenOption) (vfs.File, error) {
	return nil, errReadOnly
}

// Remove implements vfs.FS.
func (f *Files) Remove(string) error { return errReadOnly }

// RemoveAll implements vfs.FS.
func (f *Files) RemoveAll(string) error { return errReadOnly }

// Rename implements vfs.FS.
func (f *Files) Rename(string, string) error { return errReadOnly }

// ReuseForWrite implements vfs.FS.
func (f *Files) ReuseForWrite(string, string, vfs.DiskWriteCategory) (vfs.File, error) {
	return nil, errReadOnly
}

// chunk returns a part of a file, which the caller must not modify. The part begins at at, a multiple of chunkBytes,
// and is shorter only at the end of the file.
func (f *Files) chunk(file File, at int64) ([]byte, error) {
	key := chunkKey{file.SHA256, at}
	f.mu.Lock()
	c, ok := f.mu.chunks[key]
	if ok {
		f.touchLocked(key)
	}
	f.mu.Unlock()
	if ok {
		return c.b, nil
	}
	// Without the lock: two readers may read the same part at the same time.
	b, err := f.store.part(f.ctx, file.Object, at, min(chunkBytes, file.Size-at))
	if err == nil {
		err = f.pace(len(b))
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file.Name, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.mu.chunks[key]; ok || f.mu.closed {
		return b, nil
	}
	f.mu.chunks[key] = chunk{b, f.store.memory.Charge(int64(len(b)))}
	f.touchLocked(key)
	if len(f.mu.recent) > f.store.memory.chunks() {
		f.removeLocked(f.mu.recent[0])
	}
	return b, nil
}

// Close frees the parts of files in memory. Files that are read afterwards are read from the store each time.
func (f *Files) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.closed = true
	for len(f.mu.recent) > 0 {
		f.removeLocked(f.mu.recent[0])
	}
}

// removeLocked removes the part with a key, which is the least recently used one.
func (f *Files) removeLocked(key chunkKey) {
	f.mu.chunks[key].uncharge()
	delete(f.mu.chunks, key)
	f.mu.recent = f.mu.recent[1:]
}

// touchLocked makes a key the most recently used one. The list is short (chunksMax), so it is searched from its
// beginning.
func (f *Files) touchLocked(key chunkKey) {
	f.mu.recent = append(slices.DeleteFunc(f.mu.recent, func(k chunkKey) bool { return k == key }), key)
}

// part returns n bytes of an object, from position at. Fewer bytes are an error: the object was shortened.
func (s *Store) part(ctx context.Context, o Object, at, n int64) ([]byte, error) {
	// An encrypted part is in memory in both forms until it is decrypted.
	defer s.memory.Charge(2 * n)()
	b := make([]byte, n)
	name, err := s.files.objectName(ctx, o.SHA256)
	if err == nil {
		err = s.files.readAt(ctx, name, b, at, o.Size)
	}
	if err != nil {
		return nil, s.failed("read "+o.SHA256, err)
	}
	return b, nil
}

// object is an open file or directory of Files. Like other files, it is not for concurrent use, except ReadAt.
type object struct {
	files *Files
	file  File
	dir   bool
	at    int64 // where Read continues
}

// Close implements vfs.File.
func (o *object) Close() error { return nil }

// Read implements vfs.File. It returns io.EOF only without bytes.
func (o *object) Read(p []byte) (int, error) {
	n, err := o.ReadAt(p[:min(int64(len(p)), max(o.file.Size-o.at, 0))], o.at)
	o.at += int64(n)
	if n == 0 && err == nil && len(p) > 0 {
		return 0, io.EOF
	}
	return n, err
}

// ReadAt implements vfs.File.
func (o *object) ReadAt(p []byte, off int64) (n int, err error) {
	for n < len(p) {
		at := off + int64(n)
		if at >= o.file.Size {
			return n, io.EOF
		}
		start := at - at%chunkBytes
		b, err := o.files.chunk(o.file, start)
		if err != nil {
			return n, err
		}
		n += copy(p[n:], b[at-start:])
	}
	return n, nil
}

// Write implements vfs.File.
func (o *object) Write([]byte) (int, error) { return 0, errReadOnly }

// WriteAt implements vfs.File.
func (o *object) WriteAt([]byte, int64) (int, error) { return 0, errReadOnly }

// Preallocate implements vfs.File.
func (o *object) Preallocate(int64, int64) error { return errReadOnly }

// Stat implements vfs.File.
func (o *object) Stat() (vfs.FileInfo, error) {
	return info{name: o.file.Name, size: o.file.Size, dir: o.dir}, nil
}

// Sync implements vfs.File.
func (o *object) Sync() error { return nil }

// SyncTo implements vfs.File.
func (o *object) SyncTo(int64) (bool, error) { return true, nil }

// SyncData implements vfs.File.
func (o *object) SyncData() error { return nil }

// Prefetch implements vfs.File.
func (o *object) Prefetch(int64, int64) error { return nil }

// Fd implements vfs.File.
func (o *object) Fd() uintptr { return vfs.InvalidFd }

// info describes a file or the directory. It has no time: the storage engine does not use it.
type info struct {
	name string
	size int64
	dir  bool
}

// Name implements fs.FileInfo.
func (i info) Name() string { return i.name }

// Size implements fs.FileInfo.
func (i info) Size() int64 { return i.size }

// Mode implements fs.FileInfo.
func (i info) Mode() fs.FileMode {
	if i.dir {
		return fs.ModeDir | 0o500
	}
	return 0o400
}

// ModTime implements fs.FileInfo.
func (i info) ModTime() time.Time { return time.Time{} }

// IsDir implements fs.FileInfo.
func (i info) IsDir() bool { return i.dir }

// Sys implements fs.FileInfo.
func (i info) Sys() any { return nil }

// DeviceID implements vfs.FileInfo.
func (i info) DeviceID() vfs.DeviceID { return vfs.DeviceID{} }
