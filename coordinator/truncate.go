package coordinator

import (
	"errors"
	"slices"
	"sync"
	"time"

	"cqld/internal/env"
	"cqld/internal/wire"
	"cqld/ring"
	"cqld/schema"
)

// Truncation is one TRUNCATE of a table. Nodes that stream data identify it by its ID: a stream transfers nothing from
// a node that has not executed a truncation which the receiver has executed.
type Truncation struct {
	Table schema.StorageID
	ID    uint64
	Phase TruncationPhase
}

// TruncationPhase is the phase of a Truncation that a node is asked to execute. A phase starts at the first node after
// all nodes have completed the phase before.
type TruncationPhase uint8

// The phases, as they are encoded.
const (
	// TruncationApply drops the rows. First, it makes the node's hints and logged batches void once more: a batch
	// that its coordinator sent before preparing may have arrived here after this node prepared.
	TruncationApply TruncationPhase = iota
	// TruncationPrepare makes the node's hints and logged batches void, and waits for the writes that it has sent. From
	// then on, reads that the node coordinates do not repair: a replica that has dropped its rows would receive those
	// of another that has not. A node drops rows only in a truncation that it has prepared, within the time given by
	// the request to prepare, and not after another one was prepared later: so a request that a coordinator sent before
	// it died cannot remove later writes.
	TruncationPrepare
	// TruncationEnd reports that all nodes have dropped their rows: reads that begin from now on repair again.
	TruncationEnd
)

// Truncate drops all rows of the table, and the hints and logged batches for it, on every node. All nodes that have
// some of its rows must be alive, because a node that missed the truncation would restore its rows. While the ring
// changes, all members must be alive, because any of them may be the source of a range. Live members without rows are
// asked, too, because they may have hints.
func (c *Coordinator) Truncate(table *schema.Table, timeout time.Duration, done func(error)) {
	now := c.clock.Monotonic()
	op := &truncateOp{c: c, table: table, deadline: now + timeout, done: done,
		truncation: Truncation{Table: table.StorageID, ID: c.truncationID(), Phase: TruncationPrepare}}
	op.startPhase()
}

// truncationID returns an ID that no other truncation has.
func (c *Coordinator) truncationID() uint64 {
	return uint64(c.stamps.Next())<<10 | uint64(c.view.Self()&1023)
}

// truncateOp asks all nodes to prepare, then to drop their rows, and then announces the end: a write that ended before
// the truncation began does not reach a replica after it. If the ring has changed meanwhile, it asks all nodes again,
// including a node that gains a range, before that node receives data. Its events step under the lock, and their
// effects are performed after it was released.
type truncateOp struct {
	c        *Coordinator
	table    *schema.Table
	deadline time.Duration

	mu         sync.Mutex
	truncation Truncation
	plan       int           // answers to earlier ones are ignored
	waiting    []ring.NodeID // nodes whose answers are outstanding
	refused    bool          // by a node that knows a later ring, or another truncation
	void       bool          // by one that knows another truncation
	done       func(error)   // nil after it was called
	timer      env.Timer
}

// truncateEffects are the outputs of a step.
type truncateEffects struct {
	send  []ring.NodeID // they get truncation
	plan  int           // of send
	epoch uint64        // of send
	begin bool          // the next phase
	pause bool          // wait for newer metadata before the next phase
	done  func(error)   // answer with err
	err   error
	abort bool // inform the nodes that the truncation has failed
	timer env.Timer
	order Truncation // of send, and of abort
}

