package coordinator

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"cqld/internal/env"
	"cqld/internal/wire"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
)

// HintStore is where hints are kept: this node's local keys in storage.
type HintStore interface {
	SetLocal(key, value []byte, sync bool) error
	DeleteLocal(key []byte, sync bool) error
	ScanLocal(prefix []byte, f func(key, value []byte) error) error
}

// The local keys. Node and sequence are 8 bytes, so that hints of a node are in order:
//
//	hint/ node sequence     → (expiry made mutation)*     8 bytes (seconds), 8 bytes (ns), row.AppendMutation
//	hint-truncated/ table   → when truncation             8 bytes (ns), 8 bytes: its ID, 0 when it has ended
const (
	hintPrefix      = "hint/"
	hintTruncPrefix = "hint-truncated/"
)

// errHintLost says that a hint was not kept: there are too many, the table has no gc_grace, or the
// disk failed.
var errHintLost = errors.New("coordinator: the hint was not stored")

// hints keeps what replicas missed, gathers it for a moment so that one sync serves many, and hands
// it over when they live again. A node's hints go one record after the other, oldest first.
type hints struct {
	c     *Coordinator
	store HintStore
	// onLost is told what is not kept; nil: nobody.
	onLost atomic.Pointer[func(schema.StorageID, ring.Token)]
	mu     struct {
		sync.Mutex
		closed    bool
		loaded    bool
		refusing  bool // no new ones are kept
		rand      env.Rand
		bytes     int64 // of all nodes
		added     int   // calls of add, for Unsafe.ForgetHints
		nodes     map[ring.NodeID]*hintQueue
		truncated map[schema.StorageID]int64 // hints made up to then (ns) are void
	}
}

// hintQueue is the hints of one node; guarded by hints.mu.
type hintQueue struct {
	node       ring.NodeID
	sequence   uint64 // of the next record
	records    int    // on disk
	bytes      int64  // on disk and in buffer
	buffer     []byte
	stored     []func(error) // who waits for the buffer
	flushing   bool          // a flush is scheduled
	removed    uint64        // records removed in this process
	sending    bool
	generation uint64        // of Coordinator.sent, while sending
	told       bool          // the operator, of a failure
	toldAt     time.Duration // monotonic
	timer      env.Timer     // of the next look
}

// newHints finds what an earlier process left.
func newHints(c *Coordinator, store HintStore, rand env.Rand) *hints {
	h := &hints{c: c, store: store}
	h.mu.rand = rand
	h.mu.nodes = map[ring.NodeID]*hintQueue{}
	h.mu.truncated = map[schema.StorageID]int64{}
	h.load()
	return h
}

