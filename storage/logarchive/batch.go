package logarchive

import (
	"encoding/binary"
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"cqld/schema"
)

// The payload of a LogData entry begins with its kind:
//
//	stamp:    1, hybrid time 8
//	foreign:  2, table 4
//	rows:     3, a batch in Pebble's form, of merged entries only
//
// Integers are little endian. Pebble's own entries have no payload.
const (
	kindStamp   = 1
	kindForeign = 2
	kindRows    = 3

	stampBytes   = 1 + 8
	foreignBytes = 1 + 4
)

// batchHeaderBytes is the size of the header of a batch: the first sequence number 8, the number of entries 4.
const batchHeaderBytes = 12

// errBatch is the error of bytes that are not a batch.
var errBatch = errors.New("not a batch of Pebble")

// Stamp adds a stamp, in microseconds since 1970, to a batch. It allocates nothing, except what the batch needs to
// grow.
func Stamp(b *pebble.Batch, stamp int64) {
	payload := [stampBytes]byte{kindStamp}
	binary.LittleEndian.PutUint64(payload[1:], uint64(stamp))
	// LogData only fails on an indexed batch.
	_ = b.LogData(payload[:], nil)
}

// MarkForeign adds a note to a batch, which gets a stamp as well: a table ingests rows that are in the log of no node.
func MarkForeign(b *pebble.Batch, table schema.StorageID) {
	payload := [foreignBytes]byte{kindForeign}
	binary.LittleEndian.PutUint32(payload[1:], uint32(table))
	_ = b.LogData(payload[:], nil) // as in Stamp
}

// AddRows adds rows that a table ingests in a file, which is not in the log, to a batch, which gets a stamp as well.
// They are in the log only: rows is another batch, and is copied.
func AddRows(b, rows *pebble.Batch) {
	_ = b.LogData(append([]byte{kindRows}, rows.Repr()...), nil) // as in Stamp
}

// contents describes a batch as far as the archive needs it. A batch of an archived log that changes data has a
// stamp, or contains ingested files only.
type contents struct {
	stamp   int64            // 0 means none
	foreign schema.StorageID // 0 means none
	changes bool             // it has other entries than LogData
	files   []uint64         // numbers of ingested files
	// rows is a batch of the rows of a file that is ingested after this place of the log; nil means none.
	rows []byte
}

// logged reports whether a segment needs the batch.
func (c *contents) logged() bool { return c.changes || c.foreign != 0 || c.rows != nil }

// parse reads a batch, to its end: the stamp is the last entry. Unlike Pebble's reader, it expects any bytes. It
// allocates only for ingested files.
func parse(batch []byte) (c contents, err error) {
	if len(batch) < batchHeaderBytes {
		return c, errBatch
	}
	// Entries with keys and values follow each other, without an index.
	count := binary.LittleEndian.Uint32(batch[8:])
	for rest := batch[batchHeaderBytes:]; len(rest) > 0; {
		kind := pebble.InternalKeyKind(rest[0])
		var key []byte
		if key, rest, err = cutString(rest[1:]); err != nil {
			return c, err
		}
		switch kind {
		case pebble.InternalKeyKindLogData:
			if err := c.note(key); err != nil {
				return c, err
			}
			continue // not counted
		case pebble.InternalKeyKindIngestSST:
			number, n := binary.Uvarint(key)
			if n != len(key) || n <= 0 {
				return c, errBatch
			}
			c.files = append(c.files, number)
		case pebble.InternalKeyKindSet, pebble.InternalKeyKindMerge, pebble.InternalKeyKindRangeDelete,
			pebble.InternalKeyKindDeleteSized:
			if _, rest, err = cutString(rest); err != nil {
				return c, err
			}
		case pebble.InternalKeyKindDelete, pebble.InternalKeyKindSingleDelete:
		default:
			return c, errBatch // a kind that the engine does not write
		}
		c.changes = true
		count--
	}
	// Ingested files are always in a batch without other entries.
	if count != 0 || len(c.files) > 0 && len(c.files) != int(binary.LittleEndian.Uint32(batch[8:])) {
		return c, errBatch
	}
	return c, nil
}

// note reads the payload of a LogData entry.
func (c *contents) note(payload []byte) error {
	switch {
	case len(payload) == 0: // one of Pebble's
	case payload[0] == kindStamp && len(payload) == stampBytes:
		c.stamp = max(c.stamp, int64(binary.LittleEndian.Uint64(payload[1:])))
	case payload[0] == kindForeign && len(payload) == foreignBytes:
		c.foreign = schema.StorageID(binary.LittleEndian.Uint32(payload[1:]))
	case payload[0] == kindRows && c.rows == nil && mergesOnly(payload[1:]):
		c.rows = payload[1:]
	default:
		return errBatch
	}
	return nil
}

// mergesOnly reports whether a batch contains merged entries, and nothing else.
func mergesOnly(batch []byte) bool {
	if len(batch) <= batchHeaderBytes {
		return false
	}
	count := binary.LittleEndian.Uint32(batch[8:])
	for rest := batch[batchHeaderBytes:]; len(rest) > 0; count-- {
		if pebble.InternalKeyKind(rest[0]) != pebble.InternalKeyKindMerge {
			return false
		}
		rest = rest[1:]
		for range 2 { // key and value
			var err error
			if _, rest, err = cutString(rest); err != nil {
				return false
			}
		}
	}
	return count == 0
}

// cutString returns a string with its length before it, and what follows it.
func cutString(b []byte) (s, rest []byte, err error) {
	length, n := binary.Uvarint(b)
	if n <= 0 || length > uint64(len(b)-n) {
		return nil, nil, errBatch
	}
	return b[n : n+int(length)], b[n+int(length):], nil
}
