package entity

import (
	"math"
	"time"

	"cqld/auth"
	"cqld/azuretables/odata"
	"cqld/coordinator"
	"cqld/internal/env"
	"cqld/request"
	"cqld/row"
)

// pointRead is a read of one entity in a single allocation. Replicas may read it after the response, so it is not
// reused.
type pointRead struct {
	req    coordinator.ReadRequest
	cmd    row.ReadCommand
	slices [1]row.Slice
}

// Get implements Service.
func (s *Store) Get(r *request.Request, account, table, partitionKey, rowKey string, selected []string) (*odata.Entity, error) {
	p, err := s.plan(account, table)
	if err != nil {
		return nil, err
	}
	if err := s.permits(r, auth.Select, p); err != nil {
		return nil, err
	}
	if err := checkKeys(partitionKey, rowKey); err != nil {
		return nil, odata.Of(odata.ResourceNotFound)
	}
	x := &pointRead{slices: [1]row.Slice{row.ExactRow(p.appendClustering(nil, []byte(rowKey)))}}
	x.cmd = row.ReadCommand{Table: p.table.StorageID, Key: row.NewPartitionKey([]byte(partitionKey)), Slices: x.slices[:], Now: s.now()}
	x.req = coordinator.ReadRequest{Command: &x.cmd, Consistency: r.Consistency, Timeout: s.o.Timeouts.Read}
	call, err := s.o.Executor.Read(r, &x.req)
	if err != nil {
		return nil, known(err)
	}
	page := call.Page()
	call.Keep() // the entity refers to the page
	call.Release()
	d := s.decoders.Get().(*decoder)
	defer s.putDecoder(d)
	d.reset(p, x.cmd.Now)
	d.wanted = p.wanted(selected)
	var reader row.PageReader
	reader.Reset(page)
	for reader.NextPartition() {
		r.Cost.Partitions++
		r.Cost.Tombstones += 2 * len(reader.RangeTombstones)
		for reader.NextRow(&d.row) {
			newest := d.newest(&d.row)
			if newest == row.NoTimestamp {
				r.Cost.Tombstones++
				continue
			}
			r.Cost.Rows++
			return &odata.Entity{PartitionKey: partitionKey, RowKey: rowKey, Timestamp: newest * ticksPerMicro,
				Properties: d.properties(&reader.Header, &d.row)}, nil
		}
	}
	if err := reader.Err(); err != nil {
		return nil, err
	}
	return nil, odata.Of(odata.ResourceNotFound)
}

func (s *Store) putDecoder(d *decoder) {
	d.release()
	s.decoders.Put(d)
}

// wanted selects properties by index; nil means all.
func (p *plan) wanted(selected []string) []bool {
	if selected == nil {
		return nil
	}
	out := make([]bool, len(p.properties))
	for _, name := range selected {
		if prop := p.byName[name]; prop != nil {
			out[prop.index] = true
		}
	}
	return out
}

// Query implements Service. In a Descending query, the RowKey of a Position is exclusive: only rows before it remain.
func (s *Store) Query(req *request.Request, account, table string, q *Query) (*Page, error) {
	p, err := s.plan(account, table)
	if err != nil {
		return nil, err
	}
	if err := s.permits(req, auth.Select, p); err != nil {
		return nil, err
	}
	where := rectanglesOf(q.Filter, false)
	r := &run{s: s, p: p, q: q, request: req, cancel: env.NewCancel(req.Context), rowsBefore: req.Cost.Rows, now: s.now(), exact: where.exact}
	list := partitionRanges(where.list)
	r.page.Plan = planOf(list)
	r.left = s.o.Limits.PageEntities
	if q.CountOnly {
		r.left = math.MaxInt
	}
	if q.Top > 0 {
		r.left = min(r.left, q.Top)
	}
	r.end = s.o.Clock.Monotonic() + s.o.Timeouts.Page
	r.d = s.decoders.Get().(*decoder)
	defer s.putDecoder(r.d)
	r.d.reset(p, r.now)
	r.selected = p.wanted(q.Select)
	if !r.exact {
		r.filterProperties = make([]bool, len(p.properties))
		r.noteProperties(q.Filter)
	}
	r.cursor = newCursor(r, list)
	err = r.run()
	r.drain()
	if err != nil {
		return nil, err
	}
	return &r.page, nil
}

