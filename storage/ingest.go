package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/objstorage/objstorageprovider"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/internal/invariant"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/storage/block"
	"cqld/storage/bounds"
	"cqld/storage/failure"
	"cqld/storage/latch"
	"cqld/storage/logarchive"
	"cqld/storage/rowkey"
)

// ingestDir is the directory, in the engine's, for sstables under construction. Files that a crash leaves there are
// deleted.
const ingestDir = "ingest"

// Ingestion builds an sstable from the entries that another node exported, and adds it to the data. One goroutine at
// a time may use it. Commit or Abort ends it.
//
// Every entry is written as a merge operand, even if it was a single value at the sender: a value would hide operands
// that this node applied earlier.
type Ingestion struct {
	e       *core
	table   schema.StorageID
	tokens  ring.Range
	path    string
	w       *sstable.Writer
	last    []byte // the previous key
	size    int64
	headers bool
	foreign bool            // MarkForeign
	staged  []stagedEntries // by maintainer
	ended   bool            // by Commit or Abort
}

// stagedEntries are the entries that a maintainer has added for the rows of an ingestion.
type stagedEntries struct {
	*maintainer
	batch *pebble.Batch // nil if the maintainer did not maintain the table when the ingestion began
	note  *any          // Derived.Staged
}

// NewIngestion starts the ingestion of a part of a table. Keys outside of tokens, which may wrap, are refused.
func (e *Engine) NewIngestion(id schema.StorageID, tokens ring.Range) *Ingestion {
	// Names are unique for the life of the process; Open removes those of the previous one.
	name := strconv.FormatInt(e.ingestions.Add(1), 10) + ".sst"
	g := &Ingestion{e: e.core, table: id, tokens: tokens, path: e.opts.FS.PathJoin(e.opts.Dir, ingestDir, name)}
	for _, m := range e.derived.list {
		s := stagedEntries{maintainer: m, note: new(any)}
		// If the table becomes maintained later, the build of its index finds these rows.
		if m.Maintains(id) {
			s.batch = e.db.NewBatch()
		}
		g.staged = append(g.staged, s)
	}
	return g
}

// MarkForeign says that the rows are from outside the ring, such as a backup. Commit then adds a note to the archived
// log instead of the rows (logarchive.Record.Foreign). MarkForeign must be called before Commit.
func (g *Ingestion) MarkForeign() { g.foreign = true }

// Size returns the bytes of the added entries.
func (g *Ingestion) Size() int64 { return g.size }

// Add adds a block of Export. Blocks must be added in the order in which they were exported. After an error, only
// Abort may be called.
func (g *Ingestion) Add(data []byte) error {
	invariant.Check(!g.ended, "storage: a block for an ingestion that has ended")
	if err := g.e.writable(); err != nil {
		return err
	}
	// A stream fills the disk as commits do, so the watcher of free space must be active.
	g.e.disk.Use()
	b := block.NewReader(data)
	for b.Next() {
		// The bytes come from another node, so they are validated before they become a file.
		if err := g.check(b.Key, b.Value); err != nil {
			return fmt.Errorf("%w entry for %s: %w", failure.ErrInvalid, g.path, err)
		}
		if err := g.open(); err != nil {
			return failure.Of(err)
		}
		if err := g.w.Merge(b.Key, b.Value); err != nil {
			return failure.Of(err)
		}
		// The block is valid during the call only.
		g.last = append(g.last[:0], b.Key...)
		g.size += int64(len(b.Key) + len(b.Value))
	}
	if err := b.Err(); err != nil {
		return fmt.Errorf("%w block for %s: %w", failure.ErrInvalid, g.path, err)
	}
	g.stage(data)
	return nil
}

// stage lets maintainers add the entries of a block that was checked.
func (g *Ingestion) stage(data []byte) {
	for _, s := range g.staged {
		if s.batch != nil {
			b := block.NewReader(data)
			s.Stage(Derived{s.batch, s.space, s.note}, &Entering{
				tables: []schema.StorageID{g.table},
				source: func() (key, value []byte, ok bool) { ok = b.Next(); return b.Key, b.Value, ok },
			})
		}
	}
}

// unstage closes the batches of maintainers.
func (g *Ingestion) unstage() {
	for _, s := range g.staged {
		if s.batch != nil {
			// A committed batch is closed as well, because Pebble has copied it.
			_ = s.batch.Close() // it frees memory
		}
	}
	g.staged = nil
}

// check returns an error if an entry is malformed or not part of the range.
func (g *Ingestion) check(key, value []byte) error {
	table, k, suffix, err := rowkey.Parse(key)
	switch {
	case err != nil:
		return err
	case table != g.table:
		return fmt.Errorf("key %x is of table %d, not %d", key, table, g.table)
	case !g.tokens.Contains(k.Token):
		return fmt.Errorf("key %x is of token %v, outside %v", key, k.Token, g.tokens)
	case bytes.Compare(key, g.last) <= 0:
		return fmt.Errorf("key %x does not come after %x", key, g.last)
	}
	switch row.EntryKind(suffix[0]) {
	case row.KindHeader:
		// The flag of the table is raised before the file is visible.
		g.headers = true
	case row.KindRow:
	case row.KindRangeTombstone:
		if _, _, _, ok := rowkey.ParseRangeTombstone(nil, suffix); !ok {
			return failure.BadKey(key)
		}
	default:
		return failure.BadKey(key)
	}
	if err := row.ValidateRow(value); err != nil {
		return err
	}
	// Invariant 1 of package bounds: the timestamp is noted before the rows are ingested.
	if row.EntryKind(suffix[0]) == row.KindRow {
		g.e.bounds.Note(table, k.Token, bounds.Newest(value))
	}
	return nil
}

