package reading

import (
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"cqld/row"
	"cqld/storage/failure"
	"cqld/storage/rowkey"
	"cqld/storage/step"
)

// cursor is the iterator of a read, and its position. A read moves its iterator only in the direction of the read, so
// each move begins at the last position. The rule keeps the cost of a page proportional to its rows.
type cursor struct {
	iter *pebble.Iterator
	seek []byte // the key of the last seek
	// stepping means that the iterator may step to the next key, because its last move was not SeekPrefixGE.
	stepping bool
}

// toKey moves to the first key that is not less than seek. Within a read, these keys ascend.
func (c *cursor) toKey() bool {
	// A step to a near key costs less than a seek. After SeekPrefixGE the iterator may only be moved by seeks,
	// because it only shows the keys of one prefix.
	if c.stepping {
		return step.To(c.iter, c.seek)
	}
	c.stepping = true
	return c.iter.SeekGE(c.seek)
}

// toEnd moves to the last key before the end of a slice of the partition whose keys begin with prefix.
func (c *cursor) toEnd(prefix []byte, s row.Slice) bool {
	c.seek = append(append(c.seek[:0], prefix...), byte(row.KindRow))
	if s.End == nil {
		// An open slice ends with the partition: KindEnd follows the kinds of all its entries.
		c.seek[len(prefix)] = rowkey.KindEnd
	} else {
		c.seek = append(c.seek, s.End...)
	}
	if c.stepping {
		return step.Before(c.iter, c.seek)
	}
	c.stepping = true
	return c.iter.SeekLT(c.seek)
}

// toNextPartition moves to the next partition.
func (r *reader) toNextPartition() bool {
	// The page is complete, so the move would only cost a seek.
	if r.full {
		return false
	}
	r.seek = append(append(r.seek[:0], r.prefix...), rowkey.KindEnd)
	return r.toKey()
}

// iterError returns the error of the iterator. An iterator at a key has none, and asking it costs as much as a step. A
// read from the cache has no iterator.
func (c *cursor) iterError() error {
	if c.iter == nil || c.iter.Valid() {
		return nil
	}
	return c.iter.Error()
}

// hasRange reports whether any of the slices is not one row: filters of whole keys do not answer for it. Such reads use
// the filters of blocks instead, see reader.open.
func hasRange(s []row.Slice) bool {
	return slices.ContainsFunc(s, func(s row.Slice) bool { return !s.Exact() })
}

// badValue returns the error for a value that is not a row: of the key at the iterator, or of the last one that was
// searched in the cache.
func (c *cursor) badValue(err error) error {
	if c.iter == nil {
		return failure.BadRow(c.seek, err)
	}
	return failure.BadRow(c.iter.Key(), err)
}
