package query

import (
	"bytes"
	"slices"
	"time"

	"cqld/coordinator"
	"cqld/internal/env"
	"cqld/request"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
)

// verdict is the decision of a consumer after a row.
type verdict uint8

const (
	nextRow       verdict = iota
	skipRow               // the row does not count
	nextPartition         // no more rows of this partition
	stopAfter             // enough; this row was consumed
	stopBefore            // enough; this row was not consumed and will be read again
)

// consumer consumes the rows of a scan one after the other.
type consumer interface {
	consume(v *rowView) (verdict, error)
}

// position is the position of a scan: after a row.
type position struct {
	key        row.PartitionKey // Bytes is nil at the beginning
	clustering []byte
	started    bool   // rows of the partition were read up to clustering
	live       bool   // one of them, at least, was live
	done       bool   // no row of the partition is left
	given      uint32 // rows or groups of the partition so far, for PER PARTITION LIMIT
}

// scan reads rows in order from one partition, several partitions, or ranges of them, with as many commands as
// necessary.
type scan struct {
	p            *Processor
	table        *schema.Table
	keys         []row.PartitionKey // nil means all keys in tokens
	tokens       ring.Range
	slices       []row.Slice
	reversed     bool
	staticCounts bool
	// batch is the number of rows that a command requests. perPartition is the limit that replicas apply.
	batch        uint32
	perPartition uint32
	share        uint32 // PER PARTITION LIMIT, wherever it is applied; 0 means none
	grow         bool   // each command requests twice as many rows as the previous one
	filter       *row.Filter
	now          int64

	request *request.Request
	cancel  *env.Cancel // ends with the request; nil means that the scan is too short to be canceled

	at     position
	more   bool // stopped before the end
	view   rowView
	reader row.PageReader
}

// run passes rows to c until it has enough or no row is left.
func (s *scan) run(c consumer) error {
	s.view.reset(s.table, s.now)
	if s.keys != nil {
		return s.runKeys(c)
	}
	if s.at.key.Bytes != nil && !s.at.done {
		stop, err := s.runPartition(c, s.at.key)
		if stop || err != nil {
			s.more = stop // there may be further partitions
			return err
		}
	}
	for {
		cmd := s.command()
		cmd.Range = row.KeyRange{Tokens: s.tokens}
		if s.at.key.Bytes != nil {
			after := s.at.key
			cmd.Range.After = &after
		}
		stop, more, err := s.runCommand(c, cmd, false)
		if stop || err != nil {
			s.more = s.more || stop
			return err
		}
		if !more {
			return nil
		}
		if !s.at.done {
			if stop, err := s.runPartition(c, s.at.key); stop || err != nil {
				s.more = stop
				return err
			}
		}
	}
}

func (s *scan) runKeys(c consumer) error {
	first := 0
	if s.at.key.Bytes != nil {
		first = slices.IndexFunc(s.keys, func(k row.PartitionKey) bool { return bytes.Equal(k.Bytes, s.at.key.Bytes) })
		if first < 0 {
			return invalidPagingState()
		}
		if s.at.done {
			first++
		}
	}
	for i, k := range s.keys[first:] {
		stop, err := s.runPartition(c, k)
		if err != nil {
			return err
		}
		if stop {
			s.more = s.more || first+i < len(s.keys)-1
			return nil
		}
	}
	return nil
}

// runPartition reads the rest of one partition.
func (s *scan) runPartition(c consumer, key row.PartitionKey) (stop bool, err error) {
	for {
		cmd := s.command()
		cmd.Key = key
		resumed := s.at.started && bytes.Equal(s.at.key.Bytes, key.Bytes)
		if resumed {
			cmd.Slices = cutSlices(s.slices, s.at.clustering, s.reversed)
			cmd.StaticCounts = s.staticCounts && !s.at.live
			if s.share > 0 && s.at.given >= s.share {
				s.at.done = true
				return false, nil
			}
			if s.perPartition > 0 {
				cmd.Limits.PerPartition = s.perPartition - s.at.given
			}
			if len(cmd.Slices) == 0 {
				s.at.done = true
				return false, nil
			}
		}
		stop, more, err := s.runCommand(c, cmd, resumed)
		if stop || err != nil {
			return stop, err
		}
		if !more || s.at.done {
			s.at = position{key: key, started: true, done: true}
			return false, nil
		}
	}
}

func (s *scan) command() *row.ReadCommand {
	cmd := &row.ReadCommand{
		Filter: s.filter,
		Table:  s.table.StorageID, Slices: s.slices, Reversed: s.reversed, StaticCounts: s.staticCounts,
		Limits: row.Limits{Rows: s.batch, PerPartition: s.perPartition}, Now: s.now, Cancel: s.cancel,
	}
	if s.grow {
		s.batch = min(2*s.batch, batchMax)
	}
	return cmd
}

// cutSlices returns the parts of slices after the clustering c.
func cutSlices(in []row.Slice, c []byte, reversed bool) []row.Slice {
	var out []row.Slice
	for _, s := range in {
		if reversed {
			if s.End == nil || bytes.Compare(s.End, c) > 0 {
				s.End = bytes.Clone(c) // the command outlives the position
			}
		} else if after := row.After(c); bytes.Compare(s.Start, after) < 0 {
			s.Start = after
		}
		if !s.Empty() {
			out = append(out, s)
		}
	}
	return out
}

// runCommand executes one command and passes its rows to c. more means that a limit ended it.
func (s *scan) runCommand(c consumer, cmd *row.ReadCommand, resumed bool) (stop, more bool, err error) {
	page, held, err := s.fetch(cmd)
	if err != nil {
		return false, false, err
	}
	if held != nil {
		defer held.Release()
	}
	r := &s.reader
	r.Reset(page)
	for r.NextPartition() {
		s.request.Cost.Partitions++
		stop, err = s.runRows(c, r, resumed && bytes.Equal(r.Key.Bytes, s.at.key.Bytes))
		if stop || err != nil {
			return stop, false, err
		}
	}
	if end := r.End(); end != nil {
		s.passed(end)
	}
	return false, r.More(), r.Err()
}

