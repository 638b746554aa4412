package hints

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"cqld/coordinator"
	"cqld/internal/env"
	"cqld/internal/wire"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
)

// Store keeps hints in the local keys of this node's storage.
type Store interface {
	SetLocal(key, value []byte, sync bool) error
	DeleteLocal(key []byte, sync bool) error
	ScanLocal(prefix []byte, f func(key, value []byte) error) error
}

// Options configures Hints. View, Replicas, Clock and Store are required.
type Options struct {
	View     coordinator.View
	Replicas coordinator.Replicas
	Clock    env.Clock
	Store    Store
	// Run runs work that may wait for the disk in its own goroutine; timers and messages must not block. At most one
	// such piece of work runs for each node that has hints. nil means that the caller runs it.
	Run     func(func())
	Rand    env.Rand // jitter of replay; nil means none
	Limits  Limits
	Unsafe  Unsafe
	OnError func(error) // receives failures that no request waits for; nil means that they are dropped
}

// Unsafe removes safeguards in tests that show that the safeguards are needed.
type Unsafe struct {
	Disabled   bool // store no hints; the owner does not pass Hints to the coordinator
	Forget     bool // drop every third hint but report it as stored
	NoHandOver bool // a node that leaves the ring takes its hints with it
}

// Record keys in local storage. Node and sequence are 8 bytes, big-endian, so that the hints of a node are in order:
//
//	hint/ node sequence   → (expiry mark mutation)*
//
// expiry has 8 bytes (s), mark 8 bytes (Coordinator.HintMark), and mutation is encoded by row.AppendMutation.
const prefix = "hint/"

// ErrLost reports that a hint was not stored: a limit is reached, the table has no gc_grace_seconds, or the disk
// failed.
var ErrLost = errors.New("hints: the hint was not stored")

// Hints stores and replays hints. It implements coordinator.Hints. Its methods may be called from any goroutine.
//
// Hints are buffered briefly, so that one sync serves many. The records of a node are delivered one after the other,
// oldest first.
type Hints struct {
	c        *coordinator.Coordinator // set by Start
	batches  Batches                  // set by Start
	view     coordinator.View
	replicas coordinator.Replicas
	clock    env.Clock
	run      func(func())
	store    Store
	limits   Limits
	forget   bool
	// noHandOver is Unsafe.NoHandOver.
	noHandOver bool
	onError    func(error)
	// onLost receives the partition of each mutation that is not delivered; nil means no receiver.
	onLost atomic.Pointer[func(schema.StorageID, ring.Token)]
	counts struct{ stored, replayed, expired, lost atomic.Uint64 }
	mu     struct {
		sync.Mutex
		closed   bool
		loaded   bool // the records of an earlier process are known
		refusing bool // no new hints are stored
		rand     env.Rand
		bytes    int64 // of all nodes
		added    int   // calls of Add, for Unsafe.Forget
		nodes    map[ring.NodeID]*queue
	}
}

// queue is the hints of one node; guarded by Hints.mu.
type queue struct {
	node       ring.NodeID
	sequence   uint64 // of the next record
	records    int    // on disk
	bytes      int64  // on disk and in buffer
	buffer     []byte
	stored     []func(error) // called when the buffer is written
	flushing   bool          // a flush is scheduled
	removed    uint64        // records removed in this process
	sending    bool
	generation uint64        // of Coordinator.BeginSending, while sending
	reported   bool          // a failure was reported
	reportedAt time.Duration // monotonic
	timer      env.Timer     // of the next replay
}

// New returns Hints that refuse hints until Start is called.
func New(o Options) *Hints {
	h := &Hints{view: o.View, replicas: o.Replicas, clock: o.Clock, run: o.Run, store: o.Store,
		limits: o.Limits.withDefaults(),
		forget: o.Unsafe.Forget, noHandOver: o.Unsafe.NoHandOver, onError: o.OnError}
	if h.run == nil {
		h.run = func(f func()) { f() }
	}
	if h.onError == nil {
		h.onError = func(error) {}
	}
	h.mu.rand = o.Rand
	h.mu.nodes = map[ring.NodeID]*queue{}
	return h
}

// Start finds the records of an earlier process and begins to replay them. c writes the hints of nodes that are no
// longer replicas. b gets the hints of this node when it leaves the ring; nil, in tests, means that it does not leave.
func (h *Hints) Start(c *coordinator.Coordinator, b Batches) {
	h.c, h.batches = c, b
	h.load()
}

