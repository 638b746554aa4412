package batchlog

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"cqld/coordinator"
	"cqld/internal/env"
	"cqld/internal/guard"
	"cqld/internal/wire"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
)

// The local keys of batches kept for their coordinators:
//
//	batch/ node incarnation sequence mark (8 each)   → appendBatch
//
// mark is Coordinator.StoredMark. Keys of earlier versions have none; then the batch's creation time is its mark.
const prefix = "batch/"

// recordKey returns the key of a batch. It contains everything that load needs except the creation time and the
// delay.
func recordKey(id coordinator.RequestID, mark int64) []byte {
	k := wire.AppendUint64([]byte(prefix), uint64(id.Node))
	return wire.AppendInt64(wire.AppendUint64(wire.AppendUint64(k, id.Incarnation), id.Sequence), mark)
}

// decodeRecord returns the batch of a record without its mutations.
func decodeRecord(key, value []byte, now time.Duration) (*held, error) {
	k, v := wire.NewCursor(key[len(prefix):]), wire.NewCursor(value)
	h := &held{id: coordinator.RequestID{Node: ring.NodeID(k.Uint64()), Incarnation: k.Uint64(), Sequence: k.Uint64()},
		key: slices.Clone(key), size: int64(len(value)), mark: v.Int64(), stored: true}
	// The monotonic clock of an earlier process is not known, so the whole delay starts again.
	h.due = now + min(max(time.Duration(v.Int64()), 0), delayMax)
	// The record is from this version.
	if k.Len() > 0 {
		h.mark = k.Int64()
	}
	return h, k.Finish()
}

// Store keeps batches in the local keys of this node's storage.
//
// ScanLocal calls f in the order of the keys. The key and the value are valid only during the call.
type Store interface {
	SetLocal(key, value []byte, sync bool) error
	DeleteLocal(key []byte, sync bool) error
	ScanLocal(prefix []byte, f func(key, value []byte) error) error
}

// Options configures a Log. Coordinator, View, Clock and Holders are required.
type Options struct {
	Coordinator     *coordinator.Coordinator
	View            coordinator.View
	Clock           env.Clock
	Holders         Holders // the logs of the other nodes
	LocalDatacenter string
	Store           Store // nil means that this node stores no batches
	// Run runs work that may wait for the disk in its own goroutine; timers and messages must not block. Replay and a
	// handover have at most one such piece of work each. nil means that the caller runs it.
	Run     func(func())
	Limits  Limits
	OnError func(error)  // receives failures that no request waits for; nil means that they are dropped
	Guard   *guard.Guard // ends operations that panic; nil means that panics are not recovered
}

// Log stores logged batches for other nodes and applies those that are not removed in time, one after the other, at a
// bounded rate and with the timestamps that they had. Holders need not agree, because applying a batch twice has the
// same effect as applying it once. Its methods may be called from any goroutine.
type Log struct {
	c       *coordinator.Coordinator
	view    coordinator.View
	clock   env.Clock
	holders Holders
	localDC string
	store   Store
	run     func(func())
	limits  Limits
	onError func(error)
	guard   *guard.Guard // may be nil
	// onLost receives the partition of each mutation of a batch that is dropped; nil means no receiver.
	onLost atomic.Pointer[func(schema.StorageID, ring.Token)]
	// stored and replayed are for Stats.
	stored   atomic.Uint64
	replayed atomic.Uint64
	mu       struct {
		sync.Mutex
		loaded bool
		closed bool
		// held contains all batches whose record exists or is being written.
		held  map[coordinator.RequestID]*held
		order []*held // by time of arrival; those that are not in held are removed
		bytes int64
		timer env.Timer // of the next replay; nil also while a batch is replayed
		// busy is set from the claim of a batch until the end of the pause after its replay.
		busy bool

		releases map[ring.NodeID][]coordinator.RequestID // to be sent
		flushing bool
	}
}

