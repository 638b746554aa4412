package shard

import (
	"slices"
	"sync"

	"cqld/ring"
)

// Windows records the updates that a leader has received, so that a duplicated message counts once. An update whose
// number is older than the recorded ones is refused: it may have been counted.
type Windows struct {
	forgotten error // error for such an update

	mu      sync.Mutex
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
	floor uint64 // updates up to this number are no longer recorded
	seen  map[uint64]*outcome
}

// outcome is the outcome of an update; guarded by Windows.mu.
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
	w.mu.Lock()
	x := w.windowLocked(process)
	o := x.seen[sequence]
	switch {
	case o != nil && !o.known:
		o.waiting = append(o.waiting, done)
		w.mu.Unlock()
		return nil
	case o != nil:
		w.mu.Unlock()
		done(o.err)
		return nil
	case sequence <= x.floor:
		w.mu.Unlock()
		done(w.forgotten)
		return nil
	}
	o = &outcome{}
	x.seen[sequence] = o
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

func (w *Windows) windowLocked(process Process) *window {
	if n := len(w.recent); n > 0 && w.recent[n-1] == process {
		return w.windows[process]
	}
	if i := slices.Index(w.recent, process); i >= 0 {
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
