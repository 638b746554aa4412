package repair

import (
	"encoding/json"
	"fmt"

	"cqld/jobs"
	"cqld/ring"
	"cqld/schema"
)

// Target is a range of a table that an operator's repair covers.
type Target struct {
	Name  string // keyspace.table
	Table schema.StorageID
	Range ring.Range
}

// Plan describes the repair of an operator.
//
// It is fixed when the operator requests the repair: tables that are created later are not included.
type Plan struct {
	// Targets are repaired in this order. With Keep, they are sorted by name, and no two have the same name.
	Targets []Target
	// Keep stores the progress of the repair, so that the next attempt of its job continues there.
	Keep bool
	// Scope and SkipDown have the meaning that Job documents.
	Scope    Scope
	SkipDown bool
}

// Summary contains the sums of all reports of a repair, including those of earlier attempts.
type Summary struct {
	Ranges    int   `json:"ranges"` // completed
	Different int   `json:"different"`
	Rows      int64 `json:"rows"`
	Bytes     int64 `json:"bytes"`
	Skipped   int   `json:"skipped"`
	Moving    int   `json:"moving"`
	Forgotten int   `json:"forgotten"`
	Unpurged  int   `json:"unpurged"`
	// LeftOut lists tables (keyspace.table) that were dropped before they were repaired.
	LeftOut []string `json:"left_out,omitempty"`
}

// plus returns the sum of s and a report.
func (s Summary) plus(r *Report) Summary {
	s.Ranges += r.RangesDone
	s.Different += r.Differing
	s.Rows += r.Rows
	s.Bytes += r.Bytes
	s.Skipped += r.Skipped
	s.Moving += r.Moving
	s.Forgotten += r.Forgotten
	s.Unpurged += r.Unpurged
	return s
}

// tablesCheckpoint is the checkpoint of a repair's job: all targets up to the name After are done. Positions within the
// next target have the meaning that Run documents.
type tablesCheckpoint struct {
	After   string  `json:"after,omitempty"`
	Summary Summary `json:"summary"`
}

// Tables is an operator's repair in progress: one Run for each target. It reports its progress in ranges to a job. Its
// events come from its runs, one at a time.
type Tables struct {
	r    *Repairer
	j    *jobs.Job
	plan Plan
	done func(Summary, error)

	events    serial
	run       *Run
	state     tablesCheckpoint
	present   Summary // with the report of run
	counts    []int   // ranges of each target, when the repair began
	at        int     // the present target
	before    int     // ranges of the targets before it
	total     int     // ranges of all targets
	cancelled bool
	ended     bool
}

// StartTables starts a repair, or continues it at the checkpoint of the last attempt of its job. It calls done once.
// The caller ends the job. Cancelling the job cancels the repair, which then ends with ErrCancelled.
func (r *Repairer) StartTables(j *jobs.Job, plan Plan, done func(Summary, error)) *Tables {
	t := &Tables{r: r, j: j, plan: plan, done: done}
	t.events.do(t.begin)
	j.OnCancel(t.Cancel)
	return t
}

// Cancel ends the repair with ErrCancelled, unless it has ended.
func (t *Tables) Cancel() {
	t.events.do(func() {
		if t.cancelled = true; t.run != nil {
			t.run.Cancel()
		}
	})
}

// begin reads the checkpoint and counts the ranges of all targets.
func (t *Tables) begin() {
	// A checkpoint of another version may not be readable.
	if b := t.j.Checkpoint(); t.plan.Keep && b != nil && json.Unmarshal(b, &t.state) != nil {
		t.state = tablesCheckpoint{} // the repair starts again
	}
	for _, target := range t.plan.Targets {
		// Counted once, so that the total that operators see does not change while the ring does.
		n := t.r.ranges(target, &t.plan.Scope)
		t.counts = append(t.counts, n)
		t.total += n
	}
	t.next()
}

// Ranges returns the number of ranges with one replica set each that a plan covers.
func (r *Repairer) Ranges(plan *Plan) (n int) {
	for _, target := range plan.Targets {
		n += r.ranges(target, &plan.Scope)
	}
	return n
}

