package rebalance

import (
	"fmt"
	"slices"
	"time"

	"cqld/coordinator"
	"cqld/internal/invariant"
	"cqld/ring"
)

// moveMachine is the state machine of Movements. A step changes the state and returns effects; it neither locks, waits
// nor calls back, and reads snapshots of the schema and the ring.
type moveMachine struct {
	view      coordinator.View
	leafBytes int64
	deadAfter time.Duration

	movements map[uint64]*movement
	numbers   uint64 // of effects
	now       int64  // of the present event
	handing   uint64 // the operation by which this node leaves, once the hand-over began
	// A movement of the second phase must know that the first one was partial: its comparison takes the same sources.
	partial []uint64 // operations in progress that streamed ranges from too few sources
	epoch   uint64   // of the last topology
	closed  bool
}

// movement is this node's part of one operation in one phase. It belongs to its machine.
type movement struct {
	m         *moveMachine
	operation *ring.Operation
	compare   bool            // ranges that were streamed before
	queued    []*gainedRange  // not started
	retries   []*gainedRange  // failed; queued again after the pause
	started   map[string]bool // sessions in progress, or completed
	waiting   []Session       // of the range that was started last
	running   []*moveTask
	total     int // ranges
	bytes     map[string]int64
	sessions  []string // all that were started, whose records are removed at the end
	pause     uint64   // the number of the pause under way; zero if none is
	reporting uint64   // the number of the report under way; zero if none is
	reported  bool     // to the log, which may not have answered yet
	ended     bool
	stuck     int // consecutive attempts with too few live sources
	// partial means that too few sources were alive for so long that the live ones must suffice. short contains the
	// ranges that were fetched from too few sources, by keyspace.
	partial bool
	short   map[string]map[ring.Range]bool
}

// moveTask is a running session: the stream of its range, or the comparison and the streams of the parts that differ.
type moveTask struct {
	session Session
	number  uint64 // of the outstanding stream or hashes
	// comparison is nil in the first phase.
	comparison *comparison
}

// newMovement returns the movement of an operation in its present phase.
func (m *moveMachine) newMovement(o *ring.Operation) *movement {
	return &movement{m: m, operation: o, compare: o.Known, bytes: map[string]int64{}, started: map[string]bool{},
		partial: slices.Contains(m.partial, o.ID), short: map[string]map[ring.Range]bool{}}
}

// number returns the number of the next effect.
func (m *moveMachine) number() uint64 {
	m.numbers++
	return m.numbers
}

// step takes an event and appends its effects.
func (m *moveMachine) step(ev *moveEvent, out []moveEffect) []moveEffect {
	if m.closed {
		return out
	}
	m.now = ev.now
	v, number := ev.movement, ev.number
	// Events may arrive after the end of their movement.
	if v != nil && v.ended {
		return out
	}
	//exhaustive:enforce
	switch ev.kind {
	case moveReconciled:
		return m.reconcile(ev.topology, out)
	case moveStopped:
		m.closed = true
	case moveProgressed:
		v.bytes[ev.session] = ev.bytes
	case moveStreamed:
		if ev.task.number == number {
			return v.streamed(ev.task, ev.err, out)
		}
	case moveHashed:
		if ev.task.number == number {
			return v.hashed(ev.task, ev, out)
		}
	case moveReported:
		if v.reporting == number {
			return v.answered(ev.err, out)
		}
	case moveResumed:
		if v.pause == number {
			v.pause = 0
			v.queued, v.retries = append(v.queued, v.retries...), nil
			return v.proceed(out)
		}
	case moveHandedOver:
		return m.handedOver(ev, out)
	}
	return out
}

// reconcile makes the movements match a topology.
func (m *moveMachine) reconcile(t *ring.Topology, out []moveEffect) []moveEffect {
	self := m.view.Self()
	if self == 0 {
		return out
	}
	invariant.Check(t.Epoch() >= m.epoch, "rebalance: the ring went back")
	m.epoch = t.Epoch()
	// Movements are ended first, so that their sessions are cancelled before the next phase starts sessions for the
	// same ranges.
	for _, v := range m.end(t) {
		out = append(out, moveEffect{kind: effectForget, movement: v, sessions: v.sessions})
	}
	for _, o := range t.Operations() {
		// After a restart, too, the movement begins again, and its sessions continue at their stored positions.
		if m.movements[o.ID] == nil && m.concerns(o, self) {
			v := m.newMovement(o)
			m.movements[o.ID] = v
			out = v.begin(t, out)
		}
	}
	return m.handOver(t, self, out)
}

// end ends the movements whose operations have ended, were aborted, or have reached their next phase, which is a new
// movement. It returns them by operation.
func (m *moveMachine) end(t *ring.Topology) (ended []*movement) {
	for id, v := range m.movements {
		o := t.Operation(id)
		if o != nil && v.compare == (o.Phase == ring.Switching) {
			continue
		}
		v.ended = true // events of its sessions come after this
		if o != nil && v.partial {
			m.partial = append(m.partial, id)
		}
		delete(m.movements, id)
		ended = append(ended, v)
	}
	m.partial = slices.DeleteFunc(m.partial, func(id uint64) bool { return t.Operation(id) == nil })
	slices.SortFunc(ended, func(a, b *movement) int { return int(int64(a.operation.ID) - int64(b.operation.ID)) })
	return ended
}

// concerns reports whether an operation requires an action of this node in its present phase.
func (m *moveMachine) concerns(o *ring.Operation, self ring.NodeID) bool {
	if !slices.Contains(o.Gaining, self) {
		return false
	}
	return o.Phase == ring.Streaming && !slices.Contains(o.Streamed, self) || o.Known &&
		!slices.Contains(o.Compared, self)
}