// deliver takes an event, whose step runs under the lock, and performs its effects.
func (op *truncateOp) deliver(step func() truncateEffects) {
	defer op.c.guard.Recover("coordinator truncation", op.panicked)
	e := func() truncateEffects {
		op.mu.Lock()
		defer op.mu.Unlock()
		// The operation has ended, so late answers are ignored.
		if op.done == nil {
			return truncateEffects{}
		}
		return step()
	}()
	if e.timer != nil {
		e.timer.Stop()
	}
	if e.abort {
		op.abandon(e.order)
	}
	timeout := op.c.Remaining(op.deadline)
	if e.order.Phase == TruncationEnd {
		// The client waits for this phase, which needs no acknowledgement, so the timeout is short.
		timeout = min(timeout, truncationEndWait)
	}
	for _, n := range e.send {
		op.c.replicas.Replica(n).Truncate(e.epoch, e.order, timeout, func(err error) { op.answered(e.plan, n, err) })
	}
	switch {
	// Another node may still apply the newest topology, or the truncation that overtook this one.
	case e.pause:
		op.c.clock.After(truncatePause, op.startPhase)
	case e.begin:
		op.startPhase()
	case e.done != nil:
		e.done(e.err)
	}
}

// panicked ends the operation after an event has panicked.
func (op *truncateOp) panicked(err error) {
	op.deliver(func() truncateEffects { return op.conclude(err) })
}

// startPhase sends the requests of a phase to the members of the current topology.
func (op *truncateOp) startPhase() { op.deliver(op.nextPhase) }

// nextPhase is the step of startPhase.
func (op *truncateOp) nextPhase() truncateEffects {
	c := op.c
	t := c.view.Topology()
	required, nodes := c.truncates(op.table, t)
	alive := 0
	for _, n := range required {
		if c.believes(n) {
			alive++
		}
	}
	// The end is only announced: all nodes have dropped their rows.
	// A node that is down would keep its rows, and repairs would bring them back to the others.
	if alive < len(required) && op.truncation.Phase != TruncationEnd {
		c.counts.unavailable.Add(1)
		return op.conclude(&Unavailable{Consistency: ring.All, Required: len(required), Alive: alive})
	}
	if len(nodes) == 0 {
		return op.conclude(nil)
	}
	op.plan++
	if op.void { // nodes refuse the ID that another truncation has overtaken
		op.truncation.ID = c.truncationID()
	}
	op.waiting, op.refused, op.void = slices.Clone(nodes), false, false
	// One deadline for all phases.
	if op.timer == nil {
		op.timer = c.clock.After(op.deadline-c.clock.Monotonic(), op.timeout)
	}
	return truncateEffects{send: nodes, plan: op.plan, epoch: t.Epoch(), order: op.truncation}
}

// truncationEndWait is how long the operation waits for the nodes' answers to the end of a truncation.
const truncationEndWait = time.Second

// abandon informs the nodes that the truncation has failed, so that their reads repair again.
func (op *truncateOp) abandon(x Truncation) {
	c := op.c
	t := c.view.Topology()
	_, nodes := c.truncates(op.table, t)
	for _, n := range nodes {
		if c.believes(n) {
			// The message is sent once, without waiting for answers: a node that does not receive it waits for
			// Limits.TruncationMost.
			x.Phase = TruncationEnd
			c.replicas.Replica(n).Truncate(t.Epoch(), x, truncationEndWait, func(error) {})
		}
	}
}

// believes reports whether a node is this one, or alive in this node's view.
func (c *Coordinator) believes(n ring.NodeID) bool { return n == c.view.Self() || c.view.Alive(n) }

// truncates returns the nodes that must participate in a truncation, and all nodes to ask.
func (c *Coordinator) truncates(table *schema.Table, t *ring.Topology) (required, asked []ring.NodeID) {
	if table.Replication.Class == ring.Local {
		return []ring.NodeID{c.view.Self()}, []ring.NodeID{c.view.Self()}
	}
	held := map[ring.NodeID]bool{}
	for _, r := range t.Placement(table.Replication).Ranges(ring.FullRange()) {
		for _, n := range r.Replicas.Natural {
			held[n] = true
		}
		for _, n := range r.Replicas.Pending {
			held[n] = true
		}
	}
	// While the ring changes, any member may be the source of a range, even if the current ring makes it no replica.
	changes := len(t.Operations()) > 0
	for _, n := range t.Nodes() {
		if held[n.ID] || changes {
			required = append(required, n.ID)
		}
		if held[n.ID] || changes || c.believes(n.ID) {
			// A member without rows may have hints and logged batches.
			asked = append(asked, n.ID)
		}
	}
	return required, asked
}

