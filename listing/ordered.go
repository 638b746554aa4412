package listing

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"cqld/coordinator"
	"cqld/internal/env"
	"cqld/ring"
)

// orderedOp is a listing of a table with a partition index. Its events are the pages of nodes, the timer, the end of a pause
// before a new plan, and the cancelation.
type orderedOp struct {
	l        *Lister
	req      *Request
	limit    int
	started  time.Duration // monotonic, as deadline
	deadline time.Duration

	mu       sync.Mutex
	done     func(*Result, error) // nil once called
	busy     bool                 // a goroutine is in advance
	again    bool                 // and must look once more before it leaves
	topology *ring.Topology
	plans    int
	pausing  bool // until the next plan
	refused  bool // a node of this plan answered NotReplica
	quotas   []quota
	nodes    []*node // of the plan, the preferred ones first
	timer    env.Timer
	cancel   *env.Cancel // of the requests for pages
	unhook   func() bool // from the request's Cancel

	watermark position
	result    Result
	bytes     int // of the keys in result
}

// quota is a set of nodes of which need must reach a position before the watermark does.
type quota struct {
	need  int
	nodes []*node
}

// node is one node of a plan.
type node struct {
	id       ring.NodeID
	state    nodeState
	asked    bool // at least once in this plan
	slow     bool // its page is late, so others are asked as well
	sent     time.Duration
	err      error
	position position // up to which it has returned its keys
	keys     [][]byte // returned and behind the watermark
	scanned  int
}

type nodeState uint8

const (
	nodeReady     nodeState = iota // may be asked for a page
	nodeRequested                  // has a request for a page
	nodeFailed                     // failed, or is down
)

// listOrdered starts an orderedOp.
func (l *Lister) listOrdered(req *Request, limit int, done func(*Result, error)) {
	if err := l.c.ReserveRead(); err != nil {
		done(nil, err)
		return
	}
	now := l.clock.Monotonic()
	op := &orderedOp{
		l: l, req: req, limit: limit, done: done, started: now, deadline: now + req.Timeout, watermark: position{place: beforeAll},
	}
	op.cancel = req.Cancel.Child(l.clock, op.deadline)
	if req.Cancel != nil {
		op.unhook = req.Cancel.OnCancel(op.canceled)
	}
	op.mu.Lock()
	if op.done == nil { // it is canceled already
		op.mu.Unlock()
		return
	}
	if err := op.planLocked(); err != nil {
		op.finishLocked(err)
		return
	}
	op.mu.Unlock()
	op.advance()
	op.arm()
}

// advance adds the keys up to the watermark to the result and asks for further pages, until it must wait for one.
func (op *orderedOp) advance() {
	op.mu.Lock()
	if op.again = true; op.busy {
		op.mu.Unlock()
		return
	}
	op.busy = true
	for op.again && op.done != nil && !op.pausing {
		op.again = false
		if op.mergeLocked() || op.partialLocked() {
			op.finishLocked(nil)
			return
		}
		asked, ok := op.neededLocked()
		if !ok {
			if op.giveUpLocked() {
				return
			}
			break
		}
		plan := op.plans
		op.mu.Unlock()
		op.send(asked, plan)
		op.mu.Lock()
	}
	op.busy = false
	op.mu.Unlock()
}

// send asks nodes for their next pages. This node comes last, because its page may come before the call returns.
func (op *orderedOp) send(asked []*node, plan int) {
	self := op.l.view.Self()
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
		q, epoch, from, ok := op.request(n)
		if !ok {
			return
		}
		if n.id == self {
			coordinator.AddTrace(op.req.Trace, self, "Listing partitions")
		} else {
			coordinator.AddNodeTrace(op.req.Trace, self, "Sending listing of partitions to", n.id)
		}
		op.l.counts.pages.Add(1)
		op.l.replicas.Page(n.id, op.req.Trace, epoch, q, op.l.c.Remaining(op.deadline), func(page *Page, err error) {
			op.answered(n, plan, from, page, err)
		})
	}
}

// request returns the request for the page of n that begins behind from. It is not ok if the listing has ended: the result then
// belongs to the caller.
func (op *orderedOp) request(n *node) (q *PageRequest, epoch uint64, from position, ok bool) {
	op.mu.Lock()
	defer op.mu.Unlock()
	if op.done == nil {
		return nil, 0, position{}, false
	}
	if from = n.position; op.compare(from, op.watermark) < 0 {
		from = op.watermark
	}
	q = &PageRequest{
		Table: op.req.Table.StorageID, Span: op.req.Span, Reversed: op.req.Reversed, Limit: op.limit - len(op.result.Keys),
		Now: op.req.Now, Dead: op.req.Dead, Moved: op.topology.Moved(), Cancel: op.cancel,
	}
	if from.place == atKey {
		q.Span = q.Span.after(from.key, q.Reversed)
	}
	n.asked, n.sent = true, op.l.clock.Monotonic()
	return q, op.topology.Epoch(), from, true
}

