package request

import (
	"errors"
	"time"

	"cqld/coordinator"
	"cqld/internal/env"
	"cqld/internal/histogram"
	"cqld/internal/invariant"
	"cqld/paxos"
	"cqld/row"
	"cqld/scan"
)

// Verdict determines how a Scan continues after a row.
type Verdict uint8

// The verdicts.
const (
	NextRow       Verdict = iota
	SkipRow               // NextRow, but the row does not count in scan.Position.Given
	NextPartition         // omit the other rows of the partition
	StopAfter             // end the scan; the row was consumed
	// end the scan; the row was not consumed, nor counted in the cost, and is the next one of a later scan
	StopBefore
)

// Source determines what a Scan reads. The Scan calls its methods in the request's goroutine.
type Source interface {
	// Next returns the next Read, with its Cursor set, or nil if there is none. The Scan ignores a Read without
	// commands, and otherwise uses it until Done or the end of Run. An error ends the scan after the rows of the
	// previous Reads, unless a later call of Next succeeds.
	Next() (*Read, error)
	// Prepare sets the timeouts of a command before it is sent.
	Prepare(req *coordinator.ReadRequest)
	// Begin is called before the first page of a Read is consumed. It returns false to end the scan before the Read.
	Begin(r *Read) bool
	// Continue is called before each further command of a Read. It may change the limits of r.Command, or return
	// false to end the scan before the command.
	Continue(r *Read) bool
	// Done is called when all rows of a Read were consumed.
	Done(r *Read)
	// Wanted returns an upper estimate of the number of further Reads that the scan needs.
	Wanted() int
}

// Consumer receives the rows of a Scan in order. The Scan calls its methods in the request's goroutine. For each page
// they are called for its partitions in order: Partition, then Live and Row for its rows.
type Consumer interface {
	// Partition is called for each partition of a page, with r.Reader at its beginning.
	Partition(r *Read)
	// Live reports whether readers can see a row, or a static row. The Consumer may cache results for x until Row.
	Live(x *row.Row) bool
	// Row is called for each live row, with r.At still before it, and with nil for a partition that is represented only
	// by its static row. It must not use x, which points into the page, after Done, unless it calls r.Keep.
	Row(r *Read, x *row.Row) (Verdict, error)
}

// Scan executes one or more Reads for a request, several of them concurrently, and passes their rows to a Consumer in
// the order of the Reads. It runs in the request's goroutine, starts no goroutines, and has released all pages and
// memory when Run returns.
//
//	Source ─▶ [Read][Read][Read] ─ rows of the first ─▶ Consumer
type Scan struct {
	Executor *Executor
	Request  *Request
	Source   Source
	Consumer Consumer
	// Cancel ends with the request, and with the Scan. nil means that the Reads are short and cannot be canceled.
	Cancel *env.Cancel
	// Row is where rows are decoded, with row.DecodeRuns if Runs is set.
	Row  *row.Row
	Runs bool
	// Local answers commands on this node instead of the coordinator; optional.
	Local func(cmd *row.ReadCommand) (page []byte, err error)
	// Held means that Local has reserved memory for its pages. The Scan returns the memory.
	Held bool
	// Grows means that a command reserves further memory of the request while it runs (coordinator.ReadRequest.Grow),
	// as reads of views do. One Read at a time may then be in progress.
	Grows bool
	// Width is the maximum number of concurrent Reads at the beginning; zero means 1. After each Read it is set to
	// the number that Source wants, but at most doubled, and at most WidthMax. Concurrent Reads together may have at
	// most WidthBytes, estimated by the mean size of previous Reads.
	Width, WidthMax, WidthBytes int
	// FirstBytes is the size of the first page of each Read, for which memory is reserved, and PageBytes the size of
	// later ones. Pages grow from FirstBytes to PageBytes, and beyond if a row is larger. Zero means that pages have
	// no bound.
	FirstBytes, PageBytes int

	// reads are the started Reads in order. The Scan consumes rows of the first Read; each of the others holds at
	// most one page.
	reads []*Read
	done  int // number of completed Reads
	bytes int // size of the pages consumed
	more  bool
	spare row.Row // used by left

	counted bool             // set by count
	timer   *histogram.Timer // timer of the table, if the scan is measured
	began   time.Duration
}

// Read is one cursor of a Scan.
type Read struct {
	scan.Cursor
	// call is the Call of the current command; nil if it was not sent to the coordinator.
	call *Call
	// open means that Wait was not called yet for call, so drain must call it.
	open bool
	page []byte // page from Local
	err  error  // error of Local, or from before the command was sent
	size        // size of the next command's page; 0 for the first command
	// differs means that replicas returned different pages. Pages then stay small, because merging needs additional
	// memory.
	differs bool
	// held is the memory of the request that is reserved for the page.
	held int64
}

