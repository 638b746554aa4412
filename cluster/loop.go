package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"cqld/cluster/liveness"
	"cqld/internal/invariant"
)

// tickEvery is the interval of Raft's ticks and of the checks of proposals.
const tickEvery = 50 * time.Millisecond

// ticksIdle is the number of ticks per timer event while only heartbeats are due.
const ticksIdle = uint64(liveness.HeartbeatEvery / tickEvery)

// eventsMax bounds the loop's queue: Raft tolerates lost messages, and proposals are rare.
const eventsMax = 4096

var errStopped = errors.New("cluster: this node is stopping")

// errQueueFull means that the change was not proposed.
var errQueueFull = errors.New("cluster: too many metadata changes are waiting")

// loop runs the events of a cluster one at a time. It owns everything that Raft decides, and the fields of this package
// that are protected by neither a lock nor an atomic type. post and idle are safe for concurrent use.
//
//	messages, timers, callers ── post ──▶ event ──▶ process: what Raft has ready
type loop struct {
	opts    *Options
	process func() error // processes Raft's Ready after the last events
	tick    func()       // called after time has advanced
	events  chan func()
	stopped chan struct{} // closed when run returns
	closed  atomic.Bool

	ticks  uint64
	step   uint64        // ticks that the last timer event stood for
	pace   atomic.Uint64 // ticks per timer event; also read by the timer
	ticked atomic.Int64  // monotonic time (ns) of the last tick; also read by idle
}

// newLoop returns a loop whose process and tick the owner sets before it runs.
func newLoop(opts *Options) *loop {
	return &loop{opts: opts, events: make(chan func(), eventsMax), stopped: make(chan struct{})}
}

// run executes events until ctx ends, or returns the error that makes this node stop.
func (l *loop) run(ctx context.Context) error {
	defer close(l.stopped)
	defer l.closed.Store(true)
	// Each tick event arms the timer for the next one.
	l.armTick()
	for {
		select {
		case <-ctx.Done():
			return nil
		case f := <-l.events:
			f()
		}
		// Events that arrived together share one sync of the log.
		for n := len(l.events); n > 0; n-- {
			(<-l.events)()
		}
		// Once for all queued events, so they share one sync.
		if err := l.process(); err != nil {
			return err
		}
	}
}

// post queues an event for the loop. It returns false if the queue is full.
func (l *loop) post(f func()) bool {
	if l.opts.Post != nil {
		l.opts.Post(func() {
			// A cluster may be closed while Options.Post still has its events queued.
			if !l.closed.Load() {
				f()
				_ = l.process() // Fatal was called
			}
		})
		return true
	}
	// Never block here: the callers are goroutines of the network and the clock.
	select {
	case l.events <- f:
		return true
	default:
		return false
	}
}

// armTick arms the timer of the next tick event.
func (l *loop) armTick() {
	// Zero before the first tick.
	ticks := max(l.pace.Load(), 1)
	l.opts.Clock.After(time.Duration(ticks)*tickEvery, func() {
		if !l.closed.Load() {
			l.post(func() { l.advance(ticks) })
			// The queue is full: the ticks are skipped, and periodic work runs with the next event.
			l.armTick()
		}
	})
}

// advance advances the time by the given number of ticks.
func (l *loop) advance(ticks uint64) {
	invariant.Check(ticks > 0, "cluster: a tick event without time")
	l.ticks, l.step = l.ticks+ticks, ticks
	l.noteStall(ticks)
	l.tick()
}

// due reports whether a multiple of every ticks was reached by the last tick event.
func (l *loop) due(every uint64) bool { return l.ticks/every != (l.ticks-l.step)/every }

// stallMin is the delay of a tick event that is logged. At this point, other nodes are about to consider this node
// dead, and requests on it are about to time out.
const stallMin = time.Second

// noteStall logs that the process was not scheduled, or that the loop waited for the disk. It is called on every tick
// event with the number of its ticks.
func (l *loop) noteStall(ticks uint64) {
	now, ticked := l.opts.Clock.Monotonic(), time.Duration(l.ticked.Load())
	// The first event has no predecessor to compare with.
	if late := now - ticked - time.Duration(ticks)*tickEvery; ticked > 0 && late >= stallMin {
		l.opts.Logger.Warn("process stalled: it was not scheduled, or its disk was slow", "for",
			late.Round(time.Millisecond))
	}
	l.ticked.Store(int64(now))
}

// idle returns the time since the loop handled the last tick, or zero if it has not handled any.
func (l *loop) idle() time.Duration {
	ticked := time.Duration(l.ticked.Load())
	if ticked == 0 {
		return 0
	}
	return max(l.opts.Clock.Monotonic()-ticked, 0)
}

// pause returns after d, or when ctx or the loop ends. The loop must not call it.
func (l *loop) pause(ctx context.Context, d time.Duration) error {
	done := make(chan struct{})
	t := l.opts.Clock.After(d, func() { close(done) })
	defer t.Stop()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-l.stopped:
		return errStopped
	}
}

// wait calls begin, and returns when done was called. The loop must not call it.
func (l *loop) wait(ctx context.Context, begin func(done func(error)) (stop func())) error {
	// Buffered, so the loop can call done after the caller has given up.
	result := make(chan error, 1)
	stop := begin(func(err error) { result <- err })
	select {
	case err := <-result:
		return err
	case <-l.stopped:
		return errStopped
	case <-ctx.Done():
		// stop ends the retries, but what was already proposed may still be committed.
		stop()
		return fmt.Errorf("cluster: the change was not committed in time, but may still be: %w", ctx.Err())
	}
}
