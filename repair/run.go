package repair

import (
	"time"

	"cqld/coordinator"
	"cqld/internal/env"
	"cqld/paxos/acceptor"
	"cqld/ring"
	"cqld/row"
)

// Run is a job in progress. It is the shell of a machine: it takes an event, locks, steps, checks the invariants,
// unlocks, and performs the effects.
type Run struct {
	r        *Repairer
	job      Job
	progress func(Report)
	done     func(Report, error)
	rows     row.Repair // counts the rows that reads sent to replicas

	events shell[event, effect]
	// The lock of events guards the fields below.
	machine machine
	timers  map[uint64]env.Timer // of pauses, by their number
}

// Start starts a job. It calls progress, which may be nil, after every range, and done once.
func (r *Repairer) Start(job Job, progress func(Report), done func(Report, error)) *Run {
	if progress == nil {
		progress = func(Report) {}
	}
	j := &Run{r: r, job: job, progress: progress, done: done, timers: map[uint64]env.Timer{}}
	// The machine is in the shell, and only steps touch it.
	j.machine = machine{job: job, view: r.view, limits: &r.limits, sessions: &r.session, mayRaise: r.raise != nil,
		report: Report{Job: job}}
	j.events.run, j.events.step, j.events.perform = r.run, j.step, j.perform
	r.counts.running.Add(1)
	j.deliver(&event{kind: eventStarted})
	return j
}

// Cancel ends the job with ErrCancelled, unless it has ended.
func (j *Run) Cancel() { j.deliver(&event{kind: eventCancelled}) }

// deliver takes an event.
func (j *Run) deliver(ev *event) {
	// The shell reads this state, because the machine calls nothing that may lock or wait.
	if ev.err != nil {
		ev.truncating = j.r.c.Truncating(j.job.Table)
	}
	j.events.deliver(ev)
}

// step executes a step of the machine. The lock is held.
func (j *Run) step(ev *event, out []effect) []effect {
	ev.now = j.r.clock.Now()
	if ev.kind == eventResumed {
		// The timer has fired. Its entry would otherwise stay until the end of the job.
		delete(j.timers, ev.number)
	}
	out = j.machine.step(ev, out)
	j.machine.check()
	return out
}

// perform performs an effect without the lock.
//
// Callbacks may run before the call returns, in any goroutine; deliver then only queues their effects.
func (j *Run) perform(e *effect) {
	r, number, timeout := j.r, e.number, j.r.limits.Timeout
	//exhaustive:enforce
	switch e.kind {
	case effectLoad:
		j.deliver(&event{kind: eventLoaded, number: number, rest: j.rest()})
	case effectScan:
		r.paxos.Conditional(j.job.Table, func(any bool, err error) {
			j.deliver(&event{kind: eventScanned, number: number, conditional: any, err: err})
		})
	case effectRaise:
		r.raise(j.job.Table, e.micros, func(error) { j.deliver(&event{kind: eventRaised, number: number}) })
	case effectPause:
		j.pause(number, e.after)
	case effectSpend:
		// Without a number the bytes are only counted, and another event continues.
		if wait := r.spend(e.bytes, j.job.Urgent); number != 0 {
			j.pause(number, wait)
		}
	case effectHash:
		r.peers.Hash(e.node, e.hash, timeout, func(s HashStep, err error) {
			j.deliver(&event{kind: eventHashed, number: number, hashes: s, err: err})
		})
	case effectRead:
		j.read(e)
	case effectPurge:
		r.paxos.Paxos(e.node, e.purge, timeout, func(s acceptor.PurgeStep, err error) {
			j.deliver(&event{kind: eventPurged, number: number, purged: s, err: err})
		})
	case effectSettle:
		r.propose.SettleProposals(j.job.Table, e.key, timeout, func(err error) {
			j.deliver(&event{kind: eventSettled, number: number, err: err})
		})
	case effectNotify:
		r.peers.Repaired(e.node, e.notice, timeout, func(err error) {
			j.deliver(&event{kind: eventNoticed, number: number, err: err})
		})
	case effectStore:
		j.store(e.tokens)
	case effectProgress:
		j.progress(j.counted(e.report))
	// No event is awaited now: the machine ignores late ones.
	case effectFinish:
		j.finish(e)
	}
}

// pause makes eventResumed after a time, or at once if it is zero.
func (j *Run) pause(number uint64, after time.Duration) {
	resume := func() { j.deliver(&event{kind: eventResumed, number: number}) }
	if after <= 0 {
		resume()
		return
	}
	j.events.mu.Lock()
	defer j.events.mu.Unlock()
	if !j.machine.over {
		// The timer is stored under the lock, so that its event, which removes it, follows.
		j.timers[number] = j.r.clock.After(after, resume)
	}
}

// read reads the next page of a leaf at ALL.
func (j *Run) read(e *effect) {
	leaf, number := e.leaf, e.number
	cmd := new(row.ReadCommand)
	leaf.Command.Repair = &j.rows
	// The repair happens in the read: at ALL, the coordinator sends each replica what it lacks before it answers.
	leaf.Next(cmd)
	req := &coordinator.ReadRequest{Command: cmd, Consistency: ring.All, Timeout: j.r.limits.Timeout, Only: e.only}
	j.r.c.Read(req, func(page []byte, err error) {
		ev := &event{kind: eventRead, number: number, err: err, bytes: int64(len(page))}
		if err == nil {
			ev.err = leaf.Skip(page) // here, because the page is valid only during the call
			ev.more = leaf.More()
		}
		j.deliver(ev)
	})
}

// counted returns a report with the rows that were sent until now.
func (j *Run) counted(report *Report) Report {
	// The machine does not know the rows: reads count them in the shell.
	report.Rows = j.rows.Rows.Load()
	return *report
}

// finish ends the job.
func (j *Run) finish(e *effect) {
	j.stopTimers()
	// After a failure or a cancellation the position stays, and the next job of the name continues there.
	if key := j.key(); e.err == nil && key != nil {
		_ = j.r.store.DeleteLocal(key, false) // on failure the job is repeated
	}
	report := j.counted(e.report)
	j.r.counts.ended(&report, e.err)
	j.done(report, e.err)
}

// stopTimers stops the pauses whose ends are not needed.
func (j *Run) stopTimers() {
	j.events.mu.Lock()
	defer j.events.mu.Unlock()
	// A timer that has fired already brings an event that the machine ignores.
	for _, t := range j.timers {
		t.Stop()
	}
	clear(j.timers)
}

// spend takes bytes from this node's budget for repairs and returns how long to wait for it. The budget may be
// overdrawn slightly: a timer for each step would only delay the repair.
func (r *Repairer) spend(bytes int64, urgent bool) time.Duration {
	const lent = 20 * time.Millisecond
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.clock.Monotonic()
	free, rate := &r.mu.free, r.limits.BytesPerSecond
	if urgent {
		free, rate = &r.mu.urgent, r.limits.UrgentBytesPerSecond
	}
	// An idle budget does not accumulate.
	*free = max(*free, now) + time.Duration(bytes*int64(time.Second)/rate)
	if wait := *free - now; wait > lent {
		return wait
	}
	return 0
}