// New returns a Log and begins to replay the batches of an earlier process.
func New(o Options) *Log {
	l := &Log{c: o.Coordinator, view: o.View, clock: o.Clock, holders: o.Holders, localDC: o.LocalDatacenter,
		store: o.Store, run: o.Run,
		limits: o.Limits.withDefaults(), onError: o.OnError, guard: o.Guard}
	// In tests, everything runs in the caller's goroutine.
	if l.run == nil {
		l.run = func(f func()) { f() }
	}
	if l.onError == nil {
		l.onError = func(error) {}
	}
	l.mu.held, l.mu.releases = map[coordinator.RequestID]*held{}, map[ring.NodeID][]coordinator.RequestID{}
	// Without a store this node still writes batches, which other nodes store.
	if l.store != nil {
		l.load()
	}
	return l
}

// OnLost sets f, which is called with the partition of every mutation of a batch that is dropped: its coordinator may
// have written it to some replicas, and only repair brings it to the others. f must not block.
func (l *Log) OnLost(f func(table schema.StorageID, t ring.Token)) { l.onLost.Store(&f) }

// Stats are counts since the start.
type Stats struct{ Stored, Replayed uint64 }

// Stats returns the counts.
func (l *Log) Stats() Stats { return Stats{Stored: l.stored.Load(), Replayed: l.replayed.Load()} }

// Bytes returns the size of the batches that this node stores, which are also in memory.
func (l *Log) Bytes() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.bytes
}

// Held returns the number of batches that this node stores, including its own.
func (l *Log) Held() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.mu.held)
}

// held is a batch that this node stores.
type held struct {
	id         coordinator.RequestID
	key        []byte // of its record
	mark       int64  // of Coordinator.StoredMark, when it was stored
	size       int64
	due        time.Duration // by the monotonic clock
	stored     bool          // on its disk; false while it is being written
	generation uint64        // of Coordinator.BeginSending, while it is replayed
	began      time.Duration // monotonic: of that BeginSending
}

