package repair

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"cqld/coordinator"
	"cqld/internal/invariant"
	"cqld/internal/wire"
	"cqld/ring"
	"cqld/schema"
)

// A chunk is 1/256 of the ring. A chunk of a table is dirty when this node lost a hint for a partition in it, so that a
// replica may lack a write. The dirty chunks of a table are stored as bits:
//
//	dirty/ table 4 → 32 bytes
const dirtyPrefix = "dirty/"

const (
	// dirtyPause is how long lost hints are collected before a repair.
	dirtyPause = time.Second
	// dirtyChunks bounds the chunks of one repair, so that a failure repeats little work.
	dirtyChunks = 16
	// dirtyRetry is the pause after a failed repair. It doubles with each failure, up to AutoOptions.RetryAfter.
	dirtyRetry = 5 * time.Second
)

// chunks is a set of chunks.
type chunks [4]uint64

func (c *chunks) has(i int) bool { return c[i>>6]&(1<<(i&63)) != 0 }
func (c *chunks) add(i int)      { c[i>>6] |= 1 << (i & 63) }
func (c *chunks) remove(i int)   { c[i>>6] &^= 1 << (i & 63) }

// dirty has the dirty chunks of all tables. Any goroutine adds to it.
type dirty struct {
	// The mutex is held for a moment only, because Dirty is called for each lost hint.
	sync.Mutex
	tables  map[schema.StorageID]*dirtyTable
	looking bool // a call of Auto.look is scheduled
}

// dirtyTable has the dirty chunks of one table.
//
// A chunk leaves bits only after a repair that began after the last lost hint of it, or when the table was dropped.
type dirtyTable struct {
	bits     chunks // as stored on disk
	again    chunks // hints lost since the repair under way started
	fails    int
	blocked  time.Duration // monotonic; not repaired before
	notified bool          // the operator was informed that it waits for a node
}

// load reads the chunks that an earlier process stored. The scheduled repair covers records that cannot be read.
func (d *dirty) load(store LocalStore) {
	d.tables = map[schema.StorageID]*dirtyTable{}
	_ = store.ScanLocal([]byte(dirtyPrefix), func(key, value []byte) error {
		k, c := wire.NewCursor(key[len(dirtyPrefix):]), wire.NewCursor(value)
		bits := chunks{c.Uint64(), c.Uint64(), c.Uint64(), c.Uint64()}
		if id := schema.StorageID(k.Uint32()); c.Finish() == nil && k.Finish() == nil {
			d.tables[id] = &dirtyTable{bits: bits}
		}
		return nil
	})
}

// unblock permits the repair of every table at once.
func (d *dirty) unblock() {
	d.Lock()
	defer d.Unlock()
	for _, t := range d.tables {
		t.blocked, t.fails = 0, 0
	}
}

// Dirty records that a hint for a partition was lost. Its range is repaired as soon as all replicas are alive. Dirty is
// cheap if the range is dirty already, and does not block.
func (a *Auto) Dirty(table schema.StorageID, t ring.Token) {
	// A range excludes its start, so token MinToken+1 is the first of chunk 0.
	chunk := int((uint64(t) ^ 1<<63 - 1) >> 56)
	first, look := a.dirty.mark(table, chunk)
	if first {
		a.events.do(func() { a.storeDirty(table) })
	}
	if look {
		a.r.clock.After(dirtyPause, func() {
			a.dirty.Lock()
			a.dirty.looking = false
			a.dirty.Unlock()
			a.events.do(a.startDue)
		})
	}
}

// mark records a lost hint. It reports whether the chunk was not dirty before, and whether a call of look must be
// scheduled.
func (d *dirty) mark(table schema.StorageID, chunk int) (first, look bool) {
	d.Lock()
	defer d.Unlock()
	x := d.tables[table]
	if x == nil {
		x = &dirtyTable{}
		d.tables[table] = x
	}
	// The usual case when many hints are lost.
	if x.again.has(chunk) {
		return false, false
	}
	x.again.add(chunk)
	// It is dirty already; again makes the repair under way, if there is one, leave it dirty.
	if x.bits.has(chunk) {
		return false, false
	}
	x.bits.add(chunk)
	look = !d.looking
	d.looking = true
	return true, look
}

// storeDirty stores the bits of a table without a sync: the scheduled repair covers lost ones. Only events call it.
func (a *Auto) storeDirty(id schema.StorageID) {
	a.dirty.Lock()
	// Copied with the lock: Dirty may change them while they are written.
	var bits chunks
	if t := a.dirty.tables[id]; t != nil {
		bits = t.bits
	}
	// A table without dirty chunks is forgotten, here and on disk.
	if bits == (chunks{}) {
		delete(a.dirty.tables, id)
	}
	a.dirty.Unlock()
	key := binary.BigEndian.AppendUint32([]byte(dirtyPrefix), uint32(id))
	if bits == (chunks{}) {
		_ = a.o.Store.DeleteLocal(key, false)
		return
	}
	var value []byte
	for _, b := range bits {
		value = wire.AppendUint64(value, b)
	}
	_ = a.o.Store.SetLocal(key, value, false)
}

// DirtyTables returns the tables that wait for a repair because hints were lost, sorted.
func (a *Auto) DirtyTables() (out []schema.StorageID) {
	a.dirty.Lock()
	defer a.dirty.Unlock()
	for id := range a.dirty.tables {
		out = append(out, id)
	}
	slices.Sort(out)
	return out
}

// startDirty starts the repair of the first dirty range whose replicas are all alive.
func (a *Auto) startDirty() {
	now := a.r.clock.Monotonic()
	// One repair at a time: a.urgent is set by repairDirty.
	for _, id := range a.DirtyTables() {
		if a.urgent != nil {
			return
		}
		from, to, waits := a.takeDirty(id, now)
		if waits != "" {
			a.o.Note(waits, nil)
		}
		if from < to {
			a.repairDirty(id, from, to)
		}
	}
}

