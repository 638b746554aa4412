package ctl

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"cqld/node/control"
)

// jobsCommand groups the subcommands for long-running jobs. Without a subcommand, it lists the jobs. A job runs on one
// node, so all subcommands need the same --node, --data-dir or --host.
type jobsCommand struct {
	List   listJobsCommand  `cmd:"" default:"1" help:"List the jobs that run, and the last ones that have ended."`
	Show   showJobCommand   `cmd:"" help:"Show one job."`
	Watch  watchJobsCommand `cmd:"" help:"Show the progress of a job until it ends; of all jobs when no ID is given."`
	Cancel cancelJobCommand `cmd:"" help:"Cancel a job and wait until it has stopped."`
	Resume resumeJobCommand `cmd:"" help:"Continue a job that failed, was cancelled or was interrupted by the end of the process."`
}

// jobArg is the argument that names a job. IDs are decimal numbers of one node, or ring-N for an operation that changes
// the ring, which is N on every node.
type jobArg struct {
	ID string `arg:"" help:"ID of the job, as 'jobs list' shows it."`
}

// listJobsCommand lists running and ended jobs of one node.
type listJobsCommand struct{}

// Run lists the jobs.
func (c *listJobsCommand) Run(s *session) error {
	return ask(s, control.ListJobs, control.JobArgs{}, showJobs)
}

// showJobs prints one line for each job, in the order of the node.
func showJobs(w io.Writer, all control.Jobs) error {
	if len(all.Jobs) == 0 {
		_, err := fmt.Fprintln(w, "There are no jobs.")
		return err
	}
	t := newTable("ID", "Kind", "Target", "State", "Progress", "Remaining", "Phase").alignRight(0)
	for _, j := range all.Jobs {
		// The last column is free text, so it may be longer than the others.
		phase := j.Phase
		// An error is more informative than the phase in which it occurred.
		if j.Error != "" {
			phase = j.Error
		}
		t.row(j.ID, j.Kind, j.Target, j.State, jobProgress(&j), remaining(j.Left), phase)
	}
	return t.print(w)
}

// jobProgress formats the progress of a job: 12 of 57 ranges (21.1%). It is "-" before there is progress. Bytes have
// units of 1,024.
func jobProgress(j *control.Job) string {
	count := func(n int64) string {
		if j.Unit == "bytes" {
			return size(n)
		}
		return fmt.Sprint(n)
	}
	unit := ""
	if j.Unit != "bytes" {
		unit = " " + j.Unit
	}
	switch {
	// Without a total, only what is done is shown.
	case j.Total > 0:
		return fmt.Sprintf("%s of %s%s (%s)", count(j.Done), count(j.Total), unit,
			percent(float64(j.Done)/float64(j.Total)))
	case j.Done > 0:
		return count(j.Done) + unit
	}
	return "-"
}

// remaining formats an estimate; "-" means that there is none. The node computes the estimate from the rate of the
// current attempt.
func remaining(left time.Duration) string {
	if left <= 0 {
		return "-"
	}
	return left.Round(time.Second).String()
}

// showJobCommand prints one job with its times and error.
type showJobCommand struct{ jobArg }

// Run prints one job.
func (c *showJobCommand) Run(s *session) error {
	all, err := fetch(s, control.ListJobs, control.JobArgs{ID: c.ID})
	if err != nil {
		return err
	}
	// The node returns an error for an unknown ID, so there is one job.
	return show(s, all.Jobs[0], showJob)
}

// showJob prints all details of a job.
func showJob(w io.Writer, j control.Job) error {
	p := &printer{w: w}
	// A job that has not started or ended has a zero time.
	at := func(t time.Time) string {
		if t.IsZero() {
			return "-"
		}
		return t.Format(time.RFC3339)
	}
	p.line("ID:        %s\nKind:      %s\nTarget:    %s\nState:     %s\nProgress:  %s\nRemaining: %s", j.ID, j.Kind,
		j.Target, j.State, jobProgress(&j), remaining(j.Left))
	// The times belong to the current attempt, except for the creation.
	p.line("Attempt:   %d\nCreated:   %s\nBegan:     %s\nEnded:     %s", j.Attempt, at(j.Created), at(j.Began),
		at(j.Ended))
	if j.Phase != "" {
		p.line("Phase:     %s", j.Phase)
	}
	if j.Error != "" {
		p.line("Error:     %s", j.Error)
	}
	if j.Resumable {
		p.line("Continue it with: cqld ctl jobs resume %s", j.ID)
	}
	return p.err
}

// watchJobsCommand watches one job or, without an ID, all unfinished jobs.
type watchJobsCommand struct {
	ID string `arg:"" optional:"" help:"ID of the job, as 'jobs list' shows it."`
}

// Run prints the progress of one job, or of all, until they end. It fails if the named job fails.
func (c *watchJobsCommand) Run(s *session) error {
	if c.ID == "" {
		return watchJobs(s, watchEvery)
	}
	j, err := fetch(s, control.WatchJob, control.JobArgs{ID: c.ID})
	if err != nil {
		return err
	}
	// Every other final state is an error for scripts. The job is printed whether or not it succeeded.
	if err := show(s, j, showJob); err != nil || j.State == "done" {
		return err
	}
	return fmt.Errorf("job %s ended as %s", j.ID, j.State)
}