// load finds the batches on disk; until it has succeeded, no batch is accepted, because its mark could be one that a
// truncation has used.
func (l *Log) load() {
	var found []*held
	now, known := l.clock.Monotonic(), l.c.TruncationsKnown()
	err := l.store.ScanLocal([]byte(prefix), func(key, value []byte) error {
		if h, err := decodeRecord(key, value, now); err == nil {
			// Records that cannot be decoded are ignored; they stay on disk.
			found = append(found, h)
		}
		return nil
	})
	if err != nil {
		l.onError(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	// The node is stopping.
	case l.mu.closed:
		return
	case err != nil || !known:
		l.clock.After(loadRetry, func() { l.run(l.load) })
		return
	}
	for _, h := range found {
		l.holdLocked(h)
	}
	// Batches whose delay has passed while this node was down are due at once.
	l.mu.loaded = true
	l.scheduleLocked()
}

// holdLocked adds a batch to the held ones. Its replay begins when it is due.
func (l *Log) holdLocked(h *held) {
	l.mu.held[h.id] = h
	l.mu.order = append(l.mu.order, h)
	l.mu.bytes += h.size
}

// scheduleLocked schedules the replay of the oldest batch.
//
// It does nothing if a replay is scheduled or in progress.
func (l *Log) scheduleLocked() {
	// Most batches are removed by their coordinators, and order still lists them. Compacting only then keeps the cost
	// of a removal constant on average.
	if len(l.mu.order) > 2*len(l.mu.held)+64 {
		l.mu.order = slices.DeleteFunc(l.mu.order, func(h *held) bool { return l.mu.held[h.id] != h })
	}
	// Batches are replayed one at a time; the end of a replay schedules the next.
	if l.mu.timer != nil || l.mu.busy || l.mu.closed || len(l.mu.order) == 0 {
		return
	}
	l.mu.timer = l.clock.After(max(l.mu.order[0].due-l.clock.Monotonic(), 0), func() { l.run(l.replayDue) })
}

// Keep stores a batch, as its coordinator encoded it, and calls done when it is on disk. Overloaded means that the log
// is full, Unavailable that this node leaves the ring.
func (l *Log) Keep(id coordinator.RequestID, encoded []byte, done func(error)) {
	done(l.keep(id, encoded))
}

// keep is Keep for a caller that may wait for the disk. A duplicated message stores the batch once.
func (l *Log) keep(id coordinator.RequestID, encoded []byte) error {
	batch, err := decodeBatch(id, encoded)
	if err != nil {
		return &coordinator.ReplicaFailure{Message: err.Error()}
	}
	size := int64(len(encoded))
	h := &held{id: id, mark: l.c.StoredMark(), size: size, due: l.clock.Monotonic() + batch.delay}
	h.key = recordKey(id, h.mark)
	l.mu.Lock()
	switch {
	case !l.stays(): // checked with mu held: a later HandOver finds all accepted batches
		l.mu.Unlock()
		return &coordinator.Unavailable{Consistency: ring.One, Required: 1}
	// After a refusal, the coordinator asks another node.
	case !l.mu.loaded || l.mu.closed || l.mu.bytes+size > l.limits.Bytes:
		l.mu.Unlock()
		return &coordinator.Overloaded{What: "the batch log is full"}
	}
	// The batch is added before it is on disk, so that a HandOver which begins now waits for it (stored is false).
	if first := l.mu.held[id]; first == nil {
		l.holdLocked(h)
	} else { // the message is a duplicate; the first batch may not be on disk yet
		h.key, h.mark = first.key, first.mark
	}
	l.mu.Unlock()
	// The record is written without mu, because the sync takes milliseconds, and many batches share one.
	err = l.store.SetLocal(h.key, encoded, true)
	l.mu.Lock()
	defer l.mu.Unlock()
	held := l.mu.held[id]
	switch {
	case err != nil && held != nil && !held.stored:
		l.dropLocked(id)
		fallthrough
	case err != nil: // the first message is on disk
		return &coordinator.ReplicaFailure{Message: err.Error()}
	case held == nil: // of two messages, the other one failed
		l.holdLocked(h)
		held = h
	}
	held.stored = true
	l.stored.Add(1)
	l.scheduleLocked()
	return nil
}

// dropLocked removes a batch from the held ones.
func (l *Log) dropLocked(id coordinator.RequestID) {
	if h := l.mu.held[id]; h != nil {
		delete(l.mu.held, id)
		l.mu.bytes -= h.size
	}
}

// Forget removes batches that are secured.
func (l *Log) Forget(ids []coordinator.RequestID, done func(error)) {
	var first error
	// Ids of batches that this node does not hold are skipped: a holder may have applied the batch itself.
	for _, id := range ids {
		l.mu.Lock()
		held := l.mu.held[id]
		// The batch is dropped before its record is deleted, so that no replay begins with it.
		l.dropLocked(id)
		l.mu.Unlock()
		if held == nil {
			continue
		}
		// The deletion is not synced: a batch that reappears after a crash is applied again, which is idempotent.
		if err := l.store.DeleteLocal(held.key, false); err != nil && first == nil {
			first = err
		}
	}
	if first != nil {
		first = &coordinator.ReplicaFailure{Message: first.Error()}
	}
	done(first)
}

// replayDue replays the oldest batch when it is due.
func (l *Log) replayDue() {
	if !l.claim() {
		return
	}
	// MayReplay is called without mu, because it calls other packages and may read the disk.
	h := l.take(l.c.MayReplay())
	if h == nil {
		return
	}
	// read is called without mu, because it reads the disk.
	batch, err := l.read(h)
	switch {
	case err != nil:
		if !errors.Is(err, errTruncating) {
			l.onError(err)
		}
		l.written(h, false)
	// All mutations are void, or the record cannot be decoded: nothing is left to apply.
	case batch == nil:
		l.written(h, true)
	default:
		l.replay(h, batch)
	}
}

// claim reports whether the oldest batch is due. Then no other replay begins until take or written has ended this one.
func (l *Log) claim() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.timer = nil
	if l.mu.busy || !l.dueLocked() {
		l.scheduleLocked()
		return false
	}
	l.mu.busy = true
	return true
}