// answered handles a node's answer. If a node refuses because the ring has changed, the operation waits for the
// others and then asks all nodes of the new topology; those that have executed the truncation answer at once.
func (op *truncateOp) answered(plan int, node ring.NodeID, err error) {
	op.deliver(func() truncateEffects { return op.count(plan, node, err) })
}

// count is the step of answered.
func (op *truncateOp) count(plan int, node ring.NodeID, err error) truncateEffects {
	if plan != op.plan {
		return truncateEffects{}
	}
	var refusal *NotReplica
	var void *TruncationVoid
	if op.void = errors.As(err, &void) || op.void; op.void || errors.As(err, &refusal) {
		op.refused = true
	}
	if errors.As(err, &void) || errors.As(err, &refusal) {
		// A refusal does not fail the operation: the phase is repeated with a newer topology or a new ID.
		err = nil
	}
	if op.truncation.Phase == TruncationEnd {
		err = nil // the rows are gone; a node that does not receive the end waits for Limits.TruncationMost
	}
	op.waiting = slices.DeleteFunc(op.waiting, func(n ring.NodeID) bool { return n == node })
	switch {
	case err != nil:
		return op.conclude(&TruncateFailure{Node: node, Cause: err})
	case len(op.waiting) > 0:
		return truncateEffects{}
	case op.refused:
		// The operation restarts with the first phase, because nodes that the new topology adds have not prepared.
		op.truncation.Phase = TruncationPrepare
		return truncateEffects{pause: true}
	case op.truncation.Phase == TruncationPrepare:
		op.truncation.Phase = TruncationApply
		return truncateEffects{begin: true}
	case op.truncation.Phase == TruncationApply:
		op.truncation.Phase = TruncationEnd
		return truncateEffects{begin: true}
	}
	return op.conclude(nil)
}

// truncatePause is how long a new plan waits for newer metadata.
const truncatePause = 100 * time.Millisecond

// timeout handles the end of the deadline.
func (op *truncateOp) timeout() {
	op.deliver(func() truncateEffects {
		if op.truncation.Phase == TruncationEnd {
			// All rows are gone; only the announcement is missing.
			return op.conclude(nil)
		}
		var node ring.NodeID
		if len(op.waiting) > 0 {
			// The error names one of the nodes that have not answered.
			node = op.waiting[0]
		}
		return op.conclude(&TruncateFailure{Node: node, Cause: ErrNoReply})
	})
}

// conclude ends the operation: it answers, and informs the nodes of a failure if they were asked.
func (op *truncateOp) conclude(err error) truncateEffects {
	e := truncateEffects{
		done:  op.done,
		err:   err,
		timer: op.timer,
		abort: err != nil && op.plan > 0,
		order: op.truncation,
	}
	// Later events see that done is nil, and are ignored.
	op.done, op.timer = nil, nil
	return e
}

// truncating is a node's knowledge of the truncations of tables. The zero value contains none.
type truncating struct {
	mu     sync.Mutex
	loaded bool // those of an earlier process are known
	tables map[schema.StorageID]truncationMark
	// numbers identify the last truncations. Hints and logged batches with marks up to them are void.
	numbers map[schema.StorageID]truncationNumber
	highest int64 // of numbers
	// Records are written one after the other, so that the one on disk is the latest.
	queued  []func()
	writing bool
}

// truncationMark is the last truncation of a table that this node has prepared.
type truncationMark struct {
	id    uint64
	until time.Duration // reads that began up to then (monotonic) repair nothing
}

// truncationNumber is the number of the last truncation of a table that this node has recorded.
type truncationNumber struct {
	number int64
	voids  bool          // it was recorded in this process
	at     time.Duration // hints of writes that began up to then (monotonic) are void, if voids
}

// The local key and value of a truncation that this node has prepared:
//
//	hint-truncated/ table 4   → number 8, id 8 (0 when it has ended)
const truncatedPrefix = "hint-truncated/"

