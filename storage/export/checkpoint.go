package export

import (
	"log/slog"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/storage/database"
	"cqld/storage/failure"
	"cqld/storage/format"
)

// Checkpoint is a checkpoint of a storage engine, open for reading. Nothing in its directory changes: rows in its log
// are read into memory. Its methods are safe for concurrent use, except Close. A checkpoint does not record which
// rows the engine had lost.
type Checkpoint struct {
	db    *pebble.DB
	close func() error
}

// Open opens the checkpoint in a directory. One in another storage format is refused.
func Open(disk vfs.FS, dir string, log *slog.Logger) (*Checkpoint, error) {
	if err := checkFormat(disk, dir); err != nil {
		return nil, err
	}
	db, err := database.OpenReadOnly(disk, dir, log)
	if err != nil {
		return nil, err
	}
	return &Checkpoint{db, db.Close}, nil
}

func checkFormat(disk vfs.FS, dir string) error {
	// Check would initialize a directory without the format file, so the file must exist.
	if _, err := disk.Stat(disk.PathJoin(dir, format.FileName)); err != nil {
		return err
	}
	return format.Check(disk, dir)
}

// Append is the function Append on the checkpoint.
func (c *Checkpoint) Append(dst []byte, q *Query) (out, next []byte, err error) {
	return Append(c.db, dst, q)
}

// Close closes the checkpoint.
func (c *Checkpoint) Close() error { return failure.Of(c.close()) }
