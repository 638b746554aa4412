package repair

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"cqld/coordinator"
	"cqld/internal/wire"
	"cqld/ring"
	"cqld/schema"
)

// scheduleMachine is the state machine of scheduled repairs: of the ranges of which this node is the first replica, one
// at a time. A step changes the state and returns effects. It neither waits, locks nor calls back, and reads snapshots
// of the schema and the ring.
//
//	pause ── nothing is due ──▶ pause
//	  │ ▲
//	  │ └── nothing is due any longer
//	  └──── a range is due ──▶ repair ── the next range ──▶ repair
type scheduleMachine struct {
	view    coordinator.View
	o       *AutoOptions
	tables  map[schema.StorageID]*autoTable
	task    autoTask
	pause   uint64        // the number of the pause under way; zero if none is
	numbers uint64        // of effects
	from    time.Duration // monotonic; no repair starts before
	// next is the table with which the search for a due repair begins. A search from the first table after each
	// repaired range would cost the square of the number of tables.
	next             schema.StorageID
	now              time.Duration // of the present event
	wall             int64         // of the present event
	started, stopped bool
}

// autoTable is the progress of the repairs of a table. Its local key and value:
//
//	autorepair/ table 4 → last 8, began 8, moved 8, at 8
type autoTable struct {
	last  int64 // ns; the start of the last complete repair; 0 means none
	began int64 // ns; the start of the repair under way; 0 means none
	moved uint64
	at    ring.Token // ranges that start before at are done in the repair under way; MaxToken means all
	// blocked is monotonic: the table is not repaired before, because its last repair failed. It is not stored.
	blocked time.Duration
}

const autoPrefix = "autorepair/"

// loadSchedule reads the progress that an earlier process stored. Tables whose progress cannot be read are repaired
// again.
func loadSchedule(store LocalStore) map[schema.StorageID]*autoTable {
	tables := map[schema.StorageID]*autoTable{}
	_ = store.ScanLocal([]byte(autoPrefix), func(key, value []byte) error {
		k, c := wire.NewCursor(key[len(autoPrefix):]), wire.NewCursor(value)
		t := &autoTable{last: c.Int64(), began: c.Int64(), moved: c.Uint64(), at: ring.Token(c.Int64())}
		if id := schema.StorageID(k.Uint32()); c.Finish() == nil && k.Finish() == nil {
			tables[id] = t
		}
		return nil
	})
	return tables
}

// step takes an event and appends its effects.
func (m *scheduleMachine) step(ev *autoEvent, out []autoEffect) []autoEffect {
	m.now, m.wall = ev.now, ev.wall
	//exhaustive:ignore
	switch ev.kind {
	case autoStarted:
		m.started, m.from = true, m.now+ev.delay
		return m.search(out)
	case autoStopped:
		m.stopped, m.pause = true, 0
		return append(out, autoEffect{kind: autoCancel})
	case autoMoved:
		m.from = m.now + ev.delay // the ring may change further
	case autoUnblocked:
		for _, t := range m.tables {
			t.blocked = 0
		}
		return m.search(out)
	case autoResumed:
		if m.pause == ev.number && m.pause != 0 {
			m.pause = 0
			return m.search(out)
		}
	case autoRepaired:
		if m.task.number == ev.number && m.task.number != 0 {
			return m.repaired(ev, out)
		}
	}
	return out
}

// search starts the repair of the next range that is due, or a pause if there is none.
func (m *scheduleMachine) search(out []autoEffect) []autoEffect {
	if m.stopped || !m.started || m.task.number != 0 {
		return out
	}
	// Otherwise the start of the process, or a change of the ring, was a moment ago.
	if m.now >= m.from {
		catalog := m.view.Schema()
		if out = m.repairDue(catalog, out); m.task.number != 0 {
			m.pause = 0 // the end of the repair searches again
			return out
		}
		out = m.forgetDropped(catalog, out)
	}
	m.numbers++
	m.pause = m.numbers
	return append(out, autoEffect{kind: autoPause, number: m.pause, after: m.o.tick()})
}

// repairDue starts the repair of the next range that is due, if there is one.
func (m *scheduleMachine) repairDue(catalog *schema.Schema, out []autoEffect) []autoEffect {
	ids, moved := catalog.StorageIDs(), m.view.Topology().Moved()
	// The table of the last repair comes first: its remaining ranges are repaired before another table.
	first, _ := slices.BinarySearch(ids, m.next)
	for i := range ids {
		id := ids[(first+i)%len(ids)]
		table := catalog.TableByStorage(id)
		if table == nil || table.Virtual || table.Replication.Class == ring.Local {
			continue
		}
		t := m.table(id)
		if m.now < t.blocked || !m.due(table, t, moved) {
			continue
		}
		if out = m.repairNext(table, t, out); m.task.number != 0 {
			m.next = id
			return out
		}
	}
	return out
}

