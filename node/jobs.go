package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"cqld/jobs"
	"cqld/node/control"
)

// openJobs opens the registry of jobs. Storage and the other parts are already open.
func (n *Node) openJobs() (err error) {
	n.jobs, err = jobs.Open(jobs.Options{Clock: n.clock, Store: n.engine, Forgotten: n.forgetJob,
		OnError: func(err error) { n.log.Warn("job not stored", "err", err) }})
	return err
}

// forgetJob removes what a job stored for its next attempt. It implements jobs.Options.Forgotten.
func (n *Node) forgetJob(s jobs.Snapshot) {
	var err error
	switch s.Kind {
	case jobs.Repair:
		err = n.repairer.ForgetTables(s.ID)
	case jobs.Rebuild:
		err = n.moves.ForgetRebuild(s.ID)
	}
	if err != nil {
		n.log.Warn("positions of an ended job not removed", "job", s.ID, "err", err)
	}
}

// jobWork performs one attempt of a job. It returns when the attempt has ended; ctx ends when the job is cancelled or
// the node stops.
type jobWork func(ctx context.Context, j *jobs.Job) error

// run returns a function that the registry calls to begin work. The work runs in a goroutine that the node waits for. A
// panic fails the job.
func (n *Node) run(work jobWork) func(*jobs.Job) {
	return func(j *jobs.Job) {
		ctx, cancel := context.WithCancel(n.lifetime)
		j.OnCancel(cancel)
		n.running.Go(func() {
			defer cancel()
			var err error
			if panicked := n.guard.Do("job", func() { err = work(ctx, j) }); panicked != nil {
				err = panicked
			}
			if err != nil {
				n.log.Warn("job ended with an error", "job", j.ID(), "err", err)
			}
			j.End(err)
		})
	}
}

// startJob starts a job of an operator's command with its arguments, and waits for it.
func (n *Node) startJob(ctx context.Context, kind jobs.Kind, target string, unit jobs.Unit, args any, work jobWork,
	report control.Report) error {
	b, err := json.Marshal(args)
	if err != nil {
		return err
	}
	j, err := n.jobs.Start(jobs.Spec{Kind: kind, Target: target, Unit: unit, Args: b, Resumable: true}, n.run(work))
	if err != nil {
		return jobRefusal(err)
	}
	s, err := n.watchJob(ctx, j.ID(), report)
	if err != nil {
		return err
	}
	return jobError(&s)
}

// watchJob reports the progress of a job until its attempt has ended or the client has disconnected. The job continues
// after a disconnect.
func (n *Node) watchJob(ctx context.Context, id string, report control.Report) (jobs.Snapshot, error) {
	ended, err := n.jobs.Wait(id)
	if err != nil {
		return jobs.Snapshot{}, jobRefusal(err)
	}
	for {
		n.measureRing()
		s, err := n.jobs.Get(id)
		if err != nil {
			return s, jobRefusal(err)
		}
		report(progressOf(&s))
		select {
		case <-ended:
			s, err = n.jobs.Get(id)
			return s, jobRefusal(err)
		case <-ctx.Done():
			return s, ctx.Err()
		case <-time.After(progressEvery):
		}
	}
}

// progressOf returns the progress of a job in the form of the control protocol.
func progressOf(s *jobs.Snapshot) control.Progress {
	p := control.Progress{Job: s.ID, What: s.Phase, Done: s.Done, Total: s.Total, Bytes: s.Unit == jobs.Bytes,
		Unit: string(s.Unit), Left: s.Left}
	if p.What == "" {
		p.What = string(s.Kind)
	}
	if s.State == jobs.Queued {
		p.What = string(s.Kind) + " is queued"
	}
	return p
}

// jobError returns the error of an ended job for the command that waits for it.
func jobError(s *jobs.Snapshot) error {
	switch s.State {
	case jobs.Cancelled:
		return &control.Error{Code: control.Failed, Message: fmt.Sprintf("job %s was cancelled; continue it with: "+
			"cqld ctl jobs resume %s", s.ID, s.ID)}
	case jobs.Failed, jobs.Interrupted:
		return &control.Error{Code: control.Failed, Message: s.Error}
	}
	return nil
}

// jobRefusal converts errors of the registry to errors of the control protocol.
func jobRefusal(err error) error {
	for refused, code := range map[error]control.Code{jobs.ErrUnknown: control.Invalid, jobs.ErrEnded: control.Refused,
		jobs.ErrTooMany:      control.Refused,
		jobs.ErrNotResumable: control.Refused, jobs.ErrStillRunning: control.Refused,
		jobs.ErrCompleted:      control.Refused,
		jobs.ErrNotCancellable: control.Refused, jobs.ErrClosed: control.Refused} {
		if errors.Is(err, refused) {
			return &control.Error{Code: code, Message: err.Error()}
		}
	}
	return err
}

