package bounds

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"cqld/internal/invariant"
	"cqld/row"
	"cqld/storage/rowkey"
)

// Covering returns the newest deletion of a partition that covers all its rows with keys from start on and before end.
// The iterator is bounded by the keys of the partition, which begin with prefix, before its rows. The caller
// also checks the iterator's error. A *rowkey.Malformed error means that an entry is corrupt.
func Covering(iter *pebble.Iterator, prefix, start, end []byte) (deletion row.Deletion, err error) {
	invariant.Check(bytes.HasPrefix(start, prefix) && bytes.Compare(start, end) < 0,
		"bounds: [%x, %x) is not a part of the partition %x", start, end, prefix)
	deletion = row.NoDeletion()
	// The bounds of range tombstones are clusterings. With the prefix of rows before them, they compare with start and
	// end.
	rows := append(bytes.Clone(prefix), byte(row.KindRow))
	stored := row.NewRow()
	for valid := iter.First(); valid; valid = iter.Next() {
		suffix := iter.Key()[len(prefix):]
		if row.EntryKind(suffix[0]) == row.KindRangeTombstone {
			_, from, to, ok := rowkey.ParseRangeTombstone(nil, suffix)
			if !ok {
				return deletion, &rowkey.Malformed{Key: bytes.Clone(iter.Key())}
			}
			// Only a tombstone that contains the whole interval shadows all of its rows; two that overlap would be
			// missed.
			if bytes.Compare(start, append(slices.Clone(rows), from...)) < 0 ||
				bytes.Compare(append(slices.Clone(rows), to...), end) < 0 {
				continue
			}
		}
		value, err := iter.ValueAndErr()
		if err != nil {
			return deletion, err
		}
		if err := row.DecodeRow(stored, value); err != nil {
			return deletion, fmt.Errorf("value of %w: %w", &rowkey.Malformed{Key: bytes.Clone(iter.Key())}, err)
		}
		// The other entry before the rows is the header, whose deletion covers the partition.
		deletion = deletion.Max(stored.Deletion)
	}
	return deletion, nil
}
