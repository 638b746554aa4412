package storage

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"cqld/internal/env"
	"cqld/internal/invariant"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/storage/failure"
	"cqld/storage/latch"
	"cqld/storage/reading"
	"cqld/storage/rowkey"
	"cqld/storage/step"
)

// Host is the interface through which a maintainer uses its engine. Its methods are safe for concurrent use. Those
// that write or wait must not be called in a method of Maintainer, unless it says so.
type Host struct {
	e     *Engine
	space KeySpace
}

// Marks calls f with each table that is marked.
func (h *Host) Marks(f func(table schema.StorageID)) error {
	return h.MarkValues(func(table schema.StorageID, _ []byte) { f(table) })
}

// MarkValues calls f with each mark and its value, which is valid during the call.
func (h *Host) MarkValues(f func(id schema.StorageID, value []byte)) error {
	prefix := ownKey(h.space.Marks)
	return h.e.db.Scan(prefix, func(key, value []byte) error {
		if len(key) != len(prefix)+rowkey.TableSize {
			return failure.BadKey(key)
		}
		f(schema.StorageID(binary.BigEndian.Uint32(key[len(prefix):])), value)
		return nil
	})
}

// HasRows reports whether a table has any stored entry; it returns true if the read fails. It may be called in Enter
// and Ingest.
func (h *Host) HasRows(table schema.StorageID) bool {
	// An error counts as rows, because building the index of an empty table costs little.
	empty, err := h.e.db.Empty(rowkey.AppendTable(nil, table), rowkey.AppendTableEnd(nil, table))
	return !empty || err != nil
}

// Write commits a batch of entries and marks. With sync it is on disk when Write returns. It may be called in Ingest
// and LoseEntries.
func (h *Host) Write(sync bool, fill func(Derived) error) error {
	o := pebble.NoSync
	if sync {
		o = pebble.Sync
	}
	return h.e.writeDerived(o, func(b *pebble.Batch) error { return fill(Derived{batch: b, space: h.space}) })
}

// Writable returns an error if writes are currently refused, because the engine has failed or the disk is full.
func (h *Host) Writable() error { return h.e.writable() }

// Barrier waits for the commits in progress. When it returns, every write either was committed before, or calls
// Maintains after Barrier was called and therefore sees the current state of the maintainer.
func (h *Host) Barrier() error {
	if err := h.e.Drain(); err != nil {
		return err
	}
	// Acquiring and releasing the lock waits for the commit that held it.
	h.e.commits.inline.Lock() // as Drain, for an engine without a committer
	h.e.commits.inline.Unlock()
	return nil
}

// Walk calls f with up to n partitions that have stored entries, from a position on: nil at first. next is the
// position to continue from, nil after the last partition. The key is valid during the call. It ends with
// failure.ErrStopped when the engine is being closed.
func (h *Host) Walk(table schema.StorageID, position []byte, n int, f func(row.PartitionKey)) (next []byte, err error) {
	if h.e.stopping() {
		return nil, failure.ErrStopped
	}
	// The first key of the table.
	if position == nil {
		position = rowkey.AppendTable(nil, table)
	}
	iter, err := h.e.db.NewIter(&pebble.IterOptions{LowerBound: position,
		UpperBound: rowkey.AppendTableEnd(nil, table)})
	if err != nil {
		return nil, failure.Of(err)
	}
	valid := iter.First()
	for ; valid && n > 0; n-- {
		_, k, suffix, err := rowkey.Parse(iter.Key())
		if err != nil {
			return nil, errors.Join(err, iter.Close())
		}
		invariant.Check(bytes.Compare(next, iter.Key()) <= 0, "storage: a walk over partitions went backwards")
		// One seek for each partition skips its rows.
		next = append(append(next[:0], iter.Key()[:len(iter.Key())-len(suffix)]...), rowkey.KindEnd)
		f(k)
		valid = step.To(iter, next)
	}
	// The walk has reached the end of the table.
	if !valid {
		next = nil
	}
	h.e.reads.CountSeeks(iter)
	return next, failure.Of(errors.Join(iter.Error(), iter.Close()))
}

// Emptied calls Emptied of all maintainers if a partition has no stored entry, unless the disk is full.
func (h *Host) Emptied(table schema.StorageID, key row.PartitionKey) error {
	// Removing entries writes as well, so it is postponed until the maintainer's next sweep.
	if h.e.disk.Full() {
		return nil
	}
	return failure.Of(h.e.derived.Emptied(table, key))
}

// Latched calls f under the write latches of all partitions: no commit, ingestion or purge runs meanwhile.
func (h *Host) Latched(f func()) {
	h.e.latches.Lock(latch.AllStripes)
	defer h.e.latches.Unlock(latch.AllStripes)
	f()
}

// Overlaps reports whether entries of a table may lie between two keys of the engine (Maintainer.LoseEntries).
func (h *Host) Overlaps(table schema.StorageID, first, last []byte) bool {
	prefix := h.space.appendTable(nil, table)
	return bytes.Compare(prefix, last) <= 0 && bytes.Compare(rowkey.PrefixEnd(prefix), first) > 0
}

// NameOf returns the name of a table, or its number.
func (h *Host) NameOf(table schema.StorageID) string { return h.e.nameOf(table) }