// listJobs returns all jobs, with the current progress of ring operations.
func (n *Node) listJobs() []jobs.Snapshot {
	if n.jobs == nil {
		return nil
	}
	n.measureRing()
	return n.jobs.List()
}

func shownJob(s *jobs.Snapshot) control.Job {
	return control.Job{ID: s.ID, Kind: string(s.Kind), Target: s.Target, State: s.State.String(), Phase: s.Phase,
		Done: s.Done, Total: s.Total,
		Unit: string(s.Unit), Left: s.Left, Attempt: s.Attempt, Error: s.Error, Resumable: s.Resumable &&
			s.State.Ended() && s.State != jobs.Done,
		Created: s.Created, Began: s.Began, Ended: s.Ended}
}

// opJobs lists all jobs, or a single one.
func (n *Node) opJobs(_ context.Context, a control.JobArgs, _ control.Report) (control.Jobs, error) {
	out := control.Jobs{Jobs: []control.Job{}}
	for _, s := range n.listJobs() {
		if a.ID == "" || a.ID == s.ID {
			out.Jobs = append(out.Jobs, shownJob(&s))
		}
	}
	if a.ID != "" && len(out.Jobs) == 0 {
		return out, jobRefusal(jobs.ErrUnknown)
	}
	return out, nil
}

// opWatchJob returns when a job has ended.
func (n *Node) opWatchJob(ctx context.Context, a control.JobArgs, report control.Report) (control.Job, error) {
	s, err := n.watchJob(ctx, a.ID, report)
	return shownJob(&s), err
}

// opCancelJob cancels a job and waits until its work has stopped. A ring operation is aborted.
func (n *Node) opCancelJob(ctx context.Context, a control.JobArgs, report control.Report) (out control.Job, err error) {
	if operation, ring := ringOperation(a.ID); ring {
		s, err := n.jobs.Get(a.ID)
		if err != nil {
			return out, jobRefusal(err)
		}
		if s.State.Ended() {
			return out, jobRefusal(jobs.ErrEnded)
		}
		departure, err := n.opAbort(ctx, control.AbortArgs{Operation: operation}, report)
		if err != nil {
			return out, err
		}
		if departure.Left { // this node may not receive the decision
			s.State = jobs.Cancelled
			return shownJob(&s), nil
		}
	} else if err := n.jobs.Cancel(a.ID); err != nil {
		return out, jobRefusal(err)
	}
	return n.opWatchJob(ctx, a, report)
}

// opResumeJob begins the next attempt of a job and returns immediately.
func (n *Node) opResumeJob(_ context.Context, a control.JobArgs, _ control.Report) (out control.Job, err error) {
	s, err := n.jobs.Get(a.ID)
	if err != nil {
		return out, jobRefusal(err)
	}
	work, err := n.workOf(&s)
	if err != nil {
		return out, err
	}
	if _, err := n.jobs.Resume(a.ID, n.run(work)); err != nil {
		return out, jobRefusal(err)
	}
	s, err = n.jobs.Get(a.ID)
	return shownJob(&s), jobRefusal(err)
}

// workOf returns the work of a stored job.
func (n *Node) workOf(s *jobs.Snapshot) (jobWork, error) {
	var err error
	switch s.Kind {
	case jobs.Repair:
		var a control.RepairArgs
		err = json.Unmarshal(s.Args, &a)
		return n.repairWork(a, nil), err
	case jobs.Rebuild:
		var a control.RebuildArgs
		err = json.Unmarshal(s.Args, &a)
		return n.rebuildWork(a), err
	case jobs.Cleanup:
		var a control.TablesArgs
		err = json.Unmarshal(s.Args, &a)
		return n.cleanupWork(a), err
	case jobs.Compaction:
		var a control.TablesArgs
		err = json.Unmarshal(s.Args, &a)
		return n.compactionWork(a), err
	}
	return nil, jobRefusal(jobs.ErrNotResumable)
}

// targetOf describes tables for operators.
func targetOf(a control.TablesArgs) string {
	switch {
	case a.Keyspace == "":
		return "all keyspaces"
	case len(a.Tables) == 0:
		return a.Keyspace
	case len(a.Tables) == 1:
		return a.Keyspace + "." + a.Tables[0]
	}
	return fmt.Sprintf("%s (%d tables)", a.Keyspace, len(a.Tables))
}
