package storage

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/storage/failure"
	"cqld/storage/latch"
	"cqld/storage/rowkey"
)

// Apply applies mutations atomically: after a crash either all of them or none are part of the data. It copies them
// and returns without waiting for the disk. An error means that nothing was applied and that done is not called:
// failure.ErrDiskFull, failure.ErrOverloaded, failure.ErrInvalid, failure.ErrStopped or *failure.UnknownTable. Otherwise done is called once, on another
// goroutine: with nil when the mutations are committed and, if durable, as safe as the engine's SyncMode makes them.
// A caller may therefore hold a lock that done takes. done must not block, and may call Apply. An engine with
// Options.Inline calls done before Apply returns.
func (e *Engine) Apply(ms []*row.Mutation, durable bool, done func(error)) error {
	return e.take(ms, durable, takeAndWake, done)
}

// Forget is Apply for mutations that accompany the removal of data: a disk with little free space accepts them, too.
func (e *Engine) Forget(ms []*row.Mutation, durable bool, done func(error)) error {
	return e.take(ms, durable, takeAndWake|takeFull, done)
}

// takeMode contains flags that determine how mutations are queued.
type takeMode uint8

const (
	takeAndWake takeMode = 1 << iota // wake the committer
	takeFull                         // accept them although the disk is full
)

// Queue is Apply for a caller that calls Commit soon after, when it can wait for the disk. Queued mutations may stay
// uncommitted until then.
func (e *Engine) Queue(ms []*row.Mutation, durable bool, done func(error)) error {
	return e.take(ms, durable, 0, done)
}

// Commit commits the queued mutations. If no commit is running, Commit runs in the caller's goroutine, which saves
// two goroutine switches; otherwise the running committer picks the mutations up. It may take as long as a sync, and
// may call done functions of other callers. The caller must not hold a lock that one of those may take.
func (e *Engine) Commit() {
	q := &e.queue
	q.Lock()
	defer q.Unlock()
	if q.committing || len(q.groups) == 0 {
		return
	}
	e.commitFirst()
	if len(q.groups) > 0 || q.syncDue || q.closing {
		q.wake.Signal() // this caller has waited long enough
	}
}

// take implements Apply, Forget and Queue.
func (e *Engine) take(ms []*row.Mutation, durable bool, mode takeMode, done func(error)) error {
	if err := e.db.Err(); err != nil {
		return err
	}
	if e.disk.Full() && mode&takeFull == 0 {
		e.counters.refused.Add(1)
		return failure.ErrDiskFull
	}
	size := 0
	for _, m := range ms {
		n, newest, err := checkMutation(m)
		if err != nil {
			return fmt.Errorf("%w mutation of table %s: %w", failure.ErrInvalid, e.nameOf(m.Table), err)
		}
		e.bounds.Note(m.Table, m.Key.Token, newest)
		size += n
	}
	e.counters.writes.Add(int64(len(ms)))
	durable = durable && e.waitsForDisk(ms)
	if e.opts.Inline {
		return e.applyInline(ms, durable, done)
	}
	return e.enqueue(ms, size, durable, mode&takeAndWake != 0, done)
}

// waitsForDisk reports whether a durable write of ms waits for an fsync.
func (e *Engine) waitsForDisk(ms []*row.Mutation) bool {
	switch e.opts.Sync {
	case SyncBatch:
		return true
	case SyncPeriodic:
		for _, m := range ms {
			if e.opts.Table(m.Table).AlwaysSync {
				return true
			}
		}
	}
	return false
}

