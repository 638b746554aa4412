package search

import (
	"bytes"
	"errors"
	"slices"
	"sync"
	"time"

	"cqld/coordinator"
	"cqld/internal/env"
	"cqld/ring"
	"cqld/row"
	"cqld/storage/index"
	"cqld/watermark"
)

// searchOp is a search. Its events are the pages of nodes, the rows that are read by key, the timer, the end of a pause
// before a new plan, and the cancelation.
//
// The ranges of the ring are searched in windows, in token order: the first window has one range, and the next ones
// have as many as the rows found so far make necessary. Orders other than ByToken have all ranges in one window.
type searchOp struct {
	s        *Searcher
	req      *Request
	def      index.Definition
	union    []index.Definition // of req.Union
	limit    int
	started  time.Duration // monotonic, as deadline
	deadline time.Duration

	mu       sync.Mutex
	done     func(*Result, error) // nil once called
	busy     bool                 // a goroutine is in advance
	again    bool                 // and must look once more before it leaves
	topology *ring.Topology
	plans    int // and windows
	replans  int
	pausing  bool // until the next plan
	refused  bool // a node of this plan answered NotReplica

	pieces   []piece // of the ring, that are not searched completely
	window   int     // how many of them are being searched
	searched int     // pieces of all windows that were searched completely
	decisive bool    // one answer is enough in every replica set of the window
	sets     []replicaSet
	plan     watermark.Plan[index.Candidate] // of the window
	covered  bool                            // the watermark is at the end of the window

	timer  env.Timer
	cancel *env.Cancel // of the requests for pages
	unhook func() bool // from the request's Cancel

	queue   []*candidate // up to the watermark, that are not in the result, in order
	reading int          // reads by key that run
	out     output

	memory    coordinator.Budget
	readBytes int // size of the pages of reads by key; 0 means no bound
}

// Search calls done exactly once, possibly before it returns: with a result, with NotBuilt, or with an error of a read
// of package coordinator. req must not change until then.
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
	if err := s.c.ReserveRead(); err != nil {
		done(nil, err)
		return
	}
	now := s.clock.Monotonic()
	op := &searchOp{s: s, req: owned(req), def: def, union: union, done: done, started: now, deadline: now +
		req.Timeout, limit: s.limits.Rows}
	if req.Limit > 0 {
		op.limit = min(op.limit, req.Limit)
	}
	op.memory.Grow = req.Grow
	op.out.writer = row.NewPageWriter(nil)
	op.plan.SetMark(watermark.Position{Place: watermark.BeforeAll})
	if len(req.From) > 0 {
		op.plan.SetMark(watermark.Position{Key: op.req.From})
	}
	op.start()
}

// owned returns a copy of a request whose memory belongs to the search: requests to nodes may be read after it has
// ended.
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

func cloneSlices(in []row.Slice) []row.Slice {
	out := slices.Clone(in)
	for i := range out {
		out[i].Start, out[i].End = bytes.Clone(out[i].Start), bytes.Clone(out[i].End)
	}
	return out
}

func (op *searchOp) start() {
	req := op.req
	op.cancel = req.Cancel.Child(op.s.clock, op.deadline)
	if req.Cancel != nil {
		op.unhook = req.Cancel.OnCancel(op.canceled)
	}
	op.mu.Lock()
	if op.done == nil { // it is canceled already
		op.mu.Unlock()
		return
	}
	if err := op.planLocked(op.rest()); err != nil {
		op.finishLocked(err)
		return
	}
	op.mu.Unlock()
	op.advance()
	op.arm()
}

// advance does what can be done until the search must wait for an event.
func (op *searchOp) advance() {
	op.mu.Lock()
	if op.again = true; op.busy {
		op.mu.Unlock()
		return
	}
	op.busy = true
	for op.again && op.done != nil && !op.pausing {
		op.again = false
		ended, err := op.progressLocked()
		if ended || err != nil {
			op.finishLocked(err)
			return
		}
		reads, err := op.startReadsLocked()
		if err != nil {
			op.finishLocked(err)
			return
		}
		asked, ok := op.neededLocked()
		if !ok && len(reads) == 0 && op.reading == 0 {
			if op.giveUpLocked() {
				return
			}
			break
		}
		if len(asked) == 0 && len(reads) == 0 {
			break
		}
		plan := op.plans
		op.mu.Unlock()
		op.send(asked, plan)
		op.read(reads)
		op.mu.Lock()
	}
	op.busy = false
	op.mu.Unlock()
}

