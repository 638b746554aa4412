package storage

import "cqld/storage/logarchive"

// Log is the write-ahead log of an engine, for its archive. Its methods are safe for concurrent use.
type Log struct{ e *core }

// LogOf returns the log of an engine.
func LogOf(e *Engine) Log { return Log{e.core} }

// Read reads the log from a position on, as far as it is on disk. The zero Position means the oldest log. The Data of
// the segment has at most about maxBytes, but at least one commit. Read writes the log to disk first. Errors:
// logarchive.ErrOff without Options.Archive; *logarchive.Gap if the log after the position was deleted; a
// *failure.CorruptError if it has changed on disk. Concurrent calls wait for each other.
func (l Log) Read(after logarchive.Position, maxBytes int) (logarchive.Segment, error) {
	return l.e.db.ReadLog(after, maxBytes)
}

// Release permits deletion of the log before a position, because it was archived. The position is kept in memory
// only: after a restart, kept logs stay until Release is called again.
func (l Log) Release(upTo logarchive.Position) { l.e.archive.Release(upTo) }

// Kept returns the size of the logs that are kept for Read only.
func (l Log) Kept() logarchive.Kept { return l.e.archive.Kept() }

// Beginning returns where the archive of the log begins, if it contains everything that was ever written to the engine.
func (l Log) Beginning() (p logarchive.Position, ok bool) { return l.e.archive.Beginning() }

// openArchive returns the keeper of the logs, or nil without Options.Archive.
func openArchive(o *Options) (*logarchive.Keeper, error) {
	if o.Archive == nil {
		return nil, nil
	}
	return logarchive.New(*o.Archive, o.FS, o.Dir, o.Logger)
}

// dropKept removes the logs that are kept for the archive, and returns their size in bytes: accepting writes has
// priority over the archive.
func (e *core) dropKept() int64 { return e.archive.DropAll() }
