package search

import (
	"bytes"
	"slices"

	"cqld/coordinator"
	"cqld/internal/env"
	"cqld/internal/invariant"
	"cqld/ring"
	"cqld/row"
	"cqld/storage/index"
	"cqld/watermark"
)

// The types of a search's state machine.
type (
	entry     = index.Candidate
	effect    = watermark.Effect[entry, work]
	operation = watermark.Operation[entry, work]
)

// work is a request of a search: for a page of a node, or for the rows of a candidate. Either page is set, or c with
// cmd and size.
type work struct {
	page *PageRequest
	c    *candidate // its rows are read by cmd, in a page of size bytes; size 0 means no bound
	cmd  *row.ReadCommand
	size int
}

// searchOp is a search. Its methods Perform and Finish are the Host of the operation. The operation has the lock, the
// timer and the plan; rowSequence is called under its lock.
type searchOp struct {
	operation
	s    *Searcher
	req  *Request
	done func(*Result, error)
	rows rowSequence
}

// rowSequence is the state of a search besides the plan. Its methods are steps.
//
// The ranges of the ring are searched in windows, in token order: the first window has one range, and the next ones
// have as many as the rows found so far make necessary. Orders other than ByToken have all ranges in one window. The
// candidates pass through it in one direction:
//
//	pages of nodes ─ merge ─▶ queue ─ startReads, Fetched ─▶ settled or read ─ emit ─▶ out ─▶ result
type rowSequence struct {
	m      *watermark.Machine[entry, work]
	limits *Limits
	req    *Request
	self   ring.NodeID
	def    index.Definition
	union  []index.Definition // of req.Union
	limit  int

	pieces   []piece // of the ring, that are not searched completely
	window   int     // how many of them are being searched
	searched int     // pieces of all windows that were searched completely
	decisive bool    // one answer is enough in every replica set of the window
	sets     []replicaSet
	covered  bool // the watermark is at the end of the window

	queue     []*candidate // up to the watermark, that are not in the result, in order
	reading   int          // reads by key that run
	full      bool         // there is no memory for a further read before one that runs has ended
	readBytes int          // size of the pages of reads by key; 0 means no bound
	out       output
	result    *Result
	counts    struct{ settled, stale, scanned uint64 }
}

var _ watermark.Sequence[entry, work] = (*rowSequence)(nil)

// Search calls done exactly once, possibly before it returns: with a result, with NotBuilt, or with an error of a read
// of package coordinator. req must not change until then. The result and done belong to the caller; done runs in the
// goroutine of the last answer and must not block.
func (s *Searcher) Search(req *Request, done func(*Result, error)) {
	s.counts.searches.Add(1)
	if s.view.Schema().TableByStorage(req.Table.StorageID) == nil {
		done(nil, &coordinator.UnknownTable{Table: req.Table.StorageID})
		return
	}
	def, ok := s.definition(req.Table.StorageID, req.Index)
	if !ok {
		done(nil, &NotBuilt{Index: req.Index})
		return
	}
	union, err := s.union(req)
	if err != nil {
		done(nil, err)
		return
	}
	if req.Cancel.Err() != nil {
		done(nil, env.ErrCanceled)
		return
	}
	op := &searchOp{s: s, req: owned(req), done: done}
	op.rows = rowSequence{
		m:      &op.Machine,
		limits: &s.limits,
		req:    op.req,
		self:   s.view.Self(),
		def:    def,
		union:  union,
		limit:  s.limits.Rows,
	}
	if req.Limit > 0 {
		op.rows.limit = min(op.rows.limit, req.Limit)
	}
	op.rows.out.writer = row.NewPageWriter(nil)
	mark := watermark.Position{Place: watermark.BeforeAll}
	if len(req.From) > 0 {
		mark = watermark.Position{Key: op.req.From}
	}
	op.Init(&watermark.Config[entry, work]{
		Sequence: &op.rows,
		Host:     op,
		Plan: watermark.Options{
			Coordinator:     s.c,
			View:            s.view,
			LocalDatacenter: s.localDC,
			Table:           req.Table,
			Consistency:     req.Consistency,
			Reversed:        req.Reversed,
		},
		Mark:    mark,
		Clock:   s.clock,
		Timeout: req.Timeout,
		Cancel:  req.Cancel,
		Grow:    req.Grow,
		Guard:   s.guard,
		Where:   "coordinator search",
	})
	// The last step that can refuse: from here on Finish is called once, also after a panic.
	if err := s.c.ReserveRead(); err != nil {
		done(nil, err)
		return
	}
	op.Start()
}

