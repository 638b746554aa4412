package request

import (
	"context"
	"errors"
	"sync"
	"time"

	"cqld/auth"
	"cqld/coordinator"
	"cqld/internal/env"
	"cqld/internal/memory"
	"cqld/listing"
	"cqld/paxos"
	"cqld/schema"
	"cqld/search"
)

// Coordinator is the part of the coordinator that an Executor uses. Each method calls done exactly once, possibly
// before it returns.
type Coordinator interface {
	Write(req *coordinator.WriteRequest, done func(error))
	Read(req *coordinator.ReadRequest, done func(page []byte, err error))
	Truncate(table *schema.Table, timeout time.Duration, done func(error))
}

// Lister lists partition keys in byte order (package listing). List calls done exactly once, possibly before it
// returns.
type Lister interface {
	List(req *listing.Request, done func(*listing.Result, error))
}

// Searcher finds rows by indexes (package search). Search calls done exactly once, possibly before it returns.
type Searcher interface {
	Search(req *search.Request, done func(*search.Result, error))
}

// Batches writes logged batches (package batchlog). Write calls done exactly once, possibly before it returns.
type Batches interface {
	Write(req *coordinator.WriteRequest, done func(error))
}

// Counters updates counters (package counters). Update calls done exactly once, possibly before it returns.
type Counters interface {
	Update(req *coordinator.WriteRequest, done func(error))
}

// Proposer executes conditional changes and serial reads of one partition (package paxos). Each method calls done
// exactly once, possibly before it returns.
type Proposer interface {
	CAS(req *paxos.CASRequest, done func(applied bool, page []byte, err error))
	Read(req *coordinator.ReadRequest, done func(page []byte, err error))
}

// Options configures an Executor. Coordinator and Clock are required; Lister, Searcher, Batches, Counters and Proposer
// are required if requests use them.
type Options struct {
	Coordinator Coordinator
	Lister      Lister
	Searcher    Searcher
	Batches     Batches
	Counters    Counters
	Proposer    Proposer
	Clock       env.Clock
	// Authorizer authorizes requirements; nil means auth.AllowAll.
	Authorizer auth.Authorizer
	// NewWaiter creates the waiters of requests; nil means channels.
	NewWaiter func() env.Waiter
	// Refuse returns an error if this node must not serve clients at the moment. It is called for each operation; a
	// nil Refuse never rejects operations.
	Refuse func() error
	// Room bounds the bytes of writes that wait for the disk (RoomForWrites); nil means no bound.
	Room *memory.Pool
	// Tables returns the statistics of a table; nil means that there are no statistics by table.
	Tables func(schema.StorageID) *TableStats
}

// Executor executes the reads and writes of requests: it sends them to the coordinator and blocks until they have
// completed. Its methods are safe for concurrent use. It has no goroutine of its own.
type Executor struct {
	o     Options
	stats Stats
	calls sync.Pool // *Call
}

// New returns an Executor.
func New(o Options) *Executor {
	if o.Authorizer == nil {
		o.Authorizer = auth.AllowAll{}
	}
	if o.NewWaiter == nil {
		o.NewWaiter = env.NewChannelWaiter
	}
	if o.Refuse == nil {
		o.Refuse = func() error { return nil }
	}
	e := &Executor{o: o}
	e.calls.New = func() any { return newCall(e) }
	return e
}

// Stats returns the statistics of the Executor, which it continues to update.
func (e *Executor) Stats() *Stats { return &e.stats }

// Authorize returns nil if the request's principal meets all requirements, and otherwise *auth.Denied for the first
// unmet one. Other errors mean that the permissions could not be determined.
func (e *Executor) Authorize(r *Request, needs ...auth.Requirement) error {
	for _, need := range needs {
		if err := e.o.Authorizer.Authorize(r.Context, r.Principal, need); err != nil {
			return err
		}
	}
	return nil
}

// NewWaiter returns a waiter with which a request's goroutine can wait for events that are not operations of the
// Executor.
func (e *Executor) NewWaiter() env.Waiter { return e.o.NewWaiter() }

// Pause blocks for d. It waits even if the context of a request ends.
func (e *Executor) Pause(d time.Duration) {
	w := e.o.NewWaiter()
	e.o.Clock.After(d, w.Signal)
	w.Wait()
}

// WithDeadline returns the request's context, limited by its deadline and by timeout; zero means no timeout. The caller
// must call cancel when it no longer uses the context.
func (e *Executor) WithDeadline(r *Request, timeout time.Duration) (ctx context.Context, cancel context.CancelFunc) {
	// A deadline that has passed leaves 1 ns, because zero would mean no timeout.
	if r.Deadline != 0 {
		if left := max(r.Deadline-e.o.Clock.Monotonic(), 1); timeout == 0 || left < timeout {
			timeout = left
		}
	}
	if timeout == 0 {
		return r.Context, func() {}
	}
	return context.WithTimeout(r.Context, timeout)
}