// TruncationsKnown reads the truncations of an earlier process, unless they are known, and reports whether they are
// known. It may wait for the disk. A node must not store hints or logged batches before.
func (c *Coordinator) TruncationsKnown() bool {
	t := &c.truncating
	t.mu.Lock()
	// Without a store, nothing survives a restart.
	loaded := t.loaded || c.store == nil
	t.mu.Unlock()
	if loaded {
		return true
	}
	// Read without the lock, because storage may wait.
	numbers, marks := map[schema.StorageID]int64{}, map[schema.StorageID]uint64{}
	err := c.store.ScanLocal([]byte(truncatedPrefix), func(key, value []byte) error {
		k, v := wire.NewCursor(key[len(truncatedPrefix):]), wire.NewCursor(value)
		table := schema.StorageID(k.Uint32())
		numbers[table] = v.Int64()
		// A truncation that was in progress when the process ended may still be so on other nodes.
		if id := v.Uint64(); v.Err() == nil && id != 0 {
			marks[table] = id
		}
		return nil
	})
	if err != nil {
		c.report(err)
		return false
	}
	until := c.clock.Monotonic() + c.limits.TruncationMost
	t.mu.Lock()
	defer t.mu.Unlock()
	// Another goroutine has loaded them meanwhile.
	if t.loaded {
		return true
	}
	t.loaded = true
	for table, number := range numbers {
		t.recordLocked(table, truncationNumber{number: number})
	}
	for table, id := range marks {
		t.markLocked(table, truncationMark{id, until})
	}
	return true
}

// last returns the number of the last truncation of a table, and whether there is one.
func (t *truncating) last(table schema.StorageID) (number int64, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n, ok := t.numbers[table]
	return n.number, ok
}

// mark returns the mark of a mutation that is stored now.
func (t *truncating) mark() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	// Statement 2 in replay.go.
	return t.highest + 1
}

// hintMark returns the mark of a hint for a write that began at a monotonic time. The hint is void if a truncation was
// recorded since.
func (t *truncating) hintMark(table schema.StorageID, began time.Duration) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n, ok := t.numbers[table]; ok && n.voids && began <= n.at {
		// Statement 3: void at once, because the write began before the truncation.
		return n.number
	}
	return t.highest + 1
}

// next returns the number of a truncation, which is at least now (ns since 1970).
func (t *truncating) next(now int64) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	// Statement 1: greater than all numbers, and not before records of earlier versions.
	return max(now, t.highest+1)
}

// record records a truncation whose number is on disk.
func (t *truncating) record(table schema.StorageID, number int64, at time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.recordLocked(table, truncationNumber{number, true, at})
}

// recordLocked records the number of a truncation. Numbers never go back.
func (t *truncating) recordLocked(table schema.StorageID, n truncationNumber) {
	if t.numbers == nil {
		t.numbers = map[schema.StorageID]truncationNumber{}
	}
	n.number = max(n.number, t.numbers[table].number)
	t.numbers[table] = n
	t.highest = max(t.highest, n.number)
}

// markLocked sets the last truncation that was prepared.
func (t *truncating) markLocked(table schema.StorageID, mark truncationMark) {
	if t.tables == nil {
		t.tables = map[schema.StorageID]truncationMark{}
	}
	t.tables[table] = mark
}

// prepare records that a truncation begins; its end is expected until a monotonic time at the latest.
func (t *truncating) prepare(table schema.StorageID, id uint64, until time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.markLocked(table, truncationMark{id, until})
}

// recordEnd records that a truncation has ended, and reports whether it is the last one prepared. If a later one was
// prepared, that one determines the end.
func (t *truncating) recordEnd(table schema.StorageID, id uint64, now time.Duration) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	mark, ok := t.tables[table]
	if !ok || mark.id != id {
		return false
	}
	// The mark stays: reads that began before the end have perhaps seen dropped rows.
	t.tables[table] = truncationMark{id, min(mark.until, now)}
	return true
}

