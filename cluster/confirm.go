package cluster

import (
	"slices"

	"go.etcd.io/raft/v3"

	"cqld/cluster/metadata"
	"cqld/internal/wire"
)

// confirmations are the callers that wait until this node has applied everything that a majority had committed when
// they called. Only the loop uses them.
//
//	waiting ── ReadIndex(context) ──▶ leader ── heartbeats ──▶ majority
//	        ◀─ read state: index ────
//	applied ≥ index ──▶ done(metadata)
//
// A request that gets no response, because there is no leader or no majority, is repeated with a new context. The
// response to a request serves all callers that called before the request was sent.
type confirmations struct {
	loop   *loop
	view   *view
	driver *driver

	incarnation uint64 // distinguishes the requests of this process from those of other nodes and earlier processes
	requests    uint64 // sent by this process; the number of the last one
	sent        uint64 // the tick at which the last one was sent
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
		// Not lost: callers have no other way to learn that nothing was asked.
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
	// Callers that an earlier request may still serve keep its number: its response suffices for them.
	for _, w := range k.waiting {
		if w.request == 0 {
			w.request = k.requests
		}
	}
	// The context returns with the response, and identifies the callers that it serves.
	k.driver.node.ReadIndex(wire.AppendUint64(wire.AppendUint64(nil, k.incarnation), k.requests))
}

// note handles the responses to ReadIndex requests.
func (k *confirmations) note(states []raft.ReadState) {
	for _, s := range states {
		cur := wire.NewCursor(s.RequestCtx)
		incarnation, request := cur.Uint64(), cur.Uint64()
		// A response to an earlier process of this node, or to another one, confirms nothing here.
		if cur.Finish() != nil || incarnation != k.incarnation {
			continue
		}
		for _, w := range k.waiting {
			// Later requests serve callers of earlier ones, too: their index is not smaller.
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
	// done may wait for another confirmation, so k.waiting is complete by now.
	m := k.view.metadata()
	for _, w := range ended {
		w.done(m)
	}
}