// limit shortens the timeout of an operation to the time until the request's deadline. It returns the error of
// Options.Refuse if the node must not serve clients, and context.DeadlineExceeded if the deadline has passed. It ends
// the computation of the request, which may wait afterwards.
func (e *Executor) limit(r *Request, timeout *time.Duration) error {
	r.Memory.Rest()
	if err := e.o.Refuse(); err != nil {
		return err
	}
	if r.Deadline == 0 {
		return nil
	}
	left := r.Deadline - e.o.Clock.Monotonic()
	if left <= 0 {
		return context.DeadlineExceeded
	}
	*timeout = min(*timeout, left)
	return nil
}

// Write applies mutations as the write's type requires: counter updates, logged batches, or others. It cannot be
// canceled: it returns the outcome, as far as known, within the timeout. It changes req: the timeout, the trace and
// Blocks. Reads that the write needs count in the cost of a measured request.
func (e *Executor) Write(r *Request, req *coordinator.WriteRequest) error {
	c := e.call()
	defer c.Release()
	defer e.leaveRoom(c)
	// Call limit afterwards, because the wait counts towards the deadline.
	if err := e.enterRoom(r, c, req); err != nil {
		return err
	}
	if err := e.limit(r, &req.Timeout); err != nil {
		return err
	}
	req.Trace = r.observer()
	e.countWrite(c, req.Mutations)
	switch req.Type {
	case coordinator.WriteCounter:
		c.begin(KindCounter)
		req.Blocks = true // runs in the request's own goroutine
		e.o.Counters.Update(req, c.onDone)
	case coordinator.WriteBatch:
		c.begin(KindBatch)
		e.o.Batches.Write(req, c.onDone)
	default:
		c.begin(KindWrite)
		e.o.Coordinator.Write(req, c.onDone)
	}
	// Ignore the end of the context: replicas may already have the mutations, and a client that is still connected
	// must receive the outcome.
	c.waiter.Wait()
	r.addReads()
	return c.err
}

// Truncate deletes all rows of a table. Like a write, it cannot be canceled.
func (e *Executor) Truncate(r *Request, table *schema.Table, timeout time.Duration) error {
	if err := e.limit(r, &timeout); err != nil {
		return err
	}
	c := e.call()
	e.o.Coordinator.Truncate(table, timeout, c.onDone)
	c.waiter.Wait()
	err := c.err
	c.Release()
	return err
}

// Read executes a read of one row and returns the Call with its page, which the caller must release. Start describes
// req. It reserves memory for the page, which is returned with the other memory of r.
func (e *Executor) Read(r *Request, req *coordinator.ReadRequest) (*Call, error) {
	if r.Memory == nil {
		return e.read(r, req)
	}
	// The size of the row is unknown. Start with an amount of memory that suffices for most rows, and repeat the read
	// with more if a replica reports a larger row.
	for s := sizeOf(req.Consistency.IsSerial()); ; {
		if err := r.Grow(s.held()); err != nil {
			return nil, err
		}
		req.Command.Limits.Bytes, req.Memory = s.limit(), s.held()
		c, err := e.read(r, req)
		if err == nil {
			// Keep the memory of the page; the next operation of the request may use the rest.
			r.Memory.Spare(int64(s.held() - len(c.page)))
			return c, nil
		}
		r.Memory.Shrink(int64(s.held()))
		if !s.enlarge(err) {
			return nil, err
		}
		again, cmd := *req, *req.Command // replicas may still read the first one
		again.Command = &cmd
		req = &again
	}
}

// read makes one attempt.
func (e *Executor) read(r *Request, req *coordinator.ReadRequest) (*Call, error) {
	c := e.Start(r, req)
	if _, err := c.Wait(r); err != nil {
		c.Release()
		return nil, err
	}
	return c, nil
}

// Start starts a read and returns its Call, which the caller must release after Wait. req must not change until then.
// When the request's context ends, Wait cancels req.Cancel and thus the read, here and at the replicas; without Cancel,
// Wait waits for the read, which must then be short.
func (e *Executor) Start(r *Request, req *coordinator.ReadRequest) *Call {
	c := e.call()
	c.cancel = req.Cancel
	c.answered.Store(false)
	if err := e.limit(r, &req.Timeout); err != nil {
		c.onPage(nil, err)
		return c
	}
	req.Trace, req.Blocks = r.observer(), true // the request's own goroutine may block on the disk
	// A command counts when it is sent, whether or not it succeeds.
	r.Cost.Commands++
	e.countRead(c, req.Command)
	c.begin(KindRead)
	if req.Consistency.IsSerial() && req.Command.SinglePartition() {
		e.o.Proposer.Read(req, c.onPage)
	} else {
		e.o.Coordinator.Read(req, c.onPage)
	}
	return c
}

