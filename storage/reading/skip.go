package reading

import (
	"bytes"

	"cqld/row"
	"cqld/storage/backlog"
	"cqld/storage/bounds"
	"cqld/storage/rowkey"
)

// Reads skip rows without reading them if, according to package bounds, a deletion shadows all of them. The bound
// must be loaded after the iterator was created. A page is the same with and without skipping, because shadowed rows
// are not part of it.

// covered reports whether a deletion shadows all rows of the partition that it covers. It may also return false if
// this is unknown.
func (r *reader) covered(d row.Deletion) bool {
	return d.Present() && r.e.opts.Bounds.Reached(r.cmd.Table, r.key.Token, d.Timestamp)
}

// advance moves to the next row in the direction of the read. After some shadowed rows, it skips the rows that range
// tombstones shadow in one step, if package bounds allows that.
func (r *reader) advance() bool {
	if r.shadowed >= r.skipAt {
		// The next attempt follows after SkipAfter further rows, because a search among tombstones costs more than a
		// step.
		r.skipAt = r.shadowed + r.e.opts.SkipAfter
		if start, end, ok := bounds.Shadowed(r.deletions, r.iter.Key()[len(r.prefix)+1:], r.covered); ok {
			r.seek = append(append(r.seek[:0], r.prefix...), byte(row.KindRow))
			if r.cmd.Reversed {
				r.seek = append(r.seek, start...)
				// start is the first shadowed row, and the reversed read continues before it.
				return r.iter.SeekLT(r.seek)
			}
			r.seek = append(r.seek, end...)
			return r.toKey()
		}
	}
	if r.cmd.Reversed {
		return r.iter.Prev()
	}
	return r.iter.Next()
}

// noteShadowed records the partition that was read, if a deletion shadows many of its rows. The purger processes such
// partitions first, so that later reads scan fewer rows.
func (r *reader) noteShadowed() {
	if r.shadowed >= r.e.opts.ShadowedRows {
		// The prefix is cloned, because Dead keeps the span and the prefix is overwritten.
		start := bytes.Clone(r.prefix)
		r.e.opts.Dead.Add(backlog.Span{Start: start, End: append(bytes.Clone(start), rowkey.KindEnd)})
	}
	r.shadowed = 0
}
