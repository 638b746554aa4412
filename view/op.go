package view

import (
	"context"
	"sync"
	"time"

	"cqld/coordinator"
	"cqld/internal/invariant"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
)

// source finds the rows of the base table that may have rows in a view.
type source interface {
	// send requests the next rows, and calls answered exactly once, possibly before it returns. It returns false if
	// there are none.
	send(left time.Duration, blocks bool) bool
	// take offers the rows that were answered to the operation. It returns false when the page is complete.
	take() (more bool, err error)
}

// readOp is one read of a view. It consumes one answer after the other, in the goroutine that brings it.
type readOp struct {
	r        *Reader
	req      *coordinator.ReadRequest
	base     *schema.Table
	view     *schema.Table
	level    ring.Consistency
	deadline time.Duration
	source   source
	mapper   *Mapper
	filter   row.FilterMatcher
	kept     *kept
	x, dst   row.Row
	header   row.Row      // empty
	examined int          // rows of the base table
	last     row.Position // of the row of the view that was found last
	stopped  bool         // the page ends at last, although there may be further rows

	mu      sync.Mutex
	done    func([]byte, error)
	running bool // loop is sending, and will look for the answer
	ready   bool // an answer has come that was not taken
}

// run runs the loop, and ends the operation if that panics.
func (op *readOp) run(blocks bool) {
	g := op.r.o.Guard
	if g == nil {
		op.loop(blocks)
		return
	}
	if err := g.Do("view: read", func() { op.loop(blocks) }); err != nil {
		op.finish(nil, err)
	}
}

// loop requests rows, one page after the other. It consumes answers that come at once, and others begin it again.
func (op *readOp) loop(blocks bool) {
	for {
		if more, err := op.take(); err != nil || !more {
			op.finish(op.page(), err)
			return
		}
		if err := op.req.Cancel.Err(); err != nil {
			op.finish(nil, err)
			return
		}
		left := op.deadline - op.r.o.Clock.Monotonic()
		if left <= 0 {
			op.finish(nil, context.DeadlineExceeded)
			return
		}
		op.mu.Lock()
		op.running = true
		op.mu.Unlock()
		if !op.source.send(left, blocks) {
			op.finish(op.page(), nil)
			return
		}
		op.mu.Lock()
		op.running = false
		ready := op.ready
		op.mu.Unlock()
		if !ready {
			return
		}
	}
}

// take consumes the answer that has come, if one has.
func (op *readOp) take() (more bool, err error) {
	op.mu.Lock()
	ready := op.ready
	op.ready = false
	op.mu.Unlock()
	if !ready {
		return true, nil
	}
	return op.source.take()
}

// answered is the event of an answer, which store stores.
func (op *readOp) answered(store func()) {
	if running := op.put(store); !running {
		op.run(false)
	}
}

// put stores an answer, and reports whether loop will look for it.
func (op *readOp) put(store func()) (running bool) {
	op.mu.Lock()
	defer op.mu.Unlock()
	invariant.Check(!op.ready, "view: a request has two answers")
	store()
	op.ready = true
	return op.running
}

// page returns the page of the rows found.
func (op *readOp) page() []byte {
	if op.stopped {
		return op.kept.writeAfter(&op.last)
	}
	return op.kept.write()
}

// finish ends the operation, once.
func (op *readOp) finish(page []byte, err error) {
	op.mu.Lock()
	done := op.done
	op.done = nil
	op.mu.Unlock()
	if done == nil {
		return
	}
	if err != nil {
		page = nil
	}
	done(page, err)
}
