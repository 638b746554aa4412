package row

// Stamped returns the command that reads the parts of m with the timestamp stamp or stamp-1: rows and intervals of
// rows as slices in the order of m, and the header as StaticCounts. For a deletion of the partition, it reads the
// whole partition. It returns false if m has no such part. The command points into m. The read shows whether a write
// with this timestamp has arrived at a replica.
func (m *Mutation) Stamped(stamp int64) (cmd *ReadCommand, some bool, err error) {
	cmd = &ReadCommand{Table: m.Table, Key: m.Key}
	whole := false
	r := NewRow()
	var e Entry
	es := m.Entries()
	for es.Next(&e) {
		if err := DecodeRow(r, e.Value); err != nil {
			return nil, false, err
		}
		if !r.bears(stamp) {
			continue
		}
		some = true
		//exhaustive:enforce
		switch e.Kind {
		case KindHeader:
			cmd.StaticCounts = true
			whole = whole || r.Deletion.Present()
		case KindRow:
			cmd.Slices = append(cmd.Slices, ExactRow(e.Start))
		case KindRangeTombstone:
			cmd.Slices = append(cmd.Slices, Slice{Start: e.Start, End: e.End})
		}
	}
	// m does not contain the rows that a partition deletion covers, so read the whole partition.
	if whole {
		cmd.Slices = []Slice{AllRows()}
	}
	return cmd, some, es.Err()
}

// Restamp returns a copy of m in which to replaces the timestamp stamp, and to-1 replaces stamp-1. Other timestamps,
// which the client has set, do not change.
func (m *Mutation) Restamp(stamp, to int64) (*Mutation, error) {
	out := &Mutation{Table: m.Table, Key: m.Key, entries: make([]byte, 0, len(m.entries)+16)}
	r := NewRow()
	var e Entry
	es := m.Entries()
	for es.Next(&e) {
		if err := DecodeRow(r, e.Value); err != nil {
			return nil, err
		}
		r.stamps(func(t *int64) {
			if at(*t, stamp) {
				// The distance of 0 or 1 stays.
				*t = to - (stamp - *t)
			}
		})
		out.entries = append(out.entries, byte(e.Kind))
		if e.Kind != KindHeader {
			out.addBytes(e.Start)
		}
		if e.Kind == KindRangeTombstone {
			out.addBytes(e.End)
		}
		out.addValue(r)
	}
	return out, es.Err()
}

// at reports whether t is one of the timestamps of a write at stamp: the previous value is deleted one microsecond
// before.
func at(t, stamp int64) bool { return t == stamp || t == stamp-1 }

// bears reports whether any part of r has one of the timestamps of a write at stamp.
func (r *Row) bears(stamp int64) (yes bool) {
	r.stamps(func(t *int64) { yes = yes || at(*t, stamp) })
	return yes
}

// stamps calls f with every timestamp in r.
func (r *Row) stamps(f func(*int64)) {
	if r.Liveness.Present() {
		f(&r.Liveness.Timestamp)
	}
	if r.Deletion.Present() {
		f(&r.Deletion.Timestamp)
	}
	for i := range r.Complex {
		f(&r.Complex[i].Timestamp)
	}
	for i := range r.Cells {
		f(&r.Cells[i].Timestamp)
	}
}
