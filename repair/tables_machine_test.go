package repair

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"cqld/ring"
)

// tablesSteps executes steps of an operator's repair of both tables of autoCatalog, and writes their effects as text.
type tablesSteps struct {
	*autoSteps
	m    tablesMachine
	last uint64 // the number of the last run
}

func newTablesSteps(t testing.TB, plan Plan) *tablesSteps {
	s := &tablesSteps{autoSteps: newAutoSteps(t, newDirty)}
	for i := range 2 {
		plan.Targets = append(plan.Targets, Target{Name: fmt.Sprint("ks.t", i), Table: s.table(i),
			Range: ring.FullRange()})
	}
	s.m = tablesMachine{view: s.v, plan: plan, positions: "p/"}
	return s
}

func (s *tablesSteps) step(ev tablesEvent) string {
	var text []string
	for _, e := range s.m.step(&ev, nil) {
		switch e.kind {
		case tablesRun:
			s.last = e.number
			text = append(text, strings.TrimSpace(fmt.Sprint("run ", s.index(e.job.Table), " ", e.job.Name)))
		case tablesCancelRun:
			text = append(text, "cancel")
		case tablesProgress:
			text = append(text, fmt.Sprintf("progress %d/%d", e.done, e.total))
		case tablesStore:
			text = append(text, fmt.Sprintf("store %s %d", e.checkpoint.After, e.checkpoint.Summary.Ranges))
		case tablesFinish:
			text = append(text, fmt.Sprintf("finish %d %v, %v", e.summary.Ranges, e.summary.LeftOut, e.err))
		}
	}
	s.m.check()
	return strings.Join(text, ", ")
}

// progress delivers a report of the run under way.
func (s *tablesSteps) progress(done, skipped int) string {
	return s.step(tablesEvent{kind: tablesProgressed, number: s.last,
		report: Report{Ranges: 4, RangesDone: done, Skipped: skipped}})
}

// ended delivers the end of the run under way.
func (s *tablesSteps) ended(err error) string {
	return s.step(tablesEvent{kind: tablesRunEnded, number: s.last, report: Report{Ranges: 4, RangesDone: 4}, err: err})
}

