package encryption

import (
	"errors"
	"io"
	"io/fs"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// FS is a file system that encrypts new files with the newest key, and reads files of all keys and files in clear. It
// is safe for concurrent use.
type FS struct {
	vfs.FS
	*shared
}

// shared is what all views of one file system share (FS.Over).
type shared struct {
	keys *Keys
	// names is held exclusively while a rewritten file replaces the original, and shared by operations that change
	// names: a file that was removed must not reappear.
	names sync.RWMutex
	// rewrites is held during a rewrite, because its temporary names derive from the original names.
	rewrites sync.Mutex

	mu struct {
		sync.Mutex
		random io.Reader
		// writers contains the files that are open for writing, by name. A rewrite would lose what is appended.
		writers map[string]*writer
	}
}

// writer counts the handles that can write to a file. It is guarded by shared.mu.
type writer struct {
	name    string
	handles int
}

// New returns a file system that stores its files in inner. random is the source of data keys: crypto/rand, except in
// simulations.
func New(inner vfs.FS, keys *Keys, random io.Reader) *FS {
	f := &FS{FS: inner, shared: &shared{keys: keys}}
	f.mu.random, f.mu.writers = random, map[string]*writer{}
	return f
}

// Over returns a view of the same files through a wrapper of the file system below. Both views exclude each other's
// changes as one does.
func (f *FS) Over(wrap func(vfs.FS) vfs.FS) *FS { return &FS{FS: wrap(f.FS), shared: f.shared} }

// Unwrap implements vfs.FS.
func (f *FS) Unwrap() vfs.FS { return f.FS }

// Below returns the file system below the encryption, or fs if it does not encrypt.
func Below(fs vfs.FS) vfs.FS {
	if f, ok := fs.(*FS); ok {
		return f.FS
	}
	return fs
}

// Keys returns the store keys.
func (f *FS) Keys() *Keys { return f.keys }

// Create implements vfs.FS.
func (f *FS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f.names.RLock()
	defer f.names.RUnlock()
	return f.create(name, category)
}

// create is Create for a caller that holds names.
func (f *FS) create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	inner, err := f.FS.Create(name, category)
	if err != nil {
		return nil, err
	}
	return f.begin(inner, name, false)
}

// begin writes the header of an empty file that is open for writing. inner is closed after an error.
func (f *FS) begin(inner vfs.File, name string, inPlace bool) (vfs.File, error) {
	if f.keys.Newest() == (KeyID{}) {
		return f.writes(inner, name), nil
	}
	f.mu.Lock()
	h, c, err := newHeader(&f.keys.list[0], f.mu.random)
	f.mu.Unlock()
	if err != nil {
		return nil, errors.Join(err, inner.Close())
	}
	page := make([]byte, headerBytes)
	copy(page, h[:])
	if inPlace {
		_, err = inner.WriteAt(page, 0)
	} else {
		_, err = inner.Write(page)
	}
	if err != nil {
		// The error of Close is not joined, because callers examine err for a full disk.
		_ = inner.Close()
		return nil, err
	}
	return f.writes(&file{File: inner, cipher: c, inPlace: inPlace}, name), nil
}

// Open implements vfs.FS.
func (f *FS) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	inner, err := f.FS.Open(name, opts...)
	if err != nil {
		return nil, err
	}
	opened, _, err := f.decrypted(inner, name)
	return opened, err
}

// decrypted returns an open file as its content, and whether it is encrypted. inner is closed after an error.
func (f *FS) decrypted(inner vfs.File, name string) (vfs.File, bool, error) {
	h, err := readHeader(inner)
	if err != nil {
		return nil, false, errors.Join(err, inner.Close())
	}
	if !h.encrypted() {
		return inner, false, nil
	}
	c, err := f.keys.open(&h, name)
	if err != nil {
		_ = inner.Close()
		return nil, false, err
	}
	return &file{File: inner, cipher: c}, true, nil
}

// OpenReadWrite implements vfs.FS. An encrypted file must not be written at an offset that was written before
// (invariant 1).
func (f *FS) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	f.names.RLock()
	defer f.names.RUnlock()
	inner, err := f.FS.OpenReadWrite(name, category, opts...)
	if err != nil {
		return nil, err
	}
	info, err := inner.Stat()
	if err != nil {
		return nil, errors.Join(err, inner.Close())
	}
	if info.Size() == 0 {
		return f.begin(inner, name, true)
	}
	opened, encrypted, err := f.decrypted(inner, name)
	if err != nil {
		return nil, err
	}
	if encrypted {
		opened.(*file).inPlace = true
	}
	return f.writes(opened, name), nil
}

// ReuseForWrite implements vfs.FS. It creates a new file: the key stream of the old one has been used.
func (f *FS) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f.names.RLock()
	defer f.names.RUnlock()
	// The old file is removed first, because no other space may be left. If the caller repeats the call, the file is
	// missing already.
	if err := f.FS.Remove(oldname); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return f.create(newname, category)
}

// Remove implements vfs.FS.
func (f *FS) Remove(name string) error {
	f.names.RLock()
	defer f.names.RUnlock()
	return f.FS.Remove(name)
}

// RemoveAll implements vfs.FS.
func (f *FS) RemoveAll(name string) error {
	f.names.RLock()
	defer f.names.RUnlock()
	return f.FS.RemoveAll(name)
}

// Rename implements vfs.FS.
func (f *FS) Rename(oldname, newname string) error {
	f.names.RLock()
	defer f.names.RUnlock()
	err := f.FS.Rename(oldname, newname)
	if err == nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		// A replaced file may still have writers, but no name under which it could be rewritten.
		delete(f.mu.writers, newname)
		if w := f.mu.writers[oldname]; w != nil {
			delete(f.mu.writers, oldname)
			w.name, f.mu.writers[newname] = newname, w
		}
	}
	return err
}

// Link implements vfs.FS. A link has the header of the file, and so its key.
func (f *FS) Link(oldname, newname string) error {
	f.names.RLock()
	defer f.names.RUnlock()
	return f.FS.Link(oldname, newname)
}

// Stat implements vfs.FS. It reads the header of a file to determine the size of the content.
func (f *FS) Stat(name string) (vfs.FileInfo, error) {
	info, err := f.FS.Stat(name)
	if err != nil || info.IsDir() || info.Size() < int64(fieldsBytes) {
		return info, err
	}
	inner, err := f.FS.Open(name)
	if err != nil {
		return nil, err
	}
	h, err := readHeader(inner)
	if err := errors.Join(err, inner.Close()); err != nil {
		return nil, err
	}
	if h.encrypted() {
		return contentInfo{info}, nil
	}
	return info, nil
}

// writes records that a file is open for writing, until it is closed.
func (f *FS) writes(inner vfs.File, name string) vfs.File {
	f.mu.Lock()
	defer f.mu.Unlock()
	w := f.mu.writers[name]
	if w == nil {
		w = &writer{name: name}
		f.mu.writers[name] = w
	}
	w.handles++
	return &writing{File: inner, fs: f.shared, writer: w}
}

// writing is a file that is open for writing.
type writing struct {
	vfs.File
	fs     *shared
	writer *writer
}

// Close implements vfs.File.
func (w *writing) Close() error {
	w.fs.mu.Lock()
	if w.writer.handles--; w.writer.handles == 0 && w.fs.mu.writers[w.writer.name] == w.writer {
		delete(w.fs.mu.writers, w.writer.name)
	}
	w.fs.mu.Unlock()
	return w.File.Close()
}

// isWritten reports whether a file is open for writing.
func (s *shared) isWritten(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.writers[name] != nil
}