// ranges returns the number of ranges with one replica set each.
func (r *Repairer) ranges(target Target, scope *Scope) int {
	table := r.view.Schema().TableByStorage(target.Table)
	if table == nil || table.Replication.Class == ring.Local {
		return 0
	}
	return len(pieces(r.view.Topology(), table, target.Range.Unwrap(), scope))
}

// next starts the next target that is not done.
func (t *Tables) next() {
	// Targets are sorted by name, and all up to After are done.
	for t.at < len(t.plan.Targets) && t.plan.Keep && t.plan.Targets[t.at].Name <= t.state.After {
		t.before += t.counts[t.at]
		t.at++
	}
	t.present = t.state.Summary
	switch {
	case t.cancelled:
		t.end(ErrCancelled)
	case t.at == len(t.plan.Targets):
		t.end(nil)
	default:
		target := t.plan.Targets[t.at]
		job := Job{Table: target.Table, Range: target.Range, Scope: t.plan.Scope, SkipDown: t.plan.SkipDown}
		// The position within the table is stored by Run, under a name that contains the id of the job.
		if t.plan.Keep {
			job.Name = positionsOf(t.j.ID()) + fmt.Sprint(target.Table)
		}
		// The run may call back before Start returns: those events come after this one.
		t.run = t.r.Start(job, func(report Report) { t.events.do(func() { t.progress(target, &report) }) },
			func(report Report, err error) { t.events.do(func() { t.runEnded(target, &report, err) }) })
	}
}

// progress is the event of the beginning of a run, and of the end of each of its ranges.
func (t *Tables) progress(target Target, report *Report) {
	if t.ended {
		return
	}
	skipped := t.present.Skipped + t.present.Moving
	t.present = t.state.Summary.plus(report)
	// The ring may have changed, so that the run has more ranges than were counted.
	left := report.Ranges - report.RangesDone - report.Skipped - report.Moving
	done := t.before + max(0, t.counts[t.at]-left)
	t.j.Progress(int64(done), int64(t.total), "repairing "+target.Name)
	if t.plan.Keep && t.present.Skipped+t.present.Moving > skipped {
		// The position passes skipped ranges, so a crash must not forget that there are some.
		t.store(tablesCheckpoint{t.state.After, t.present})
	}
}

// runEnded is the event of the end of a run.
func (t *Tables) runEnded(target Target, report *Report, err error) {
	if t.ended {
		return
	}
	t.run = nil
	// An operator's repair of many tables must not fail because one of them was dropped meanwhile.
	if err != nil && t.r.view.Schema().Dropped(target.Table) {
		t.state.Summary.LeftOut = append(t.state.Summary.LeftOut, target.Name)
		err = nil
	} else {
		t.state.Summary = t.state.Summary.plus(report)
	}
	if err == nil {
		t.state.After = target.Name
	}
	if t.plan.Keep {
		t.store(t.state)
	}
	if err != nil {
		t.present = t.state.Summary
		t.end(fmt.Errorf("%s: %w", target.Name, err))
		return
	}
	t.before += t.counts[t.at]
	t.at++
	t.next()
}

// store stores a checkpoint.
func (t *Tables) store(c tablesCheckpoint) {
	if b, err := json.Marshal(c); err == nil {
		t.j.SetCheckpoint(b)
	}
}

// end reports the end. present includes the ranges of a run that failed.
func (t *Tables) end(err error) {
	t.ended = true
	t.done(t.present, err)
}

// positionsOf is the prefix of the names of a job's runs.
func positionsOf(job string) string { return "job/" + job + "/" }

// ForgetTables removes the stored positions of a job that will not be resumed.
func (r *Repairer) ForgetTables(job string) error {
	if r.store == nil {
		return nil
	}
	var keys [][]byte
	err := r.store.ScanLocal([]byte("repair/"+positionsOf(job)), func(key, _ []byte) error {
		keys = append(keys, append([]byte(nil), key...))
		return nil
	})
	// After the scan, which must not be disturbed by deletions.
	for _, key := range keys {
		if err == nil {
			err = r.store.DeleteLocal(key, false)
		}
	}
	return err
}
