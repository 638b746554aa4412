package repair

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"cqld/coordinator"
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

// chunkOf returns the chunk of a token. A range excludes its start, so token MinToken+1 is the first of chunk 0.
func chunkOf(t ring.Token) int { return int((uint64(t) ^ 1<<63 - 1) >> 56) }

// chunkRange returns the tokens of chunks [from, to).
func chunkRange(from, to int) ring.Range {
	return ring.Range{Start: ring.MinToken + ring.Token(uint64(from)<<56), End: ring.MinToken +
		ring.Token(uint64(to)<<56)}
}

// dirtyMachine is the state machine of dirty ranges. A step changes the state and returns effects. It neither waits,
// locks nor calls back, and reads snapshots of the schema and the ring, and which nodes are alive.
//
//	lost hint ──▶ pause, in which further ones are collected ──▶ repair of up to dirtyChunks chunks ──▶ next
//	              ▲                                                                         │
//	              └──── no range can be repaired: replicas are down or change, or the last repair failed
type dirtyMachine struct {
	view    coordinator.View
	o       *AutoOptions
	tables  map[schema.StorageID]*dirtyTable
	task    autoTask
	chunks  chunks        // of task
	pause   uint64        // the number of the pause under way; zero if none is
	due     time.Duration // monotonic; the end of the pause
	numbers uint64        // of effects
	now     time.Duration // of the present event

	started, stopped bool
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

// loadDirty reads the chunks that an earlier process stored. The scheduled repair covers records that cannot be read.
func loadDirty(store LocalStore) map[schema.StorageID]*dirtyTable {
	tables := map[schema.StorageID]*dirtyTable{}
	_ = store.ScanLocal([]byte(dirtyPrefix), func(key, value []byte) error {
		k, c := wire.NewCursor(key[len(dirtyPrefix):]), wire.NewCursor(value)
		bits := chunks{c.Uint64(), c.Uint64(), c.Uint64(), c.Uint64()}
		id := schema.StorageID(k.Uint32())
		if c.Finish() == nil && k.Finish() == nil && bits != (chunks{}) {
			tables[id] = &dirtyTable{bits: bits}
		}
		return nil
	})
	return tables
}

// ids returns the tables with dirty chunks, sorted.
func (m *dirtyMachine) ids() []schema.StorageID { return sortedIDs(m.tables) }

// step takes an event and appends its effects.
func (m *dirtyMachine) step(ev *autoEvent, out []autoEffect) []autoEffect {
	m.now = ev.now
	//exhaustive:enforce
	switch ev.kind {
	case autoStarted:
		m.started = true
		return m.search(out)
	case autoStopped:
		m.stopped, m.pause = true, 0
		return append(out, autoEffect{kind: autoCancel})
	case autoResumed:
		if m.pause == ev.number && m.pause != 0 {
			m.pause = 0
			return m.search(out)
		}
	case autoUnblocked:
		for _, t := range m.tables {
			t.blocked, t.fails = 0, 0
		}
		return m.search(out)
	case autoMoved:
		return m.search(out)
	case autoLost:
		return m.lost(ev, out)
	case autoRepaired:
		if m.task.number == ev.number && m.task.number != 0 {
			return m.repaired(ev, out)
		}
	}
	return out
}

// lost marks the chunk of a lost hint.
func (m *dirtyMachine) lost(ev *autoEvent, out []autoEffect) []autoEffect {
	t := m.tables[ev.table]
	if t == nil {
		t = &dirtyTable{}
		m.tables[ev.table] = t
	}
	// The repair under way, if there is one, leaves the chunk dirty: it may have passed the partition.
	t.again.add(ev.chunk)
	if t.bits.has(ev.chunk) {
		return out
	}
	t.bits.add(ev.chunk)
	out = append(out, t.record(ev.table))
	// When a repair ends, all tables are examined again.
	if !m.started || m.stopped || m.task.number != 0 {
		return out
	}
	return m.resumeAt(m.now+dirtyPause, out)
}

// record returns the effect that stores the bits of a table: the scheduled repair covers lost ones. Without bits, the
// table is forgotten.
func (t *dirtyTable) record(id schema.StorageID) autoEffect {
	e := autoEffect{kind: autoStore, key: binary.BigEndian.AppendUint32([]byte(dirtyPrefix), uint32(id))}
	if t.bits == (chunks{}) {
		return e
	}
	for _, b := range t.bits {
		e.value = wire.AppendUint64(e.value, b)
	}
	return e
}

// search starts the repair of the first dirty range whose replicas are all alive. If there is none, it pauses.
func (m *dirtyMachine) search(out []autoEffect) []autoEffect {
	// One repair at a time.
	if !m.started || m.stopped || m.task.number != 0 {
		return out
	}
	// Nodes that come up and changes of the ring are events, but the creation of a table is not, hence the tick.
	next := m.now + m.o.tick()
	for _, id := range m.ids() {
		t := m.tables[id]
		if m.now < t.blocked {
			next = min(next, t.blocked)
			continue
		}
		if out = m.begin(id, t, out); m.task.number != 0 {
			m.pause = 0 // the end of the repair searches again
			return out
		}
	}
	if len(m.tables) == 0 {
		return out
	}
	return m.resumeAt(next, out)
}

// resumeAt appends a pause until a time, unless one under way ends before.
func (m *dirtyMachine) resumeAt(at time.Duration, out []autoEffect) []autoEffect {
	if m.pause != 0 && m.due <= at {
		return out
	}
	m.numbers++
	m.pause, m.due = m.numbers, at
	return append(out, autoEffect{kind: autoPause, number: m.pause, after: at - m.now})
}

// begin starts the repair of the first dirty range of a table that can be repaired now, if there is one. It informs the
// operator, once, of the nodes for which other ranges wait.
func (m *dirtyMachine) begin(id schema.StorageID, t *dirtyTable, out []autoEffect) []autoEffect {
	table := m.view.Schema().TableByStorage(id)
	if table == nil && m.view.Schema().Dropped(id) {
		t.bits = chunks{}
		delete(m.tables, id)
		return append(out, t.record(id))
	}
	if table == nil { // this node has not applied the change that creates it
		return out
	}
	placement := m.view.Topology().Placement(table.Replication)
	var dead []ring.NodeID
	ready := func(i int) bool {
		if i == 256 || !t.bits.has(i) {
			return false
		}
		down, moving := absent(m.view, placement, chunkRange(i, i+1))
		dead = append(dead, down...)
		return len(down) == 0 && !moving
	}
	// Chunks whose replicas are down or change are left for later; they do not hold up the others.
	from := 0
	for from < 256 && !ready(from) {
		from++
	}
	to := from
	m.chunks = chunks{}
	for ; to < from+dirtyChunks && ready(to); to++ {
		// Hints that are lost from now on may be for writes that the repair has passed.
		t.again.remove(to)
		m.chunks.add(to)
	}
	if len(dead) > 0 && !t.notified {
		t.notified = true
		out = append(out, autoEffect{kind: autoNote, note: fmt.Sprintf("hints for table %s were lost; it is repaired "+
			"when %s is back", m.view.Schema().NameOf(id), addresses(m.view, dead))})
	}
	if from == to {
		return out
	}
	m.numbers++
	m.task = autoTask{m.numbers, id, chunkRange(from, to)}
	return append(out, autoEffect{kind: autoRepair, number: m.numbers,
		job: Job{Table: id, Range: m.task.tokens, PaxosOnly: true, Urgent: true}})
}

// absent returns the replicas of a range that are down, and whether its replicas are changing.
func absent(view coordinator.View, p *ring.Placement, tokens ring.Range) (down []ring.NodeID, moving bool) {
	for _, r := range tokens.Unwrap() {
		for _, piece := range p.Ranges(r) {
			moving = moving || len(piece.Replicas.Pending) > 0
			for _, n := range piece.Replicas.Natural {
				if n != view.Self() && !view.Alive(n) && !slices.Contains(down, n) {
					down = append(down, n)
				}
			}
		}
	}
	return down, moving
}

// repaired handles the end of a repair, even of one that the stop canceled. Chunks with hints lost meanwhile stay
// dirty.
func (m *dirtyMachine) repaired(ev *autoEvent, out []autoEffect) []autoEffect {
	id, tokens, done, err := m.task.table, m.task.tokens, m.chunks, ev.err
	m.task, m.chunks = autoTask{}, chunks{}
	var unknown *coordinator.UnknownTable
	if errors.As(err, &unknown) {
		err = nil // the table was dropped
	}
	t := m.tables[id]
	if err != nil {
		// The shift is bounded, so that it cannot overflow.
		t.blocked = m.now + min(dirtyRetry<<min(t.fails, 10), m.o.RetryAfter)
		t.fails++
	} else {
		// Stored before the next repair begins, so that a crash repeats at most one.
		out = append(out, m.clean(id, t, &done))
	}
	if m.stopped {
		return out
	}
	if err != nil || ev.report.Rows > 0 {
		out = append(out, autoEffect{kind: autoNote, err: err,
			note: fmt.Sprintf("repair of table %s, %v, for which hints were lost: %d rows sent",
				m.view.Schema().NameOf(id), tokens, ev.report.Rows)})
	}
	return m.search(out)
}

// clean removes the chunks that were repaired, except chunks with hints lost since the repair began. It returns the
// effect that stores the others.
func (m *dirtyMachine) clean(id schema.StorageID, t *dirtyTable, done *chunks) autoEffect {
	t.fails, t.blocked = 0, m.now
	for i := range 256 {
		if !done.has(i) {
			continue
		}
		if t.again.has(i) {
			t.blocked = m.now + dirtyPause // hints are still being lost
			continue
		}
		t.bits.remove(i)
	}
	if t.bits == (chunks{}) {
		delete(m.tables, id)
	}
	return t.record(id)
}

// addresses returns the names of nodes for operators.
func addresses(view coordinator.View, nodes []ring.NodeID) string {
	slices.Sort(nodes)
	var out []string
	for _, id := range slices.Compact(nodes) {
		out = append(out, view.Topology().NameOf(id))
	}
	return strings.Join(out, ", ")
}
