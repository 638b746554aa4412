package storage

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"cqld/internal/env"
	"cqld/internal/invariant"
	"cqld/row"
	"cqld/storage/failure"
	"cqld/storage/pause"
)

// committer commits mutations in groups: those that arrive while one group waits for its fsync share the next fsync.
type committer struct {
	*core
	queue queue
	// inline serializes commits of an engine without a committer.
	inline sync.Mutex
	// pauses counts commits, and waits for their fsync, that took long.
	pauses    pause.Counts
	slowSyncs pause.Durations
}

// queue contains the groups that wait for the committer, or for a caller of Commit.
type queue struct {
	sync.Mutex
	wake   *sync.Cond
	groups []*group // the last group is being filled
	spare  []*group
	bytes  int // of the mutations in groups, and in the group that is being committed
	// committing means that a goroutine is committing a group; it or the committer continues with the next.
	committing bool
	syncDue    bool
	closing    bool
	periodic   env.Timer
}

// Apply applies mutations atomically: after a crash either all of them or none are part of the data. It copies them
// and returns without waiting for the disk. An error means that nothing was applied and that done is not called:
// failure.ErrDiskFull, failure.ErrOverloaded, failure.ErrInvalid, failure.ErrStopped or *failure.UnknownTable.
// Otherwise done is called once, on another goroutine: with nil when the mutations are committed and, if durable, as
// safe as the engine's SyncMode makes them. A caller may therefore hold a lock that done takes. done must not block,
// and may call Apply. An engine with Options.Inline calls done before Apply returns.
func (e *Engine) Apply(ms []*row.Mutation, durable bool, done func(error)) error {
	return e.commits.take(ms, durable, takeAndWake, done)
}

// Forget is Apply for mutations that accompany the removal of data: a disk with little free space accepts them, too.
func (e *Engine) Forget(ms []*row.Mutation, durable bool, done func(error)) error {
	return e.commits.take(ms, durable, takeAndWake|takeFull, done)
}

// takeMode is a set of flags that determine how mutations are queued.
type takeMode uint8

const (
	takeAndWake takeMode = 1 << iota // wake the committer
	takeFull                         // accept them although the disk is full
)

// Queue is Apply for a caller that calls Commit soon after, when it can wait for the disk. Queued mutations may stay
// uncommitted until then.
func (e *Engine) Queue(ms []*row.Mutation, durable bool, done func(error)) error {
	return e.commits.take(ms, durable, 0, done)
}

// Commit commits the queued mutations. If no commit is running, Commit runs in the caller's goroutine, which saves
// two goroutine switches; otherwise the running committer picks the mutations up. It may take as long as a sync, and
// may call done functions of other callers. The caller must not hold a lock that one of those may take.
func (e *Engine) Commit() { e.commits.commitNow() }

// take implements Apply, Forget and Queue.
func (c *committer) take(ms []*row.Mutation, durable bool, mode takeMode, done func(error)) error {
	// After a failure no write is ever acknowledged, so none may be accepted.
	if err := c.db.Err(); err != nil {
		return err
	}
	// Writes to a full disk are refused before they are queued, so that the caller knows that nothing was applied.
	if c.disk.Full() && mode&takeFull == 0 {
		c.counters.refused.Add(1)
		return failure.ErrDiskFull
	}
	size := 0
	for _, m := range ms {
		// All mutations are checked before the first is copied: a batch cannot be rolled back.
		n, newest, err := checkMutation(m)
		if err != nil {
			return fmt.Errorf("%w mutation of table %s: %w", failure.ErrInvalid, c.nameOf(m.Table), err)
		}
		// Invariant 1 of package bounds: the timestamp is noted before the row can be committed.
		c.bounds.Note(m.Table, m.Key.Token, newest)
		size += n
	}
	c.counters.writes.Add(int64(len(ms)))
	// In the modes without a wait, durable writes are acknowledged with the others.
	durable = durable && c.waitsForDisk(ms)
	// The simulation has no goroutine that would commit later.
	if c.opts.Inline {
		return c.applyInline(ms, durable, done)
	}
	return c.enqueue(ms, size, durable, mode&takeAndWake != 0, done)
}

