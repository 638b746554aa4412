package storage

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"cqld/internal/wire"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
)

// Data for another node is exported as blocks of entries in the order of a scan: no entry is merged, and no tombstone
// is omitted. The receiver builds an sstable from them (ingest.go). Each block is self-contained, and the next one
// starts after a key, so the sender keeps no state between two blocks.
//
//	block := (shared unshared key value)*   shared, unshared: uvarint   value := uvarint length, bytes
//
// A key is encoded as the length of the prefix that it shares with the previous key in the block, and the rest.

// Export appends to dst a block of the entries of a table with a token in tokens, which may wrap, and a key greater
// than after, which is nil for the first block. The block ends at about bytesMax. next is the after of the next
// block, or nil if this is the last one. of, unless nil, selects rows by their clustering; other rows are omitted, and count
// towards bytesMax.
func (e *Engine) Export(dst []byte, id schema.StorageID, tokens ring.Range, of func(clustering []byte) bool, after []byte, bytesMax int,
) (block, next []byte, err error) {
	if err := e.failedErr(); err != nil {
		return dst, nil, err
	}
	x := exporter{block: dst, of: of, bytesMax: len(dst) + bytesMax}
	for _, r := range tokens.Unwrap() {
		if lost := e.lost.overlaps(id, r); lost != nil {
			return dst, nil, lost.lostError()
		}
		lower, upper, ok := tokenBounds(nil, nil, id, r)
		if !ok || len(after) > 0 && bytes.Compare(after, upper) >= 0 {
			continue
		}
		if len(after) > 0 && bytes.Compare(after, lower) >= 0 {
			lower = append(bytes.Clone(after), 0)
		}
		if full, err := x.scan(e.db, lower, upper); full || err != nil {
			return x.block, x.position, e.failure(err)
		}
	}
	return x.block, nil, nil
}

// exporter builds one block.
type exporter struct {
	block    []byte
	of       func(clustering []byte) bool // nil means all rows
	bytesMax int                          // of block and omitted
	omitted  int                          // bytes of omitted entries
	last     []byte                       // the previous key in the block
	position []byte                       // the last key scanned, whether or not it was omitted
}

// scan adds the entries between lower and upper. full means that the block is full.
func (x *exporter) scan(db *pebble.DB, lower, upper []byte) (full bool, err error) {
	iter, err := db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return false, err
	}
	for valid := iter.First(); valid; valid = iter.Next() {
		if len(x.block)+x.omitted >= x.bytesMax {
			return true, iter.Close()
		}
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
		x.add(iter.Key(), value)
	}
	return false, errors.Join(iter.Error(), iter.Close())
}

// selects reports whether a key is of a row with a clustering that of selects, or not of a row.
func selects(of func(clustering []byte) bool, key []byte) (bool, error) {
	_, _, suffix, err := parseKey(key)
	if err != nil {
		return false, err
	}
	return row.EntryKind(suffix[0]) != row.KindRow || of(suffix[1:]), nil
}

func (x *exporter) add(key, value []byte) {
	shared := 0
	for shared < len(x.last) && shared < len(key) && x.last[shared] == key[shared] {
		shared++
	}
	x.block = wire.AppendUvarint(x.block, uint64(shared))
	x.block = wire.AppendUvarint(x.block, uint64(len(key)-shared))
	x.block = append(x.block, key[shared:]...)
	x.block = wire.AppendUvarint(x.block, uint64(len(value)))
	x.block = append(x.block, value...)
	x.last = append(x.last[:shared], key[shared:]...)
}

// EditBlock returns a copy of a block of Export in which edit has changed the rows. edit may modify the row, and must not
// retain it.
func EditBlock(block []byte, edit func(key row.PartitionKey, r *row.Row) error) ([]byte, error) {
	b, x := blockReader{c: wire.NewCursor(block)}, exporter{}
	r := row.NewRow()
	for b.next() {
		_, key, suffix, err := parseKey(b.key)
		if err != nil {
			return nil, err
		}
		value := b.value
		if row.EntryKind(suffix[0]) == row.KindRow {
			r.Reset()
			if err := row.DecodeRow(r, value); err != nil {
				return nil, &CorruptError{Err: err}
			}
			r.Clustering = suffix[1:]
			if err := edit(key, r); err != nil {
				return nil, err
			}
			value = row.AppendRow(nil, r)
		}
		x.add(b.key, value)
	}
	if err := b.c.Err(); err != nil {
		return nil, fmt.Errorf("%w block: %w", ErrInvalid, err)
	}
	return x.block, nil
}

// blockReader iterates over a block.
type blockReader struct {
	c     wire.Cursor
	key   []byte // valid until the next call
	value []byte
}

func (b *blockReader) next() bool {
	if b.c.Len() == 0 {
		return false
	}
	shared, rest := b.c.Uvarint(), b.c.Uvarint()
	if shared > uint64(len(b.key)) || rest > uint64(b.c.Len()) {
		b.c.Fail(wire.ErrMalformed)
		return false
	}
	b.key = append(b.key[:shared], b.c.Take(int(rest))...)
	size := b.c.Uvarint()
	if size > uint64(b.c.Len()) {
		b.c.Fail(wire.ErrMalformed)
		return false
	}
	b.value = b.c.Take(int(size))
	return b.c.Err() == nil
}
