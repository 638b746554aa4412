package jobs

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"cqld/internal/env"
)

// Options are the dependencies of a Registry. Clock is required. A Clock of a simulation makes estimates and times
// reproducible.
type Options struct {
	Clock env.Clock
	// Store keeps the records of local jobs; nil keeps none.
	Store  LocalStore
	Limits Limits
	// OnError receives errors of Store; nil discards them. Jobs run without records.
	OnError func(error)
	// Forgotten is called, without locks, after the registry has forgotten an ended local job. The owner can then
	// remove what the job stored elsewhere for Resume. It may be nil.
	Forgotten func(Snapshot)
}

// Spec describes a new job. Target is for people, such as "shop.orders"; Args is for the work.
type Spec struct {
	Kind   Kind
	Target string
	Unit   Unit
	// Args contains what Resume needs to repeat the job, in the caller's encoding. The registry keeps the slice.
	Args []byte
	// Resumable means that the work can continue, or be repeated, after an attempt that did not complete.
	Resumable bool
	// External is the id of a job whose progress and persistence another component owns. Such a job takes no slot, is
	// not stored and cannot be resumed. Empty means a local job, whose id the registry assigns.
	External string
}

// Registry lists the jobs of a node. It is safe for concurrent use. Records are written outside of its lock (store), so
// a slow disk does not delay List.
type Registry struct {
	o  Options
	mu struct {
		sync.Mutex
		closed            bool
		next              uint64 // number of the next local job
		entries           map[string]*entry
		queue             []*entry // in the order of Start and Resume
		ended             []*entry // local ones, in the order of their ends
		endedExternal     []*entry // in the order of their ends
		running, external int
		outcomes          map[Outcome]int64
	}
}

// entry is a job of a registry. Its mutex guards the fields, except s.ID and s.Args, which never change. It stays the
// same over the attempts of a job. Methods with the suffix Locked need the registry's mutex.
type entry struct {
	s          Snapshot
	number     uint64 // of a local job
	checkpoint []byte
	job        *Job // of the current attempt; nil if the attempt belongs to an earlier process
	work       func(*Job)
	cancelled  bool // Cancel was called
	onCancel   func()

	// The estimate uses these, in monotonic time: when the attempt began, how much was done then, and when the last
	// progress was reported.
	began, moved time.Duration
	base         int64
	reported     bool

	stored time.Duration // monotonic time of the last record
	// writing means that a goroutine writes the record, dirty that it must write it again, forgotten that it must
	// remove it.
	writing, dirty, forgotten bool
}

// Open returns a registry with the jobs in the store. Those that had not ended are interrupted. An unreadable store is
// an error, because ids would be assigned twice.
func Open(o Options) (*Registry, error) {
	o.Limits = o.Limits.withDefaults()
	if o.OnError == nil {
		o.OnError = func(error) {}
	}
	r := &Registry{o: o}
	// Numbers begin at 1: decodeRecord takes 0 for a damaged record.
	r.mu.entries, r.mu.outcomes, r.mu.next = map[string]*entry{}, map[Outcome]int64{}, 1
	if err := r.load(); err != nil {
		return nil, fmt.Errorf("jobs: read the stored jobs: %w", err)
	}
	return r, nil
}

// Start adds a job. It calls work once, in the caller's goroutine or in one that frees a slot: immediately, or when the
// queued job gets a slot, but not if the job is cancelled before. work must not block; it ends the job by Job.End,
// possibly later. An external job that is already running is ErrStillRunning. The job is stored before the call
// returns.
func (r *Registry) Start(spec Spec, work func(*Job)) (*Job, error) {
	if len(spec.Args) > argsBytesMax {
		return nil, fmt.Errorf("jobs: the arguments have %d bytes; at most %d can be stored", len(spec.Args),
			argsBytesMax)
	}
	e := &entry{work: work, s: Snapshot{ID: spec.External, Kind: spec.Kind, Target: cut(spec.Target), Unit: spec.Unit,
		Args:      spec.Args,
		Resumable: spec.Resumable && spec.External == "", External: spec.External != "", Created: r.o.Clock.Now()}}
	r.mu.Lock()
	if err := r.admitLocked(e); err != nil {
		r.mu.Unlock()
		return nil, err
	}
	if e.s.External {
		r.dropEndedLocked(e.s.ID) // an operation that was shown as ended before its end was known
	} else {
		e.number = r.mu.next
		e.s.ID = strconv.FormatUint(e.number, 10)
		r.mu.next++
	}
	r.mu.entries[e.s.ID] = e
	begin := r.attemptLocked(e)
	job := e.job
	r.mu.Unlock()
	// The record precedes the work: after a crash, a job that has begun is listed as interrupted.
	r.store(e, true)
	if begin {
		work(job)
	}
	return job, nil
}

