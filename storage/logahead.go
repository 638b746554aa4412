package storage

import (
	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/storage/logguard"
)

// If a log grows, each write changes the length of its file, so each sync writes the bytes and also the file's
// metadata. Writing zeros ahead saves the latter: a third of the time of a small write, and a fifth of its processor
// time. A log that reuses an old file already has these bytes. Pebble's reader ends at zeros as it does at the rest
// of an older log.

// logAheadFS is a file system that writes zeros ahead in log files.
type logAheadFS struct {
	vfs.FS
	zeros []byte // logAhead zeros
}

func newLogAheadFS(fs vfs.FS) vfs.FS { return &logAheadFS{FS: fs, zeros: make([]byte, logAhead)} }

// Unwrap implements vfs.FS.
func (fs *logAheadFS) Unwrap() vfs.FS { return fs.FS }

// Create implements vfs.FS.
func (fs *logAheadFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := fs.FS.Create(name, category)
	if err != nil || category != logguard.Category {
		return f, err
	}
	return &logAheadFile{File: f, zeros: fs.zeros}, nil
}

// ReuseForWrite implements vfs.FS.
func (fs *logAheadFS) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := fs.FS.ReuseForWrite(oldname, newname, category)
	if err != nil || category != logguard.Category {
		return f, err
	}
	info, err := f.Stat()
	if err != nil {
		return f, nil // the log grows without zeros
	}
	return &logAheadFile{File: f, zeros: fs.zeros, ready: info.Size()}, nil
}

// logAheadFile is a log. Write and Sync are called one at a time (vfs.File).
type logAheadFile struct {
	vfs.File
	zeros          []byte
	written, ready int64 // bytes of the log, and of the file
	refused        bool
}

// Write implements vfs.File.
func (f *logAheadFile) Write(p []byte) (int, error) {
	// Write zeros after this write, not below it: bytes that are written now need not be written twice.
	if end := f.written + int64(len(p)); end > f.ready && !f.refused {
		if _, err := f.WriteAt(f.zeros, end); err != nil {
			f.refused = true // the disk may be full; writing p reports it
		} else {
			f.ready = end + int64(len(f.zeros))
		}
	}
	n, err := f.File.Write(p)
	f.written += int64(n)
	return n, err
}