// waitsForDisk reports whether a durable write of ms waits for an fsync.
func (c *committer) waitsForDisk(ms []*row.Mutation) bool {
	switch c.opts.Sync {
	case SyncBatch:
		return true
	case SyncPeriodic:
		// One table that needs the disk makes the whole write wait: it is atomic.
		for _, m := range ms {
			if c.opts.Table(m.Table).AlwaysSync {
				return true
			}
		}
	}
	return false
}

// enqueue adds mutations to the next group, and wakes the committer if requested and necessary.
func (c *committer) enqueue(ms []*row.Mutation, size int, durable, wake bool, done func(error)) (err error) {
	q := &c.queue
	q.Lock()
	defer q.Unlock()
	defer c.db.Recover(&err) // a group with a part of a mutation must not be committed
	if q.closing {
		return failure.ErrStopped
	}
	// An empty queue accepts a mutation of any size: otherwise a large one could never be written.
	if q.bytes+size > c.opts.PendingBytes && q.bytes > 0 {
		c.counters.refused.Add(1)
		return failure.ErrOverloaded
	}
	// Checked with the queue locked, as DropTable adds to the dropped tables: mutations that pass here are committed
	// before the table is emptied.
	if err := c.checkDropped(ms); err != nil {
		return err
	}
	g := c.filling(size)
	for _, m := range ms {
		c.add(g, m)
	}
	q.bytes += size
	g.bytes += size
	invariant.Check(g.bytes <= q.bytes, "storage: a group has more bytes than the queue")
	// One durable write makes the group wait for the disk. The others are acknowledged before it.
	if durable {
		g.sync = true
		g.synced = append(g.synced, done)
	} else {
		g.early = append(g.early, done)
	}
	if wake && !q.committing { // a running committer checks the queue again
		q.wake.Signal()
	}
	return nil
}

// checkDropped returns *failure.UnknownTable if a mutation is for a dropped table. The queue is locked.
func (c *committer) checkDropped(ms []*row.Mutation) error {
	if c.dropped.Empty() {
		return nil
	}
	for _, m := range ms {
		if c.isDropped(m.Table) {
			return &failure.UnknownTable{Table: m.Table}
		}
	}
	return nil
}

// filling returns the group to which size bytes can be added. The queue is locked.
func (c *committer) filling(size int) *group {
	q := &c.queue
	// Only the last group may grow, so that groups are committed in the order of their mutations.
	if n := len(q.groups); n > 0 && (q.groups[n-1].batch.Len()+size <= groupBytesMax) {
		return q.groups[n-1]
	}
	// The last group is full and waits for the committer, so a new one is begun.
	g := c.newGroup()
	q.groups = append(q.groups, g)
	return g
}

// newGroup returns an empty group. The queue, or inline, is locked.
func (c *committer) newGroup() *group {
	q := &c.queue
	if n := len(q.spare); n > 0 {
		g := q.spare[n-1]
		q.spare = q.spare[:n-1]
		// A reused group must be empty: a leftover callback would be called twice, and a leftover mutation applied
		// twice.
		invariant.Check(len(g.early)+len(g.synced) == 0 && g.bytes == 0, "storage: a spare group is not empty")
		invariant.Check(g.batch == nil || g.batch.Empty(), "storage: the batch of a spare group is not empty")
		return g
	}
	return &group{batch: c.db.NewBatch(pebble.WithMaxRetainedSizeBytes(groupBytesKept))}
}

// giveBack keeps a group, and the memory of its batch, for reuse. The queue is locked.
func (c *committer) giveBack(g *group) {
	// Callbacks are cleared at once: they hold the requests of clients.
	g.reset()
	// Further groups are left to the garbage collector, with up to groupBytesKept each.
	if q := &c.queue; len(q.spare) < groupsKept {
		q.spare = append(q.spare, g)
	}
}

// commitNow commits the first group in the caller's goroutine, unless there is none or another goroutine is committing.
func (c *committer) commitNow() {
	// The caller commits only one group: it has requests of its own to answer.
	if g := c.takeGroup(); g != nil {
		c.commit(g)
		c.finish(g)
	}
}

