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

// pointRead is a read of one entity in a single allocation: the request, the command and the slice. Replicas may read
// it after the response, so it is not reused.
type pointRead struct {
	req    coordinator.ReadRequest
	cmd    row.ReadCommand
	slices [1]row.Slice
}

// Get implements Service. The read is a query of one row, at the consistency of the request. selected names properties;
// nil means all. The entity refers to the page, which is then not reused.
func (s *Store) Get(r *request.Request, account, table, partitionKey, rowKey string, selected []string) (*odata.Entity,
	error) {
	p, err := s.plan(account, table)
	if err != nil {
		return nil, err
	}
	if err := s.mayRead(r, p); err != nil {
		return nil, err
	}
	// A key that storage cannot have belongs to no entity, so the error is the one of a missing entity.
	if err := checkKeys(partitionKey, rowKey); err != nil {
		return nil, odata.Of(odata.ResourceNotFound)
	}
	// A point read has exactly one slice, of one row.
	x := &pointRead{slices: [1]row.Slice{row.ExactRow(p.appendClustering(nil, []byte(rowKey)))}}
	x.cmd = row.ReadCommand{Table: p.table.StorageID, Key: row.NewPartitionKey([]byte(partitionKey)),
		Slices: x.slices[:], Now: s.now()}
	x.req = coordinator.ReadRequest{Command: &x.cmd, Consistency: r.Consistency, Timeout: s.o.Timeouts.Read}
	call, err := s.o.Executor.Read(r, &x.req)
	if err != nil {
		return nil, known(err)
	}
	page := call.Page()
	// The page holds the values, so it must not be reused while the entity is in use.
	call.Keep() // the entity refers to the page
	call.Release()
	d := s.decoders.Get().(*decoder)
	defer s.putDecoder(d)
	d.reset(p, x.cmd.Now)
	d.wanted = p.wanted(selected)
	var reader row.PageReader
	reader.Reset(page)
	// The page contains at most one row, but the loop counts what the replicas returned.
	for reader.NextPartition() {
		r.Cost.Partitions++
		// A range tombstone is stored as two markers.
		r.Cost.Tombstones += 2 * len(reader.RangeTombstones)
		for reader.NextRow(&d.row) {
			newest := d.newest(&d.row)
			// A row whose data has expired or was deleted does not exist.
			if newest == row.NoTimestamp {
				r.Cost.Tombstones++
				continue
			}
			r.Cost.Rows++
			// Timestamp is in ticks, the storage in microseconds.
			return &odata.Entity{PartitionKey: partitionKey, RowKey: rowKey, Timestamp: newest * ticksPerMicro,
				Properties: d.properties(&reader.Header, &d.row)}, nil
		}
	}
	if err := reader.Err(); err != nil {
		return nil, err
	}
	// No row, or none that is live.
	return nil, odata.Of(odata.ResourceNotFound)
}

// putDecoder returns a decoder to the pool. The memory of its entities is theirs. It is deferred by every query.
func (s *Store) putDecoder(d *decoder) {
	d.release()
	s.decoders.Put(d)
}

// wanted selects properties by index; nil means all. The keys and the Timestamp are always decoded; they are not
// properties. Names that the table does not have select nothing.
func (p *plan) wanted(selected []string) []bool {
	if selected == nil {
		return nil
	}
	// A false entry means that the value is not decoded, which matters for wide entities.
	out := make([]bool, len(p.properties))
	for _, name := range selected {
		if prop := p.byName[name]; prop != nil {
			out[prop.index] = true
		}
	}
	return out
}

