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

// pointRead is a read of one entity: one allocation. Replicas may look at it after the answer, so it is not reused.
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
	call.Keep() // the entity points into it
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

// wanted says which properties are selected; nil: all.
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

// Query implements Service. The Position of a Descending query is behind the rows that it gave: at it
// nothing more begins.
func (s *Store) Query(req *request.Request, account, table string, q *Query) (*Page, error) {
	p, err := s.plan(account, table)
	if err != nil {
		return nil, err
	}
	if err := s.permits(req, auth.Select, p); err != nil {
		return nil, err
	}
	where := boxesOf(q.Filter, false)
	r := &run{s: s, p: p, q: q, request: req, cancel: env.NewCancel(req.Context), rowsBefore: req.Cost.Rows, now: s.now(), exact: where.exact}
	list := stretches(where.list)
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
		r.asked = make([]bool, len(p.properties))
		r.ask(q.Filter)
	}
	r.feed = newFeed(r, list)
	err = r.run()
	r.drain()
	if err != nil {
		return nil, err
	}
	return &r.page, nil
}

// run is one query on its way to a page. Partitions are read in their order, several at once, each by a
// reading; the first of them is the one whose rows are taken.
//
//	feed ─ key ─▶ [reading][reading][reading] ─ rows ─▶ filter ─▶ page
type run struct {
	s       *Store
	p       *plan
	q       *Query
	request *request.Request
	// cancel ends with the request, and with it what the coordinator and replicas do for the query.
	cancel     *env.Cancel
	d          *decoder
	now        int64 // seconds
	end        time.Duration
	rowsBefore int // that the request had read before this query

	exact    bool   // what is read matches
	asked    []bool // properties that the filter looks at
	asks     bool   // there are some
	selected []bool

	feed     *feed
	readings []*reading
	width    int // how many readings there may be
	page     Page
	left     int // entities that the page may still take
	bytes    int
	entity   odata.Entity // of the row at hand
	at       Position     // nothing before it is to come
	last     string       // RowKey that was looked at last in the partition of at, if one was: passed
	passed   bool

	taken      int // partitions of which all was read
	takenCount int // entities that came of them
	takenBytes int // of their pages
}

