package storage

import (
	"slices"

	"cqld/row"
	"cqld/storage/rowkey"
	"cqld/storage/step"
)

// toKey moves to the first key that is not less than seek. Within a read, these keys ascend.
func (r *reader) toKey() bool {
	if r.stepping {
		return step.To(r.iter, r.seek)
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
		return step.Before(r.iter, r.seek)
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