// enqueue adds mutations to the next group, and wakes the committer if requested and necessary.
func (e *Engine) enqueue(ms []*row.Mutation, size int, durable, wake bool, done func(error)) (err error) {
	q := &e.queue
	q.Lock()
	defer q.Unlock()
	defer e.db.Recover(&err) // a group with a part of a mutation must not be committed
	if q.closing {
		return failure.ErrStopped
	}
	if q.bytes+size > e.opts.PendingBytes && q.bytes > 0 {
		e.counters.refused.Add(1)
		return failure.ErrOverloaded
	}
	if err := e.checkDropped(ms); err != nil {
		return err
	}
	g := e.filling(size)
	for _, m := range ms {
		e.add(g, m)
	}
	q.bytes += size
	g.bytes += size
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
func (e *Engine) checkDropped(ms []*row.Mutation) error {
	if e.dropped.Empty() {
		return nil
	}
	for _, m := range ms {
		if e.dropped.Contains(m.Table) {
			return &failure.UnknownTable{Table: m.Table}
		}
	}
	return nil
}

// isDropped reports whether DropTable has begun to remove the table.
func (e *Engine) isDropped(id schema.StorageID) bool { return e.dropped.Contains(id) }

// filling returns the group to which size bytes can be added. The queue is locked.
func (e *Engine) filling(size int) *group {
	q := &e.queue
	if n := len(q.groups); n > 0 && (q.groups[n-1].batch.Len()+size <= groupBytesMax) {
		return q.groups[n-1]
	}
	g := e.newGroup()
	q.groups = append(q.groups, g)
	return g
}

// newGroup returns an empty group. The queue, or inline, is locked.
func (e *Engine) newGroup() *group {
	q := &e.queue
	if n := len(q.spare); n > 0 {
		g := q.spare[n-1]
		q.spare = q.spare[:n-1]
		return g
	}
	return &group{batch: e.db.NewBatch(pebble.WithMaxRetainedSizeBytes(groupBytesKept))}
}

// giveBack keeps a group, and the memory of its batch, for reuse. The queue is locked.
func (e *Engine) giveBack(g *group) {
	g.reset()
	if q := &e.queue; len(q.spare) < groupsKept {
		q.spare = append(q.spare, g)
	}
}

// commitLoop is the loop of the committer: while one group waits for its fsync, the next one fills.
func (e *Engine) commitLoop() {
	q := &e.queue
	var err error // of a panic, after which the engine has failed
	q.Lock()
	defer q.Unlock()
	defer e.db.Recover(&err)
	for {
		for q.committing || len(q.groups) == 0 && !q.closing && !q.syncDue {
			q.wake.Wait()
		}
		if len(q.groups) == 0 && !q.syncDue {
			return
		}
		if len(q.groups) > 0 {
			e.commitFirst()
		}
		if q.syncDue {
			q.syncDue = false
			q.Unlock()
			e.syncLog()
			q.Lock()
		}
	}
}

// commitFirst commits the first group. The queue is locked, but not during the commit, in which no other goroutine
// commits.
func (e *Engine) commitFirst() {
	q := &e.queue
	g := q.groups[0]
	q.groups = slices.Delete(q.groups, 0, 1)
	q.committing = true
	q.Unlock()
	func() {
		defer q.Lock() // also after a panic, because the caller unlocks it
		e.commit(g)
	}()
	q.committing = false
	q.bytes -= g.bytes
	e.giveBack(g)
}

// applyInline commits in the caller's goroutine and calls done there.
func (e *Engine) applyInline(ms []*row.Mutation, durable bool, done func(error)) error {
	e.queue.Lock()
	err := e.checkDropped(ms)
	var g *group
	if err == nil {
		g = e.newGroup()
		for _, m := range ms {
			e.add(g, m)
		}
		g.sync = durable
		g.synced = append(g.synced, done)
	}
	e.queue.Unlock()
	if err != nil {
		return err
	}
	e.inline.Lock()
	result := e.commitBatch(g)
	e.inline.Unlock()
	done(result)
	e.queue.Lock()
	e.giveBack(g)
	e.queue.Unlock()
	return nil
}

// commit commits a group and calls its callbacks.
func (e *Engine) commit(g *group) {
	if len(g.early) == 0 {
		e.notify(g.synced, e.commitBatch(g))
		return
	}
	if err := e.publish(g); err != nil {
		e.notify(g.early, err)
		e.notify(g.synced, err)
		return
	}
	e.notify(g.early, nil)
	e.notify(g.synced, e.await(g))
}

// commitBatch makes the group's batch visible and, if required, waits until it is on disk.
func (e *Engine) commitBatch(g *group) error {
	if err := e.publish(g); err != nil {
		return err
	}
	return e.await(g)
}

// publish makes the group's batch visible, under the latches of its partitions.
func (e *Engine) publish(g *group) (err error) {
	e.disk.Use()
	if err := e.db.Err(); err != nil {
		return err
	}
	began := e.opts.Clock.Monotonic()
	e.latches.RLock(g.stripes)
	latch := e.opts.Clock.Monotonic() - began
	defer func() { e.pauses.Note(e.opts.Clock.Monotonic()-began, latch, g.batch.CommitStats()) }()
	defer e.latches.RUnlock(g.stripes)
	defer func() { e.settle(err) }()
	defer e.db.Recover(&err)
	e.watched.note(g.tokens)
	if g.ceilings, err = e.bounds.Raise(g.batch, g.tables...); err != nil {
		return failure.Of(err)
	}
	e.enter(g)
	if g.sync {
		g.began = e.opts.Clock.Monotonic()
		err = e.db.ApplyNoSyncWait(g.batch, pebble.Sync)
	} else {
		err = e.db.Apply(g.batch, pebble.NoSync)
	}
	if err != nil {
		return failure.Of(err)
	}
	e.headers.Persisted(g.headers)
	g.ceilings.Committed()
	e.sweeper.dead.Suspect(g.deleted)
	return e.db.Err()
}

// await waits until the group is on disk, if a caller requires that, and empties its batch. The batch of a failed
// group is not reused.
func (e *Engine) await(g *group) (err error) {
	defer e.db.Recover(&err)
	if g.sync {
		if err := g.batch.SyncWait(); err != nil {
			e.db.Fail(fmt.Errorf("fsync of the log: %w", err))
		}
		e.counters.syncs.Add(1)
		took := e.opts.Clock.Monotonic() - g.began
		e.slowSyncs.Note(took)
		if took >= slowSync {
			e.opts.Logger.Warn("storage: slow disk delayed writes", "took", took.Round(time.Millisecond))
		}
	}
	if err := e.db.Err(); err != nil {
		return err
	}
	g.batch.Reset()
	g.committed = true
	return nil
}

// armPeriodic schedules an fsync after SyncPeriod, and another one after each.
func (e *Engine) armPeriodic() {
	q := &e.queue
	q.Lock()
	defer q.Unlock()
	if q.closing {
		return
	}
	q.periodic = e.opts.Clock.After(e.opts.SyncPeriod, func() {
		q.Lock()
		q.syncDue = true
		q.wake.Signal()
		q.Unlock()
		e.armPeriodic()
	})
}

// syncLog syncs commits that did not wait for the disk.
func (e *Engine) syncLog() {
	err := e.db.Err()
	if err != nil {
		return
	}
	defer e.db.Recover(&err)
	if err = e.db.LogData(nil, pebble.Sync); err != nil {
		e.db.Fail(fmt.Errorf("fsync of the log: %w", err))
	}
}

// Truncate removes all data of a table that was applied before, and frees its space soon after. A full disk does not
// refuse it.
func (e *Engine) Truncate(id schema.StorageID) error {
	return e.truncate(id, false)
}

// truncate is Truncate, and the removal of a dropped table.
func (e *Engine) truncate(id schema.StorageID, drop bool) error {
	err := e.removeTable(id, drop)
	if err == nil {
		e.reclaim(rowkey.AppendTable(nil, id), rowkey.AppendTableEnd(nil, id))
	}
	return err
}

func (e *Engine) removeTable(id schema.StorageID, drop bool) error {
	if err := e.db.Err(); err != nil {
		return err
	}
	return e.removeLatched(func(b *pebble.Batch) error {
		e.remove(b, id, ring.FullRange())
		if drop {
			for _, m := range e.maintainers {
				m.Drop(Derived{batch: b, space: m.space}, id)
			}
		}
		return b.DeleteRange(rowkey.AppendTable(nil, id), rowkey.AppendTableEnd(nil, id), nil)
	})
}

// removeLatched commits the removals that fill adds to a batch, under the write latches of all partitions: the purger
// must not apply a deletion that is gone, and no collapse may write back a row that it read before. It waits for the
// disk after it has released them, so that commits do not.
func (e *Engine) removeLatched(fill func(*pebble.Batch) error) (err error) {
	defer e.db.Recover(&err)
	batch := e.db.NewBatch()
	published, err := e.publishLatched(batch, fill)
	if published && err == nil {
		err = batch.SyncWait()
	}
	if failed := e.db.Err(); failed != nil {
		return failed
	}
	return failure.Of(errors.Join(err, batch.Close()))
}

// publishLatched makes the removals that fill adds to a batch visible. published means that the batch has any; its
// caller waits for the disk.
func (e *Engine) publishLatched(batch *pebble.Batch, fill func(*pebble.Batch) error) (published bool, err error) {
	e.sweeper.mu.Lock()
	defer e.sweeper.mu.Unlock()
	e.sweeper.forget()
	e.latches.Lock(latch.AllStripes)
	defer e.latches.Unlock(latch.AllStripes)
	if err := fill(batch); err != nil || batch.Empty() {
		return false, err
	}
	return true, e.db.ApplyNoSyncWait(batch, pebble.Sync)
}

// DropTable removes a table for ever. Later writes get *failure.UnknownTable, and so do reads that end later: they may have
// read a part of the table.
func (e *Engine) DropTable(id schema.StorageID) error {
	e.queue.Lock()
	e.dropped.Add(id)
	e.queue.Unlock()
	// What was queued before is committed before the truncation.
	if err := e.drain(); err != nil {
		return err
	}
	return e.truncate(id, true)
}

// drain waits until everything queued so far is committed.
func (e *Engine) drain() error {
	if e.opts.Inline {
		return nil
	}
	committed := make(chan error, 1)
	if err := e.enqueue(nil, 0, false, true, func(err error) { committed <- err }); err != nil {
		return err
	}
	return <-committed
}