// begin queues the ranges that this node gains.
func (v *movement) begin(t *ring.Topology, out []moveEffect) []moveEffect {
	v.queued = v.gained(t)
	v.total = len(v.queued)
	return v.proceed(v.note(fmt.Sprintf("operation %d (%s): this node %s %d ranges", v.operation.ID,
		v.operation.Kind, v.verb(), v.total), out))
}

// note appends a message to the operator.
func (v *movement) note(text string, out []moveEffect) []moveEffect {
	return append(out, moveEffect{kind: effectNote, note: text})
}

// verb describes the phase in notes to the operator.
func (v *movement) verb() string {
	if v.compare {
		return "compares"
	}
	return "fetches"
}

// epoch returns the epoch that sources must have applied.
func (v *movement) epoch() uint64 {
	if v.compare {
		return v.operation.Switched
	}
	return v.operation.ID
}

// ahead returns how many sessions run at a time.
func (v *movement) ahead() int {
	if v.compare {
		return comparesAhead
	}
	return sessionsAhead
}

// proceed starts sessions while ahead allows, and reports to the log when none is left.
func (v *movement) proceed(out []moveEffect) []moveEffect {
	for len(v.running) < v.ahead() {
		if len(v.waiting) == 0 && len(v.queued) == 0 {
			break
		}
		if len(v.waiting) == 0 {
			f := v.queued[0]
			sessions, ok := v.plan(f)
			if !ok && v.pause != 0 {
				return out // the end of the pause tries again
			}
			if !ok {
				if out = v.wait(f, out); !v.partial {
					return out
				}
				continue
			}
			v.noteShort(f)
			v.waiting, v.queued, v.stuck = sessions, v.queued[1:], 0
			continue
		}
		p := v.waiting[0]
		v.waiting = v.waiting[1:]
		// A range is planned again after the failure of one of its sessions. Without this, each of the others would
		// fail, because it is in progress, and the range would be planned again for each of those failures.
		if v.started[p.ID] {
			continue
		}
		v.started[p.ID] = true
		task := &moveTask{session: p}
		v.running = append(v.running, task)
		if v.compare {
			out = v.compareWith(task, out)
		} else {
			out = v.stream(task, p, out)
		}
	}
	// Failed ranges are queued again after their pause.
	if len(v.running)+len(v.waiting)+len(v.queued)+len(v.retries) > 0 || v.reported {
		return out
	}
	return v.report(out)
}

// wait counts an attempt with too few live sources. Nodes may come up, or a later topology may end the movement. If
// the operation may complete with the live sources, and the wait was long enough, the movement becomes partial.
func (v *movement) wait(f *gainedRange, out []moveEffect) []moveEffect {
	v.stuck++
	// stuck counts pauses of movementRetry, so this is the time without enough live sources.
	if v.partial = v.mayBePartial() && v.stuck >= int(v.m.deadAfter/movementRetry); v.partial {
		return v.note(v.partialReason(f), out)
	}
	if v.stuck == stuckReported {
		out = v.note(v.stuckReason(f), out)
	}
	return v.retryLater(out)
}

// stream starts the stream of a task: of its range, or of a part that differs.
func (v *movement) stream(task *moveTask, p Session, out []moveEffect) []moveEffect {
	task.number = v.m.number()
	v.sessions = append(v.sessions, p.ID)
	return append(out, moveEffect{kind: effectStream, movement: v, task: task, number: task.number, session: p})
}

// retryLater queues failed ranges again after a pause. One pause serves all that fail during it.
func (v *movement) retryLater(out []moveEffect) []moveEffect {
	if v.pause != 0 {
		return out
	}
	v.pause = v.m.number()
	return append(out, moveEffect{kind: effectPause, movement: v, number: v.pause})
}

// streamed handles the end of a stream.
func (v *movement) streamed(task *moveTask, err error, out []moveEffect) []moveEffect {
	if err == nil && task.comparison != nil {
		task.comparison.parts = task.comparison.parts[1:]
		return v.fetchParts(task, out)
	}
	return v.taskEnded(task, err, out)
}

// taskEnded ends a task. After a failure its range is planned again: the source may be dead.
func (v *movement) taskEnded(task *moveTask, err error, out []moveEffect) []moveEffect {
	i := slices.Index(v.running, task)
	invariant.Check(i >= 0 && v.started[task.session.ID], "rebalance: a session that is not under way has ended")
	v.running = slices.Delete(v.running, i, i+1)
	task.number = 0
	if err == nil {
		return v.proceed(out)
	}
	// Only the failed table of the range is planned again.
	delete(v.started, task.session.ID)
	if f := v.gainOf(task.session); f != nil {
		v.retries = append(v.retries, f)
	}
	return v.retryLater(v.note(err.Error(), out))
}

// report reports to the log that all ranges are here.
func (v *movement) report(out []moveEffect) []moveEffect {
	if !v.compare {
		out = v.note(fmt.Sprintf("operation %d (%s): this node has all its ranges", v.operation.ID, v.operation.Kind),
			out)
	}
	v.reported, v.reporting = true, v.m.number()
	// The ranges that were short in this phase; the log keeps the larger number of both phases.
	return append(out, moveEffect{kind: effectReport, movement: v, number: v.reporting, short: v.shortfalls()})
}

// answered handles the answer of the log. The report is repeated until the log contains it.
func (v *movement) answered(err error, out []moveEffect) []moveEffect {
	v.reporting = 0
	if err == nil {
		return out
	}
	v.reported = false
	return v.retryLater(out)
}
