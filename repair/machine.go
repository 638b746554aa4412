package repair

import (
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"cqld/coordinator"
	"cqld/ring"
)

// machine is the state machine of a job. A step changes the state and returns effects. It neither sends, waits, locks
// nor calls back, and reads snapshots of the schema and the ring. Run is its shell.
//
//	started ──▶ loaded ──▶ low bound raised ──▶ unit ──▶ unit ──▶ … ──▶ over
//	                                             ▲ │ a replica refuses: pause
//	                                             └─┘
type machine struct {
	job      Job
	view     coordinator.View
	limits   *Limits
	sessions *atomic.Uint64 // of all jobs of this node
	mayRaise bool           // there is a way to raise low bounds
	now      time.Time      // of the present event
	// numbers is the number of the last effect that has an event.
	numbers uint64 // of effects
	begun   bool   // the first range was started
	over    bool
	request request // the outstanding answer before the first range
	raiseTo int64   // µs; the low bound to propose
	alarm   request // the pause after which the ranges are started without an answer
	restart request // the pause before a range is started again
	report  Report
	left    []ring.Range // ranges that are not done; the first is under way
	unit    *unit        // under way
	// conditional reports that there may be Paxos state of the table.
	conditional bool
	// refusals counts the refusals by replicas with a later topology since a range was completed.
	refusals int
}

// request is an outstanding request, or the pause before it. The zero value is neither.
//
// A pause and a request of the same part of the job share one value, because one follows the other.
type request struct {
	number   uint64 // of the effect; zero if none is outstanding
	attempts int    // that failed
}

// take reports whether r is outstanding with a number, and ends it: a second answer is not taken.
func (r *request) take(number uint64) bool {
	if r.number != number || number == 0 {
		return false
	}
	r.number = 0
	return true
}

// await appends an effect whose event ends r.
func (m *machine) await(r *request, e effect, out []effect) []effect {
	m.numbers++
	e.number, r.number = m.numbers, m.numbers
	return append(out, e)
}

// pause appends a pause; its end delivers the event of r.
func (m *machine) pause(r *request, after time.Duration, out []effect) []effect {
	return m.await(r, effect{kind: effectPause, after: after}, out)
}

// retry repeats a request after a pause that doubles with each failure.
func (m *machine) retry(r *request, out []effect) []effect {
	return m.pause(r, m.limits.RetryPause<<(r.attempts-1), out)
}

// spend counts bytes that a replica scanned, and appends a pause of r for the budget.
func (m *machine) spend(r *request, bytes int64, out []effect) []effect {
	return m.await(r, effect{kind: effectSpend, bytes: bytes}, out)
}

// step takes an event and appends its effects.
func (m *machine) step(ev *event, out []effect) []effect {
	// Answers and timers may arrive after the end.
	if m.over {
		return out
	}
	m.now = ev.now
	switch {
	case ev.kind == eventStarted:
		return m.started(out)
	case ev.kind == eventCancelled:
		return m.end(ErrCancelled, out)
	case m.request.take(ev.number):
		return m.prepared(ev, out)
	// The answer about the low bound is late, for example because there is no leader. The ranges need not wait for it.
	case m.alarm.take(ev.number):
		return m.start(out)
	case m.restart.take(ev.number):
		return m.next(out)
	case m.unit != nil:
		return m.unit.step(ev, out)
	}
	return out // a late answer
}

// started begins the job.
func (m *machine) started(out []effect) []effect {
	table := m.view.Schema().TableByStorage(m.job.Table)
	switch {
	case table == nil:
		return m.end(&coordinator.UnknownTable{Table: m.job.Table}, out)
	case table.Replication.Class == ring.Local:
		return m.end(nil, out) // the table has no other replica
	}
	return m.await(&m.request, effect{kind: effectLoad}, out)
}

// prepared takes an answer before the first range.
func (m *machine) prepared(ev *event, out []effect) []effect {
	//exhaustive:ignore
	switch ev.kind {
	case eventLoaded:
		return m.loaded(ev, out)
	case eventScanned:
		// After an error it is not known whether there is state, so tombstones are kept as if there were.
		m.conditional = ev.conditional || ev.err != nil
		if ev.conditional && ev.err == nil {
			return m.raise(out)
		}
	}
	// The repair starts even after a failure, with the current low bound.
	return m.start(out)
}

// loaded determines the ranges of the job.
func (m *machine) loaded(ev *event, out []effect) []effect {
	table := m.view.Schema().TableByStorage(m.job.Table)
	if table == nil {
		return m.end(&coordinator.UnknownTable{Table: m.job.Table}, out)
	}
	// The rest is divided again, because the ring may have changed meanwhile.
	m.left = pieces(m.view.Topology(), table, ev.rest, &m.job.Scope)
	m.report.Ranges = len(m.left)
	if m.job.comparesOnly() {
		return m.start(out)
	}
	return m.raiseLowBound(table, out)
}

// start starts the first range, once.
func (m *machine) start(out []effect) []effect {
	if m.begun {
		return out
	}
	m.begun = true
	return m.next(out)
}

// next starts the next range.
func (m *machine) next(out []effect) []effect {
	out = append(out, effect{kind: effectProgress, report: m.reported()})
	if len(m.left) == 0 {
		return m.end(nil, out)
	}
	table := m.view.Schema().TableByStorage(m.job.Table)
	if table == nil {
		return m.end(&coordinator.UnknownTable{Table: m.job.Table}, out)
	}
	// One snapshot serves the whole unit. If the ring moves meanwhile, the replicas refuse its requests.
	topology := m.view.Topology()
	// The ring may have changed since the job was divided into ranges.
	if finer := topology.Placement(table.Replication).Ranges(m.left[0]); len(finer) > 1 {
		m.report.Ranges += len(finer) - 1
		left := m.left[1:]
		m.left = nil
		for _, p := range finer {
			m.left = append(m.left, p.Range)
		}
		m.left = append(m.left, left...)
	}
	m.unit = newUnit(m, table, topology, m.left[0])
	return m.unit.begin(out)
}

// unitDone ends the range under way.
func (m *machine) unitDone(u *unit, err error, out []effect) []effect {
	m.unit = nil
	var down *Unavailable
	switch {
	case err == nil:
		m.report.RangesDone++
		m.refusals = 0
		// The position is stored before the next range begins, so that after a crash the job continues there.
		out = append(out, effect{kind: effectStore, tokens: u.tokens})
	case errors.As(err, &down) && m.job.SkipDown:
		// The position is not stored for a skipped range, but the next completed range moves it past this one.
		m.report.Skipped++
	case errors.Is(err, ErrMoving) && m.job.SkipDown:
		m.report.Moving++
	default:
		return m.end(err, out)
	}
	m.left = slices.Delete(m.left, 0, 1)
	return m.next(out)
}

// refused starts the range under way again after a pause, because a replica's topology is a later one.
func (m *machine) refused(out []effect) []effect {
	m.unit = nil // its outstanding answers are late
	m.refusals++
	return m.pause(&m.restart, m.limits.RetryPause<<(m.refusals-1), out)
}

// end ends the job.
func (m *machine) end(err error, out []effect) []effect {
	checkSuccess(err, m.left)
	m.over, m.unit = true, nil
	return append(out, effect{kind: effectFinish, report: m.reported(), err: err})
}

// reported returns a copy of the report, which the machine does not change.
func (m *machine) reported() *Report {
	r := m.report
	return &r
}
