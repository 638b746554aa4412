package repair

import (
	"encoding/json"

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

// Tables is an operator's repair in progress: one Run for each target. It reports its progress in ranges to a job. It
// is the shell of a tablesMachine.
type Tables struct {
	r    *Repairer
	j    *jobs.Job
	done func(Summary, error)

	events  shell[tablesEvent, tablesEffect]
	machine tablesMachine // guarded by the lock of events
	run     *Run          // the last one; only perform accesses it
}

// StartTables starts a repair, or continues it at the checkpoint of the last attempt of its job. It calls done once.
// The caller ends the job. Cancelling the job cancels the repair, which then ends with ErrCancelled.
func (r *Repairer) StartTables(j *jobs.Job, plan Plan, done func(Summary, error)) *Tables {
	t := &Tables{r: r, j: j, done: done}
	t.machine = tablesMachine{view: r.view, plan: plan, positions: positionsOf(j.ID())}
	t.events.step, t.events.perform = t.step, t.perform
	started := &tablesEvent{kind: tablesStarted}
	// A checkpoint of another version may not be readable.
	if b := j.Checkpoint(); plan.Keep && b != nil && json.Unmarshal(b, &started.checkpoint) != nil {
		started.checkpoint = tablesCheckpoint{} // the repair starts again
	}
	t.events.deliver(started)
	j.OnCancel(t.Cancel)
	return t
}

// Cancel ends the repair with ErrCancelled, unless it has ended.
func (t *Tables) Cancel() { t.events.deliver(&tablesEvent{kind: tablesCancelled}) }

// Ranges returns the number of ranges with one replica set each that a plan covers.
func (r *Repairer) Ranges(plan *Plan) (n int) {
	for _, target := range plan.Targets {
		n += rangesOf(r.view, target, &plan.Scope)
	}
	return n
}

// step executes a step of the machine. The lock is held.
func (t *Tables) step(ev *tablesEvent, out []tablesEffect) []tablesEffect {
	out = t.machine.step(ev, out)
	t.machine.check()
	return out
}

// perform performs an effect without the lock.
func (t *Tables) perform(e *tablesEffect) {
	number := e.number
	//exhaustive:enforce
	switch e.kind {
	case tablesRun:
		// The run may call back before Start returns: the effects of those events follow this one.
		t.run = t.r.Start(e.job, func(report Report) {
			t.events.deliver(&tablesEvent{kind: tablesProgressed, number: number, report: report})
		}, func(report Report, err error) {
			t.events.deliver(&tablesEvent{kind: tablesRunEnded, number: number, report: report, err: err})
		})
	case tablesCancelRun:
		t.run.Cancel() // has no effect after its end
	case tablesProgress:
		t.j.Progress(e.done, e.total, e.phase)
	case tablesStore:
		if b, err := json.Marshal(&e.checkpoint); err == nil {
			t.j.SetCheckpoint(b)
		}
	case tablesFinish:
		t.done(e.summary, e.err)
	}
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
	// The keys are deleted after the scan, which deletions must not disturb.
	for _, key := range keys {
		if err == nil {
			err = r.store.DeleteLocal(key, false)
		}
	}
	return err
}
