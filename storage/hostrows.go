package storage

import (
	"bytes"
	"encoding/binary"
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"cqld/internal/invariant"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/storage/failure"
	"cqld/storage/latch"
	"cqld/storage/rowkey"
)

// Rows calls f with up to n headers and rows of a table as they are stored, from a position on: nil at first. It also
// ends when it has read a bounded number of bytes. next is the position to continue from, nil after the last. The
// arguments of f are valid during the call. It ends with failure.ErrStopped when the engine is being closed.
func (h *Host) Rows(table schema.StorageID, position []byte, n int, f func(*Entered)) (next []byte, err error) {
	if h.e.stopping() {
		return nil, failure.ErrStopped
	}
	if position == nil {
		position = rowkey.AppendTable(nil, table)
	}
	iter, err := h.e.db.NewIter(&pebble.IterOptions{LowerBound: position,
		UpperBound: rowkey.AppendTableEnd(nil, table)})
	if err != nil {
		return nil, failure.Of(err)
	}
	size := 0
	valid := iter.First()
	// Bounded by bytes as well: rows may be large.
	for ; valid && n > 0 && size < hostRowsBytes; n-- {
		x, err := enteredAt(iter)
		if err != nil {
			return nil, failure.Of(errors.Join(err, iter.Close()))
		}
		size += len(iter.Key()) + len(x.Value)
		// Range tombstones have no entries.
		if x.Kind != row.KindRangeTombstone {
			f(&x)
		}
		valid = iter.Next()
	}
	if valid {
		next = bytes.Clone(iter.Key())
		invariant.Check(bytes.Compare(position, next) < 0, "storage: a step over rows made no progress")
	}
	return next, failure.Of(errors.Join(iter.Error(), iter.Close()))
}

// StoredRows iterates over the stored entries of a table: headers, rows and range tombstones, in the order of their
// keys.
type StoredRows struct {
	e     *Engine
	iter  *pebble.Iterator
	begun bool
	n     int64
}

// StoredRows calls f with an iterator over the current entries of a table with keys in [start, end). These are keys
// without their table: token, length and bytes of the partition key, kind, clustering. nil means no bound. The
// iterator is valid during the call.
func (h *Host) StoredRows(table schema.StorageID, start, end []byte, f func(*StoredRows) error) (err error) {
	o := &pebble.IterOptions{
		LowerBound: append(rowkey.AppendTable(nil, table), start...), UpperBound: rowkey.AppendTableEnd(nil, table),
	}
	if end != nil {
		o.UpperBound = append(rowkey.AppendTable(nil, table), end...)
	}
	x := StoredRows{e: h.e}
	if x.iter, err = h.e.db.NewIter(o); err != nil {
		return failure.Of(err)
	}
	defer func() { // also when a panic passes
		err = errors.Join(err, failure.Of(x.iter.Close()))
		h.e.reads.Counts.Looked.Add(x.n)
	}()
	return f(&x)
}

// Next returns the next entry; false after the last. It is valid until the next call.
func (x *StoredRows) Next() (entered Entered, ok bool, err error) {
	// The first call positions the iterator.
	if x.begun {
		ok = x.iter.Next()
	} else {
		ok, x.begun = x.iter.First(), true
	}
	if !ok {
		return entered, false, failure.Of(x.iter.Error())
	}
	x.n++
	entered, err = enteredAt(x.iter)
	return entered, err == nil, failure.Of(err)
}

// TokenOfPosition returns the token of a position of Rows.
func TokenOfPosition(position []byte) (t ring.Token, ok bool) {
	if len(position) < rowkey.TableSize+rowkey.TokenSize {
		return 0, false
	}
	return ring.Token(binary.BigEndian.Uint64(position[rowkey.TableSize:]) ^ (1 << 63)), true
}

// enteredAt returns the entry at which an iterator is.
func enteredAt(iter *pebble.Iterator) (x Entered, err error) {
	table, k, suffix, err := rowkey.Parse(iter.Key())
	if err != nil {
		return x, err
	}
	value, err := iter.ValueAndErr()
	return Entered{Table: table, Key: k, Kind: row.EntryKind(suffix[0]), Clustering: suffix[1:], Value: value}, err
}

// Revise calls f with the stored value of a key of a partition, which is the header or a row; nil if there is none.
// It holds the write latch of the partition, so that no commit, ingestion or purge of it runs meanwhile; the changes
// of d are committed. Nothing is done while the disk is full.
func (h *Host) Revise(table schema.StorageID, key row.PartitionKey, kind row.EntryKind, clustering []byte,
	f func(d Derived, value []byte)) error {
	if h.e.disk.Full() {
		return nil
	}
	// The key is read and written under one latch, so that no change comes between.
	stripe := latch.StripeOf(key.Token)
	h.e.latches.Lock(stripe)
	defer h.e.latches.Unlock(stripe)
	at := rowkey.AppendSuffix(rowkey.AppendPartition(nil, table, key), kind, clustering, nil)
	err := h.e.db.Overwrite(func(b *pebble.Batch) error {
		return h.e.db.LookUp(at, func(value []byte) { f(Derived{batch: b, space: h.space}, value) })
	})
	return failure.Of(err)
}

// Lost returns the error of a read whose partition, or range, this node may have lost.
func (h *Host) Lost(cmd *row.ReadCommand) error {
	return h.e.reads.Lost(cmd)
}

// Failed returns the error with which the engine failed; nil if it has not.
func (h *Host) Failed() error { return h.e.db.Err() }

// Dropped returns the error of a read of a table that was dropped; nil if it was not.
func (h *Host) Dropped(table schema.StorageID) error {
	if h.e.isDropped(table) {
		return &failure.UnknownTable{Table: table}
	}
	return nil
}

// Stored returns the stored value of a key of a partition, which is the header or a row; nil if there is none.
func (h *Host) Stored(table schema.StorageID, key row.PartitionKey, kind row.EntryKind, clustering []byte) ([]byte,
	error) {
	var out []byte
	stored := rowkey.AppendSuffix(rowkey.AppendPartition(nil, table, key), kind, clustering, nil)
	err := h.e.db.LookUp(stored, func(value []byte) {
		if value != nil {
			out = append([]byte{}, value...)
		}
	})
	return out, failure.Of(err)
}
