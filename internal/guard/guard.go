// Package guard ends the request whose code panics, and keeps the process running.
//
// A panic, also of a broken invariant (package invariant), is a defect of this program. Its scope depends on
// the state that the panicking code may have left inconsistent:
//
//   - State of one request: the request ends with an error, its connection ends as well if the connection's own state
//     may be inconsistent, and everything else continues. These are the CQL connection goroutines (package server), the
//     requests of Tables (package azuretables), the statements, conditions, functions and filters that they evaluate
//     (packages query and azuretables/entity), the operations of the coordinator, the handlers of other nodes' requests
//     to a replica, the callbacks of timers and replies, control operations, and background jobs that can be repeated.
//   - State of the whole node: the node stops. These are the commit path of package storage, from the queue of groups
//     to Pebble, the loop that owns Raft and the handlers of its messages (package cluster), and the loops that accept
//     clients. Their state is unknown after a panic, and a restart recovers it from the disk.
//
// The simulation and tests have no Guard: there, a panic ends the program, so that it is noticed.
package guard

import (
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
)

// PanicError is the error of a request whose code panicked. Clients see its message, which therefore does not contain
// the panic value: that is logged with the stack.
type PanicError struct{ Where string }

// Error returns a message that names the part of the program that panicked.
func (e *PanicError) Error() string {
	return "internal error in " + e.Where + ": the request ended with a panic, which this node has logged"
}

// Guard logs and counts panics. A nil *Guard recovers from nothing. It is safe for concurrent use.
type Guard struct {
	log *slog.Logger

	mu     sync.Mutex
	counts map[string]int64 // by place
}

// New returns a Guard that logs to log.
func New(log *slog.Logger) *Guard {
	return &Guard{log: log, counts: map[string]int64{}}
}

// stacksLogged is the number of panics of one place that are all logged with their stacks. After that, one in
// stacksEvery is: clients that have found a way to make requests panic must not fill the disk.
const (
	stacksLogged = 100
	stacksEvery  = 1000
)

// Recover is deferred by code that may panic. It recovers from the panic, logs and counts it, and passes its error to
// fail, which may be nil. where is one of a fixed set of names.
func (g *Guard) Recover(where string, fail func(error)) {
	if g == nil {
		return
	}
	if p := recover(); p != nil {
		err := g.Caught(where, p)
		if fail != nil {
			fail(err)
		}
	}
}

// Do calls f, and returns the error of its panic, or nil if f did not panic.
func (g *Guard) Do(where string, f func()) (err error) {
	defer g.Recover(where, func(e error) { err = e })
	f()
	return nil
}

// Caught logs and counts a panic that a deferred function has recovered, and returns its error. g must not be nil.
func (g *Guard) Caught(where string, value any) error {
	g.mu.Lock()
	g.counts[where]++
	n := g.counts[where]
	g.mu.Unlock()
	if n <= stacksLogged || n%stacksEvery == 0 {
		g.log.Error("request panicked", "where", where, "panic", fmt.Sprint(value), "count", n, "stack",
			string(debug.Stack()))
	}
	return &PanicError{Where: where}
}

// Counts returns the number of panics since the start, by place.
func (g *Guard) Counts() map[string]int64 {
	out := map[string]int64{}
	if g == nil {
		return out
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for where, n := range g.counts {
		out[where] = n
	}
	return out
}
