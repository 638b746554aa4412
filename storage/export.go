package storage

import (
	"bytes"
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"cqld/internal/invariant"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/storage/block"
	"cqld/storage/database"
	"cqld/storage/failure"
	"cqld/storage/rowkey"
)

// Export appends to dst a block of the entries of a table with a token in tokens, which may wrap, and a key greater
// than after, which is nil for the first block. The block ends at about bytesMax. next is the after of the next
// block, or nil if this is the last one. of, unless nil, selects rows by their clustering; other rows are omitted, and
// count towards bytesMax.
func (e *Engine) Export(dst []byte, id schema.StorageID, tokens ring.Range, of func(clustering []byte) bool,
	after []byte, bytesMax int,
) (out, next []byte, err error) {
	if err := e.db.Err(); err != nil {
		return dst, nil, err
	}
	x := exporter{block: block.Writer{Bytes: dst}, of: of, bytesMax: len(dst) + bytesMax}
	for _, r := range tokens.Unwrap() {
		// A block without the lost rows would look complete to its receiver.
		if lost := e.lost.Overlaps(id, r); lost != nil {
			return dst, nil, lost.Err()
		}
		lower, upper, ok := rowkey.Bounds(nil, nil, id, r)
		if !ok || len(after) > 0 && bytes.Compare(after, upper) >= 0 {
			continue
		}
		if len(after) > 0 && bytes.Compare(after, lower) >= 0 {
			// The first key after the previous block.
			lower = append(bytes.Clone(after), 0)
		}
		// A block may cover the end of one range and the beginning of the next.
		if full, err := x.scan(e.db, lower, upper); full || err != nil {
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
func (x *exporter) scan(db *database.DB, lower, upper []byte) (full bool, err error) {
	iter, err := db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return false, err
	}
	for valid := iter.First(); valid; valid = iter.Next() {
		// Omitted entries count: a step is bounded even if nothing is selected.
		if len(x.block.Bytes)+x.omitted >= x.bytesMax {
			return true, iter.Close()
		}
		// The receiver asks for what follows the last position: keys must ascend, within a range and between two.
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
