package batchlog

import (
	"bytes"
	"errors"
	"maps"
	"slices"

	"cqld/coordinator"
	"cqld/ring"
	"cqld/row"
)

// errStays ends a handover if the node does not leave after all.
var errStays = errors.New("batchlog: this node does not leave")

// stays reports whether this node is a member and is not leaving. Only such a node may store batches.
func (l *Log) stays() bool {
	n := l.view.Topology().Node(l.view.Self())
	return n != nil && n.State != ring.Leaving
}

// HandOver copies each batch that this node stores to two other nodes and removes its own copy. A node does this before
// it leaves the ring: after that it could not apply the batches. A leaving node already refuses new batches. HandOver
// calls done once: with nil when this node stores no batch, or with an error when the node does not leave
// after all.
func (l *Log) HandOver(done func(error)) {
	// The handover lives until it ends; the log keeps no reference to it, only timers and transfers do.
	h := &handOver{l: l, done: done}
	h.proceed()
}

// Transfer asks two other nodes to store mutations as a logged batch, which they apply. created (ns since 1970) is when
// the oldest of the mutations was made. It calls done once, with nil when the batch is on their disks, and after all
// requests that it sent have ended. The caller calls BeginSending before it checks that the mutations are not void, and
// EndSending after done.
func (l *Log) Transfer(created int64, mutations []*row.Mutation, done func(error)) {
	l.transferEncoded(l.c.NextRequestID(), appendBatch(nil, created, 0, mutations), done)
}

// transferEncoded asks two other nodes to store an encoded batch.
func (l *Log) transferEncoded(id coordinator.RequestID, encoded []byte, done func(error)) {
	op := &storeOp{l: l, id: id, done: done}
	// A handover reserves no memory: the batch is stored here already.
	op.storing.handed = true
	op.req.Timeout = handOverTimeout
	op.deadline = l.clock.Monotonic() + op.req.Timeout
	if err := op.choose(); err != nil {
		done(err)
		return
	}
	op.begin(encoded)
}

// handOver is the handover of a Log.
//
//	queued ──▶ in progress, a few at a time ──▶ removed here
//	  ▲                │ too few nodes stored it
//	  └─── a pause ────┘
type handOver struct {
	l    *Log
	done func(error)

	// Log.mu guards the following fields.
	begun   bool
	queued  []*held // by name
	retries []*held // queued again after a pause
	open    int     // in progress
	paused  bool
	ended   bool
	working bool // a goroutine is in proceed, and continues while more is true
	more    bool
}

// proceed continues the handover after its start, after the end of a transfer, and after a pause.
func (h *handOver) proceed() {
	l := h.l
	l.mu.Lock()
	defer l.mu.Unlock()
	// Only one goroutine is in the loop. A concurrent event sets more, and the loop runs again for it, so that calls
	// do not nest when transfers end at once.
	for h.more = true; h.more && !h.working && !h.ended && !l.mu.closed; {
		h.more, h.working = false, true
		next, err := h.nextLocked()
		l.mu.Unlock()
		for _, b := range next {
			h.transferBatch(b)
		}
		if h.ended { // only this goroutine sets it while working
			h.done(err)
		}
		l.mu.Lock()
		h.working = false
	}
}

// nextLocked returns the batches to hand over now, and determines whether the handover has ended.
func (h *handOver) nextLocked() (next []*held, err error) {
	l := h.l
	// Checked at each event, because the operation by which the node leaves may be aborted.
	if l.stays() {
		h.ended = true
		return nil, errStays
	}
	// Until the batches of the disk are loaded, held is incomplete. Batches that are accepted later cannot exist,
	// because a leaving node refuses them.
	if !h.begun && l.mu.loaded {
		h.begun = true
		h.queued = slices.SortedFunc(maps.Values(l.mu.held),
			func(a, b *held) int { return bytes.Compare(a.key, b.key) })
	}
	for len(h.queued) > 0 && h.open < l.limits.HandOvers {
		b := h.queued[0]
		h.queued = h.queued[1:]
		switch {
		case l.mu.held[b.id] != b: // meanwhile applied or removed
		// The batch is still being written to the disk, and read would not find it.
		case !b.stored:
			h.retries = append(h.retries, b)
		default:
			h.open++
			next = append(next, b)
		}
	}
	switch {
	// The end of a transfer continues the handover.
	case h.open > 0 || len(h.queued) > 0:
	case h.begun && len(h.retries) == 0:
		h.ended = true
	// Only failed batches are left, and they are retried after a pause.
	case !h.paused:
		h.paused = true
		l.clock.After(l.limits.Retry, func() { l.run(h.resume) })
	}
	return next, nil
}

// resume continues the handover after a pause.
func (h *handOver) resume() {
	h.l.mu.Lock()
	h.paused = false
	h.queued, h.retries = append(h.queued, h.retries...), nil
	h.l.mu.Unlock()
	h.proceed()
}

// transferBatch asks two other nodes to store a batch.
func (h *handOver) transferBatch(b *held) {
	l := h.l
	// BeginSending is called before read, so that a truncation which begins later waits for this transfer.
	generation := l.c.BeginSending()
	batch, err := l.read(b)
	switch {
	case err != nil:
		if !errors.Is(err, errTruncating) {
			l.onError(err)
		}
	// The batch keeps its original delay, so the new holders wait as long before they apply it.
	case batch != nil:
		l.transferEncoded(b.id, appendBatch(nil, batch.created, batch.delay, batch.mutations), func(err error) {
			l.c.EndSending(generation)
			l.run(func() { h.given(b, err) })
		})
		return
	}
	l.c.EndSending(generation)
	h.given(b, err)
}

// given handles the result of a transfer: other nodes store the batch, or too few do.
func (h *handOver) given(b *held, err error) {
	l := h.l
	l.mu.Lock()
	h.open--
	// The coordinator may have secured the batch meanwhile, or a replay may have applied it.
	held := l.mu.held[b.id] == b
	switch {
	case err != nil:
		h.retries = append(h.retries, b)
	case held:
		l.dropLocked(b.id)
	}
	l.mu.Unlock()
	if err == nil && held {
		if err := l.store.DeleteLocal(b.key, false); err != nil {
			l.onError(err) // it will be applied once more than necessary
		}
	}
	h.proceed()
}
