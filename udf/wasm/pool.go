package wasm

import (
	"container/list"
	"runtime"
	"sync"
)

// Pool contains idle instances of all programs, so that most calls need no new one. Instances are in their initial state. It also bounds
// the large calls that run at once. It is safe for concurrent use.
type Pool struct {
	large chan struct{} // holds an element for each large call

	mu    sync.Mutex
	idle  map[*Program][]*list.Element // guarded by mu
	order list.List                    // of *instance, longest idle first; guarded by mu
	bytes int64                        // guarded by mu
}

// NewPool returns an empty Pool.
func NewPool() *Pool {
	return &Pool{large: make(chan struct{}, max(largeCallsMin, runtime.GOMAXPROCS(0))), idle: map[*Program][]*list.Element{}}
}

// take returns an idle instance, or nil.
func (l *Pool) take(p *Program) *instance {
	l.mu.Lock()
	defer l.mu.Unlock()
	idle := l.idle[p]
	if len(idle) == 0 {
		return nil
	}
	return l.remove(p, len(idle)-1)
}

// remove removes an idle instance of p. It is called with mu.
func (l *Pool) remove(p *Program, n int) *instance {
	idle := l.idle[p]
	i, _ := l.order.Remove(idle[n]).(*instance)
	l.bytes -= i.bytes()
	if l.idle[p] = append(idle[:n], idle[n+1:]...); len(idle) == 1 {
		delete(l.idle, p)
	}
	return i
}

// put keeps an instance that is in its initial state, in place of those that have been idle longest.
func (l *Pool) put(i *instance) {
	var dropped []*instance
	l.mu.Lock()
	l.idle[i.p] = append(l.idle[i.p], l.order.PushBack(i))
	for l.bytes += i.bytes(); l.bytes > idleBytesMax; {
		oldest, _ := l.order.Front().Value.(*instance)
		dropped = append(dropped, l.remove(oldest.p, 0)) // the oldest of a program is its first
	}
	l.mu.Unlock()
	for _, i := range dropped {
		i.close()
	}
}

// Forget closes the idle instances of a program.
func (l *Pool) Forget(p *Program) {
	var dropped []*instance
	l.mu.Lock()
	for len(l.idle[p]) > 0 {
		dropped = append(dropped, l.remove(p, 0))
	}
	l.mu.Unlock()
	for _, i := range dropped {
		i.close()
	}
}

// Idle returns the number of idle instances and the bytes that they count as.
func (l *Pool) Idle() (instances int, bytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.order.Len(), l.bytes
}
