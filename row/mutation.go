package row

import (
	"bytes"
	"slices"

	"cqld/internal/wire"
	"cqld/ring"
	"cqld/schema"
)

// PartitionKey is a serialized partition key with its token. For a key of one column, Bytes is the value. For several
// columns it contains, for each, a 2-byte length, the value and 0x00.
type PartitionKey struct {
	Token ring.Token
	Bytes []byte
}

// NewPartitionKey returns the key with its Murmur3 token.
func NewPartitionKey(b []byte) PartitionKey { return PartitionKey{ring.Murmur3(b), b} }

// Compare orders keys as the ring and storage do: by token, and keys with the same token, which are rare, by length
// and then by bytes.
func (k PartitionKey) Compare(o PartitionKey) int {
	switch {
	case k.Token < o.Token:
		return -1
	case k.Token > o.Token:
		return 1
	// The key of storage contains the length before the bytes, and this is its order.
	case len(k.Bytes) != len(o.Bytes):
		return len(k.Bytes) - len(o.Bytes)
	}
	return bytes.Compare(k.Bytes, o.Bytes)
}

// RangeTombstone deletes the rows with a clustering in [Start, End).
type RangeTombstone struct {
	Start, End []byte
	Deletion   Deletion
}

// EntryKind identifies the part of a partition to which an entry belongs. Storage keys sort by it.
type EntryKind byte

// The kinds of entries.
const (
	KindHeader EntryKind = iota
	KindRangeTombstone
	KindRow
)

// Mutation is a change of one partition of one table, in encoded form. Package query builds it once, and the same
// bytes are sent to other nodes and written to storage. It is applied atomically. A zero Mutation with Table and Key
// set changes nothing.
//
//	entries := (kind [key] value)*   key := len start [len end]   value := len row
type Mutation struct {
	Table schema.StorageID
	Key   PartitionKey
	// entries contains the encoded changes. They must not be modified after the mutation was sent, because several
	// goroutines read them.
	entries []byte
}

// Reset makes m an empty mutation of another partition, and keeps its memory.
func (m *Mutation) Reset(table schema.StorageID, key PartitionKey) {
	m.Table, m.Key, m.entries = table, key, m.entries[:0]
}

// Empty reports whether m changes nothing.
func (m *Mutation) Empty() bool { return len(m.entries) == 0 }

// Size returns the number of bytes of the changes and the key.
func (m *Mutation) Size() int { return len(m.entries) + len(m.Key.Bytes) }

// AddHeader adds the partition's deletion and static cells. It encodes r, which the caller may then change.
func (m *Mutation) AddHeader(r *Row) {
	m.entries = append(m.entries, byte(KindHeader))
	m.addValue(r)
}

// AddRow adds a change of the row r.Clustering. The cells of r must be sorted.
func (m *Mutation) AddRow(r *Row) {
	m.entries = append(m.entries, byte(KindRow))
	m.addBytes(r.Clustering)
	m.addValue(r)
}

// AddEncodedHeader is AddHeader for a row that AppendRow has encoded.
func (m *Mutation) AddEncodedHeader(encoded []byte) {
	m.entries = append(m.entries, byte(KindHeader))
	m.addBytes(encoded)
}

// AddEncodedRow adds a change of the row clustering, which AppendRow has encoded.
func (m *Mutation) AddEncodedRow(clustering, encoded []byte) {
	m.entries = append(m.entries, byte(KindRow))
	m.addBytes(clustering)
	m.addBytes(encoded)
}

// AddRangeTombstone adds the deletion of an interval of rows, and marks the header so that reads search for range
// tombstones.
func (m *Mutation) AddRangeTombstone(rt RangeTombstone) {
	header, deletion := NewRow(), NewRow()
	// Reads look for range tombstones only if the flag is set, see storage.
	header.HasRangeTombstones = true
	// Add the flag in the same mutation, so that no reader sees the tombstone without it.
	m.AddHeader(header)
	deletion.Deletion = rt.Deletion
	m.entries = append(m.entries, byte(KindRangeTombstone))
	m.addBytes(rt.Start)
	m.addBytes(rt.End)
	m.addValue(deletion)
}

