package hints

import (
	"errors"
	"time"

	"cqld/coordinator"
	"cqld/internal/wire"
	"cqld/ring"
	"cqld/row"
)

// scheduleLocked schedules the next replay of q, unless one is scheduled or running.
func (h *Hints) scheduleLocked(q *queue, after time.Duration) {
	if q.sending || q.timer != nil || q.records == 0 || h.mu.closed {
		return
	}
	if h.mu.rand != nil && after >= h.limits.Retry {
		after += time.Duration(h.mu.rand.Uint64() % uint64(h.limits.Retry/4+1))
	}
	q.timer = h.clock.After(after, func() { h.run(func() { h.replay(q) }) })
}

// NodeUp begins at once to replay the hints of a node that came up.
func (h *Hints) NodeUp(node ring.NodeID) {
	h.mu.Lock()
	q := h.mu.nodes[node]
	if q == nil || q.sending || q.records == 0 || h.mu.closed {
		h.mu.Unlock()
		return
	}
	if q.timer != nil && !q.timer.Stop() {
		h.mu.Unlock() // a replay is running
		return
	}
	q.timer = nil
	h.mu.Unlock()
	h.run(func() { h.replay(q) })
}

// records are the records of one delivery.
type records struct {
	keys      [][]byte
	sizes     []int64 // of the records, by key
	mutations []*row.Mutation
	marks     []int64         // of mutations
	created   []int64         // when the hints of mutations were made (s since 1970)
	size      int64           // of the records on disk
	void      int             // number of mutations that are no longer sent
	expired   []*row.Mutation // those of them that a replica may still lack
	damaged   int             // records of which the rest could not be read
}

// replay delivers the oldest records of q, if its node is alive.
func (h *Hints) replay(q *queue) {
	h.mu.Lock()
	q.timer = nil
	if q.sending || q.records == 0 || h.mu.closed {
		h.mu.Unlock()
		return
	}
	if !h.c.MayReplay() {
		h.scheduleLocked(q, h.limits.Retry)
		h.mu.Unlock()
		return
	}
	q.sending, q.generation = true, h.c.BeginSending()
	h.mu.Unlock()
	batch, err := h.read(q.node)
	alive := h.view.Alive(q.node)
	switch {
	case err == nil && len(batch.mutations) > 0 && (h.former(q.node) || alive && h.moving() || h.leaves()):
		h.reroute(q, batch)
	case err != nil:
		h.report("not read, replay is tried again", q, err)
		h.pause(q, h.limits.Retry)
	case len(batch.mutations) > 0 && !alive:
		h.pause(q, h.limits.Retry)
	case len(batch.mutations) == 0:
		h.delivered(q, batch) // all are void
	default:
		h.send(q, batch)
	}
}

// send sends a batch to its node.
func (h *Hints) send(q *queue, batch records) {
	done := func(err error) {
		var refusal *coordinator.NotReplica
		switch {
		case errors.As(err, &refusal) && refusal.Epoch <= h.view.Topology().Epoch():
			h.reroute(q, batch)
			return
		case err != nil: // also if this node has not received a topology change yet
			h.pause(q, h.limits.Retry)
			return
		}
		h.counts.replayed.Add(uint64(len(batch.mutations)))
		h.run(func() { h.delivered(q, batch) })
	}
	replica := h.replicas.Replica(q.node)
	remote, ok := replica.(coordinator.Remote)
	if !ok {
		replica.Apply(h.view.Topology().Epoch(), batch.mutations, deliveryTimeout, done)
		return
	}
	request := remote.AppendMutations(nil, h.view.Topology().Epoch(), batch.mutations)
	remote.ApplyEncoded(coordinator.ForHint, request, deliveryTimeout, done)
}

// former reports whether a node has left the ring, according to this node's topology.
func (h *Hints) former(node ring.NodeID) bool {
	t := h.view.Topology()
	return len(t.Nodes()) > 0 && t.Node(node) == nil
}

// moving reports whether ranges move. A node that gains a range may have compared its data with the hint's node
// already: it needs the hint, too.
func (h *Hints) moving() bool { return len(h.view.Topology().Operations()) > 0 }