// open creates the file. It is called for the first entry.
func (g *Ingestion) open() error {
	if g.w != nil {
		return nil
	}
	disk := g.e.db.Format.FS
	if err := disk.MkdirAll(disk.PathDir(g.path), 0o700); err != nil {
		return err
	}
	f, err := disk.Create(g.path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	// A file in the format of the database can be linked by Pebble instead of being copied.
	g.w = sstable.NewWriter(objstorageprovider.NewFileWritable(f),
		g.e.db.Format.MakeWriterOptions(0, g.e.db.TableFormat()))
	return nil
}

// Abort discards the added entries.
func (g *Ingestion) Abort() {
	g.ended = true
	g.unstage()
	if g.w == nil {
		return
	}
	_ = g.w.Close() // the file is discarded
	g.w = nil
	_ = g.e.db.Format.FS.Remove(g.path) // otherwise the next start removes it
}

// Commit makes the added entries part of the data atomically: after a crash, all or none of them are visible. They
// are on disk when Commit returns, whatever the SyncMode of the engine.
func (g *Ingestion) Commit() error {
	invariant.Check(!g.ended, "storage: an ingestion is committed after its end")
	g.ended = true
	defer g.unstage()
	// Nothing was added, so there is no file.
	if g.w == nil {
		return nil
	}
	err := g.w.Close() // syncs the file
	g.w = nil
	if err == nil {
		err = g.e.writable()
	}
	if err == nil {
		err = g.e.ingest(g)
	}
	if err != nil {
		_ = g.e.db.Format.FS.Remove(g.path)
		return failure.Of(err)
	}
	return g.e.db.Err()
}

// ingest passes a file to Pebble, under the latches of all partitions: no overwrite may use a row that it read
// before.
func (e *core) ingest(g *Ingestion) (err error) {
	id := g.table
	// A stream may end after its table was dropped.
	if e.isDropped(id) {
		return &failure.UnknownTable{Table: id}
	}
	defer e.db.Recover(&err)
	// The flag is synced first: after a crash the file may exist, and readers need the flag to see its headers.
	if g.headers && e.headers.Raise(id) {
		if err := e.db.Set(headerFlagKey(id), nil, pebble.Sync); err != nil {
			return err
		}
		e.headers.Persisted([]schema.StorageID{id})
	}
	// Invariant 3 of package bounds: the ceiling is on disk before the rows.
	if err := e.syncCeiling(id); err != nil {
		return err
	}
	// Before the latches: writers do not wait for the log of many rows.
	if e.archive != nil {
		if err := e.logIngestion(g); err != nil {
			return err
		}
	}
	e.latches.RLock(latch.AllStripes)
	defer e.latches.RUnlock(latch.AllStripes)
	// The purger is notified under the latches, before the rows are visible.
	e.purger.NoteAll()
	return e.ingestStaged(g, g.staged)
}

// logIngestion adds the rows of a file, or the note that it has foreign rows, to the log, for the archive. They are on
// disk before the file is ingested, which a crash would not undo. If the file is not ingested after it, a restoration
// has rows that another replica had, or refuses more moments.
func (e *core) logIngestion(g *Ingestion) error {
	if !g.foreign {
		// The file has them in the order of their keys, and merged.
		return e.db.LogFile(g.path)
	}
	// Many rows may come from outside, and a backup after it contains them.
	b := e.db.NewBatch()
	logarchive.MarkForeign(b, g.table)
	return errors.Join(e.db.Apply(b, pebble.Sync), b.Close())
}

// ingestStaged nests the Ingest calls of all maintainers around the ingestion of the file. The entries are on disk
// before the rows are visible, and cannot be removed meanwhile, because the latches are held.
func (e *core) ingestStaged(g *Ingestion, staged []stagedEntries) error {
	// In the innermost call, the entries of all maintainers are on disk.
	if len(staged) == 0 {
		e.db.AwaitFlushes()
		return e.db.Ingest(context.Background(), g.table, []string{g.path})
	}
	s := staged[0]
	batch := s.batch
	if batch == nil {
		batch = e.db.NewBatch()
		defer batch.Close()
	}
	calls := 0
	err := s.Ingest(Derived{batch, s.space, s.note}, g.table, s.batch != nil, func() error {
		calls++
		// Entries are written before rows: a search ignores an entry without a row, but would never find a row
		// without an entry.
		if !batch.Empty() {
			if err := e.db.Apply(batch, pebble.Sync); err != nil {
				return err
			}
			if err := e.db.Err(); err != nil {
				return err
			}
		}
		return e.ingestStaged(g, staged[1:])
	})
	invariant.Check(calls == 1 || err != nil && calls == 0, "storage: a maintainer ingested a file %d times", calls)
	return err
}

// writable returns an error if writes are currently refused.
func (e *core) writable() error {
	if err := e.db.Err(); err != nil {
		return err
	}
	if e.disk.Full() {
		return failure.ErrDiskFull
	}
	return nil
}

// clearIngestions removes files of ingestions that a crash interrupted.
func clearIngestions(o *Options) error {
	dir := o.FS.PathJoin(o.Dir, ingestDir)
	if err := o.FS.RemoveAll(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