// takeDirty returns the first dirty range of a table that can be repaired now, as chunks [from, to); it is empty when
// there is none. waits describes, once, the nodes for which other ranges wait.
func (a *Auto) takeDirty(id schema.StorageID, now time.Duration) (from, to int, waits string) {
	table := a.r.view.Schema().TableByStorage(id)
	a.dirty.Lock()
	defer a.dirty.Unlock()
	t := a.dirty.tables[id]
	switch {
	case t == nil || now < t.blocked:
		return 0, 0, ""
	case table == nil && !a.r.view.Schema().Dropped(id): // this node has not applied the change that creates it
		return 0, 0, ""
	// The table was dropped, and its chunks with it.
	case table == nil:
		t.bits = chunks{}
		a.events.do(func() { a.storeDirty(id) })
		return 0, 0, ""
	}
	placement := a.r.view.Topology().Placement(table.Replication)
	var dead []ring.NodeID
	ready := func(i int) bool {
		if i == 256 || !t.bits.has(i) {
			return false
		}
		down, moving := a.absent(placement, chunkRange(i, i+1))
		dead = append(dead, down...)
		return len(down) == 0 && !moving
	}
	// Chunks whose replicas are down or change are left for later; they do not hold up the others.
	for from < 256 && !ready(from) {
		from++
	}
	// Hints that are lost from now on may be for writes that the repair has passed.
	for to = from; to < from+dirtyChunks && ready(to); to++ {
		t.again.remove(to)
	}
	if len(dead) > 0 && !t.notified {
		t.notified = true
		waits = fmt.Sprintf("hints for table %s were lost; it is repaired when %s is back", a.r.nameOf(id),
			addresses(a.r.view, dead))
	}
	return from, to, waits
}

// chunkRange returns the tokens of chunks [from, to).
func chunkRange(from, to int) ring.Range {
	return ring.Range{Start: ring.MinToken + ring.Token(uint64(from)<<56), End: ring.MinToken +
		ring.Token(uint64(to)<<56)}
}

// absent returns the replicas of a range that are down, and whether its replicas are changing.
func (a *Auto) absent(p *ring.Placement, tokens ring.Range) (down []ring.NodeID, moving bool) {
	for _, r := range tokens.Unwrap() {
		for _, piece := range p.Ranges(r) {
			moving = moving || len(piece.Replicas.Pending) > 0
			for _, n := range piece.Replicas.Natural {
				if n != a.r.view.Self() && !a.r.view.Alive(n) && !slices.Contains(down, n) {
					down = append(down, n)
				}
			}
		}
	}
	return down, moving
}

// repairDirty repairs a dirty range.
func (a *Auto) repairDirty(id schema.StorageID, from, to int) {
	a.urgent = a.r.Start(Job{Table: id, Range: chunkRange(from, to), PaxosOnly: true, Urgent: true}, nil,
		func(report Report, err error) {
			a.events.do(func() {
				a.urgent = nil
				a.dirtyRepaired(id, from, to, report, err)
			})
		})
}

// dirtyRepaired is the event of the end of a dirty range's repair. Chunks with hints lost meanwhile stay dirty.
func (a *Auto) dirtyRepaired(id schema.StorageID, from, to int, report Report, err error) {
	var unknown *coordinator.UnknownTable
	if errors.As(err, &unknown) {
		err = nil // the table was dropped
	}
	// The result is stored before the next repair begins, so that a crash repeats at most one.
	pause := a.dirty.repaired(id, from, to, err, a.r.clock.Monotonic(), a.o.RetryAfter)
	a.storeDirty(id)
	if a.closed {
		return
	}
	if err != nil || report.Rows > 0 {
		a.o.Note(fmt.Sprintf("repair of table %s, %v, for which hints were lost: %d rows sent", a.r.nameOf(id),
			report.Job.Range, report.Rows), err)
	}
	a.r.clock.After(0, func() { a.events.do(a.startDue) }) // for other tables
	if pause > 0 {
		a.r.clock.After(pause, func() { a.events.do(a.startDue) })
	}
}

// repaired takes the outcome of the repair of chunks [from, to), and returns the pause before the next one. If it
// succeeded, it removes the chunks, except chunks with hints lost since the repair began.
func (d *dirty) repaired(id schema.StorageID, from, to int, err error, now, retryAfter time.Duration,
) (pause time.Duration) {
	d.Lock()
	defer d.Unlock()
	t := d.tables[id]
	switch {
	case t == nil:
		return 0
	case err != nil:
		// The shift is bounded, so that it cannot overflow.
		pause = min(dirtyRetry<<min(t.fails, 10), retryAfter)
		t.fails++
		t.blocked = now + pause
		return pause
	}
	t.fails = 0
	for i := from; i < to; i++ {
		invariant.Check(t.bits.has(i), "repair: a chunk was repaired that was not dirty")
		if t.again.has(i) {
			pause = dirtyPause // hints are still being lost
			continue
		}
		// No hint was lost since the repair of this chunk began.
		t.bits.remove(i)
	}
	t.blocked = now + pause
	return pause
}

// nameOf returns the name of a table for operators.
func (r *Repairer) nameOf(id schema.StorageID) string { return r.view.Schema().NameOf(id) }

// addresses returns the names of nodes for operators.
func addresses(view coordinator.View, nodes []ring.NodeID) string {
	slices.Sort(nodes)
	var out []string
	for _, id := range slices.Compact(nodes) {
		out = append(out, view.Topology().NameOf(id))
	}
	return strings.Join(out, ", ")
}
