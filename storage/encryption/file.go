package encryption

import (
	"crypto/cipher"
	"errors"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// scratchMax bounds the buffer of a file that is written.
const scratchMax = 256 << 10

// file is an encrypted file. Offsets and sizes in its methods are of the content; the header precedes it on the disk.
// Like a vfs.File, it has one writer, and any number of callers of ReadAt.
type file struct {
	vfs.File
	cipher *contentCipher
	read   int64 // where the next Read begins

	// These fields belong to the writer. stream is nil until the next Write creates it at offset written.
	written int64
	stream  cipher.Stream
	scratch []byte
	// inPlace means that Write uses WriteAt at offset written, because the file on disk is positioned at its
	// beginning.
	inPlace bool
}

// Read implements vfs.File.
func (f *file) Read(p []byte) (int, error) {
	n, err := f.ReadAt(p, f.read)
	f.read += int64(n)
	// The end is reported with the next call, as an *os.File does.
	if n > 0 {
		err = nil
	}
	return n, err
}

// ReadAt implements vfs.File.
func (f *file) ReadAt(p []byte, offset int64) (int, error) {
	if offset < 0 {
		return 0, errors.New("encryption: negative offset")
	}
	n, err := f.File.ReadAt(p, offset+headerBytes)
	if n > 0 {
		f.cipher.apply(p[:n], p[:n], offset)
	}
	return n, err
}

// Write implements vfs.File. It does not change p, because a caller repeats a write after a full disk.
func (f *file) Write(p []byte) (n int, err error) {
	for len(p) > 0 {
		part := p[:min(len(p), scratchMax)]
		done, err := f.writePart(part)
		n += done
		if err != nil {
			return n, err
		}
		p = p[len(part):]
	}
	return n, nil
}

// writePart writes at most scratchMax bytes.
func (f *file) writePart(p []byte) (n int, err error) {
	if cap(f.scratch) < len(p) {
		f.scratch = make([]byte, max(len(p), min(2*cap(f.scratch), scratchMax)))
	}
	if f.stream == nil {
		f.stream = f.cipher.stream(f.written)
	}
	b := f.scratch[:len(p)]
	f.stream.XORKeyStream(b, p)
	if f.inPlace {
		n, err = f.File.WriteAt(b, f.written+headerBytes)
	} else {
		n, err = f.File.Write(b)
	}
	f.written += int64(n)
	// After a short write, the key stream is ahead of the content, so it must be created again.
	if n < len(p) {
		f.stream = nil
	}
	return n, err
}

// WriteAt implements vfs.File.
func (f *file) WriteAt(p []byte, offset int64) (int, error) {
	b := make([]byte, len(p))
	f.cipher.apply(b, p, offset)
	return f.File.WriteAt(b, offset+headerBytes)
}

// Preallocate implements vfs.File.
func (f *file) Preallocate(offset, length int64) error {
	return f.File.Preallocate(offset+headerBytes, length)
}

// Prefetch implements vfs.File.
func (f *file) Prefetch(offset, length int64) error {
	return f.File.Prefetch(offset+headerBytes, length)
}

// SyncTo implements vfs.File.
func (f *file) SyncTo(length int64) (bool, error) { return f.File.SyncTo(length + headerBytes) }

// Stat implements vfs.File.
func (f *file) Stat() (vfs.FileInfo, error) {
	info, err := f.File.Stat()
	if err != nil {
		return nil, err
	}
	return contentInfo{info}, nil
}

// contentInfo is the information about an encrypted file with the size of its content.
type contentInfo struct{ vfs.FileInfo }

// Size returns the size of the content. It is zero while the header is not complete.
func (i contentInfo) Size() int64 { return max(0, i.FileInfo.Size()-headerBytes) }