// TestStepsOfTables lists the effects of each event, in each state that matters.
func TestStepsOfTables(t *testing.T) {
	start := tablesEvent{kind: tablesStarted}
	for _, c := range []struct {
		name, want string
		plan       Plan
		last       func(s *tablesSteps) string
	}{
		{"start", "run 0", Plan{}, func(s *tablesSteps) string { return s.step(start) }},
		{"start with positions", "run 0 p/1024", Plan{Keep: true}, func(s *tablesSteps) string {
			return s.step(start)
		}},
		{"nothing to repair", "finish 0 [], <nil>", Plan{}, func(s *tablesSteps) string {
			s.m.plan.Targets = nil
			return s.step(start)
		}},
		{"resumed", "run 1 p/1025", Plan{Keep: true}, func(s *tablesSteps) string {
			return s.step(tablesEvent{kind: tablesStarted, checkpoint: tablesCheckpoint{After: "ks.t0"}})
		}},
		{"resumed after the last", "finish 7 [], <nil>", Plan{Keep: true}, func(s *tablesSteps) string {
			return s.step(tablesEvent{kind: tablesStarted, checkpoint: tablesCheckpoint{After: "ks.t1",
				Summary: Summary{Ranges: 7}}})
		}},
		{"progress", "progress 2/8", Plan{Keep: true}, func(s *tablesSteps) string {
			s.step(start)
			return s.progress(2, 0)
		}},
		{"a range is skipped", "progress 2/8", Plan{}, func(s *tablesSteps) string {
			s.step(start)
			return s.progress(1, 1)
		}},
		{"a skipped range is stored", "progress 2/8, store  1", Plan{Keep: true}, func(s *tablesSteps) string {
			s.step(start)
			return s.progress(1, 1)
		}},
		{"the next table", "run 1", Plan{}, func(s *tablesSteps) string {
			s.step(start)
			return s.ended(nil)
		}},
		{"the next table, with a checkpoint", "store ks.t0 4, run 1 p/1025", Plan{Keep: true},
			func(s *tablesSteps) string {
				s.step(start)
				return s.ended(nil)
			}},
		{"progress of the next table", "progress 5/8", Plan{}, func(s *tablesSteps) string {
			s.step(start)
			s.ended(nil)
			return s.progress(1, 0)
		}},
		{"the end", "finish 8 [], <nil>", Plan{}, func(s *tablesSteps) string {
			s.step(start)
			s.ended(nil)
			return s.ended(nil)
		}},
		{"a failure", "store  4, finish 4 [], ks.t0: disk", Plan{Keep: true}, func(s *tablesSteps) string {
			s.step(start)
			return s.ended(errAuto)
		}},
		{"a table is dropped", "run 1", Plan{}, func(s *tablesSteps) string {
			s.step(start)
			s.drop(t, 0)
			return s.ended(errAuto)
		}},
		{"dropped tables are listed", "finish 4 [ks.t0], <nil>", Plan{}, func(s *tablesSteps) string {
			s.step(start)
			s.drop(t, 0)
			s.ended(errAuto)
			return s.ended(nil)
		}},
		{"cancel", "cancel", Plan{}, func(s *tablesSteps) string {
			s.step(start)
			return s.step(tablesEvent{kind: tablesCancelled})
		}},
		{"cancelled", "finish 4 [], ks.t0: repair: cancelled", Plan{}, func(s *tablesSteps) string {
			s.step(start)
			s.step(tablesEvent{kind: tablesCancelled})
			return s.ended(ErrCancelled)
		}},
		{"the run ends before it is cancelled", "finish 4 [], repair: cancelled", Plan{}, func(s *tablesSteps) string {
			s.step(start)
			s.step(tablesEvent{kind: tablesCancelled})
			return s.ended(nil)
		}},
		{"late events of a run", "", Plan{}, func(s *tablesSteps) string {
			s.step(start)
			s.ended(nil)
			s.last--
			return s.progress(3, 1) + s.ended(errAuto)
		}},
		{"events after the end", "", Plan{}, func(s *tablesSteps) string {
			s.step(start)
			s.ended(errAuto)
			return s.progress(3, 1) + s.ended(nil) + s.step(tablesEvent{kind: tablesCancelled})
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.last(newTablesSteps(t, c.plan)); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// tablesChaos plays the runs of an operator's repair at random, with failures, cancellations, crashes and late events.
type tablesChaos struct {
	*tablesSteps
	rnd      *rand.Rand
	stored   tablesCheckpoint
	run      *tablesEffect // under way
	report   Report        // of run
	skipped  int           // ranges that were skipped in total
	done     map[string]bool
	finished *tablesEffect
	past     []tablesEvent
}

// send delivers an event, and performs its effects.
func (c *tablesChaos) send(t *testing.T, ev tablesEvent) {
	for _, e := range c.m.step(&ev, nil) {
		switch e.kind {
		case tablesRun:
			c.run, c.report = &e, Report{Ranges: 4}
		case tablesStore:
			c.stored = e.checkpoint
		case tablesFinish:
			if c.finished != nil {
				t.Error("the repair ends twice")
			}
			c.finished = &e
		case tablesProgress:
			if e.done > e.total {
				t.Errorf("%d of %d ranges are done", e.done, e.total)
			}
		case tablesCancelRun:
		}
	}
	c.m.check()
}

// advance completes or skips a range of the run, or ends it.
func (c *tablesChaos) advance(t *testing.T) {
	ev := tablesEvent{kind: tablesProgressed, number: c.run.number}
	switch r := &c.report; {
	case c.rnd.IntN(15) == 0:
		ev.kind, ev.err = tablesRunEnded, errAuto
	case r.RangesDone+r.Skipped == r.Ranges:
		ev.kind = tablesRunEnded
		c.done[c.m.plan.Targets[c.m.at].Name] = true
	case c.rnd.IntN(5) == 0:
		r.Skipped++
		c.skipped++
	default:
		r.RangesDone++
	}
	ev.report = c.report
	c.past = append(c.past, ev)
	c.send(t, ev)
}

// TestTablesInAnyOrder interrupts operators' repairs at random places. When one succeeds, each table was repaired, and
// the summary has all ranges that were skipped, also before crashes.
func TestTablesInAnyOrder(t *testing.T) {
	cancelled := 0
	for seed := range uint64(300) {
		c := &tablesChaos{tablesSteps: newTablesSteps(t, Plan{Keep: true}), done: map[string]bool{},
			rnd: rand.New(rand.NewPCG(seed, 4))}
		c.send(t, tablesEvent{kind: tablesStarted})
		for {
			if c.finished != nil {
				if c.finished.err == nil {
					break
				}
				if errors.Is(c.finished.err, ErrCancelled) {
					cancelled++
				}
			}
			switch n := c.rnd.IntN(40); {
			case n == 0 || c.finished != nil: // the next attempt, after the end or a crash
				c.finished, c.past = nil, nil
				c.m = tablesMachine{view: c.v, plan: c.m.plan, positions: "p/"}
				c.send(t, tablesEvent{kind: tablesStarted, checkpoint: c.stored})
			case n == 1:
				c.send(t, tablesEvent{kind: tablesCancelled})
			case n < 6 && len(c.past) > 0:
				late := c.past[c.rnd.IntN(len(c.past))]
				if late.number != c.m.run {
					c.send(t, late)
				}
			default:
				c.advance(t)
			}
		}
		if s := c.finished.summary; len(c.done) != 2 || s.Skipped < c.skipped {
			t.Fatalf("seed %d: %v are done, %d ranges of %d are reported as skipped", seed, c.done, s.Skipped,
				c.skipped)
		}
	}
	if cancelled == 0 {
		t.Error("no repair was cancelled")
	}
}