// Query implements Service. In a Descending query, the RowKey of a Position is exclusive: only rows before it remain.
// The page ends when it has enough entities or bytes, or when its time is over; Next is then the position to continue
// at. Errors after some rows end the page, so that the client keeps what was found.
func (s *Store) Query(req *request.Request, account, table string, q *Query) (*Page, error) {
	p, err := s.plan(account, table)
	if err != nil {
		return nil, err
	}
	if err := s.mayRead(req, p); err != nil {
		return nil, err
	}
	// The filter is bounded by rectangles of keys, and evaluated only if they are not exact.
	where := rectanglesOf(q.Filter, false)
	r := &run{s: s, p: p, q: q, request: req, cancel: env.NewCancel(req.Context), rowsBefore: req.Cost.Rows,
		now: s.now(), exact: where.exact}
	list := partitionRanges(where.list)
	r.page.Plan = planOf(list)
	// A count has no maximum, and a page has no entities.
	r.left = s.o.Limits.PageEntities
	if q.CountOnly {
		r.left = math.MaxInt
	}
	if q.Top > 0 {
		r.left = min(r.left, q.Top)
	}
	// The time is the page's, not the request's: the client then repeats the request with a continuation.
	r.end = s.o.Clock.Monotonic() + s.o.Timeouts.Page
	r.d = s.decoders.Get().(*decoder)
	defer s.putDecoder(r.d)
	r.d.reset(p, r.now)
	r.selected = p.wanted(q.Select)
	// The properties of the filter are decoded before the filter is evaluated, the selected ones after.
	if !r.exact {
		r.filterProperties = make([]bool, len(p.properties))
		r.noteProperties(q.Filter)
	}
	// The cursor finds the partitions, the scan reads them, several concurrently, and run takes the rows in order.
	r.cursor = newCursor(r, list)
	r.scan = request.Scan{Executor: s.o.Executor, Request: req, Source: r, Consumer: r, Cancel: r.cancel,
		Row: &r.d.row, PageBytes: scanBytes,
		Width: min(readsFirst, r.left), WidthMax: readsMax, WidthBytes: readingBytes}
	if err := r.scan.Run(); err != nil {
		// An error after rows were found ends the page instead.
		if err := r.cut(known(err)); err != nil {
			return nil, err
		}
	}
	return &r.page, nil
}

// run is the state of one query. Its scan reads partitions in order, several concurrently, with one reading each.
//
// It is the source and the consumer of its scan, and is used by one goroutine at a time.
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
	now        int64         // seconds
	end        time.Duration // monotonic; the page ends then
	rowsBefore int           // rows that the request had read before this query

	exact             bool   // all entities in the key rectangles match the filter
	filterProperties  []bool // properties that the filter refers to
	filtersProperties bool   // filterProperties contains at least one property
	selected          []bool // nil means all properties

	cursor   *cursor
	scan     request.Scan
	readings []*reading   // of the scan, in the order in which it takes their rows; the first is in use after Begin
	free     []*reading   // readings to reuse
	newest   int64        // timestamp of the decoder's current row
	page     Page         // its entities refer to the pages of the reads
	left     int          // remaining number of entities in the page
	bytes    int          // of the page so far, as counted for the response
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

// noteProperties records the properties that the filter refers to. A property that no column stores is absent in every
// entity, and needs no decoding. It is called once for each query with a filter.
func (r *run) noteProperties(x odata.Expr) {
	switch x := x.(type) {
	case *odata.And:
		r.noteProperties(x.Left)
		r.noteProperties(x.Right)
	case *odata.Or:
		r.noteProperties(x.Left)
		r.noteProperties(x.Right)
	// The negation of a comparison refers to the same property.
	case *odata.Not:
		r.noteProperties(x.X)
	case *odata.Comparison:
		if prop := r.p.byName[x.Property]; prop != nil {
			r.filterProperties[prop.index], r.filtersProperties = true, true
		}
	}
}

// late reports whether the page has used up its time. A canceled request ends the page as well, so that Run returns
// soon. It is called for each partition and each command, not for each row.
func (r *run) late() bool {
	return r.s.o.Clock.Monotonic() >= r.end || r.request.Context.Err() != nil
}

// patience returns the remaining time of the page; at least 1 ns. The minimum keeps it positive after the page's time
// is over.
func (r *run) patience() time.Duration { return max(r.end-r.s.o.Clock.Monotonic(), 1) }

// timeout returns the timeout of a read, which should not exceed the page's remaining time by much. timeoutLeast keeps
// a page's last reads from failing because the page ends.
func (r *run) timeout() time.Duration {
	return min(r.s.o.Timeouts.Read, max(r.patience(), timeoutLeast))
}

// stop ends the page; the next one starts at the given position. A position may be the beginning of a partition that
// the page did not begin. A second call replaces the first.
func (r *run) stop(at Position) { r.page.Next = &at }

// cut ends the page at an error, if the query has read rows; the next page reports the error if it persists. Otherwise
// it returns err. The entities found so far are a correct page, so an error of a late read is not lost to the client. A
// canceled request returns err, as no client waits for the page.
func (r *run) cut(err error) error {
	if r.request.Cost.Rows == r.rowsBefore || r.request.Context.Err() != nil {
		return err
	}
	r.stop(r.reached())
	return nil
}

// reached returns the position after everything processed so far. It is the position after the last entity that was
// looked at, whether or not it matched. With it, no entity is returned twice or left out.
func (r *run) reached() Position {
	if r.passed {
		return r.positionAfter(r.at.PartitionKey, r.last)
	}
	return r.at
}

