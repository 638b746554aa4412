package reading

import (
	"errors"
	"fmt"
	"math"

	"cqld/internal/env"
	"cqld/internal/invariant"
	"cqld/row"
	"cqld/schema"
	"cqld/storage/failure"
	"cqld/storage/rowkey"
)

// Prober determines whether partitions have live rows. All of its partitions are read with one iterator, opened by
// the first call of Alive. It is used by one goroutine, in Reads.Probe. It serves listings and counts of partitions,
// in which a new iterator for each would cost more than the read.
type Prober struct {
	e *Reads
	// r is borrowed from the pool for the life of the prober; its iterator moves from partition to partition.
	r *reader
	// scratch is the memory of pages in Alive, which are discarded.
	scratch []byte
	// tombstones is the sum over all partitions so far.
	tombstones int
}

// Exhausted reports whether the prober has scanned as many tombstones as one read may. The caller then ends its step,
// as one read of all partitions would have failed.
func (p *Prober) Exhausted() bool { return p.tombstones >= failure.TombstonesMax }

// Alive reports whether a partition has a live row at the time now (seconds); nothing reports that a read would return
// nothing of it. A partition with too many tombstones to decide counts as alive.
func (p *Prober) Alive(table schema.StorageID, k row.PartitionKey, now int64, cancel *env.Cancel) (live, nothing bool,
	err error) {
	// With a nil key, the command would read a range.
	if k.Bytes == nil {
		k.Bytes = []byte{}
	}
	cmd := row.ReadCommand{Table: table, Key: k, Slices: []row.Slice{row.AllRows()}, Limits: row.Limits{Rows: 1},
		Now: now, Cancel: cancel}
	r := p.r
	r.begin(p.e, p.scratch[:0], &cmd)
	r.pageBytes = math.MaxInt // the bound of tombstones is enough
	err = r.run()
	p.tombstones += r.tombstones
	invariant.Check(r.live <= 1, "reading: a probe read more than the row that it asked for")
	// A page that consists of a header or of tombstones does not count as nothing, because other replicas need them.
	live, nothing = r.live > 0, r.w.Len() == 0
	// One large row must not keep its memory for all following partitions.
	if p.scratch = r.w.Finish(false); cap(p.scratch) > probeBytesKept {
		p.scratch = nil
	}
	r.release()
	var tooMany *failure.TooManyTombstones
	switch {
	// An error would make listings impossible as long as the partition exists. A client that reads the partition
	// receives the error.
	case errors.As(err, &tooMany):
		return true, false, nil
	case err != nil && !Canceled(err):
		err = failure.Of(err)
	}
	return live, nothing, err
}

// Read appends the page of a command for one partition to dst, as Engine.Read does. It is read with the iterator of
// the prober. Unlike Reads.Read, it neither checks whether the table was dropped nor logs tombstones.
func (p *Prober) Read(dst []byte, cmd *row.ReadCommand) (page []byte, err error) {
	r := p.r
	r.begin(p.e, dst, cmd)
	r.pageBytes = math.MaxInt // a row; pages of partitions are read by Engine.Read
	// Single rows are found by their whole keys, with the filter and with bounds that do not change.
	if hasRange(cmd.Slices) {
		err = r.run()
	} else {
		err = r.readRows()
	}
	if err == nil {
		// finish is called before release, which drops the page.
		page = r.finish()
	}
	p.tombstones += r.tombstones
	p.e.Counts.Looked.Add(r.looked)
	r.release()
	if err != nil {
		// These errors are about the command or the data; the engine does not fail because of them.
		var tooMany *failure.TooManyTombstones
		if !errors.As(err, &tooMany) && !errors.Is(err, failure.ErrInvalid) && !Canceled(err) {
			err = failure.Of(err)
		}
		return dst, err
	}
	return page, nil
}

// readRows is run for a command whose slices are single rows of one partition.
func (r *reader) readRows() error {
	if err := r.checkLost(); err != nil {
		return err
	}
	if err := r.openRows(); err != nil {
		return err
	}
	return r.readOpened()
}

// openRows creates the iterator for rows that are found by their whole keys. Its bounds enclose the table, so that
// they stay from one partition to the next, and a search for a later key begins where the last one ended. lower is the
// key of the header.
func (r *reader) openRows() error {
	if len(r.cmd.Key.Bytes) > rowkey.PartitionBytesMax {
		return fmt.Errorf("%w: partition key of %d bytes", failure.ErrInvalid, len(r.cmd.Key.Bytes))
	}
	// The iterator of the previous row is reused, unless it belongs to another table or has the bounds of a
	// partition.
	if r.iter == nil || r.wide != r.cmd.Table {
		r.lower, r.upper = rowkey.AppendTable(r.lower[:0], r.cmd.Table), rowkey.AppendTableEnd(r.upper[:0], r.cmd.Table)
		if err := r.open(); err != nil {
			return err
		}
		r.wide = r.cmd.Table
	}
	r.prefix = rowkey.AppendPartition(r.prefix[:0], r.cmd.Table, r.cmd.Key)
	r.lower = append(append(r.lower[:0], r.prefix...), byte(row.KindHeader))
	return nil
}
