// Package meetings counts which operations of a simulated cluster were in progress at the same time. Faults and
// operations break promises where they meet, so docs/MEETINGS.md has a table of all pairs, and tests require that each
// pair has met in some run.
//
// Package simulation records in its Log when operations begin and end.
package meetings

import (
	"slices"
	"time"

	"cqld/simulation/kernel"
)

// The operations whose coincidences docs/MEETINGS.md lists.
const (
	// The values are the names of the table. An operation that lasts is polled (Saw); one that a call starts is
	// recorded by Begin.
	Join              = "join"
	Decommission      = "decommission"
	Move              = "move"
	Replace           = "replace"
	Rebuild           = "rebuild"
	Repair            = "repair"
	RestrictedRepair  = "restricted repair"
	Restart           = "restart"
	Kill              = "kill"
	Pause             = "pause"
	Partition         = "partition"
	FullDisk          = "full disk"
	SchemaChange      = "schema change"
	Truncate          = "TRUNCATE"
	Hints             = "hints"
	BatchLog          = "batch log"
	ConditionalChange = "conditional change"
	Counter           = "counter"
	Snapshot          = "snapshot"
	ClockJump         = "clock jump"
	Backup            = "backup" // the following five are drawn by TestStatementsMeet only
	Restoration       = "restoration"
	Sweep             = "deletion of backups"
	Undrop            = "UNDROP TABLE"
	Purge             = "PURGE TABLE"
	DatacenterLoss    = "loss of a data center" // drawn by TestMembersMeetLossOfADatacenter only
	RollingUpgrade    = "rolling upgrade"       // drawn by TestUpgrades only
	Reassignment      = "reassignment"          // drawn by TestReassignments only
)

// Operations returns all operations of the table, in its order. DatacenterLoss, RollingUpgrade and Reassignment
// are not in the table.
func Operations() []string {
	return []string{Join, Decommission, Move, Replace, Rebuild, Repair, RestrictedRepair, Restart, Kill,
		Pause, Partition, FullDisk, SchemaChange, Truncate, Hints, BatchLog, ConditionalChange, Counter, Snapshot,
		ClockJump}
}

// Pair is two operations in the order of Operations.
type Pair struct{ A, B string }

// PairOf returns the pair of two operations, whose order does not matter.
func PairOf(a, b string) Pair {
	ops := Operations()
	if slices.Index(ops, a) > slices.Index(ops, b) {
		a, b = b, a
	}
	return Pair{a, b}
}

// Log counts the pairs of operations that were in progress at the same time in a run.
type Log struct {
	kernel *kernel.Kernel
	active []*underway
	// state contains the operations that are polled and in progress.
	state map[string]*underway
	// met counts how often one operation of the pair began while the other one was in progress.
	met map[Pair]int
}

// underway is an operation from its begin to its end, or to its maximum duration.
type underway struct {
	op string
	// until is when the operation counts as ended at the latest; a time in the past means that it has ended.
	until time.Duration
}

// New returns an empty log.
func New(k *kernel.Kernel) *Log {
	return &Log{kernel: k, state: map[string]*underway{}, met: map[Pair]int{}}
}

// Met returns how often one operation of each pair began while the other one was in progress. The log owns the map.
func (m *Log) Met() map[Pair]int { return m.met }

// Begin records that an operation begins. It lasts until end is called, or for most, because its process may end
// before.
func (m *Log) Begin(op string, most time.Duration) (end func()) {
	u := &underway{op, m.kernel.Now() + most}
	// Operations that have ended are removed only here: their time is enough to exclude them.
	m.active = slices.DeleteFunc(m.active, func(o *underway) bool { return o.until < m.kernel.Now() })
	for _, o := range m.active {
		// Two operations of one kind are no pair.
		if o.op != op {
			m.met[PairOf(op, o.op)]++
		}
	}
	m.active = append(m.active, u)
	return func() { u.until = -1 }
}

// Lingers is how long a TRUNCATE, whose requests may still be in transit, and a snapshot, which the next power cut must
// not damage, still coincide with operations that begin.
const Lingers = 500 * time.Millisecond

// Endless is longer than any run.
const Endless time.Duration = 1 << 61

// Saw records whether an operation is in progress at the moment. It is called for every operation in each poll, so an
// operation that begins and ends between two polls is missed.
func (m *Log) Saw(op string, is bool) {
	switch was := m.state[op]; {
	case is && was == nil:
		m.Begin(op, Endless)
		m.state[op] = m.active[len(m.active)-1]
	case !is && was != nil:
		was.until = -1
		delete(m.state, op)
	}
}
