package coordinator

import (
	"errors"
	"slices"
	"sync"
	"time"

	"cqld/internal/env"
	"cqld/internal/wire"
	"cqld/ring"
	"cqld/row"
)

// The local keys of batches kept for their coordinators:
//
//	batch/ node incarnation sequence (8 each)   → appendBatch
const batchPrefix = "batch/"

func batchKey(id RequestID) []byte {
	k := wire.AppendUint64([]byte(batchPrefix), uint64(id.Node))
	return wire.AppendUint64(wire.AppendUint64(k, id.Incarnation), id.Sequence)
}

// batchlog keeps other nodes' batches, and applies those that nobody has removed in time: one after
// the other, at a bounded pace, with the timestamps they had. Applying a batch twice is applying it
// once, so holders need not agree.
type batchlog struct {
	c     *Coordinator
	store HintStore
	mu    struct {
		sync.Mutex
		loaded bool
		closed bool
		held   map[RequestID]*heldBatch
		order  []*heldBatch // as they came; those not in held are gone
		bytes  int64
		timer  env.Timer // of the next look; nil also while a batch is replayed
		busy   bool

		releases map[ring.NodeID][]RequestID // to be sent
		flushing bool
	}
}

// heldBatch is a batch that this node keeps.
type heldBatch struct {
	id         RequestID
	size       int64
	due        time.Duration // by the monotonic clock
	stored     bool          // on its disk; false while it is being written
	generation uint64        // of Coordinator.sent, while it is replayed
}

// newBatchlog finds what an earlier process left. A nil store keeps nothing.
func newBatchlog(c *Coordinator, store HintStore) *batchlog {
	l := &batchlog{c: c, store: store}
	l.mu.held, l.mu.releases = map[RequestID]*heldBatch{}, map[ring.NodeID][]RequestID{}
	if store != nil {
		l.load()
	}
	return l
}