// watchEvery is the interval at which `jobs watch` polls all jobs. A job's line is printed only when it changes.
const watchEvery = time.Second

// errWatchedFailed is the result of watching jobs of which one failed.
var errWatchedFailed = errors.New("a job failed; see cqld ctl jobs list")

// watchJobs prints a line for each change of an unfinished job, until all have ended. A job that has ended before the
// first poll is not watched. It returns errWatchedFailed if the last attempt of a watched job failed, and the error of
// ctx after an interrupt. It does not see a job that starts and ends between two polls.
func watchJobs(s *session, every time.Duration) error {
	// printed has the last line of each job, and failed the jobs whose last attempt failed, by ID. The node bounds the
	// number of jobs.
	printed, watched, failed := map[string]string{}, []string{}, map[string]bool{}
	for {
		// Jobs may start at any time, so each poll lists them again.
		all, err := fetch(s, control.ListJobs, control.JobArgs{})
		if err != nil {
			return err
		}
		open := 0
		for _, j := range all.Jobs {
			// All other states are final.
			ended := j.State != "queued" && j.State != "running"
			if ended && !slices.Contains(watched, j.ID) {
				continue
			}
			if !slices.Contains(watched, j.ID) {
				watched = append(watched, j.ID)
			}
			line := jobLine(&j)
			// A failed job may be resumed while others run; only its last attempt counts.
			if j.State == "failed" {
				failed[j.ID] = true
			} else {
				delete(failed, j.ID)
			}
			// An unchanged line is not repeated.
			if printed[j.ID] != line {
				printed[j.ID] = line
				if err := s.showChange(&j, line); err != nil {
					return err
				}
			}
			if !ended {
				open++
			}
		}
		// A failed job does not end the watch while others run.
		switch {
		// Without any change, the JSON output is empty.
		case open == 0 && len(watched) == 0 && s.json:
			return nil
		case open == 0 && len(watched) == 0:
			_, err := fmt.Fprintln(s.out, "No job is running.")
			return err
		case open == 0 && len(failed) > 0:
			return errWatchedFailed
		case open == 0:
			return nil
		}
		select {
		case <-s.ctx.Done():
			return s.ctx.Err()
		case <-time.After(every):
		}
	}
}

// showChange prints a changed job: its line or, with --json, the job in one line of JSON, so that programs can read the
// changes one by one.
func (s *session) showChange(j *control.Job, line string) error {
	if s.json {
		return json.NewEncoder(s.out).Encode(j)
	}
	_, err := fmt.Fprintln(s.out, line)
	return err
}

// jobLine describes a job in one line. For example: 12  compact of shop.orders: running, 1.50 GiB of 6.00 GiB (25.0%),
// 2m10s left.
func jobLine(j *control.Job) string {
	line := fmt.Sprintf("%s  %s of %s: %s, %s", j.ID, j.Kind, j.Target, j.State, jobProgress(j))
	if j.Phase != "" {
		line += ", " + j.Phase
	}
	if j.Left > 0 {
		line += ", " + remaining(j.Left) + " left"
	}
	if j.Error != "" {
		line += ": " + j.Error
	}
	return line
}

// cancelJobCommand waits until the job has stopped. A ring operation is aborted. Other jobs can be resumed afterwards
// if Resumable says so.
type cancelJobCommand struct{ jobArg }

// Run cancels a job.
func (c *cancelJobCommand) Run(s *session) error {
	return ask(s, control.CancelJob, control.JobArgs{ID: c.ID}, func(w io.Writer, j control.Job) error {
		_, err := fmt.Fprintf(w, "Job %s is %s.\n", j.ID, j.State)
		return err
	})
}

// resumeJobCommand starts the next attempt of a job and does not wait for it.
type resumeJobCommand struct{ jobArg }

// Run resumes a job.
func (c *resumeJobCommand) Run(s *session) error {
	// It returns immediately; the attempt runs on the node.
	return ask(s, control.ResumeJob, control.JobArgs{ID: c.ID}, func(w io.Writer, j control.Job) error {
		_, err := fmt.Fprintf(w, "Job %s is %s, attempt %d. Follow it with: cqld ctl jobs watch %s\n", j.ID, j.State,
			j.Attempt, j.ID)
		return err
	})
}

// interrupted informs the user of an interrupted command that its job continues. It prints to progress, to keep the
// result in out parseable.
func (s *session) interrupted() {
	// Without an interrupt, the command has waited for the end of the job.
	if s.job != "" && s.ctx.Err() != nil && !s.stops {
		// Another command shows the phase of a ring operation.
		follow := "cqld ctl jobs watch " + s.job
		if strings.HasPrefix(s.job, "ring-") {
			follow = "cqld ctl operations"
		}
		fmt.Fprintf(s.progress, "Job %s continues. Follow it with: %s; end it with: cqld ctl jobs cancel %s\n", s.job,
			follow, s.job)
	}
}
