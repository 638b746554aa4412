package search

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"cqld/coordinator"
	"cqld/internal/env"
	"cqld/ring"
	"cqld/row"
	"cqld/storage/index"
)

// searchOp is a search. Its events are the pages of nodes, the rows that are read by key, the timer, the end of a pause before a new
// plan, and the cancelation.
//
// The ranges of the ring are searched in windows, in token order: the first window has one range, and the next ones have as many as
// the rows found so far make necessary. Orders other than ByToken have all ranges in one window.
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
	nodes    []*node // of the window, the preferred ones first
	covered  bool    // the watermark is at the end of the window

	timer  env.Timer
	cancel *env.Cancel // of the requests for pages
	unhook func() bool // from the request's Cancel

	watermark position
	queue     []*candidate // up to the watermark, that are not in the result, in order
	reading   int          // reads by key that run
	out       output
}

// node is one node of a window.
type node struct {
	id         ring.NodeID
	state      nodeState
	asked      bool // at least once in this window
	slow       bool // its page is late, so others are asked as well
	sent       time.Duration
	err        error
	position   position // up to which it has returned its candidates
	candidates []index.Candidate
	scanned    int
}

type nodeState uint8

const (
	nodeReady     nodeState = iota // may be asked for a page
	nodeRequested                  // has a request for a page
	nodeFailed                     // failed, or is down
)

// Search calls done exactly once, possibly before it returns: with a result, with NotBuilt, or with an error of a read of package
// coordinator. req must not change until then.
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
	op := &searchOp{s: s, req: owned(req), def: def, union: union, done: done, started: now, deadline: now + req.Timeout, limit: s.limits.Rows}
	if req.Limit > 0 {
		op.limit = min(op.limit, req.Limit)
	}
	op.out.writer = row.NewPageWriter(nil)
	op.watermark = position{place: beforeAll}
	if len(req.From) > 0 {
		op.watermark = position{key: op.req.From}
	}
	op.start()
}

// owned returns a copy of a request whose memory belongs to the search: requests to nodes may be read after it has ended.
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
		reads := op.startReadsLocked()
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

// progressLocked moves the watermark, adds rows to the result, and begins the next window. It returns true if the result is complete.
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

// partialLocked reports whether half of the time is over and the search has come somewhere: the caller goes on from there.
func (op *searchOp) partialLocked() bool {
	half := op.s.clock.Monotonic()-op.started >= op.req.Timeout/2
	progress := op.out.rows > 0 || op.watermark.place == atKey && op.compare(op.watermark, position{key: op.req.From}) > 0
	return half && progress && op.reading == 0 && len(op.queue) == 0 && op.watermark.place == atKey
}

// send asks nodes for their next pages. This node comes last, because its page may come before the call returns.
func (op *searchOp) send(asked []*node, plan int) {
	self := op.s.view.Self()
	slices.SortStableFunc(asked, func(a, b *node) int {
		switch {
		case a.id == self && b.id != self:
			return 1
		case b.id == self && a.id != self:
			return -1
		}
		return 0
	})
	for _, n := range asked {
		q, epoch, from, ok := op.request(n, plan)
		if !ok {
			return
		}
		if n.id == self {
			coordinator.AddTrace(op.req.Trace, self, "Searching an index")
		} else {
			coordinator.AddNodeTrace(op.req.Trace, self, "Sending search by index to", n.id)
		}
		op.s.counts.pages.Add(1)
		op.s.replicas.Page(n.id, op.req.Trace, epoch, q, op.s.c.Remaining(op.deadline), func(page *Page, err error) {
			op.answered(n, plan, from, page, err)
		})
	}
}

// request returns the request for the page of n that begins behind from. It is not ok if the search has ended or has another plan.
func (op *searchOp) request(n *node, plan int) (q *PageRequest, epoch uint64, from position, ok bool) {
	op.mu.Lock()
	defer op.mu.Unlock()
	if op.done == nil || plan != op.plans || len(op.pieces) == 0 {
		return nil, 0, position{}, false
	}
	if from = n.position; op.compare(from, op.watermark) < 0 {
		from = op.watermark
	}
	req := op.req
	q = &PageRequest{
		Table: req.Table.StorageID, Index: req.Index, Terms: req.Terms, Union: req.Union, Key: req.Key, Slices: req.Slices,
		Filter: op.filterLocked(),
		Tokens: ring.Range{Start: op.pieces[0].tokens.Start, End: op.pieces[op.window-1].tokens.End}, Reversed: req.Reversed,
		Order: req.Order, Near: req.Near, Limit: min(op.s.limits.Candidates, op.limit-op.out.rows+1), Now: req.Now, Moved: op.topology.Moved(), Cancel: op.cancel,
	}
	if from.place == atKey {
		q.From = slices.Clone(from.key)
	}
	n.asked, n.sent = true, op.s.clock.Monotonic()
	return q, op.topology.Epoch(), from, true
}