// The memory reserved for a page.
const (
	// pageFirst is the least size of the first page: a hundred small rows. With its copy, package memory still treats
	// the request as small.
	pageFirst = 32 << 10
	// pageCopies counts the page at the replica, and its copy for the request.
	pageCopies = 2
	// pageGrowth is the factor between the sizes of pages: 1 MiB is reached with the fourth.
	pageGrowth = 4
	// rangeCopies further counts the answer into which the pages of ranges are merged, while it grows.
	rangeCopies = 4
)

// message is a command in a single allocation. Replicas may read it after the response, so it is not reused.
type message struct {
	req coordinator.ReadRequest
	cmd row.ReadCommand
}

// Reset prepares r for another use. It keeps memory, but no references.
func (r *Read) Reset() {
	r.Cursor.Reset()
	r.call, r.open, r.page, r.err = nil, false, nil, nil
	r.size, r.differs, r.held = size{}, false, 0
}

// Keep transfers the current page to the Consumer, which may use it and its rows indefinitely.
func (r *Read) Keep() {
	if r.call != nil {
		r.call.Keep()
	}
	r.held = 0
}

// Reset prepares s for another use. It keeps memory, but no references.
func (s *Scan) Reset() {
	s.spare.Reset()
	*s = Scan{reads: s.reads[:0], spare: s.spare}
}

// Run reads until the Source has no Read left or the scan is ended. It adds the cost to the Request. When it returns,
// no command is in progress.
func (s *Scan) Run() error {
	s.Width = max(s.Width, 1)
	err := s.run()
	s.Request.Memory.Rest()
	// Commands may still be in progress after an error, or if the Consumer has enough rows.
	s.drain()
	if s.timer != nil {
		now := s.Executor.o.Clock.Monotonic()
		s.timer.End(now-s.began, now)
	}
	return err
}

// count counts the scan for the table of its first command, unless the command reads one partition; the Executor
// counts those.
func (s *Scan) count(cmd *row.ReadCommand) {
	tables := s.Executor.o.Tables
	if s.counted || tables == nil || cmd.SinglePartition() {
		return
	}
	s.counted = true
	if t := &tables(cmd.Table).Scan; t.Begin(SampledReads) {
		s.timer, s.began = t, s.Executor.o.Clock.Monotonic()
	}
}

// More reports, after Run, whether further rows may follow. A token range may turn out to have no further row.
func (s *Scan) More() bool { return s.more }

// InFlight returns the number of Reads that are started and not Done.
func (s *Scan) InFlight() int { return len(s.reads) }

func (s *Scan) run() error {
	for {
		if err := s.fill(); err != nil || len(s.reads) == 0 {
			return err
		}
		r := s.reads[0]
		if stop, err := s.take(r); stop || err != nil {
			s.more = s.more || stop && r.Further()
			return err
		}
		s.release(r)
		// Move the elements instead of reslicing, so that the array is reused.
		copy(s.reads, s.reads[1:])
		s.reads[len(s.reads)-1] = nil
		s.reads = s.reads[:len(s.reads)-1]
		s.done++
		s.Source.Done(r)
		s.widen()
	}
}

// fill starts Reads up to the maximum number, or until the first one has its result.
func (s *Scan) fill() error {
	for len(s.reads) < s.Width {
		r, err := s.Source.Next()
		switch {
		case err != nil && len(s.reads) > 0:
			return nil // Next is called again after these Reads
		case err != nil || r == nil:
			return err
		case !r.More():
			continue
		}
		s.start(r)
		s.reads = append(s.reads, r)
		if len(s.reads) == 1 && (r.call == nil || r.call.Answered()) {
			return nil // consume a local result while it is in the CPU's cache
		}
	}
	return nil
}

// widen sets the number of concurrent Reads according to the results so far.
func (s *Scan) widen() {
	wanted := min(s.Source.Wanted(), s.WidthMax)
	// done is at least 1 here: run has just counted a Read.
	if mean := s.bytes / s.done; mean > 0 {
		wanted = min(wanted, s.WidthBytes/mean)
	}
	s.Width = max(1, min(wanted, 2*s.Width))
}

