package shard

import (
	"slices"
	"sync"

	"cqld/internal/invariant"
	"cqld/ring"
)

// Windows records the updates that a leader has received, so that a duplicated message counts once. An update whose
// number is older than the recorded ones is refused: it may have been counted.
type Windows struct {
	forgotten error // error for such an update

	mu sync.Mutex
	// limit bounds the memory of one process: an update that arrives after limit later ones is refused.
	limit   int // updates recorded for each process
	windows map[Process]*window
	recent  []Process // of windows, least recently used first
}

// Process identifies a process of a node, which numbers its updates.
type Process struct {
	Node        ring.NodeID
	Incarnation uint64
}

// processesKept bounds the recorded processes of other nodes: each has up to limit updates. A message does not outlive
// its connection, and a node's next process has new connections.
const processesKept = 64

// window contains the updates of one process.
type window struct {
	// floor rises only as far as the number of recorded updates requires.
	floor uint64 // updates up to this number are no longer recorded
	seen  map[uint64]*outcome
}

// outcome is the outcome of an update. Windows.mu guards it.
type outcome struct {
	known   bool
	err     error
	waiting []func(error) // callbacks of duplicates
}

// NewWindows returns Windows that record limit updates of each process. Older ones receive the error forgotten.
func NewWindows(limit int, forgotten error) *Windows {
	return &Windows{limit: limit, forgotten: forgotten, windows: map[Process]*window{}}
}

// Enter records an update and returns the function to be called with its outcome instead of done. nil means that the
// update must not be counted: then done is, or will be, called. An update with node zero is not recorded: it was not
// sent by message.
func (w *Windows) Enter(process Process, sequence uint64, done func(error)) func(error) {
	if process.Node == 0 {
		return done
	}
	o, first := w.record(process, sequence, done)
	if !first {
		// A duplicate of an update that has ended gets the same outcome at once.
		if o.known {
			done(o.err)
		}
		return nil
	}
	// The callbacks run without mu: they answer other nodes.
	return func(err error) {
		waiting := w.ended(o, err)
		done(err)
		for _, f := range waiting {
			f(err)
		}
	}
}

// record returns the outcome of an update, and whether the update is new. If it is not, and its outcome is not known,
// done waits for it.
func (w *Windows) record(process Process, sequence uint64, done func(error)) (o *outcome, first bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	x := w.windowLocked(process)
	switch o = x.seen[sequence]; {
	// The update is in progress. A new outcome is returned, because ended changes o under the lock.
	case o != nil && !o.known:
		o.waiting = append(o.waiting, done)
		return &outcome{}, false
	case o != nil:
		return o, false
	// The update may have been counted and dropped from the window, so the sender must not conclude that it was not
	// counted.
	case sequence <= x.floor:
		return &outcome{known: true, err: w.forgotten}, false
	}
	o = &outcome{}
	x.seen[sequence] = o
	// Numbers without an update are skipped, because messages may be lost or arrive in another order.
	for len(x.seen) > w.limit {
		x.floor++
		delete(x.seen, x.floor)
	}
	w.checkLocked(x)
	return o, true
}

// ended records the outcome of an update, and returns the callbacks of its duplicates.
func (w *Windows) ended(o *outcome, err error) (waiting []func(error)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	invariant.Check(!o.known, "counter: an update has two outcomes")
	waiting = o.waiting
	*o = outcome{known: true, err: err}
	return waiting
}

// checkLocked stops the program if an update could be counted again, or if a process could use more memory than limit.
func (w *Windows) checkLocked(x *window) {
	invariant.Check(len(w.recent) == len(w.windows) && len(w.recent) <= processesKept,
		"counter: a process is recorded but not bounded")
	if invariant.Enabled {
		for sequence, o := range x.seen {
			invariant.Check(sequence > x.floor, "counter: an update below the window is recorded")
			invariant.Check(!o.known || o.waiting == nil, "counter: a duplicate waits for an outcome that is known")
		}
	}
}

// windowLocked returns the window of a process, which becomes the one used last. A new one may replace the window that
// was used least recently.
func (w *Windows) windowLocked(process Process) *window {
	// The usual case: several updates of one process in a row.
	if n := len(w.recent); n > 0 && w.recent[n-1] == process {
		return w.windows[process]
	}
	if i := slices.Index(w.recent, process); i >= 0 {
		// The process moves to the end, because it is the one used last.
		w.recent = append(slices.Delete(w.recent, i, i+1), process)
		return w.windows[process]
	}
	if len(w.recent) == processesKept {
		delete(w.windows, w.recent[0])
		w.recent = slices.Delete(w.recent, 0, 1)
	}
	x := &window{seen: map[uint64]*outcome{}}
	w.windows[process] = x
	w.recent = append(w.recent, process)
	return x
}
