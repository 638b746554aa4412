// Package goroutine executes the code of a simulated process: what runs in goroutines in production consists of events
// of the kernel here, in an order that the seed determines.
//
// A function that does not wait runs as one event (Scheduler.Soon, Spawn). Code that blocks until the coordinator
// answers is a task: it runs until it waits, and continues in the event of the answer (RunTask, NewWaiter). Each event
// knows in which goroutine its code would run (Place), so that calls that block in the wrong one are found.
package goroutine

import "cqld/simulation/kernel"

// Scheduler executes the code of one process, from its start to its end. Events that are scheduled when the process
// ends are discarded.
type Scheduler struct {
	kernel *kernel.Kernel
	ended  bool

	// spawned have not been executed yet, in the order of their starts. Each runs as an event of its own.
	spawned []*spawned
	// random draws when they run.
	random *kernel.Stream

	// place is the goroutine that would run this event's code in production.
	place Place

	// tasks wait for answers, in the order of their starts. running is the task that this event executes, or nil.
	tasks   []*task
	running *task

	// paused means that the process executes nothing; its events are in held.
	paused bool
	// held contains the events postponed until the process continues, in the order of arrival.
	held []func()
}

// New returns the scheduler of a process. random draws when goroutines run, and is used by this process only.
func New(k *kernel.Kernel, random *kernel.Stream) *Scheduler {
	return &Scheduler{kernel: k, random: random}
}

// Ended reports whether the process has ended. Events of a process that has ended are still in the queue; each checks
// it.
func (s *Scheduler) Ended() bool { return s.ended }

// Do executes f: at once, or when the process continues after a pause. An event that is held keeps its order. f must
// check what it needs: the ring may have changed during the pause.
func (s *Scheduler) Do(f func()) {
	if s.paused {
		s.held = append(s.held, f)
		return
	}
	f()
}

// Soon makes the process execute f next, as a separate goroutine would. Between the call and f, other events at the
// same time may run.
func (s *Scheduler) Soon(f func()) {
	s.kernel.After(0, "soon", func() {
		if !s.ended {
			s.Do(func() { s.At(MayBlock, f) })
		}
	})
}

// Pause makes the process execute nothing until Resume, as SIGSTOP does.
func (s *Scheduler) Pause() { s.paused = true }

// Paused reports whether the process is paused.
func (s *Scheduler) Paused() bool { return s.paused }

// Resume ends a pause: all postponed events are executed now.
func (s *Scheduler) Resume() {
	if !s.paused {
		return
	}
	s.paused = false
	held := s.held
	s.held = nil
	// As separate events: one of them may pause or end the process again.
	for _, f := range held {
		s.Soon(f)
	}
}

// Place is the goroutine that would execute the code of an event in production. Some of these goroutines must not block
// on the disk, because they would delay the events queued after it. In the simulation, all code runs in one goroutine,
// so a call that blocks in the wrong place would go unnoticed without this bookkeeping.
type Place uint8

const (
	// MayBlock is a worker, or a request's own goroutine: others do not wait for it.
	MayBlock Place = iota
	// OnStream is the reader of a peer's stream. Heartbeats and writes of that peer wait until it returns.
	OnStream
	// OnTimer is the goroutine of a timer.
	OnTimer
	// InCommitter is storage's committer. All writes of the node wait until it returns.
	InCommitter
)

func (p Place) String() string {
	return [...]string{"a worker", "the goroutine of a stream", "the goroutine of a timer", "storage's committer"}[p]
}

// At runs f as code of a place. f must not keep what it started running: an event that it schedules has a place of its
// own.
func (s *Scheduler) At(p Place, f func()) {
	// Calls nest: the code of one place may synchronously call code that runs as another one.
	before := s.place
	s.place = p
	defer func() { s.place = before }()
	f()
}

// Place returns the place of the code that runs.
func (s *Scheduler) Place() Place { return s.place }

// OnStream executes f as the reader of a peer's stream does.
func (s *Scheduler) OnStream(f func()) { s.At(OnStream, f) }

// OnWorker executes f as a worker does, which may block.
func (s *Scheduler) OnWorker(f func()) { s.At(MayBlock, f) }
