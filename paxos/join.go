package paxos

import (
	"bytes"
	"slices"

	"cqld/row"
)

// A round of several members reads the rows of all commands at once. Each condition is evaluated on the page that its
// own command would return, including the changes of the members before it in the round.

// Joinable reports whether a command can be merged with others. A command with a limit on rows cannot, because the
// limit would count the rows of other commands.
func Joinable(c *row.ReadCommand) bool {
	l := c.Limits
	// A reversed page, or one with a limit, cannot be cut from a page of all rows.
	return c.SinglePartition() && !c.Reversed && l.Rows == 0 && l.PerPartition == 0 && c.Repair == nil &&
		len(c.Slices) > 0
}

// Join returns a command that reads the rows of all commands; disjoint reports that no two of them read the same row.
// All commands are Joinable, or there is only one.
func Join(commands []*row.ReadCommand) (cmd *row.ReadCommand, disjoint bool) {
	first := commands[0]
	if len(commands) == 1 {
		// The command itself is returned, so that PageOf recognizes it and returns the page unchanged.
		return first, true
	}
	cmd = &row.ReadCommand{Table: first.Table, Key: first.Key, Now: first.Now}
	n := 0
	for _, c := range commands {
		n += len(c.Slices)
	}
	all := make([]row.Slice, 0, n)
	for _, c := range commands {
		cmd.StaticCounts = cmd.StaticCounts || c.StaticCounts
		// The earliest time is used: a replica omits cells that are purgeable at the time of the read, and each
		// member ignores what has expired at its own time. Clients set times (now_in_seconds), so they may be far
		// apart.
		cmd.Now = min(cmd.Now, c.Now)
		// Each member has reserved memory for its own page, and all together for the page of the round.
		cmd.Limits.Bytes += c.Limits.Bytes
		all = append(all, c.Slices...)
	}
	slices.SortFunc(all, func(a, b row.Slice) int { return bytes.Compare(a.Start, b.Start) })
	if slices.ContainsFunc(commands, func(c *row.ReadCommand) bool { return c.Limits.Bytes == 0 }) {
		// A member without a limit needs all its rows.
		cmd.Limits.Bytes = 0
	}
	disjoint = true
	cmd.Slices = all[:1]
	for _, s := range all[1:] {
		last := &cmd.Slices[len(cmd.Slices)-1]
		switch {
		// Slices include their start and exclude their end, so these two do not overlap.
		case last.End != nil && bytes.Compare(s.Start, last.End) >= 0:
			cmd.Slices = append(cmd.Slices, s)
		case last.End != nil && (s.End == nil || bytes.Compare(s.End, last.End) > 0):
			last.End = s.End
			disjoint = false
		default:
			disjoint = false
		}
	}
	return cmd, disjoint
}

// Joined is the content of a round's page, to which the members' changes are applied one after the other.
type Joined struct {
	cmd      *row.ReadCommand
	disjoint bool
	page     []byte // as it was read
	empty    bool   // no rows were read and none were applied
	decoded  bool
	part     *row.Partition
}

// NewJoined returns the content of a page; more reports that the page was truncated by a limit.
func NewJoined(cmd *row.ReadCommand, disjoint bool, page []byte) (j *Joined, more bool) {
	j = &Joined{cmd: cmd, disjoint: disjoint, page: page}
	// A page without partitions consists of its end and the mark of further rows.
	if len(page) == 2 {
		j.empty = true
		return j, page[1] != 0
	}
	return j, len(page) > 0 && page[len(page)-1] != 0
}

// decode decodes the page, once.
func (j *Joined) decode() error {
	if j.decoded {
		return nil
	}
	j.decoded = true
	j.part = &row.Partition{Key: j.cmd.Key, Header: *row.NewRow()}
	var r row.PageReader
	r.Reset(j.page)
	for r.NextPartition() {
		j.part.Header = r.Header.Clone()
		j.part.RangeTombstones = slices.Clone(r.RangeTombstones)
		for {
			// NextRow decodes in place, and the last one is removed when there is none.
			j.part.Rows = append(j.part.Rows, row.Row{})
			if !r.NextRow(&j.part.Rows[len(j.part.Rows)-1]) {
				j.part.Rows = j.part.Rows[:len(j.part.Rows)-1]
				break
			}
		}
	}
	return r.Err()
}