// covers reports whether a read of the table that began at a (monotonic) time may have seen rows that a truncation
// drops.
func (t *truncating) covers(table schema.StorageID, began time.Duration) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	mark, ok := t.tables[table]
	// Until the end is known, until is in the future.
	return ok && began <= mark.until
}

// errTruncationsUnknown fails a truncation on a node that cannot read the records of its earlier truncations.
var errTruncationsUnknown = errors.New("coordinator: the truncations of an earlier process cannot be read")

// voidStored makes all hints and logged batches of the table void that this node has stored. Its number is on disk
// before a hint or batch depends on it: after a crash, a later truncation could otherwise get a number that is too
// small. It runs in serially.
func (c *Coordinator) voidStored(t Truncation) error {
	now := c.clock.Now().UnixNano()
	number := c.truncating.next(now)
	// The number is written to disk before it becomes visible in memory, because marks depend on it.
	if err := c.saveTruncation(t.Table, number, t.ID); err != nil {
		return err
	}
	c.truncating.record(t.Table, number, c.clock.Monotonic())
	return nil
}

// saveTruncation stores the number of a truncation and the ID of the one in progress.
func (c *Coordinator) saveTruncation(table schema.StorageID, number int64, underWay uint64) error {
	if c.store == nil {
		return nil
	}
	key := wire.AppendUint32([]byte(truncatedPrefix), uint32(table))
	// Synced: the number must survive a crash.
	return c.store.SetLocal(key, wire.AppendUint64(wire.AppendInt64(nil, number), underWay), true)
}

// FollowTruncation executes this node's part of a truncation in its role as a coordinator. To prepare, it makes the
// hints and logged batches for the table void, and calls done when all writes, batches, hints and read repairs that
// this node had sent before are answered or have timed out: no other node receives any of them after it has truncated.
// To apply, before the rows are dropped, it makes those void that were stored since.
func (c *Coordinator) FollowTruncation(t Truncation, done func(error)) {
	now := c.clock.Monotonic()
	if !c.TruncationsKnown() {
		done(errTruncationsUnknown)
		return
	}
	if t.Phase == TruncationPrepare {
		// prepare does not wait in the queue of records: from now on reads must not repair.
		c.truncating.prepare(t.Table, t.ID, now+c.limits.TruncationMost)
	}
	c.truncating.serially(func() {
		var err error
		switch {
		case t.Phase != TruncationEnd:
			err = c.voidStored(t)
		// The end is stored only for the last truncation, so that a late message does not hide the one in progress.
		case c.truncating.recordEnd(t.Table, t.ID, now):
			number, _ := c.truncating.last(t.Table)
			err = c.saveTruncation(t.Table, number, 0)
		}
		if err != nil || t.Phase != TruncationPrepare {
			done(err)
			return
		}
		// Writes that this node sends from now on need not be waited for: they are after the truncation.
		c.sent.Wait(func() { done(nil) })
	})
}

// serially calls f when all functions that were given to it before have returned: now, or in another call of serially.
func (t *truncating) serially(f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.queued = append(t.queued, f)
	// The goroutine that is in the loop below calls f.
	if t.writing {
		return
	}
	t.writing = true
	defer func() { t.writing = false }()
	for len(t.queued) > 0 {
		// Released during f, which waits for the disk; writing keeps other callers out.
		f, t.queued = t.queued[0], t.queued[1:]
		func() {
			t.mu.Unlock()
			defer t.mu.Lock()
			f()
		}()
	}
}

// Truncating reports whether this node knows of a truncation of the table in progress; until its end, replicas cannot
// be compared. A node that does not receive the end waits for Limits.TruncationMost.
func (c *Coordinator) Truncating(table schema.StorageID) bool {
	return c.truncating.covers(table, c.clock.Monotonic())
}

// truncatedSince reports whether this node knows of a truncation of the table that is in progress, or happened since a
// monotonic time. It does not compare wall-clock times: a clock that was ahead during a truncation would make it true
// until time has caught up.
func (c *Coordinator) truncatedSince(table schema.StorageID, began time.Duration) bool {
	return c.truncating.covers(table, began)
}