// answered is the event of a node's page, which begins behind from.
func (op *orderedOp) answered(n *node, plan int, from position, page *Page, err error) {
	defer op.guarded()
	op.mu.Lock()
	if n.id != op.l.view.Self() {
		op.l.c.RecordLatency(n.id, op.l.clock.Monotonic()-n.sent)
	}
	if op.done == nil || plan != op.plans || op.pausing {
		op.mu.Unlock()
		return
	}
	reached := position{place: afterAll}
	if err == nil && page.More {
		if reached = (position{key: page.Last}); op.compare(reached, from) <= 0 {
			err = fmt.Errorf("listing: the page of node %s ends at %x, which is not behind its beginning", op.topology.NameOf(n.id), page.Last)
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
		op.l.counts.scanned.Add(uint64(page.Scanned))
		n.state, n.position = nodeReady, reached
		n.keys = append(n.keys, page.Keys...)
		n.scanned += page.Scanned
		op.result.Scanned = max(op.result.Scanned, n.scanned)
	}
	op.mu.Unlock()
	op.advance()
}

// canceled is the event that the client does not wait any more.
func (op *orderedOp) canceled() {
	defer op.guarded()
	op.mu.Lock()
	if op.done == nil {
		op.mu.Unlock()
		return
	}
	op.finishLocked(env.ErrCanceled)
}

// arm starts the timer, for the deadline or for the time at which other nodes are asked as well.
func (op *orderedOp) arm() {
	op.mu.Lock()
	defer op.mu.Unlock()
	if op.done == nil {
		return
	}
	wait := op.deadline - op.l.clock.Monotonic()
	if after, ok := op.speculateAfterLocked(); ok {
		wait = min(wait, after)
	}
	op.timer = op.l.clock.After(max(wait, 0), op.tick)
}

// speculateAfterLocked returns how long a page may take before other nodes are asked as well. It is not ok if there are no other
// nodes, or if the table's speculative_retry forbids it.
func (op *orderedOp) speculateAfterLocked() (after time.Duration, ok bool) {
	spare := slices.ContainsFunc(op.nodes, func(n *node) bool {
		return n.state == nodeReady && op.compare(n.position, op.watermark) <= 0
	})
	if !spare {
		return 0, false
	}
	return op.l.c.SpeculateAfter(op.req.Table)
}

// tick is the event of the timer.
func (op *orderedOp) tick() {
	defer op.guarded()
	op.mu.Lock()
	op.timer = nil
	if op.done == nil {
		op.mu.Unlock()
		return
	}
	now := op.l.clock.Monotonic()
	if now >= op.deadline {
		op.endLocked()
		return
	}
	if after, ok := op.speculateAfterLocked(); ok {
		for _, n := range op.nodes {
			if n.state == nodeRequested && !n.slow && now-n.sent >= after {
				n.slow = true
				op.l.c.Note(coordinator.EventSpeculated)
			}
		}
	}
	op.mu.Unlock()
	op.advance()
	op.arm()
}

// endLocked ends the listing with the partial result, or else with an error. It unlocks mu.
func (op *orderedOp) endLocked() {
	if op.partialLocked() {
		op.finishLocked(nil)
		return
	}
	op.finishLocked(op.failureLocked())
}

// failureLocked returns the error of the present state. Its counts are those of the replica set that is farthest from the level.
func (op *orderedOp) failureLocked() error {
	received, blockFor := 0, 0
	for i := range op.quotas {
		q := &op.quotas[i]
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
	var failures []coordinator.NodeFailure
	for _, n := range op.nodes {
		if n.state == nodeFailed && !coordinator.Silent(n.err) {
			failures = append(failures, coordinator.NodeFailure{Node: n.id, Reason: coordinator.ReasonOf(n.err)})
		}
	}
	level, data := op.req.Consistency, len(op.result.Keys) > 0
	if len(failures) > 0 {
		return &coordinator.ReadFailure{Consistency: level, Received: received, BlockFor: blockFor, Failures: failures, DataPresent: data}
	}
	op.l.c.Note(coordinator.EventReadTimeout)
	return &coordinator.ReadTimeout{Consistency: level, Received: received, BlockFor: blockFor, DataPresent: data}
}

// finishLocked calls done. It unlocks mu.
func (op *orderedOp) finishLocked(err error) {
	done, timer := op.done, op.timer
	op.done, op.timer = nil, nil
	result := &op.result
	switch {
	case err != nil:
		result = nil
	case result.More:
		result.Reached = op.watermark.key
	}
	op.mu.Unlock()
	if timer != nil {
		timer.Stop()
	}
	op.l.c.ReleaseRead()
	if op.unhook != nil {
		op.unhook()
	}
	if result != nil {
		op.l.counts.keys.Add(uint64(len(result.Keys)))
	}
	done(result, err)
	op.cancel.Cancel() // the requests whose pages are not needed
}

// guarded is deferred by the events. A panic ends the listing with an error and frees mu, which the events of other nodes wait
// for. Without a Guard, in the simulation, the panic goes on.
func (op *orderedOp) guarded() {
	g := op.l.guard
	if g == nil {
		return
	}
	if p := recover(); p != nil {
		err := g.Caught("coordinator partitions", p)
		g.Abandon(&op.mu, func() {
			if op.done == nil {
				op.mu.Unlock()
				return
			}
			op.finishLocked(err)
		})
	}
}
