package watermark

import (
	"slices"
	"sync"
	"time"

	"cqld/coordinator"
	"cqld/internal/env"
	"cqld/internal/guard"
)

// Host performs the effects of an operation that differ between operations. Its methods are called without the lock.
type Host[E, Q any] interface {
	// Perform sends the request of an Ask or a Fetch, and calls Operation.Paged or Operation.Fetched exactly once,
	// possibly before it returns.
	Perform(e *Effect[E, Q])
	// Finish answers the client. It is called once. The state of the sequence does not change after it was called.
	Finish(err error)
}

// Config configures an Operation.
type Config[E, Q any] struct {
	Sequence Sequence[E, Q]
	Host     Host[E, Q]
	// Plan configures the plans. Topology is set by the machine.
	Plan    Options
	Mark    Position // the operation begins after it
	Clock   env.Clock
	Timeout time.Duration
	Cancel  *env.Cancel      // ends the operation; may be nil
	Grow    coordinator.Grow // nil means that memory is not bounded
	Guard   *guard.Guard     // ends operations that panic; nil means that the panic continues
	Where   string           // the name of the operation for Guard
}

// Operation runs a Machine. It is the only part of an operation that has a lock: it locks, steps, checks the
// invariants, unlocks, and performs the effects. A panic in a step therefore never leaves the lock. Its owner calls
// coordinator.ReserveRead before Start.
//
// One goroutine at a time performs Ask and Fetch. The events of answers that arrive before Perform has returned add
// their effects to its queue, so that calls do not nest. Other effects do not wait for it.
type Operation[E, Q any] struct {
	Machine[E, Q] // only Step and its callees use it; after Finish, Host.Finish

	coordinator *coordinator.Coordinator
	host        Host[E, Q]
	clock       env.Clock
	guard       *guard.Guard // may be nil
	where       string
	cancel      *env.Cancel // of the requests
	parent      *env.Cancel // may be nil
	hook        env.Hook    // in parent

	mu sync.Mutex
	// mu guards the fields up to backing, and the Machine.
	ended      bool
	performing bool
	memory     coordinator.Budget
	timer      env.Timer
	// out and queue begin in backing, so that a usual operation allocates neither.
	out       []Effect[E, Q] // of the step that runs; its memory is reused
	queue     []Effect[E, Q] // Ask and Fetch that are not performed yet; at most one for each node, and the reads
	performed int            // of queue
	backing   [2][stepEffects]Effect[E, Q]

	current Effect[E, Q] // belongs to the goroutine that performs
}

// stepEffects is the number of effects that need no further memory: two nodes of a QUORUM, and the timer.
const stepEffects = 3

// Init prepares an operation, which Start begins.
func (op *Operation[E, Q]) Init(c *Config[E, Q]) {
	op.coordinator, op.host, op.clock = c.Plan.Coordinator, c.Host, c.Clock
	op.guard, op.where, op.parent = c.Guard, c.Where, c.Cancel
	op.Machine.Reset(c.Sequence, c.Plan, c.Mark)
	op.Began = c.Clock.Monotonic()
	op.Deadline = op.Began + c.Timeout
	op.memory.Grow, op.Bounded = c.Grow, c.Grow != nil
	op.out, op.queue = op.backing[0][:0], op.backing[1][:0]
	op.cancel = c.Cancel.Child(c.Clock, op.Deadline)
}

// Cancel ends with the operation.
func (op *Operation[E, Q]) Cancel() *env.Cancel { return op.cancel }

// Start begins the operation.
func (op *Operation[E, Q]) Start() {
	if op.parent != nil {
		op.hook.F = op.canceled
		// Before the first event: a client that cancels during Start ends the operation.
		op.parent.Watch(&op.hook)
	}
	op.deliver(&Event[E, Q]{Kind: Started})
}

// Paged delivers a node's answer to an Ask. The Operation takes ownership of the page.
func (op *Operation[E, Q]) Paged(n *Node[E], page Page[E], err error) {
	op.deliver(&Event[E, Q]{Kind: Paged, Node: n, Page: page, Err: err})
}

// Fetched delivers the answer to a Fetch with the same body.
func (op *Operation[E, Q]) Fetched(body Q, answer []byte, err error) {
	op.deliver(&Event[E, Q]{Kind: Fetched, Body: body, Answer: answer, Err: err})
}

func (op *Operation[E, Q]) tick()   { op.deliver(&Event[E, Q]{Kind: Ticked}) }
func (op *Operation[E, Q]) resume() { op.deliver(&Event[E, Q]{Kind: Resumed}) }

// End ends the operation with an error, unless it has ended: it was canceled, or an event panicked.
func (op *Operation[E, Q]) End(err error) {
	op.mu.Lock()
	first := !op.ended
	op.ended = true
	op.mu.Unlock()
	if first {
		op.finish(err)
	}
}