// Resume begins the next attempt of a job that failed, was cancelled or interrupted. See Start for work. The id,
// Created and the arguments stay; Attempt rises.
func (r *Registry) Resume(id string, work func(*Job)) (*Job, error) {
	r.mu.Lock()
	e := r.mu.entries[id]
	var err error
	switch {
	case e == nil:
		err = ErrUnknown
	case !e.s.State.Ended():
		err = ErrStillRunning
	case e.s.State == Done:
		err = ErrCompleted
	case !e.s.Resumable:
		err = ErrNotResumable
	default:
		err = r.admitLocked(e)
	}
	if err != nil {
		r.mu.Unlock()
		return nil, err
	}
	// The entry is removed under the lock of the check above, so that only one of two concurrent calls resumes the
	// job.
	r.mu.ended = slices.DeleteFunc(r.mu.ended, func(o *entry) bool { return o == e })
	e.work = work
	begin := r.attemptLocked(e)
	job := e.job
	r.mu.Unlock()
	r.store(e, true)
	if begin {
		work(job)
	}
	return job, nil
}

// admitLocked reports why an attempt cannot be queued. A job that can run at once is never refused for a full queue.
func (r *Registry) admitLocked(e *entry) error {
	switch {
	case r.mu.closed:
		return ErrClosed
	case e.s.External && r.mu.external >= r.o.Limits.External:
		return ErrTooMany
	case e.s.External:
		if o := r.mu.entries[e.s.ID]; o != nil && !o.s.State.Ended() {
			return ErrStillRunning
		}
	case r.mu.running >= r.o.Limits.Running && len(r.mu.queue) >= r.o.Limits.Queued:
		return ErrTooMany
	}
	return nil
}

// attemptLocked begins an attempt in state Queued or Running. It reports whether the caller must call the work.
func (r *Registry) attemptLocked(e *entry) bool {
	// Done, Total and the checkpoint stay: the attempt continues the last one.
	e.s.Attempt++
	e.s.State, e.s.Phase, e.s.Error, e.s.Ended, e.s.Began = Queued, "", "", time.Time{}, time.Time{}
	e.cancelled, e.onCancel, e.reported = false, nil, false
	e.job = &Job{r: r, e: e, attempt: e.s.Attempt, ended: make(chan struct{})}
	// settle moves it to Running when a slot is free.
	if !e.s.External && r.mu.running >= r.o.Limits.Running {
		r.mu.queue = append(r.mu.queue, e)
		return false
	}
	r.runLocked(e)
	return true
}

// runLocked moves an attempt to Running. It occupies a slot, which endLocked releases. An external job only counts
// towards its separate bound, because its owner decides when it runs.
func (r *Registry) runLocked(e *entry) {
	if e.s.External {
		r.mu.external++
	} else {
		r.mu.running++
	}
	// Two clocks: operators read wall time, which may jump, and the estimate uses monotonic time.
	e.s.State, e.s.Began = Running, r.o.Clock.Now()
	e.began = r.o.Clock.Monotonic()
	e.moved, e.stored = e.began, e.began
	e.base = 0
}

// progress implements Job.Progress. The caller holds the registry's mutex. It keeps Done ≤ Total if the total is known.
func (e *entry) progress(now time.Duration, done, total int64, phase string) {
	done, total = max(done, 0), max(total, 0)
	// A total is often an estimate, which the work exceeds before it is corrected.
	if total > 0 {
		done = min(done, total)
	}
	if !e.reported && e.s.Attempt > 1 { // an earlier attempt did this part, so the rate excludes it
		e.s.Done, e.base, e.began, e.moved = done, done, now, now
	}
	e.reported = true
	if done > e.s.Done {
		e.s.Done, e.moved = done, now
	}
	// The total is never less than the amount done, even if the estimate shrinks below what earlier reports have
	// shown.
	if total > 0 {
		total = max(total, e.s.Done)
	}
	e.s.Total, e.s.Phase = total, cut(phase)
}

