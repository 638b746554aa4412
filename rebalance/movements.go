package rebalance

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	"cqld/coordinator"
	"cqld/internal/env"
	"cqld/repair"
	"cqld/replica"
	"cqld/ring"
	"cqld/schema"
)

// OperationLog is the metadata log to which Movements reports progress. done is called once.
type OperationLog interface {
	StartStreamed(operation uint64, short []ring.Shortfall, done func(error))
	StartCompared(operation uint64, short []ring.Shortfall, done func(error))
	StartHanded(operation uint64, done func(error))
}

// MovementOptions are the dependencies of Movements. All are required except Note and LeafBytes.
type MovementOptions struct {
	View    coordinator.View
	Log     OperationLog // the cluster
	Streams *Streams
	Local   *replica.Local // whose fence sessions respect
	Hashes  Hashes
	Clock   env.Clock
	// HandOver transfers the data that this node stores for others, such as logged batches, before it leaves. done is
	// called once; on an error the node stays.
	HandOver func(done func(error))
	// Run runs work that waits for the disk; see StreamOptions.Run.
	Run func(func())
	// Note reports progress to the operator; nil discards it.
	Note func(message string)
	// LeafBytes is the size of the parts that are compared, and streamed again when they differ; zero means 256 KiB.
	LeafBytes int64
	// DeadAfter is how long a removal waits for enough sources of a range before it takes the live ones; zero means 30
	// s.
	DeadAfter time.Duration
}

// Movements follows the operations of the ring on one node. While an operation streams, it fetches the ranges that this
// node gains; before the operation ends, it compares them with their sources. Drops removes the ranges that this node
// lost. It is safe for concurrent use.
//
//	Streaming: for each range and table: stream from the node that loses it, or from so many of the nodes that keep it
//	           that every quorum is met ── all received ──▶ OperationLog.StartStreamed
//	Known:     compare each range and table with the same sources, and stream the parts that differ
//	           ── all compared ──▶ OperationLog.StartCompared
//	leaving:   hand over what this node stores for others ──▶ OperationLog.StartHanded
//
// Movements is the shell of a moveMachine: it serializes the events, checks the invariants and performs the effects.
type Movements struct {
	o  MovementOptions
	mu struct {
		sync.Mutex
		machine moveMachine
	}
}

// NewMovements returns the movements of a node. The owner calls Reconcile after the node has started.
func NewMovements(o MovementOptions) *Movements {
	m := &Movements{o: o}
	if m.o.Note == nil {
		m.o.Note = func(string) {}
	}
	m.mu.machine = moveMachine{view: o.View, movements: map[uint64]*movement{},
		leafBytes: cmp.Or(o.LeafBytes, compareLeafBytes), deadAfter: cmp.Or(o.DeadAfter, deadAfter)}
	return m
}

// Reconcile starts and ends movements so that they match a confirmed topology. The owner calls it after every change,
// from one goroutine at a time, with topologies in the order of their epochs.
func (m *Movements) Reconcile(t *ring.Topology) {
	m.deliver(&moveEvent{kind: moveReconciled, topology: t})
}

// Close stops all movements. The next process of the node continues them.
func (m *Movements) Close() { m.deliver(&moveEvent{kind: moveStopped}) }

// deliver takes an event, and performs its effects in the caller's goroutine.
func (m *Movements) deliver(ev *moveEvent) {
	// Effects may deliver further events, which nest: a session ends at once if all of its rows are stored.
	out := m.step(ev)
	for i := range out {
		m.perform(&out[i])
	}
}

// step is the critical section of an event.
func (m *Movements) step(ev *moveEvent) []moveEffect {
	ev.now = m.o.Clock.Now().Unix()
	m.mu.Lock()
	defer m.mu.Unlock()
	out := m.mu.machine.step(ev, nil)
	m.mu.machine.check()
	return out
}

