package database

import (
	"fmt"
	"io"
	"log/slog"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/storage/failure"
	"cqld/storage/logguard"
	"cqld/storage/merging"
)

// readOnlyCacheBytes is the size of the block cache of a database that is read once, in the order of its keys.
const readOnlyCacheBytes = 4 << 20

// OpenReadOnly opens a copy of a database for reading. It adds no file to the directory and changes none.
func OpenReadOnly(fs vfs.FS, dir string, log *slog.Logger) (*pebble.DB, error) {
	// It is never failed by commits; only its log uses it.
	db := &DB{opts: Options{Logger: log, OnFatal: func(error) {}}, broken: make(chan struct{})}
	cache := pebble.NewCache(readOnlyCacheBytes)
	defer cache.Unref() // Pebble has a reference of its own
	guard := logguard.New(unlocked{fs}, func() bool { return false }, db.Fail)
	o := &pebble.Options{
		FS: guard, Cache: cache, Logger: pebbleLog{db}, ReadOnly: true,
		Merger:             merging.New(func([]byte) {}, failure.BadRow),
		FormatMajorVersion: pebble.FormatValueSeparation,
		MaxOpenFiles:       100, DisableAutomaticCompactions: true, DisableTableStats: true,
	}
	for i := range o.Levels {
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
		o.Levels[i].FilterType = pebble.TableFilter
	}
	opened, err := pebble.Open(dir, o)
	if err == nil && db.Err() != nil {
		err = db.Err() // Fatalf returns to Open
	}
	if err != nil {
		return nil, fmt.Errorf("storage: open the copy in %s: %w", dir, failure.Of(guard.Named(err)))
	}
	return opened, nil
}

// unlocked is a file system on which a database does not lock its directory, which would add a file. Nothing writes to
// the directory, and several readers may have it open.
type unlocked struct{ vfs.FS }

// Lock implements vfs.FS.
func (unlocked) Lock(string) (io.Closer, error) { return io.NopCloser(nil), nil }
