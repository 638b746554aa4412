package listing

import (
	"bytes"
	"time"

	"cqld/coordinator"
	"cqld/internal/invariant"
	"cqld/ring"
	"cqld/watermark"
)

// The types of a listing's state machine.
type (
	askPage   = watermark.Effect[[]byte, *PageRequest]
	operation = watermark.Operation[[]byte, *PageRequest]
)

// orderedOp is a listing of a table with a partition index. Its methods Perform and Finish are the Host of the
// operation.
type orderedOp struct {
	operation
	l    *Lister
	req  *Request
	done func(*Result, error)
	keys keySequence
}

// keySequence is the state of a listing besides the plan. Its methods are steps.
type keySequence struct {
	m       *watermark.Machine[[]byte, *PageRequest]
	req     *Request
	span    Span // the span of the request, in memory of the listing: requests are sent when the client has its result
	self    ring.NodeID
	limit   int
	bound   int // bytes of the keys of a result, at most
	result  Result
	bytes   int // of the keys in result
	scanned int // by all nodes
}

var _ watermark.Sequence[[]byte, *PageRequest] = (*keySequence)(nil)

// listOrdered starts an orderedOp.
func (l *Lister) listOrdered(req *Request, limit int, done func(*Result, error)) {
	op := &orderedOp{l: l, req: req, done: done}
	op.keys = keySequence{
		m:   &op.Machine,
		req: req,
		// The span is copied, because requests to nodes may be encoded after the client has its result.
		span:  Span{From: bytes.Clone(req.Span.From), To: bytes.Clone(req.Span.To)},
		self:  l.view.Self(),
		limit: limit,
		bound: l.limits.Bytes,
	}
	op.Init(&watermark.Config[[]byte, *PageRequest]{
		Sequence: &op.keys,
		Host:     op,
		Plan: watermark.Options{
			Coordinator:     l.c,
			View:            l.view,
			LocalDatacenter: l.localDC,
			Table:           req.Table,
			Consistency:     req.Consistency,
			Reversed:        req.Reversed,
		},
		// The first pages begin at the start of the span.
		Mark:    watermark.Position{Place: watermark.BeforeAll},
		Clock:   l.clock,
		Timeout: req.Timeout,
		Cancel:  req.Cancel,
		Grow:    req.Grow,
		Guard:   l.guard,
		Where:   "coordinator partitions",
	})
	// A listing counts as one read, however many pages it needs. The operation releases it, also after a panic.
	if err := l.c.ReserveRead(); err != nil {
		done(nil, err)
		return
	}
	op.Start()
}

// Perform implements watermark.Host: it asks a node for its next page.
func (op *orderedOp) Perform(e *askPage) {
	self, n := op.keys.self, e.Node
	if n.ID == self {
		coordinator.AddTrace(op.req.Trace, self, "Listing partitions")
	} else {
		coordinator.AddNodeTrace(op.req.Trace, self, "Sending listing of partitions to", n.ID)
	}
	op.l.counts.pages.Add(1)
	// The request ends with the operation, also if that was ended by its client.
	e.Body.Cancel = op.Cancel()
	op.l.replicas.Page(n.ID, op.req.Trace, e.Epoch, e.Body, op.l.c.Remaining(op.Deadline),
		func(page *Page, err error) {
			if err != nil {
				op.Paged(n, watermark.Page[[]byte]{}, err)
				return
			}
			op.Paged(n, watermark.Page[[]byte]{
				Entries: page.Keys,
				Scanned: page.Scanned,
				More:    page.More,
				Last:    page.Last,
			}, nil)
		})
}

// Finish implements watermark.Host.
func (op *orderedOp) Finish(err error) {
	op.l.counts.scanned.Add(uint64(op.keys.scanned))
	if err != nil {
		op.done(nil, err)
		return
	}
	op.l.counts.keys.Add(uint64(len(op.keys.result.Keys)))
	op.done(&op.keys.result, nil)
}

// Replan implements watermark.Sequence. It fails with Unavailable if too few nodes are alive.
func (s *keySequence) Replan() error {
	s.m.NewPlan()
	replication := s.req.Table.Replication
	if replication.Class == ring.Local {
		// Data of a local table is on this node only.
		s.m.Plan.Add(ring.ReplicaSet{Natural: []ring.NodeID{s.self}})
		return s.m.Plan.Complete()
	}
	// Many ranges have the same replicas, which are asked once for all of them.
	known := map[string]bool{}
	var key []byte
	for _, r := range s.m.Topology.Placement(replication).Ranges(ring.FullRange()) {
		if key = watermark.AppendReaders(key[:0], &r.Replicas); !known[string(key)] {
			known[string(key)] = true
			s.m.Plan.Add(r.Replicas)
		}
	}
	return s.m.Plan.Complete()
}

// Advance implements watermark.Sequence.
func (s *keySequence) Advance(out []askPage) ([]askPage, watermark.Progress, error) {
	if s.merge() || s.partial() {
		return out, watermark.Complete, nil
	}
	return out, watermark.NeedsPages, nil
}

// Request implements watermark.Sequence.
func (s *keySequence) Request(from watermark.Position) *PageRequest {
	q := &PageRequest{
		Table:    s.req.Table.StorageID,
		Span:     s.span,
		Reversed: s.req.Reversed,
		Limit:    s.limit - len(s.result.Keys),
		Now:      s.req.Now,
		Dead:     s.req.Dead,
		Moved:    s.m.Topology.Moved(),
	}
	// At the beginning the span is requested as it is.
	if from.Place == watermark.AtKey {
		q.Span = q.Span.after(from.Key, q.Reversed)
	}
	return q
}

// partial reports whether the request's Patience is over and the watermark has reached a key.
func (s *keySequence) partial() bool {
	// The result contains the keys up to the watermark. Before the first key there is no position to continue from.
	return s.m.Plan.Mark().Place == watermark.AtKey && s.req.Patience > 0 && s.waited() >= s.req.Patience
}

func (s *keySequence) waited() time.Duration { return s.m.Now - s.m.Began }

// Failure implements watermark.Sequence: a listing with Patience has a partial result.
func (s *keySequence) Failure() error {
	if s.partial() {
		return nil
	}
	return s.m.Plan.Failure(len(s.result.Keys) > 0)
}

// Conclude implements watermark.Sequence.
func (s *keySequence) Conclude() {
	if s.result.More {
		s.result.Reached = s.m.Plan.Mark().Key
	}
}

// Scanned implements watermark.Sequence.
func (s *keySequence) Scanned(page, all int) {
	s.scanned += page
	s.result.Scanned = max(s.result.Scanned, all)
}

// Fetched implements watermark.Sequence. It is never called, because a listing only requests pages.
func (s *keySequence) Fetched(*PageRequest, []byte, error) error { return nil }

// Fetching implements watermark.Sequence.
func (s *keySequence) Fetching() int { return 0 }

// NoMemory implements watermark.Sequence.
func (s *keySequence) NoMemory(err error) error { return err }

// MayRecover implements watermark.Sequence.
func (s *keySequence) MayRecover() bool { return false }

// Check implements watermark.Sequence: the result has at most as many keys as the limit, in order and without
// duplicates.
func (s *keySequence) Check() {
	keys := s.result.Keys
	if len(keys) > s.limit {
		invariant.Fail("a listing has more keys than its limit")
	}
	// A merge sorts its own keys, so checking the last pair after each step finds one that follows larger keys.
	if n := len(keys); n > 1 && compareKeys(keys[n-2], keys[n-1], s.req.Reversed) >= 0 {
		invariant.Fail("the keys of a listing are not in order")
	}
}