// filterLocked returns the conditions that replicas evaluate. Only the version of one that answers alone decides; among the versions
// of several, the newest one may match by one condition on one replica and by another on the next.
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
func (op *searchOp) answered(n *node, plan int, from position, page *Page, err error) {
	defer op.guarded()
	op.mu.Lock()
	if n.id != op.s.view.Self() {
		op.s.c.RecordLatency(n.id, op.s.clock.Monotonic()-n.sent)
	}
	if op.done == nil || plan != op.plans || op.pausing {
		op.mu.Unlock()
		return
	}
	reached := position{place: afterAll}
	if err == nil && page.More {
		if reached = (position{key: page.Last}); op.compare(reached, from) <= 0 {
			err = fmt.Errorf("search: the page of node %s ends at %x, which is not behind its beginning", op.topology.NameOf(n.id), page.Last)
		}
	}
	if errors.Is(err, env.ErrCanceled) {
		op.finishLocked(err)
		return
	}
	n.slow = false
	if err != nil {
		var refusal *coordinator.NotReplica
		op.refused = op.refused || errors.As(err, &refusal)
		n.state, n.err = nodeFailed, err
	} else {
		op.s.counts.scanned.Add(uint64(page.Scanned))
		n.state, n.position = nodeReady, reached
		if len(n.candidates) == 0 {
			n.candidates = page.Candidates
		} else {
			n.candidates = append(n.candidates, page.Candidates...)
		}
		n.scanned += page.Scanned
		op.out.scanned = max(op.out.scanned, n.scanned)
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
	if after, ok := op.speculateAfterLocked(); ok {
		wait = min(wait, after)
	}
	op.timer = op.s.clock.After(max(wait, 0), op.tick)
}

// speculateAfterLocked returns how long a page may take before other nodes are asked as well. It is not ok if there are no other
// nodes, or if the table's speculative_retry forbids it.
func (op *searchOp) speculateAfterLocked() (after time.Duration, ok bool) {
	spare := slices.ContainsFunc(op.nodes, func(n *node) bool {
		return n.state == nodeReady && op.compare(n.position, op.watermark) <= 0
	})
	if !spare {
		return 0, false
	}
	return op.s.c.SpeculateAfter(op.req.Table)
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
	if after, ok := op.speculateAfterLocked(); ok {
		for _, n := range op.nodes {
			if n.state == nodeRequested && !n.slow && now-n.sent >= after {
				n.slow = true
				op.s.c.Note(coordinator.EventSpeculated)
			}
		}
	}
	op.mu.Unlock()
	op.advance()
	op.arm()
}

// failureLocked returns the error of the present state. Its counts are those of the replica set that is farthest from the level.
func (op *searchOp) failureLocked() error {
	received, blockFor := 0, 0
	for i := range op.sets {
		for k := range op.sets[i].quotas {
			q := &op.sets[i].quotas[k]
			answered := 0
			for _, n := range q.nodes {
				if op.compare(n.position, op.watermark) > 0 {
					answered++
				}
			}
			if answered < q.need && (blockFor == 0 || answered < received) {
				received, blockFor = answered, q.need
			}
		}
	}
	var failures []coordinator.NodeFailure
	unbuilt := 0
	for _, n := range op.nodes {
		if n.state == nodeFailed && !coordinator.Silent(n.err) {
			reason := coordinator.ReasonOf(n.err)
			failures = append(failures, coordinator.NodeFailure{Node: n.id, Reason: reason})
			if reason == coordinator.FailureIndexNotAvailable {
				unbuilt++
			}
		}
	}
	level, data := op.req.Consistency, op.out.rows > 0
	if len(failures) > 0 {
		failure := &coordinator.ReadFailure{Consistency: level, Received: received, BlockFor: blockFor, Failures: failures, DataPresent: data}
		if unbuilt > 0 {
			return &NotBuilt{Index: op.req.Index, Nodes: unbuilt, Failure: failure}
		}
		return failure
	}
	op.s.c.Note(coordinator.EventReadTimeout)
	return &coordinator.ReadTimeout{Consistency: level, Received: received, BlockFor: blockFor, DataPresent: data}
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

// guarded is deferred by the events. A panic ends the search with an error and frees mu, which the events of other nodes wait for.
// Without a Guard, in the simulation, the panic goes on.
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
