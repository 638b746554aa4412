package simulation

import (
	"container/heap"
	"fmt"
	"io"
	"strings"
	"time"

	"cqld/internal/env"
)

// Kernel is the event queue and its clock. Every action is an event: the arrival of a message, a timer, a step of a
// client or of the nemesis. Events with the same time are executed in the order in which they were scheduled.
type Kernel struct {
	now    time.Duration
	queue  eventQueue
	next   uint64
	trace  uint64 // FNV-1a of all events so far
	count  int
	second int64  // of now
	events int    // in that second
	after  func() // called after every event
	// called once, with the label of the last event, if a second has more than eventsMost events
	overrun   func(label string)
	over      bool      // no further event is executed
	traceText io.Writer // receives the trace as text; nil means none
}

// eventsMost is the maximum number of events in one simulated second. Only work that repeats itself without end exceeds
// it: most seeds have at most 20,000.
const eventsMost = 300_000

// event is a scheduled event.
type event struct {
	at      time.Duration
	order   uint64
	label   string
	f       func()
	done    bool
	stopped bool
}

type eventQueue []*event

func (q eventQueue) Len() int { return len(q) }
func (q eventQueue) Less(i, k int) bool {
	return q[i].at < q[k].at || q[i].at == q[k].at && q[i].order < q[k].order
}
func (q eventQueue) Swap(i, k int) { q[i], q[k] = q[k], q[i] }
func (q *eventQueue) Push(x any)   { *q = append(*q, x.(*event)) }
func (q *eventQueue) Pop() any {
	old := *q
	x := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	return x
}

// NewKernel returns an empty queue at time zero.
func NewKernel() *Kernel {
	return &Kernel{trace: fnvOffset, after: func() {}, overrun: func(string) {}}
}

// Now returns the time since the start.
func (k *Kernel) Now() time.Duration { return k.now }

// After schedules f after d. The label describes the event in the trace.
//
//nolint:revive // only this package cancels events
func (k *Kernel) After(d time.Duration, label string, f func()) *event {
	k.next++
	e := &event{at: k.now + max(d, 0), order: k.next, label: label, f: f}
	heap.Push(&k.queue, e)
	return e
}

// Stop cancels the event; it returns false if the event was executed.
func (e *event) Stop() bool {
	was := !e.done && !e.stopped
	e.stopped = true
	return was
}

// RunUntil executes events until the time end, or until stop returns true after one.
func (k *Kernel) RunUntil(end time.Duration, stop func() bool) {
	for len(k.queue) > 0 && k.queue[0].at <= end && !k.over {
		e := heap.Pop(&k.queue).(*event)
		if e.stopped {
			continue
		}
		k.now, e.done = e.at, true
		k.count++
		if k.over = k.isOver(); k.over {
			k.overrun(e.label)
			return
		}
		k.Trace(e.label)
		e.f()
		k.after()
		if stop() {
			return
		}
	}
	k.now = max(k.now, end)
}

// isOver counts an event, and reports whether its second has too many.
func (k *Kernel) isOver() bool {
	if second := int64(k.now / time.Second); second != k.second {
		k.second, k.events = second, 0
	}
	k.events++
	return k.events > eventsMost
}

// Trace adds an occurrence to the hash of the run.
func (k *Kernel) Trace(what string) {
	if k.traceText != nil {
		fmt.Fprintln(k.traceText, k.now, what)
	}
	k.trace = fnv(k.trace, steady(what))
	for n := uint64(k.now); n > 0; n >>= 8 {
		k.trace = (k.trace ^ n&0xFF) * fnvPrime
	}
}

// steady returns the text without the words that Pebble adds to a disk's error: they depend on which of its files are
// open.
func steady(what string) string {
	if i := strings.Index(what, errDisk.Error()); i >= 0 {
		if k := strings.Index(what[:i], "pebble: "); k >= 0 {
			i = k
		}
		return what[:i] + errDisk.Error()
	}
	return what
}

const (
	fnvOffset = 0xcbf29ce484222325
	fnvPrime  = 0x100000001b3
)

func fnv[S ~string | ~[]byte](h uint64, s S) uint64 {
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * fnvPrime
	}
	return h
}

// Stream is a random number generator (splitmix64). Each subsystem has its own, so that additional draws of one do not
// affect the others.
type Stream struct{ state uint64 }

var _ env.Rand = (*Stream)(nil)

// NewStream returns the stream with a name for a seed.
func NewStream(seed uint64, name string) *Stream {
	s := &Stream{state: fnv(fnvOffset, name) ^ seed*0x9e3779b97f4a7c15}
	s.Uint64()
	return s
}

// Uint64 implements env.Rand.
func (s *Stream) Uint64() uint64 {
	s.state += 0x9e3779b97f4a7c15
	z := s.state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// Intn returns a number in [0, n).
func (s *Stream) Intn(n int) int { return int(s.Uint64() % uint64(n)) }

// Chance returns true with a probability of p in a thousand.
func (s *Stream) Chance(p int) bool { return s.Intn(1000) < p }

// Between returns a duration in [least, most).
func (s *Stream) Between(least, most time.Duration) time.Duration {
	return least + time.Duration(s.Uint64()%uint64(most-least))
}