// progressLocked moves the watermark, adds rows to the result, and begins the next window. It returns true if the
// result is complete.
func (op *searchOp) progressLocked() (ended bool, err error) {
	for {
		op.mergeLocked()
		full, err := op.emitLocked()
		if full || err != nil {
			return true, err
		}
		if len(op.queue) > 0 || !op.covered {
			return op.partialLocked(), nil
		}
		if op.window == len(op.pieces) {
			op.out.ended = true
			return true, nil
		}
		if err := op.nextWindowLocked(); err != nil {
			return true, err
		}
	}
}

// partialLocked reports whether half of the time is over and the search has come somewhere: the caller goes on from
// there.
func (op *searchOp) partialLocked() bool {
	half, mark := op.s.clock.Monotonic()-op.started >= op.req.Timeout/2, op.plan.Mark()
	progress := op.out.rows > 0 || mark.Place == watermark.AtKey &&
		op.plan.Compare(mark, watermark.Position{Key: op.req.From}) > 0
	return half && progress && op.reading == 0 && len(op.queue) == 0 && mark.Place == watermark.AtKey
}

// send asks nodes for their next pages.
func (op *searchOp) send(asked []*watermark.Node[index.Candidate], plan int) {
	self := op.s.view.Self()
	watermark.SelfLast(asked, self)
	for _, n := range asked {
		q, epoch, from, ok := op.request(n, plan)
		if !ok {
			return
		}
		if n.ID == self {
			coordinator.AddTrace(op.req.Trace, self, "Searching an index")
		} else {
			coordinator.AddNodeTrace(op.req.Trace, self, "Sending search by index to", n.ID)
		}
		op.s.counts.pages.Add(1)
		op.s.replicas.Page(n.ID, op.req.Trace, epoch, q, op.s.c.Remaining(op.deadline), func(page *Page, err error) {
			op.answered(n, plan, from, page, err)
		})
	}
}

// request returns the request for the page of n that begins behind from. It is not ok if the search has ended or has
// another plan.
func (op *searchOp) request(n *watermark.Node[index.Candidate], plan int) (q *PageRequest, epoch uint64,
	from watermark.Position, ok bool) {
	op.mu.Lock()
	defer op.mu.Unlock()
	if op.done == nil || plan != op.plans || len(op.pieces) == 0 {
		return nil, 0, from, false
	}
	if from = n.Position; op.plan.Compare(from, op.plan.Mark()) < 0 {
		from = op.plan.Mark()
	}
	req := op.req
	q = &PageRequest{
		Table: req.Table.StorageID, Index: req.Index, Terms: req.Terms, Union: req.Union, Key: req.Key,
		Slices:   req.Slices,
		Filter:   op.filterLocked(),
		Tokens:   ring.Range{Start: op.pieces[0].tokens.Start, End: op.pieces[op.window-1].tokens.End},
		Reversed: req.Reversed,
		Order:    req.Order, Near: req.Near, Limit: min(op.s.limits.Candidates, op.limit-op.out.rows+1), Now: req.Now,
		Moved: op.topology.Moved(), Cancel: op.cancel,
	}
	if from.Place == watermark.AtKey {
		q.From = slices.Clone(from.Key)
	}
	n.Sent(op.s.clock.Monotonic())
	return q, op.topology.Epoch(), from, true
}

// filterLocked returns the conditions that replicas evaluate. Only the version of one that answers alone decides; among
// the versions of several, the newest one may match by one condition on one replica and by another on the next.
func (op *searchOp) filterLocked() *row.Filter {
	switch {
	case op.req.Filter == nil:
		return nil
	case op.decisive:
		own := *op.req.Filter
		own.Decisive = true
		return &own
	}
	return op.req.Filter.KeyConditions()
}