// Stats are counts since the start.
type Stats struct{ Stored, Replayed, Expired, Lost uint64 }

// Stats returns the counts.
func (h *Hints) Stats() Stats {
	n := &h.counts
	return Stats{Stored: n.stored.Load(), Replayed: n.replayed.Load(), Expired: n.expired.Load(), Lost: n.lost.Load()}
}

// Load is the size of the stored hints and its bounds.
type Load struct{ Bytes, BytesMax, BytesPerNodeMax int64 }

// Load returns the present load.
func (h *Hints) Load() Load {
	h.mu.Lock()
	defer h.mu.Unlock()
	return Load{Bytes: h.mu.bytes, BytesMax: h.limits.Bytes, BytesPerNodeMax: h.limits.BytesPerNode}
}

// SetAccepting sets whether new hints are stored. Stored hints are delivered in both cases. A replica that misses a
// write without a hint gets it by read repair or repair.
func (h *Hints) SetAccepting(accept bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.refusing = !accept
}

// Accepting reports whether new hints are stored.
func (h *Hints) Accepting() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.c != nil && !h.mu.refusing
}

// OnLost sets f, which is called with the partition of every mutation whose hint is lost or expired: only repair brings
// it to the replica that missed it. f must not block.
func (h *Hints) OnLost(f func(table schema.StorageID, t ring.Token)) { h.onLost.Store(&f) }

// Pending returns the number of records for node.
func (h *Hints) Pending(node ring.NodeID) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	q := h.mu.nodes[node]
	if q == nil {
		return 0
	}
	if len(q.buffer) > 0 {
		return q.records + 1
	}
	return q.records
}

// load finds the records on disk. Until it has succeeded no hint is accepted: the hint could overwrite a record, or its
// mark could be a truncation's mark.
func (h *Hints) load() {
	nodes, err := h.scan()
	if err != nil {
		h.onError(err)
	}
	known := h.c.TruncationsKnown()
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.mu.closed:
		return
	case err != nil || !known:
		h.clock.After(h.limits.Retry, func() { h.run(h.load) })
		return
	}
	h.mu.nodes, h.mu.loaded = nodes, true
	for _, node := range slices.Sorted(maps.Keys(nodes)) {
		h.mu.bytes += nodes[node].bytes
		h.scheduleLocked(nodes[node], h.limits.Retry)
	}
}

// scan reads the keys on disk.
func (h *Hints) scan() (map[ring.NodeID]*queue, error) {
	nodes := map[ring.NodeID]*queue{}
	err := h.store.ScanLocal([]byte(prefix), func(key, value []byte) error {
		if len(key) != len(prefix)+16 {
			return nil
		}
		node := ring.NodeID(binary.BigEndian.Uint64(key[len(prefix):]))
		q := nodes[node]
		if q == nil {
			q = &queue{node: node}
			nodes[node] = q
		}
		q.sequence = binary.BigEndian.Uint64(key[len(prefix)+8:]) + 1
		q.records++
		q.bytes += int64(len(value))
		return nil
	})
	return nodes, err
}

func (h *Hints) queueLocked(node ring.NodeID) *queue {
	q := h.mu.nodes[node]
	if q == nil {
		q = &queue{node: node}
		h.mu.nodes[node] = q
	}
	return q
}