// Perform implements watermark.Host. It runs without the lock of the operation, because an answer may arrive before it
// returns.
func (op *searchOp) Perform(e *effect) {
	if e.Kind == watermark.Fetch {
		op.read(e.Body)
		return
	}
	self, n := op.rows.self, e.Node
	if n.ID == self {
		coordinator.AddTrace(op.req.Trace, self, "Searching an index")
	} else {
		coordinator.AddNodeTrace(op.req.Trace, self, "Sending search by index to", n.ID)
	}
	op.s.counts.pages.Add(1)
	q := e.Body.page
	// Cancel belongs to the search, and also ends the requests when the search has its result.
	q.Cancel = op.Cancel()
	op.s.replicas.Page(n.ID, op.req.Trace, e.Epoch, q, op.s.c.Remaining(op.Deadline), func(page *Page, err error) {
		if err != nil {
			op.Paged(n, watermark.Page[entry]{}, err)
			return
		}
		op.Paged(n, watermark.Page[entry]{
			Entries: page.Candidates,
			Scanned: page.Scanned,
			More:    page.More,
			Last:    page.Last,
		}, nil)
	})
}

// read reads the rows of a candidate by its key, at the level. The memory that readMemory has computed is part of the
// search's own reservation.
func (op *searchOp) read(w work) {
	w.cmd.Cancel = op.Cancel()
	op.s.counts.reads.Add(1)
	op.s.c.Read(&coordinator.ReadRequest{
		Command:     w.cmd,
		Consistency: readLevel(op.req.Consistency),
		Timeout:     op.s.c.Remaining(op.Deadline),
		Trace:       op.req.Trace,
		Cancel:      op.Cancel(),
		Memory:      readCopies * w.size,
	}, func(page []byte, err error) { op.Fetched(w, page, err) })
}

// Finish implements watermark.Host. The sequence does not change after it is called, so its result is read without the
// lock.
func (op *searchOp) Finish(err error) {
	n, own := &op.s.counts, &op.rows.counts
	n.settled.Add(own.settled)
	n.stale.Add(own.stale)
	n.scanned.Add(own.scanned)
	if err != nil {
		op.done(nil, err)
		return
	}
	n.rows.Add(uint64(op.rows.result.Rows))
	op.done(op.rows.result, nil)
}

// owned returns a copy of a request whose memory belongs to the search: requests to nodes may be read after it has
// ended. Table, Trace, Cancel and Grow are shared: they are immutable or safe for concurrent use.
func owned(req *Request) *Request {
	own := *req
	own.Terms, own.Slices = cloneSlices(req.Terms), cloneSlices(req.Slices)
	own.Key.Bytes, own.From, own.Filter = bytes.Clone(req.Key.Bytes), bytes.Clone(req.From), req.Filter.Clone()
	own.Near = bytes.Clone(req.Near)
	own.Union = slices.Clone(req.Union)
	for i := range own.Union {
		own.Union[i].Terms = cloneSlices(own.Union[i].Terms)
	}
	return &own
}

// cloneSlices returns a copy that shares no memory with in.
func cloneSlices(in []row.Slice) []row.Slice {
	out := slices.Clone(in)
	for i := range out {
		out[i].Start, out[i].End = bytes.Clone(out[i].Start), bytes.Clone(out[i].End)
	}
	return out
}

// Advance implements watermark.Sequence. It decides what the search needs next: answers for requests that are in
// flight, or further pages of nodes.
func (s *rowSequence) Advance(out []effect) ([]effect, watermark.Progress, error) {
	ended, err := s.progress()
	if err != nil {
		return out, watermark.NeedsAnswers, err
	}
	if ended {
		return out, watermark.Complete, nil
	}
	out, reserves := s.startReads(out)
	// Further pages would only find candidates beyond the limit.
	if reserves || s.covered || len(s.queue) >= s.limit-s.out.rows {
		return out, watermark.NeedsAnswers, nil
	}
	return out, watermark.NeedsPages, nil
}