// answered is the event of a node's page, which begins behind from.
func (op *searchOp) answered(n *watermark.Node[index.Candidate], plan int, from watermark.Position, page *Page,
	err error) {
	defer op.guarded()
	op.mu.Lock()
	if n.ID != op.s.view.Self() {
		op.s.c.RecordLatency(n.ID, n.Latency(op.s.clock.Monotonic()))
	}
	if op.done == nil || plan != op.plans || op.pausing {
		op.mu.Unlock()
		return
	}
	if errors.Is(err, env.ErrCanceled) {
		op.finishLocked(err)
		return
	}
	if err == nil {
		if short := op.holdLocked(bytesOf(page.Candidates)); short != nil {
			op.finishLocked(short)
			return
		}
		op.s.counts.scanned.Add(uint64(page.Scanned))
		op.plan.Take(n, from, &watermark.Page[index.Candidate]{Entries: page.Candidates, Scanned: page.Scanned,
			More: page.More, Last: page.Last}, nil)
		op.out.scanned = max(op.out.scanned, n.Scanned)
	} else {
		var refusal *coordinator.NotReplica
		op.refused = op.refused || errors.As(err, &refusal)
		op.plan.Take(n, from, nil, err)
	}
	op.mu.Unlock()
	op.advance()
}

// canceled is the event that the client does not wait any more.
func (op *searchOp) canceled() {
	defer op.guarded()
	op.mu.Lock()
	if op.done == nil {
		op.mu.Unlock()
		return
	}
	op.finishLocked(env.ErrCanceled)
}

// arm starts the timer, for the deadline or for the time at which other nodes are asked as well.
func (op *searchOp) arm() {
	op.mu.Lock()
	defer op.mu.Unlock()
	if op.done == nil {
		return
	}
	wait := op.deadline - op.s.clock.Monotonic()
	if after, ok := op.plan.SpeculateAfter(); ok {
		wait = min(wait, after)
	}
	op.timer = op.s.clock.After(max(wait, 0), op.tick)
}

// tick is the event of the timer.
func (op *searchOp) tick() {
	defer op.guarded()
	op.mu.Lock()
	op.timer = nil
	if op.done == nil {
		op.mu.Unlock()
		return
	}
	now := op.s.clock.Monotonic()
	if now >= op.deadline {
		op.finishLocked(op.failureLocked())
		return
	}
	op.plan.Speculate(now)
	op.mu.Unlock()
	op.advance()
	op.arm()
}

// failureLocked returns the error of the present state: NotBuilt if a node has not built the index.
func (op *searchOp) failureLocked() error {
	err := op.plan.Failure(op.out.rows > 0)
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
		return &NotBuilt{Index: op.req.Index, Nodes: unbuilt, Failure: failure}
	}
	return failure
}

// finishLocked calls done. It unlocks mu.
func (op *searchOp) finishLocked(err error) {
	done, timer := op.done, op.timer
	op.done, op.timer = nil, nil
	var result *Result
	if err == nil {
		result = op.resultLocked()
	}
	op.mu.Unlock()
	if timer != nil {
		timer.Stop()
	}
	op.s.c.ReleaseRead()
	if op.unhook != nil {
		op.unhook()
	}
	if result != nil {
		op.s.counts.rows.Add(uint64(result.Rows))
	}
	done(result, err)
	op.cancel.Cancel() // the requests whose answers are not needed
}

// guarded is deferred by the events. A panic ends the search with an error and frees mu, which the events of other
// nodes wait for. Without a Guard, in the simulation, the panic goes on.
func (op *searchOp) guarded() {
	g := op.s.guard
	if g == nil {
		return
	}
	if p := recover(); p != nil {
		err := g.Caught("coordinator search", p)
		g.Abandon(&op.mu, func() {
			if op.done == nil {
				op.mu.Unlock()
				return
			}
			op.finishLocked(err)
		})
	}
}