// reading is the read of one partition's rows. The key and the start belong to the scan's reading and are used when its
// rows are taken. It is reused by later partitions of the query.
type reading struct {
	request.Read
	key  string // copies of the cursor's, valid until Done
	from string // RowKey at which the query starts in the partition
}

// Next implements request.Source. The scan calls it while its readings are in flight, and reads the next partition
// concurrently.
func (r *run) Next() (*request.Read, error) {
	key, rows, from, ok, err := r.cursor.next()
	if !ok || err != nil {
		// The time ended before more keys were listed. The position is the key from which the listing continues.
		if err == nil && r.cursor.paused && r.scan.InFlight() == 0 {
			r.stop(Position{PartitionKey: string(r.cursor.resume)})
		}
		return nil, err
	}
	x := r.newReading()
	x.key, x.from = key, from
	x.One(row.NewPartitionKey([]byte(key)))
	x.Command = row.ReadCommand{Table: r.p.table.StorageID, Slices: rows,
		// Reversed is relative to the order of storage, which is descending in some tables.
		Reversed: r.p.desc != (r.q.Order == Descending), Now: r.now}
	// Only the first partition of a query that names one may request many rows at once.
	x.Command.Limits.Rows = r.limit(r.scan.InFlight() == 0 && r.cursor.single)
	r.scan.FirstBytes = int(x.Command.Limits.Rows) * rowBytesGuess
	r.readings = append(r.readings, x) // the scan starts it, because a partition that was not read yet needs a command
	return &x.Read, nil
}

// newReading returns a reading, one that was finished if there is any. Its maximum number is the width of the scan.
func (r *run) newReading() *reading {
	if n := len(r.free); n > 0 {
		x := r.free[n-1]
		r.free = r.free[:n-1]
		// Reset keeps the buffers of the request, which belong to the scan.
		x.Reset()
		return x
	}
	return new(reading)
}

// Prepare implements request.Source. Each reading gets the time that is left when it starts.
func (r *run) Prepare(req *coordinator.ReadRequest) { req.Timeout = r.timeout() }

// Begin implements request.Source. The page ends before the reading if its time is used up. It returns false if the
// page ends before this reading. x.key is the partition's.
func (r *run) Begin(*request.Read) bool {
	x := r.readings[0]
	start := Position{PartitionKey: x.key, RowKey: x.from}
	// The first reading of a page is always taken, so a query makes progress in every page.
	if r.taken > 0 && r.late() {
		r.stop(start)
		return false
	}
	r.at, r.passed = start, false
	// Done compares these to find partitions that contained nothing.
	r.takenRows, r.takenPage = r.request.Cost.Rows, r.page.Count
	return true
}

// Continue implements request.Source. The page ends inside the partition if its time is used up. The rows so far are
// complete; a continuation reads the rest of the partition. x is the first of readings.
func (r *run) Continue(x *request.Read) bool {
	if r.late() {
		r.stop(r.reached())
		return false
	}
	rows := &x.Command.Limits.Rows
	// Later reads of a partition are larger, because its size is now known. An exact read needs one row more than
	// fits, to know whether a next page exists.
	if *rows = min(4**rows, rowsMax); r.exact && r.left < rowsMax {
		*rows = uint32(r.left) + 1
	}
	return true
}

// Done implements request.Source. The reading that ends is always the first one. Partitions that ended early are not
// done.
func (r *run) Done(*request.Read) {
	r.free = append(r.free, r.readings[0])
	r.readings = r.readings[1:]
	// No row was read: the partition has none that is live, and the cursor lists only existing ones from here on.
	if r.request.Cost.Rows == r.takenRows {
		r.cursor.dead = true
	}
	r.taken++
	r.takenCount += r.page.Count - r.takenPage
}

// Wanted implements request.Source. It estimates how many partitions the page still needs, from the mean number of
// entities, plus one that determines whether there is a next page. It is called once per partition, and bounds how
// many keys the cursor lists.
func (r *run) Wanted() int {
	// No partition was read yet, or the query only counts, which has no maximum.
	if r.takenCount == 0 || r.left > math.MaxInt32 {
		return math.MaxInt32
	}
	// Rounded down by the integer division, and one more for the next page.
	return r.left*r.taken/r.takenCount + 1
}

// limit returns the number of rows that a reading requests first. A read of a partition costs more than its rows, so it
// requests a few more than the page needs. single is true for the only partition of a query.
func (r *run) limit(single bool) uint32 {
	switch {
	// A filter may match nothing, so the number of entities says little about the number of rows.
	case !r.exact:
		return uint32(min(filteredFirst, 8*max(1, min(r.left, filteredFirst))))
	// The partition of a point query of rows may hold all of the page.
	case single:
		return uint32(min(r.left, rowsMax-1) + 1)
	}
	return uint32(min(r.left, partitionRows-1) + 1)
}