// reroute writes a batch to the present replicas, because its node is no longer a replica of all of it, or because
// other nodes are becoming replicas.
func (h *Hints) reroute(q *queue, batch records) {
	// This generation ends with the last answer; the generation of the queue may end before.
	generation, began := h.c.BeginSending(), h.clock.Monotonic()
	end := func() { h.c.EndSending(generation) }
	valid, created := batch.mutations[:0:0], batch.created[:0:0]
	for i, m := range batch.mutations {
		if !h.c.Void(m.Table, batch.marks[i]) { // it may have been truncated since it was read
			valid, created = append(valid, m), append(created, batch.created[i])
		}
	}
	batch.mutations, batch.created = valid, created
	if len(valid) == 0 {
		end()
		h.run(func() { h.delivered(q, batch) })
		return
	}
	if h.leaves() {
		end()
		h.transfer(q, batch)
		return
	}
	req := &coordinator.WriteRequest{Mutations: batch.mutations, Consistency: ring.One, Type: coordinator.WriteSimple,
		Timeout: deliveryTimeout,
		Since:   began, Settled: func(coordinator.Settlement) { end() }}
	h.c.Write(req, func(err error) {
		if err != nil {
			h.pause(q, h.limits.Retry)
			return
		}
		h.run(func() { h.delivered(q, batch) })
	})
}

// deliveryTimeout bounds the delivery of a batch. No client waits for it.
const deliveryTimeout = 10 * time.Second

// errEnough ends a scan.
var errEnough = errors.New("enough")

// read returns the oldest records of a node, about Limits.BufferBytes, without void mutations.
func (h *Hints) read(node ring.NodeID) (records, error) {
	var batch records
	now := h.clock.Now().Unix()
	catalog := h.view.Schema()
	start := wire.AppendUint64([]byte(prefix), uint64(node))
	err := h.store.ScanLocal(start, func(key, value []byte) error {
		if batch.size > 0 && batch.size+int64(len(value)) > int64(h.limits.BufferBytes) {
			return errEnough
		}
		batch.keys = append(batch.keys, append([]byte(nil), key...))
		batch.sizes = append(batch.sizes, int64(len(value)))
		batch.size += int64(len(value))
		c := wire.NewCursor(append([]byte(nil), value...))
		for c.Len() > 0 {
			expiry, mark := c.Int64(), c.Int64()
			m := new(row.Mutation)
			row.ConsumeMutation(&c, m)
			switch {
			case c.Err() != nil: // damaged; the cursor is at its end
				batch.damaged++
			case expiry <= now:
				batch.void++
				batch.expired = append(batch.expired, m)
			case catalog.Dropped(m.Table) || h.c.Void(m.Table, mark):
				batch.void++
			default:
				created := now
				if table := catalog.TableByStorage(m.Table); table != nil {
					created = min(now, expiry-int64(h.keeps(table)/time.Second))
				}
				batch.mutations, batch.marks, batch.created = append(batch.mutations, m), append(batch.marks, mark),
					append(batch.created, created)
			}
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return batch, err
}

// delivered removes a batch and schedules the next one, at the rate of Limits.BytesPerSecond. The removal needs no
// sync: a hint may be delivered twice.
func (h *Hints) delivered(q *queue, batch records) {
	for i, k := range batch.keys {
		if err := h.store.DeleteLocal(k, false); err != nil {
			h.report("delivered but not removed, they are sent again", q, err)
			h.pause(q, h.limits.Retry)
			return
		}
		h.mu.Lock()
		q.records--
		q.removed++
		h.forgetLocked(q, batch.sizes[i])
		h.mu.Unlock()
	}
	h.counts.expired.Add(uint64(batch.void))
	h.counts.lost.Add(uint64(batch.damaged))
	for _, m := range batch.expired {
		h.lostOne(m)
	}
	h.pause(q, time.Duration(batch.size*int64(time.Second)/h.limits.BytesPerSecond))
}

// pause ends a delivery; the next one follows after d.
func (h *Hints) pause(q *queue, d time.Duration) {
	h.mu.Lock()
	q.sending = false
	generation := q.generation
	h.scheduleLocked(q, d)
	h.mu.Unlock()
	h.c.EndSending(generation)
}
