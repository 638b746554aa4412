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
	"cqld/search"
)

// source finds the rows of the base table that may have rows in a view.
type source interface {
	// send requests the next rows, and calls answered exactly once, possibly before it returns. It returns false if
	// there are none.
	send(left time.Duration, blocks bool) bool
	// take offers the rows of an answer to the operation. It returns false when the page is complete.
	take(a *answer) (more bool, err error)
}

// answer is the answer to a request of a source.
type answer struct {
	page   []byte         // of a scan
	result *search.Result // of a search
	err    error
}

// readOp is one read of a view. It consumes one answer after the other, in the goroutine that brings it.
//
//	take the answer ─▶ offer its rows ─▶ the page is complete: finish
//	     ▲                                  │ otherwise
//	     └── answered ◀── scan or search ◀──┘
//
// It decides nothing about nodes: the coordinator and package search, which read the base table, are the state machines
// between them. At most one request is outstanding, so the lock guards only the meeting of loop with an answer that
// comes in another goroutine, or before send has returned.
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
	done    func([]byte, error) // nil after it was called
	running bool                // loop is sending, and will look for the answer
	ready   bool                // answer has come, and was not taken
	answer  answer
}

// run runs the loop, and ends the operation if that panics. blocks says whether the goroutine may wait for the disk.
func (op *readOp) run(blocks bool) {
	g := op.r.o.Guard
	if g == nil {
		// In tests, a panic ends the program.
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
		// A request needs a positive timeout.
		if left <= 0 {
			op.finish(nil, context.DeadlineExceeded)
			return
		}
		op.setRunning(true)
		if !op.source.send(left, blocks) {
			op.finish(op.page(), nil)
			return
		}
		// An answer that came before send returned is taken here, so that calls do not nest as deep as there are pages.
		if ready := op.setRunning(false); !ready {
			return
		}
	}
}

// setRunning records whether loop is sending, and reports whether an answer has arrived.
func (op *readOp) setRunning(running bool) (ready bool) {
	op.mu.Lock()
	defer op.mu.Unlock()
	op.running = running
	return op.ready
}

// take consumes the answer that has arrived, if any.
func (op *readOp) take() (more bool, err error) {
	a, ready := op.next()
	if !ready {
		// No answer exists only before the first request.
		return true, nil
	}
	return op.source.take(&a)
}

// next returns the answer that was not taken, if there is one.
func (op *readOp) next() (a answer, ready bool) {
	op.mu.Lock()
	defer op.mu.Unlock()
	a, ready = op.answer, op.ready
	op.answer, op.ready = answer{}, false
	return a, ready
}

// answered delivers an answer.
func (op *readOp) answered(a answer) {
	if running := op.put(a); !running {
		// The goroutine of an answer belongs to the coordinator, and may not block on the disk.
		op.run(false)
	}
}

// put stores an answer, and reports whether loop will take it.
func (op *readOp) put(a answer) (running bool) {
	op.mu.Lock()
	defer op.mu.Unlock()
	invariant.Check(!op.ready, "view: a request has two answers") // 5
	op.answer, op.ready = a, true
	return op.running
}

// page returns the page of the rows found.
func (op *readOp) page() []byte {
	if op.stopped {
		// The next page begins after a row that this one may not contain, because the filter has removed it.
		return op.kept.writeAfter(&op.last)
	}
	return op.kept.write()
}

// finish ends the operation, once. done is called without the lock, because it may start the next read of the request.
func (op *readOp) finish(page []byte, err error) {
	op.mu.Lock()
	done := op.done
	op.done = nil
	op.mu.Unlock()
	if done == nil {
		// A panic has already ended the operation.
		return
	}
	if err != nil {
		page = nil
	}
	done(page, err)
}
