package goroutine

import (
	"errors"
	"iter"
	"slices"

	"cqld/internal/env"
)

// task is sequential code of a process: in production, a goroutine of a package above the coordinator that blocks until
// the coordinator answers. It runs within an event until it waits, and continues in the event of the answer, so the
// event queue controls it, too. It ends with its process. iter.Pull switches stacks without the scheduler, so the code
// runs in the simulation's only thread of control and in a determined order.
type task struct {
	scheduler *Scheduler
	// next, stop and yield are the functions of iter.Pull: next continues the task until it waits, yield makes it
	// wait.
	next    func() (struct{}, bool)
	stop    func()
	yield   func(struct{}) bool
	stopped bool
}

// errStopped unwinds the stack of a stopped task.
var errStopped = errors.New("the process has ended")

// RunTask runs f as a task, until it first waits.
func (s *Scheduler) RunTask(f func()) {
	t := &task{scheduler: s}
	t.next, t.stop = iter.Pull(func(yield func(struct{}) bool) {
		defer func() {
			if t.stopped {
				// The value is errStopped. Deferred functions of f have run by then. Another panic during the
				// unwinding is lost, too.
				_ = recover()
			}
		}()
		t.yield = yield
		f()
	})
	s.tasks = append(s.tasks, t)
	t.goOn()
}

// goOn runs the task until it waits again or ends.
func (t *task) goOn() {
	s := t.scheduler
	// Wait uses this field to find its task: tasks run one at a time.
	s.running = t
	before := s.place
	s.place = MayBlock
	defer func() { s.place = before }()
	// The task has returned.
	if _, waits := t.next(); !waits {
		s.tasks = slices.DeleteFunc(s.tasks, func(other *task) bool { return other == t })
	}
	s.running = nil
}

// End ends the process, with its waiting tasks. Deferred functions of a task run, as they would not in a killed
// process: they must not send anything.
func (s *Scheduler) End() {
	s.ended = true
	for _, t := range s.tasks {
		// stop makes the pending yield return false, and Wait then panics with errStopped.
		t.stopped = true
		t.stop()
	}
	s.tasks = nil
}

// taskWaiter implements env.Waiter for a task. It is for one wait at a time, and may be reused after Wait has returned.
type taskWaiter struct {
	scheduler *Scheduler
	signaled  bool
	waiting   *task
}

// NewWaiter returns a waiter for the tasks of the process, in place of one that blocks a goroutine.
func (s *Scheduler) NewWaiter() env.Waiter { return &taskWaiter{scheduler: s} }

// Wait implements env.Waiter.
func (w *taskWaiter) Wait() {
	if !w.signaled {
		// Only the code of a task may wait: elsewhere running is nil, and an event that blocks would be a defect.
		w.waiting = w.scheduler.running
		if !w.waiting.yield(struct{}{}) {
			panic(errStopped)
		}
	}
	w.signaled = false
}

// Signal implements env.Waiter.
func (w *taskWaiter) Signal() {
	// The signal may come before Wait, when the coordinator answers at once. Wait then returns immediately.
	w.signaled = true
	if t := w.waiting; t != nil {
		w.waiting = nil
		// Not at once: Signal is called in the middle of the coordinator's code.
		w.scheduler.Soon(t.goOn)
	}
}
