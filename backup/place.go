package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"cqld/backup/bucket"
)

// files is the interface of the files of a store: a directory, or the objects of a bucket. Names have slashes, and are
// chosen by this package or were checked (CheckName, Object.check, Share.check).
//
// The protocol of a Store requires three properties:
//
//  1. A file appears under its name as a whole and durably, or not at all. Of two writers of one name, the last one
//     wins, and readers see either content.
//  2. What was written or removed before a call is seen by that call, from every process (strong consistency).
//  3. A write or removal that has failed may have happened. It may be repeated.
//
// The methods may be called concurrently, also by other processes. An error for a name that does not exist is
// fs.ErrNotExist.
type files interface {
	// stat returns the properties of a file.
	stat(ctx context.Context, name string) (bucket.Attributes, error)
	// exists reports whether there is a file with a name, or one below it.
	exists(ctx context.Context, name string) (bool, error)
	// list returns the names of files and directories in a directory, in any order. A directory without files may be
	// missing.
	list(ctx context.Context, dir string) ([]string, error)
	// write writes a file. If it fails, the name has its earlier content, or the new one as a whole.
	write(ctx context.Context, name string, c *bucket.Content) error
	// open opens a file for reading from its beginning. The caller closes it.
	open(ctx context.Context, name string) (r io.ReadCloser, size int64, err error)
	// readAt fills b with the bytes from position at. Fewer bytes are an error. size is of the whole file.
	readAt(ctx context.Context, name string, b []byte, at, size int64) error
	// remove removes a file durably, if it exists.
	remove(ctx context.Context, name string) error
	// removeAll removes a directory with its files, if it exists. Its files may remain in part after a failure.
	removeAll(ctx context.Context, dir string) error
	// removePartial removes what writes left that were interrupted before a time.
	removePartial(ctx context.Context, before time.Time) error
}

// missing reports whether an error means that a name does not exist.
func missing(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// small returns a file of at most sizeMax bytes.
func small(ctx context.Context, from files, name string, sizeMax int64) (b []byte, err error) {
	f, size, err := from.open(ctx, name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	// A file that was exchanged for a huge one must not fill the memory.
	if size > sizeMax {
		return nil, fmt.Errorf("it has %d bytes, more than %d", size, sizeMax)
	}
	return io.ReadAll(io.LimitReader(f, sizeMax))
}
