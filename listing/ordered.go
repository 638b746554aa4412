package listing

import (
	"errors"
	"sync"
	"time"

	"cqld/coordinator"
	"cqld/internal/env"
	"cqld/ring"
	"cqld/watermark"
)

// orderedOp is a listing of a table with a partition index. Its events are the pages of nodes, the timer, the end of a
// pause before a new plan, and the cancelation.
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
	plan     watermark.Plan[[]byte]
	timer    env.Timer
	cancel   *env.Cancel // of the requests for pages
	unhook   func() bool // from the request's Cancel

	result Result
	bytes  int // of the keys in result
	memory coordinator.Budget
}

// listOrdered starts an orderedOp.
func (l *Lister) listOrdered(req *Request, limit int, done func(*Result, error)) {
	if err := l.c.ReserveRead(); err != nil {
		done(nil, err)
		return
	}
	now := l.clock.Monotonic()
	op := &orderedOp{
		l: l, req: req, limit: limit, done: done, started: now, deadline: now + req.Timeout,
		memory: coordinator.Budget{Grow: req.Grow},
	}
	op.plan.SetMark(watermark.Position{Place: watermark.BeforeAll})
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
		asked, ok := op.plan.Needed()
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

// send asks nodes for their next pages.
func (op *orderedOp) send(asked []*watermark.Node[[]byte], plan int) {
	self := op.l.view.Self()
	watermark.SelfLast(asked, self)
	for _, n := range asked {
		q, epoch, from, ok := op.request(n)
		if !ok {
			return
		}
		if n.ID == self {
			coordinator.AddTrace(op.req.Trace, self, "Listing partitions")
		} else {
			coordinator.AddNodeTrace(op.req.Trace, self, "Sending listing of partitions to", n.ID)
		}
		op.l.counts.pages.Add(1)
		op.l.replicas.Page(n.ID, op.req.Trace, epoch, q, op.l.c.Remaining(op.deadline), func(page *Page, err error) {
			op.answered(n, plan, from, page, err)
		})
	}
}

// request returns the request for the page of n that begins behind from. It is not ok if the listing has ended: the
// result then belongs to the caller.
func (op *orderedOp) request(n *watermark.Node[[]byte]) (q *PageRequest, epoch uint64, from watermark.Position,
	ok bool) {
	op.mu.Lock()
	defer op.mu.Unlock()
	if op.done == nil {
		return nil, 0, from, false
	}
	if from = n.Position; op.plan.Compare(from, op.plan.Mark()) < 0 {
		from = op.plan.Mark()
	}
	q = &PageRequest{
		Table: op.req.Table.StorageID, Span: op.req.Span, Reversed: op.req.Reversed,
		Limit: op.limit - len(op.result.Keys),
		Now:   op.req.Now, Dead: op.req.Dead, Moved: op.topology.Moved(), Cancel: op.cancel,
	}
	if from.Place == watermark.AtKey {
		q.Span = q.Span.after(from.Key, q.Reversed)
	}
	n.Sent(op.l.clock.Monotonic())
	return q, op.topology.Epoch(), from, true
}

// answered is the event of a node's page, which begins behind from.
func (op *orderedOp) answered(n *watermark.Node[[]byte], plan int, from watermark.Position, page *Page, err error) {
	defer op.guarded()
	op.mu.Lock()
	if n.ID != op.l.view.Self() {
		op.l.c.RecordLatency(n.ID, n.Latency(op.l.clock.Monotonic()))
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
		if short := op.holdLocked(page.Keys); short != nil {
			op.finishLocked(short)
			return
		}
		op.l.counts.scanned.Add(uint64(page.Scanned))
		op.plan.Take(n, from, &watermark.Page[[]byte]{Entries: page.Keys, Scanned: page.Scanned, More: page.More,
			Last: page.Last}, nil)
		op.result.Scanned = max(op.result.Scanned, n.Scanned)
	} else {
		var refusal *coordinator.NotReplica
		op.refused = op.refused || errors.As(err, &refusal)
		op.plan.Take(n, from, nil, err)
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
	if after, ok := op.plan.SpeculateAfter(); ok {
		wait = min(wait, after)
	}
	op.timer = op.l.clock.After(max(wait, 0), op.tick)
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
	op.plan.Speculate(now)
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
	op.finishLocked(op.plan.Failure(len(op.result.Keys) > 0))
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
		result.Reached = op.plan.Mark().Key
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

// guarded is deferred by the events. A panic ends the listing with an error and frees mu, which the events of other
// nodes wait for. Without a Guard, in the simulation, the panic goes on.
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
