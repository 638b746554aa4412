package search

import (
	"bytes"
	"math"
	"slices"

	"cqld/ring"
	"cqld/row"
	"cqld/storage/index"
	"cqld/watermark"
)

// output is the result under construction. Its memory is in use until makeResult. The buffers (key, reader, row,
// found) are reused for each candidate.
type output struct {
	writer  row.PageWriter
	rows    int
	scanned int
	ended   bool     // nothing follows
	next    Position // after the last row, or candidate without one
	open    bool     // a partition is being written
	key     []byte   // of the last partition that was written
	reader  row.PageReader
	row     row.Row
	found   index.Found
}

// startReads appends the reads by key that must run now: those of the first candidates, as many as may run. It reserves
// memory for one read at a time, and is called again after that. The order of the queue is the order of the result, so
// the first candidates are wanted first.
func (s *rowSequence) startReads(out []effect) (_ []effect, reserves bool) {
	for i, c := range s.queue {
		// Candidates beyond the limit are not read: those before them may all match.
		if s.full || s.reading >= s.limits.ReadsInFlight || i >= s.limit-s.out.rows {
			break
		}
		if c.state != unsettled {
			continue
		}
		if need := s.readMemory(); need > 0 {
			return append(out, effect{Kind: watermark.Reserve, Bytes: need}), true
		}
		c.state = reading
		s.reading++
		cmd := s.command(c)
		cmd.Limits.Bytes = uint32(min(s.readBytes, math.MaxUint32))
		out = append(out, effect{Kind: watermark.Fetch, Body: work{c: c, cmd: cmd, size: s.readBytes}})
	}
	s.full = false
	return out, false
}

// readLevel returns the level of a read of one partition that is not serial.
func readLevel(c ring.Consistency) ring.Consistency {
	switch c {
	// Candidates are read without Paxos: a quorum read returns every committed change.
	case ring.Serial:
		return ring.Quorum
	case ring.LocalSerial:
		return ring.LocalQuorum
	}
	return c
}

// command returns the read of a candidate. An index of regular or clustering columns names rows, one of static and
// partition key columns (Partitions) names partitions, whose rows are read.
func (s *rowSequence) command(c *candidate) *row.ReadCommand {
	req := s.req
	cmd := &row.ReadCommand{Table: req.Table.StorageID, Key: c.key, Now: req.Now, Filter: req.Filter}
	if !s.def.Partitions {
		cmd.Slices = []row.Slice{row.ExactRow(c.clustering)}
		return cmd
	}
	cmd.Slices, cmd.Reversed, cmd.StaticCounts = req.Slices, req.Reversed, req.StaticCounts
	if cmd.Slices == nil {
		cmd.Slices = []row.Slice{row.AllRows()}
	}
	// The previous result ended inside this partition, and has already counted its static row.
	if key, kind, clustering, ok := index.ParsePlace(req.From); ok && kind == row.KindRow &&
		bytes.Equal(key.Bytes, c.key.Bytes) {
		cmd.Slices, cmd.StaticCounts = row.SlicesAfter(cmd.Slices, clustering, req.Reversed), false
	}
	// One more than fits shows whether the partition ends with the result.
	cmd.Limits.Rows = uint32(s.limit-s.out.rows) + 1
	return cmd
}

// Fetched implements watermark.Sequence.
func (s *rowSequence) Fetched(w work, page []byte, err error) error {
	s.reading--
	switch {
	case s.enlarge(err, w.size):
		// startReads reads it again, with larger pages.
		w.c.state = unsettled
	case err != nil:
		return err
	default:
		// The page belongs to the read.
		w.c.page, w.c.state = slices.Clone(page), read
	}
	return nil
}

// emit adds the first candidates of the queue to the result, as far as they are known. full means that the result
// ends there.
func (s *rowSequence) emit() (full bool, err error) {
	for len(s.queue) > 0 {
		c := s.queue[0]
		// Results are in order, so later candidates wait for this one.
		if c.state != settled && c.state != read {
			return false, nil
		}
		ended, err := s.addRows(c)
		if err != nil {
			return false, err
		}
		if !ended { // it is in the result to its end
			s.out.next = c.at.Key
			s.queue = s.queue[1:]
		}
		if ended || s.out.rows >= s.limit || s.out.writer.Len() >= s.limits.Bytes {
			s.out.ended = !ended && len(s.queue) == 0 && s.covered && s.window == len(s.pieces)
			return true, nil
		}
	}
	return false, nil
}