// passed moves the position to the end of a page whose last rows were not in it.
func (s *scan) passed(end *row.Position) {
	if !bytes.Equal(s.at.key.Bytes, end.Key.Bytes) || s.at.key.Bytes == nil {
		s.at = position{key: row.PartitionKey{Token: end.Key.Token, Bytes: bytes.Clone(end.Key.Bytes)}, clustering: s.at.clustering[:0]}
	}
	s.at.started, s.at.done = true, s.at.done || end.Whole
	s.at.clustering = append(s.at.clustering[:0], end.Clustering...)
}

// runRows passes on the rows of the reader's partition.
func (s *scan) runRows(c consumer, r *row.PageReader, resumed bool) (stop bool, err error) {
	v := &s.view
	v.header = r.Header
	v.partition(r.Key)
	s.request.Cost.Tombstones += 2 * len(r.RangeTombstones) // their starts and ends, as Cassandra counts
	fixed := len(v.marked)
	if !resumed {
		s.at = position{key: row.PartitionKey{Token: r.Key.Token, Bytes: bytes.Clone(r.Key.Bytes)},
			clustering: s.at.clustering[:0]}
	}
	any := resumed && s.at.live
	deleted := false // the last row
	for r.NextRow(&v.row) {
		if !v.live(&v.row) {
			s.request.Cost.Tombstones++
			deleted = true
			continue
		}
		deleted = false
		any = true
		s.request.Cost.Rows++
		v.next(fixed, v.row.Clustering)
		if v.clustering == nil {
			v.clustering = []byte{}
		}
		v.mark(&v.row)
		stop, skip, err := s.emit(c, r)
		if err != nil || stop {
			return stop, err
		}
		if skip {
			s.at.done = true
			return false, nil
		}
	}
	if r.Continues() {
		// Nothing is known yet of the rows that follow, and a page of deleted rows only must be progress, too.
		if deleted {
			s.at.started = true
			s.at.clustering = append(s.at.clustering[:0], v.row.Clustering...)
		}
		return false, r.Err()
	}
	if any || !s.staticCounts || !v.live(&v.header) {
		return false, r.Err()
	}
	s.request.Cost.Rows++
	v.next(fixed, nil)
	stop, _, err = s.emit(c, r)
	if !stop {
		s.at.done = true
	}
	return stop, err
}

// emit passes the row in view to c.
func (s *scan) emit(c consumer, r *row.PageReader) (stop, skip bool, err error) {
	verdict, err := c.consume(&s.view)
	if err != nil {
		return false, false, err
	}
	if verdict == stopBefore {
		s.more = true
		if s.staticCounts && !s.at.live {
			s.at.started = false // the partition is read again: paging states do not contain live
		}
		return true, false, nil
	}
	s.at.started, s.at.live = true, true
	if s.view.clustering == nil {
		s.at.done = true
	} else {
		s.at.clustering = append(s.at.clustering[:0], s.view.clustering...)
	}
	if verdict != skipRow {
		s.at.given++
	}
	if verdict == stopAfter {
		s.more = s.anyLeft(r)
		return true, false, nil
	}
	return false, verdict == nextPartition, nil
}

// anyLeft reports whether the page has another live row, or may have omitted one for lack of space.
func (s *scan) anyLeft(r *row.PageReader) bool {
	var x row.Row
	for r.NextRow(&x) {
		if s.view.live(&x) {
			return true
		}
	}
	for r.NextPartition() {
		if s.staticCounts && s.view.live(&r.Header) {
			return true
		}
		for r.NextRow(&x) {
			if s.view.live(&x) {
				return true
			}
		}
	}
	return r.More()
}

// fetch executes a command, through the coordinator or on a virtual table.
func (s *scan) fetch(cmd *row.ReadCommand) (page []byte, held *request.Call, err error) {
	if err := s.request.Context.Err(); err != nil {
		return nil, nil, err
	}
	if s.p.isVirtual(s.table) {
		if err := checkLocalLevel(s.table, s.request.Consistency); err != nil {
			return nil, nil, err
		}
		page, err := s.p.virtualPage(s.table, cmd)
		s.request.Cost.Commands++
		s.request.Cost.Bytes += len(page)
		return page, nil, err
	}
	timeout := s.p.o.Timeouts.Range
	if cmd.SinglePartition() {
		timeout = s.p.o.Timeouts.Read
	}
	call, err := s.p.o.Executor.Read(s.request, &coordinator.ReadRequest{Command: cmd, Consistency: s.request.Consistency, Timeout: timeout,
		Contention: s.p.o.Timeouts.CAS, Cancel: s.cancel})
	if err != nil {
		return nil, nil, err
	}
	return call.Page(), call, nil
}

// defaultTimeouts returns the timeouts of cassandra.yaml for those that are not set.
func defaultTimeouts(t Timeouts) Timeouts {
	if t.Read == 0 {
		t.Read = 5 * time.Second
	}
	if t.Range == 0 {
		t.Range = 10 * time.Second
	}
	if t.CAS == 0 {
		t.CAS = time.Second
	}
	if t.Write == 0 {
		t.Write = 2 * time.Second
	}
	if t.Counter == 0 {
		t.Counter = 5 * time.Second
	}
	if t.Truncate == 0 {
		t.Truncate = time.Minute
	}
	if t.Schema == 0 {
		t.Schema = 8 * time.Second // cqlsh and the Python driver wait 10 s for a reply
	}
	return t
}
