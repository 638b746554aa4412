package kernel

import (
	"container/heap"
	"fmt"
	"io"
	"time"
)

// Kernel is the event queue and its clock. Every action is an event: the arrival of a message, a timer, a step of a
// client or of the nemesis. Events with the same time are executed in the order in which they were scheduled.
type Kernel struct {
	// AfterEvent is called after every event.
	// The functions below are never nil: New sets functions that do nothing.
	AfterEvent func()
	// Overrun is called once, with the label of the last event, if a second has more than EventsMost events.
	Overrun func(label string)
	// Steady returns the part of a text in the trace that is the same in every run of a seed.
	Steady func(what string) string
	// Text receives the trace as text; nil means none.
	Text io.Writer

	now   time.Duration
	queue eventQueue
	// next numbers the events as they are scheduled, which breaks ties of their times.
	next uint64
	// trace is the FNV-1a hash of all events so far.
	trace uint64
	count int
	// second and events detect work that repeats itself: its events keep the time from advancing.
	second int64 // of now
	events int   // in that second
	// over means that no further event is executed: RunUntil then only advances the time.
	over bool
}

// EventsMost is the maximum number of events in one simulated second. Only work that repeats itself without end exceeds
// it: most seeds have at most 20,000.
const EventsMost = 300_000

// Event is a scheduled event.
type Event struct {
	at    time.Duration
	order uint64
	label string
	f     func()
	// done is set before the event is executed, so that Stop fails within the event itself.
	done    bool
	stopped bool
}

// eventQueue implements heap.Interface. Its first event is the next one.
type eventQueue []*Event

func (q eventQueue) Len() int { return len(q) }
func (q eventQueue) Less(i, k int) bool {
	return q[i].at < q[k].at || q[i].at == q[k].at && q[i].order < q[k].order
}
func (q eventQueue) Swap(i, k int) { q[i], q[k] = q[k], q[i] }
func (q *eventQueue) Push(x any)   { *q = append(*q, x.(*Event)) }
func (q *eventQueue) Pop() any {
	old := *q
	x := old[len(old)-1]
	// An event refers to closures and so to whole processes: none must stay reachable.
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	return x
}

// New returns an empty queue at time zero. Its owner sets the exported fields before the first event.
func New() *Kernel {
	return &Kernel{trace: fnvOffset, AfterEvent: func() {}, Overrun: func(string) {},
		Steady: func(what string) string { return what }}
}

// Now returns the time since the start.
func (k *Kernel) Now() time.Duration { return k.now }

// After schedules f after d. The label describes the event in the trace.
func (k *Kernel) After(d time.Duration, label string, f func()) *Event {
	k.next++
	// A negative delay counts as none: time never goes back.
	e := &Event{at: k.now + max(d, 0), order: k.next, label: label, f: f}
	heap.Push(&k.queue, e)
	return e
}

// Stop cancels the event; it returns false if the event was executed.
func (e *Event) Stop() bool {
	was := !e.done && !e.stopped
	// The event stays in the queue, and is skipped when its time comes.
	e.stopped = true
	return was
}

// RunUntil executes events until the time end, or until stop returns true after one.
func (k *Kernel) RunUntil(end time.Duration, stop func() bool) {
	for len(k.queue) > 0 && k.queue[0].at <= end && !k.over {
		e := heap.Pop(&k.queue).(*Event)
		// A stopped event does not advance the clock and is not in the trace.
		if e.stopped {
			continue
		}
		k.now, e.done = e.at, true
		k.count++
		if k.over = k.isOver(); k.over {
			k.Overrun(e.label)
			return
		}
		// Before the event, so that the trace shows it above the occurrences in it.
		k.Trace(e.label)
		e.f()
		k.AfterEvent()
		if stop() {
			return
		}
	}
	// The time end was reached without an event. It is not reached if stop ended the loop.
	k.now = max(k.now, end)
}

// isOver counts an event, and reports whether its second has too many.
func (k *Kernel) isOver() bool {
	if second := int64(k.now / time.Second); second != k.second {
		k.second, k.events = second, 0
	}
	k.events++
	return k.events > EventsMost
}

// Trace adds an occurrence to the hash of the run.
func (k *Kernel) Trace(what string) {
	if k.Text != nil {
		fmt.Fprintln(k.Text, k.now, what)
	}
	k.trace = fnv(k.trace, k.Steady(what))
	// Equal occurrences at other times give another hash.
	for n := uint64(k.now); n > 0; n >>= 8 {
		k.trace = (k.trace ^ n&0xFF) * fnvPrime
	}
}

// TraceBytes adds bytes to the hash of the run.
func (k *Kernel) TraceBytes(b []byte) { k.trace = fnv(k.trace, b) }

// Note writes a line to the text of the trace, which has no part in the hash: it may differ between two runs of a seed.
func (k *Kernel) Note(what ...any) {
	if k.Text != nil {
		fmt.Fprintln(k.Text, append([]any{k.now}, what...)...)
	}
}

// Hash returns the hash of all events so far: equal for equal histories.
func (k *Kernel) Hash() uint64 { return k.trace }

// Count returns the number of events so far.
func (k *Kernel) Count() int { return k.count }

// Pending returns the number of scheduled events that were not canceled.
func (k *Kernel) Pending() (n int) {
	for _, e := range k.queue {
		if !e.stopped {
			n++
		}
	}
	return n
}

const (
	fnvOffset = 0xcbf29ce484222325
	fnvPrime  = 0x100000001b3
)

// fnv continues the FNV-1a hash h with the bytes of s.
func fnv[S ~string | ~[]byte](h uint64, s S) uint64 {
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * fnvPrime
	}
	return h
}
