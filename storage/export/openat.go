package export

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"math"
	"path"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/schema"
	"cqld/storage/database"
	"cqld/storage/failure"
	"cqld/storage/logarchive"
	"cqld/storage/overlay"
)

// PointInTime describes the data of one node at a moment: a checkpoint that was made before, and the archived log from
// the checkpoint to the moment.
type PointInTime struct {
	Base    vfs.FS // contains the checkpoint; is only read
	BaseDir string
	// Beginning is used without a base: the data began empty, and the log with this position.
	Beginning logarchive.Position
	// ScratchDir is an empty directory for the batches of the log. The caller removes it after Checkpoint.Close, or
	// after an error.
	Scratch    vfs.FS
	ScratchDir string
	// At is the moment, in microseconds of hybrid time. It must not be before the checkpoint was completed.
	At int64
	// Segments yields the Data of segments in the order of the log, up to one with Until >= At. Parts that occur twice,
	// or that the checkpoint contains, are skipped. It may yield an error, which ends OpenAt.
	Segments iter.Seq2[[]byte, error]
	// FlushBytes is the size of the batches after which they are flushed. At most four times as much is in memory,
	// unless a single batch is larger.
	FlushBytes int
	// Foreign is called, if it is not nil, for each table that ingested rows from outside the ring, with the hybrid
	// time. The log does not contain the rows. The checkpoint does if it is newer.
	Foreign func(table schema.StorageID, at int64)
	Log     *slog.Logger
}

// OpenAt opens a checkpoint with the batches of the log whose stamps are at most o.At. Errors: *logarchive.Gap if a
// part of the log is missing between the checkpoint and the moment, *logarchive.NotArchived if the log is not archived
// up to the moment, *logarchive.Malformed for a damaged segment. It uses memory for some segments and memtables, and
// space in the scratch directory for the batches.
//
// The batches get other sequence numbers than they had, in the same order. Pebble's own recovery would replay a log
// into memory before it flushes.
func OpenAt(ctx context.Context, o *PointInTime) (*Checkpoint, error) {
	disk, start, err := o.disk()
	if err != nil {
		return nil, err
	}
	db, err := database.OpenReplay(disk, o.ScratchDir, o.FlushBytes, o.Log)
	if err != nil {
		return nil, err
	}
	r := &replay{PointInTime: o, db: db, start: start}
	if err := r.run(ctx); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &Checkpoint{db.DB, db.Close}, nil
}

// disk returns the file system of the checkpoint with the scratch directory, and the first log that is needed.
func (o *PointInTime) disk() (disk vfs.FS, start uint64, err error) {
	if err := o.Scratch.MkdirAll(o.ScratchDir, 0o700); err != nil {
		return nil, 0, err
	}
	if o.Base == nil {
		return o.Scratch, o.Beginning.Log, nil
	}
	if err := checkFormat(o.Base, o.BaseDir); err != nil {
		return nil, 0, err
	}
	// The MANIFEST is read before the database is opened, because opening removes files that are no longer needed.
	if start, err = LogStart(o.Base, o.BaseDir); err != nil {
		return nil, 0, err
	}
	return overlay.New(overlay.Options{
		Base: o.Base, BaseDir: o.BaseDir, Scratch: o.Scratch, ScratchDir: o.ScratchDir,
		// The archive contains all of the logs.
		Hide: func(name string) bool { return strings.HasSuffix(name, ".log") },
	}), start, nil
}

// replay adds batches of the log to a checkpoint. One goroutine uses it. After an error the caller must close the
// database, which then contains only some of the batches.
type replay struct {
	*PointInTime
	db    *database.DB
	start uint64 // the first log that the checkpoint does not contain
	// at is the end of the last segment; zero before the first.
	at    logarchive.Position
	until int64 // greatest of the segments
	last  int64 // stamp of the last batch that has one
	// Bytes of the batches since the last flush.
	unflushed int
}

// run adds the batches, and flushes them.
func (r *replay) run(ctx context.Context) error {
	for data, err := range r.Segments {
		if err == nil {
			err = ctx.Err()
		}
		if err == nil {
			err = r.segment(ctx, data)
		}
		if err != nil {
			return err
		}
		// Later segments contain only batches after the moment.
		if r.until >= r.At {
			break
		}
	}
	if r.until < r.At {
		return &logarchive.NotArchived{At: r.At, Until: r.until}
	}
	return r.db.FlushUntil(ctx)
}

// segment adds the batches of a segment. It skips what earlier segments contained: an archiver that was interrupted may
// store a part of the log twice.
func (r *replay) segment(ctx context.Context, data []byte) error {
	s, err := logarchive.ReadHeader(data)
	if err != nil {
		return err
	}
	// The first segment must begin at the first log that is needed, or before it.
	reaches := r.at
	if r.at.IsZero() {
		reaches = logarchive.Position{Since: s.From.Since, Log: r.start}
		if r.Base == nil {
			reaches = r.Beginning
		}
	}
	if s.From.Compare(reaches) > 0 {
		return &logarchive.Gap{After: reaches, Oldest: s.From}
	}
	if s.From.Since != reaches.Since { // an archive that ended before this one began
		return nil
	}
	for record, err := range s.Records() {
		if err != nil {
			return err
		}
		// The checkpoint contains what older logs contain, and possibly later changes of the same keys.
		if record.End.Log < r.start || record.End.Compare(r.at) <= 0 {
			continue
		}
		if err := r.record(ctx, &record); err != nil {
			return err
		}
	}
	if s.To.Compare(reaches) >= 0 {
		r.at, r.until = s.To, max(r.until, s.Until)
	}
	return nil
}

