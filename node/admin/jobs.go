package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"cqld/internal/env"
	"cqld/internal/guard"
	"cqld/jobs"
	"cqld/node/control"
)

// Jobs lists, watches, cancels and resumes the jobs of this node, and runs those that operators start. A job outlives
// the command that started it, and the process that ran it.
type Jobs struct {
	o        JobsOptions
	registry *jobs.Registry // the jobs of this node
	ring     *ringJobs      // the jobs of ring operations, which the metadata keeps
	topology *Topology
	// works returns the work of a job that is resumed from its arguments, by kind.
	works map[jobs.Kind]func(args json.RawMessage) (jobWork, error)
}

// JobsOptions configure the jobs of a node. All fields are required. They are the parts of the node that jobs need.
type JobsOptions struct {
	Clock    env.Clock
	Guard    *guard.Guard
	Lifetime context.Context // ends when the node stops
	Run      func(func())    // runs a function in a goroutine that the node waits for
	Log      *slog.Logger
}

// resumable registers the work of jobs of a kind whose arguments have type A.
func resumable[A any](j *Jobs, kind jobs.Kind, work func(A) jobWork) {
	// Arguments that cannot be read make the job fail, not the process.
	j.works[kind] = func(raw json.RawMessage) (jobWork, error) {
		var args A
		err := json.Unmarshal(raw, &args)
		return work(args), err
	}
}

// Close ends the registry, before the work of its jobs is stopped, so that the next process lists them as interrupted.
// A job that is still running then is listed as interrupted.
func (j *Jobs) Close() { j.registry.Close() }

// Ended returns how many attempts of jobs have ended, by kind and state. Attempts are counted, not jobs: a job may
// have several.
func (j *Jobs) Ended() map[jobs.Outcome]int64 { return j.registry.Stats().Ended }

// jobWork performs one attempt of a job. It returns when the attempt has ended; ctx ends when the job is cancelled or
// the node stops. It reports its progress through j, and returns its error instead of ending the job itself. An attempt
// that is resumed begins with the checkpoint of the last one (jobs.Job.Checkpoint) and with the same arguments.
type jobWork func(ctx context.Context, j *jobs.Job) error

// run returns a function that the registry calls to begin work. The work runs in a goroutine that the node waits for. A
// panic fails the job. A cancelled job ends through its context; the work must return then.
func (j *Jobs) run(work jobWork) func(*jobs.Job) {
	return func(job *jobs.Job) {
		// The context ends with the node as well, so a work never outlives it.
		ctx, cancel := context.WithCancel(j.o.Lifetime)
		job.OnCancel(cancel)
		// The node waits for the goroutine, so Close returns after the job has ended.
		j.o.Run(func() {
			defer cancel()
			var err error
			// A panic ends the job and no other one; the guard has logged it.
			if panicked := j.o.Guard.Do("job", func() { err = work(ctx, job) }); panicked != nil {
				err = panicked
			}
			if err != nil {
				j.o.Log.Warn("job ended with an error", "job", job.ID(), "err", err)
			}
			job.End(err)
		})
	}
}

// start starts a job of an operator's command with its arguments, and waits for it. The error is a *control.Error if
// the job was refused, failed or was cancelled, and the error of ctx if the client has disconnected. A disconnected
// operator leaves the job running. `cqld ctl jobs` shows it, and lists it after a restart of the node as interrupted.
func (j *Jobs) start(ctx context.Context, kind jobs.Kind, target string, unit jobs.Unit, args any, work jobWork,
	report control.Report) error {
	job, err := j.begin(kind, target, unit, args, work)
	if err != nil {
		return jobRefusal(err)
	}
	s, err := j.watch(ctx, job.ID(), report)
	if err != nil {
		return err
	}
	return jobError(&s)
}

// begin starts a job and does not wait for it.
func (j *Jobs) begin(kind jobs.Kind, target string, unit jobs.Unit, args any, work jobWork) (*jobs.Job, error) {
	b, err := json.Marshal(args)
	if err != nil {
		return nil, err
	}
	// The arguments are stored, so that the job can be resumed without the command.
	return j.registry.Start(jobs.Spec{Kind: kind, Target: target, Unit: unit, Args: b, Resumable: true}, j.run(work))
}

// watch reports the progress of a job until its attempt has ended or the client has disconnected. The job continues
// after a disconnect. The registry keeps the newest progress, which is reported in between. It returns the last state
// that it has seen.
func (j *Jobs) watch(ctx context.Context, id string, report control.Report) (jobs.Snapshot, error) {
	// An unknown job is refused.
	ended, err := j.registry.Wait(id)
	if err != nil {
		return jobs.Snapshot{}, jobRefusal(err)
	}
	// Progress of ring operations is measured, because the metadata does not contain it.
	for {
		j.ring.measure()
		s, err := j.registry.Get(id)
		if err != nil {
			return s, jobRefusal(err)
		}
		report(progressOf(&s))
		select {
		case <-ended:
			s, err = j.registry.Get(id)
			return s, jobRefusal(err)
		case <-ctx.Done():
			return s, ctx.Err()
		case <-time.After(progressEvery):
		}
	}
}