// addBytes appends the length of b and b.
func (m *Mutation) addBytes(b []byte) {
	m.entries = append(wire.AppendUvarint(m.entries, uint64(len(b))), b...)
}

// addValue appends the size of r's encoding and the encoding.
func (m *Mutation) addValue(r *Row) {
	m.entries = appendSizedRow(m.entries, r)
}

// Grow reserves memory for n more bytes of changes.
func (m *Mutation) Grow(n int) { m.entries = slices.Grow(m.entries, n) }

// Trim frees the memory of the changes if it is more than most bytes. The mutation is empty then.
func (m *Mutation) Trim(most int) {
	if cap(m.entries) > most {
		m.entries = nil
	}
}

// Append adds the changes of o, a mutation of the same partition. Changes of one row by both are merged when they are
// applied.
func (m *Mutation) Append(o *Mutation) { m.entries = append(m.entries, o.entries...) }

// Entry is one change: the merge operand Value for the key (Kind, Start, End). Its slices point into the mutation.
type Entry struct {
	Kind  EntryKind
	Start []byte // clustering of a row, start of a range tombstone
	End   []byte // end of a range tombstone
	Value []byte // encoded Row
}

// Entries iterates over the changes of a mutation. Its slices point into the mutation.
type Entries struct{ c wire.Cursor }

// Entries returns an iterator over the changes of m.
func (m *Mutation) Entries() Entries { return Entries{wire.NewCursor(m.entries)} }

// Next decodes the next change. It returns false at the end and at malformed bytes (Err).
func (e *Entries) Next(entry *Entry) bool {
	if e.c.Len() == 0 {
		return false
	}
	entry.Kind = EntryKind(e.c.Uint8())
	entry.Start, entry.End = nil, nil
	switch entry.Kind {
	// A partition has one header, so it needs no key.
	case KindHeader:
	case KindRow:
		entry.Start = consumeShort(&e.c)
	case KindRangeTombstone:
		entry.Start, entry.End = consumeShort(&e.c), consumeShort(&e.c)
	// An unknown kind of a later version cannot be skipped.
	default:
		e.c.Fail(wire.ErrMalformed)
	}
	entry.Value = consumeShort(&e.c)
	return e.c.Err() == nil
}

// Err returns an error if the mutation is malformed.
func (e *Entries) Err() error { return e.c.Err() }

// AppendMutation appends the encoding of m for another node or a hint. Hints store the encoding on disk, so a change
// also needs a new version of hints.
func AppendMutation(dst []byte, m *Mutation) []byte {
	dst = wire.AppendUvarint(dst, uint64(m.Table))
	dst = appendKey(dst, m.Key)
	return append(wire.AppendUvarint(dst, uint64(len(m.entries))), m.entries...)
}

// ConsumeMutation decodes the next mutation of c into m, which then points into the bytes of c. It validates the
// entries, including rows, so that a decoded mutation can be applied.
func ConsumeMutation(c *wire.Cursor, m *Mutation) {
	m.Table = schema.StorageID(c.Uvarint())
	m.Key = consumeKey(c)
	m.entries = consumeShort(c)
	var entry Entry
	// The end is found by Next, which also finds an error.
	for es := m.Entries(); ; {
		if !es.Next(&entry) {
			if err := es.Err(); err != nil {
				c.Fail(err)
			}
			return
		}
		// Reject a row that storage cannot decode, because every read of it would fail.
		if err := validate(entry.Value); err != nil {
			c.Fail(err)
			return
		}
	}
}

// appendKey appends a key with its token, so that a receiver need not compute it.
func appendKey(dst []byte, k PartitionKey) []byte {
	dst = wire.AppendInt64(dst, int64(k.Token))
	return append(wire.AppendUvarint(dst, uint64(len(k.Bytes))), k.Bytes...)
}

// consumeKey decodes what appendKey appends. The token is not compared with the bytes.
func consumeKey(c *wire.Cursor) PartitionKey {
	return PartitionKey{Token: ring.Token(c.Int64()), Bytes: consumeShort(c)}
}
