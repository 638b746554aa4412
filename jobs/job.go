package jobs

import (
	"errors"
	"time"
	"unicode/utf8"
)

// Kind is the type of a job. It is stored in records and is a label of metrics, so the values must not change. An
// operator sees them in cqld ctl jobs and in system_views.jobs.
type Kind string

// The kinds of local jobs. External jobs have the kinds of ring.OperationKind.
const (
	Repair     Kind = "repair"
	Rebuild    Kind = "rebuild"
	Cleanup    Kind = "cleanup"
	Compaction Kind = "compaction"
	// A verification reads the files of the node.
	Verification Kind = "verification"
	Import       Kind = "import" // of rows of a snapshot
	// KeyRotation rewrites files with the newest key of the encryption at rest.
	KeyRotation Kind = "key_rotation"
	Backup      Kind = "backup"
	Restore     Kind = "restore"
	// Builds of secondary indexes and of materialized views are External.
	IndexBuild Kind = "index_build"
	ViewBuild  Kind = "view_build"
)

// Kinds returns the kinds of local jobs.
func Kinds() []Kind {
	return []Kind{Repair, Rebuild, Cleanup, Compaction, Verification, Import, KeyRotation, Backup, Restore, IndexBuild,
		ViewBuild}
}

// Unit is the unit of a job's progress. Clients choose the format of a number by it.
type Unit string

// The units.
const (
	Bytes  Unit = "bytes"
	Ranges Unit = "ranges"
	Tables Unit = "tables"
	Nodes  Unit = "nodes"
)

// State is the state of the current attempt of a job. Numbers are stored in records; 0 is no state. For example queued
// ─▶ running ─▶ failed, and after Resume queued again in the next attempt.
type State uint8

// The states, in the order in which an attempt passes through them; the last four are final.
const (
	Queued State = iota + 1
	Running
	Done
	Failed
	Cancelled
	Interrupted // because the process ended
)

var stateNames = [...]string{"unknown", "queued", "running", "done", "failed", "cancelled", "interrupted"}

func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return stateNames[0]
}

// Ended reports whether the attempt is over.
func (s State) Ended() bool { return s >= Done }

// Snapshot describes a job at one point in time. It does not change afterwards. Args is a copy. It is what operators
// and metrics see; records have most of these fields.
type Snapshot struct {
	// ID is a decimal number, unique on this node across restarts. The id of a ring operation is "ring-" and the number
	// of the operation, on every node.
	ID     string
	Kind   Kind
	Target string // what the job works on: tables, keyspaces or a node
	State  State
	Phase  string // the current part
	// Done and Total count Units. Total is 0 while it is unknown.
	Done, Total int64
	Unit        Unit
	// Left is an estimate of the remaining time, from the rate of this attempt. 0 means unknown.
	Left time.Duration
	// Created is when the job was first requested. Began and Ended are the times of the current attempt. Zero means not
	// yet.
	Created, Began, Ended time.Time
	Attempt               int    // 1, and 1 more with each Resume
	Error                 string // why the attempt failed or was interrupted
	Resumable             bool   // Resume continues the job if the attempt is not done
	External              bool   // see Spec
	Args                  []byte // see Spec
}

// Errors of a Registry.
var (
	ErrClosed         = errors.New("jobs: the node is stopping")
	ErrTooMany        = errors.New("jobs: too many jobs are running and queued")
	ErrUnknown        = errors.New("jobs: there is no job with this id")
	ErrEnded          = errors.New("jobs: the job has ended")
	ErrNotResumable   = errors.New("jobs: jobs of this kind cannot be resumed; start a new one")
	ErrStillRunning   = errors.New("jobs: the job is still queued or running")
	ErrCompleted      = errors.New("jobs: the job is done; there is nothing to resume")
	ErrCancelled      = errors.New("jobs: cancelled") // for Job.End
	ErrNotCancellable = errors.New("jobs: the job cannot be cancelled at this point")
)

// interruptedText is the Error of an interrupted job.
const interruptedText = "the node stopped before the job ended"

// Job is the handle of one attempt. Calls after the end of the attempt have no effect, so that late callbacks of
// cancelled work are harmless. It is safe for concurrent use. A handle of an earlier attempt has no effect on a later
// one: attempt numbers are compared.
type Job struct {
	r       *Registry
	e       *entry
	attempt int
	ended   chan struct{}
}

// ID returns the id of the job.
func (j *Job) ID() string { return j.e.s.ID } // never changes

