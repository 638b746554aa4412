package hints

import (
	"encoding/binary"
	"errors"
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
	// Run runs work that may wait for the disk in its own goroutine; timers and messages must not block. nil means that
	// the caller runs it.
	Run     func(func())
	Rand    env.Rand // jitter of replay; nil means none
	Limits  Limits
	OnError func(error) // receives failures that no request waits for; nil means that they are dropped
}

// Record keys in local storage. Node and sequence are 8 bytes, big-endian, so that the hints of a node are in order:
//
//	hint/ node sequence   → entries (appendEntry)
const prefix = "hint/"

func recordKey(node ring.NodeID, sequence uint64) []byte {
	return wire.AppendUint64(wire.AppendUint64([]byte(prefix), uint64(node)), sequence)
}

// ErrLost reports that a hint was not stored: a limit is reached, the table has no gc_grace_seconds, or the disk
// failed.
var ErrLost = errors.New("hints: the hint was not stored")

// Hints stores and replays hints. It implements coordinator.Hints. Its methods may be called from any goroutine.
//
// Hints are buffered briefly, so that one sync serves many. The records of a node are delivered one after the other,
// oldest first.
//
// It is the shell of a machine: it serializes the events, checks the invariants and performs the effects.
type Hints struct {
	c        *coordinator.Coordinator // set by Start
	batches  Batches                  // set by Start
	view     coordinator.View
	replicas coordinator.Replicas
	clock    env.Clock
	run      func(func())
	store    Store
	limits   Limits
	onError  func(error)
	// onLost receives the partition of each mutation that is not delivered; nil means no receiver.
	onLost  atomic.Pointer[func(schema.StorageID, ring.Token)]
	encoded sync.Pool // of *[]byte: a hint on its way into the buffer
	mu      struct {
		sync.Mutex
		machine machine
		// timers has at most one timer of each node. Entries are replaced, and stay after the timer has fired.
		timers map[ring.NodeID]env.Timer // of effectArm
	}
}

// New returns Hints that refuse hints until Start is called.
func New(o Options) *Hints {
	h := &Hints{
		view:     o.View,
		replicas: o.Replicas,
		clock:    o.Clock,
		run:      o.Run,
		store:    o.Store,
		limits:   o.Limits.withDefaults(),
		onError:  o.OnError,
	}
	if h.run == nil {
		h.run = func(f func()) { f() }
	}
	if h.onError == nil {
		h.onError = func(error) {}
	}
	h.encoded.New = func() any { return new([]byte) }
	h.mu.machine = machine{limits: h.limits, rand: o.Rand, nodes: map[ring.NodeID]*queue{}}
	h.mu.timers = map[ring.NodeID]env.Timer{}
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
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.mu.machine.stats
}

// Load is the size of the stored hints and its bounds.
type Load struct{ Bytes, BytesMax, BytesPerNodeMax int64 }

// Load returns the current load.
func (h *Hints) Load() Load {
	h.mu.Lock()
	defer h.mu.Unlock()
	return Load{Bytes: h.mu.machine.bytes, BytesMax: h.limits.Bytes, BytesPerNodeMax: h.limits.BytesPerNode}
}

// SetAccepting sets whether new hints are stored. Stored hints are delivered in both cases. A replica that misses a
// write without a hint gets it by read repair or repair.
func (h *Hints) SetAccepting(accept bool) { h.deliver(&event{kind: eventAccepted, accept: accept}) }

// Accepting reports whether new hints are stored.
func (h *Hints) Accepting() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.c != nil && !h.mu.machine.refusing
}

// OnLost sets f, which is called with the partition of every mutation whose hint is lost or expired: only repair brings
// it to the replica that missed it. f must not block.
func (h *Hints) OnLost(f func(table schema.StorageID, t ring.Token)) { h.onLost.Store(&f) }

// Pending returns the number of records for node.
func (h *Hints) Pending(node ring.NodeID) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	q := h.mu.machine.nodes[node]
	if q == nil {
		return 0
	}
	// The buffer counts as one record.
	n := q.records + q.writing
	if len(q.buffer) > 0 {
		n++
	}
	return n
}

// load finds the records on disk.
func (h *Hints) load() {
	nodes, err := h.scan()
	h.deliver(&event{kind: eventScanned, nodes: nodes, err: err, known: h.c.TruncationsKnown()})
}

// scan reads the keys on disk.
func (h *Hints) scan() (map[ring.NodeID]*queue, error) {
	nodes := map[ring.NodeID]*queue{}
	err := h.store.ScanLocal([]byte(prefix), func(key, value []byte) error {
		// Keys of other lengths are not records of this version.
		if len(key) != len(prefix)+16 {
			return nil
		}
		node := ring.NodeID(binary.BigEndian.Uint64(key[len(prefix):]))
		q := nodes[node]
		if q == nil {
			q = &queue{node: node}
			nodes[node] = q
		}
		// Keys are scanned in order, so the last one determines the next sequence.
		q.sequence = binary.BigEndian.Uint64(key[len(prefix)+8:]) + 1
		q.records++
		q.bytes += int64(len(value))
		return nil
	})
	return nodes, err
}

// Add implements coordinator.Hints.
func (h *Hints) Add(node ring.NodeID, mutations []*row.Mutation, began time.Duration, created int64,
	stored func(error),
) {
	ev := &event{
		kind:      eventHinted,
		node:      node,
		mutations: mutations,
		stored:    stored,
		leaves:    stored != nil && h.leaves(),
	}
	// The hint is encoded without the lock. The machine refuses hints until the records on disk are known.
	if h.loaded() {
		buffer := h.encoded.Get().(*[]byte)
		defer h.encoded.Put(buffer)
		*buffer, ev.hint = h.encode((*buffer)[:0], mutations, began, created)
	}
	h.deliver(ev)
}

// loaded reports whether marks of hints can be determined.
func (h *Hints) loaded() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.mu.machine.loaded
}

// encode appends the hint of mutations to dst. hint is nil if the table of a mutation allows none. created is of
// WriteRequest.
func (h *Hints) encode(dst []byte, mutations []*row.Mutation, began time.Duration, created int64) (_, hint []byte) {
	catalog, now := h.view.Schema(), h.clock.Now()
	// created may come from the clock of the node that made a batch, which may be ahead.
	if created == 0 || created > now.UnixNano() {
		created = now.UnixNano()
	}
	for _, m := range mutations {
		table := catalog.TableByStorage(m.Table)
		if table == nil {
			return dst, nil
		}
		// Tombstones of a table without gc_grace_seconds are purged at once, so that a late delivery could resurrect
		// data.
		expiry := h.validUntil(table, now, created)
		if !expiry.After(now) {
			return dst, nil
		}
		dst = appendEntry(dst, &entry{expiry.Unix(), h.c.HintMark(m.Table, began), created, m})
	}
	return dst, dst
}

// NodeUp begins at once to replay the hints of a node that came up.
func (h *Hints) NodeUp(node ring.NodeID) { h.deliver(&event{kind: eventCameUp, node: node}) }

// Close writes buffered hints and stops replay. It does not wait for a delivery in progress.
func (h *Hints) Close() { h.deliver(&event{kind: eventStopped}) }