// ask notes which properties the filter looks at.
func (r *run) ask(x odata.Expr) {
	switch x := x.(type) {
	case *odata.And:
		r.ask(x.Left)
		r.ask(x.Right)
	case *odata.Or:
		r.ask(x.Left)
		r.ask(x.Right)
	case *odata.Not:
		r.ask(x.X)
	case *odata.Comparison:
		if prop := r.p.byName[x.Property]; prop != nil {
			r.asked[prop.index], r.asks = true, true
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
			if r.feed.paused {
				r.stop(Position{PartitionKey: string(r.feed.behind)})
			}
			return nil // that was all
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

// late says whether the page has taken as long as it may.
func (r *run) late() bool {
	return r.s.o.Clock.Monotonic() >= r.end || r.request.Context.Err() != nil
}

// patience is how long the page may still take; not zero.
func (r *run) patience() time.Duration { return max(r.end-r.s.o.Clock.Monotonic(), 1) }

// timeout is that of a read for the page: it should not take much longer than that.
func (r *run) timeout() time.Duration {
	return min(r.s.o.Timeouts.Read, max(r.patience(), timeoutLeast))
}

// stop ends the page before at.
func (r *run) stop(at Position) { r.page.Next = &at }

// cut ends the page where an error ended it, if that is further than where it began: the next page, if the
// error is still there, will tell.
func (r *run) cut(err error) error {
	if r.request.Cost.Rows == r.rowsBefore || r.request.Context.Err() != nil {
		return err
	}
	r.stop(r.reached())
	return nil
}

// reached is the position behind all that was looked at.
func (r *run) reached() Position {
	if r.passed {
		return r.behind(r.at.PartitionKey, r.last)
	}
	return r.at
}

// fill starts readings until there are as many as there may be, or the first one's answer is there already.
func (r *run) fill() error {
	for len(r.readings) < r.width {
		key, rows, from, ok, err := r.feed.next()
		if err != nil && len(r.readings) > 0 {
			return nil // it comes again when they are taken
		}
		if !ok || err != nil {
			return err
		}
		x := &reading{key: key, from: from, limit: r.limit(len(r.readings) == 0 && r.feed.single)}
		x.cmd = row.ReadCommand{Table: r.p.table.StorageID, Key: row.NewPartitionKey([]byte(key)), Slices: rows,
			Reversed: r.p.desc != (r.q.Order == Descending), Now: r.now}
		r.start(x)
		r.readings = append(r.readings, x)
		if len(r.readings) == 1 && x.call.Answered() {
			return nil // this node's own answer: it is taken while it is in the processor's cache
		}
	}
	return nil
}

// limit is how many rows a reading asks for at first.
func (r *run) limit(single bool) uint32 {
	switch {
	case !r.exact:
		return uint32(min(filteredFirst, 8*max(1, min(r.left, filteredFirst))))
	case single:
		return uint32(min(r.left, rowsMax-1) + 1)
	}
	return uint32(min(r.left, partitionRows-1) + 1)
}

// adapt chooses how many partitions to read at once, by what came of those that were read.
func (r *run) adapt() {
	wanted := min(r.partitionsLeft(), readsMax)
	if bytes := r.takenBytes / max(1, r.taken); bytes > 0 {
		wanted = min(wanted, readingBytes/bytes)
	}
	r.width = max(1, min(wanted, 2*r.width))
}

// partitionsLeft is how many partitions the page still takes, by the mean of those before, and one: it tells
// whether there is a next page.
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

// drain waits for what is under way still.
func (r *run) drain() {
	for _, x := range r.readings {
		if x.call != nil {
			if x.open {
				r.cancel.Cancel() // the result is not wanted
				_, _ = x.call.Wait(r.request)
			}
			x.call.Release()
		}
	}
	r.readings = nil
}

// reading is the rows of one partition on their way.
type reading struct {
	key   string
	from  string // RowKey at which the query begins in it
	cmd   row.ReadCommand
	limit uint32
	req   coordinator.ReadRequest
	call  *request.Call // of the read that was begun last
	open  bool          // call was not waited for yet
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

// take takes the rows of the first reading; full says that the page has ended.
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
			x.cmd.Slices = behind(x.cmd.Slices, last, x.cmd.Reversed)
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
		r.feed.dead = true
	}
	r.taken++
	r.takenCount += r.page.Count - before
	return false, nil
}

// rows takes the rows of a page. last is the clustering of the last one; more says that a limit ended the
// page.
func (r *run) rows(x *reading, page []byte) (last []byte, more, full bool, err error) {
	d := r.d
	kept := false
	defer func() {
		if kept {
			x.call.Keep() // entities point into the page
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

// before is the position at which an entity is the next.
func (r *run) before(partitionKey, rowKey string) Position {
	if r.q.Order == Descending {
		rowKey = after(rowKey)
	}
	return Position{partitionKey, rowKey}
}

// behind is the position at which an entity was the last.
func (r *run) behind(partitionKey, rowKey string) Position {
	if r.q.Order == Descending {
		if rowKey == "" { // none is before it
			return Position{PartitionKey: after(partitionKey)}
		}
		return Position{partitionKey, rowKey}
	}
	return Position{partitionKey, after(rowKey)}
}

// row takes the row in the decoder if it matches; kept says that the page has it now.
func (r *run) row(partitionKey, rowKey string, newest int64) (kept bool) {
	d := r.d
	r.entity = odata.Entity{PartitionKey: partitionKey, RowKey: rowKey, Timestamp: newest * ticksPerMicro}
	e := &r.entity
	if !r.exact {
		if r.asks {
			from := len(d.props)
			d.wanted = r.asked
			e.Properties = d.properties(&d.reader.Header, &d.row)
			if len(e.Properties) <= len(d.props)-from {
				d.props = d.props[:from]
			} else {
				d.props = d.props[:0] // they began a new chunk
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

// What an entity, and a property, take in JSON besides keys, name and text: braces, etag and Timestamp;
// quotes, a number.
const (
	entityBytes = 150
	valueBytes  = 16
)

// behind is what is left of slices behind the clustering c.
func behind(in []row.Slice, c []byte, reversed bool) []row.Slice {
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