// Args returns the arguments of the job. The caller must not modify them.
func (j *Job) Args() []byte { return j.e.s.Args } // never change

// Ended returns a channel that is closed when the attempt has ended. It is also closed by Close of the registry.
func (j *Job) Ended() <-chan struct{} { return j.ended }

// Checkpoint returns the checkpoint that SetCheckpoint stored last, possibly in an earlier attempt or process. nil
// means none.
func (j *Job) Checkpoint() []byte {
	j.r.mu.Lock()
	defer j.r.mu.Unlock()
	return j.e.checkpoint
}

// SetCheckpoint stores the position from which Resume continues. The registry keeps the slice. It is stored before the
// call returns, unless the store fails. A checkpoint of more than argsBytesMax is reported and ignored.
func (j *Job) SetCheckpoint(b []byte) {
	// The previous checkpoint stays, so Resume repeats work instead of losing it.
	if len(b) > argsBytesMax {
		j.r.o.OnError(errors.New("jobs: a checkpoint is too large and was not stored"))
		return
	}
	j.update(true, func(e *entry) { e.checkpoint = b })
}

// Progress reports how much of the job is done, and its current part. Within an attempt, done does not decrease:
// smaller values are ignored. A total of 0 means unknown. It is cheap enough to call for each piece of work. A phase is
// a short text such as "streaming from n3", cut at textBytesMax.
func (j *Job) Progress(done, total int64, phase string) {
	j.update(false, func(e *entry) { e.progress(j.r.o.Clock.Monotonic(), done, total, phase) })
}

// update changes the entry unless the attempt has ended, and stores it: immediately if now is set, otherwise when
// StoreEvery has passed. change runs under the registry's lock and must not call it. A change that is not due is stored
// with the next one that is, or with the end of the attempt.
func (j *Job) update(now bool, change func(*entry)) {
	r := j.r
	r.mu.Lock()
	if !j.current() {
		r.mu.Unlock()
		return
	}
	change(j.e)
	at := r.o.Clock.Monotonic()
	due := now || at-j.e.stored >= r.o.Limits.StoreEvery
	// stored is set before the write, so that reports that arrive meanwhile are not due as well.
	if due {
		j.e.stored = at
	}
	r.mu.Unlock()
	if due {
		r.store(j.e, false)
	}
}

// current reports whether the attempt has not ended. The caller holds the registry's mutex.
func (j *Job) current() bool {
	return !j.r.mu.closed && j.attempt == j.e.s.Attempt && !j.e.s.State.Ended()
}

// OnCancel registers the function that stops the work; nil means that it can no longer be stopped. The function is
// called at most once, without locks: immediately if Cancel was called before. It must not block. The newest function
// replaces an earlier one.
func (j *Job) OnCancel(f func()) {
	j.r.mu.Lock()
	// Cancel found no function to call, so the work has not been stopped yet.
	call := f != nil && j.current() && j.e.cancelled
	if j.current() && !call {
		j.e.onCancel = f
	}
	j.r.mu.Unlock()
	if call {
		f()
	}
}

// End ends the attempt: done when err is nil, cancelled when Cancel was called before or err is ErrCancelled, failed
// otherwise. Only the first call has an effect. It may begin a queued job. err is shown to operators, cut at
// textBytesMax.
func (j *Job) End(err error) {
	r := j.r
	r.mu.Lock()
	if !j.current() {
		r.mu.Unlock()
		return
	}
	state, text := Done, ""
	switch {
	// Stopped work returns the error of its context, which is no failure of the job.
	case err != nil && (j.e.cancelled || errors.Is(err, ErrCancelled)):
		state = Cancelled
	case err != nil:
		state, text = Failed, cut(err.Error())
	// The last report may precede the end, and a job that is done shows 100 %.
	case j.e.s.Total > 0:
		j.e.s.Done = j.e.s.Total
	}
	forgotten := r.endLocked(j.e, state, text)
	r.mu.Unlock()
	r.settle(j.e, forgotten)
}

// cut truncates a text to textBytesMax, before the character that does not fit.
func cut(s string) string {
	if len(s) <= textBytesMax {
		return s
	}
	end := textBytesMax
	// Half of a character would reach operators as U+FFFD: a record is JSON, which replaces invalid UTF-8. A text that
	// is no UTF-8 at all, such as a file name in an error, loses at most the length of a character.
	for end > textBytesMax-utf8.UTFMax && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + "…"
}
