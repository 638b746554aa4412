package coordinator

import (
	"bytes"
	"errors"
	"maps"
	"slices"

	"cqld/ring"
)

// errStays ends a hand-over when the node does not leave after all.
var errStays = errors.New("coordinator: this node does not leave")

// stays reports whether this node is a member and is not leaving. Only such a node may store batches.
func (c *Coordinator) stays() bool {
	n := c.view.Topology().Node(c.view.Self())
	return n != nil && n.State != ring.Leaving
}

// HandOver copies each batch that this node stores to two other nodes and removes its own copy. A node does this before
// it leaves the ring: after that it could not apply the batches. A leaving node already refuses new batches. HandOver then
// hands over the hints that this node stores. It calls done once: with nil when this node stores no batch and no hint any
// more, or with an error when the node does not leave after all.
func (c *Coordinator) HandOver(done func(error)) {
	if c.unsafe.NoHandOver {
		done(nil)
		return
	}
	h := &handOver{l: c.batchlog, done: func(err error) {
		if err != nil {
			done(err)
			return
		}
		c.handOverHints(done)
	}}
	h.proceed()
}

// handOver is a batchlog on its way to others.
//
//	todo ──▶ under way, a few at a time ──▶ forgotten here
//	  ▲              │ too few took it
//	  └── a pause ───┘
type handOver struct {
	l    *batchlog
	done func(error)

	// Guarded by batchlog.mu.
	begun   bool
	todo    []*heldBatch // by name
	again   []*heldBatch // after a pause
	open    int          // under way
	paused  bool
	ended   bool
	working bool // somebody is in proceed, and looks again when more is true
	more    bool
}

// proceed is the event of the beginning, of a batch's end, and of a pause's.
func (h *handOver) proceed() {
	l := h.l
	l.mu.Lock()
	defer l.mu.Unlock()
	for h.more = true; h.more && !h.working && !h.ended && !l.mu.closed; {
		h.more, h.working = false, true
		next, err := h.nextLocked()
		l.mu.Unlock()
		for _, b := range next {
			h.give(b)
		}
		if h.ended { // nobody else sets it: they see that somebody works
			h.done(err)
		}
		l.mu.Lock()
		h.working = false
	}
}

// nextLocked takes what is to be given now, and judges whether all is over.
func (h *handOver) nextLocked() (next []*heldBatch, err error) {
	l := h.l
	if l.c.stays() {
		h.ended = true
		return nil, errStays
	}
	if !h.begun && l.mu.loaded {
		h.begun = true
		h.todo = slices.SortedFunc(maps.Values(l.mu.held), func(a, b *heldBatch) int { return bytes.Compare(batchKey(a.id), batchKey(b.id)) })
	}
	for len(h.todo) > 0 && h.open < l.c.limits.BatchHandOvers {
		b := h.todo[0]
		h.todo = h.todo[1:]
		switch {
		case l.mu.held[b.id] != b: // applied meanwhile, or forgotten
		case !b.stored:
			h.again = append(h.again, b)
		default:
			h.open++
			next = append(next, b)
		}
	}
	switch {
	case h.open > 0 || len(h.todo) > 0:
	case h.begun && len(h.again) == 0:
		h.ended = true
	case !h.paused:
		h.paused = true
		l.c.clock.After(l.c.limits.BatchRetry, func() { l.c.run(h.resume) })
	}
	return next, nil
}

// resume is the event of a pause's end.
func (h *handOver) resume() {
	h.l.mu.Lock()
	h.paused = false
	h.todo, h.again = append(h.todo, h.again...), nil
	h.l.mu.Unlock()
	h.proceed()
}

// give asks two others to keep a batch.
func (h *handOver) give(b *heldBatch) {
	l := h.l
	c := l.c
	encoded, err := l.encoded(b.id)
	switch {
	case err != nil:
		c.report(err)
		h.given(b, err)
		return
	case encoded == nil:
		h.given(b, nil)
		return
	}
	op := &batchOp{c: c, id: b.id, encoded: encoded, handed: true,
		done: func(err error) { c.run(func() { h.given(b, err) }) }}
	op.req.Timeout = batchHandOverTimeout
	op.deadline = c.clock.Monotonic() + op.req.Timeout
	if err := op.choose(); err != nil {
		h.given(b, err)
		return
	}
	op.begin()
}

// given is the event that others keep a batch, or that too few do.
func (h *handOver) given(b *heldBatch, err error) {
	l := h.l
	l.mu.Lock()
	h.open--
	held := l.mu.held[b.id] == b
	switch {
	case err != nil:
		h.again = append(h.again, b)
	case held:
		l.dropLocked(b.id)
	}
	l.mu.Unlock()
	if err == nil && held {
		if err := l.store.DeleteLocal(batchKey(b.id), false); err != nil {
			l.c.report(err) // it is applied once more than it need be
		}
	}
	h.proceed()
}
