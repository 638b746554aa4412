package resolve

import (
	"bytes"
	"slices"

	"cqld/row"
)

// Difference returns the mutation that a replica which answered with have (nil means no data) needs to answer with
// merged; nil means none. It shares no memory with either: the read may have been answered, and its pages reused,
// before the last repair is sent.
func (s *Resolver) Difference(cmd *row.ReadCommand, merged, have *Partition) *row.Mutation {
	if have == nil {
		have = &Partition{header: Row{encoded: noRow}}
	}
	m := &row.Mutation{}
	m.Reset(cmd.Table, merged.Key)
	// The header has the static row and the deletion of the partition.
	if d := s.difference(&merged.header, have.header.encoded); d != nil {
		m.AddEncodedHeader(d)
	}
	// Range tombstones are compared separately from rows: the replica may have rows that a tombstone deletes and that
	// are therefore not in the result.
	for _, t := range merged.RangeTombstones {
		// Range tombstones are sorted and do not overlap, so only the one at the start of t can cover t.
		i, _ := slices.BinarySearchFunc(have.RangeTombstones, t.Start, func(h row.RangeTombstone, start []byte) int {
			if bytes.Compare(h.End, start) <= 0 {
				return -1
			}
			return 1
		})
		if i == len(have.RangeTombstones) || !covers(have.RangeTombstones[i], t) {
			m.AddRangeTombstone(t)
		}
	}
	at := 0
	for i := range merged.Rows {
		r := &merged.Rows[i]
		// Both are in the command's order, and merged contains every row of have, except shadowed ones, which are
		// skipped here.
		old := noRow
		for k := at; k < len(have.Rows); k++ {
			if bytes.Equal(have.Rows[k].clustering, r.clustering) {
				old, at = have.Rows[k].encoded, k+1
				break
			}
			// The row of have sorts after r, so the replica lacks r. at is not advanced: that row is compared with a
			// later row of merged.
			if c := bytes.Compare(have.Rows[k].clustering, r.clustering); c > 0 != cmd.Reversed {
				break
			}
		}
		if d := s.difference(r, old); d != nil {
			m.AddEncodedRow(r.clustering, d)
		}
	}
	if m.Empty() {
		return nil
	}
	// Rows and headers were copied when they were added; the key still points into a page.
	m.Key.Bytes = bytes.Clone(m.Key.Bytes)
	return m
}

// noRow is a row without contents.
var noRow = row.AppendRow(nil, row.NewRow())

// difference returns what old lacks of r, in s.scratch, or nil.
//
// The result is valid until the next call.
func (s *Resolver) difference(r *Row, old []byte) []byte {
	// Replicas mostly agree, so equal bytes are compared first. Pages are canonical (ADR 3): equal rows have equal
	// bytes.
	if s.err != nil || bytes.Equal(r.encoded, old) || !s.scratchFor(len(r.encoded)) {
		return nil
	}
	var lacks bool
	s.scratch, lacks, s.err = s.stream.Difference(s.scratch[:0], r.encoded, old)
	if s.err != nil || !lacks || !s.reserve(mutationCopies*row.EncodedRowLen(r.clustering, s.scratch)) {
		return nil
	}
	return s.scratch
}

// covers reports whether h deletes everything that t deletes.
func covers(h, t row.RangeTombstone) bool {
	return h.Deletion == t.Deletion && bytes.Compare(h.Start, t.Start) <= 0 && bytes.Compare(h.End, t.End) >= 0
}