// start sends the next command of a Read that has More. wait returns its error.
func (s *Scan) start(r *Read) {
	s.release(r)
	// A request whose client has gone sends no further command.
	if r.err = s.Request.Context.Err(); r.err != nil {
		return
	}
	x := new(message)
	r.Next(&x.cmd)
	x.cmd.Cancel = s.Cancel
	if s.Local != nil {
		switch r.page, r.err = s.Local(&x.cmd); {
		case r.err == nil && s.Held:
			r.held = int64(len(r.page))
		case r.err == nil:
			r.err = s.hold(r, int64(len(r.page)))
		}
		s.Request.Cost.Commands++
		s.Request.Cost.Bytes += len(r.page)
		return
	}
	x.cmd.Owner = s.Request.Memory.Owner()
	x.req = coordinator.ReadRequest{Command: &x.cmd, Consistency: s.Request.Consistency, Cancel: s.Cancel}
	if r.err = s.reserve(r, &x.req); r.err != nil {
		return
	}
	s.count(&x.cmd)
	s.Source.Prepare(&x.req)
	r.call, r.open = s.Executor.Start(s.Request, &x.req), true
}

// wait waits for the current command and returns its page.
func (s *Scan) wait(r *Read) (page []byte, err error) {
	if r.call == nil {
		return r.page, r.err
	}
	r.open = false
	// Reduce the reservation for the page and its copies to the page itself.
	if page, err = r.call.Wait(s.Request); err == nil {
		err = s.hold(r, int64(len(page)))
	}
	return page, err
}

// reserve reserves memory for the page of a command: for a replica, and for the copy of it that is consumed. A range is
// merged from pages of several replicas, and a round of package paxos has several pages.
func (s *Scan) reserve(r *Read, req *coordinator.ReadRequest) error {
	cmd, memory := req.Command, s.Request.Memory
	serial := s.Request.Consistency.IsSerial() && cmd.SinglePartition()
	if s.PageBytes == 0 || serial && memory == nil {
		return nil
	}
	switch r.copies = pageCopies; {
	case serial:
		r.copies = paxos.Pages
	case !cmd.SinglePartition():
		r.copies = rangeCopies
	}
	// The first page has FirstBytes. For a serial read, it has at most half of the request's memory, because there
	// are several copies.
	if r.bytes == 0 {
		r.bytes = min(max(s.FirstBytes, s.first(serial)), s.PageBytes)
		if most := memory.Max(); serial && most > 0 {
			r.bytes = min(r.bytes, int(most/2)/r.copies)
		}
	}
	cmd.Limits.Bytes = r.limit()
	if memory != nil {
		req.Memory = r.size.held()
		if s.Grows {
			req.Grow = s.growth(r)
		}
	}
	return s.hold(r, int64(r.size.held()))
}

// growth returns the Grow of the next command of r. It first uses the memory reserved for the page, and adds further
// memory to that reservation, which is reduced when the page arrives.
//
// The account of the request has no lock: the goroutine of the request does not use it until the command has ended.
func (s *Scan) growth(r *Read) coordinator.Grow {
	invariant.Check(s.Width <= 1 && s.WidthMax <= 1, "request: commands that grow run at the same time")
	spare := r.size.held()
	return func(n int) bool {
		if more := n - spare; more > 0 {
			if !s.Request.Memory.TryGrow(int64(more)) {
				return false
			}
			r.held += int64(more)
			spare = n
		}
		spare -= n
		return true
	}
}

// first returns the least size of the first page.
func (s *Scan) first(serial bool) int {
	if serial {
		return casHeld / paxos.Pages
	}
	return pageFirst
}

// hold changes the memory of the request for the page of r.
func (s *Scan) hold(r *Read, n int64) error {
	err := s.Request.Memory.Resize(s.Request.Context, r.held, n)
	if err == nil {
		r.held = n
	}
	return err
}

// next sets the size of the next page. It grows if the size has ended this page, unless replicas differ, so that
// merges stay small. again reports that the command must be repeated, because a row did not fit into the page, or a
// merge into its memory.
func (s *Scan) next(r *Read, page []byte, err error) (again bool) {
	larger := max(r.bytes, min(pageGrowth*r.bytes, s.PageBytes))
	if memory := s.Request.Memory.Max(); r.copies == paxos.Pages && memory > 0 {
		larger = max(r.bytes, min(larger, int(memory/2)/r.copies))
	}
	switch {
	case r.bytes == 0:
	case err != nil:
		return s.repeat(r, err, larger)
	case len(page) > r.bytes/2 && !r.differs:
		r.bytes = larger
	}
	return false
}

