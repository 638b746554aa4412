package backup

import (
	"context"
	"io"
	"time"

	"cqld/backup/bucket"
)

// bucketFiles contains the files of a store as objects whose names begin with prefix, which is empty or ends with a
// slash. Its requests are repeated, so an error has lasted for a while.
type bucketFiles struct {
	bucket *bucket.Repeated
	prefix string
}

// under returns the prefix of the names in a directory.
func (b bucketFiles) under(dir string) string {
	if dir == "." {
		return b.prefix
	}
	return b.prefix + dir + "/"
}

// stat implements files.
func (b bucketFiles) stat(ctx context.Context, name string) (bucket.Attributes, error) {
	return b.bucket.Stat(ctx, b.prefix+name)
}

// exists implements files.
func (b bucketFiles) exists(ctx context.Context, name string) (bool, error) {
	// Most names are of files, which need one request.
	_, err := b.stat(ctx, name)
	if !missing(err) {
		return err == nil, err
	}
	below, err := b.bucket.List(ctx, b.under(name), 1)
	return len(below) > 0, err
}

// list implements files.
func (b bucketFiles) list(ctx context.Context, dir string) ([]string, error) {
	return b.bucket.List(ctx, b.under(dir), 0)
}

// write implements files.
func (b bucketFiles) write(ctx context.Context, name string, c *bucket.Content) error {
	return b.bucket.Write(ctx, b.prefix+name, c)
}

// open implements files.
func (b bucketFiles) open(ctx context.Context, name string) (io.ReadCloser, int64, error) {
	return b.bucket.Open(ctx, b.prefix+name)
}

// readAt implements files.
func (b bucketFiles) readAt(ctx context.Context, name string, p []byte, at, _ int64) error {
	return b.bucket.ReadAt(ctx, b.prefix+name, p, at)
}

// remove implements files.
func (b bucketFiles) remove(ctx context.Context, name string) error {
	return b.bucket.Remove(ctx, b.prefix+name)
}

// removeAll implements files. Directories of a store have few levels (package comment).
func (b bucketFiles) removeAll(ctx context.Context, dir string) error {
	names, err := b.list(ctx, dir)
	if err != nil {
		return err
	}
	// A name may be of a directory, of a file, or of both; removing what does not exist is no error.
	for _, name := range names {
		if err := b.removeAll(ctx, dir+"/"+name); err != nil {
			return err
		}
		if err := b.remove(ctx, dir+"/"+name); err != nil {
			return err
		}
	}
	return nil
}

// removePartial implements files. A service discards an object whose request was not completed.
func (bucketFiles) removePartial(context.Context, time.Time) error { return nil }