// progressOf returns the progress of a job in the form of the control protocol. The phase of a job is shown instead of
// its kind, where there is one.
func progressOf(s *jobs.Snapshot) control.Progress {
	p := control.Progress{Job: s.ID, What: s.Phase, Done: s.Done, Total: s.Total, Bytes: s.Unit == jobs.Bytes,
		Unit: string(s.Unit), Left: s.Left}
	if p.What == "" {
		p.What = string(s.Kind)
	}
	// A job that is queued has no phase of its own.
	if s.State == jobs.Queued {
		p.What = string(s.Kind) + " is queued"
	}
	return p
}

// jobError returns the error of an ended job for the command that waits for it. It is nil for a job that is done or
// still running.
func jobError(s *jobs.Snapshot) error {
	switch s.State {
	case jobs.Cancelled:
		// A cancelled job can be continued, which the message says.
		return &control.Error{Code: control.Failed, Message: fmt.Sprintf("job %s was cancelled; continue it with: "+
			"cqld ctl jobs resume %s", s.ID, s.ID)}
	case jobs.Failed, jobs.Interrupted:
		return &control.Error{Code: control.Failed, Message: s.Error}
	}
	return nil
}

// jobRefusal converts errors of the registry to errors of the control protocol. Errors of the registry are the
// operator's: an id that does not exist, or a job in the wrong state.
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

// All returns all jobs, with the current progress of ring operations. They are the jobs of this node, ended ones as
// well.
func (j *Jobs) All() []jobs.Snapshot {
	j.ring.measure()
	return j.registry.List()
}

// ShownJob returns a job in the form of the control protocol. Resumable means that the job has ended without
// completing, and that this node can continue it.
func ShownJob(s *jobs.Snapshot) control.Job {
	return control.Job{ID: s.ID, Kind: string(s.Kind), Target: s.Target, State: s.State.String(), Phase: s.Phase,
		Done: s.Done, Total: s.Total,
		Unit: string(s.Unit), Left: s.Left, Attempt: s.Attempt, Error: s.Error, Resumable: s.Resumable &&
			s.State.Ended() && s.State != jobs.Done,
		Created: s.Created, Began: s.Began, Ended: s.Ended}
}

// List lists all jobs, or a single one. An unknown id is an error, because an operator has named it.
func (j *Jobs) List(_ context.Context, a control.JobArgs, _ control.Report) (control.Jobs, error) {
	out := control.Jobs{Jobs: []control.Job{}}
	for _, s := range j.All() {
		if a.ID == "" || a.ID == s.ID {
			out.Jobs = append(out.Jobs, ShownJob(&s))
		}
	}
	if a.ID != "" && len(out.Jobs) == 0 {
		return out, jobRefusal(jobs.ErrUnknown)
	}
	return out, nil
}

// Watch returns when a job has ended. A job that has ended is returned at once. The result of a failed job is not an
// error.
func (j *Jobs) Watch(ctx context.Context, a control.JobArgs, report control.Report) (control.Job, error) {
	s, err := j.watch(ctx, a.ID, report)
	return ShownJob(&s), err
}

// Cancel cancels a job and waits until its work has stopped. A ring operation is aborted. Both are waited for, so the
// operator learns the outcome.
func (j *Jobs) Cancel(ctx context.Context, a control.JobArgs, report control.Report) (out control.Job, err error) {
	// The nodes that take part in a ring operation agree on its end.
	if operation, ring := ringOperation(a.ID); ring {
		s, err := j.registry.Get(a.ID)
		if err != nil {
			return out, jobRefusal(err)
		}
		// An operation that has ended cannot be aborted.
		if s.State.Ended() {
			return out, jobRefusal(jobs.ErrEnded)
		}
		departure, err := j.topology.Abort(ctx, control.AbortArgs{Operation: operation}, report)
		if err != nil {
			return out, err
		}
		if departure.Left { // this node may not receive the decision
			s.State = jobs.Cancelled
			return ShownJob(&s), nil
		}
		// The work of any other job is stopped here.
	} else if err := j.registry.Cancel(a.ID); err != nil {
		return out, jobRefusal(err)
	}
	return j.Watch(ctx, a, report)
}

// Resume begins the next attempt of a job and returns immediately. A resumed job is a new attempt of the same job, with
// its own result. The arguments are the stored ones of the first attempt.
func (j *Jobs) Resume(_ context.Context, a control.JobArgs, _ control.Report) (out control.Job, err error) {
	s, err := j.registry.Get(a.ID)
	if err != nil {
		return out, jobRefusal(err)
	}
	work, err := j.workOf(&s)
	if err != nil {
		return out, err
	}
	// A job that is running, completed, or unknown is refused.
	if _, err := j.registry.Resume(a.ID, j.run(work)); err != nil {
		return out, jobRefusal(err)
	}
	s, err = j.registry.Get(a.ID)
	return ShownJob(&s), jobRefusal(err)
}

// workOf returns the work of a stored job. A kind without registered work cannot be resumed.
func (j *Jobs) workOf(s *jobs.Snapshot) (jobWork, error) {
	if work := j.works[s.Kind]; work != nil {
		return work(s.Args)
	}
	return nil, jobRefusal(jobs.ErrNotResumable)
}