// take takes the oldest batch, which claim has found due, to replay it. It returns nil, and schedules the next replay,
// if that is not permitted now or the batch was removed meanwhile.
func (l *Log) take(permitted bool) *held {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case !l.dueLocked():
		l.mu.busy = false
		l.scheduleLocked()
		return nil
	// The metadata are not confirmed, or the truncations of an earlier process are not known. The batch stays first.
	case !permitted:
		l.mu.busy = false
		l.mu.timer = l.clock.After(l.limits.Retry, func() { l.run(l.replayDue) })
		return nil
	}
	h := l.mu.order[0]
	l.mu.order = l.mu.order[1:]
	// BeginSending is called before read: a truncation that begins later waits for this replay.
	h.generation, h.began = l.c.BeginSending(), l.clock.Monotonic()
	return h
}

// dueLocked reports whether the oldest batch is due, without the batches that were removed.
func (l *Log) dueLocked() bool {
	for len(l.mu.order) > 0 && l.mu.held[l.mu.order[0].id] != l.mu.order[0] {
		l.mu.order = l.mu.order[1:]
	}
	return !l.mu.closed && len(l.mu.order) > 0 && l.mu.order[0].due <= l.clock.Monotonic()
}

// errTruncating means that a batch has to wait for the end of a truncation of one of its tables, because it may be
// older than the truncation.
var errTruncating = errors.New("batchlog: a table of the batch is being truncated")

// read returns a batch from disk without void mutations. nil means that the batch no longer exists, or that it cannot
// be decoded and therefore not applied. The caller has called BeginSending: a truncation that is prepared later waits
// for the caller.
func (l *Log) read(h *held) (batch *loggedBatch, err error) {
	var encoded []byte
	err = l.store.ScanLocal(h.key, func(_, value []byte) error {
		// The value is valid only during the scan.
		encoded = slices.Clone(value)
		return nil
	})
	// Without a record, the coordinator has removed the batch.
	if encoded == nil || err != nil {
		return nil, err
	}
	if batch, err = decodeBatch(h.id, encoded); err != nil {
		l.onError(err)
		return nil, nil
	}
	// Until the truncation has ended it is not known whether the mutations are void.
	if slices.ContainsFunc(batch.mutations,
		func(m *row.Mutation) bool { return l.c.Truncating(m.Table) }) {
		return nil, errTruncating
	}
	batch.mutations = slices.DeleteFunc(batch.mutations,
		func(m *row.Mutation) bool { return l.c.Void(m.Table, h.mark) })
	if len(batch.mutations) == 0 {
		return nil, nil
	}
	return batch, nil
}

// replay writes the valid mutations of a batch to all replicas, with hints for replicas that are down. While no replica
// of the batch is alive, it waits: hints alone do not secure the batch.
func (l *Log) replay(h *held, batch *loggedBatch) {
	c := l.c
	catalog := l.view.Schema()
	if slices.ContainsFunc(batch.mutations, func(m *row.Mutation) bool {
		return catalog.TableByStorage(m.Table) == nil && !catalog.Dropped(m.Table)
	}) {
		l.written(h, false) // the table is not known here yet, but its coordinator knew it
		return
	}
	batch.mutations = slices.DeleteFunc(batch.mutations,
		func(m *row.Mutation) bool { return catalog.TableByStorage(m.Table) == nil })
	if l.expired(batch) {
		// lose is called before the record is deleted, so that after a crash in between the batch is dropped and
		// reported again.
		l.lose(batch)
		l.written(h, true)
		return
	}
	if slices.ContainsFunc(batch.mutations,
		func(m *row.Mutation) bool { return !l.someAlive(m) }) {
		l.written(h, false)
		return
	}
	l.replayed.Add(1)
	// The level is ANY, so that the write does not fail for lack of replicas. Settled decides whether the batch is
	// removed.
	req := &coordinator.WriteRequest{Mutations: batch.mutations, Consistency: ring.Any, Type: coordinator.WriteBatch,
		Timeout: max(batch.delay/2, time.Second), Created: batch.created,
		Since: h.began, Settled: func(s coordinator.Settlement) { l.run(func() { l.written(h, l.secured(s)) }) }}
	c.Write(req, func(error) {})
}

