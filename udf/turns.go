package udf

import (
	"context"
	"slices"
	"sync"
)

// turns lets one request at a time compile a module, so that others keep their processors. Owners, which are roles,
// take turns: a role that creates many functions delays another role by only one compilation. Invariants: busy is
// false only if no request waits, and order has exactly the owners in queues.
type turns struct {
	mu   sync.Mutex
	busy bool // guarded by mu
	// queues contains the waiting requests of each owner in order of arrival. A request's channel is closed when its
	// turn comes. Guarded by mu.
	queues map[string][]chan struct{}
	// order contains the owners in queues once each, the next one first. Guarded by mu.
	order []string
}

// wait returns when it is the caller's turn, or ctx ends. After a nil error the caller has the turn and must call
// next when it is done.
func (t *turns) wait(ctx context.Context, owner string) error {
	t.mu.Lock()
	// No compilation runs, so no request waits (see the invariants).
	if !t.busy {
		t.busy = true
		t.mu.Unlock()
		return nil
	}
	// next closes it. Nothing is sent, so a request that has left blocks no one.
	turn := make(chan struct{})
	if t.queues == nil {
		t.queues = map[string][]chan struct{}{}
	}
	// An owner is in order once, however many of its requests wait.
	if len(t.queues[owner]) == 0 {
		t.order = append(t.order, owner)
	}
	t.queues[owner] = append(t.queues[owner], turn)
	t.mu.Unlock()
	select {
	case <-turn:
		return nil
	// The turn may have come at the same time, which leave reports.
	case <-ctx.Done():
	}
	if !t.leave(owner, turn) {
		t.next() // its turn has just come
	}
	return ctx.Err()
}

// leave removes a request that waits. It returns false if the request has its turn already. It is for a request whose
// context has ended.
func (t *turns) leave(owner string, turn chan struct{}) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.Index(t.queues[owner], turn)
	if i < 0 {
		return false
	}
	// The last request of the owner has left, and so has the owner.
	if t.queues[owner] = slices.Delete(t.queues[owner], i, i+1); len(t.queues[owner]) == 0 {
		delete(t.queues, owner)
		t.order = slices.DeleteFunc(t.order, func(o string) bool { return o == owner })
	}
	return true
}

// next ends a turn. The request that has the turn must call it exactly once.
func (t *turns) next() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.order) == 0 {
		t.busy = false
		return
	}
	// busy stays set: the turn passes to the next request.
	owner := t.order[0]
	t.order = t.order[1:]
	close(t.queues[owner][0])
	if t.queues[owner] = t.queues[owner][1:]; len(t.queues[owner]) > 0 {
		// The owner has more requests: it comes after all others.
		t.order = append(t.order, owner)
	} else {
		delete(t.queues, owner)
	}
}
