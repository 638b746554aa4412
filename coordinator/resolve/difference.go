package resolve

import (
	"bytes"
	"slices"

	"cqld/row"
)

// Difference returns the mutation that a replica which answered with have (nil means no data) needs to answer with merged; nil
// means none. It shares no memory with either: the read may have been answered, and its pages reused, before the last repair
// is sent.
func Difference(cmd *row.ReadCommand, merged, have *row.Partition) *row.Mutation {
	if have == nil {
		have = &row.Partition{Header: *row.NewRow()}
	}
	m := &row.Mutation{}
	m.Reset(cmd.Table, merged.Key)
	if d, ok := rowDifference(&merged.Header, &have.Header); ok {
		m.AddHeader(d)
	}
	for _, t := range merged.RangeTombstones {
		if !slices.ContainsFunc(have.RangeTombstones, func(h row.RangeTombstone) bool { return covers(h, t) }) {
			m.AddRangeTombstone(t)
		}
	}
	at := 0
	empty := row.NewRow()
	for i := range merged.Rows {
		r := &merged.Rows[i]
		// Both are in the command's order, and merged contains every row of have, except shadowed ones, which are skipped
		// here.
		old := empty
		for k := at; k < len(have.Rows); k++ {
			if bytes.Equal(have.Rows[k].Clustering, r.Clustering) {
				old, at = &have.Rows[k], k+1
				break
			}
			if c := bytes.Compare(have.Rows[k].Clustering, r.Clustering); c > 0 != cmd.Reversed {
				break
			}
		}
		if d, ok := rowDifference(r, old); ok {
			m.AddRow(d)
		}
	}
	if m.Empty() {
		return nil
	}
	m.Key.Bytes = bytes.Clone(m.Key.Bytes)
	return m
}

// covers reports whether h deletes everything that t deletes.
func covers(h, t row.RangeTombstone) bool {
	return h.Deletion == t.Deletion && bytes.Compare(h.Start, t.Start) <= 0 && bytes.Compare(h.End, t.End) >= 0
}

// rowDifference returns the parts of merged that have lacks.
func rowDifference(merged, have *row.Row) (*row.Row, bool) {
	d := row.NewRow()
	d.Clustering = merged.Clustering
	lacks := false
	if merged.Liveness.Present() && merged.Liveness != have.Liveness {
		d.Liveness, lacks = merged.Liveness, true
	}
	if merged.Deletion.Present() && merged.Deletion != have.Deletion {
		d.Deletion, lacks = merged.Deletion, true
	}
	for _, c := range merged.Complex {
		if !slices.Contains(have.Complex, c) {
			d.Complex, lacks = append(d.Complex, c), true
		}
	}
	cells := have.Cells
	for i := range merged.Cells {
		c := &merged.Cells[i]
		for len(cells) > 0 && cellBefore(&cells[0], c) {
			cells = cells[1:]
		}
		if len(cells) > 0 && equalCell(&cells[0], c) {
			continue
		}
		d.Cells, lacks = append(d.Cells, *c), true
	}
	return d, lacks
}

// cellBefore reports whether a precedes b in a row.
func cellBefore(a, b *row.Cell) bool {
	if a.Column != b.Column {
		return a.Column < b.Column
	}
	return bytes.Compare(a.Path, b.Path) < 0
}

func equalCell(a, b *row.Cell) bool {
	return a.Column == b.Column && bytes.Equal(a.Path, b.Path) && a.Timestamp == b.Timestamp &&
		a.TTL == b.TTL && a.LocalTime == b.LocalTime && a.Tombstone == b.Tombstone && bytes.Equal(a.Value, b.Value)
}
