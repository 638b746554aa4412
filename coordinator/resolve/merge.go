package resolve

import (
	"bytes"
	"math"

	"cqld/row"
)

// Row is a row in its encoded form, which is in a page or in the memory of the resolver. A cell takes three to ten
// times its encoded size when it is decoded, so the rows of replicas are merged cell by cell.
type Row struct {
	clustering, encoded []byte
	// live means that the row counts for limits at the command's time; a row of tombstones does not.
	live bool
}

// Partition is a version of a partition, or the merge of several.
type Partition struct {
	Key row.PartitionKey
	// header contains the static row and the deletion of the partition. Its clustering is not used.
	header Row
	bare   bool // the header contains nothing
	// deletion is the deletion of the whole partition.
	deletion        row.Deletion
	RangeTombstones []row.RangeTombstone
	Rows            []Row
}

// mergePartitions merges versions of one partition, as row.MergePartitions does. The rows of each are in the order of
// the command. The result shares memory with the versions.
func (s *Resolver) mergePartitions(versions []*Partition) *Partition {
	// The header is a copy of the struct: reconcile replaces its bytes, and does not change the bytes of a version.
	out := &Partition{Key: versions[0].Key, header: versions[0].header}
	var tombstones []row.RangeTombstone
	rows := 0
	for i, v := range versions {
		if i > 0 {
			s.reconcile(&out.header, &v.header)
		}
		tombstones = append(tombstones, v.RangeTombstones...)
		// Replicas mostly have the same rows, so the longest version is a good guess of the result.
		rows = max(rows, len(v.Rows))
	}
	s.inspectHeader(out)
	out.RangeTombstones = row.NormalizeRangeTombstones(tombstones, out.deletion)
	out.Rows = make([]Row, 0, rows)
	// A merge of sorted lists: at has the index of the next row of each version.
	at := make([]int, len(versions))
	for s.err == nil {
		next := -1
		for i, v := range versions {
			if at[i] < len(v.Rows) && (next < 0 || s.before(v.Rows[at[i]].clustering,
				versions[next].Rows[at[next]].clustering)) {
				next = i
			}
		}
		if next < 0 {
			break
		}
		merged := versions[next].Rows[at[next]]
		at[next]++
		// Versions before next have a later row: otherwise next would be one of them.
		for i := next + 1; i < len(versions); i++ {
			v := versions[i]
			if at[i] < len(v.Rows) && bytes.Equal(v.Rows[at[i]].clustering, merged.clustering) {
				s.reconcile(&merged, &v.Rows[at[i]])
				at[i]++
			}
		}
		// A version may contain rows that another version's deletion covers.
		d := out.deletion.Max(row.DeletionAt(out.RangeTombstones, merged.clustering))
		if s.shadow(&merged, d) {
			out.Rows = append(out.Rows, merged)
		}
	}
	return out
}

// before reports whether a precedes b in the order of the command.
func (s *Resolver) before(a, b []byte) bool {
	c := bytes.Compare(a, b)
	return c < 0 && !s.cmd.Reversed || c > 0 && s.cmd.Reversed
}

// reconcile merges o into r.
func (s *Resolver) reconcile(r, o *Row) {
	if bytes.Equal(r.encoded, o.encoded) || !s.scratchFor(interleaved*(len(r.encoded)+len(o.encoded))) {
		return
	}
	// Bytes that exceed the reservation are counted after the merge, when they are known.
	room := cap(s.scratch)
	var err error
	if s.scratch, err = s.stream.Reconcile(s.scratch[:0], r.encoded, o.encoded); err != nil {
		s.err = err
		return
	}
	s.grown(room)
	r.encoded = s.keep(s.scratch)
	s.inspect(r)
}

// inspect derives live from the encoded row.
func (s *Resolver) inspect(r *Row) (sum row.Outline) {
	if s.err == nil {
		sum, s.err = s.stream.Inspect(r.encoded, s.cmd.Now)
		r.live = sum.Live
	}
	return sum
}

// inspectHeader derives bare and deletion from the encoded header.
func (s *Resolver) inspectHeader(p *Partition) {
	sum := s.inspect(&p.header)
	// AppendPage leaves out a partition with a bare header and nothing else.
	p.bare, p.deletion = sum.Empty, sum.Deletion
}

// shadow removes what d deletes from the row, and reports whether anything is left.
//
// A row without deletion d is left as it is: replicas have already applied their own deletions.
func (s *Resolver) shadow(r *Row, d row.Deletion) bool {
	if s.err != nil {
		return false
	}
	if !d.Present() {
		return true
	}
	if !s.scratchFor(interleaved * len(r.encoded)) {
		return false
	}
	var empty bool
	// math.MinInt64 purges nothing: the replicas still need the tombstones.
	s.scratch, r.live, empty, s.err = s.stream.Canonical(s.scratch[:0], r.encoded, d, math.MinInt64, s.cmd.Now)
	if s.err != nil || empty {
		return false
	}
	// In most cases the deletion covers no cell, and the row is not copied.
	if !bytes.Equal(s.scratch, r.encoded) {
		r.encoded = s.keep(s.scratch)
	}
	return s.err == nil
}