// record adds a batch of the log, if it belongs to the moment.
func (r *replay) record(ctx context.Context, x *logarchive.Record) error {
	if x.Stamp != 0 {
		r.last = x.Stamp
	}
	// A batch without a stamp belongs to the last batch with one.
	if r.last > r.At {
		return nil
	}
	if x.Foreign != 0 && r.Foreign != nil {
		r.Foreign(x.Foreign, r.last)
	}
	for _, number := range x.Files {
		if err := r.ingest(ctx, number); err != nil {
			return err
		}
	}
	if x.Rows != nil {
		return r.apply(ctx, x.Rows)
	}
	if !x.Changes || len(x.Files) > 0 {
		return nil
	}
	return r.apply(ctx, x.Batch)
}

// apply adds a batch.
func (r *replay) apply(ctx context.Context, b []byte) error {
	// Pebble gives it a new sequence number, and adds it to a memtable, or to its queue if it is large.
	batch := r.db.NewBatch()
	// The batch is not copied, so a large one retains the memory of its segment.
	if err := batch.SetRepr(b); err != nil {
		return failure.Of(err)
	}
	if err := errors.Join(r.db.Apply(batch, pebble.NoSync), r.db.Err()); err != nil {
		return failure.Of(err)
	}
	if r.unflushed += len(b); r.unflushed < r.FlushBytes {
		return nil
	}
	// Flushing here reports errors: Apply would wait forever if no memtable could be flushed.
	r.unflushed = 0
	return r.db.FlushUntil(ctx)
}

// ingest adds a file that Pebble had ingested, and not yet added to its levels, when the checkpoint was made. Later
// files are not part of the checkpoint: their rows are in the log.
func (r *replay) ingest(ctx context.Context, number uint64) error {
	if r.Base == nil {
		return nil
	}
	name := fmt.Sprintf("%06d.sst", number)
	from := r.Base.PathJoin(r.BaseDir, name)
	if _, err := r.Base.Stat(from); err != nil {
		return nil
	}
	// Pebble links the file that it ingests, and changes its sequence number.
	to := r.Scratch.PathJoin(r.ScratchDir, "ingest-"+name)
	if err := vfs.CopyAcrossFS(r.Base, from, r.Scratch, to); err != nil {
		return failure.Of(err)
	}
	return failure.Of(r.db.Ingest(ctx, 0, []string{to})) // removes the file
}

// Tags of the fields at the beginning of a record in Pebble's MANIFEST.
const (
	tagComparator = 1
	tagLogNumber  = 2
)

// LogStart returns the number of the first log that a checkpoint does not contain completely in its other files.
// Segments for OpenAt must begin at the beginning of this log, or before it.
func LogStart(disk vfs.FS, dir string) (log uint64, err error) {
	needed, err := logNeeded(disk, dir)
	if err != nil {
		return 0, err
	}
	names, err := disk.List(dir)
	if err != nil {
		return 0, err
	}
	// A new database needs all logs, from 0 on. The checkpoint contains each log that it needs, and may contain others.
	first, found := uint64(math.MaxUint64), false
	for _, name := range names {
		if number, ok := logarchive.LogNumber(name); ok {
			first, found = min(first, number), true
		}
	}
	if found {
		needed = max(needed, first)
	}
	return needed, nil
}

// logNeeded returns the number of the first log that the MANIFEST needs.
func logNeeded(disk vfs.FS, dir string) (log uint64, err error) {
	description, err := pebble.Peek(dir, disk)
	if err != nil {
		return 0, failure.Of(err)
	}
	if !description.Exists {
		return 0, fmt.Errorf("storage: %s is not a checkpoint", dir)
	}
	// The path depends on the release of Pebble.
	name := disk.PathJoin(dir, path.Base(description.ManifestFilename))
	f, err := disk.Open(name, vfs.SequentialReadsOption)
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }() // read only
	for records := record.NewReader(f, 0); ; {
		edit, err := records.Next()
		if errors.Is(err, io.EOF) {
			return log, nil
		}
		var b []byte
		if err == nil {
			b, err = io.ReadAll(edit)
		}
		if err != nil {
			return 0, &failure.CorruptError{Path: name, Err: err}
		}
		// The last change that sets it counts.
		if n, ok := logNumber(b); ok {
			log = n
		}
	}
}

// logNumber returns the number of the first log that is needed after a change of the MANIFEST, if the change sets it.
// It precedes all other fields except the name of the comparer.
func logNumber(edit []byte) (number uint64, ok bool) {
	r := bytes.NewReader(edit)
	tag, err := binary.ReadUvarint(r)
	if err == nil && tag == tagComparator {
		var size uint64
		if size, err = binary.ReadUvarint(r); err == nil && size <= uint64(r.Len()) {
			_, err = r.Seek(int64(size), io.SeekCurrent)
		}
		if err == nil {
			tag, err = binary.ReadUvarint(r)
		}
	}
	if err != nil || tag != tagLogNumber {
		return 0, false
	}
	number, err = binary.ReadUvarint(r)
	return number, err == nil
}