// load finds what is on disk. Until it has succeeded no hint is taken: it could overwrite one that is
// there.
func (h *hints) load() {
	nodes, truncated, err := h.scan()
	if err != nil {
		h.c.report(err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.mu.closed:
		return
	case err != nil:
		h.c.clock.After(h.c.limits.HintRetry, func() { h.c.run(h.load) })
		return
	}
	h.mu.nodes, h.mu.loaded = nodes, true
	for table, at := range truncated {
		h.mu.truncated[table] = max(at, h.mu.truncated[table])
	}
	for _, node := range slices.Sorted(maps.Keys(nodes)) {
		h.mu.bytes += nodes[node].bytes
		h.lookLocked(nodes[node], h.c.limits.HintRetry)
	}
}

// scan reads the keys on disk.
func (h *hints) scan() (nodes map[ring.NodeID]*hintQueue, truncated map[schema.StorageID]int64, err error) {
	nodes, truncated = map[ring.NodeID]*hintQueue{}, map[schema.StorageID]int64{}
	err = h.store.ScanLocal([]byte(hintPrefix), func(key, value []byte) error {
		if len(key) != len(hintPrefix)+16 {
			return nil
		}
		node := ring.NodeID(binary.BigEndian.Uint64(key[len(hintPrefix):]))
		q := nodes[node]
		if q == nil {
			q = &hintQueue{node: node}
			nodes[node] = q
		}
		q.sequence = binary.BigEndian.Uint64(key[len(hintPrefix)+8:]) + 1
		q.records++
		q.bytes += int64(len(value))
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	err = h.store.ScanLocal([]byte(hintTruncPrefix), func(key, value []byte) error {
		k, v := wire.NewCursor(key[len(hintTruncPrefix):]), wire.NewCursor(value)
		table := schema.StorageID(k.Uint32())
		truncated[table] = v.Int64()
		if id := v.Uint64(); v.Err() == nil && id != 0 {
			h.c.truncating.prepare(table, id, h.c.clock.Monotonic()+h.c.limits.TruncationMost)
		}
		return nil
	})
	return nodes, truncated, err
}

func (h *hints) queueLocked(node ring.NodeID) *hintQueue {
	q := h.mu.nodes[node]
	if q == nil {
		q = &hintQueue{node: node}
		h.mu.nodes[node] = q
	}
	return q
}

// add keeps mutations for node. stored, when not nil, is told once they are on disk.
//
// began is when (monotonic) the write began: a truncation since then makes the hint void.
func (h *hints) add(node ring.NodeID, mutations []*row.Mutation, began time.Duration, stored func(error)) {
	catalog, now := h.c.view.Schema(), h.c.clock.Now()
	made := now.Add(began - h.c.clock.Monotonic()).UnixNano()
	h.mu.Lock()
	if h.mu.added++; h.c.unsafe.ForgetHints && h.mu.added%3 == 0 {
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
		if table == nil || table.Options.GCGraceSeconds <= 0 {
			lost = true
			continue
		}
		keep := min(h.c.limits.HintWindow, time.Duration(table.Options.GCGraceSeconds)*time.Second)
		q.buffer = wire.AppendInt64(q.buffer, now.Add(keep).Unix())
		q.buffer = wire.AppendInt64(q.buffer, h.madeLocked(m.Table, made, began))
		q.buffer = row.AppendMutation(q.buffer, m)
	}
	size := int64(len(q.buffer) - before)
	if lost || q.bytes+size > h.c.limits.HintBytesPerNode || h.mu.bytes+size > h.c.limits.HintBytes {
		q.buffer = q.buffer[:before]
		h.mu.Unlock()
		h.c.counts.hintsLost.Add(1)
		for _, m := range mutations {
			h.lostOne(m)
		}
		if stored != nil {
			stored(errHintLost)
		}
		return
	}
	q.bytes += size
	h.mu.bytes += size
	leaves := stored != nil && h.c.leaves()
	if stored != nil && !leaves {
		q.stored = append(q.stored, stored)
	}
	h.c.counts.hintsStored.Add(1)
	if !q.flushing {
		q.flushing = true
		h.c.clock.After(h.c.limits.HintFlush, func() { h.c.run(func() { h.flush(q) }) })
	}
	full := len(q.buffer) >= h.c.limits.HintBufferBytes
	h.mu.Unlock()
	if leaves {
		stored(errHintLost) // it is kept all the same, for as long as this node is a member
	}
	if full {
		h.c.run(func() { h.flush(q) })
	}
}

// OnHintLost makes f be told of every partition for which a hint was lost, or expired: only a repair
// brings it to the replica that missed it. f must be quick.
func (c *Coordinator) OnHintLost(f func(table schema.StorageID, t ring.Token)) {
	if c.hints != nil {
		c.hints.onLost.Store(&f)
	}
}

// lostOne tells of a mutation that is not kept.
func (h *hints) lostOne(m *row.Mutation) {
	if f := h.onLost.Load(); f != nil {
		(*f)(m.Table, m.Key.Token)
	}
}

// lostRecord tells of all mutations in a record.
func (h *hints) lostRecord(value []byte) {
	for c := wire.NewCursor(value); c.Len() > 0 && c.Err() == nil; {
		var m row.Mutation
		c.Skip(16)
		if row.ConsumeMutation(&c, &m); c.Err() == nil {
			h.lostOne(&m)
		}
	}
}

// flush writes q's buffer as one record.
func (h *hints) flush(q *hintQueue) {
	h.mu.Lock()
	q.flushing = false
	value, stored := q.buffer, q.stored
	if len(value) == 0 {
		h.mu.Unlock()
		return
	}
	q.buffer, q.stored = nil, nil
	key := hintKey(q.node, q.sequence)
	q.sequence++
	h.mu.Unlock()

	err := h.store.SetLocal(key, value, true)

	h.mu.Lock()
	if err != nil {
		h.forgetLocked(q, int64(len(value)))
		h.c.counts.hintsLost.Add(1)
	} else {
		q.records++
		h.lookLocked(q, h.c.limits.HintRetry)
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

// report tells the operator, once in a while for each node, that hints for it wait for the disk, or were lost to it.
func (h *hints) report(what string, q *hintQueue, err error) {
	now := h.c.clock.Monotonic()
	h.mu.Lock()
	tell := !q.told || now-q.toldAt >= hintReportEvery
	if tell {
		q.told, q.toldAt = true, now
	}
	h.mu.Unlock()
	if tell {
		h.c.report(fmt.Errorf("coordinator: hints for node %s are %s: %w", h.c.view.Topology().NameOf(q.node), what, err))
	}
}

// hintReportEvery is how often the same node's hints are reported: replay tries again every HintRetry.
const hintReportEvery = time.Minute

func hintKey(node ring.NodeID, sequence uint64) []byte {
	return wire.AppendUint64(wire.AppendUint64([]byte(hintPrefix), uint64(node)), sequence)
}

func (h *hints) forgetLocked(q *hintQueue, size int64) {
	q.bytes -= size
	h.mu.bytes -= size
}

// lookLocked schedules the next look at q, unless one is scheduled or under way.
func (h *hints) lookLocked(q *hintQueue, after time.Duration) {
	if q.sending || q.timer != nil || q.records == 0 || h.mu.closed {
		return
	}
	if h.mu.rand != nil && after >= h.c.limits.HintRetry {
		after += time.Duration(h.mu.rand.Uint64() % uint64(h.c.limits.HintRetry/4+1))
	}
	q.timer = h.c.clock.After(after, func() { h.c.run(func() { h.look(q) }) })
}

// nodeUp hands over at once what a node missed.
func (h *hints) nodeUp(node ring.NodeID) {
	h.mu.Lock()
	q := h.mu.nodes[node]
	if q == nil || q.sending || q.records == 0 || h.mu.closed {
		h.mu.Unlock()
		return
	}
	if q.timer != nil && !q.timer.Stop() {
		h.mu.Unlock() // a look is under way
		return
	}
	q.timer = nil
	h.mu.Unlock()
	h.c.run(func() { h.look(q) })
}

// hintBatch is records on their way.
type hintBatch struct {
	keys      [][]byte
	sizes     []int64 // of the records, by key
	mutations []*row.Mutation
	made      []int64         // when the writes of mutations began (ns)
	size      int64           // of the records on disk
	void      int             // mutations that are not sent any more
	expired   []*row.Mutation // of them, those that somebody may still lack
	damaged   int             // records of which the rest could not be read
}

// look sends the oldest records of a node that lives.
func (h *hints) look(q *hintQueue) {
	h.mu.Lock()
	q.timer = nil
	if q.sending || q.records == 0 || h.mu.closed {
		h.mu.Unlock()
		return
	}
	if !h.c.mayReplay() {
		h.lookLocked(q, h.c.limits.HintRetry)
		h.mu.Unlock()
		return
	}
	q.sending, q.generation = true, h.c.sent.Enter()
	h.mu.Unlock()
	batch, err := h.read(q.node)
	alive := h.c.view.Alive(q.node)
	switch {
	case err == nil && len(batch.mutations) > 0 && (h.former(q.node) || alive && h.moving() || h.c.leaves()):
		h.reroute(q, batch)
	case err != nil:
		h.report("not read, replay is tried again", q, err)
		h.pause(q, h.c.limits.HintRetry)
	case len(batch.mutations) > 0 && !alive:
		h.pause(q, h.c.limits.HintRetry)
	case len(batch.mutations) == 0:
		h.delivered(q, batch) // all void
	default:
		h.send(q, batch)
	}
}

// send hands a batch over.
func (h *hints) send(q *hintQueue, batch hintBatch) {
	done := func(err error) {
		var refusal *NotReplica
		switch {
		case errors.As(err, &refusal) && refusal.Epoch <= h.c.view.Topology().Epoch():
			h.reroute(q, batch)
			return
		case err != nil: // also when this node is the one that has not heard of a change
			h.pause(q, h.c.limits.HintRetry)
			return
		}
		h.c.counts.hintsReplayed.Add(uint64(len(batch.mutations)))
		h.c.run(func() { h.delivered(q, batch) })
	}
	replica := h.c.replicas.Replica(q.node)
	remote, ok := replica.(Remote)
	if !ok {
		replica.Apply(h.c.view.Topology().Epoch(), batch.mutations, hintTimeout, done)
		return
	}
	b := h.c.buffer()
	*b = remote.AppendMutations((*b)[:0], h.c.view.Topology().Epoch(), batch.mutations)
	remote.ApplyEncoded(ForHint, *b, hintTimeout, done)
	h.c.release(b)
}

// former says whether a node has left the ring, as far as this one knows.
func (h *hints) former(node ring.NodeID) bool {
	t := h.c.view.Topology()
	return len(t.Nodes()) > 0 && t.Node(node) == nil
}

// moving reports whether ranges move. A node that gains a range may have compared it already with the one that a hint is for:
// it must get the hint, too.
func (h *hints) moving() bool { return len(h.c.view.Topology().Operations()) > 0 }

// reroute writes a batch again to the present replicas: its node does not hold it, or not all of it, any more, or other nodes are
// about to hold it.
func (h *hints) reroute(q *hintQueue, batch hintBatch) {
	valid := batch.mutations[:0:0]
	for i, m := range batch.mutations {
		if batch.made[i] > h.truncation(m.Table) { // it may have been truncated since it was read
			valid = append(valid, m)
		}
	}
	if batch.mutations = valid; len(valid) == 0 {
		h.c.run(func() { h.delivered(q, batch) })
		return
	}
	if h.c.leaves() {
		h.giveAway(q, batch)
		return
	}
	req := &WriteRequest{Mutations: batch.mutations, Consistency: ring.One, Type: WriteSimple, Timeout: hintTimeout}
	h.c.Write(req, func(err error) {
		if err != nil {
			h.pause(q, h.c.limits.HintRetry)
			return
		}
		h.c.run(func() { h.delivered(q, batch) })
	})
}

// hintTimeout is how long a batch may take: nobody waits for it.
const hintTimeout = 10 * time.Second

// errEnough ends a scan.
var errEnough = errors.New("enough")

// read takes the oldest records, up to about one buffer's bytes, without what is void by now.
func (h *hints) read(node ring.NodeID) (hintBatch, error) {
	var batch hintBatch
	now := h.c.clock.Now().Unix()
	catalog := h.c.view.Schema()
	prefix := wire.AppendUint64([]byte(hintPrefix), uint64(node))
	err := h.store.ScanLocal(prefix, func(key, value []byte) error {
		if batch.size > 0 && batch.size+int64(len(value)) > int64(h.c.limits.HintBufferBytes) {
			return errEnough
		}
		batch.keys = append(batch.keys, append([]byte(nil), key...))
		batch.sizes = append(batch.sizes, int64(len(value)))
		batch.size += int64(len(value))
		c := wire.NewCursor(append([]byte(nil), value...))
		for c.Len() > 0 {
			expiry, made := c.Int64(), c.Int64()
			m := new(row.Mutation)
			row.ConsumeMutation(&c, m)
			switch {
			case c.Err() != nil: // it helps nobody; the cursor is at its end
				batch.damaged++
			case expiry <= now:
				batch.void++
				batch.expired = append(batch.expired, m)
			case catalog.Dropped(m.Table) || made <= h.truncation(m.Table):
				batch.void++
			default:
				batch.mutations, batch.made = append(batch.mutations, m), append(batch.made, made)
			}
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return batch, err
}

func (h *hints) truncation(table schema.StorageID) int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	if at, ok := h.mu.truncated[table]; ok {
		return at
	}
	return -1 << 63
}

// delivered forgets a batch and goes on, at the pace of HintBytesPerSecond. The records' removal
// needs no sync: applying a hint twice is applying it once.
func (h *hints) delivered(q *hintQueue, batch hintBatch) {
	for i, k := range batch.keys {
		if err := h.store.DeleteLocal(k, false); err != nil {
			h.report("delivered but not removed, they are sent again", q, err)
			h.pause(q, h.c.limits.HintRetry)
			return
		}
		h.mu.Lock()
		q.records--
		q.removed++
		h.forgetLocked(q, batch.sizes[i])
		h.mu.Unlock()
	}
	h.c.counts.hintsExpired.Add(uint64(batch.void))
	h.c.counts.hintsLost.Add(uint64(batch.damaged))
	for _, m := range batch.expired {
		h.lostOne(m)
	}
	h.pause(q, time.Duration(batch.size*int64(time.Second)/h.c.limits.HintBytesPerSecond))
}

// pause ends a sending; the next look comes after d.
func (h *hints) pause(q *hintQueue, d time.Duration) {
	h.mu.Lock()
	q.sending = false
	generation := q.generation
	h.lookLocked(q, d)
	h.mu.Unlock()
	h.c.sent.Leave(generation)
}

// truncate makes all hints of a table void that exist now.
func (h *hints) truncate(t Truncation) error {
	now := h.c.clock.Now().UnixNano()
	h.mu.Lock()
	h.mu.truncated[t.Table] = now
	h.mu.Unlock()
	return h.saveTruncation(t.Table, now, t.ID)
}

// truncationEnds makes an end of a truncation last longer than the process.
func (h *hints) truncationEnds(table schema.StorageID) error {
	return h.saveTruncation(table, h.truncation(table), 0)
}

func (h *hints) saveTruncation(table schema.StorageID, at int64, underWay uint64) error {
	key := wire.AppendUint32([]byte(hintTruncPrefix), uint32(table))
	return h.store.SetLocal(key, wire.AppendUint64(wire.AppendInt64(nil, at), underWay), true)
}

// close writes out what is gathered and stops.
func (h *hints) close() {
	h.mu.Lock()
	h.mu.closed = true
	var all []*hintQueue
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

// NodeUp says that node lives again: what it missed is handed over at once.
func (c *Coordinator) NodeUp(node ring.NodeID) {
	if c.hints != nil {
		c.hints.nodeUp(node)
	}
}

// PendingHints is how many records wait for node.
func (c *Coordinator) PendingHints(node ring.NodeID) int {
	if c.hints == nil {
		return 0
	}
	c.hints.mu.Lock()
	defer c.hints.mu.Unlock()
	q := c.hints.mu.nodes[node]
	if q == nil {
		return 0
	}
	if len(q.buffer) > 0 {
		return q.records + 1
	}
	return q.records
}

// Close writes out hints that are gathered in memory. Requests under way are not waited for.
func (c *Coordinator) Close() {
	if c.hints != nil {
		c.hints.close()
	}
	c.batchlog.close()
}
