package repair

import (
	"fmt"

	"cqld/coordinator"
	"cqld/ring"
)

// tablesMachine is the state machine of an operator's repair: one run after the other, for each target. A step changes
// the state and returns effects. It neither waits, locks nor calls back, and reads snapshots of the schema and the
// ring.
//
//	started ──▶ run of a target ── it ended, or its table was dropped ──▶ run of the next ──▶ … ──▶ over
//	                 └── it failed, or was cancelled ─────────────────────────────────────────────▶ over
type tablesMachine struct {
	view      coordinator.View
	plan      Plan
	positions string // prefix of the names of runs
	state     tablesCheckpoint
	present   Summary // with the report of the run under way
	counts    []int   // ranges of each target, when the repair began
	at        int     // the present target
	before    int     // ranges of the targets before it
	total     int     // ranges of all targets
	run       uint64  // the number of the run under way; zero if none is
	numbers   uint64  // of effects
	cancelled bool
	ended     bool
}

// step takes an event and appends its effects.
func (m *tablesMachine) step(ev *tablesEvent, out []tablesEffect) []tablesEffect {
	// Events may arrive after the end.
	if m.ended {
		return out
	}
	//exhaustive:enforce
	switch ev.kind {
	case tablesStarted:
		return m.begin(ev, out)
	case tablesProgressed:
		if m.run == ev.number {
			return m.progressed(&ev.report, out)
		}
	case tablesRunEnded:
		if m.run == ev.number {
			return m.runEnded(ev, out)
		}
	case tablesCancelled:
		m.cancelled = true
		return append(out, tablesEffect{kind: tablesCancelRun}) // its end ends the repair
	}
	return out
}

// begin counts the ranges of all targets, and starts the first one that is not done.
func (m *tablesMachine) begin(ev *tablesEvent, out []tablesEffect) []tablesEffect {
	m.state = ev.checkpoint
	for _, target := range m.plan.Targets {
		// Counted once, so that the total that operators see does not change while the ring does.
		n := rangesOf(m.view, target, &m.plan.Scope)
		m.counts = append(m.counts, n)
		m.total += n
	}
	return m.next(out)
}

// rangesOf returns the number of ranges of a target with one replica set each.
func rangesOf(view coordinator.View, target Target, scope *Scope) int {
	table := view.Schema().TableByStorage(target.Table)
	if table == nil || table.Replication.Class == ring.Local {
		return 0
	}
	return len(pieces(view.Topology(), table, target.Range.Unwrap(), scope))
}

// next starts the next target that is not done.
func (m *tablesMachine) next(out []tablesEffect) []tablesEffect {
	// Targets are sorted by name, and all up to After are done.
	for m.at < len(m.plan.Targets) && m.plan.Keep && m.plan.Targets[m.at].Name <= m.state.After {
		m.before += m.counts[m.at]
		m.at++
	}
	m.present = m.state.Summary
	switch {
	case m.cancelled:
		return m.end(ErrCancelled, out)
	case m.at == len(m.plan.Targets):
		return m.end(nil, out)
	}
	target := m.plan.Targets[m.at]
	job := Job{Table: target.Table, Range: target.Range, Scope: m.plan.Scope, SkipDown: m.plan.SkipDown}
	// The position within the table is stored by Run, under a name that contains the id of the job.
	if m.plan.Keep {
		job.Name = m.positions + fmt.Sprint(target.Table)
	}
	m.numbers++
	m.run = m.numbers
	return append(out, tablesEffect{kind: tablesRun, number: m.run, job: job})
}

// progressed handles the report of the running repair.
func (m *tablesMachine) progressed(report *Report, out []tablesEffect) []tablesEffect {
	skipped := m.present.Skipped + m.present.Moving
	m.present = m.state.Summary.plus(report)
	// The ring may have changed, so that the run has more ranges than were counted.
	left := report.Ranges - report.RangesDone - report.Skipped - report.Moving
	done := m.before + max(0, m.counts[m.at]-left)
	out = append(out, tablesEffect{kind: tablesProgress, done: int64(done), total: int64(m.total),
		phase: "repairing " + m.plan.Targets[m.at].Name})
	if m.plan.Keep && m.present.Skipped+m.present.Moving > skipped {
		// The position passes skipped ranges, so a crash must not forget that there are some.
		out = append(out, tablesEffect{kind: tablesStore, checkpoint: tablesCheckpoint{m.state.After, m.present}})
	}
	return out
}

// runEnded handles the end of the running repair.
func (m *tablesMachine) runEnded(ev *tablesEvent, out []tablesEffect) []tablesEffect {
	m.run = 0
	target, err := m.plan.Targets[m.at], ev.err
	// An operator's repair of many tables must not fail because one of them was dropped meanwhile.
	if err != nil && m.view.Schema().Dropped(target.Table) {
		m.state.Summary.LeftOut = append(m.state.Summary.LeftOut, target.Name)
		err = nil
	} else {
		m.state.Summary = m.state.Summary.plus(&ev.report)
	}
	if err == nil {
		m.state.After = target.Name
	}
	if m.plan.Keep {
		out = append(out, tablesEffect{kind: tablesStore, checkpoint: m.state})
	}
	if err != nil {
		m.present = m.state.Summary
		return m.end(fmt.Errorf("%s: %w", target.Name, err), out)
	}
	m.before += m.counts[m.at]
	m.at++
	return m.next(out)
}

// end ends the repair. present includes the ranges of a run that failed.
func (m *tablesMachine) end(err error, out []tablesEffect) []tablesEffect {
	m.ended = true
	checkTables(err, len(m.plan.Targets)-m.at)
	return append(out, tablesEffect{kind: tablesFinish, summary: m.present, err: err})
}
