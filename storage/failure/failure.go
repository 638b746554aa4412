// Package failure holds the errors of storage, and converts those of Pebble.
//
// Callers distinguish three kinds: refusals, after which nothing was applied (ErrDiskFull, ErrOverloaded, ErrInvalid,
// UnknownTable); ErrStopped, after which a write may have been applied; and ErrCorrupt, after which another replica
// must answer.
package failure

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"cqld/schema"
	"cqld/storage/rowkey"
)

// Errors of an engine, for errors.Is.
var (
	// ErrCorrupt means that bytes on disk differ from those written; see CorruptError.
	ErrCorrupt = errors.New("storage: corrupt data")
	// ErrDiskFull means that a write was refused, and not applied, because the disk is nearly full.
	ErrDiskFull = errors.New("storage: the disk is nearly full; writes are refused until space is free")
	// ErrOverloaded means that a write was refused, and not applied, because too many bytes wait for the disk.
	ErrOverloaded = errors.New("storage: too many bytes are waiting to be written")
	// ErrStopped means that the engine was closed or has failed permanently. The write may have been applied.
	ErrStopped = errors.New("storage: stopped")
	// ErrInUse means that another process has the directory open.
	ErrInUse = errors.New("storage: another process uses the directory: is a node running in it?")
	// ErrInvalid means that a mutation or command is malformed.
	ErrInvalid = errors.New("storage: invalid")
)

// CorruptError is an ErrCorrupt with the location of the corrupt data.
type CorruptError struct {
	Path string // the file, if known
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

// Unwrap returns Pebble's error.
func (e *CorruptError) Unwrap() error { return e.Err }

// TooManyTombstones is the error of a read that scanned more tombstones than allowed.
type TooManyTombstones struct {
	Table      string // the table's name
	Live       int
	Tombstones int
}

func (e *TooManyTombstones) Error() string {
	return fmt.Sprintf("storage: read of table %s met %d live rows and %d tombstones, more than the %d allowed",
		e.Table, e.Live, e.Tombstones, TombstonesMax)
}

// UnknownTable is the error of a write or read of a dropped table.
type UnknownTable struct{ Table schema.StorageID }

func (e *UnknownTable) Error() string { return "storage: the table was dropped" }

// TombstonesMax is the number of tombstones from which a read is refused. It is Cassandra's
// tombstone_failure_threshold.
const TombstonesMax = 100_000

// Of converts an error of Pebble to an error of this package. It returns nil for nil, and errors of this package as
// they are.
func Of(err error) error {
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
	if malformed := new(rowkey.Malformed); errors.As(err, &malformed) {
		return &CorruptError{Err: err}
	}
	return fmt.Errorf("storage: %w", err)
}

// BadKey returns the error for a key that is not one of storage.
func BadKey(key []byte) error { return &CorruptError{Err: &rowkey.Malformed{Key: key}} }

// BadRow returns the error for a key whose value is not a valid row.
func BadRow(key []byte, err error) error {
	return &CorruptError{Err: fmt.Errorf("row under key %x: %w", key, err)}
}
