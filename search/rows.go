package search

import (
	"bytes"
	"math"
	"slices"

	"cqld/coordinator"
	"cqld/ring"
	"cqld/row"
	"cqld/storage/index"
	"cqld/watermark"
)

// output is the result that is being made.
type output struct {
	writer  row.PageWriter
	rows    int
	scanned int
	ended   bool     // nothing follows
	next    Position // behind the last row, or candidate without one
	open    bool     // a partition is being written
	key     []byte   // of the last partition that was written
	reader  row.PageReader
	row     row.Row
	found   index.Found
}

// startReadsLocked returns the candidates that must be read by key now: the first ones, as many as may run.
func (op *searchOp) startReadsLocked() (out []*candidate, err error) {
	for i, c := range op.queue {
		if op.reading >= op.s.limits.ReadsInFlight || i >= op.limit-op.out.rows {
			break
		}
		if c.state == unsettled {
			if ok, err := op.startReadLocked(); !ok {
				return out, err
			}
			c.state = reading
			op.reading++
			out = append(out, c)
		}
	}
	return out, nil
}

// read reads candidates by their keys, at the level.
func (op *searchOp) read(list []*candidate) {
	for _, c := range list {
		op.mu.Lock()
		if op.done == nil {
			op.mu.Unlock()
			return
		}
		cmd := op.commandLocked(c)
		cmd.Limits.Bytes = uint32(min(op.readBytes, math.MaxUint32))
		size := op.readBytes
		op.mu.Unlock()
		op.s.counts.reads.Add(1)
		op.s.c.Read(&coordinator.ReadRequest{
			Command: cmd, Consistency: readLevel(op.req.Consistency), Timeout: op.s.c.Remaining(op.deadline),
			Trace: op.req.Trace, Cancel: op.cancel,
			Memory: readCopies * size,
		}, func(page []byte, err error) { op.readDone(c, size, page, err) })
	}
}

// readLevel returns the level of a read of one partition that is not serial.
func readLevel(c ring.Consistency) ring.Consistency {
	switch c {
	case ring.Serial:
		return ring.Quorum
	case ring.LocalSerial:
		return ring.LocalQuorum
	}
	return c
}

// commandLocked returns the read of a candidate.
func (op *searchOp) commandLocked(c *candidate) *row.ReadCommand {
	req := op.req
	cmd := &row.ReadCommand{Table: req.Table.StorageID, Key: c.key, Now: req.Now, Filter: req.Filter, Cancel: op.cancel}
	if !op.def.Partitions {
		cmd.Slices = []row.Slice{row.ExactRow(c.clustering)}
		return cmd
	}
	cmd.Slices, cmd.Reversed, cmd.StaticCounts = req.Slices, req.Reversed, req.StaticCounts
	if cmd.Slices == nil {
		cmd.Slices = []row.Slice{row.AllRows()}
	}
	if key, kind, clustering, ok := index.ParsePlace(req.From); ok && kind == row.KindRow &&
		bytes.Equal(key.Bytes, c.key.Bytes) {
		cmd.Slices, cmd.StaticCounts = row.SlicesAfter(cmd.Slices, clustering, req.Reversed), false
	}
	cmd.Limits.Rows = uint32(op.limit-op.out.rows) + 1
	return cmd
}

// readDone is the event of the answer to a read.
func (op *searchOp) readDone(c *candidate, size int, page []byte, err error) {
	defer op.guarded()
	op.mu.Lock()
	if op.done == nil {
		op.mu.Unlock()
		return
	}
	op.reading--
	if op.enlargeLocked(err, size) {
		c.state = unsettled
		op.mu.Unlock()
		op.advance()
		return
	}
	if err != nil {
		op.finishLocked(err)
		return
	}
	c.page, c.state = slices.Clone(page), read
	op.mu.Unlock()
	op.advance()
}

// emitLocked adds the first candidates of the queue to the result, as far as they are known. full means that the result
// ends there.
func (op *searchOp) emitLocked() (full bool, err error) {
	for len(op.queue) > 0 {
		c := op.queue[0]
		if c.state != settled && c.state != read {
			return false, nil
		}
		ended, err := op.addLocked(c)
		if err != nil {
			return false, err
		}
		if !ended { // it is in the result to its end
			op.out.next = c.at.Key
			op.queue = op.queue[1:]
		}
		if ended || op.out.rows >= op.limit || op.out.writer.Len() >= op.s.limits.Bytes {
			op.out.ended = !ended && len(op.queue) == 0 && op.covered && op.window == len(op.pieces)
			return true, nil
		}
	}
	return false, nil
}

