// Package block encodes entries of storage for another node: blocks in the order of a scan, in which no entry is merged
// and no tombstone is omitted. Each block is self-contained, and the next one starts after a key, so that the sender
// keeps no state between two blocks.
//
//	block := (shared unshared key value)*   shared, unshared: uvarint   value := uvarint length, bytes
//
// A key is encoded as the length of the prefix that it shares with the previous key in the block, and the rest.
package block

import (
	"bytes"
	"fmt"

	"cqld/internal/invariant"
	"cqld/internal/wire"
	"cqld/row"
	"cqld/schema"
	"cqld/storage/rowkey"
)

// Writer appends entries to a block. The zero value is an empty block; the caller takes Bytes when they are large
// enough.
type Writer struct {
	Bytes []byte
	last  []byte // the previous key in the block
}

// Add appends an entry, whose key must be greater than the previous one.
func (w *Writer) Add(key, value []byte) {
	// The next block starts after the last key, so an entry out of order would be sent twice or not at all.
	invariant.Check(bytes.Compare(w.last, key) < 0, "block: a key is not greater than the previous one")
	shared := 0
	for shared < len(w.last) && shared < len(key) && w.last[shared] == key[shared] {
		shared++
	}
	w.Bytes = wire.AppendUvarint(w.Bytes, uint64(shared))
	w.Bytes = wire.AppendUvarint(w.Bytes, uint64(len(key)-shared))
	w.Bytes = append(w.Bytes, key[shared:]...)
	w.Bytes = wire.AppendUvarint(w.Bytes, uint64(len(value)))
	w.Bytes = append(w.Bytes, value...)
	w.last = append(w.last[:shared], key[shared:]...)
}

// Edit returns a copy of a block in which edit has changed the rows. edit may modify the row, and must not retain it.
// An error of edit is returned as it is. Headers and range tombstones are copied.
func Edit(block []byte, edit func(key row.PartitionKey, r *row.Row) error) ([]byte, error) {
	b, x := NewReader(block), Writer{}
	r := row.NewRow()
	for b.Next() {
		_, key, suffix, err := rowkey.Parse(b.Key)
		if err != nil {
			return nil, err
		}
		value := b.Value
		if row.EntryKind(suffix[0]) == row.KindRow {
			r.Reset()
			if err := row.DecodeRow(r, value); err != nil {
				return nil, err
			}
			r.Clustering = suffix[1:]
			if err := edit(key, r); err != nil {
				return nil, err
			}
			value = row.AppendRow(nil, r)
		}
		// An edit changes no key, so the order stays.
		x.Add(b.Key, value)
	}
	if err := b.Err(); err != nil {
		return nil, fmt.Errorf("block: %w", err)
	}
	return x.Bytes, nil
}

// Rewrite appends to dst a copy of a block with the keys of another table, in which edit has changed the rows and the
// headers. Those that are empty then are omitted. edit may modify the row, and must not retain it. If edit is nil,
// values are copied without being decoded. block and dst must not overlap.
func Rewrite(dst, block []byte, table schema.StorageID, edit func(*row.Row)) ([]byte, error) {
	b, x := NewReader(block), Writer{Bytes: dst}
	r := row.NewRow()
	var key, encoded []byte
	for b.Next() {
		_, _, suffix, err := rowkey.Parse(b.Key)
		if err != nil {
			return nil, err
		}
		value := b.Value
		// A range tombstone has no columns.
		kind := row.EntryKind(suffix[0])
		if edit != nil && (kind == row.KindRow || kind == row.KindHeader) {
			r.Reset()
			if err := row.DecodeRow(r, value); err != nil {
				return nil, err
			}
			if edit(r); r.Empty() {
				continue
			}
			encoded = row.AppendRow(encoded[:0], r)
			value = encoded
		}
		// The number of the table is the same prefix of all keys, so the order stays.
		key = append(rowkey.AppendTable(key[:0], table), b.Key[rowkey.TableSize:]...)
		x.Add(key, value)
	}
	if err := b.Err(); err != nil {
		return nil, fmt.Errorf("block: %w", err)
	}
	return x.Bytes, nil
}

// Reader iterates over a block. Value points into the block, Key into memory of the reader.
type Reader struct {
	c     wire.Cursor
	Key   []byte // valid until the next call
	Value []byte
}

// NewReader returns a reader that is at the start of a block.
func NewReader(block []byte) Reader { return Reader{c: wire.NewCursor(block)} }

// Err returns the error of a malformed block after Next has returned false, or nil.
func (b *Reader) Err() error { return b.c.Err() }

// Next reads the next entry. It returns false at the end of the block, and if the block is malformed.
func (b *Reader) Next() bool {
	if b.c.Len() == 0 {
		return false
	}
	shared, rest := b.c.Uvarint(), b.c.Uvarint()
	// The block comes from another node, so each length is compared with the bytes that are left before it is used.
	if shared > uint64(len(b.Key)) || rest > uint64(b.c.Len()) {
		b.c.Fail(wire.ErrMalformed)
		return false
	}
	b.Key = append(b.Key[:shared], b.c.Take(int(rest))...)
	size := b.c.Uvarint()
	if size > uint64(b.c.Len()) {
		b.c.Fail(wire.ErrMalformed)
		return false
	}
	b.Value = b.c.Take(int(size))
	return b.c.Err() == nil
}
