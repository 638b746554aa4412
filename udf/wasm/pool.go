package wasm

import (
	"container/list"
	"sync"

	"cqld/internal/memory"
)

// Pool contains idle instances of all programs, so that most calls need no new one. Instances are in their initial
// state. It is safe for concurrent use.
type Pool struct {
	// memory is the node's memory for functions; nil means that only most bounds the instances.
	memory *memory.Pool
	most   int64
	pages  *pagemap // nil means that memories are reset as a whole

	mu sync.Mutex
	// idle contains the elements of order by program, longest idle first. Guarded by mu.
	idle map[*Program][]*list.Element
	// order contains the *instance values, longest idle first. Guarded by mu.
	order list.List
	// bytes is the sum of instance.idle. Guarded by mu.
	bytes int64
}

// NewPool returns an empty Pool of at most the given bytes, which are reserved in m.
func NewPool(m *memory.Pool, most int64) *Pool {
	return &Pool{memory: m, most: most, pages: openPagemap(), idle: map[*Program][]*list.Element{}}
}

// take returns an idle instance, or nil.
func (l *Pool) take(p *Program) *instance {
	l.mu.Lock()
	defer l.mu.Unlock()
	idle := l.idle[p]
	if len(idle) == 0 {
		return nil
	}
	// Take the most recently used instance, so that surplus ones age and are evicted.
	return l.remove(p, len(idle)-1)
}

// remove removes an idle instance of p. The caller holds mu.
func (l *Pool) remove(p *Program, n int) *instance {
	idle := l.idle[p]
	i, _ := l.order.Remove(idle[n]).(*instance)
	l.bytes -= i.idle
	// The slice is short: a program has few idle instances.
	if l.idle[p] = append(idle[:n], idle[n+1:]...); len(idle) == 1 {
		delete(l.idle, p)
	}
	return i
}

// put adds an instance in its initial state to the pool if there is memory for it, and evicts those that have been
// idle longest.
func (l *Pool) put(i *instance) {
	i.idle = i.bytes()
	// Idle memory counts for the node, too. If there is none left, drop the instance.
	if l.memory != nil {
		var ok bool
		if i.held, ok = l.memory.Reserve(i.idle); !ok {
			i.held = memory.Held{}
			i.close()
			return
		}
	}
	var dropped []*instance
	l.mu.Lock()
	l.idle[i.p] = append(l.idle[i.p], l.order.PushBack(i))
	// The new instance itself is dropped if it alone is too large.
	for l.bytes += i.idle; l.bytes > l.most; {
		oldest, _ := l.order.Front().Value.(*instance)
		dropped = append(dropped, l.remove(oldest.p, 0)) // the oldest of a program is its first
	}
	// Close instances without the lock, because it takes time.
	l.mu.Unlock()
	l.close(dropped)
}

// close closes instances that are no longer in the pool.
func (l *Pool) close(all []*instance) {
	for _, i := range all {
		i.close()
		l.unreserve(i)
	}
}

// unreserve returns what an instance has reserved for the time in which it was idle.
func (l *Pool) unreserve(i *instance) {
	if l.memory != nil {
		l.memory.Return(i.held)
		i.held = memory.Held{}
	}
}

// Clear closes all idle instances.
func (l *Pool) Clear() {
	// A shortage of memory calls it, while calls run: instances in use are not in the pool.
	var dropped []*instance
	l.mu.Lock()
	for l.order.Len() > 0 {
		oldest, _ := l.order.Front().Value.(*instance)
		dropped = append(dropped, l.remove(oldest.p, 0))
	}
	l.mu.Unlock()
	l.close(dropped)
}

// Forget closes the idle instances of a program.
func (l *Pool) Forget(p *Program) {
	var dropped []*instance
	l.mu.Lock()
	for len(l.idle[p]) > 0 {
		dropped = append(dropped, l.remove(p, 0))
	}
	l.mu.Unlock()
	l.close(dropped)
}

// Idle returns the number of idle instances and the bytes that they count as.
func (l *Pool) Idle() (instances int, bytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.order.Len(), l.bytes
}
