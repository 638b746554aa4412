package ctl

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"cqld/node/control"
)

// listing returns a node that answers listjobs with one list of jobs after the other. The last one is repeated.
func listing(polls [][]control.Job) func(*control.Server) {
	return func(server *control.Server) {
		poll := 0
		control.Handle(server, control.ListJobs, func(context.Context, control.JobArgs,
			control.Report) (control.Jobs, error) {
			poll++
			return control.Jobs{Jobs: polls[min(poll, len(polls))-1]}, nil
		})
	}
}

// TestWatchPrintsChanges watches jobs that run, fail and end, as text and as JSON. Each change is one line, and with
// --json each line is a job.
func TestWatchPrintsChanges(t *testing.T) {
	polls := [][]control.Job{
		{{ID: "1", Kind: "repair", State: "running"}, {ID: "2", Kind: "cleanup", State: "queued"},
			{ID: "3", Kind: "repair", State: "done"}},
		{{ID: "1", Kind: "repair", State: "running"}, {ID: "2", Kind: "cleanup", State: "running"}},
		{{ID: "1", Kind: "repair", State: "failed", Error: "the disk is full"},
			{ID: "2", Kind: "cleanup", State: "done"}},
	}
	want := []string{"1 running", "2 queued", "2 running", "1 failed", "2 done"}
	for _, asJSON := range []bool{false, true} {
		for _, jobs := range [][][]control.Job{polls, {{}}} {
			s, out := sessionOf(t, listing(jobs)), new(bytes.Buffer)
			s.json, s.out = asJSON, out
			err := watchJobs(s, time.Millisecond)
			if len(jobs) == 1 {
				if (out.Len() == 0) != asJSON || err != nil {
					t.Errorf("JSON %t, without jobs: %v, %q", asJSON, err, out)
				}
				continue
			}
			if !errors.Is(err, errWatchedFailed) {
				t.Errorf("JSON %t: %v", asJSON, err)
			}
			lines := strings.Split(strings.TrimSpace(out.String()), "\n")
			if len(lines) != len(want) {
				t.Fatalf("JSON %t: %q", asJSON, lines)
			}
			for i, line := range lines {
				id, state, _ := strings.Cut(want[i], " ")
				var j control.Job
				if asJSON && (json.Unmarshal([]byte(line), &j) != nil || j.ID != id || j.State != state) ||
					!asJSON && !strings.HasPrefix(line, id+"  ") || !strings.Contains(line, state) {
					t.Errorf("JSON %t: line %d is %q, want job %s", asJSON, i, line, want[i])
				}
			}
		}
	}
}

// TestWatchFailsForTheLastAttempt resumes a failed job while another one runs: the watch ends as the last attempt does.
// A failed job that the node no longer lists has still failed.
func TestWatchFailsForTheLastAttempt(t *testing.T) {
	running := control.Job{ID: "2", Kind: "cleanup", State: "running"}
	attempt := func(state string) control.Job { return control.Job{ID: "1", Kind: "repair", State: state} }
	for _, c := range []struct {
		what   string
		polls  [][]control.Job
		failed bool
	}{
		{"resumed and done", [][]control.Job{{attempt("running"), running}, {attempt("failed"), running},
			{attempt("running"), running}, {attempt("done"), {ID: "2", State: "done"}}}, false},
		{"resumed and failed", [][]control.Job{{attempt("running"), running}, {attempt("failed"), running},
			{attempt("queued"), running}, {attempt("failed"), {ID: "2", State: "done"}}}, true},
		{"failed and forgotten", [][]control.Job{{attempt("running"), running}, {attempt("failed"), running},
			{running}, {{ID: "2", State: "done"}}}, true},
	} {
		err := watchJobs(sessionOf(t, listing(c.polls)), time.Millisecond)
		if errors.Is(err, errWatchedFailed) != c.failed || err != nil && !c.failed {
			t.Errorf("%s: %v", c.what, err)
		}
	}
}
