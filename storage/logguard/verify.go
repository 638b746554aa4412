package logguard

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/storage/logcheck"
)

// Open implements vfs.FS. While Pebble is being opened, a write-ahead log or MANIFEST in which synced bytes have
// changed is a corruption error: Pebble would take it for a shorter one.
func (fs *FS) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	if !fs.opened.Load() {
		fs.reading.Store(&name)
		if err := verify(fs.FS, name); err != nil {
			return nil, err
		}
	}
	return fs.FS.Open(name, opts...)
}

// Named returns an error of Pebble's Open with the name of the file that Pebble opened last for reading: many of its
// errors have none. It returns nil for nil.
func (fs *FS) Named(err error) error {
	if name := fs.reading.Load(); err != nil && name != nil && !strings.Contains(err.Error(), fs.PathBase(*name)) {
		return fmt.Errorf("%s: %w", *name, err)
	}
	return err
}

// verify returns a corruption error of Pebble if a log has changed. It ignores other files.
func verify(fs vfs.FS, name string) error {
	base := fs.PathBase(name)
	digits, log := strings.CutSuffix(base, ".log")
	number, err := strconv.ParseUint(digits, 10, 64)
	log = log && err == nil
	if !log && !strings.HasPrefix(base, "MANIFEST-") {
		return nil
	}
	f, err := fs.Open(name, vfs.SequentialReadsOption)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // read only
	if log {
		err = logcheck.Log(f, number)
	} else {
		err = logcheck.Manifest(f)
	}
	if corrupt := new(logcheck.Corrupt); errors.As(err, &corrupt) {
		return fmt.Errorf("%w: %w", pebble.ErrCorruption, err)
	}
	return err
}