// someAlive reports whether this node considers a replica of the mutation alive. It is true for an unknown table.
func (l *Log) someAlive(m *row.Mutation) bool {
	table := l.view.Schema().TableByStorage(m.Table)
	if table == nil {
		return true
	}
	set := coordinator.ReplicasOf(l.view.Self(), l.view.Topology(), table, m.Key.Token)
	alive := func(n ring.NodeID) bool { return n == l.view.Self() || l.view.Alive(n) }
	// Pending replicas count: they receive the mutations, too.
	return slices.ContainsFunc(set.Natural, alive) || slices.ContainsFunc(set.Pending, alive)
}

// written handles the end of a replay: the batch is written, or its replay must be repeated.
func (l *Log) written(h *held, secured bool) {
	l.c.EndSending(h.generation)
	// The pause after a batch is its size divided by the permitted rate.
	pause := time.Duration(h.size * int64(time.Second) / l.limits.BytesPerSecond)
	due := l.clock.Monotonic() + l.limits.Retry
	l.mu.Lock()
	held := l.mu.held[h.id] == h
	if held && secured {
		l.dropLocked(h.id)
	}
	if held && !secured {
		// The batch moves to the end of the order, so that one which cannot be written does not delay the others.
		h.due = due
		l.mu.order = append(l.mu.order, h)
	}
	l.mu.Unlock()
	if held && secured {
		if err := l.store.DeleteLocal(h.key, false); err != nil {
			l.onError(err)
		}
	}
	l.clock.After(pause, func() {
		l.mu.Lock()
		// busy is cleared only after the pause, which enforces the rate.
		l.mu.busy = false
		l.scheduleLocked()
		l.mu.Unlock()
	})
}

// release informs the holders of a batch that it can be removed. Releases are collected, so that one message contains
// many.
func (l *Log) release(id coordinator.RequestID, holders []ring.NodeID) {
	l.mu.Lock()
	defer l.mu.Unlock() // deferred, because the clock may panic
	for _, n := range holders {
		// The list may include nodes that do not hold the batch; they ignore the id.
		l.mu.releases[n] = append(l.mu.releases[n], id)
	}
	if !l.mu.flushing && !l.mu.closed {
		l.clock.After(l.limits.Release, func() { l.run(l.flush) })
		l.mu.flushing = true
	}
}

// flush sends the releases. A lost release only causes a replay.
func (l *Log) flush() {
	l.mu.Lock()
	releases := l.mu.releases
	// The next release starts a new collection.
	l.mu.releases, l.mu.flushing = map[ring.NodeID][]coordinator.RequestID{}, false
	var nodes []ring.NodeID
	for n := range releases {
		nodes = append(nodes, n)
	}
	l.mu.Unlock()
	// The order of a map is random, and simulations must be repeatable.
	slices.Sort(nodes)
	report := func(err error) {
		// An unreachable holder applies the batch once more, which changes nothing.
		if err != nil && !errors.Is(err, coordinator.ErrNotSent) && !errors.Is(err, coordinator.ErrNoReply) {
			l.onError(err)
		}
	}
	for _, n := range nodes {
		if n == l.view.Self() {
			l.Forget(releases[n], report)
		} else {
			l.holders.Forget(n, releases[n], forgetTimeout, report)
		}
	}
}

// Timeouts of a release, for which no request waits, and of a handover, and the pause after a failure to read the disk.
const (
	loadRetry       = time.Second
	forgetTimeout   = 10 * time.Second
	handOverTimeout = 2 * time.Second
)

// Close ends the replay. It does not wait for a batch that is being replayed.
func (l *Log) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	// Replays and loads that are already scheduled check closed, and do nothing.
	l.mu.closed = true
	if l.mu.timer != nil {
		l.mu.timer.Stop()
	}
}