// run is the state of one query. It reads partitions in order, several concurrently, with one reading each, and takes
// rows from the first reading.
//
//	cursor ─ key ─▶ [reading][reading][reading] ─ rows ─▶ filter ─▶ page
type run struct {
	s       *Store
	p       *plan
	q       *Query
	request *request.Request
	// cancel is canceled with the request, and cancels the work of the coordinator and replicas for the query.
	cancel     *env.Cancel
	d          *decoder
	now        int64 // seconds
	end        time.Duration
	rowsBefore int // rows that the request had read before this query

	exact             bool   // all entities in the key rectangles match the filter
	filterProperties  []bool // properties that the filter refers to
	filtersProperties bool   // filterProperties contains at least one property
	selected          []bool

	cursor   *cursor
	readings []*reading
	width    int // maximum number of concurrent readings
	page     Page
	left     int // remaining number of entities in the page
	bytes    int
	entity   odata.Entity // of the current row
	at       Position     // all entities before it were processed
	last     string       // RowKey processed last in the partition of at; valid if passed
	passed   bool

	taken      int // completely read partitions
	takenCount int // entities found in them
	takenBytes int // size of their pages
}

// noteProperties records the properties that the filter refers to.
func (r *run) noteProperties(x odata.Expr) {
	switch x := x.(type) {
	case *odata.And:
		r.noteProperties(x.Left)
		r.noteProperties(x.Right)
	case *odata.Or:
		r.noteProperties(x.Left)
		r.noteProperties(x.Right)
	case *odata.Not:
		r.noteProperties(x.X)
	case *odata.Comparison:
		if prop := r.p.byName[x.Property]; prop != nil {
			r.filterProperties[prop.index], r.filtersProperties = true, true
		}
	}
}

// run fills the page.
func (r *run) run() error {
	r.width = min(readsFirst, r.left)
	for {
		if err := r.fill(); err != nil {
			return r.cut(err)
		}
		if len(r.readings) == 0 {
			if r.cursor.paused {
				r.stop(Position{PartitionKey: string(r.cursor.resume)})
			}
			return nil // the query is complete
		}
		head := r.readings[0]
		if r.taken > 0 && r.late() {
			r.stop(Position{PartitionKey: head.key, RowKey: head.from})
			return nil
		}
		r.at, r.passed = Position{PartitionKey: head.key, RowKey: head.from}, false
		full, err := r.take(head)
		if err != nil {
			return r.cut(err)
		}
		if full {
			return nil
		}
		r.pop()
		r.adapt()
	}
}

// late reports whether the page has used up its time.
func (r *run) late() bool {
	return r.s.o.Clock.Monotonic() >= r.end || r.request.Context.Err() != nil
}

// patience returns the remaining time of the page; at least 1 ns.
func (r *run) patience() time.Duration { return max(r.end-r.s.o.Clock.Monotonic(), 1) }

// timeout returns the timeout of a read, which should not exceed the page's remaining time by much.
func (r *run) timeout() time.Duration {
	return min(r.s.o.Timeouts.Read, max(r.patience(), timeoutLeast))
}

// stop ends the page; the next one starts at the given position.
func (r *run) stop(at Position) { r.page.Next = &at }

// cut ends the page at an error, if the query has read rows; the next page reports the error if it persists. Otherwise
// it returns err.
func (r *run) cut(err error) error {
	if r.request.Cost.Rows == r.rowsBefore || r.request.Context.Err() != nil {
		return err
	}
	r.stop(r.reached())
	return nil
}

// reached returns the position after everything processed so far.
func (r *run) reached() Position {
	if r.passed {
		return r.positionAfter(r.at.PartitionKey, r.last)
	}
	return r.at
}

