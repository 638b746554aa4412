package shard

import (
	"slices"
	"sync"

	"cqld/ring"
)

// Windows remember which updates a leader was asked for, so that a message that comes twice
// counts once. A name that is too old to be remembered is refused: it may have been counted.
type Windows struct {
	forgotten error // tells that

	mu      sync.Mutex
	limit   int // names kept for each life of a node
	windows map[Life]*window
	recent  []Life // of windows, least recently used first
}

// Life is one process of a node: it numbers its updates.
type Life struct {
	Node        ring.NodeID
	Incarnation uint64
}

// livesKept is how many lives of other nodes are remembered: each holds up to limit names,
// and a message does not outlive a connection, which a node's next life has anew.
const livesKept = 64

// window is the names of one life of a node.
type window struct {
	floor uint64 // names up to here are forgotten
	seen  map[uint64]*outcome
}

// outcome is what became of an update; guarded by Windows.mu.
type outcome struct {
	known   bool
	err     error
	waiting []func(error) // of the same message come again
}

// NewWindows keeps limit names of each life; forgotten is told of those before.
func NewWindows(limit int, forgotten error) *Windows {
	return &Windows{limit: limit, forgotten: forgotten, windows: map[Life]*window{}}
}

// Enter notes an update and gives the function that is to be called with its outcome instead of done;
// nil when the update must not be counted: then done is, or will be, called. Node zero is no name: the update did
// not travel.
func (w *Windows) Enter(life Life, sequence uint64, done func(error)) func(error) {
	if life.Node == 0 {
		return done
	}
	w.mu.Lock()
	x := w.windowLocked(life)
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

func (w *Windows) windowLocked(life Life) *window {
	if n := len(w.recent); n > 0 && w.recent[n-1] == life {
		return w.windows[life]
	}
	if i := slices.Index(w.recent, life); i >= 0 {
		w.recent = append(slices.Delete(w.recent, i, i+1), life)
		return w.windows[life]
	}
	if len(w.recent) == livesKept {
		delete(w.windows, w.recent[0])
		w.recent = slices.Delete(w.recent, 0, 1)
	}
	x := &window{seen: map[uint64]*outcome{}}
	w.windows[life] = x
	w.recent = append(w.recent, life)
	return x
}