// progress moves the watermark, adds rows to the result, and begins the next window. It returns true if the
// result is complete.
func (s *rowSequence) progress() (ended bool, err error) {
	for {
		s.merge()
		full, err := s.emit()
		if full || err != nil {
			return true, err
		}
		if len(s.queue) > 0 || !s.covered {
			return s.partial(), nil
		}
		// The last window is covered, and all of its candidates are in the result.
		if s.window == len(s.pieces) {
			s.out.ended = true
			return true, nil
		}
		if err := s.nextWindow(); err != nil {
			return true, err
		}
	}
}

// partial reports whether the search made progress and used half of its time: the caller continues from that position.
// The result then has More, and possibly no row.
func (s *rowSequence) partial() bool {
	// A search that finds little in a large range would otherwise time out, and begin again at the same place.
	half, mark := s.m.Now-s.m.Began >= s.req.Timeout/2, s.m.Plan.Mark()
	progress := s.out.rows > 0 || mark.Place == watermark.AtKey &&
		s.m.Plan.Compare(mark, watermark.Position{Key: s.req.From}) > 0
	return half && progress && s.reading == 0 && len(s.queue) == 0 && mark.Place == watermark.AtKey
}

// Request implements watermark.Sequence. The requests to the nodes of a window differ in From only; each node
// filters by the tokens that it holds.
func (s *rowSequence) Request(from watermark.Position) work {
	req := s.req
	q := &PageRequest{
		Table:  req.Table.StorageID,
		Index:  req.Index,
		Terms:  req.Terms,
		Union:  req.Union,
		Key:    req.Key,
		Slices: req.Slices,
		Filter: s.replicaFilter(),
		// One request covers the whole window, because a node omits tokens that it does not hold.
		Tokens:   ring.Range{Start: s.pieces[0].tokens.Start, End: s.pieces[s.window-1].tokens.End},
		Reversed: req.Reversed,
		Order:    req.Order,
		Near:     req.Near,
		// One more candidate than necessary shows whether others follow.
		Limit: min(s.limits.Candidates, s.limit-s.out.rows+1),
		Now:   req.Now,
		Moved: s.m.Topology.Moved(),
	}
	if from.Place == watermark.AtKey {
		q.From = slices.Clone(from.Key)
	}
	return work{page: q}
}

// replicaFilter returns the conditions that replicas evaluate. Only a replica that answers alone may evaluate all
// conditions: among several replicas, conditions on different columns may hold on different versions of a row.
func (s *rowSequence) replicaFilter() *row.Filter {
	switch {
	case s.req.Filter == nil:
		return nil
	case s.decisive:
		own := *s.req.Filter
		own.Decisive = true
		return &own
	}
	return s.req.Filter.KeyConditions()
}

// Failure implements watermark.Sequence: it is NotBuilt if a node has not built the index. A node that has not built
// the index counts like one that cannot answer, as in Cassandra (INDEX_NOT_AVAILABLE).
func (s *rowSequence) Failure() error {
	err := s.m.Plan.Failure(s.out.rows > 0)
	failure, ok := err.(*coordinator.ReadFailure) //nolint:errorlint // it is not wrapped
	if !ok {
		return err
	}
	unbuilt := 0
	for _, f := range failure.Failures {
		if f.Reason == coordinator.FailureIndexNotAvailable {
			unbuilt++
		}
	}
	if unbuilt > 0 {
		return &NotBuilt{Index: s.req.Index, Nodes: unbuilt, Failure: failure}
	}
	return failure
}

// Scanned implements watermark.Sequence.
func (s *rowSequence) Scanned(page, all int) {
	s.counts.scanned += uint64(page)
	s.out.scanned = max(s.out.scanned, all)
}

// Fetching implements watermark.Sequence.
func (s *rowSequence) Fetching() int { return s.reading }

// Conclude implements watermark.Sequence.
func (s *rowSequence) Conclude() { s.result = s.makeResult() }

// Check implements watermark.Sequence: neither the reads by key nor the rows exceed their limits, and candidates are
// queued in order. A violation is a bug of this package and not a fault of a node.
func (s *rowSequence) Check() {
	if s.reading < 0 || s.reading > s.limits.ReadsInFlight {
		invariant.Fail("a search has more reads in flight than its limit, or fewer than none")
	}
	if s.out.rows > s.limit {
		invariant.Fail("a search has more rows than its limit")
	}
	if n := len(s.queue); n > 1 && s.m.Plan.Compare(s.queue[n-2].at, s.queue[n-1].at) >= 0 {
		invariant.Fail("the candidates of a search are not in order")
	}
}