// run is the loop of the committer: while one group waits for its fsync, the next one fills.
func (c *committer) run() {
	var err error // set by a panic, after which the engine has failed
	defer c.db.Recover(&err)
	for {
		g, syncDue, ok := c.wait()
		if !ok {
			return
		}
		if g != nil {
			c.commit(g)
			c.finish(g)
		}
		if syncDue {
			c.syncLog()
		}
	}
}

// wait waits until a group can be committed, or the log must be synced. ok is false after Close, when nothing is left.
func (c *committer) wait() (g *group, syncDue, ok bool) {
	q := &c.queue
	q.Lock()
	defer q.Unlock()
	// A caller of Commit that is committing wakes the committer when it has finished.
	for q.committing || len(q.groups) == 0 && !q.closing && !q.syncDue {
		q.wake.Wait()
	}
	if len(q.groups) == 0 && !q.syncDue {
		return nil, false, false
	}
	if len(q.groups) > 0 {
		g = q.popLocked()
	}
	syncDue, q.syncDue = q.syncDue, false
	return g, syncDue, true
}

// takeGroup removes the first group from the queue, or returns nil if there is none or another goroutine is committing.
func (c *committer) takeGroup() *group {
	q := &c.queue
	q.Lock()
	defer q.Unlock()
	if q.committing || len(q.groups) == 0 {
		return nil
	}
	return q.popLocked()
}

// popLocked removes the first group. The caller commits it without the lock, and calls finish; no other goroutine
// commits until then.
func (q *queue) popLocked() *group {
	invariant.Check(!q.committing, "storage: two goroutines commit at the same time")
	g := q.groups[0]
	q.groups = slices.Delete(q.groups, 0, 1)
	q.committing = true
	return g
}

// finish ends the commit of a group that popLocked returned. It wakes the committer if more groups are queued,
// because a caller of Commit commits only one.
func (c *committer) finish(g *group) {
	q := &c.queue
	q.Lock()
	defer q.Unlock()
	invariant.Check(q.committing, "storage: a commit ended that had not begun")
	q.committing = false
	q.bytes -= g.bytes
	// Bytes that are never released would refuse writes forever; bytes released twice would let the queue grow
	// without a bound.
	if q.bytes < 0 || len(q.groups) == 0 && q.bytes != 0 {
		invariant.Fail(fmt.Sprintf("storage: %d bytes are in a queue of %d groups", q.bytes, len(q.groups)))
	}
	c.giveBack(g)
	if len(q.groups) > 0 || q.syncDue || q.closing {
		q.wake.Signal()
	}
}

// applyInline commits in the caller's goroutine and calls done there.
func (c *committer) applyInline(ms []*row.Mutation, durable bool, done func(error)) error {
	// The lock protects the spare groups, and excludes DropTable as in enqueue.
	c.queue.Lock()
	err := c.checkDropped(ms)
	var g *group
	if err == nil {
		g = c.newGroup()
		for _, m := range ms {
			c.add(g, m)
		}
		g.sync = durable
		g.synced = append(g.synced, done)
	}
	c.queue.Unlock()
	if err != nil {
		return err
	}
	c.inline.Lock()
	// Guarantee 3 of Maintainer: commits are serialized.
	result := c.commitBatch(g)
	c.inline.Unlock()
	// No lock is held, because done may call Apply.
	done(result)
	c.queue.Lock()
	c.giveBack(g)
	c.queue.Unlock()
	return nil
}

// commit commits a group and calls its callbacks.
func (c *committer) commit(g *group) {
	// No caller waits for visibility only, so one notification after the sync is enough.
	if len(g.early) == 0 {
		c.notify(g.synced, c.commitBatch(g))
		return
	}
	if err := c.publish(g); err != nil {
		c.notify(g.early, err)
		c.notify(g.synced, err)
		return
	}
	// These writes do not wait for the disk.
	c.notify(g.early, nil)
	c.notify(g.synced, c.await(g))
}

// commitBatch makes the group's batch visible and, if required, waits until it is on disk.
func (c *committer) commitBatch(g *group) error {
	if err := c.publish(g); err != nil {
		return err
	}
	return c.await(g)
}