// fill starts readings up to the maximum number, or until the first one has its result.
func (r *run) fill() error {
	for len(r.readings) < r.width {
		key, rows, from, ok, err := r.cursor.next()
		if err != nil && len(r.readings) > 0 {
			return nil // the next call returns the error again, after these readings
		}
		if !ok || err != nil {
			return err
		}
		x := &reading{key: key, from: from, limit: r.limit(len(r.readings) == 0 && r.cursor.single)}
		x.cmd = row.ReadCommand{Table: r.p.table.StorageID, Key: row.NewPartitionKey([]byte(key)), Slices: rows,
			Reversed: r.p.desc != (r.q.Order == Descending), Now: r.now}
		r.start(x)
		r.readings = append(r.readings, x)
		if len(r.readings) == 1 && x.call.Answered() {
			return nil // a local result is processed while it is in the CPU's cache
		}
	}
	return nil
}

// limit returns the number of rows that a reading requests first.
func (r *run) limit(single bool) uint32 {
	switch {
	case !r.exact:
		return uint32(min(filteredFirst, 8*max(1, min(r.left, filteredFirst))))
	case single:
		return uint32(min(r.left, rowsMax-1) + 1)
	}
	return uint32(min(r.left, partitionRows-1) + 1)
}

// adapt sets the number of concurrent readings according to the results so far.
func (r *run) adapt() {
	wanted := min(r.partitionsLeft(), readsMax)
	if bytes := r.takenBytes / max(1, r.taken); bytes > 0 {
		wanted = min(wanted, readingBytes/bytes)
	}
	r.width = max(1, min(wanted, 2*r.width))
}

// partitionsLeft estimates how many partitions the page still needs, from the mean number of entities, plus one that
// determines whether there is a next page.
func (r *run) partitionsLeft() int {
	if r.takenCount == 0 || r.left > math.MaxInt32 {
		return math.MaxInt32
	}
	return r.left*r.taken/r.takenCount + 1
}

// pop removes the first reading.
func (r *run) pop() {
	r.readings[0].call.Release()
	r.readings = r.readings[1:]
}

// drain waits for the readings still in progress.
func (r *run) drain() {
	for _, x := range r.readings {
		if x.call != nil {
			if x.open {
				r.cancel.Cancel() // the result is not needed
				_, _ = x.call.Wait(r.request)
			}
			x.call.Release()
		}
	}
	r.readings = nil
}

// reading is the read of one partition's rows.
type reading struct {
	key   string
	from  string // RowKey at which the query starts in the partition
	cmd   row.ReadCommand
	limit uint32
	req   coordinator.ReadRequest
	call  *request.Call // the most recent read
	open  bool          // call has not been waited for yet
}

func (r *run) start(x *reading) {
	if x.call != nil {
		x.call.Release()
	}
	x.cmd.Limits.Rows = x.limit
	x.cmd.Cancel = r.cancel
	x.req = coordinator.ReadRequest{Command: &x.cmd, Consistency: r.request.Consistency, Timeout: r.timeout(), Cancel: r.cancel}
	x.call, x.open = r.s.o.Executor.Start(r.request, &x.req), true
}

// take processes the rows of the first reading; full reports that the page has ended.
func (r *run) take(x *reading) (full bool, err error) {
	before, scanned := r.page.Count, r.request.Cost.Rows
	for {
		page, err := x.call.Wait(r.request)
		x.open = false
		if err != nil {
			return false, known(err)
		}
		r.takenBytes += len(page)
		last, more, full, err := r.rows(x, page)
		if full || err != nil {
			return full, err
		}
		if !more {
			break
		}
		if last != nil {
			x.cmd.Slices = slicesAfter(x.cmd.Slices, last, x.cmd.Reversed)
		}
		if len(x.cmd.Slices) == 0 {
			break
		}
		if r.late() {
			r.stop(r.reached())
			return true, nil
		}
		if x.limit = min(4*x.limit, rowsMax); r.exact && r.left < rowsMax {
			x.limit = uint32(r.left) + 1
		}
		r.start(x)
	}
	if r.request.Cost.Rows == scanned {
		r.cursor.dead = true
	}
	r.taken++
	r.takenCount += r.page.Count - before
	return false, nil
}