// canceled is called when the client's Cancel is canceled.
func (op *Operation[E, Q]) canceled() {
	// It runs in the goroutine that cancels, which must not panic.
	defer op.guard.Recover(op.where, nil)
	op.End(env.ErrCanceled)
}

// immediate contains the effects that the goroutine of an event performs itself.
type immediate struct {
	finish, arm, pause bool
	perform            bool // this goroutine performs the queue
	err                error
	armAfter           time.Duration
	pauseAfter         time.Duration
}

// deliver takes an event, and performs its effects.
func (op *Operation[E, Q]) deliver(ev *Event[E, Q]) {
	defer op.guard.Recover(op.where, op.End)
	ev.Now, ev.Topology = op.clock.Monotonic(), op.o.View.Topology()
	if n := ev.Node; n != nil && n.ID != op.o.View.Self() {
		// No step changes the start time of this request before Step handles its answer.
		op.coordinator.RecordLatency(n.ID, n.Latency(ev.Now))
	}
	do := op.step(ev)
	if do.finish {
		op.finish(do.err)
		return
	}
	if do.pause {
		op.clock.After(do.pauseAfter, op.resume)
	}
	if do.arm {
		op.arm(do.armAfter)
	}
	if do.perform {
		op.perform()
	}
}

// step is the critical section of an event.
func (op *Operation[E, Q]) step(ev *Event[E, Q]) (do immediate) {
	op.mu.Lock()
	defer op.mu.Unlock()
	if op.ended {
		return do
	}
	op.out = op.Step(ev, op.out[:0])
	// The step after a reservation may reserve again, for example by Advance.
	for i := op.reserve(); i >= 0; i = op.reserve() {
		bytes := op.out[i].Bytes
		reserved := Event[E, Q]{
			Kind:     Reserved,
			Now:      ev.Now,
			Topology: ev.Topology,
			Bytes:    bytes,
			Err:      op.memory.Hold(bytes),
		}
		op.out = op.Step(&reserved, slices.Delete(op.out, i, i+1))
	}
	op.Check()
	for i := range op.out {
		switch e := &op.out[i]; e.Kind {
		case Ask, Fetch:
			op.queue = append(op.queue, *e)
		case Arm:
			do.arm, do.armAfter = true, e.After
		case Pause:
			do.pause, do.pauseAfter = true, e.After
		case Finish:
			do.finish, do.err = true, e.Err
			// Later events are ignored from here on, before finish is called without the lock.
			op.ended = true
		case Reserve:
		}
	}
	clear(op.out) // nodes and requests of previous plans are not kept
	// Otherwise the goroutine that performs already takes the new effects.
	do.perform = !op.performing && len(op.queue) > 0
	op.performing = op.performing || do.perform
	return do
}

// reserve returns the index of the Reserve of a step, or -1.
func (op *Operation[E, Q]) reserve() int {
	return slices.IndexFunc(op.out, func(e Effect[E, Q]) bool { return e.Kind == Reserve })
}

// perform performs the queue until it is empty or the operation has ended.
func (op *Operation[E, Q]) perform() {
	for op.next() {
		op.host.Perform(&op.current)
	}
}

// next moves the first effect of the queue to current. It returns false if the goroutine must perform no further
// effects.
func (op *Operation[E, Q]) next() bool {
	op.mu.Lock()
	defer op.mu.Unlock()
	if op.ended || len(op.queue) == 0 {
		op.performing = false
		return false
	}
	// A copy: the queue may be extended, and moved, while the effect is performed.
	op.current = op.queue[op.performed]
	if op.performed++; op.performed == len(op.queue) {
		clear(op.queue) // requests that were sent are not kept
		op.queue, op.performed = op.queue[:0], 0
	}
	return true
}

// arm sets the timer.
func (op *Operation[E, Q]) arm(after time.Duration) {
	timer := op.clock.After(after, op.tick)
	op.mu.Lock()
	ended := op.ended
	if !ended {
		op.timer = timer
	}
	op.mu.Unlock()
	if ended {
		timer.Stop()
	}
}

// finish performs Finish. The operation has ended, so no other event uses its state.
func (op *Operation[E, Q]) finish(err error) {
	op.mu.Lock()
	timer := op.timer
	op.timer = nil
	op.mu.Unlock()
	if timer != nil {
		timer.Stop()
	}
	// Before Finish, which may begin the client's next request.
	op.coordinator.ReleaseRead()
	if op.parent != nil {
		op.parent.Remove(&op.hook)
	}
	op.host.Finish(err)
	op.cancel.Cancel() // the requests whose answers are not needed
}
