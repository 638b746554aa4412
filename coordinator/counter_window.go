package coordinator

import (
	"slices"
	"sync"
)

// counterWindows remember which updates a leader was asked for, so that a message that comes twice
// counts once. A name that is too old to be remembered is refused: it may have been counted.
type counterWindows struct {
	mu      sync.Mutex
	limit   int                          // names kept for each life of a node
	windows map[RequestID]*counterWindow // by name without sequence
	recent  []RequestID                  // of windows, least recently used first
}

// livesKept is how many lives of other nodes are remembered: each holds up to CounterNames names,
// and a message does not outlive a connection, which a node's next life has anew.
const livesKept = 64

// counterWindow is the names of one life of a node.
type counterWindow struct {
	floor uint64 // names up to here are forgotten
	seen  map[uint64]*counterOutcome
}

// counterOutcome is what became of an update; guarded by counterWindows.mu.
type counterOutcome struct {
	known   bool
	err     error
	waiting []func(error) // of the same message come again
}

func newCounterWindows(limit int) *counterWindows {
	return &counterWindows{limit: limit, windows: map[RequestID]*counterWindow{}}
}

// enter notes an update and gives the function that is to be called with its outcome instead of done;
// nil when the update must not be counted: then done is, or will be, called.
func (w *counterWindows) enter(id RequestID, done func(error)) func(error) {
	if id.Node == 0 {
		return done
	}
	w.mu.Lock()
	x := w.windowLocked(id)
	o := x.seen[id.Sequence]
	switch {
	case o != nil && !o.known:
		o.waiting = append(o.waiting, done)
		w.mu.Unlock()
		return nil
	case o != nil:
		w.mu.Unlock()
		done(o.err)
		return nil
	case id.Sequence <= x.floor:
		w.mu.Unlock()
		done(ErrNoReply)
		return nil
	}
	o = &counterOutcome{}
	x.seen[id.Sequence] = o
	for len(x.seen) > w.limit {
		x.floor++
		delete(x.seen, x.floor)
	}
	w.mu.Unlock()
	return func(err error) {
		w.mu.Lock()
		o.known, o.err = true, err
		waiting := o.waiting
		o.waiting = nil
		w.mu.Unlock()
		done(err)
		for _, f := range waiting {
			f(err)
		}
	}
}

func (w *counterWindows) windowLocked(id RequestID) *counterWindow {
	id.Sequence = 0
	if n := len(w.recent); n > 0 && w.recent[n-1] == id {
		return w.windows[id]
	}
	if i := slices.Index(w.recent, id); i >= 0 {
		w.recent = append(slices.Delete(w.recent, i, i+1), id)
		return w.windows[id]
	}
	if len(w.recent) == livesKept {
		delete(w.windows, w.recent[0])
		w.recent = slices.Delete(w.recent, 0, 1)
	}
	x := &counterWindow{seen: map[uint64]*counterOutcome{}}
	w.windows[id] = x
	w.recent = append(w.recent, id)
	return x
}