// Add implements coordinator.Hints.
func (h *Hints) Add(node ring.NodeID, mutations []*row.Mutation, began time.Duration, stored func(error)) {
	catalog, now := h.view.Schema(), h.clock.Now()
	h.mu.Lock()
	if h.mu.added++; h.forget && h.mu.added%3 == 0 {
		h.mu.Unlock()
		if stored != nil {
			stored(nil)
		}
		return
	}
	q := h.queueLocked(node)
	before := len(q.buffer)
	lost := h.mu.closed || h.mu.refusing || !h.mu.loaded
	for _, m := range mutations {
		table := catalog.TableByStorage(m.Table)
		if lost || table == nil || table.Options.GCGraceSeconds <= 0 {
			lost = true
			break
		}
		q.buffer = wire.AppendInt64(q.buffer, now.Add(h.keeps(table)).Unix())
		q.buffer = wire.AppendInt64(q.buffer, h.c.HintMark(m.Table, began))
		q.buffer = row.AppendMutation(q.buffer, m)
	}
	size := int64(len(q.buffer) - before)
	if lost || q.bytes+size > h.limits.BytesPerNode || h.mu.bytes+size > h.limits.Bytes {
		q.buffer = q.buffer[:before]
		h.mu.Unlock()
		h.counts.lost.Add(1)
		for _, m := range mutations {
			h.lostOne(m)
		}
		if stored != nil {
			stored(ErrLost)
		}
		return
	}
	q.bytes += size
	h.mu.bytes += size
	leaves := stored != nil && h.leaves()
	if stored != nil && !leaves {
		q.stored = append(q.stored, stored)
	}
	h.counts.stored.Add(1)
	if !q.flushing {
		q.flushing = true
		h.clock.After(h.limits.Flush, func() { h.run(func() { h.flush(q) }) })
	}
	full := len(q.buffer) >= h.limits.BufferBytes
	h.mu.Unlock()
	if leaves {
		stored(ErrLost) // it is stored nevertheless, for as long as this node is a member
	}
	if full {
		h.run(func() { h.flush(q) })
	}
}

// keeps returns for how long a hint of a table is valid.
func (h *Hints) keeps(table *schema.Table) time.Duration {
	return min(h.limits.Window, time.Duration(table.Options.GCGraceSeconds)*time.Second)
}

// lostOne reports a mutation that is not delivered.
func (h *Hints) lostOne(m *row.Mutation) {
	if f := h.onLost.Load(); f != nil {
		(*f)(m.Table, m.Key.Token)
	}
}

// lostRecord reports all mutations of a record.
func (h *Hints) lostRecord(value []byte) {
	for c := wire.NewCursor(value); c.Len() > 0 && c.Err() == nil; {
		var m row.Mutation
		c.Skip(16)
		if row.ConsumeMutation(&c, &m); c.Err() == nil {
			h.lostOne(&m)
		}
	}
}

// flush writes the buffer of q as one record.
func (h *Hints) flush(q *queue) {
	h.mu.Lock()
	q.flushing = false
	value, stored := q.buffer, q.stored
	if len(value) == 0 {
		h.mu.Unlock()
		return
	}
	q.buffer, q.stored = nil, nil
	key := recordKey(q.node, q.sequence)
	q.sequence++
	h.mu.Unlock()

	err := h.store.SetLocal(key, value, true)

	h.mu.Lock()
	if err != nil {
		h.forgetLocked(q, int64(len(value)))
		h.counts.lost.Add(1)
	} else {
		q.records++
		h.scheduleLocked(q, h.limits.Retry)
	}
	h.mu.Unlock()
	if err != nil {
		h.report("not stored", q, err)
		h.lostRecord(value)
	}
	for _, f := range stored {
		f(err)
	}
}

// report reports a disk failure, at most once in reportEvery for each node.
func (h *Hints) report(what string, q *queue, err error) {
	now := h.clock.Monotonic()
	h.mu.Lock()
	due := !q.reported || now-q.reportedAt >= reportEvery
	if due {
		q.reported, q.reportedAt = true, now
	}
	h.mu.Unlock()
	if due {
		h.onError(fmt.Errorf("hints: hints for node %s are %s: %w", h.view.Topology().NameOf(q.node), what, err))
	}
}

// reportEvery is the minimal interval between reports about one node: replay tries again every Limits.Retry.
const reportEvery = time.Minute

func recordKey(node ring.NodeID, sequence uint64) []byte {
	return wire.AppendUint64(wire.AppendUint64([]byte(prefix), uint64(node)), sequence)
}

func (h *Hints) forgetLocked(q *queue, size int64) {
	q.bytes -= size
	h.mu.bytes -= size
}

// Close writes buffered hints and stops replay. It does not wait for a delivery that is under way.
func (h *Hints) Close() {
	h.mu.Lock()
	h.mu.closed = true
	var all []*queue
	for _, node := range slices.Sorted(maps.Keys(h.mu.nodes)) {
		q := h.mu.nodes[node]
		if q.timer != nil {
			q.timer.Stop()
		}
		all = append(all, q)
	}
	h.mu.Unlock()
	for _, q := range all {
		h.flush(q)
	}
}