// Entries opens an iterator over the entries of a table from start on and before end; nil means no bound. It shows the
// entries as they are now. The caller closes it.
func (h *Host) Entries(table schema.StorageID, start, end []byte) (*Entries, error) {
	o := &pebble.IterOptions{LowerBound: append(h.space.appendTable(nil, table), start...)}
	if o.UpperBound = rowkey.PrefixEnd(h.space.appendTable(nil, table)); end != nil {
		o.UpperBound = append(h.space.appendTable(nil, table), end...)
	}
	// Pebble refuses reversed bounds; the answer is empty.
	if bytes.Compare(o.LowerBound, o.UpperBound) >= 0 {
		o.UpperBound = slices.Clone(o.LowerBound)
	}
	iter, err := h.e.db.NewIter(o)
	if err != nil {
		return nil, failure.Of(err)
	}
	return &Entries{e: h.e, iter: iter, prefix: o.LowerBound[:derivedFixed:derivedFixed]}, nil
}

// Entries iterates over entries of a maintainer. Its methods, except Close, have the contracts of pebble.Iterator.
type Entries struct {
	e      *Engine
	iter   *pebble.Iterator
	prefix []byte // of the keys of the table
	seek   []byte // memory of a key
}

// First moves to the first entry.
func (x *Entries) First() bool { return x.iter.First() }

// Last moves to the last entry.
func (x *Entries) Last() bool { return x.iter.Last() }

// Seek moves to the first entry whose key is not before key.
func (x *Entries) Seek(key []byte) bool { return x.iter.SeekGE(x.full(key)) }

// SeekBefore moves to the last entry whose key is before key.
func (x *Entries) SeekBefore(key []byte) bool { return x.iter.SeekLT(x.full(key)) }

// full returns the stored form of the key of an entry, valid until the next call.
func (x *Entries) full(key []byte) []byte {
	x.seek = append(append(x.seek[:0], x.prefix...), key...)
	return x.seek
}

// Next moves to the next entry.
func (x *Entries) Next() bool { return x.iter.Next() }

// Prev moves to the previous entry.
func (x *Entries) Prev() bool { return x.iter.Prev() }

// Key is the key of the entry, valid until the iterator moves.
func (x *Entries) Key() []byte { return x.iter.Key()[derivedFixed:] }

// Value is the value of the entry, valid until the iterator moves.
func (x *Entries) Value() ([]byte, error) {
	value, err := x.iter.ValueAndErr()
	return value, failure.Of(err)
}

// Close closes the iterator and returns the error of the iteration. It may be called once.
func (x *Entries) Close() error {
	// After Close, Pebble's pool may have given the iterator to another read.
	invariant.Check(x.iter != nil, "storage: an iterator over entries was closed twice")
	iter := x.iter
	x.iter = nil
	return failure.Of(errors.Join(iter.Error(), iter.Close()))
}

// Probe calls f with a prober, which is valid during the call.
func (h *Host) Probe(f func(*reading.Prober) error) error { return h.e.reads.Probe(f) }

// PartitionsRead requests the partition keys of a table in the order of their bytes, from From (inclusive) to To
// (exclusive), where nil means no bound. Reversed starts at the end.
type PartitionsRead struct {
	Table    schema.StorageID
	From, To []byte
	Reversed bool
	Limit    int   // most keys in the answer
	Now      int64 // seconds; decides what has expired
	// Dead includes partitions without a live row: no row is read.
	Dead bool
	// Holds, if it is not nil, reports which tokens are wanted; other partitions are left out.
	Holds func(ring.Token) bool
	// Cancel ends the step early, with an error; nil means that nothing does.
	Cancel *env.Cancel
}

// PartitionsPage is the answer to a PartitionsRead: every wanted partition that has a live row, up to and including
// Last. A live static row alone does not count. A partition with too many tombstones to decide is included.
type PartitionsPage struct {
	Keys    [][]byte
	Last    []byte // the last key that was looked at; nil when there is none
	More    bool   // there may be others after Last
	Scanned int    // keys that were looked at
}

// PartitionLister lists the partition keys of tables in the order of their bytes. A listing consists of bounded
// steps: a step ends at the Limit, or after a bounded amount of work; the next one begins after Last. It returns
// failure.ErrInvalid for a table whose keys it does not index.
type PartitionLister interface {
	Partitions(q *PartitionsRead) (PartitionsPage, error)
}

// noLister is the PartitionLister of an engine without one.
type noLister struct{}

// Partitions implements PartitionLister.
func (noLister) Partitions(q *PartitionsRead) (PartitionsPage, error) {
	return PartitionsPage{}, fmt.Errorf("%w: the keys of table number %d are not kept in order",
		failure.ErrInvalid, q.Table)
}

// Partitions is a step of a listing by Options.Lister. It fails for lost ranges and dropped tables as Read does.
func (e *Engine) Partitions(q *PartitionsRead) (page PartitionsPage, err error) {
	if err := e.db.Err(); err != nil {
		return page, err
	}
	// Keys are in the order of their bytes, so that each step covers all tokens.
	if lost := e.lost.Overlaps(q.Table, ring.FullRange()); lost != nil {
		return page, lost.Err()
	}
	page, err = e.opts.Lister.Partitions(q)
	// The iterators of the step are closed, so hot rows can be collapsed now.
	if e.hot.Len() > 0 {
		e.foldHot()
	}
	if reading.Canceled(err) {
		e.reads.Counts.Canceled.Add(1)
		return PartitionsPage{}, err
	}
	if failed := e.db.Err(); failed != nil {
		return page, failed
	}
	if e.isDropped(q.Table) { // keys may have been removed while the listing ran
		return PartitionsPage{}, &failure.UnknownTable{Table: q.Table}
	}
	return page, err
}