// forgetDropped removes the progress of dropped tables.
func (m *scheduleMachine) forgetDropped(catalog *schema.Schema, out []autoEffect) []autoEffect {
	for _, id := range sortedIDs(m.tables) {
		if catalog.Dropped(id) {
			delete(m.tables, id)
			out = append(out, autoEffect{kind: autoStore, key: autoKey(id)})
		}
	}
	return out
}

// table returns the progress of a table, and adds it: a table that was never repaired is due.
func (m *scheduleMachine) table(id schema.StorageID) *autoTable {
	t := m.tables[id]
	if t == nil {
		t = &autoTable{}
		m.tables[id] = t
	}
	return t
}

// due reports whether the repair of a table is in progress or due. moved is the topology's.
//
// A repair under way is due at once: it was interrupted between two ranges.
func (m *scheduleMachine) due(table *schema.Table, t *autoTable, moved uint64) bool {
	every := m.o.Interval
	if grace := time.Duration(table.Options.GCGraceSeconds) * time.Second / 2; grace > 0 {
		every = min(every, grace)
	}
	// In this order: under way, never repaired, repaired in another ring, or too long ago.
	return t.began != 0 || t.last == 0 || t.moved != moved || time.Duration(m.wall-t.last) >= every
}

// repairNext starts the repair of the next range of which this node is the first replica. If there is none, the repair
// of the table is complete.
func (m *scheduleMachine) repairNext(table *schema.Table, t *autoTable, out []autoEffect) []autoEffect {
	topology, self := m.view.Topology(), m.view.Self()
	// A repair that was under way when the ring moved begins again: this node may be the first replica of other
	// ranges.
	if t.began == 0 || t.moved != topology.Moved() {
		t.began, t.moved, t.at = m.wall, topology.Moved(), ring.MinToken
	}
	for _, piece := range topology.Placement(table.Replication).Ranges(ring.FullRange()) {
		// MinToken is the start of the first range, and not less than itself: nothing is done then.
		done := piece.Range.Start < t.at || t.at == ring.MaxToken
		if done || len(piece.Replicas.Natural) == 0 || piece.Replicas.Natural[0] != self {
			continue
		}
		m.numbers++
		m.task = autoTask{m.numbers, table.StorageID, piece.Range}
		return append(out, autoEffect{kind: autoRepair, number: m.numbers,
			job: Job{Table: table.StorageID, Range: piece.Range, PaxosOnly: true}})
	}
	// last is the start, not the end: writes during the repair are not covered by it.
	t.last, t.began = t.began, 0
	return append(out, t.record(table.StorageID))
}

func autoKey(id schema.StorageID) []byte {
	return binary.BigEndian.AppendUint32([]byte(autoPrefix), uint32(id))
}

// record returns the effect that stores the progress of a table.
func (t *autoTable) record(id schema.StorageID) autoEffect {
	value := wire.AppendInt64(wire.AppendInt64(nil, t.last), t.began)
	value = wire.AppendInt64(wire.AppendUint64(value, t.moved), int64(t.at))
	return autoEffect{kind: autoStore, key: autoKey(id), value: value}
}

// repaired handles the end of a repair, even of one that the stop canceled.
func (m *scheduleMachine) repaired(ev *autoEvent, out []autoEffect) []autoEffect {
	id, tokens, err := m.task.table, m.task.tokens, ev.err
	m.task = autoTask{}
	t := m.table(id)
	var unknown *coordinator.UnknownTable
	if errors.As(err, &unknown) {
		err = nil // the table was dropped
	}
	if err == nil {
		// Only one repair of a table is in progress, so at has not changed since this one began.
		checkPosition(tokens, t.at)
		if t.at = tokens.End; t.at == ring.MinToken {
			t.at = ring.MaxToken // the last range
		}
		out = append(out, t.record(id))
	} else {
		// The table is skipped until then, and others are repaired.
		t.blocked = m.now + m.o.RetryAfter
	}
	if m.stopped {
		return out
	}
	if r := &ev.report; err != nil || r.Rows > 0 || r.Unpurged > 0 {
		// Repairs that find nothing are not reported: there is one for each range and interval.
		note := fmt.Sprintf("repair of table %s, %v: %d rows sent", m.view.Schema().NameOf(id), tokens, r.Rows)
		if r.Unpurged > 0 {
			note += fmt.Sprintf(", Paxos state of %d ranges not purged", r.Unpurged)
		}
		out = append(out, autoEffect{kind: autoNote, note: note, err: err})
	}
	return m.search(out)
}
