package database

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"

	"cqld/internal/invariant"
	"cqld/storage/failure"
)

// pebbleLog is Pebble's logger. Pebble's default logger exits the process in Fatalf; here the node decides how it
// stops, and nothing is acknowledged until then (DB.failed).
type pebbleLog struct{ db *DB }

// Infof logs at level debug: Pebble reports each flush and compaction.
func (l pebbleLog) Infof(format string, args ...any) {
	l.db.opts.Logger.Debug("Pebble message", "text", strings.TrimSpace(fmt.Sprintf(format, args...)))
}

func (l pebbleLog) Errorf(format string, args ...any) {
	l.db.opts.Logger.Error("Pebble error", "err", strings.TrimSpace(fmt.Sprintf(format, args...)))
}

// Fatalf does not return to Pebble's background work, which would continue with a state that differs from the disk:
// it blocks the goroutine, and with it Pebble's locks, permanently. It returns to a commit and to Open, which check
// DB.failed.
func (l pebbleLog) Fatalf(format string, args ...any) {
	// The prefix is the start of Pebble's own format string in DB.Apply, which then returns nil: commits check Err.
	if !l.db.opened.Load() || strings.HasPrefix(format, "pebble: fatal commit error") {
		l.db.Fail(fmt.Errorf(format, args...))
		return
	}
	// Set before Fail wakes the node, whose Close must not call Pebble.
	l.db.wedged.Store(true)
	l.db.Fail(fmt.Errorf(format, args...))
	select {}
}

// Fail stops the database permanently. The first call notifies the node.
func (db *DB) Fail(err error) {
	err = fmt.Errorf("%w: %w", failure.ErrStopped, err)
	// Later failures follow from the first one, and would hide it.
	if !db.failed.CompareAndSwap(nil, &err) {
		return
	}
	close(db.broken)
	db.opts.Logger.Error("the storage engine failed; the node must stop", "err", err)
	db.opts.OnFatal(err)
}

// Recover is deferred in every commit. Pebble panics with its locks held when it cannot continue. The database has
// then failed and is never used again, so Recover only has to recover the panic.
func (db *DB) Recover(err *error) {
	if p := recover(); p != nil {
		db.wedged.Store(true)
		db.Fail(fmt.Errorf("commit: %v", p))
		*err = db.Err()
	}
}

// Err returns the error that stopped the database, or nil.
func (db *DB) Err() error {
	if p := db.failed.Load(); p != nil {
		return *p
	}
	return nil
}

// listener returns the handlers of Pebble's events.
func (db *DB) listener() *pebble.EventListener {
	l := &pebble.EventListener{
		DataCorruption: func(info pebble.DataCorruptionInfo) {
			db.Corrupted(CorruptionInfo{
				Path: info.Path,
				// The bounds belong to Pebble after the event.
				Start: slices.Clone(info.Bounds.Start),
				End:   slices.Clone(info.Bounds.End.Key),
				Err:   info.Details,
			})
		},
		BackgroundError: func(err error) {
			// Background work that Close interrupted has not failed.
			if errors.Is(err, pebble.ErrClosed) {
				return
			}
			db.flushFailures.Add(1)
			// Pebble retries failed work immediately and repeatedly, so only the first of equal errors is logged. The
			// %v form of the error would contain pages of stack traces.
			text := err.Error()
			if last := db.background.Swap(&text); last == nil || *last != text {
				db.opts.Logger.Error("a flush or compaction failed; it will be retried", "err", text)
			}
		},
		WriteStallBegin: func(info pebble.WriteStallBeginInfo) {
			db.stalls.Add(1)
			db.opts.Logger.Warn("writes stalled", "reason", info.Reason)
		},
	}
	l.EnsureDefaults(pebbleLog{db})
	return l
}

// Corrupted records a corrupt file, or the part of it that is in use, once, and notifies the node.
func (db *DB) Corrupted(info CorruptionInfo) {
	db.corrupt.Lock()
	known := slices.ContainsFunc(db.corrupt.found, info.overlaps) ||
		slices.ContainsFunc(db.corrupt.removed, info.same) // work that began before may still report it
	if !known && len(db.corrupt.found) < corruptionsMax {
		db.corrupt.found = append(db.corrupt.found, info)
	}
	// The lock is released before the callback, which may call Corruptions.
	db.corrupt.Unlock()
	if known {
		return
	}
	db.opts.Logger.Error("corrupt data", "file", info.Path, "err", info.Err.Error())
	db.opts.OnCorruption(info)
}

// same reports whether both are of one file and the same part of it.
func (c CorruptionInfo) same(o CorruptionInfo) bool {
	return c.Path == o.Path && bytes.Equal(c.Start, o.Start) && bytes.Equal(c.End, o.End)
}

// overlaps reports whether both are of one file and may have a key in common. A file may be in use in several parts,
// which have none.
func (c CorruptionInfo) overlaps(o CorruptionInfo) bool {
	unknown := len(c.End) == 0 || len(o.End) == 0 // Pebble could not read the bounds
	return c.Path == o.Path && (unknown || bytes.Compare(c.Start, o.End) <= 0 && bytes.Compare(o.Start, c.End) <= 0)
}

// Corruptions returns the corrupt files found since the engine was opened. A file that is in use in several parts may
// occur several times.
func (db *DB) Corruptions() []CorruptionInfo {
	db.corrupt.Lock()
	defer db.corrupt.Unlock()
	return slices.Clone(db.corrupt.found)
}

// Removed records that the corrupt file of info is no longer part of the data.
func (db *DB) Removed(info CorruptionInfo) {
	db.corrupt.Lock()
	defer db.corrupt.Unlock()
	// The file is remembered in removed, so that a late report does not start the repair of the range again.
	db.corrupt.found = slices.DeleteFunc(db.corrupt.found, info.overlaps)
	db.corrupt.removed = append(db.corrupt.removed, info)
	invariant.Check(len(db.corrupt.found) <= corruptionsMax, "database: more corruptions are kept than the bound")
}

// CorruptionInfo describes corrupt data: the keys from Start to End may be missing here and must be copied from
// another replica.
type CorruptionInfo struct {
	Path       string
	Start, End []byte // engine keys
	Err        error
}