// load finds the batches on disk; until it has succeeded, none are taken.
func (l *batchlog) load() {
	var found []*heldBatch
	now := l.c.clock.Monotonic()
	err := l.store.ScanLocal([]byte(batchPrefix), func(key, value []byte) error {
		k := wire.NewCursor(key[len(batchPrefix):])
		id := RequestID{Node: ring.NodeID(k.Uint64()), Incarnation: k.Uint64(), Sequence: k.Uint64()}
		v := wire.NewCursor(value)
		v.Int64()
		delay := min(max(time.Duration(v.Int64()), 0), batchDelayMax)
		if k.Finish() == nil {
			found = append(found, &heldBatch{id: id, size: int64(len(value)), due: now + delay, stored: true})
		}
		return nil
	})
	if err != nil {
		l.c.report(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.mu.closed:
		return
	case err != nil:
		l.c.clock.After(l.c.limits.HintRetry, func() { l.c.run(l.load) })
		return
	}
	for _, h := range found {
		l.holdLocked(h)
	}
	l.mu.loaded = true
	l.lookLocked()
}

func (l *batchlog) holdLocked(h *heldBatch) {
	l.mu.held[h.id] = h
	l.mu.order = append(l.mu.order, h)
	l.mu.bytes += h.size
}

// lookLocked schedules the look at the oldest batch.
func (l *batchlog) lookLocked() {
	if len(l.mu.order) > 2*len(l.mu.held)+64 {
		l.mu.order = slices.DeleteFunc(l.mu.order, func(h *heldBatch) bool { return l.mu.held[h.id] != h })
	}
	if l.mu.timer != nil || l.mu.busy || l.mu.closed || len(l.mu.order) == 0 {
		return
	}
	l.mu.timer = l.c.clock.After(max(l.mu.order[0].due-l.c.clock.Monotonic(), 0), func() { l.c.run(l.look) })
}

// KeepBatch puts a batch, encoded by its coordinator, on this node's disk. done is told when it is
// there. Overloaded: there are too many; Unavailable: this node leaves the ring.
func (c *Coordinator) KeepBatch(id RequestID, encoded []byte, done func(error)) {
	done(c.batchlog.keep(id, encoded))
}

func (l *batchlog) keep(id RequestID, encoded []byte) error {
	batch, err := decodeBatch(id, encoded)
	if err != nil {
		return &ReplicaFailure{Message: err.Error()}
	}
	size := int64(len(encoded))
	h := &heldBatch{id: id, size: size, due: l.c.clock.Monotonic() + batch.Delay}
	l.mu.Lock()
	switch {
	case !l.c.stays(): // looked at with mu held: HandOver, which comes later, finds all that was taken
		l.mu.Unlock()
		return &Unavailable{Consistency: ring.One, Required: 1}
	case !l.mu.loaded || l.mu.closed || l.mu.bytes+size > l.c.limits.BatchBytes:
		l.mu.Unlock()
		return &Overloaded{What: "the batch log is full"}
	}
	if l.mu.held[id] == nil { // or the message came twice; the first may not be on disk yet
		l.holdLocked(h)
	}
	l.mu.Unlock()
	err = l.store.SetLocal(batchKey(id), encoded, true)
	l.mu.Lock()
	defer l.mu.Unlock()
	held := l.mu.held[id]
	switch {
	case err != nil && held != nil && !held.stored:
		l.dropLocked(id)
		fallthrough
	case err != nil: // what came first is on disk
		return &ReplicaFailure{Message: err.Error()}
	case held == nil: // the other of two was not stored
		l.holdLocked(h)
		held = h
	}
	held.stored = true
	l.c.counts.batchesStored.Add(1)
	l.lookLocked()
	return nil
}

// dropLocked forgets that a batch is held.
func (l *batchlog) dropLocked(id RequestID) {
	if h := l.mu.held[id]; h != nil {
		delete(l.mu.held, id)
		l.mu.bytes -= h.size
	}
}

// ForgetBatches removes batches that are secured.
func (c *Coordinator) ForgetBatches(ids []RequestID, done func(error)) {
	l := c.batchlog
	var first error
	for _, id := range ids {
		l.mu.Lock()
		held := l.mu.held[id] != nil
		l.dropLocked(id)
		l.mu.Unlock()
		if !held {
			continue
		}
		// Without a sync: one that comes back after a crash is applied again, which changes nothing.
		if err := l.store.DeleteLocal(batchKey(id), false); err != nil && first == nil {
			first = err
		}
	}
	if first != nil {
		first = &ReplicaFailure{Message: first.Error()}
	}
	done(first)
}

// look replays the oldest batch when its time has come.
func (l *batchlog) look() {
	l.mu.Lock()
	l.mu.timer = nil
	for len(l.mu.order) > 0 && l.mu.held[l.mu.order[0].id] != l.mu.order[0] {
		l.mu.order = l.mu.order[1:]
	}
	if l.mu.busy || l.mu.closed || len(l.mu.order) == 0 || l.mu.order[0].due > l.c.clock.Monotonic() {
		l.lookLocked()
		l.mu.Unlock()
		return
	}
	if !l.c.mayReplay() {
		l.mu.timer = l.c.clock.After(l.c.limits.BatchRetry, func() { l.c.run(l.look) })
		l.mu.Unlock()
		return
	}
	h := l.mu.order[0]
	l.mu.order, l.mu.busy = l.mu.order[1:], true
	h.generation = l.c.sent.Enter()
	l.mu.Unlock()
	batch, err := l.read(h.id)
	switch {
	case err != nil:
		l.c.report(err)
		l.replayed(h, false)
	case batch == nil:
		l.replayed(h, true)
	default:
		l.replay(h, batch)
	}
}

// read is a batch as it is on disk; nil when there is none that can be read: it helps nobody then.
func (l *batchlog) read(id RequestID) (*LoggedBatch, error) {
	encoded, err := l.encoded(id)
	if encoded == nil || err != nil {
		return nil, err
	}
	batch, err := decodeBatch(id, encoded)
	if err != nil {
		l.c.report(err)
		return nil, nil
	}
	return batch, nil
}

// encoded is a batch as its coordinator sent it; nil when there is none.
func (l *batchlog) encoded(id RequestID) (encoded []byte, err error) {
	err = l.store.ScanLocal(batchKey(id), func(_, value []byte) error {
		encoded = slices.Clone(value)
		return nil
	})
	return encoded, err
}

// replay writes what is still valid of a batch, to all replicas; who is down gets a hint. When nobody lives who could
// have a part of it, it waits: hints alone do not secure it.
func (l *batchlog) replay(h *heldBatch, batch *LoggedBatch) {
	c := l.c
	catalog, now := c.view.Schema(), c.clock.Now()
	if slices.ContainsFunc(batch.Mutations, func(m *row.Mutation) bool {
		return catalog.TableByStorage(m.Table) == nil && !catalog.Dropped(m.Table)
	}) {
		l.replayed(h, false) // its coordinator knows a table of which this node has not heard yet
		return
	}
	batch.Mutations = slices.DeleteFunc(batch.Mutations, func(m *row.Mutation) bool {
		table := catalog.TableByStorage(m.Table)
		if table == nil || c.hints != nil && batch.Created <= c.hints.truncation(m.Table) {
			return true
		}
		// As with hints: what is older could bring back what was deleted.
		return batch.Created+int64(table.Options.GCGraceSeconds)*int64(time.Second) <= now.UnixNano()
	})
	if !c.unsafe.HintsSecure && slices.ContainsFunc(batch.Mutations, func(m *row.Mutation) bool { return !c.someAlive(m) }) {
		l.replayed(h, false)
		return
	}
	c.counts.batchesReplayed.Add(1)
	req := &WriteRequest{Mutations: batch.Mutations, Consistency: ring.Any, Type: WriteBatch, Timeout: max(batch.Delay/2, time.Second),
		settled: func(secured bool) { c.run(func() { l.replayed(h, secured) }) }}
	c.Write(req, func(error) {})
}

// someAlive says whether a replica of the mutation lives, as far as this node knows. One of an unknown table has
// whom it wants.
func (c *Coordinator) someAlive(m *row.Mutation) bool {
	table := c.view.Schema().TableByStorage(m.Table)
	if table == nil {
		return true
	}
	set := c.replicasOf(c.view.Topology(), table, m.Key.Token)
	alive := func(n ring.NodeID) bool { return n == c.view.Self() || c.view.Alive(n) }
	return slices.ContainsFunc(set.Natural, alive) || slices.ContainsFunc(set.Pending, alive)
}

// replayed is the event that a batch is written, or that it must be tried again.
func (l *batchlog) replayed(h *heldBatch, secured bool) {
	l.c.sent.Leave(h.generation)
	pause := time.Duration(h.size * int64(time.Second) / l.c.limits.BatchBytesPerSecond)
	due := l.c.clock.Monotonic() + l.c.limits.BatchRetry
	l.mu.Lock()
	held := l.mu.held[h.id] == h
	if held && secured {
		l.dropLocked(h.id)
	}
	if held && !secured {
		h.due = due
		l.mu.order = append(l.mu.order, h)
	}
	l.mu.Unlock()
	if held && secured {
		if err := l.store.DeleteLocal(batchKey(h.id), false); err != nil {
			l.c.report(err)
		}
	}
	l.c.clock.After(pause, func() {
		l.mu.Lock()
		l.mu.busy = false
		l.lookLocked()
		l.mu.Unlock()
	})
}

// release tells the holders of a batch that it need not be kept; some wait for each other, so that
// one message serves many.
func (l *batchlog) release(id RequestID, holders []ring.NodeID) {
	l.mu.Lock()
	defer l.mu.Unlock() // the event of a batch may panic in the clock
	for _, n := range holders {
		l.mu.releases[n] = append(l.mu.releases[n], id)
	}
	if !l.mu.flushing && !l.mu.closed {
		l.c.clock.After(l.c.limits.BatchRelease, func() { l.c.run(l.flush) })
		l.mu.flushing = true
	}
}

// flush sends the releases. One that is lost costs a replay, nothing else.
func (l *batchlog) flush() {
	l.mu.Lock()
	releases := l.mu.releases
	l.mu.releases, l.mu.flushing = map[ring.NodeID][]RequestID{}, false
	var nodes []ring.NodeID
	for n := range releases {
		nodes = append(nodes, n)
	}
	l.mu.Unlock()
	slices.Sort(nodes)
	report := func(err error) {
		if err != nil && !errors.Is(err, ErrNotSent) && !errors.Is(err, ErrNoReply) {
			l.c.report(err)
		}
	}
	for _, n := range nodes {
		if n == l.c.view.Self() {
			l.c.ForgetBatches(releases[n], report)
		} else if holder, ok := l.c.replicas.Replica(n).(BatchHolder); ok {
			holder.ForgetBatches(releases[n], batchForgetTimeout, report)
		}
	}
}

// How long a release may take, for which nobody waits, and a handing over.
const (
	batchForgetTimeout   = 10 * time.Second
	batchHandOverTimeout = 2 * time.Second
)

func (l *batchlog) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.closed = true
	if l.mu.timer != nil {
		l.mu.timer.Stop()
	}
}

// HeldBatches is how many batches this node keeps for coordinators, its own among them.
func (c *Coordinator) HeldBatches() int {
	c.batchlog.mu.Lock()
	defer c.batchlog.mu.Unlock()
	return len(c.batchlog.mu.held)
}