// addRows adds the rows of a candidate. ended means that the result ends at out.next, before the end of the candidate.
// Rows that are not live or no longer match are left out here: the index entries of replicas may be stale.
func (s *rowSequence) addRows(c *candidate) (ended bool, err error) {
	o := &s.out
	before := o.rows
	var last []byte // of the partition
	o.reader.Reset(c.page)
	for o.reader.NextPartition() {
		// The static row in its newest version does not match, so neither does the partition.
		if s.def.Partitions && !s.matches(c, row.KindHeader, &o.reader.Header) {
			break
		}
		for o.reader.NextRow(&o.row) {
			last = o.row.Clustering
			if !o.row.Live(s.req.Now) || !s.def.Partitions && !s.matches(c, row.KindRow, &o.row) {
				continue
			}
			// At least one row of each candidate is added, so that the search always advances.
			if o.rows == s.limit || o.rows > before && o.writer.Len() >= s.limits.Bytes {
				return true, nil
			}
			s.writePartition(&o.reader)
			o.writer.Row(&o.row)
			o.rows++
			if s.def.Partitions {
				o.next = index.AppendPlace(nil, c.key, row.KindRow, o.row.Clustering)
			}
		}
		if s.def.Partitions && o.rows == before && s.req.StaticCounts && o.reader.Header.Live(s.req.Now) &&
			!s.continues(c) {
			s.writePartition(&o.reader)
			o.rows++
		}
	}
	if err := o.reader.Err(); err != nil {
		return false, err
	}
	// No row of the newest versions matches: all matching versions were old ones.
	if o.rows == before && c.state == read {
		s.counts.stale++
	}
	if !s.def.Partitions || !o.reader.More() {
		return false, nil
	}
	if at := o.reader.End(); at != nil && !at.Whole {
		last = at.Clustering
	} else if at != nil || last == nil {
		return false, nil
	}
	o.next = index.AppendPlace(nil, c.key, row.KindRow, last)
	return true, nil
}

// continues reports whether the search began inside the partition of a candidate.
func (s *rowSequence) continues(c *candidate) bool {
	key, kind, _, ok := index.ParsePlace(s.req.From)
	return ok && kind == row.KindRow && bytes.Equal(key.Bytes, c.key.Bytes)
}

// matches reports whether a row, or the header of a partition, matches the terms. Replicas have found that for a
// settled candidate.
func (s *rowSequence) matches(c *candidate, kind row.EntryKind, r *row.Row) bool {
	if c.state == settled {
		return true
	}
	if s.def.Partitions && s.def.OfKey() {
		return true
	}
	o := &s.out
	o.found.Reset()
	s.def.Terms.Append(&o.found, &index.Source{Key: c.key, Kind: kind, Row: r}, s.req.Now)
	switch s.req.Order {
	// The row must have the term of the position, because it is a separate candidate for each of its terms.
	case ByTerm:
		return s.def.HasTermOf(&o.found, Position(c.at.Key))
	case ByScore:
		return s.def.HasScoreOf(&o.found, s.req.Near, Position(c.at.Key))
	}
	if o.found.InAny(s.req.Terms) {
		return true
	}
	for i := range s.union {
		o.found.Reset()
		s.union[i].Terms.Append(&o.found, &index.Source{Key: c.key, Kind: kind, Row: r}, s.req.Now)
		if o.found.InAny(s.req.Union[i].Terms) {
			return true
		}
	}
	return false
}

// writePartition begins a partition unless it is the last one.
func (s *rowSequence) writePartition(r *row.PageReader) {
	o := &s.out
	// Rows of a partition that follow each other share its header.
	if o.open && bytes.Equal(o.key, r.Key.Bytes) {
		return
	}
	if o.open {
		o.writer.EndPartition()
	}
	o.open, o.key = true, append(o.key[:0], r.Key.Bytes...)
	o.writer.Partition(r.Key, &r.Header, nil)
}

// makeResult returns the result. It is called once; the writer must not be used afterwards.
func (s *rowSequence) makeResult() *Result {
	o := &s.out
	if o.open {
		o.writer.EndPartition()
	}
	r := &Result{Rows: o.rows, More: !o.ended, Scanned: o.scanned}
	if r.More {
		// All candidates up to the watermark were examined, so the next search begins there even if none matched.
		if r.Next = o.next; len(s.queue) == 0 && !s.inside() && s.m.Plan.Mark().Place == watermark.AtKey {
			r.Next = s.m.Plan.Mark().Key
		}
	}
	r.Page = o.writer.Finish(r.More)
	return r
}

// inside reports whether the result ends inside of a partition.
func (s *rowSequence) inside() bool {
	if !s.def.Partitions {
		return false
	}
	_, kind, _, ok := index.ParsePlace(s.out.next)
	return ok && kind == row.KindRow
}