// left estimates the remaining time from the rate up to the last progress. Without further progress, the estimate is
// constant. It assumes the mean rate of the attempt so far. For example, 30 of 120 ranges in 10 minutes leave 30
// minutes.
func (e *entry) left() time.Duration {
	done, passed := e.s.Done-e.base, e.moved-e.began
	if e.s.State != Running || e.s.Total <= 0 || done <= 0 || passed <= 0 {
		return 0
	}
	left := float64(passed) * float64(e.s.Total-e.s.Done) / float64(done)
	return time.Duration(min(left, float64(maxLeft)))
}

// maxLeft bounds estimates, which would overflow for a job that has barely begun.
const maxLeft = 1000 * time.Hour

// endLocked moves an attempt to a final state. It returns the jobs that are forgotten because of it. The caller must
// call settle with the result after it has released the lock.
func (r *Registry) endLocked(e *entry, state State, text string) (forgotten []*entry) {
	// Only a running attempt has a slot; a queued one leaves the queue.
	switch {
	case e.s.State == Running && e.s.External:
		r.mu.external--
	case e.s.State == Running:
		r.mu.running--
	default:
		r.mu.queue = slices.DeleteFunc(r.mu.queue, func(o *entry) bool { return o == e })
	}
	e.s.State, e.s.Error, e.s.Ended = state, text, r.o.Clock.Now()
	e.onCancel, e.work = nil, nil
	// The channel is closed after the state is set, so that a waiting goroutine finds the outcome.
	close(e.job.ended)
	r.mu.outcomes[Outcome{e.s.Kind, state}]++
	if !e.s.External {
		r.mu.ended = append(r.mu.ended, e)
		return r.forgetLocked()
	}
	// External jobs have a separate bound, so that their ends, which callers report from events, never write to the
	// store.
	if r.mu.endedExternal = append(r.mu.endedExternal, e); len(r.mu.endedExternal) > r.o.Limits.Ended {
		delete(r.mu.entries, r.mu.endedExternal[0].s.ID)
		r.mu.endedExternal = slices.Delete(r.mu.endedExternal, 0, 1)
	}
	return nil
}

// forgetLocked forgets the local jobs that ended first, beyond Limits.Ended. It keeps the record with the greatest
// number, from which the next process continues to count.
func (r *Registry) forgetLocked() (forgotten []*entry) {
	for len(r.mu.ended) > r.o.Limits.Ended {
		// At most one entry has the greatest number, so the second one can always be forgotten.
		i := 0
		if e := r.mu.ended[0]; e.number == r.mu.next-1 && len(r.mu.ended) > 1 {
			i = 1
		}
		e := r.mu.ended[i]
		r.mu.ended = slices.Delete(r.mu.ended, i, i+1)
		delete(r.mu.entries, e.s.ID)
		e.forgotten = true
		forgotten = append(forgotten, e)
	}
	return forgotten
}

// dropEndedLocked forgets an ended external job whose id is reused.
func (r *Registry) dropEndedLocked(id string) {
	if e := r.mu.entries[id]; e != nil {
		r.mu.endedExternal = slices.DeleteFunc(r.mu.endedExternal, func(o *entry) bool { return o == e })
		delete(r.mu.entries, id)
	}
}

// settle stores the end of an attempt, removes forgotten jobs, and begins queued ones. Queued jobs begin in the order
// in which they were queued. It calls work in the caller's goroutine. It must be called without the lock, because work
// and the store may take long.
func (r *Registry) settle(e *entry, forgotten []*entry) {
	if e.s.External {
		return
	}
	r.store(e, true)
	r.discard(forgotten)
	for {
		r.mu.Lock()
		if r.mu.closed || len(r.mu.queue) == 0 || r.mu.running >= r.o.Limits.Running {
			r.mu.Unlock()
			return
		}
		// The slot is taken under the lock, so that a concurrent Start cannot take it as well.
		next := r.mu.queue[0]
		r.mu.queue = slices.Delete(r.mu.queue, 0, 1)
		r.runLocked(next)
		work, job := next.work, next.job
		r.mu.Unlock()
		r.store(next, true)
		work(job)
	}
}

// discard removes the records of forgotten jobs.
func (r *Registry) discard(forgotten []*entry) {
	for _, e := range forgotten {
		r.store(e, false)
		// The entry is in no list and no longer changes, except for its record.
		if r.o.Forgotten != nil {
			r.mu.Lock()
			s := e.snapshot()
			r.mu.Unlock()
			r.o.Forgotten(s)
		}
	}
}