// addLocked adds the rows of a candidate. ended means that the result ends at out.next, before the end of the
// candidate.
func (op *searchOp) addLocked(c *candidate) (ended bool, err error) {
	o := &op.out
	before := o.rows
	var last []byte // of the partition
	o.reader.Reset(c.page)
	for o.reader.NextPartition() {
		if op.def.Partitions && !op.matches(c, row.KindHeader, &o.reader.Header) {
			break
		}
		for o.reader.NextRow(&o.row) {
			last = o.row.Clustering
			if !o.row.Live(op.req.Now) || !op.def.Partitions && !op.matches(c, row.KindRow, &o.row) {
				continue
			}
			if o.rows == op.limit || o.rows > before && o.writer.Len() >= op.s.limits.Bytes {
				return true, nil
			}
			op.writePartition(&o.reader)
			o.writer.Row(&o.row)
			o.rows++
			if op.def.Partitions {
				o.next = index.AppendPlace(nil, c.key, row.KindRow, o.row.Clustering)
			}
		}
		if op.def.Partitions && o.rows == before && op.req.StaticCounts && o.reader.Header.Live(op.req.Now) &&
			!op.continues(c) {
			op.writePartition(&o.reader)
			o.rows++
		}
	}
	if err := o.reader.Err(); err != nil {
		return false, err
	}
	if o.rows == before && c.state == read {
		op.s.counts.stale.Add(1)
	}
	if !op.def.Partitions || !o.reader.More() {
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
func (op *searchOp) continues(c *candidate) bool {
	key, kind, _, ok := index.ParsePlace(op.req.From)
	return ok && kind == row.KindRow && bytes.Equal(key.Bytes, c.key.Bytes)
}

// matches reports whether a row, or the header of a partition, matches the terms. Replicas have found that for a
// settled candidate.
func (op *searchOp) matches(c *candidate, kind row.EntryKind, r *row.Row) bool {
	if c.state == settled || op.s.unsafe.TrustReplicas {
		return true
	}
	if op.def.Partitions && op.def.OfKey() {
		return true
	}
	o := &op.out
	o.found.Reset()
	op.def.Terms.Append(&o.found, &index.Source{Key: c.key, Kind: kind, Row: r}, op.req.Now)
	switch op.req.Order {
	case ByTerm:
		return op.def.HasTermOf(&o.found, Position(c.at.Key))
	case ByScore:
		return op.def.HasScoreOf(&o.found, op.req.Near, Position(c.at.Key))
	}
	if o.found.InAny(op.req.Terms) {
		return true
	}
	for i := range op.union {
		o.found.Reset()
		op.union[i].Terms.Append(&o.found, &index.Source{Key: c.key, Kind: kind, Row: r}, op.req.Now)
		if o.found.InAny(op.req.Union[i].Terms) {
			return true
		}
	}
	return false
}

// writePartition begins a partition unless it is the last one.
func (op *searchOp) writePartition(r *row.PageReader) {
	o := &op.out
	if o.open && bytes.Equal(o.key, r.Key.Bytes) {
		return
	}
	if o.open {
		o.writer.EndPartition()
	}
	o.open, o.key = true, append(o.key[:0], r.Key.Bytes...)
	o.writer.Partition(r.Key, &r.Header, nil)
}

// resultLocked returns the result.
func (op *searchOp) resultLocked() *Result {
	o := &op.out
	if o.open {
		o.writer.EndPartition()
	}
	r := &Result{Rows: o.rows, More: !o.ended, Scanned: o.scanned}
	if r.More {
		if r.Next = o.next; len(op.queue) == 0 && !op.inside() && op.plan.Mark().Place == watermark.AtKey {
			r.Next = op.plan.Mark().Key
		}
	}
	r.Page = o.writer.Finish(r.More)
	return r
}

// inside reports whether the result ends inside of a partition.
func (op *searchOp) inside() bool {
	if !op.def.Partitions {
		return false
	}
	_, kind, _, ok := index.ParsePlace(op.out.next)
	return ok && kind == row.KindRow
}
