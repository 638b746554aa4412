package entity

import (
	"math"
	"time"

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
func (s *Store) Get(r *request.Request, account, table, partitionKey, rowKey string, selected []string) (*odata.Entity,
	error) {
	p, err := s.plan(account, table)
	if err != nil {
		return nil, err
	}
	if err := s.mayRead(r, p); err != nil {
		return nil, err
	}
	if err := checkKeys(partitionKey, rowKey); err != nil {
		return nil, odata.Of(odata.ResourceNotFound)
	}
	x := &pointRead{slices: [1]row.Slice{row.ExactRow(p.appendClustering(nil, []byte(rowKey)))}}
	x.cmd = row.ReadCommand{Table: p.table.StorageID, Key: row.NewPartitionKey([]byte(partitionKey)),
		Slices: x.slices[:], Now: s.now()}
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
	if err := s.mayRead(req, p); err != nil {
		return nil, err
	}
	where := rectanglesOf(q.Filter, false)
	r := &run{s: s, p: p, q: q, request: req, cancel: env.NewCancel(req.Context), rowsBefore: req.Cost.Rows,
		now: s.now(), exact: where.exact}
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
	r.scan = request.Scan{Executor: s.o.Executor, Request: req, Source: r, Consumer: r, Cancel: r.cancel,
		Row: &r.d.row, PageBytes: scanBytes,
		Width: min(readsFirst, r.left), WidthMax: readsMax, WidthBytes: readingBytes}
	if err := r.scan.Run(); err != nil {
		if err := r.cut(known(err)); err != nil {
			return nil, err
		}
	}
	return &r.page, nil
}

// run is the state of one query. Its scan reads partitions in order, several concurrently, with one reading each.
//
//	cursor ─ key ─▶ scan: [reading][reading][reading] ─ rows ─▶ filter ─▶ page
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
	scan     request.Scan
	readings []*reading // of the scan, in the order in which it takes their rows; the first is in use after Begin
	free     []*reading
	newest   int64 // timestamp of the decoder's current row
	page     Page
	left     int // remaining number of entities in the page
	bytes    int
	reserved int          // memory of the request for the response
	entity   odata.Entity // of the current row
	at       Position     // all entities before it were processed
	last     string       // RowKey processed last in the partition of at; valid if passed
	passed   bool

	taken      int // completely read partitions
	takenCount int // entities found in them
	takenRows  int // rows that the request had read when the first reading began
	takenPage  int // entities of the page at that time
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

// reading is the read of one partition's rows.
type reading struct {
	request.Read
	key  string
	from string // RowKey at which the query starts in the partition
}

// Next implements request.Source.
func (r *run) Next() (*request.Read, error) {
	key, rows, from, ok, err := r.cursor.next()
	if !ok || err != nil {
		if err == nil && r.cursor.paused && r.scan.InFlight() == 0 {
			r.stop(Position{PartitionKey: string(r.cursor.resume)})
		}
		return nil, err
	}
	x := r.newReading()
	x.key, x.from = key, from
	x.One(row.NewPartitionKey([]byte(key)))
	x.Command = row.ReadCommand{Table: r.p.table.StorageID, Slices: rows,
		Reversed: r.p.desc != (r.q.Order == Descending), Now: r.now}
	x.Command.Limits.Rows = r.limit(r.scan.InFlight() == 0 && r.cursor.single)
	r.scan.FirstBytes = int(x.Command.Limits.Rows) * rowBytesGuess
	r.readings = append(r.readings, x) // the scan starts it, because a partition that was not read yet needs a command
	return &x.Read, nil
}

func (r *run) newReading() *reading {
	if n := len(r.free); n > 0 {
		x := r.free[n-1]
		r.free = r.free[:n-1]
		x.Reset()
		return x
	}
	return new(reading)
}

// Prepare implements request.Source.
func (r *run) Prepare(req *coordinator.ReadRequest) { req.Timeout = r.timeout() }

// Begin implements request.Source. The page ends before the reading if its time is used up.
func (r *run) Begin(*request.Read) bool {
	x := r.readings[0]
	start := Position{PartitionKey: x.key, RowKey: x.from}
	if r.taken > 0 && r.late() {
		r.stop(start)
		return false
	}
	r.at, r.passed = start, false
	r.takenRows, r.takenPage = r.request.Cost.Rows, r.page.Count
	return true
}

// Continue implements request.Source. The page ends inside the partition if its time is used up.
func (r *run) Continue(x *request.Read) bool {
	if r.late() {
		r.stop(r.reached())
		return false
	}
	rows := &x.Command.Limits.Rows
	if *rows = min(4**rows, rowsMax); r.exact && r.left < rowsMax {
		*rows = uint32(r.left) + 1
	}
	return true
}

// Done implements request.Source.
func (r *run) Done(*request.Read) {
	r.free = append(r.free, r.readings[0])
	r.readings = r.readings[1:]
	if r.request.Cost.Rows == r.takenRows {
		r.cursor.dead = true
	}
	r.taken++
	r.takenCount += r.page.Count - r.takenPage
}

// Wanted implements request.Source. It estimates how many partitions the page still needs, from the mean number of
// entities, plus one that determines whether there is a next page.
func (r *run) Wanted() int {
	if r.takenCount == 0 || r.left > math.MaxInt32 {
		return math.MaxInt32
	}
	return r.left*r.taken/r.takenCount + 1
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

// Partition implements request.Consumer.
func (r *run) Partition(*request.Read) {}

// Live implements request.Consumer.
func (r *run) Live(x *row.Row) bool {
	r.newest = r.d.newest(x)
	return r.newest != row.NoTimestamp
}

// Row implements request.Consumer.
func (r *run) Row(x *request.Read, data *row.Row) (request.Verdict, error) {
	key, rowKey := r.readings[0].key, r.d.rowKey(data.Clustering)
	if r.left == 0 || r.bytes >= r.s.o.Limits.PageBytes {
		r.stop(r.before(key, rowKey))
		return request.StopBefore, nil
	}
	if r.row(&x.Reader.Header, key, rowKey) {
		x.Keep() // the entity refers to the page
	}
	if err := r.reserve(); err != nil {
		return 0, err
	}
	r.last, r.passed = rowKey, true
	return request.NextRow, nil
}

// reserve reserves memory for the response, whose buffer doubles.
func (r *run) reserve() error {
	if r.bytes <= r.reserved || r.bytes <= responseFree {
		return nil
	}
	more := max(r.bytes, 2*r.reserved) - r.reserved
	if err := r.request.Grow(more); err != nil {
		return err
	}
	r.reserved += more
	return nil
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
func (r *run) row(header *row.Row, partitionKey, rowKey string) (kept bool) {
	d := r.d
	r.entity = odata.Entity{PartitionKey: partitionKey, RowKey: rowKey, Timestamp: r.newest * ticksPerMicro}
	e := &r.entity
	if !r.exact {
		if r.filtersProperties {
			from := len(d.props)
			d.wanted = r.filterProperties
			e.Properties = d.properties(header, &d.row)
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
	e.Properties = d.properties(header, &d.row)
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
