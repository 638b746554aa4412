package output

import "time"

// Holding describes the answers that a queue holds. It is a copy of the state at the time of the call.
type Holding struct {
	Held     bool      // answers are held; they no longer are when they take too much memory
	Since    time.Time // when the oldest answer was held; zero if none is
	Released time.Time // when held answers were last sent; zero if none were
}

// Hold keeps pending and later envelopes until Serve, Release or Close. A second call restarts the age of the held
// envelopes.
func (q *Queue) Hold() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.mu.held, q.mu.since = !q.mu.closed && !q.mu.broken, time.Now()
}

// Release writes the answers that have been held for age or longer. Later ones are held again. It bounds how long a
// client waits for an answer while the server drains.
func (q *Queue) Release(age time.Duration) {
	q.mu.Lock()
	now := time.Now()
	// due applies to the answers that are pending now; flush clears it when it takes them.
	q.mu.due = q.mu.held && len(q.mu.pending) > 0 && now.Sub(q.mu.since) >= age
	start := false
	if q.mu.due {
		q.mu.released = now
		start = q.startLocked()
	}
	q.mu.Unlock()
	if start {
		go q.run()
	}
}

// Serve undoes Hold, and writes the answers that are held.
func (q *Queue) Serve() {
	q.mu.Lock()
	q.mu.held = false
	start := q.startLocked()
	q.mu.Unlock()
	if start {
		go q.run()
	}
}

// Holding returns which answers are held.
func (q *Queue) Holding() Holding {
	q.mu.Lock()
	defer q.mu.Unlock()
	h := Holding{Held: q.mu.held, Since: q.mu.since, Released: q.mu.released}
	if len(q.mu.pending) == 0 {
		h.Since = time.Time{}
	}
	return h
}