// PageOf returns the answer to a member's command.
func (j *Joined) PageOf(c *row.ReadCommand) ([]byte, error) {
	if c == j.cmd || j.empty {
		return j.page, nil
	}
	if err := j.decode(); err != nil {
		return nil, err
	}
	// Range tombstones overlap slices of several members, and each page contains only its own part.
	tombstones := row.CutRangeTombstones(j.part.RangeTombstones, c.Slices)
	w := row.NewPageWriter(nil)
	begun := false
	begin := func() {
		if !begun {
			w.Partition(j.part.Key, &j.part.Header, tombstones)
		}
		begun = true
	}
	for _, s := range c.Slices {
		at, _ := slices.BinarySearchFunc(j.part.Rows, s.Start,
			func(r row.Row, start []byte) int { return bytes.Compare(r.Clustering, start) })
		for ; at < len(j.part.Rows) && s.Contains(j.part.Rows[at].Clustering); at++ {
			// begin is called late, because the page must omit a partition without rows in these slices.
			begin()
			w.Row(&j.part.Rows[at])
		}
	}
	if len(tombstones) > 0 || !j.part.Header.Empty() {
		begin()
	}
	if begun {
		w.EndPartition()
	}
	// No rows follow: the whole page was read, or the members would have been split.
	return w.Finish(false), nil
}

// Apply applies a member's change, for the members after it in the round. Rows that no other member reads, the common
// case, are skipped.
func (j *Joined) Apply(own *row.ReadCommand, m *row.Mutation) error {
	if j.disjoint && onlyRowsOf(own, m) {
		return nil
	}
	if err := j.decode(); err != nil {
		return err
	}
	change, err := partitionOf(m, j.cmd.Slices)
	if err != nil {
		return err
	}
	j.empty = false
	// The merge creates a new partition, because pages that were returned before still refer to the old one.
	j.part = row.MergePartitions([]*row.Partition{j.part, change}, false)
	j.part.Header.HasRangeTombstones = false // readers of a page determine this themselves
	return nil
}

// onlyRowsOf reports whether m changes only rows that the command reads.
func onlyRowsOf(c *row.ReadCommand, m *row.Mutation) bool {
	var e row.Entry
	for entries := m.Entries(); entries.Next(&e); {
		// Headers and range tombstones may affect rows of any member.
		if e.Kind != row.KindRow || !within(c.Slices, e.Start) {
			return false
		}
	}
	return true
}

// within reports whether a clustering is in one of the slices, which are ascending and disjoint.
func within(in []row.Slice, clustering []byte) bool {
	i, found := slices.BinarySearchFunc(in, clustering,
		func(s row.Slice, c []byte) int { return bytes.Compare(s.Start, c) })
	return found || i > 0 && in[i-1].Contains(clustering)
}

// partitionOf returns a mutation's content in the slices.
func partitionOf(m *row.Mutation, in []row.Slice) (*row.Partition, error) {
	p := &row.Partition{Key: m.Key, Header: *row.NewRow()}
	var e row.Entry
	entries := m.Entries()
	for entries.Next(&e) {
		r := row.NewRow()
		if err := row.DecodeRow(r, e.Value); err != nil {
			return nil, err
		}
		switch e.Kind {
		case row.KindHeader:
			merged := row.NewRow()
			// A mutation of several statements may have several headers.
			row.Reconcile(merged, &p.Header, r)
			p.Header = *merged
		case row.KindRangeTombstone:
			p.RangeTombstones = append(p.RangeTombstones,
				row.RangeTombstone{Start: e.Start, End: e.End, Deletion: r.Deletion})
		case row.KindRow:
			if within(in, e.Start) {
				r.Clustering = e.Start
				p.Rows = append(p.Rows, *r)
			}
		}
	}
	slices.SortStableFunc(p.Rows, func(a, b row.Row) int { return bytes.Compare(a.Clustering, b.Clustering) })
	kept := p.Rows[:0]
	for _, r := range p.Rows {
		if n := len(kept); n > 0 && bytes.Equal(kept[n-1].Clustering, r.Clustering) {
			merged := row.NewRow()
			row.Reconcile(merged, &kept[n-1], &r)
			kept[n-1] = *merged
			continue
		}
		kept = append(kept, r)
	}
	p.Rows = kept
	return p, entries.Err()
}
