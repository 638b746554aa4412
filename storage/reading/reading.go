// Package reading reads pages, hashes and newest timestamps from an engine's database.
//
// A read opens one iterator over its partition, or its range of tokens, and passes each partition once, in the order
// of its keys: the header, the range tombstones, the rows. It removes the parts of each row that a deletion shadows
// or the purger may remove, counts tombstones and live rows, and writes the rest into the page.
//
//	iterator ─ header ─ range tombstones ─ rows ─ shadow, purge, filter, count ─ page, hash or timestamp
//
// Replicas with the same live data return the same bytes, whatever was collapsed, compacted or purged: the end of a
// page depends on the contents of pages only. The coordinator's digests rely on it.
package reading

import (
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"

	"cqld/row"
	"cqld/schema"
	"cqld/storage/backlog"
	"cqld/storage/bounds"
	"cqld/storage/database"
	"cqld/storage/failure"
	"cqld/storage/headers"
	"cqld/storage/lost"
	"cqld/storage/rowcache"
	"cqld/storage/tableinfo"

	"github.com/cockroachdb/pebble/v2"
)

// Options are the dependencies of reads on their engine. All fields are required, except Rows.
type Options struct {
	DB *database.DB
	// Logger receives warnings about reads of many tombstones.
	Logger *slog.Logger
	// Table returns the name of a table and how its tombstones are purged.
	Table   func(schema.StorageID) tableinfo.Info
	Dropped func(schema.StorageID) bool // whether a table was dropped; a read of it fails
	// Headers records which tables have headers of partitions, and Bounds the newest timestamps of rows. Both save
	// seeks.
	Headers *headers.Flags
	Bounds  *bounds.Bounds
	Lost    *lost.Ranges
	Rows    *rowcache.Cache  // nil: no rows are cached
	Hot     *backlog.Crowded // rows with many operands, which reads find
	Fold    func()           // collapses them; no iterator is open
	Dead    *backlog.Dead    // partitions of which reads meet many shadowed rows

	PageBytes    int // size at which a page ends
	FilterRows   int // that a page of a filtered read may omit
	ShadowedRows int // from which a partition is added to Dead
	SkipAfter    int // shadowed rows after which a read tries to skip the rest of a range tombstone
}

// Reads executes read commands. Its methods are safe for concurrent use. An iterator keeps files of the database, so
// none is open between two calls, except within Probe.
type Reads struct {
	opts    Options
	readers sync.Pool // *reader
	Counts  Counts
}

// Counts count events since the engine was opened. They only grow.
type Counts struct {
	Reads             atomic.Int64 // read commands
	TombstoneWarnings atomic.Int64 // reads that scanned many tombstones
	Looked            atomic.Int64 // entries scanned
	Seeks             atomic.Int64 // searches for a key in the database
	Canceled          atomic.Int64 // reads that ended early because their result was no longer wanted
}

// New returns the reads of an engine.
func New(o Options) *Reads {
	e := &Reads{opts: o}
	e.readers.New = func() any { return new(reader) }
	return e
}

// CountSeeks counts the seeks of an iterator, which the caller closes next.
func (e *Reads) CountSeeks(iter *pebble.Iterator) {
	stats := iter.Stats()
	e.Counts.Seeks.Add(int64(stats.ForwardSeekCount[pebble.InterfaceCall] +
		stats.ReverseSeekCount[pebble.InterfaceCall]))
}

// Counted counts what a read command examined, for the coordinator's statistics of rows and tombstones per read.
type Counted struct {
	Rows       int64 // live rows, also those that its filter omitted
	Tombstones int64
}

// Read is Engine.ReadCounted. The page is appended to dst. With an error, it returns dst unchanged, and n counts what
// was examined before the error.
func (e *Reads) Read(dst []byte, cmd *row.ReadCommand) (page []byte, n Counted, err error) {
	if err := e.opts.DB.Err(); err != nil {
		return dst, n, err
	}
	e.Counts.Reads.Add(1)
	r := e.readers.Get().(*reader)
	r.begin(e, dst, cmd)
	r.alone = true
	// If run panics, the iterator is closed, and the reader is not returned to the pool: its state is unknown.
	err = r.safely(r.run)
	if err == nil {
		err = e.opts.DB.Err()
	}
	// Checked after the read: a table that is dropped meanwhile loses its rows, and the read must not return some of
	// them.
	dropped := cmd.Repair == nil && e.opts.Dropped(cmd.Table)
	if err == nil && !dropped {
		page = r.finish()
	}
	if r.tombstones > tombstonesWarn && cmd.Repair == nil {
		e.Counts.TombstoneWarnings.Add(1)
		e.opts.Logger.Warn("read scanned many tombstones",
			"table", r.info.Name(cmd.Table), "live", r.live, "tombstones", r.tombstones)
	}
	// The counter is read before release, because the reader may belong to another read afterwards.
	looked := r.looked
	n = Counted{Rows: int64(r.live) + int64(r.omitted), Tombstones: int64(r.tombstones)}
	r.release()
	e.readers.Put(r)
	// Rows with many operands slow reads down, so the read that found them collapses them, now that its iterator is
	// closed.
	if e.opts.Hot.Len() > 0 {
		e.opts.Fold()
	}
	e.Counts.Looked.Add(looked)
	if dropped {
		return dst, n, &failure.UnknownTable{Table: cmd.Table}
	}
	if err != nil {
		// These errors are about the command or the data, and do not make the engine fail. All others come from the
		// disk.
		var tooMany *failure.TooManyTombstones
		var tooSmall *row.PageTooSmall
		if errors.As(err, &tooMany) || errors.As(err, &tooSmall) || errors.Is(err, failure.ErrInvalid) {
			return dst, n, err
		}
		if Canceled(err) {
			e.Counts.Canceled.Add(1)
			return dst, n, err
		}
		return dst, n, failure.Of(err)
	}
	return page, n, nil
}

// Lost returns the error of a read whose partition, or range, this node may have lost. It reads nothing.
func (e *Reads) Lost(cmd *row.ReadCommand) error {
	// checkLost needs only these fields, so no reader from the pool is necessary.
	r := reader{e: e, cmd: cmd}
	return r.checkLost()
}

// Probe calls f with a prober, which is valid during the call. The iterator of the prober is closed even if f panics.
func (e *Reads) Probe(f func(*Prober) error) error {
	p := Prober{e: e, r: e.readers.Get().(*reader)}
	err := p.r.safely(func() error { return f(&p) })
	e.readers.Put(p.r)
	return err
}