// Cancel requests the end of a job. A queued job ends immediately. A running one is cancelled when its work has
// stopped; if it completes before that, it is done. It returns before the work has stopped; Wait shows the end. A
// second call while the work stops has no effect and no error.
func (r *Registry) Cancel(id string) error {
	r.mu.Lock()
	e := r.mu.entries[id]
	switch {
	case e == nil:
		r.mu.Unlock()
		return ErrUnknown
	case e.s.State.Ended():
		r.mu.Unlock()
		return ErrEnded
	case e.s.State == Queued:
		forgotten := r.endLocked(e, Cancelled, "")
		r.mu.Unlock()
		r.settle(e, forgotten)
		return nil
	case e.cancelled:
		r.mu.Unlock()
		return nil
	// The work has registered no function yet, or is past the point at which it could stop.
	case e.onCancel == nil:
		r.mu.Unlock()
		return ErrNotCancellable
	}
	stop := e.onCancel
	// onCancel is cleared, so that the function is called at most once.
	e.cancelled, e.onCancel = true, nil
	r.mu.Unlock()
	stop()
	return nil
}

// Close marks all jobs that have not ended as interrupted, and stores that. Later calls of their handles have no
// effect. The owner stops the work after Close, and closes the store when the work has stopped. It may be called more
// than once. Start and Resume return ErrClosed afterwards; List still works.
func (r *Registry) Close() {
	r.mu.Lock()
	if r.mu.closed {
		r.mu.Unlock()
		return
	}
	var open []*entry
	// The order is fixed, so that a simulation with the same seed makes the same writes.
	for _, id := range slices.Sorted(maps.Keys(r.mu.entries)) {
		if e := r.mu.entries[id]; !e.s.State.Ended() {
			e.s.State, e.s.Error, e.s.Ended = Interrupted, interruptedText, r.o.Clock.Now()
			close(e.job.ended)
			open = append(open, e)
		}
	}
	r.mu.closed = true
	r.mu.Unlock()
	for _, e := range open {
		r.store(e, true)
	}
}

// List returns all jobs, in the order of Snapshot.Created: those that have not ended, and the most recent ones that
// have. At most Limits.Running + Queued + External + 2 × Ended jobs are in it.
func (r *Registry) List() []Snapshot {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]Snapshot, 0, len(r.mu.entries))
	for _, e := range r.mu.entries {
		all = append(all, e.snapshot())
	}
	slices.SortFunc(all, func(a, b Snapshot) int {
		// Shorter ids come first, which puts decimal numbers in numeric order.
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(len(a.ID), len(b.ID)), cmp.Compare(a.ID, b.ID))
	})
	return all
}

// Get returns a job. The error is ErrUnknown.
func (r *Registry) Get(id string) (Snapshot, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.mu.entries[id]; e != nil {
		return e.snapshot(), nil
	}
	return Snapshot{}, ErrUnknown
}

// Wait returns a channel that is closed when the current attempt of a job has ended. The channel is of this attempt: a
// later one has another.
func (r *Registry) Wait(id string) (<-chan struct{}, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.mu.entries[id]
	if e == nil {
		return nil, ErrUnknown
	}
	if e.job == nil { // of an earlier process
		ended := make(chan struct{})
		close(ended)
		return ended, nil
	}
	return e.job.ended, nil
}

func (e *entry) snapshot() Snapshot {
	s := e.s
	// The arguments are copied, because Resume needs them unchanged.
	s.Left, s.Args = e.left(), bytes.Clone(e.s.Args)
	return s
}

// Outcome is a kind of job and a final state.
type Outcome struct {
	Kind  Kind
	State State
}

// Stats are the metrics of a Registry. Ended is not stored and begins at zero with the process.
type Stats struct {
	Running, Queued map[Kind]int      // now
	Ended           map[Outcome]int64 // attempts since the start of the process
}

// Stats returns the current metrics.
func (r *Registry) Stats() Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := Stats{Running: map[Kind]int{}, Queued: map[Kind]int{}, Ended: maps.Clone(r.mu.outcomes)}
	for _, e := range r.mu.entries {
		switch e.s.State {
		case Running:
			s.Running[e.s.Kind]++
		case Queued:
			s.Queued[e.s.Kind]++
		}
	}
	return s
}

// Err returns the error of an ended attempt: nil when it is done.
func (s *Snapshot) Err() error {
	switch s.State {
	case Failed, Interrupted:
		return errors.New(s.Error)
	case Cancelled:
		return fmt.Errorf("job %s was cancelled", s.ID)
	}
	return nil
}
