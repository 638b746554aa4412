package storage

import (
	"bytes"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"cqld/row"
	"cqld/storage/rowkey"
)

// stepOrSeek moves an iterator to the first key that is not less than key, with a few steps if they suffice. No key between
// that one and the iterator's present position may have been passed, and an iterator that is valid must not have been
// moved by SeekPrefixGE.
func stepOrSeek(iter *pebble.Iterator, key []byte) bool {
	valid := iter.Valid()
	for steps := 0; valid; steps++ {
		if bytes.Compare(iter.Key(), key) >= 0 {
			return true
		}
		if steps == stepsMax {
			break
		}
		valid = iter.Next()
	}
	return iter.SeekGE(key)
}

// stepOrSeekBefore moves an iterator to the last key that is less than key, with a few steps if they suffice.
func stepOrSeekBefore(iter *pebble.Iterator, key []byte) bool {
	valid := iter.Valid()
	for steps := 0; valid && steps < stepsMax; steps++ {
		if bytes.Compare(iter.Key(), key) < 0 {
			valid = iter.Next()
			continue
		}
		for ; valid && steps < stepsMax; steps++ {
			if valid = iter.Prev(); valid && bytes.Compare(iter.Key(), key) < 0 {
				return true
			}
		}
	}
	return iter.SeekLT(key)
}

// toKey moves to the first key that is not less than seek. Within a read, these keys ascend.
func (r *reader) toKey() bool {
	if r.stepping {
		return stepOrSeek(r.iter, r.seek)
	}
	r.stepping = true
	return r.iter.SeekGE(r.seek)
}

// toEnd moves to the last key before the end of a slice.
func (r *reader) toEnd(s row.Slice) bool {
	r.seek = append(append(r.seek[:0], r.prefix...), byte(row.KindRow))
	if s.End == nil {
		r.seek[len(r.prefix)] = rowkey.KindEnd
	} else {
		r.seek = append(r.seek, s.End...)
	}
	if r.stepping {
		return stepOrSeekBefore(r.iter, r.seek)
	}
	r.stepping = true
	return r.iter.SeekLT(r.seek)
}

// toNextPartition moves to the next partition.
func (r *reader) toNextPartition() bool {
	if r.full {
		return false
	}
	r.seek = append(append(r.seek[:0], r.prefix...), rowkey.KindEnd)
	return r.toKey()
}

// iterError returns the error of the iterator. An iterator at a key has none, and asking it costs as much as a step.
func (r *reader) iterError() error {
	if r.iter.Valid() {
		return nil
	}
	return r.iter.Error()
}

// hasRange reports whether any of the slices is not one row: filters of whole keys do not answer for it.
func hasRange(s []row.Slice) bool {
	return slices.ContainsFunc(s, func(s row.Slice) bool { return !s.Exact() })
}