// Partition implements request.Consumer. It is called for partitions without rows, too.
func (r *run) Partition(*request.Read) {}

// Live implements request.Consumer. A row without a live cell is not an entity, and is skipped. x is the decoder's row.
func (r *run) Live(x *row.Row) bool {
	r.newest = r.d.newest(x)
	return r.newest != row.NoTimestamp
}

// Row implements request.Consumer. It is called for each live row in order, and may end the page. StopBefore leaves the
// row to the next page.
func (r *run) Row(x *request.Read, data *row.Row) (request.Verdict, error) {
	key, rowKey := r.readings[0].key, r.d.rowKey(data.Clustering)
	// The page is full: the row belongs to the next page.
	if r.left == 0 || r.bytes >= r.s.o.Limits.PageBytes {
		r.stop(r.before(key, rowKey))
		return request.StopBefore, nil
	}
	kept, err := r.row(&x.Reader.Header, key, rowKey)
	if err != nil {
		return 0, err
	}
	if kept {
		// The entity refers to the page only if it was added.
		x.Keep() // the entity refers to the page
	}
	r.last, r.passed = rowKey, true
	return request.NextRow, nil
}

// reserve reserves memory for the response in the steps in which its buffer doubles.
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

// before returns the position from which the entity is the next one. In a descending query the position is exclusive,
// so it is after the entity. Both forms are understood by cursor.of.
func (r *run) before(partitionKey, rowKey string) Position {
	if r.q.Order == Descending {
		rowKey = after(rowKey)
	}
	return Position{partitionKey, rowKey}
}

// positionAfter returns the position after the entity. It is the first position of the entities that follow, in the
// order of the query.
func (r *run) positionAfter(partitionKey, rowKey string) Position {
	if r.q.Order == Descending {
		if rowKey == "" { // no row is before it
			return Position{PartitionKey: after(partitionKey)}
		}
		return Position{partitionKey, rowKey}
	}
	return Position{partitionKey, after(rowKey)}
}

// row adds the decoder's current row to the result if it matches; kept reports that the page refers to it. It also
// counts entities that are not added: count queries need no more. header has the static columns of the partition. After
// an error of reserve, the result does not contain the row.
func (r *run) row(header *row.Row, partitionKey, rowKey string) (kept bool, err error) {
	d := r.d
	r.entity = odata.Entity{PartitionKey: partitionKey, RowKey: rowKey, Timestamp: r.newest * ticksPerMicro}
	e := &r.entity
	if !r.exact {
		// The properties of the filter are decoded into the same chunk and are dropped again.
		if r.filtersProperties {
			from := len(d.props)
			d.wanted = r.filterProperties
			e.Properties = d.properties(header, &d.row)
			if len(e.Properties) <= len(d.props)-from {
				d.props = d.props[:from]
			} else {
				// The chunk was replaced during this row.
				d.props = d.props[:0] // they are the first of a new chunk
			}
		}
		if !odata.Matches(r.q.Filter, e) {
			return false, nil
		}
	}
	if r.q.CountOnly {
		r.page.Count++
		r.left--
		return false, nil
	}
	d.wanted = r.selected
	// The caller has taken the previous entity, so its properties need not be kept.
	if r.q.Each != nil {
		d.props = d.props[:0]
	}
	e.Properties = d.properties(header, &d.row)
	r.bytes += len(partitionKey) + len(rowKey) + entityBytes
	for i := range e.Properties {
		r.bytes += len(e.Properties[i].Name) + len(e.Properties[i].Value.Bytes) + valueBytes
	}
	// The memory is reserved before the entity is added: after an error, the next page begins at the entity, and a
	// page with it would return it twice.
	if err := r.reserve(); err != nil {
		return false, err
	}
	r.page.Count++
	r.left--
	// Each has taken the entity; its converted text need not be kept either.
	if r.q.Each != nil {
		r.q.Each(e)
		d.arena = d.arena[:0]
		return false, nil
	}
	r.page.Entities = append(r.page.Entities, *e)
	return true, nil
}

// The size of an entity, and of a property, in JSON besides keys, names and text: braces, etag and Timestamp; quotes
// and a number. Names and values are counted exactly, so a page of large entities stays below PageBytes.
const (
	entityBytes = 150
	valueBytes  = 16
)