// CAS executes a conditional change. If the condition is false, the page of the Call contains the rows that show why.
// The caller must release the Call, which is nil if there is an error. Its reads count in the cost of a measured
// request. When the request's context ends, the change is canceled unless it was already proposed.
func (e *Executor) CAS(r *Request, req *paxos.CASRequest) (applied bool, c *Call, err error) {
	if r.Memory == nil {
		return e.cas(r, req)
	}
	for s := sizeOf(true); ; {
		if err := r.Grow(s.held()); err != nil {
			return false, nil, err
		}
		req.Command.Limits.Bytes = s.limit()
		applied, c, err = e.cas(r, req)
		if err == nil {
			r.Memory.Spare(int64(s.held() - len(c.page)))
			return applied, c, nil
		}
		r.Memory.Shrink(int64(s.held()))
		if !s.enlarge(err) {
			return false, nil, err
		}
		again, cmd := *req, *req.Command // replicas may still read the first one
		again.Command = &cmd
		req = &again
	}
}

// cas makes one attempt.
func (e *Executor) cas(r *Request, req *paxos.CASRequest) (applied bool, c *Call, err error) {
	if err := e.limit(r, &req.Timeout); err != nil {
		return false, nil, err
	}
	req.Trace = r.observer()
	// A context that never ends needs no Cancel.
	if req.Cancel == nil && r.Context.Done() != nil {
		req.Cancel = env.NewCancel(r.Context)
	}
	c = e.call()
	c.cancel = req.Cancel
	c.begin(KindCAS)
	// measureCAS copies the request, which costs an allocation.
	if r.Measured() {
		req = r.measureCAS(req)
	}
	e.o.Proposer.CAS(req, c.onApplied)
	err = c.wait(r)
	r.addReads()
	if err != nil {
		c.Release()
		return false, nil, err
	}
	return c.applied, c, nil
}

// List lists partition keys in byte order. It reserves memory for the keys, which is returned with the other memory
// of r.
func (e *Executor) List(r *Request, req *listing.Request) (result listing.Result, err error) {
	err = r.repeat(func(grow coordinator.Grow) (int, error) {
		req := *req // replicas may still read the one before
		req.Grow = grow
		result, err = e.list(r, &req)
		kept := 0
		for _, k := range result.Keys {
			kept += keyBytes + len(k)
		}
		return kept, err
	})
	return result, err
}

// list makes one attempt.
func (e *Executor) list(r *Request, req *listing.Request) (listing.Result, error) {
	if err := e.limit(r, &req.Timeout); err != nil {
		return listing.Result{}, err
	}
	req.Trace = r.observer()
	c := e.call()
	c.cancel = req.Cancel
	c.begin(KindListing)
	var result listing.Result
	e.o.Lister.List(req, func(p *listing.Result, err error) {
		if p != nil {
			result = *p
		}
		c.onDone(err)
	})
	_, err := c.Wait(r)
	c.Release()
	return result, err
}

// Search finds rows by an index. The caller adds what it reads to the cost of r, and calls Memory.Shrink with the
// size of the result's page when it no longer uses it.
func (e *Executor) Search(r *Request, req *search.Request) (result *search.Result, err error) {
	err = r.repeat(func(grow coordinator.Grow) (int, error) {
		req := *req // replicas may still read the one before
		req.Grow = grow
		if result, err = e.search(r, &req); result == nil {
			return 0, err
		}
		return len(result.Page), err
	})
	return result, err
}

// search makes one attempt.
func (e *Executor) search(r *Request, req *search.Request) (*search.Result, error) {
	if err := e.limit(r, &req.Timeout); err != nil {
		return nil, err
	}
	req.Trace = r.observer()
	c := e.call()
	c.cancel = req.Cancel
	e.countSearch(c, req)
	c.begin(KindSearch)
	var result *search.Result
	e.o.Searcher.Search(req, func(p *search.Result, err error) {
		result = p
		c.onDone(err)
	})
	_, err := c.Wait(r)
	c.Release()
	return result, err
}

// clientGone converts the error of a canceled operation to the context error that caused it.
func clientGone(err error) error {
	if errors.Is(err, env.ErrCanceled) {
		return context.Canceled
	}
	return err
}
