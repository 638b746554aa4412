package storage

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"cqld/schema"
)

// Errors of an Engine; compare with errors.Is.
var (
	// ErrCorrupt: bytes on disk are not what was written; see CorruptError.
	ErrCorrupt = errors.New("storage: corrupt data")
	// ErrDiskFull: a write was refused, and not applied, because the disk is nearly full.
	ErrDiskFull = errors.New("storage: the disk is nearly full, writes are refused until there is space")
	// ErrOverloaded: a write was refused, and not applied, because too much waits for the disk.
	ErrOverloaded = errors.New("storage: too many bytes wait to be written")
	// ErrStopped: the engine was closed, or failed for good. A write that gets it may have been applied.
	ErrStopped = errors.New("storage: stopped")
	// ErrInUse: another process has the directory open.
	ErrInUse = errors.New("storage: another process uses the directory: is a node running in it?")
	// ErrInvalid: a mutation or command that cannot be meant.
	ErrInvalid = errors.New("storage: invalid")
)

// CorruptError says where corrupt data was found. It is an ErrCorrupt.
type CorruptError struct {
	Path string // the file, when it is known
	Err  error
}

func (e *CorruptError) Error() string {
	if e.Path == "" {
		return fmt.Sprintf("%v: %v", ErrCorrupt, e.Err)
	}
	return fmt.Sprintf("%v in %s: %v", ErrCorrupt, e.Path, e.Err)
}

// Is makes errors.Is(err, ErrCorrupt) true.
func (e *CorruptError) Is(target error) bool { return target == ErrCorrupt }

// Unwrap is what Pebble said.
func (e *CorruptError) Unwrap() error { return e.Err }

// TooManyTombstones is the error of a read that met more tombstones than it may.
type TooManyTombstones struct {
	Table      string // its name
	Live       int
	Tombstones int
}

func (e *TooManyTombstones) Error() string {
	return fmt.Sprintf("storage: read of table %s met %d live rows and %d tombstones, more than the %d allowed",
		e.Table, e.Live, e.Tombstones, tombstonesFail)
}

// UnknownTable is the error of a write or a read of a table that was dropped.
type UnknownTable struct{ Table schema.StorageID }

func (e *UnknownTable) Error() string { return "storage: the table was dropped" }

// failure makes what Pebble returned an error of this package.
func (e *Engine) failure(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, ErrCorrupt) || errors.Is(err, ErrStopped) {
		return err
	}
	if info := pebble.ExtractDataCorruptionInfo(err); info != nil {
		return &CorruptError{Path: info.Path, Err: err}
	}
	if pebble.IsCorruptionError(err) {
		return &CorruptError{Err: err}
	}
	return fmt.Errorf("storage: %w", err)
}
