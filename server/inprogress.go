package server

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"cqld/cql"
	"cqld/server/frame"
)

// InProgress describes a request that is being executed, for system_views.queries. The text of a statement is cut at
// taskBytesMax and redacted: passwords in statements about roles are not shown.
type InProgress struct {
	ID      uint64 // is given to no other request of the process
	Task    string // the kind of the request and its statement, without secrets
	Queued  time.Duration
	Running time.Duration
}

// taskBytesMax bounds the statement in a Task.
const taskBytesMax = 4096

// task describes what a request executes. It holds references only, so that the statement need not be copied.
type task struct {
	opcode   frame.Opcode
	text     string   // of the statement, or of the first one of a BATCH, unless it is prepared
	prepared [16]byte // its id, if it is
	others   int      // further statements of a BATCH
}

// shown returns the Task. textOf returns the text of a prepared statement, or "" if it is no longer prepared.
func (t *task) shown(textOf func(id [16]byte) string) string {
	// text is empty for a prepared statement, whose text is looked up only when the table is read, which is rare.
	text := t.text
	if text == "" && t.prepared != ([16]byte{}) {
		text = textOf(t.prepared)
	}
	// The text is cut before it is redacted: Redact parses it, and redacts a cut statement like an invalid one, which
	// errs on the side of removing more.
	if len(text) > taskBytesMax {
		text = strings.ToValidUTF8(text[:taskBytesMax], "")
	}
	text = cql.Redact(text)
	if text == "" && t.prepared != ([16]byte{}) {
		text = fmt.Sprintf("%x", t.prepared)
	}
	text = t.opcode.String() + " " + text
	if t.others > 0 {
		text += fmt.Sprintf(" and %d more statements", t.others)
	}
	return text
}

// Killed is the error of a request that an operator has ended.
type Killed struct{ ID uint64 }

// Error returns the message for the client.
func (e *Killed) Error() string { return fmt.Sprintf("Query %d was ended by an operator", e.ID) }

// lease is a context for one request at a time. It ends with the connection's, or when the request is killed. Contexts
// are reused, because one for each request would be allocated. The context of a killed request is cancelled for good,
// which is why leave drops the lease.
type lease struct {
	ctx    context.Context
	cancel context.CancelFunc
}

// leases are the idle contexts of a connection.
type leases struct {
	mu   sync.Mutex
	free []*lease
}

// take returns a context for a request, which is not used by another one until giveBack is called. It ends with ctx,
// the connection's.
func (s *leases) take(ctx context.Context) *lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	// The most recent one is used, so that a connection with few requests uses few contexts.
	if n := len(s.free); n > 0 {
		l := s.free[n-1]
		s.free = s.free[:n-1]
		return l
	}
	l := new(lease)
	l.ctx, l.cancel = context.WithCancel(ctx)
	return l
}

// giveBack lets other requests use l. There are never more leases than requests that were executed at a time.
func (s *leases) giveBack(l *lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free = append(s.free, l)
}

// slot describes the request that a worker executes, for readers of the table. It belongs to the worker, and its lock
// is held only briefly. Its worker writes it twice for each request; readers are rare.
type slot struct {
	mu struct {
		sync.Mutex
		id     uint64 // 0 means none
		task   task
		queued time.Duration
		began  time.Time
		cancel context.CancelFunc
		killed bool
	}
}

// begin makes the slot show a request.
func (s *slot) begin(id uint64, j job, cancel context.CancelFunc) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	// The statement follows in describe, when it is decoded.
	s.mu.id, s.mu.task, s.mu.queued = id, task{opcode: j.request.Opcode}, 0
	if !j.queued.IsZero() {
		s.mu.queued = now.Sub(j.queued)
	}
	s.mu.began, s.mu.cancel, s.mu.killed = now, cancel, false
}

// describe sets what the request executes.
func (s *slot) describe(text string, prepared []byte, others int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.task.text, s.mu.task.others = text, others
	// The id is copied, because it points into the body of the request. A nil id leaves zeros.
	copy(s.mu.task.prepared[:], prepared)
}

// end reports whether the request has been killed.
func (s *slot) end() (killed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// From here on, kill cannot cancel the lease, which another request may take.
	s.mu.id, s.mu.task, s.mu.cancel = 0, task{}, nil
	return s.mu.killed
}

// shown returns the request, without its Task; its ID is 0 if there is none.
func (s *slot) shown(now time.Time) (InProgress, task) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return InProgress{ID: s.mu.id, Queued: s.mu.queued, Running: max(now.Sub(s.mu.began), 0)}, s.mu.task
}

// kill cancels the request if it has the id. It holds the lock, so that the context does not belong to another request
// yet.
func (s *slot) kill(id uint64) (found, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if id == 0 || s.mu.id != id {
		return false, false
	}
	first = !s.mu.killed
	s.mu.killed = true
	// cancel is called under the lock, so that end waits for it and the lease is not given back in between.
	s.mu.cancel()
	return true, first
}

// slots has one slot for each worker, and is bounded like the workers.
type slots struct {
	last   atomic.Uint64 // id of a request
	killed atomic.Int64
	mu     struct {
		sync.Mutex
		all map[*slot]struct{}
	}
}

// add shows a worker that has started.
func (p *slots) add(s *slot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.all == nil {
		p.mu.all = map[*slot]struct{}{}
	}
	p.mu.all[s] = struct{}{}
}

// remove hides a worker that has ended.
func (p *slots) remove(s *slot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.mu.all, s)
}

// list returns a copy, so that slots are locked one at a time.
func (p *slots) list() []*slot {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make([]*slot, 0, len(p.mu.all))
	for s := range p.mu.all {
		out = append(out, s)
	}
	return out
}

// InProgress returns the requests that are being executed, in no particular order. textOf returns the text of a
// prepared statement, or "" if it is no longer prepared. A request may have ended when the result is read.
func (s *Server) InProgress(textOf func(id [16]byte) string) []InProgress {
	var out []InProgress
	now := time.Now()
	for _, one := range s.workers.slots.list() {
		// The text is formatted without the lock of the slot, which the worker takes for each request.
		if p, what := one.shown(now); p.ID != 0 {
			p.Task = what.shown(textOf)
			out = append(out, p)
		}
	}
	return out
}

// Kill cancels a request and reports whether it was being executed. Writes that were sent to replicas are not undone;
// then, and if the request has just been completed, its client receives the actual outcome, and otherwise *Killed.
func (s *Server) Kill(id uint64) bool {
	for _, one := range s.workers.slots.list() {
		if found, first := one.kill(id); found {
			// Two operators may kill the same request, which counts once.
			if first {
				s.workers.slots.killed.Add(1)
			}
			return true
		}
	}
	return false
}

// Killed returns the number of requests that Kill has cancelled.
func (s *Server) Killed() int64 { return s.workers.slots.killed.Load() }

// enter makes a request visible to InProgress and Kill until leave is called.
func (w *worker) enter(j job) {
	w.lease, w.id = j.conn.leases.take(j.conn.ctx), j.conn.server.workers.slots.last.Add(1)
	w.slot.begin(w.id, j, w.lease.cancel)
}

// leave hides the request that enter made visible. It returns the error for the client, given the error with which
// the request ended.
func (w *worker) leave(c *conn, err error) error {
	killed, l := w.slot.end(), w.lease
	w.lease = nil
	switch {
	// A lease whose context was cancelled is not used again.
	case !killed:
		c.leases.giveBack(l)
	// Any other error is the actual outcome of the request, and the connection's own end needs no answer.
	case errors.Is(err, context.Canceled) && c.ctx.Err() == nil:
		return &Killed{w.id}
	}
	return err
}