// rows processes the rows of a page of a reading. last is the clustering of its last row; more reports that a limit
// ended it.
func (r *run) rows(x *reading, page []byte) (last []byte, more, full bool, err error) {
	d := r.d
	kept := false
	defer func() {
		if kept {
			x.call.Keep() // entities refer to the page
		}
	}()
	reader := &d.reader
	reader.Reset(page)
	for reader.NextPartition() {
		r.request.Cost.Partitions++
		r.request.Cost.Tombstones += 2 * len(reader.RangeTombstones)
		for reader.NextRow(&d.row) {
			last = d.row.Clustering
			newest := d.newest(&d.row)
			if newest == row.NoTimestamp {
				r.request.Cost.Tombstones++
				continue
			}
			rowKey := d.rowKey(d.row.Clustering)
			if r.left == 0 || r.bytes >= r.s.o.Limits.PageBytes {
				r.stop(r.before(x.key, rowKey))
				return nil, false, true, nil
			}
			r.request.Cost.Rows++
			if r.row(x.key, rowKey, newest) {
				kept = true
			}
			r.last, r.passed = rowKey, true
		}
	}
	return last, reader.More(), false, reader.Err()
}

// before returns the position from which the entity is the next one.
func (r *run) before(partitionKey, rowKey string) Position {
	if r.q.Order == Descending {
		rowKey = after(rowKey)
	}
	return Position{partitionKey, rowKey}
}

// positionAfter returns the position after the entity.
func (r *run) positionAfter(partitionKey, rowKey string) Position {
	if r.q.Order == Descending {
		if rowKey == "" { // no row is before it
			return Position{PartitionKey: after(partitionKey)}
		}
		return Position{partitionKey, rowKey}
	}
	return Position{partitionKey, after(rowKey)}
}

// row adds the decoder's current row to the result if it matches; kept reports that the page refers to it.
func (r *run) row(partitionKey, rowKey string, newest int64) (kept bool) {
	d := r.d
	r.entity = odata.Entity{PartitionKey: partitionKey, RowKey: rowKey, Timestamp: newest * ticksPerMicro}
	e := &r.entity
	if !r.exact {
		if r.filtersProperties {
			from := len(d.props)
			d.wanted = r.filterProperties
			e.Properties = d.properties(&d.reader.Header, &d.row)
			if len(e.Properties) <= len(d.props)-from {
				d.props = d.props[:from]
			} else {
				d.props = d.props[:0] // they are the first of a new chunk
			}
		}
		if !odata.Matches(r.q.Filter, e) {
			return false
		}
	}
	r.page.Count++
	r.left--
	if r.q.CountOnly {
		return false
	}
	d.wanted = r.selected
	if r.q.Each != nil {
		d.props = d.props[:0]
	}
	e.Properties = d.properties(&d.reader.Header, &d.row)
	r.bytes += len(partitionKey) + len(rowKey) + entityBytes
	for i := range e.Properties {
		r.bytes += len(e.Properties[i].Name) + len(e.Properties[i].Value.Bytes) + valueBytes
	}
	if r.q.Each != nil {
		r.q.Each(e)
		d.arena = d.arena[:0]
		return false
	}
	r.page.Entities = append(r.page.Entities, *e)
	return true
}

// The size of an entity, and of a property, in JSON besides keys, names and text: braces, etag and Timestamp; quotes
// and a number.
const (
	entityBytes = 150
	valueBytes  = 16
)

// slicesAfter returns the parts of slices that remain after the clustering c.
func slicesAfter(in []row.Slice, c []byte, reversed bool) []row.Slice {
	bound := append(append(make([]byte, 0, len(c)+1), c...), 0) // nothing lies between c and c·00
	var out []row.Slice
	for _, s := range in {
		if reversed {
			if s.End == nil || string(s.End) > string(c) {
				s.End = bound[:len(c):len(c)]
			}
		} else if string(s.Start) < string(bound) {
			s.Start = bound
		}
		if !s.Empty() {
			out = append(out, s)
		}
	}
	return out
}