// publish makes the group's batch visible, under the latches of its partitions.
func (c *committer) publish(g *group) (err error) {
	// Use wakes the watcher of free space, which rests while nothing is written.
	c.disk.Use()
	if err := c.db.Err(); err != nil {
		return err
	}
	// The durations are measured in the order in which a commit waits: for the latch, Pebble, the disk.
	began := c.opts.Clock.Monotonic()
	c.latches.RLock(g.stripes)
	latch := c.opts.Clock.Monotonic() - began
	defer func() { c.pauses.Note(c.opts.Clock.Monotonic()-began, latch, g.batch.CommitStats()) }()
	defer c.latches.RUnlock(g.stripes)
	// settle runs under the latches, even after a panic, because maintainers must learn how each commit ended.
	defer func() { c.derived.settle(err) }()
	defer c.db.Recover(&err)
	// The purger is notified under the latch before the batch is visible, so that it keeps the tombstones of these
	// partitions.
	c.purger.Note(g.tokens)
	if g.ceilings, err = c.bounds.Raise(g.batch, g.tables...); err != nil {
		return failure.Of(err)
	}
	invariant.Check(!g.committed, "storage: a group is committed twice")
	c.derived.enter(g)
	if g.sync {
		// The batch is visible when ApplyNoSyncWait returns; await waits for the disk without the latches.
		g.began = c.opts.Clock.Monotonic()
		err = c.db.ApplyNoSyncWait(g.batch, pebble.Sync)
	} else {
		err = c.db.Apply(g.batch, pebble.NoSync)
	}
	if err != nil {
		return failure.Of(err)
	}
	// Later batches of these tables need not set the flag.
	c.headers.Persisted(g.headers)
	g.ceilings.Committed()
	// Only committed deletions are recorded: a failed one must not remove rows.
	c.dead.Suspect(g.deleted)
	return c.db.Err()
}

// await waits until the group is on disk, if a caller requires that, and empties its batch. The batch of a failed
// group is not reused.
func (c *committer) await(g *group) (err error) {
	defer c.db.Recover(&err)
	if g.sync {
		// A failed fsync is never retried: the kernel may have dropped the pages.
		if err := g.batch.SyncWait(); err != nil {
			c.db.Fail(fmt.Errorf("fsync of the log: %w", err))
		}
		c.counters.syncs.Add(1)
		took := c.opts.Clock.Monotonic() - g.began
		c.slowSyncs.Note(took)
		if took >= slowSync {
			c.opts.Logger.Warn("slow disk delayed writes", "took", took.Round(time.Millisecond))
		}
	}
	if err := c.db.Err(); err != nil {
		return err
	}
	// Pebble has released the batch, so its memory can be used again.
	g.batch.Reset()
	g.committed = true
	return nil
}

// close refuses further mutations, and lets the committer end when the queue is empty.
func (c *committer) close() {
	q := &c.queue
	q.Lock()
	defer q.Unlock()
	q.closing = true
	if q.periodic != nil {
		q.periodic.Stop()
	}
	q.wake.Broadcast()
}

// armPeriodic schedules an fsync after SyncPeriod, and another one after each.
func (c *committer) armPeriodic() {
	q := &c.queue
	q.Lock()
	defer q.Unlock()
	// Close has stopped the timer, and would not stop a new one.
	if q.closing {
		return
	}
	q.periodic = c.opts.Clock.After(c.opts.SyncPeriod, func() {
		q.Lock()
		// The committer syncs the log, because a timer must not block.
		q.syncDue = true
		q.wake.Signal()
		q.Unlock()
		c.armPeriodic()
	})
}

// syncLog syncs commits that did not wait for the disk.
func (c *committer) syncLog() {
	err := c.db.Err()
	if err != nil {
		return
	}
	defer c.db.Recover(&err)
	// An empty record makes Pebble sync everything before it.
	if err = c.db.LogData(nil, pebble.Sync); err != nil {
		c.db.Fail(fmt.Errorf("fsync of the log: %w", err))
	}
}

// drain waits until everything queued so far is committed.
func (c *committer) drain() error {
	// Without a committer, every Apply commits before it returns.
	if c.opts.Inline {
		return nil
	}
	// The channel is buffered, so that the committer never waits for this goroutine.
	committed := make(chan error, 1)
	if err := c.enqueue(nil, 0, false, true, func(err error) { committed <- err }); err != nil {
		return err
	}
	return <-committed
}