// perform performs an effect without the lock.
func (m *Movements) perform(e *moveEffect) {
	v, task, number := e.movement, e.task, e.number
	//exhaustive:enforce
	switch e.kind {
	case effectStream:
		m.stream(e)
	case effectHash:
		m.o.Hashes.Hash(e.node, e.request, compareTimeout, func(s repair.HashStep, err error) {
			m.deliver(&moveEvent{kind: moveHashed, movement: v, task: task, number: number, hashes: s, err: err})
		})
	case effectForget:
		for _, s := range e.sessions {
			m.forget(s)
		}
	case effectReport:
		start := m.o.Log.StartStreamed
		if v.compare {
			start = m.o.Log.StartCompared
		}
		start(v.operation.ID, e.short, func(err error) {
			m.deliver(&moveEvent{kind: moveReported, movement: v, number: number, err: err})
		})
	case effectPause:
		m.o.Clock.After(movementRetry, func() {
			m.deliver(&moveEvent{kind: moveResumed, movement: v, number: number})
		})
	case effectNote:
		m.o.Note(e.note)
	case effectHandOver:
		m.o.HandOver(func(err error) { m.handedOver(e.operation, err) })
	case effectHanded:
		m.o.Log.StartHanded(e.operation, func(err error) {
			if err != nil {
				m.o.Clock.After(movementRetry, func() { m.handedOver(e.operation, nil) })
			}
		})
	}
}

// stream starts a session, unless its range is fenced or its movement has ended.
func (m *Movements) stream(e *moveEffect) {
	v, task, number, p := e.movement, e.task, e.number, e.session
	ended := func(err error) {
		m.deliver(&moveEvent{kind: moveStreamed, movement: v, task: task, number: number, err: err})
	}
	switch {
	// The movement ended between the step and this effect.
	case m.over(v):
		return
	case m.fenced(p):
		ended(m.o.Streams.failure(p, replica.ErrFenced))
		return
	}
	m.o.Streams.Start(p, func(bytes int64) {
		m.deliver(&moveEvent{kind: moveProgressed, movement: v, session: p.ID, bytes: bytes})
	}, ended)
	// If the movement ended during Start, its effect may have found no session to cancel.
	if m.over(v) {
		m.forget(p.ID)
	}
}

// over reports whether a movement has ended. The caller does not hold mu.
func (m *Movements) over(v *movement) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return v.ended
}

// forget ends a session, and removes its record.
func (m *Movements) forget(session string) {
	if err := m.o.Streams.Forget(session); err != nil {
		m.o.Note(fmt.Sprintf("the record of stream %s was not removed: %v", session, err))
	}
}

// handedOver delivers the end of the hand-over.
func (m *Movements) handedOver(operation uint64, err error) {
	m.deliver(&moveEvent{kind: moveHandedOver, operation: operation, err: err})
}

// fenced reports whether the range of a session is being dropped.
func (m *Movements) fenced(p Session) bool {
	tables := []schema.StorageID{p.Table}
	for _, name := range p.Keyspaces {
		if k := m.o.View.Schema().KeyspaceCalled(name); k != nil {
			tables = append(tables, tablesOf(k)...)
		}
	}
	return slices.ContainsFunc(tables, func(id schema.StorageID) bool { return m.o.Local.Fenced(id, p.Range) })
}

// MovementStatus is the progress of one operation on this node.
type MovementStatus struct {
	Operation *ring.Operation
	// Comparing reports that the ranges were streamed before, and are compared with their sources now.
	Comparing bool
	// Ranges are those that this node gains, and Left those that are not done in this phase. Ranges under way count as
	// one.
	Ranges, Left int
	Bytes        int64
}

// Status returns the progress of all operations under way, by operation.
func (m *Movements) Status() (out []MovementStatus) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, v := range m.mu.machine.movements {
		s := MovementStatus{Operation: v.operation, Comparing: v.compare, Ranges: v.total, Left: len(v.queued) +
			len(v.retries)}
		// The ranges under way are in neither list.
		if len(v.running) > 0 || len(v.waiting) > 0 {
			s.Left = min(s.Left+1, s.Ranges)
		}
		for _, n := range v.bytes {
			s.Bytes += n
		}
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b MovementStatus) int { return int(int64(a.Operation.ID) - int64(b.Operation.ID)) })
	return out
}