// repeat reports whether a command that failed with err is sent again, with the size that r then has. It is separate
// from next because its variables escape to the heap.
func (s *Scan) repeat(r *Read, err error, larger int) bool {
	var small *row.PageTooSmall
	var needs *coordinator.NeedsMemory
	switch first := s.first(r.copies == paxos.Pages); {
	case errors.As(err, &needs) && !r.differs && r.bytes > first:
		r.differs, r.bytes = true, first
		return true
	case errors.As(err, &small) && !r.differs && small.Bytes > r.bytes:
		r.bytes = max(small.Bytes, larger)
		return true
	}
	return r.enlarge(err)
}

// release releases the page of the previous command.
func (s *Scan) release(r *Read) {
	if r.call != nil {
		r.call.Release()
	}
	s.Request.Memory.Spare(r.held)
	r.call, r.page, r.err, r.held = nil, nil, nil, 0
}

// drain cancels the commands in progress, waits for them and releases their pages.
func (s *Scan) drain() {
	for _, r := range s.reads {
		if r.open {
			s.Cancel.Cancel()
			_, _ = s.wait(r)
		}
		s.release(r)
	}
	clear(s.reads)
	s.reads = s.reads[:0]
}

// take consumes the rows of the first Read.
func (s *Scan) take(r *Read) (stop bool, err error) {
	if !s.Source.Begin(r) {
		s.more = true
		return true, nil
	}
	for {
		page, err := s.wait(r)
		// next also handles the error: it repeats a command whose page was too small.
		if s.next(r, page, err) {
			s.start(r)
			continue
		}
		if err != nil {
			return false, err
		}
		s.bytes += len(page)
		s.Request.Memory.Work(len(page)) // until the request waits for anything
		r.Reader.Runs = s.Runs
		r.Page(page)
		if stop, err := s.rows(r); stop || err != nil {
			return stop, err
		}
		// Move the position to the end of the page, so that start sends a command for the rest.
		if err := r.EndPage(); err != nil {
			return false, err
		}
		if !r.More() {
			return false, nil
		}
		if !s.Source.Continue(r) {
			s.more = true
			return true, nil
		}
		s.start(r)
	}
}

// rows passes on the rows of a page.
func (s *Scan) rows(r *Read) (stop bool, err error) {
	cost := &s.Request.Cost
	for r.NextPartition() {
		cost.Partitions++
		cost.Tombstones += 2 * len(r.Reader.RangeTombstones) // their starts and ends, as Cassandra counts
		s.Consumer.Partition(r)
		if stop, err := s.partition(r); stop || err != nil {
			return stop, err
		}
	}
	return false, nil
}

// partition passes on the rows of the current partition.
func (s *Scan) partition(r *Read) (stop bool, err error) {
	for r.NextRow(s.Row) {
		if !s.Consumer.Live(s.Row) {
			s.Request.Cost.Tombstones++
			continue
		}
		if stop, err := s.consume(r, s.Row); stop || err != nil || r.At.Done {
			return stop, err
		}
	}
	if err := r.Reader.Err(); err != nil {
		return false, err
	}
	if r.Continues() || r.At.Live || !r.Command.StaticCounts || !s.Consumer.Live(&r.Reader.Header) {
		return false, nil
	}
	return s.consume(r, nil)
}

// consume passes on a live row, or the static row if x is nil.
func (s *Scan) consume(r *Read, x *row.Row) (stop bool, err error) {
	verdict, err := s.Consumer.Row(r, x)
	if err != nil {
		return false, err
	}
	if verdict == StopBefore {
		s.more = true
		if r.Command.StaticCounts && !r.At.Live {
			r.At.Inside = false // read the partition again, because its static row may still be needed
		}
		return true, nil
	}
	s.Request.Cost.Rows++
	if x == nil {
		r.ConsumedStatic()
	} else {
		r.Consumed()
	}
	if verdict != SkipRow {
		r.At.Given++
	}
	switch verdict {
	case StopAfter:
		s.more = s.left(r)
		return true, nil
	case NextPartition:
		r.EndPartition()
	}
	return false, nil
}

// left reports whether the page contains another live row, or may have omitted one for lack of space. It consumes the
// page.
func (s *Scan) left(r *Read) bool {
	p, x := &r.Reader, &s.spare
	for p.NextRow(x) {
		if s.Consumer.Live(x) {
			return true
		}
	}
	for p.NextPartition() {
		if r.Command.StaticCounts && s.Consumer.Live(&p.Header) {
			return true
		}
		for p.NextRow(x) {
			if s.Consumer.Live(x) {
				return true
			}
		}
	}
	return p.More()
}
