package cluster

import (
	"slices"

	"go.etcd.io/raft/v3"

	"cqld/cluster/metadata"
	"cqld/internal/wire"
)

// confirmations are callers that wait until this node has applied everything that a majority had committed when they
// called. Only the loop uses them.
//
//	waiting ── ReadIndex(context) ──▶ leader ── heartbeats ──▶ majority
//	        ◀─ read state: index ────
//	applied ≥ index ──▶ done(metadata)
//
// A request without a response, because there is no leader or no majority, is repeated with a new context. A response
// serves all callers that called before the request was sent.
type confirmations struct {
	loop   *loop
	view   *view
	driver *driver

	incarnation uint64 // distinguishes this process from other nodes and earlier processes
	requests    uint64 // number of the last request of this process
	sent        uint64 // tick at which the last one was sent
	waiting     []*confirmation
}

// confirmation is one caller of StartConfirm.
type confirmation struct {
	request   uint64 // the first request that was sent after the call; zero if none was sent yet
	confirmed bool   // a majority has confirmed index
	index     uint64
	done      func(*metadata.Metadata)
}

// StartConfirm calls done once, in the loop, with this node's metadata as soon as they contain every command that a
// majority had committed when StartConfirm was called. Without a majority, and after Close, done is not called.
func (c *Cluster) StartConfirm(done func(*metadata.Metadata)) {
	if !c.loop.post(func() { c.confirmations.add(done) }) {
		// the queue is full
		c.opts.Clock.After(tickEvery, func() { c.StartConfirm(done) }) // the queue is full
	}
}

// add adds a caller and asks for its confirmation.
func (k *confirmations) add(done func(*metadata.Metadata)) {
	k.waiting = append(k.waiting, &confirmation{done: done})
	k.ask()
}

// ask sends a ReadIndex request if a caller waits for one, or if the last one got no response in time.
func (k *confirmations) ask() {
	open := slices.ContainsFunc(k.waiting, func(w *confirmation) bool { return !w.confirmed })
	unsent := slices.ContainsFunc(k.waiting, func(w *confirmation) bool { return w.request == 0 })
	// Raft drops the request without a leader; a later tick asks again.
	if !open || k.driver.leader() == 0 {
		return
	}
	if !unsent && k.loop.ticks-k.sent < retryTicks {
		return
	}
	k.requests++
	k.sent = k.loop.ticks
	// Callers that an earlier request may still serve keep its number.
	for _, w := range k.waiting {
		if w.request == 0 {
			w.request = k.requests
		}
	}
	// The response contains the context, which identifies the callers that it serves.
	k.driver.node.ReadIndex(wire.AppendUint64(wire.AppendUint64(nil, k.incarnation), k.requests))
}

// note handles the responses to ReadIndex requests.
func (k *confirmations) note(states []raft.ReadState) {
	for _, s := range states {
		cur := wire.NewCursor(s.RequestCtx)
		incarnation, request := cur.Uint64(), cur.Uint64()
		// The response belongs to an earlier process of this node, or to another node.
		if cur.Finish() != nil || incarnation != k.incarnation {
			continue
		}
		for _, w := range k.waiting {
			// A later request also serves earlier callers, because its index is not smaller.
			if !w.confirmed && w.request != 0 && w.request <= request {
				w.confirmed, w.index = true, s.Index
			}
		}
	}
}

// end calls back the callers whose index has been applied.
func (k *confirmations) end() {
	if len(k.waiting) == 0 {
		return
	}
	var ended []*confirmation
	k.waiting = slices.DeleteFunc(k.waiting, func(w *confirmation) bool {
		over := w.confirmed && w.index <= k.driver.applied
		if over {
			ended = append(ended, w)
		}
		return over
	})
	// done may call StartConfirm, so k.waiting is updated first.
	m := k.view.metadata()
	for _, w := range ended {
		w.done(m)
	}
}
