// Package export reads the stored entries of a table as blocks, from an open database or from a checkpoint. Entries are
// in the order of their keys, none is merged, and no tombstone is omitted.
package export

import (
	"bytes"
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"cqld/internal/invariant"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/storage/block"
	"cqld/storage/failure"
	"cqld/storage/rowkey"
)

// Query selects the entries of a block.
type Query struct {
	Table  schema.StorageID
	Tokens ring.Range                   // may wrap
	Of     func(clustering []byte) bool // selects rows; others count towards BytesMax. nil means all rows
	// After precedes the entries; nil for the first block.
	After    []byte
	BytesMax int // the block ends at about this size
	// Refuse returns why a range cannot be exported, or nil. It may be nil.
	Refuse func(ring.Range) error
}

// Append appends a block of the entries that q selects to dst. next is the After of the next block, or nil if this is
// the last one.
func Append(db *pebble.DB, dst []byte, q *Query) (out, next []byte, err error) {
	x := exporter{block: block.Writer{Bytes: dst}, of: q.Of, bytesMax: len(dst) + q.BytesMax}
	for _, r := range q.Tokens.Unwrap() {
		if q.Refuse != nil {
			if err := q.Refuse(r); err != nil {
				return dst, nil, err
			}
		}
		lower, upper, ok := rowkey.Bounds(nil, nil, q.Table, r)
		if !ok || len(q.After) > 0 && bytes.Compare(q.After, upper) >= 0 {
			continue
		}
		if len(q.After) > 0 && bytes.Compare(q.After, lower) >= 0 {
			// The first key after the previous block.
			lower = append(bytes.Clone(q.After), 0)
		}
		// A block may cover the end of one range and the beginning of the next.
		if full, err := x.scan(db, lower, upper); full || err != nil {
			return x.block.Bytes, x.position, failure.Of(err)
		}
	}
	return x.block.Bytes, nil, nil
}

// exporter builds one block.
type exporter struct {
	block    block.Writer
	of       func(clustering []byte) bool // nil means all rows
	bytesMax int                          // of block and omitted
	omitted  int                          // bytes of omitted entries
	position []byte                       // the last key scanned, whether or not it was omitted
}

// scan adds the entries between lower and upper. full means that the block is full.
func (x *exporter) scan(db *pebble.DB, lower, upper []byte) (full bool, err error) {
	iter, err := db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return false, err
	}
	for valid := iter.First(); valid; valid = iter.Next() {
		// Omitted entries count as well, so that a step is bounded even if no entry is selected.
		if len(x.block.Bytes)+x.omitted >= x.bytesMax {
			return true, iter.Close()
		}
		// The receiver requests the entries after the last position, so keys must ascend, within a range and from one
		// range to the next.
		invariant.Check(!invariant.Enabled || bytes.Compare(x.position, iter.Key()) < 0,
			"storage: an export went backwards")
		x.position = append(x.position[:0], iter.Key()...)
		if x.of != nil {
			selected, err := selects(x.of, iter.Key())
			if err != nil {
				return false, errors.Join(err, iter.Close())
			}
			if !selected {
				x.omitted += len(iter.Key())
				continue
			}
		}
		value, err := iter.ValueAndErr()
		if err != nil {
			return false, errors.Join(err, iter.Close())
		}
		x.block.Add(iter.Key(), value)
	}
	return false, errors.Join(iter.Error(), iter.Close())
}

// selects reports whether a key is of a row with a clustering selected by of, or not of a row.
func selects(of func(clustering []byte) bool, key []byte) (bool, error) {
	_, _, suffix, err := rowkey.Parse(key)
	if err != nil {
		return false, err
	}
	return row.EntryKind(suffix[0]) != row.KindRow || of(suffix[1:]), nil
}
